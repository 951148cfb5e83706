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
    /// Propagation delay in ns, which only a departure's end contains.
    delay: u64,
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
    /// A line for each of `ports` with its propagation delay in ns; `latency` in ns is the switch's pipeline latency L.
    pub(super) fn new(
        ports: impl IntoIterator<Item = (ReleaseAt, u64)>,
        latency: u64,
        recorder: Option<Recorder>,
    ) -> Self {
        const ROOM: usize = 1024;
        let lines = ports
            .into_iter()
            .map(|(at, delay)| Line {
                queue: VecDeque::with_capacity(2 * ROOM),
                bytes: 0,
                at,
                delay,
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
            ReleaseAt::Start => departure.start + self.delay,
        };
        ideal + latency
    }

    /// Propagation delay in ns, which every due instant holds.
    pub(super) const fn delay(&self) -> u64 {
        self.delay
    }

    /// Takes out the frame to be released next.
    pub(super) fn pop(&mut self) -> Option<Departure> {
        let head = self.queue.pop_front()?;
        self.bytes -= u64::from(head.len);
        Some(head)
    }
}

impl Egress for Releases {
    fn depart(&mut self, departure: &Departure) {
        let line = &mut self.lines[usize::from(departure.port.0)];
        line.bytes += u64::from(departure.len);
        line.queue.push_back(*departure);
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use plimsoll_classify::Class;
    use plimsoll_core::{FrameId, MarkRecord};

    /// A frame of 60 octets from port 1 to port 0.
    pub(in crate::worker) fn departure(start: u64, end: u64) -> Departure {
        Departure {
            port: PortId(0),
            ingress: PortId(1),
            frame: FrameId(0),
            len: 60,
            class: 0,
            info: Class::OTHER,
            stamp: Nanos(0),
            arrived: Nanos(0),
            depth_bytes: 0,
            depth_ps: 0,
            measured: 0,
            start: Nanos(start),
            end: Nanos(end),
            mark: MarkRecord::default(),
            transparent: false,
        }
    }

    #[test]
    fn propagation_delays_a_frame_wherever_it_is_released() {
        // The end holds the delay of 500 ns, the start does not.
        for (at, due) in [(ReleaseAt::End, 1672), (ReleaseAt::Start, 1600)] {
            let mut releases = Releases::new([(at, 500)], 100, None);
            releases.depart(&departure(1000, 1572));
            assert_eq!(releases.next_due(), Some(Nanos(due)));
            assert_eq!(releases.unsent_bytes(PortId(0)), 60);
            assert!(releases.line(0).pop().is_some());
            assert_eq!(
                (releases.next_due(), releases.held(), releases.unsent_bytes(PortId(0))),
                (None, 0, 0)
            );
        }
    }
}
