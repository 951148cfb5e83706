//! Octets of recorded frames, in buffers that go round between the worker and its reader: nothing is allocated a frame.

use crossbeam_queue::ArrayQueue;
use plimsoll_classify::Class;

use crate::checksum::Partial;

/// Octets that are kept of a time message: all but the longest NTS packets have less.
pub const MESSAGE_OCTETS: usize = 1024;
/// Octets that are kept of any other frame: its headers.
pub const HEADER_OCTETS: usize = 128;

/// One frame's octets.
#[derive(Debug)]
pub(super) struct Buffer {
    len: u16,
    octets: [u8; MESSAGE_OCTETS],
}

impl Buffer {
    /// What was kept.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Takes the first octets of a frame, with its checksum as it will be on the wire where all of it is kept.
    fn keep(&mut self, frame: &[u8], class: &Class) {
        let most = if class.kind.is_sync() { MESSAGE_OCTETS } else { HEADER_OCTETS };
        let len = frame.len().min(most);
        self.octets[..len].copy_from_slice(&frame[..len]);
        self.len = len as u16;
        if len == frame.len()
            && let Some(partial) = Partial::of(class, len)
        {
            partial.complete(&mut self.octets[..len], class);
        }
    }
}

/// The buffers that hold nothing now.
#[derive(Debug)]
pub(super) struct Buffers(ArrayQueue<Box<Buffer>>);

impl Buffers {
    /// As many as can be queued, and those that writer and reader have in hand.
    pub(super) fn for_queue(capacity: usize) -> Self {
        let buffers = ArrayQueue::new(capacity + 2);
        while buffers.push(Box::new(Buffer { len: 0, octets: [0; MESSAGE_OCTETS] })).is_ok() {}
        Self(buffers)
    }

    /// A buffer with the first octets of a frame.
    pub(super) fn keep(&self, frame: &[u8], class: &Class) -> Option<Box<Buffer>> {
        let mut buffer = self.0.pop()?;
        buffer.keep(frame, class);
        Some(buffer)
    }

    /// Takes one back.
    pub(super) fn give_back(&self, buffer: Box<Buffer>) {
        // It came from here, so there is room.
        let _ = self.0.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_classify::Kind;

    #[test]
    fn messages_are_kept_whole_and_other_frames_headers() {
        let buffers = Buffers::for_queue(1);
        let frame: Vec<u8> = (0..1514).map(|n| n as u8).collect();
        let sync = Class { kind: Kind::PtpEvent, ..Class::OTHER };
        for (len, class, kept) in [
            (60, Class::OTHER, 60),
            (1514, Class::OTHER, HEADER_OCTETS),
            (400, sync, 400),
            (1514, sync, MESSAGE_OCTETS),
        ] {
            let buffer = buffers.keep(&frame[..len], &class).unwrap();
            assert_eq!(buffer.octets(), &frame[..kept]);
            buffers.give_back(buffer);
        }
    }

    #[test]
    fn there_are_as_many_as_can_be_out_at_once() {
        let buffers = Buffers::for_queue(2);
        let out: Vec<_> = (0..4).map(|_| buffers.keep(&[0; 60], &Class::OTHER).unwrap()).collect();
        assert!(buffers.keep(&[0; 60], &Class::OTHER).is_none());
        out.into_iter().for_each(|buffer| buffers.give_back(buffer));
        assert!(buffers.keep(&[0; 60], &Class::OTHER).is_some());
    }
}
