//! Frames as the simulated switches see them: real octets as far as anybody looks at them (headers, time messages),
//! zeros behind. What else is known of a frame lies beside it, so that nothing is parsed twice.

use plimsoll_classify::Class;
use plimsoll_core::{
    FrameId, Nanos, Pool,
    wire::ethernet::{TAG_LEN, Tci},
};

/// Slots that are made at once.
const BLOCK: usize = 64;
/// Octets at the start of a slot that may hold something: the longest time message is 138 long.
pub(super) const HEAD: usize = 192;
/// Octets of a flow's longest headers: Ethernet with a tag, IPv6, UDP.
const HEADERS: usize = 66;

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
    /// What the classifier says of it; marks change none of that, tags do.
    pub(super) info: Class,
    /// Number in its flow.
    pub(super) sequence: u64,
    /// When its sender handed it to its link.
    pub(super) sent: Nanos,
}

/// Whether a host takes a frame: it has no VLAN interfaces, so a tag is for priority alone (Linux takes such).
#[inline]
pub(super) const fn is_heard(info: &Class) -> bool {
    Tci(info.tci).vid() == 0
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
    /// Memory for frames of up to `longest` octets, and a tag.
    pub(super) fn new(longest: usize) -> Self {
        Self { slot: (longest + TAG_LEN).max(HEAD), blocks: Vec::new(), facts: Vec::new(), free: Vec::new() }
    }

    /// A frame with these octets at its start, zeros behind.
    #[inline]
    pub(super) fn take(&mut self, head: &[u8], facts: Facts) -> FrameId {
        let frame = match self.free.pop() {
            Some(frame) => frame,
            None => self.more(facts),
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
    fn more(&mut self, facts: Facts) -> FrameId {
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

    /// A switch has given the frame another tag or none.
    #[inline]
    pub(super) fn retag(&mut self, frame: FrameId, info: &Class) {
        self.facts[frame.0 as usize].info = *info;
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

    fn grow(&mut self, frame: FrameId) -> bool {
        let len = self.facts[frame.0 as usize].len as usize + TAG_LEN;
        if len > self.slot {
            return false;
        }
        self.facts[frame.0 as usize].len = len as u32;
        // What is behind the head is zero.
        self.slot_mut(frame).copy_within(..HEAD - TAG_LEN, TAG_LEN);
        true
    }

    fn shrink(&mut self, frame: FrameId) {
        self.facts[frame.0 as usize].len -= TAG_LEN as u32;
        let slot = self.slot_mut(frame);
        slot.copy_within(TAG_LEN..HEAD, 0);
        slot[HEAD - TAG_LEN..HEAD].fill(0);
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
    fn a_tag_moves_what_is_there_and_leaves_nothing_behind() {
        let mut frames = Frames::new(60);
        let message: Vec<u8> = (1..=138).collect();
        let frame = frames.take(&message, facts(Owner::Clock(0), 138));
        assert!(frames.grow(frame));
        assert_eq!((frames.bytes(frame).len(), &frames.bytes(frame)[4..]), (142, &message[..]));
        frames.shrink(frame);
        frames.shrink(frame);
        assert_eq!(frames.bytes(frame), &message[4..]);
        frames.free(frame);
        // Flows of the longest headers, tagged and freed so, and then a short one.
        let flow = frames.take(&[0x22; HEADERS - 4], facts(Owner::Flow(0), 60));
        assert!(frames.grow(flow));
        frames.bytes_mut(flow)[..4].fill(0x33);
        frames.free(flow);
        let short = frames.take(&[0x11; 42], facts(Owner::Flow(0), 192));
        assert_eq!(frames.bytes(short)[..42], [0x11; 42]);
        assert!(frames.bytes(short)[42..].iter().all(|&octet| octet == 0));
        assert!(!frames.grow(short), "a slot of 192 octets is full");
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
