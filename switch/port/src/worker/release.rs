//! Frames whose turn is decided, held until the instant at which they are due.

use std::collections::VecDeque;

use plimsoll_core::{Departure, Discard, Egress, Nanos, PortId};

use super::record::{Record, Recorder};

/// When a frame leaves the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReleaseAt {
    /// When its last bit has arrived: for veth, which delivers a frame whole.
    #[default]
    End,
    /// When its first bit is due: for a NIC, which serialises it again.
    Start,
}

/// One port's frames in the order of their release. Ends of one link increase, so this is a queue.
#[derive(Debug)]
pub(super) struct Line {
    queue: VecDeque<Departure>,
    bytes: u64,
    at: ReleaseAt,
    /// Octets that the port's TX ring holds, as of the last round.
    pub(super) outstanding_bytes: u64,
    /// Frames that may wait here on a port without a rate.
    room: usize,
}

/// All lines of one switch: where the core's departures go.
#[derive(Debug)]
pub(super) struct Releases {
    lines: Vec<Line>,
    latency: u64,
    pub(super) recorder: Option<Recorder>,
}

impl Releases {
    /// A line for each of `ports`; `latency` in ns is the switch's pipeline latency L.
    pub(super) fn new(ports: &[ReleaseAt], latency: u64, recorder: Option<Recorder>) -> Self {
        const ROOM: usize = 1024;
        let lines = ports
            .iter()
            .map(|&at| Line {
                queue: VecDeque::with_capacity(2 * ROOM),
                bytes: 0,
                at,
                outstanding_bytes: 0,
                room: ROOM,
            })
            .collect();
        Self { lines, latency, recorder }
    }

    /// The port's lines, by port number.
    pub(super) fn line(&mut self, port: usize) -> &mut Line {
        &mut self.lines[port]
    }

    /// When the head of this port's line is due.
    pub(super) fn due(&self, port: usize) -> Option<Nanos> {
        let line = &self.lines[port];
        line.queue.front().map(|head| line.due(head, self.latency))
    }

    /// The earliest instant at which any line has a frame due.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        (0..self.lines.len()).filter_map(|port| self.due(port)).min()
    }

    /// Frames held in all lines.
    pub(super) fn held(&self) -> u64 {
        self.lines.iter().map(|line| line.queue.len() as u64).sum()
    }
}

impl Line {
    fn due(&self, departure: &Departure, latency: u64) -> Nanos {
        let ideal = match self.at {
            ReleaseAt::End => departure.end,
            ReleaseAt::Start => departure.start,
        };
        ideal + latency
    }

    /// Takes out the frame to be released next.
    pub(super) fn pop(&mut self) -> Option<Departure> {
        let head = self.queue.pop_front()?;
        self.bytes -= u64::from(head.len);
        Some(head)
    }
}

impl Egress for Releases {
    fn depart(&mut self, departure: Departure) {
        let line = &mut self.lines[usize::from(departure.port.0)];
        line.bytes += u64::from(departure.len);
        line.queue.push_back(departure);
    }

    fn discard(&mut self, discard: Discard) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(Record::discard(&discard));
        }
    }

    fn unsent_bytes(&self, port: PortId) -> u64 {
        let line = &self.lines[usize::from(port.0)];
        line.bytes + line.outstanding_bytes
    }

    fn has_room(&self, port: PortId) -> bool {
        let line = &self.lines[usize::from(port.0)];
        line.queue.len() < line.room
    }
}
