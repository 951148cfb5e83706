//! The core alone, in memory: what a frame costs from `receive` until its departure.

use crate::{
    frames::{ETHERTYPE_BULK, ETHERTYPE_PTP, sync},
    report::{Asked, Row},
};
use anyhow::Result;
use plimsoll_classify::{Class, WINDOW, classify};
use plimsoll_core::{
    Departure, Egress, FrameId, MarkConfig, MarkOutcome, Nanos, Pool, PortConfig, PortId, Rate, Switch,
    SwitchConfig,
};
use rustix::time::{ClockId, clock_gettime};

const GROUP: &str = "core";
/// The target for one frame.
const TARGET_NS: f64 = 80.0;
/// Chunks of the pool: 4 MiB, so that frames are not all in the first-level cache, as in the switch.
const CHUNKS: u32 = 2048;
const CHUNK: usize = 2048;
const LEN: u32 = 60;
/// Frames taken between two runs of the links: the worker's burst.
const BURST: u64 = 32;
/// Wire time of a shortest frame at the rate used, ns: 84 octets at 1 Gbit/s.
const WIRE_NS: u64 = 672;

/// Frames in plain memory.
struct Memory {
    chunks: Vec<[u8; CHUNK]>,
    lens: Vec<u32>,
    free: Vec<FrameId>,
}

impl Memory {
    fn new() -> Self {
        Self {
            chunks: vec![[0; CHUNK]; CHUNKS as usize],
            lens: vec![0; CHUNKS as usize],
            free: (0..CHUNKS).rev().map(FrameId).collect(),
        }
    }

    fn take(&mut self, len: u32) -> Option<FrameId> {
        let id = self.free.pop()?;
        self.lens[id.0 as usize] = len;
        Some(id)
    }
}

impl Pool for Memory {
    fn bytes(&self, frame: FrameId) -> &[u8] {
        &self.chunks[frame.0 as usize][..self.lens[frame.0 as usize] as usize]
    }

    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        &mut self.chunks[frame.0 as usize][..self.lens[frame.0 as usize] as usize]
    }

    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        let len = self.lens[frame.0 as usize];
        let id = self.take(len)?;
        let octets = self.chunks[frame.0 as usize];
        self.chunks[id.0 as usize][..len as usize].copy_from_slice(&octets[..len as usize]);
        Some(id)
    }

    fn free(&mut self, frame: FrameId) {
        self.free.push(frame);
    }
}

/// Where departures go: as the worker does, they are kept until the burst is over.
#[derive(Default)]
struct Line {
    departed: Vec<Departure>,
    marked: u64,
}

impl Egress for Line {
    fn depart(&mut self, departure: Departure) {
        self.marked += u64::from(departure.mark.outcome == MarkOutcome::Marked);
        self.departed.push(departure);
    }
}

/// One way of using the core.
struct Case {
    what: &'static str,
    ports: usize,
    rate: Option<Rate>,
    mark: bool,
    ethertype: u16,
    /// To an address behind port 1, else to all.
    unicast: bool,
    /// Frames that depart for each that is received.
    copies: u64,
}

const CASES: [Case; 4] = [
    Case {
        what: "unicast 60 B, no rate",
        ports: 2,
        rate: None,
        mark: false,
        ethertype: ETHERTYPE_BULK,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "unicast 60 B, shaped, marks on",
        ports: 2,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        ethertype: ETHERTYPE_BULK,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "unicast 60 B Sync, shaped, every frame marked",
        ports: 2,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        ethertype: ETHERTYPE_PTP,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "flood 60 B, 4 ports, shaped: per copy",
        ports: 4,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        ethertype: ETHERTYPE_BULK,
        unicast: false,
        copies: 3,
    },
];

/// Measures with `frames` frames a round.
pub(crate) fn measure(rounds: usize, frames: u64) -> Result<Vec<Row>> {
    let mut single = vec![Vec::new(); CASES.len()];
    let mut burst = vec![Vec::new(); CASES.len()];
    let mut marked = vec![1.0; CASES.len()];
    for _ in 0..rounds {
        for (number, case) in CASES.iter().enumerate() {
            let (ns, share) = run(case, frames, 1)?;
            single[number].push(ns);
            burst[number].push(run(case, frames, BURST)?.0);
            marked[number] = share;
        }
    }
    let mut rows = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let void = case.ethertype == ETHERTYPE_PTP && marked[number] < 0.99;
        let by = |each: &str| format!("{}, {each}", case.what);
        let row = |what: String, rounds: &[f64]| {
            Row::new(GROUP, what, "ns", Asked::AtMost(TARGET_NS), rounds.to_vec())
                .void_if(void, "not every frame was marked")
        };
        rows.push(row(by("links run each frame"), &single[number]));
        rows.push(row(by("links run each 32 frames"), &burst[number]));
    }
    Ok(rows)
}

/// Nanoseconds a frame (copy), and the share of frames that were marked.
fn run(case: &Case, frames: u64, burst: u64) -> Result<(f64, f64)> {
    let (from, to) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mark = MarkConfig { counter_max: 1 << 20, ..MarkConfig::new(32, 1_000_000) };
    let port = |number| PortConfig {
        rate: case.rate,
        mark: case.mark.then_some(mark),
        trust: true,
        ..PortConfig::new(format!("p{number}"))
    };
    let config = SwitchConfig { ports: (0..case.ports).map(port).collect(), ..SwitchConfig::default() };
    let mut switch = Switch::new(config)?;
    let (mut pool, mut line) = (Memory::new(), Line::default());
    let destination = if case.unicast { to } else { [0xFF; 6] };
    let octets = sync(destination, from, case.ethertype, LEN, 0);
    let info = class_of(&octets);

    // The switch learns both stations, and gets a standing queue of some 10 frames: something to mark.
    let mut now = Nanos(1_000_000);
    let give = |switch: &mut Switch, pool: &mut Memory, line: &mut Line, port, octets: &[u8], at| {
        let Some(frame) = pool.take(LEN) else { return };
        pool.bytes_mut(frame).copy_from_slice(octets);
        switch.receive(PortId(port), frame, &class_of(octets), at, pool, line);
    };
    give(&mut switch, &mut pool, &mut line, 1, &sync([0xFF; 6], to, ETHERTYPE_BULK, LEN, 0), now);
    for _ in 0..BURST {
        give(&mut switch, &mut pool, &mut line, 0, &octets, now);
    }
    line.departed.clear();

    let mut departed = 0;
    line.marked = 0;
    let start = cpu_time_ns();
    for number in 0..frames {
        now = now + WIRE_NS;
        let Some(frame) = pool.take(LEN) else { break };
        // What the kernel's copy does, the measurement's own cost included.
        pool.bytes_mut(frame).copy_from_slice(&octets);
        switch.receive(PortId(0), frame, &info, now, &mut pool, &mut line);
        if number % burst == burst - 1 {
            switch.advance(now, &mut line);
            departed += line.departed.len() as u64;
            for departure in line.departed.drain(..) {
                pool.free(departure.frame);
            }
        }
    }
    let spent = (cpu_time_ns() - start) as f64;
    let lost = switch.stats().ports.iter().map(|port| port.drops.total()).sum::<u64>();
    anyhow::ensure!(
        lost == 0 && departed >= frames * case.copies - 4 * BURST * case.copies,
        "frames were lost"
    );
    Ok((spent / (frames * case.copies) as f64, line.marked as f64 / frames as f64))
}

/// What this thread has had of its CPU: what else runs there meanwhile does not count.
fn cpu_time_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn class_of(octets: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    window[..octets.len()].copy_from_slice(octets);
    classify(&window, octets.len() as u32)
}
