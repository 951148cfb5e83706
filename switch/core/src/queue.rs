//! A port's eight queues: strict priority, first in first out in each, one limit in wire octets and one in frames for
//! all together, tail drop.
//!
//! The frames lie in one slab, linked by index. It grows to the most frames ever queued at once, within the capacity
//! reserved when the port was made: nothing is allocated per frame, and a short queue stays in the cache.

use serde::Serialize;

use crate::{Departure, DropReason, class::CLASSES, config::wire_octets};

const NONE: u32 = u32::MAX;

/// What is queued in one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ClassStats {
    /// Frames now.
    pub frames: u32,
    /// Wire octets now.
    pub bytes: u64,
    /// Most frames at once.
    pub frames_max: u32,
    /// Most wire octets at once.
    pub bytes_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    stats: ClassStats,
}

#[derive(Debug)]
struct Slot {
    departure: Departure,
    /// The next in the same class, or the next free slot.
    next: u32,
}

/// The queues of a port.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Bit c is set while class c has frames.
    waiting: u8,
    frames: u32,
    frames_limit: u32,
    free: u32,
    octets: u64,
    octets_limit: u64,
    lists: [List; CLASSES],
    slots: Vec<Slot>,
}

impl Queue {
    /// Empty queues.
    pub(crate) fn new(octets_limit: u64, frames_limit: u32) -> Self {
        Self {
            waiting: 0,
            frames: 0,
            frames_limit,
            free: NONE,
            octets: 0,
            octets_limit,
            lists: [List { head: NONE, tail: NONE, stats: ClassStats::default() }; CLASSES],
            slots: Vec::with_capacity(frames_limit as usize),
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    #[inline]
    pub(crate) const fn frames(&self) -> u32 {
        self.frames
    }

    /// Whether a frame of `len` octets finds room.
    #[inline]
    pub(crate) const fn admits(&self, len: u32) -> Result<(), DropReason> {
        if self.octets + wire_octets(len) as u64 > self.octets_limit {
            return Err(DropReason::QueueBytes);
        }
        if self.frames >= self.frames_limit {
            return Err(DropReason::QueueFrames);
        }
        Ok(())
    }

    /// Wire octets queued that leave before a frame of `class` that comes now.
    #[inline]
    pub(crate) fn ahead_of(&self, class: u8) -> u64 {
        let class = usize::from(class);
        if u32::from(self.waiting) >> class <= 1 {
            return self.lists[class].stats.bytes;
        }
        self.lists[class..].iter().map(|list| list.stats.bytes).sum()
    }

    /// Queues a frame that [`Queue::admits`] let in.
    #[inline]
    pub(crate) fn push(&mut self, departure: Departure) {
        let class = usize::from(departure.class);
        let octets = u64::from(wire_octets(departure.len));
        let slot = Slot { departure, next: NONE };
        let at = match self.free {
            NONE => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
            at => {
                let place = &mut self.slots[at as usize];
                self.free = place.next;
                *place = slot;
                at
            }
        };
        let list = &mut self.lists[class];
        if list.head == NONE {
            list.head = at;
            self.waiting |= 1 << class;
        } else {
            self.slots[list.tail as usize].next = at;
        }
        list.tail = at;
        let stats = &mut list.stats;
        stats.frames += 1;
        stats.bytes += octets;
        stats.frames_max = stats.frames_max.max(stats.frames);
        stats.bytes_max = stats.bytes_max.max(stats.bytes);
        self.frames += 1;
        self.octets += octets;
    }

    /// Takes the frame whose turn it is: the oldest of the highest class that has any.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Departure> {
        let class = self.waiting.checked_ilog2()? as usize;
        let list = &mut self.lists[class];
        let at = list.head;
        let slot = &mut self.slots[at as usize];
        list.head = slot.next;
        slot.next = self.free;
        self.free = at;
        let departure = slot.departure;
        let octets = u64::from(wire_octets(departure.len));
        list.stats.frames -= 1;
        list.stats.bytes -= octets;
        if list.head == NONE {
            self.waiting &= !(1 << class);
        }
        self.frames -= 1;
        self.octets -= octets;
        Some(departure)
    }

    /// What is queued, by class.
    pub(crate) fn stats(&self) -> [ClassStats; CLASSES] {
        self.lists.map(|list| list.stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameId, MarkRecord, Nanos, PortId};
    use plimsoll_classify::Class;
    use proptest::prelude::*;

    fn waiting(frame: u32, class: u8, len: u32) -> Departure {
        Departure {
            port: PortId(0),
            ingress: PortId(1),
            frame: FrameId(frame),
            len,
            class,
            info: Class::OTHER,
            stamp: Nanos(0),
            arrived: Nanos(0),
            depth_bytes: 0,
            depth_ps: 0,
            start: Nanos(0),
            end: Nanos(0),
            mark: MarkRecord::default(),
        }
    }

    #[test]
    fn the_highest_class_leaves_first_and_the_oldest_of_it() {
        let mut queue = Queue::new(1 << 20, 16);
        for (frame, class) in [(0, 1), (1, 7), (2, 0), (3, 7), (4, 1)] {
            queue.push(waiting(frame, class, 100));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|d| d.frame.0).collect();
        assert_eq!(order, [1, 3, 0, 4, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn limits_count_wire_octets_and_frames() {
        let mut queue = Queue::new(300, 3);
        queue.push(waiting(0, 0, 46)); // padded: 84
        queue.push(waiting(1, 0, 60)); // 84
        assert_eq!(queue.admits(108), Ok(())); // 132: exactly full
        assert_eq!(queue.admits(109), Err(DropReason::QueueBytes));
        queue.push(waiting(2, 0, 60));
        assert_eq!(queue.admits(0), Err(DropReason::QueueBytes));
        let mut queue = Queue::new(1 << 20, 1);
        queue.push(waiting(0, 0, 60));
        assert_eq!(queue.admits(60), Err(DropReason::QueueFrames));
    }

    #[test]
    fn what_is_ahead_is_of_the_same_class_or_higher() {
        let mut queue = Queue::new(1 << 20, 16);
        for (class, len) in [(1, 76), (3, 176), (3, 276), (7, 376)] {
            queue.push(waiting(0, class, len));
        }
        let ahead: Vec<_> = (0..8).map(|class| queue.ahead_of(class)).collect();
        assert_eq!(ahead, [1000, 1000, 900, 900, 400, 400, 400, 400]);
    }

    proptest! {
        #[test]
        fn frames_are_neither_lost_nor_moved_in_memory(acts in prop::collection::vec(prop::option::of((0u8..8, 14u32..1600)), 1..300)) {
            let mut queue = Queue::new(40_000, 32);
            let room = queue.slots.as_ptr();
            let mut model: Vec<Vec<(u32, u32)>> = vec![Vec::new(); CLASSES];
            for (number, act) in acts.into_iter().enumerate() {
                match act {
                    Some((class, len)) if queue.admits(len).is_ok() => {
                        queue.push(waiting(number as u32, class, len));
                        model[usize::from(class)].push((number as u32, len));
                    }
                    Some(_) => {}
                    None => {
                        let expected = model.iter_mut().rev().find(|q| !q.is_empty()).map(|q| q.remove(0));
                        prop_assert_eq!(queue.pop().map(|d| (d.frame.0, d.len)), expected);
                    }
                }
                for class in 0..8u8 {
                    let ahead: u64 = model[usize::from(class)..].iter().flatten().map(|f| u64::from(wire_octets(f.1))).sum();
                    prop_assert_eq!(queue.ahead_of(class), ahead);
                }
                prop_assert_eq!(queue.frames() as usize, model.iter().map(Vec::len).sum::<usize>());
            }
            prop_assert_eq!(room, queue.slots.as_ptr());
        }
    }
}
