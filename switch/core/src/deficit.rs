//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): whose turn it is among the classes that share a link.
//!
//! Classes that have frames stand in a round. Each visit adds a class's quantum to its deficit, in octets on the wire,
//! and lets it send what the deficit covers; what is left stays for the next visit. A class that has sent all it had loses its
//! deficit, and joins the end of the round when it has frames again. Where a quantum is smaller than a frame, visits go by
//! in vain: they are counted by division, so that a turn costs the same whatever the quanta are.

use crate::class::CLASSES;

/// The round, and what each class may send.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Octets that a visit adds, by class, 1..=[`crate::config::MAX_QUANTUM`]; 0 for those that take no part.
    quanta: [u32; CLASSES],
    /// Octets that a class may send at this visit, or at its next one: the quantum of that visit is in it.
    deficits: [u32; CLASSES],
    /// The classes that have frames, the one being visited first.
    order: [u8; CLASSES],
    active: usize,
}

impl Rounds {
    /// Nobody has frames. Class i has `quanta[i]`.
    pub(crate) fn new(quanta: &[u64]) -> Self {
        let mut of = [0; CLASSES];
        of.iter_mut().zip(quanta).for_each(|(own, quantum)| *own = *quantum as u32);
        Self { quanta: of, deficits: [0; CLASSES], order: [0; CLASSES], active: 0 }
    }

    /// A class that had no frame has one.
    pub(crate) fn join(&mut self, class: usize) {
        self.order[self.active] = class as u8;
        self.active += 1;
        self.deficits[class] = self.quanta[class];
    }

    /// The class whose turn it is, of those that have frames: there must be one. `first` are the octets of a class's first
    /// frame.
    pub(crate) fn turn(&mut self, first: impl Fn(usize) -> u32) -> usize {
        let class = usize::from(self.order[0]);
        if first(class) <= self.deficits[class] {
            return class;
        }
        self.go_round(first);
        usize::from(self.order[0])
    }

    /// The class whose turn it is sends a frame, perhaps its last.
    pub(crate) fn send(&mut self, octets: u32, is_last: bool) {
        let class = usize::from(self.order[0]);
        self.deficits[class] -= octets;
        if is_last {
            self.deficits[class] = 0;
            self.order.copy_within(1..self.active, 0);
            self.active -= 1;
        }
    }

    /// Goes on to the first class whose deficit covers its first frame, through as many whole rounds as nobody's does.
    fn go_round(&mut self, first: impl Fn(usize) -> u32) {
        let order = &mut self.order[..self.active];
        let visits = |class: &u8| {
            let class = usize::from(*class);
            first(class).saturating_sub(self.deficits[class]).div_ceil(self.quanta[class])
        };
        let nearest = order.iter().map(visits).enumerate().min_by_key(|(_, visits)| *visits);
        let (place, rounds) = nearest.unwrap_or_default();
        for (at, class) in order.iter().enumerate() {
            // Those before it were passed once more. Nobody gets more than it needs and a quantum: no overflow.
            let passed = rounds + u32::from(at < place);
            self.deficits[usize::from(*class)] += passed * self.quanta[usize::from(*class)];
        }
        order.rotate_left(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Frames of these sizes by class, all there from the beginning; (class, octets) as they leave.
    fn order(quanta: &[u64], mut queues: Vec<VecDeque<u32>>) -> Vec<(usize, u32)> {
        let mut rounds = Rounds::new(quanta);
        (0..queues.len()).filter(|&class| !queues[class].is_empty()).for_each(|class| rounds.join(class));
        let mut left = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            let class = rounds.turn(|class| queues[class][0]);
            let octets = queues[class].pop_front().unwrap();
            rounds.send(octets, queues[class].is_empty());
            left.push((class, octets));
        }
        assert_eq!((rounds.active, rounds.deficits), (0, [0; CLASSES]));
        left
    }

    /// The paper's pseudocode, visit by visit.
    fn walked(quanta: &[u64], mut queues: Vec<VecDeque<u32>>) -> Vec<(usize, u32)> {
        let mut active: VecDeque<usize> = (0..queues.len()).filter(|&c| !queues[c].is_empty()).collect();
        let (mut deficits, mut left) = ([0; CLASSES], Vec::new());
        while let Some(class) = active.pop_front() {
            deficits[class] += quanta[class] as u32;
            while let Some(&octets) = queues[class].front()
                && octets <= deficits[class]
            {
                deficits[class] -= octets;
                left.push((class, octets));
                queues[class].pop_front();
            }
            if queues[class].is_empty() {
                deficits[class] = 0;
            } else {
                active.push_back(class);
            }
        }
        left
    }

    /// Four flows of a quantum of 500, as in the paper's figures 2 and 3.
    #[test]
    fn what_a_quantum_does_not_cover_waits_for_the_next_round() {
        let queues = [vec![200, 750, 20], vec![500, 500], vec![100, 600, 200], vec![180, 700, 50]];
        let left = order(&[500; 4], queues.map(VecDeque::from).to_vec());
        let first_round = [(0, 200), (1, 500), (2, 100), (3, 180)];
        let second_round = [(0, 750), (0, 20), (1, 500), (2, 600), (2, 200), (3, 700), (3, 50)];
        assert_eq!(left, [&first_round[..], &second_round[..]].concat());
    }

    #[test]
    fn a_class_that_empties_loses_its_deficit_and_goes_to_the_end() {
        let mut rounds = Rounds::new(&[1000, 1000]);
        rounds.join(0);
        rounds.join(1);
        assert_eq!(rounds.turn(|_| 100), 0);
        rounds.send(100, true);
        // It comes again: behind the other, and with one quantum, not 1900.
        rounds.join(0);
        assert_eq!(rounds.turn(|_| 1000), 1);
        rounds.send(1000, false);
        assert_eq!(rounds.turn(|_| 1000), 0);
        rounds.send(1000, false);
        assert_eq!(rounds.turn(|_| 1000), 1, "one quantum is spent");
    }

    #[test]
    fn the_least_quanta_and_the_longest_frames_take_as_many_rounds_as_they_need() {
        let longest = 65_553 + 24;
        let queues = vec![VecDeque::from([longest; 3]), VecDeque::from([longest; 6])];
        let classes: Vec<_> = order(&[1, 2], queues).into_iter().map(|(class, _)| class).collect();
        assert_eq!(classes, [1, 0, 1, 1, 0, 1, 1, 0, 1]);
    }

    proptest! {
        #[test]
        fn rounds_that_are_counted_are_those_that_are_walked(
            quanta in prop::collection::vec(prop_oneof![1u64..100, 84u64..4000], CLASSES),
            queues in prop::collection::vec(prop::collection::vec(84u32..1600, 0..20), 1..=CLASSES),
        ) {
            let queues: Vec<_> = queues.into_iter().map(VecDeque::from).collect();
            prop_assert_eq!(order(&quanta, queues.clone()), walked(&quanta, queues));
        }
    }
}
