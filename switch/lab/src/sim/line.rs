//! One direction of a link: what a node sends into it, and what is on its way.

use plimsoll_core::{
    FrameId, Nanos, PortConfig, PortId, Rate,
    config::wire_octets,
    link::{Instant, Pace},
};
use std::collections::VecDeque;

/// Who gets what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A host.
    Host(u32),
    /// A switch or bridge, by this port.
    Switch(u32, PortId),
}

/// One direction of a link. Frames leave it in the order in which they came.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) to: End,
    /// Its source of events.
    pub(super) source: u32,
    /// Frames on their way, with the instants at which their last bits arrive.
    flying: VecDeque<(Nanos, FrameId)>,
}

impl Line {
    pub(super) fn new(to: End, source: u32) -> Self {
        Self { to, source, flying: VecDeque::new() }
    }

    /// Puts a frame on its way. Returns its arrival where it is the next one.
    #[inline]
    pub(super) fn push(&mut self, arrives: Nanos, frame: FrameId) -> Option<Nanos> {
        debug_assert!(self.flying.back().is_none_or(|(last, _)| *last <= arrives));
        self.flying.push_back((arrives, frame));
        (self.flying.len() == 1).then_some(arrives)
    }

    /// Takes out the frame that has arrived, and tells when the next one will.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(FrameId, Option<Nanos>)> {
        let (_, frame) = self.flying.pop_front()?;
        Some((frame, self.flying.front().map(|(next, _)| *next)))
    }
}

/// A host's own link towards the network: first in first out at its rate, without end where it has none. Nothing else
/// sends into it, so the whole queue is one instant: when it will be empty.
#[derive(Debug)]
pub(super) struct Uplink {
    pace: Option<Pace>,
    free: Instant,
    limit: u64,
    /// Frames that found no room.
    pub(super) dropped: u64,
}

impl Uplink {
    /// At this rate, with the queue that a switch's port has by default (1 MB, or 10 ms where that is more).
    pub(super) fn new(rate: Option<Rate>) -> Self {
        let limit = PortConfig { rate, ..PortConfig::new("") }.queue_limit();
        Self { pace: rate.map(Pace::new), free: Instant::default(), limit, dropped: 0 }
    }

    /// Sends a frame of `len` octets: when its first bit leaves and its last one arrives; `None` where the queue is full.
    #[inline]
    pub(super) fn send(&mut self, now: Nanos, len: u32) -> Option<(Nanos, Nanos)> {
        let Some(pace) = self.pace else { return Some((now, now)) };
        let (backlog, _) = pace.backlog(now, self.free, 0);
        if backlog + u64::from(wire_octets(len)) > self.limit {
            self.dropped += 1;
            return None;
        }
        let start = self.free.max(Instant::at(now));
        self.free = pace.after(start, wire_octets(len));
        Some((start.ceil(), self.free.ceil()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_the_order_and_tells_the_next_arrival() {
        let mut line = Line::new(End::Host(0), 0);
        assert_eq!(line.push(Nanos(5), FrameId(1)), Some(Nanos(5)));
        assert_eq!(line.push(Nanos(5), FrameId(2)), None);
        assert_eq!(line.push(Nanos(9), FrameId(3)), None);
        assert_eq!(line.pop(), Some((FrameId(1), Some(Nanos(5)))));
        assert_eq!(line.pop(), Some((FrameId(2), Some(Nanos(9)))));
        assert_eq!(line.pop(), Some((FrameId(3), None)));
        assert_eq!(line.pop(), None);
    }

    #[test]
    fn an_uplink_is_a_queue_at_its_rate_with_an_end() {
        // 1538 octets at 100 Mbit/s: 123.04 us.
        let mut uplink = Uplink::new(Some(Rate(100_000_000)));
        assert_eq!(uplink.send(Nanos(1000), 1514), Some((Nanos(1000), Nanos(124_040))));
        assert_eq!(uplink.send(Nanos(2000), 1514), Some((Nanos(124_040), Nanos(247_080))));
        assert_eq!(uplink.send(Nanos(1_000_000), 60), Some((Nanos(1_000_000), Nanos(1_006_720))));
        let taken = (0..1000).filter(|_| uplink.send(Nanos(2_000_000), 1514).is_some()).count();
        assert_eq!((taken, uplink.dropped), (650, 350), "1 MB holds 650 of them");
        let mut none = Uplink::new(None);
        assert_eq!(none.send(Nanos(7), 1514), Some((Nanos(7), Nanos(7))));
    }
}
