//! A port's eight queues: strict priority, deficit round robin among the lowest where told, first in first out in each;
//! tail drop by one limit in wire octets and one in frames on what leaves before a frame as far as known: its own class
//! and the higher ones, those that share the link in rounds with it not counted. So bulk traffic that fills its queue never
//! takes the room of a higher class, nor of one beside it.
//!
//! The frames lie in one slab, linked by index. It grows to the most frames ever queued at once, within the capacity
//! reserved when the port was made: nothing is allocated per frame, and a short queue stays in the cache.

use serde::Serialize;

use crate::{Departure, DropReason, class::CLASSES, config::wire_octets, deficit::Rounds};

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
    /// The classes below this one share the link in rounds; those from it on go before them.
    shared: u8,
    frames: u32,
    frames_limit: u32,
    free: u32,
    octets_limit: u64,
    lists: [List; CLASSES],
    slots: Vec<Slot>,
    rounds: Rounds,
}

impl Queue {
    /// Octets that queues of this limit reserve.
    pub(crate) const fn octets(frames_limit: u32) -> u64 {
        frames_limit as u64 * (CLASSES * size_of::<Slot>()) as u64
    }

    /// Empty queues; the lowest classes have these quanta.
    pub(crate) fn new(octets_limit: u64, frames_limit: u32, quanta: &[u64]) -> Self {
        Self {
            waiting: 0,
            shared: quanta.len() as u8,
            frames: 0,
            frames_limit,
            free: NONE,
            octets_limit,
            lists: [List { head: NONE, tail: NONE, stats: ClassStats::default() }; CLASSES],
            // Each class may fill up to the limit, the lowest first.
            slots: Vec::with_capacity(frames_limit as usize * CLASSES),
            rounds: Rounds::new(quanta),
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

    /// Wire octets and frames queued that leave before a frame of `class` that comes now, as far as known: what classes in
    /// rounds with it send in between is not.
    #[inline]
    pub(crate) fn ahead_of(&self, class: u8) -> (u64, u32) {
        let (own, higher) = (&self.lists[usize::from(class)], higher(class, self.shared));
        let of = |list: &List| (list.stats.bytes, list.stats.frames);
        if u32::from(self.waiting) >> higher == 0 {
            return of(own);
        }
        let higher = self.lists[higher..].iter().map(of);
        higher.fold(of(own), |(octets, frames), (o, f)| (octets + o, frames + f))
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
            if departure.class < self.shared {
                self.rounds.join(class);
            }
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

    /// Takes the frame whose turn it is: the oldest of the highest class that has any, or of the one whose turn it is in the
    /// round. It stays in its place until the next one is queued.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&mut Departure> {
        let highest = self.waiting.checked_ilog2()?;
        let class = if highest < u32::from(self.shared) { self.turn() } else { highest as usize };
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

    /// The class whose turn it is in the round, its oldest frame accounted for. Apart, so that strict priority does not pay
    /// for it.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) -> usize {
        let Self { rounds, lists, slots, .. } = self;
        let first = |class: usize| wire_octets(slots[lists[class].head as usize].departure.len);
        let class = rounds.turn(first);
        rounds.send(first(class), lists[class].stats.frames == 1);
        class
    }

    /// What is queued, by class.
    pub(crate) fn stats(&self) -> [ClassStats; CLASSES] {
        self.lists.map(|list| list.stats)
    }
}

/// The classes from this one on leave before a frame of `class`, whatever comes, where those below `shared` share the link
/// in rounds.
#[inline]
pub(crate) const fn higher(class: u8, shared: u8) -> usize {
    (if class < shared { shared } else { class + 1 }) as usize
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
        let mut queue = Queue::new(1 << 20, 16, &[]);
        for (frame, class) in [(0, 1), (1, 7), (2, 0), (3, 7), (4, 1)] {
            queue.push(waiting(frame, class, 100));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|d| d.frame.0)).collect();
        assert_eq!(order, [1, 3, 0, 4, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn limits_count_wire_octets_and_frames() {
        let mut queue = Queue::new(300, 3, &[]);
        queue.push(waiting(0, 0, 46)); // padded: 84
        queue.push(waiting(1, 0, 60)); // 84
        assert_eq!(queue.admits(0, 108), Ok(())); // 132: exactly full
        assert_eq!(queue.admits(0, 109), Err(DropReason::QueueBytes));
        queue.push(waiting(2, 0, 60));
        assert_eq!(queue.admits(0, 0), Err(DropReason::QueueBytes));
        let mut queue = Queue::new(1 << 20, 1, &[]);
        queue.push(waiting(0, 0, 60));
        assert_eq!(queue.admits(0, 60), Err(DropReason::QueueFrames));
    }

    #[test]
    fn a_full_class_leaves_the_higher_ones_their_room_and_takes_that_of_the_lower() {
        for (octets, frames, reason) in
            [(84, 16, DropReason::QueueBytes), (1 << 20, 1, DropReason::QueueFrames)]
        {
            let mut queue = Queue::new(octets, frames, &[]);
            queue.push(waiting(0, 3, 60));
            let refused: Vec<_> = (0..8).map(|class| queue.admits(class, 60).err()).collect();
            assert_eq!(refused[..4], [Some(reason); 4]);
            assert_eq!(refused[4..], [None; 4]);
        }
    }

    #[test]
    fn what_is_ahead_is_of_the_same_class_or_higher() {
        let mut queue = Queue::new(1 << 20, 16, &[]);
        for (class, len) in [(1, 76), (3, 176), (3, 276), (7, 376)] {
            queue.push(waiting(0, class, len));
        }
        let ahead: Vec<_> = (0..8).map(|class| queue.ahead_of(class)).collect();
        let (all, high, one) = ((1000, 4), (900, 3), (400, 1));
        assert_eq!(ahead, [all, all, high, high, one, one, one, one]);
    }

    #[test]
    fn classes_in_rounds_leave_those_beside_them_their_room_and_strict_ones_theirs() {
        for (octets, frames, reason) in
            [(84, 16, DropReason::QueueBytes), (1 << 20, 1, DropReason::QueueFrames)]
        {
            let refused = |full: u8| {
                let mut queue = Queue::new(octets, frames, &[1500, 1500, 1500]);
                queue.push(waiting(0, full, 60));
                (0..8).filter(|&class| queue.admits(class, 60) == Err(reason)).collect::<Vec<_>>()
            };
            assert_eq!([0, 1, 2].map(refused), [[0], [1], [2]]);
            assert_eq!(refused(4), [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn what_is_ahead_in_rounds_is_of_the_own_class_or_strict_ones() {
        let mut queue = Queue::new(1 << 20, 16, &[1500, 1500, 1500]);
        for (class, len) in [(0, 76), (1, 176), (2, 276), (3, 376), (7, 476)] {
            queue.push(waiting(0, class, len));
        }
        let ahead: Vec<_> = (0..8).map(|class| queue.ahead_of(class)).collect();
        let (above, top) = ((900, 2), (500, 1));
        assert_eq!(ahead, [(1000, 3), (1100, 3), (1200, 3), above, top, top, top, top]);
    }

    proptest! {
        /// The paper's measure of fairness: classes that always have frames differ by less than a quantum and a longest frame
        /// each, in units of their quanta; strict ones leave at once.
        #[test]
        fn shares_are_in_proportion_to_the_quanta(
            quanta in prop::collection::vec(prop_oneof![1u64..100, 100u64..20_000], 1..=7),
            lens in prop::collection::vec(60u32..1515, 50..400),
        ) {
            let longest = f64::from(wire_octets(1514));
            let strict = quanta.len() as u8;
            let mut queue = Queue::new(1 << 20, 64, &quanta);
            let mut sent = vec![0.0; quanta.len()];
            let mut lens = lens.iter().cycle().copied();
            let mut next = |class| waiting(0, class, lens.next().unwrap());
            // Two each, so that the next one is there when one leaves.
            for class in (0..strict).chain(0..strict) {
                queue.push(next(class));
            }
            for number in 0..1000 {
                if number % 7 == 0 {
                    queue.push(next(strict));
                    prop_assert_eq!(queue.pop().map(|d| d.class), Some(strict));
                }
                let (class, len) = queue.pop().map(|d| (d.class, d.len)).unwrap();
                sent[usize::from(class)] += f64::from(wire_octets(len));
                queue.push(next(class));
                for (one, other) in (0..quanta.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                    let (q, p) = (quanta[one] as f64, quanta[other] as f64);
                    let differ = (sent[one] / q - sent[other] / p).abs();
                    prop_assert!(differ <= 1.0 + longest / q + longest / p, "{differ}: {quanta:?} {sent:?}");
                }
            }
        }

        #[test]
        fn frames_are_neither_lost_nor_moved_in_memory(acts in prop::collection::vec(prop::option::of((0u8..8, 14u32..1600)), 1..300)) {
            let mut queue = Queue::new(40_000, 32, &[]);
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
