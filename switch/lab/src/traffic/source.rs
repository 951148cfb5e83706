//! Sends a flow: each frame at its instant or, where the machine was late, as soon after as it can, in order. Where the
//! machine stood still for longer (a hypervisor's doing), so did the flow: what follows is sent that much later. To catch
//! up would make a burst that no schedule has in it, and one such burst decides the rms of a clock beside it.

use super::{
    FlowSpec, LatencySummary, Schedule, SizeBounds, TrafficError,
    payload::{Header, flow_number},
};
use hdrhistogram::Histogram;
use plimsoll_core::Rate;
use rustix::{
    io::Errno,
    net::sockopt::{set_ip_tos, set_ipv6_tclass},
    thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack},
    time::{Timespec, clock_gettime},
};
use serde::Serialize;
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering},
};

/// Longest sleep before the stop flag is looked at again.
const NAP_NS: u64 = 50_000_000;
/// Lateness that is caught up with; beyond it the schedule moves: 500 us.
const CATCH_UP_NS: u64 = 500_000;
/// A lateness beyond this is recorded as this.
const LATEST_NS: u64 = 60_000_000_000;

/// One end of a flow: the one that sends.
#[derive(Debug)]
pub struct Source {
    spec: FlowSpec,
    target: SocketAddr,
    bounds: SizeBounds,
    socket: UdpSocket,
}

/// What a source sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceReport {
    /// The flow's name.
    pub name: String,
    /// Packets that the kernel took.
    pub frames: u64,
    /// Their octets on the wire.
    pub wire_octets: u64,
    /// How long the source ran.
    pub duration_ns: u64,
    /// Bits per second on the wire between the first and the last packet, as a sink counts; 0 with fewer than two.
    pub offered_bps: f64,
    /// Packets that the kernel refused (no neighbour, no buffer); they count as never sent.
    pub refused: u64,
    /// How late each packet was handed to the kernel.
    pub late: LatencySummary,
    /// How often the machine stood still, so that the schedule moved.
    pub stalls: u64,
    /// By how much it moved altogether.
    pub stalled_ns: u64,
}

impl Source {
    /// Opens the sending end in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`TrafficError`] where the flow cannot be followed or the system refuses the socket.
    pub fn open(spec: FlowSpec, target: SocketAddr) -> Result<Self, TrafficError> {
        let bounds = spec.bounds(target)?;
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let fail = |call, source| TrafficError::Call {
            flow: spec.name.clone(),
            address: target.to_string(),
            call,
            remedy: "check the host's address and route to the target",
            source,
        };
        let socket = UdpSocket::bind(any).map_err(|e| fail("bind", e))?;
        let octet = spec.dscp << 2;
        let (call, set) = match target {
            SocketAddr::V4(_) => ("setsockopt IP_TOS", set_ip_tos(&socket, octet)),
            SocketAddr::V6(_) => ("setsockopt IPV6_TCLASS", set_ipv6_tclass(&socket, octet.into())),
        };
        set.map_err(|e| fail(call, e.into()))?;
        socket.connect(target).map_err(|e| fail("connect", e))?;
        Ok(Self { spec, target, bounds, socket })
    }

    /// Sends until `stop` is set. The calling thread's timer slack becomes 1 ns.
    ///
    /// # Errors
    /// [`TrafficError::Call`] where the way to the target is gone (no route, interface down, no permission).
    pub fn run(&mut self, stop: &AtomicBool) -> Result<SourceReport, TrafficError> {
        // Without this every sleep is up to 50 us longer (prctl(2), PR_SET_TIMERSLACK).
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut schedule = Schedule::new(&self.spec, self.bounds);
        let mut late = histogram(LATEST_NS);
        let mut packet = vec![0; self.bounds.payload(self.bounds.max)];
        let mut header = Header { flow: flow_number(&self.spec.name), sequence: 0, sent: 0 };
        let (mut frames, mut wire_octets, mut refused) = (0, 0, 0);
        let (mut stalls, mut stalled_ns) = (0, 0);
        // When the first packet was due and its octets; when the last one was.
        let (mut first, mut last) = (None, 0);
        let start = now(ClockId::Monotonic);
        loop {
            let due = schedule.next_due();
            let at = start + stalled_ns + due.at_ns;
            if !sleep_until(at, stop) {
                break;
            }
            let late_ns = now(ClockId::Monotonic).saturating_sub(at);
            late.saturating_record(late_ns);
            if late_ns > CATCH_UP_NS {
                stalls += 1;
                stalled_ns += late_ns;
            }
            header.sent = now(ClockId::Realtime);
            header.write(&mut packet);
            if self.send(&packet[..self.bounds.payload(due.wire)])? {
                header.sequence = header.sequence.wrapping_add(1);
                frames += 1;
                wire_octets += u64::from(due.wire);
                first.get_or_insert((at, u64::from(due.wire)));
                last = at;
            } else {
                refused += 1;
            }
        }
        let duration_ns = now(ClockId::Monotonic) - start;
        let offered_bps = first
            .filter(|(at, _)| *at < last)
            .map_or(0.0, |(at, octets)| (wire_octets - octets) as f64 * 8e9 / (last - at) as f64);
        Ok(SourceReport {
            name: self.spec.name.clone(),
            frames,
            wire_octets,
            duration_ns,
            offered_bps,
            refused,
            late: LatencySummary::of(&late),
            stalls,
            stalled_ns,
        })
    }

    /// The rate that was asked for.
    pub const fn rate(&self) -> Rate {
        self.spec.rate
    }

    /// Whether the kernel took the packet; an error only where no later one would fare better.
    fn send(&self, packet: &[u8]) -> Result<bool, TrafficError> {
        loop {
            let Err(error) = self.socket.send(packet) else { return Ok(true) };
            match Errno::from_io_error(&error) {
                // An earlier packet was answered with "port unreachable"; this one was not sent yet.
                Some(Errno::CONNREFUSED | Errno::INTR) => {}
                Some(Errno::NOBUFS | Errno::AGAIN | Errno::HOSTUNREACH) => return Ok(false),
                _ => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, source: io::Error) -> TrafficError {
        TrafficError::Call {
            flow: self.spec.name.clone(),
            address: self.target.to_string(),
            call: "send",
            remedy: "check that the host's interface is up and has a route to the target",
            source,
        }
    }
}

/// For times from sending to receiving, ns.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    histogram(LATEST_NS)
}

pub(super) fn histogram(most: u64) -> Histogram<u64> {
    // Three digits from 1 to `most` is always a valid shape.
    Histogram::new_with_bounds(1, most, 3).unwrap_or_else(|_| unreachable!("bounds are constant and valid"))
}

fn now(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps to the instant `at` of CLOCK_MONOTONIC, ns; false where `stop` was set before.
pub fn sleep_until(at: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = now(ClockId::Monotonic);
        if now >= at {
            return true;
        }
        let wake = at.min(now + NAP_NS);
        let request =
            Timespec { tv_sec: (wake / 1_000_000_000) as i64, tv_nsec: (wake % 1_000_000_000) as i64 };
        // An interrupted sleep is taken up again by the loop.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}
