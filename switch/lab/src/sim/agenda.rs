//! What happens next. Every source of events (a link with frames on it, a switch, a flow, a clock) has at most one event
//! that it waits for, so the queue never grows: a tournament among the sources, decided again along one path when a
//! source's time changes.
//!
//! Of two events at one instant that of the source with the lower number comes first, whatever happened before: runs
//! repeat exactly.

use plimsoll_core::Nanos;

/// No event.
pub(super) const NEVER: Nanos = Nanos(u64::MAX);

/// The sources' next events.
#[derive(Debug)]
pub(super) struct Agenda {
    /// By source, filled up with [`NEVER`] to a power of two.
    due: Box<[Nanos]>,
    /// A heap-ordered tree: 1 is the root, `due.len() + source` the leaves; each holds the source that wins below it.
    winners: Box<[u32]>,
}

impl Agenda {
    /// An agenda of so many sources, 1 or more, with no event.
    pub(super) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for (source, leaf) in winners[leaves..].iter_mut().enumerate() {
            *leaf = source as u32;
        }
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Self { due: vec![NEVER; leaves].into(), winners: winners.into() }
    }

    /// Sets when a source's next event is.
    #[inline]
    pub(super) fn set(&mut self, source: u32, due: Nanos) {
        self.due[source as usize] = due;
        let mut node = (self.due.len() + source as usize) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let later = self.due[right as usize] < self.due[left as usize];
            self.winners[node] = if later { right } else { left };
            node /= 2;
        }
    }

    /// The next event, and whose it is; [`NEVER`] where there is none.
    #[inline]
    pub(super) fn first(&self) -> (Nanos, u32) {
        let source = self.winners[1];
        (self.due[source as usize], source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_earliest_comes_first_and_of_two_the_lower_number() {
        for sources in [1, 2, 3, 5, 8, 13] {
            let mut rng = ChaCha8Rng::seed_from_u64(sources as u64);
            let mut agenda = Agenda::new(sources);
            let mut due = vec![NEVER; sources];
            assert_eq!(agenda.first(), (NEVER, 0));
            for _ in 0..2000 {
                let source = rng.random_range(0..sources);
                due[source] = if rng.random_ratio(1, 5) { NEVER } else { Nanos(rng.random_range(0..20)) };
                agenda.set(source as u32, due[source]);
                let first = due.iter().enumerate().min_by_key(|(number, due)| (**due, *number)).unwrap();
                assert_eq!(agenda.first(), (*first.1, first.0 as u32));
            }
        }
    }
}
