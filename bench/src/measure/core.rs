//! The core alone, in memory: what a frame costs from `receive` until its departure.

use crate::{
    cpu_time::own_ns,
    frames::{ETHERTYPE_BULK, ETHERTYPE_PTP, SHORTEST, sync},
    memory::{BURST, RECEIVER, SENDER, Stream},
    report::{Asked, Row},
};
use anyhow::Result;
use plimsoll_core::{MarkConfig, PortConfig, Rate, SwitchConfig};

const GROUP: &str = "core";
/// The target for one frame.
const TARGET_NS: f64 = 80.0;

/// One way of using the core.
struct Case {
    what: &'static str,
    ports: usize,
    rate: Option<Rate>,
    mark: bool,
    /// Whether all classes share the link by deficit round robin.
    in_rounds: bool,
    ethertype: u16,
    /// To an address behind port 1, else to all.
    unicast: bool,
    /// Frames that depart for each that is received.
    copies: u64,
}

const CASES: [Case; 5] = [
    Case {
        what: "unicast 60 B, no rate",
        ports: 2,
        rate: None,
        mark: false,
        in_rounds: false,
        ethertype: ETHERTYPE_BULK,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "unicast 60 B, shaped, marks on",
        ports: 2,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        in_rounds: false,
        ethertype: ETHERTYPE_BULK,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "unicast 60 B Sync, shaped, every frame marked",
        ports: 2,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        in_rounds: false,
        ethertype: ETHERTYPE_PTP,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "unicast 60 B, shaped, deficit round robin",
        ports: 2,
        rate: Some(Rate(1_000_000_000)),
        mark: false,
        in_rounds: true,
        ethertype: ETHERTYPE_BULK,
        unicast: true,
        copies: 1,
    },
    Case {
        what: "flood 60 B, 4 ports, shaped: per copy",
        ports: 4,
        rate: Some(Rate(1_000_000_000)),
        mark: true,
        in_rounds: false,
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
    let mark = MarkConfig { counter_max: 1 << 20, ..MarkConfig::new(32, 1_000_000) };
    let port = |number| PortConfig {
        rate: case.rate,
        mark: case.mark.then_some(mark),
        quanta: if case.in_rounds { vec![1538; 8] } else { Vec::new() },
        trust: true,
        ..PortConfig::new(format!("p{number}"))
    };
    let config = SwitchConfig { ports: (0..case.ports).map(port).collect(), ..SwitchConfig::default() };
    let destination = if case.unicast { RECEIVER } else { [0xFF; 6] };
    let frame = sync(destination, SENDER, case.ethertype, SHORTEST, 0);
    let stream = Stream { config: &config, frame: &frame, copies: case.copies, standing: true, burst };
    let done = stream.run(frames, own_ns)?;
    Ok((done.spent_ns as f64 / (frames * case.copies) as f64, done.marked as f64 / frames as f64))
}
