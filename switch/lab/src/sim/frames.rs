//! Frames as the simulated switches see them: real octets as far as anybody looks at them (headers, time messages),
//! zeros behind. What else is known of a frame lies beside it, so that nothing is parsed twice.

use plimsoll_classify::Class;
use plimsoll_core::{FrameId, Nanos, Pool};

/// Slots that are made at once.
const BLOCK: usize = 64;
/// Octets at the start of a slot that may hold something: the longest time message is 138 long.
pub(super) const HEAD: usize = 192;
/// Octets of a flow's longest headers: Ethernet, IPv6, UDP.
const HEADERS: usize = 62;

/// Whose a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A flow's.
    Flow(u32),
    /// A clock pair's.
    Clock(u32),
}

/// What is known of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) owner: Owner,
    /// Octets without FCS.
    pub(super) len: u32,
    /// What the classifier says of it; marks change none of that.
    pub(super) info: Class,
    /// Number in its flow.
    pub(super) sequence: u64,
    /// When its sender handed it to its link.
    pub(super) sent: Nanos,
}

/// The frames' memory. It grows to the most frames ever under way at once; the last one freed is the next one taken, so
/// that few slots are hot.
#[derive(Debug)]
pub(super) struct Frames {
    slot: usize,
    blocks: Vec<Box<[u8]>>,
    facts: Vec<Facts>,
    free: Vec<FrameId>,
}

impl Frames {
    /// Memory for frames of up to `longest` octets.
    pub(super) fn new(longest: usize) -> Self {
        Self { slot: longest.max(HEAD), blocks: Vec::new(), facts: Vec::new(), free: Vec::new() }
    }

    /// A frame with these octets at its start, zeros behind.
    #[inline]
    pub(super) fn take(&mut self, head: &[u8], facts: Facts) -> FrameId {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None => self.grow(facts),
        };
        self.facts[frame.0 as usize] = facts;
        let slot = self.slot_mut(frame);
        slot[..head.len()].copy_from_slice(head);
        if head.len() < HEADERS {
            // Longer headers of another flow.
            slot[head.len()..HEADERS].fill(0);
        }
        frame
    }

    #[cold]
    fn grow(&mut self, facts: Facts) -> FrameId {
        let first = (self.blocks.len() * BLOCK) as u32;
        // Zeroed memory of the system: pages that nobody writes to cost nothing.
        self.blocks.push(vec![0; BLOCK * self.slot].into());
        self.facts.resize(self.blocks.len() * BLOCK, facts);
        self.free.extend((first + 1..first + BLOCK as u32).rev().map(FrameId));
        FrameId(first)
    }

    #[inline]
    pub(super) fn facts(&self, frame: FrameId) -> &Facts {
        &self.facts[frame.0 as usize]
    }

    /// Frames under way.
    pub(super) fn held(&self) -> usize {
        self.facts.len() - self.free.len()
    }

    #[inline]
    fn slot_mut(&mut self, frame: FrameId) -> &mut [u8] {
        let at = frame.0 as usize;
        let start = at % BLOCK * self.slot;
        &mut self.blocks[at / BLOCK][start..start + self.slot]
    }
}

impl Pool for Frames {
    #[inline]
    fn bytes(&self, frame: FrameId) -> &[u8] {
        let at = frame.0 as usize;
        let start = at % BLOCK * self.slot;
        &self.blocks[at / BLOCK][start..start + self.facts[at].len as usize]
    }

    #[inline]
    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        let len = self.facts[frame.0 as usize].len as usize;
        &mut self.slot_mut(frame)[..len]
    }

    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        let facts = *self.facts(frame);
        let mut head = [0; HEAD];
        head.copy_from_slice(&self.slot_mut(frame)[..HEAD]);
        Some(self.take(&head, facts))
    }

    #[inline]
    fn free(&mut self, frame: FrameId) {
        // A flow's frame has headers only, which the next one overwrites.
        if let Owner::Clock(_) = self.facts(frame).owner {
            self.slot_mut(frame)[..HEAD].fill(0);
        }
        self.free.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(owner: Owner, len: u32) -> Facts {
        Facts { owner, len, info: Class::OTHER, sequence: 0, sent: Nanos(0) }
    }

    #[test]
    fn a_frame_has_its_head_and_zeros_whoever_had_its_slot_before() {
        let mut frames = Frames::new(1514);
        let message = frames.take(&[0xEE; 138], facts(Owner::Clock(0), 138));
        assert_eq!(frames.bytes(message), [0xEE; 138]);
        frames.bytes_mut(message)[137] = 0xDD;
        let copy = frames.copy(message).unwrap();
        assert_ne!(copy, message);
        assert_eq!(frames.bytes(copy), frames.bytes(message));
        frames.free(message);
        let bulk = frames.take(&[0x11; 42], facts(Owner::Flow(0), 1514));
        assert_eq!((bulk, frames.bytes(bulk).len()), (message, 1514));
        assert_eq!(frames.bytes(bulk)[..42], [0x11; 42]);
        assert!(frames.bytes(bulk)[42..].iter().all(|&octet| octet == 0));
        frames.free(bulk);
        // Headers of IPv6, and then shorter ones of IPv4.
        let longer = frames.take(&[0x22; HEADERS], facts(Owner::Flow(1), 1514));
        frames.free(longer);
        let shorter = frames.take(&[0x11; 42], facts(Owner::Flow(0), 1514));
        assert_eq!((longer, shorter), (bulk, bulk));
        assert!(frames.bytes(shorter)[42..].iter().all(|&octet| octet == 0));
        frames.free(shorter);
        frames.free(copy);
        assert_eq!(frames.held(), 0);
    }

    #[test]
    fn memory_grows_with_what_is_under_way_and_is_used_again() {
        let mut frames = Frames::new(60);
        let taken: Vec<_> = (0..200).map(|n| frames.take(&[n as u8], facts(Owner::Flow(0), 60))).collect();
        assert_eq!((frames.held(), frames.blocks.len()), (200, 4));
        for (number, frame) in taken.iter().enumerate() {
            assert_eq!(frames.bytes(*frame)[0], number as u8);
            frames.free(*frame);
        }
        assert_eq!(frames.take(&[], facts(Owner::Flow(0), 60)), taken[199]);
    }
}
