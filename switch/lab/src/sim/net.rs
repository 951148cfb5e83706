//! What all that send share: the links, what is on them, and when it arrives.

use super::{
    agenda::{Agenda, NEVER},
    frames::{Facts, Frames, Owner},
    line::{End, Line, Uplink},
};
use plimsoll_classify::Class;
use plimsoll_core::{FrameId, Nanos};

/// A host, as far as links go.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) uplink: Uplink,
    /// The line that it sends into.
    pub(super) line: u32,
}

/// The links.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) agenda: Agenda,
    pub(super) frames: Frames,
    pub(super) lines: Vec<Line>,
    pub(super) stations: Vec<Station>,
}

impl Net {
    /// A host sends a time message of clock `clock`: when its first bit leaves, where its link has room.
    pub(super) fn send_message(
        &mut self,
        host: u32,
        clock: u32,
        octets: &[u8],
        info: Class,
        now: Nanos,
    ) -> Option<Nanos> {
        let len = octets.len() as u32;
        let facts = Facts { owner: Owner::Clock(clock), len, info, sequence: 0, sent: now };
        self.send(host, octets, facts, now)
    }

    /// A host sends a frame with these octets at its start.
    #[inline]
    pub(super) fn send(&mut self, host: u32, head: &[u8], facts: Facts, now: Nanos) -> Option<Nanos> {
        let station = &mut self.stations[host as usize];
        let (starts, arrives) = station.uplink.send(now, facts.len)?;
        let line = station.line;
        let frame = self.frames.take(head, facts);
        self.put(line, arrives, frame);
        Some(starts)
    }

    /// Puts a frame on its way.
    #[inline]
    pub(super) fn put(&mut self, line: u32, arrives: Nanos, frame: FrameId) {
        let line = &mut self.lines[line as usize];
        if let Some(first) = line.push(arrives, frame) {
            self.agenda.set(line.source, first);
        }
    }

    /// Takes the frame that has arrived off its line.
    #[inline]
    pub(super) fn arrive(&mut self, line: u32) -> Option<(End, FrameId)> {
        let line = &mut self.lines[line as usize];
        let (frame, next) = line.pop()?;
        self.agenda.set(line.source, next.unwrap_or(NEVER));
        Some((line.to, frame))
    }
}
