//! A port's eight queues: strict priority, first in first out in each, tail drop by one limit in wire octets and one in
//! frames on what leaves before a frame: its own class and the higher ones. So bulk traffic that fills its queue never
//! takes the room of a higher class.
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
    octets_limit: u64,
    lists: [List; CLASSES],
    slots: Vec<Slot>,
}

impl Queue {
    /// Octets that queues of this limit reserve.
    pub(crate) const fn octets(frames_limit: u32) -> u64 {
        frames_limit as u64 * (CLASSES * size_of::<Slot>()) as u64
    }

    /// Empty queues.
    pub(crate) fn new(octets_limit: u64, frames_limit: u32) -> Self {
        Self {
            waiting: 0,
            frames: 0,
            frames_limit,
            free: NONE,
            octets_limit,
            lists: [List { head: NONE, tail: NONE, stats: ClassStats::default() }; CLASSES],
            // Each class may fill up to the limit, the lowest first.
            slots: Vec::with_capacity(frames_limit as usize * CLASSES),
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

    /// Whether a frame of `len` octets finds room in `class`.
    #[inline]
    pub(crate) fn admits(&self, class: u8, len: u32) -> Result<(), DropReason> {
        let (octets, frames) = self.ahead_of(class);
        if octets + u64::from(wire_octets(len)) > self.octets_limit {
            return Err(DropReason::QueueBytes);
        }
        if frames >= self.frames_limit {
            return Err(DropReason::QueueFrames);
        }
        Ok(())
    }

    /// Wire octets and frames queued that leave before a frame of `class` that comes now.
    #[inline]
    pub(crate) fn ahead_of(&self, class: u8) -> (u64, u32) {
        let class = usize::from(class);
        let of = |list: &List| (list.stats.bytes, list.stats.frames);
        if u32::from(self.waiting) >> class <= 1 {
            return of(&self.lists[class]);
        }
        self.lists[class..].iter().map(of).fold((0, 0), |(octets, frames), (o, f)| (octets + o, frames + f))
    }

    /// Queues a frame that [`Queue::admits`] let in. Returns it in its place.
    #[inline]
    pub(crate) fn push(&mut self, departure: Departure) -> &mut Departure {
        let class = usize::from(departure.class);
        let octets = u64::from(wire_octets(departure.len));
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
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
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        *slot = Slot { departure, next: NONE };
        &mut slot.departure
    }

    /// One free slot more.
    #[cold]
    fn grow(&mut self) {
        self.free = self.slots.len() as u32;
        self.slots.push(Slot { departure: Departure::NOTHING, next: NONE });
    }

    /// Takes the frame whose turn it is: the oldest of the highest class that has any. It stays in its place until the
    /// next one is queued.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&mut Departure> {
        let class = self.waiting.checked_ilog2()? as usize;
        let list = &mut self.lists[class];
        let at = list.head;
        let slot = &mut self.slots[at as usize];
        list.head = slot.next;
        slot.next = self.free;
        self.free = at;
        let octets = u64::from(wire_octets(slot.departure.len));
        list.stats.frames -= 1;
        list.stats.bytes -= octets;
        if list.head == NONE {
            self.waiting &= !(1 << class);
        }
        self.frames -= 1;
        Some(&mut slot.departure)
    }

    /// What is queued, by class.
    pub(crate) fn stats(&self) -> [ClassStats; CLASSES] {
        self.lists.map(|list| list.stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameId;
    use proptest::prelude::*;

    fn waiting(frame: u32, class: u8, len: u32) -> Departure {
        Departure { frame: FrameId(frame), len, class, ..Departure::NOTHING }
    }

    #[test]
    fn the_highest_class_leaves_first_and_the_oldest_of_it() {
        let mut queue = Queue::new(1 << 20, 16);
        for (frame, class) in [(0, 1), (1, 7), (2, 0), (3, 7), (4, 1)] {
            queue.push(waiting(frame, class, 100));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|d| d.frame.0)).collect();
        assert_eq!(order, [1, 3, 0, 4, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn limits_count_wire_octets_and_frames() {
        let mut queue = Queue::new(300, 3);
        queue.push(waiting(0, 0, 46)); // padded: 84
        queue.push(waiting(1, 0, 60)); // 84
        assert_eq!(queue.admits(0, 108), Ok(())); // 132: exactly full
        assert_eq!(queue.admits(0, 109), Err(DropReason::QueueBytes));
        queue.push(waiting(2, 0, 60));
        assert_eq!(queue.admits(0, 0), Err(DropReason::QueueBytes));
        let mut queue = Queue::new(1 << 20, 1);
        queue.push(waiting(0, 0, 60));
        assert_eq!(queue.admits(0, 60), Err(DropReason::QueueFrames));
    }

    #[test]
    fn a_full_class_leaves_the_higher_ones_their_room_and_takes_that_of_the_lower() {
        for (octets, frames, reason) in
            [(84, 16, DropReason::QueueBytes), (1 << 20, 1, DropReason::QueueFrames)]
        {
            let mut queue = Queue::new(octets, frames);
            queue.push(waiting(0, 3, 60));
            let refused: Vec<_> = (0..8).map(|class| queue.admits(class, 60).err()).collect();
            assert_eq!(refused[..4], [Some(reason); 4]);
            assert_eq!(refused[4..], [None; 4]);
        }
    }

    #[test]
    fn what_is_ahead_is_of_the_same_class_or_higher() {
        let mut queue = Queue::new(1 << 20, 16);
        for (class, len) in [(1, 76), (3, 176), (3, 276), (7, 376)] {
            queue.push(waiting(0, class, len));
        }
        let ahead: Vec<_> = (0..8).map(|class| queue.ahead_of(class)).collect();
        let (all, high, one) = ((1000, 4), (900, 3), (400, 1));
        assert_eq!(ahead, [all, all, high, high, one, one, one, one]);
    }

    proptest! {
        #[test]
        fn frames_are_neither_lost_nor_moved_in_memory(acts in prop::collection::vec(prop::option::of((0u8..8, 14u32..1600)), 1..300)) {
            let mut queue = Queue::new(40_000, 32);
            let room = queue.slots.as_ptr();
            let mut model: Vec<Vec<(u32, u32)>> = vec![Vec::new(); CLASSES];
            for (number, act) in acts.into_iter().enumerate() {
                match act {
                    Some((class, len)) if queue.admits(class, len).is_ok() => {
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
                    let ahead: Vec<_> = model[usize::from(class)..].iter().flatten().collect();
                    let octets: u64 = ahead.iter().map(|f| u64::from(wire_octets(f.1))).sum();
                    prop_assert_eq!(queue.ahead_of(class), (octets, ahead.len() as u32));
                }
                prop_assert_eq!(queue.frames() as usize, model.iter().map(Vec::len).sum::<usize>());
            }
            prop_assert_eq!(room, queue.slots.as_ptr());
        }
    }
}
