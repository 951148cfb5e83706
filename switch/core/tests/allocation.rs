//! No allocation per frame: all memory is reserved when the switch is made.
#![allow(clippy::unwrap_used)]

use plimsoll_classify::Class;
use plimsoll_core::{
    Counter, Departure, DepthScope, EcnConfig, EcnOutcome, EcnScope, Ect, Egress, FrameId, MarkConfig,
    MarkOutcome, Nanos, Pool, PortConfig, PortId, Rate, Switch, SwitchConfig, wire::ethernet::TAG_LEN,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

mod common;

use common::Packet;

/// Counts what is asked of the system's allocator.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CHUNK: usize = 2048;

/// Chunks as an UMEM has them, and a free list.
struct Chunks {
    memory: Vec<u8>,
    lens: Vec<usize>,
    free: Vec<FrameId>,
}

impl Chunks {
    fn new(count: usize) -> Self {
        let free = (0..count as u32).map(FrameId).collect();
        Self { memory: vec![0; count * CHUNK], lens: vec![0; count], free }
    }

    fn put(&mut self, octets: &[u8]) -> FrameId {
        let frame = self.free.pop().unwrap();
        self.lens[frame.0 as usize] = octets.len();
        self.bytes_mut(frame).copy_from_slice(octets);
        frame
    }
}

impl Pool for Chunks {
    fn bytes(&self, frame: FrameId) -> &[u8] {
        &self.memory[frame.0 as usize * CHUNK..][..self.lens[frame.0 as usize]]
    }

    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        &mut self.memory[frame.0 as usize * CHUNK..][..self.lens[frame.0 as usize]]
    }

    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        let copy = self.free.pop()?;
        let from = frame.0 as usize * CHUNK;
        self.memory.copy_within(from..from + self.lens[frame.0 as usize], copy.0 as usize * CHUNK);
        self.lens[copy.0 as usize] = self.lens[frame.0 as usize];
        Some(copy)
    }

    fn grow(&mut self, frame: FrameId) -> bool {
        let (at, len) = (frame.0 as usize * CHUNK, self.lens[frame.0 as usize]);
        self.memory.copy_within(at..at + len, at + TAG_LEN);
        self.lens[frame.0 as usize] += TAG_LEN;
        true
    }

    fn shrink(&mut self, frame: FrameId) {
        let (at, len) = (frame.0 as usize * CHUNK, self.lens[frame.0 as usize]);
        self.memory.copy_within(at + TAG_LEN..at + len, at);
        self.lens[frame.0 as usize] -= TAG_LEN;
    }

    fn free(&mut self, frame: FrameId) {
        self.free.push(frame);
    }
}

#[derive(Default)]
struct Gone(Vec<FrameId>);

impl Egress for Gone {
    fn depart(&mut self, departure: &Departure) {
        self.0.push(departure.frame);
    }
}

fn switch(change: impl Fn(&mut PortConfig)) -> Switch {
    let mark = MarkConfig { counter_max: 1000, ..MarkConfig::new(32, 12_000_000) };
    let port = |name: &str| {
        let mut port = PortConfig {
            rate: Some(Rate(100_000_000)),
            mark: Some(mark),
            edge: name == "c",
            queue_frames: Some(200),
            ..PortConfig::new(name)
        };
        change(&mut port);
        port
    };
    Switch::new(SwitchConfig {
        ports: vec![port("a"), port("b"), port("c"), PortConfig::new("d")],
        fdb_capacity: 16,
        fdb_age: Nanos(5_000_000),
        ..Default::default()
    })
    .unwrap()
}

/// Alone in its file: another test's thread would be counted too.
#[test]
fn steady_state_allocates_nothing() {
    let ecn = EcnConfig { threshold_ps: 12_000_000, scope: EcnScope::All };
    let mut classical = switch(|port| {
        (port.ecn, port.remark) = (Some(ecn), Some(Ect::Zero));
        port.quanta = vec![60, 1500, 9000];
        port.depth.scope = DepthScope::Queue;
    });
    let mut counting = switch(|port| {
        port.edge = false;
        port.mark.as_mut().unwrap().counter = Counter::ShiftBoth;
        port.mark.as_mut().unwrap().carriers.ecn = true;
    });
    let mut pool = Chunks::new(4096);
    let mut gone = Gone(Vec::with_capacity(4096));
    let station = common::station;
    // Known, unknown, flooded, marked and malformed frames, new addresses beyond the capacity, overload and drops.
    let frames: Vec<(u16, Vec<u8>, Class)> = (0..=255u8)
        .map(|n| {
            let octets = match n % 8 {
                0 => common::ptp(station(0), station(1), common::Carrier::Udp4, n / 8 % 4, 0, 0),
                1 => common::ptp(station(0), [0x01, 0x1B, 0x19, 0, 0, 0], common::Carrier::Ethernet, 0, 0, 0),
                2 => common::plain(station(n), [0xFF; 6], None, 1514),
                3 => common::plain(station(1), station(0), Some(u16::from(n) << 8), 700),
                4 if n < 128 => vec![n; 10],
                4 => {
                    let request = [common::ntp(4, 3), common::ntp_field(0)].concat();
                    let packet = Packet { v6: n % 16 == 4, tos: n, ..Packet::default() };
                    packet.udp(station(0), station(1), 123, &request)
                }
                5 => common::ptp(station(0), station(2), common::Carrier::Udp6, 1, 0, 0),
                _ => Packet { tos: n, ..Packet::default() }.udp(station(0), station(1), 5001, &[7; 1400]),
            };
            let info = common::classified(&octets);
            (u16::from(n % 8 == 3), octets, info)
        })
        .collect();
    let mut now = 0;
    let mut round = |switch: &mut Switch| {
        for (port, octets, info) in &frames {
            now += 40_000;
            let frame = pool.put(octets);
            switch.receive(PortId(*port), frame, info, Nanos(now), &mut pool, &mut gone);
            switch.advance(Nanos(now), &mut gone);
            gone.0.drain(..).for_each(|frame| pool.free(frame));
        }
    };
    // Not even the first round allocates: nothing has to warm up.
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for switch in [&mut classical, &mut counting] {
        for _ in 0..100 {
            round(switch);
        }
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    for switch in [classical, counting] {
        let stats = switch.stats();
        let port = &stats.ports[1];
        assert!(port.drops.total() > 0 && port.mark.get(MarkOutcome::Marked) > 0);
        assert!(port.ecn.get(EcnOutcome::Marked) > 0, "{:?}", port.ecn);
        assert!(stats.fdb.refused > 0 && stats.fdb.aged > 0, "{:?}", stats.fdb);
    }
}
