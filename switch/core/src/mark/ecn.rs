//! The two ECN bits of an IP header: as RFC 3168 has them, or as a counter (paper IV-C1).
//!
//! ```text
//! counter                 count of 0, 1, 2, 3   N
//! integer                 00 01 10 11           3
//! bit shift               00 01 11              2   (10 is invalid)
//! integer, two directions 0x 1x forward, x0 x1 reverse, N = 1 each
//! bit shift, two directions   the same
//! ```
//! Two bits hold no mode: all switches and ends of a network must be set alike, and a port to a host clears them, but for
//! the forward bit of an answer.

use crate::{
    Counter, EcnOutcome, MarkConfig,
    wire::{
        ip::{CE, NOT_ECT},
        word::Direction,
    },
};

/// Classical ECN: ECT becomes CE where the threshold is exceeded. Returns what became of the bits, and the bits.
#[inline]
pub(super) const fn classical(bits: u8, exceeded: bool) -> (EcnOutcome, u8) {
    match (exceeded, bits) {
        (false, _) => (EcnOutcome::Below, bits),
        (true, NOT_ECT) => (EcnOutcome::NotEct, bits),
        (true, CE) => (EcnOutcome::Already, bits),
        (true, _) => (EcnOutcome::Marked, CE),
    }
}

/// Modified ECN: what becomes of the bits, by direction, bits and r. Nothing beyond [`MOST`] marks makes a difference, so
/// all there is was worked out when the port was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted([[[(EcnOutcome, u8); MOST + 1]; 4]; 2]);

/// One more than two bits count.
const MOST: usize = 4;

impl Counted {
    /// By the counter and N of `config`.
    pub(super) fn new(config: &MarkConfig) -> Self {
        Self([Direction::Forward, Direction::Reverse].map(|direction| {
            [0, 1, 2, 3].map(|bits| [0, 1, 2, 3, 4].map(|r| modified(bits, direction, r, config)))
        }))
    }

    /// What becomes of the bits of a message that goes this way, and the bits.
    #[inline]
    pub(super) fn mark(&self, bits: u8, direction: Direction, r: u32) -> (EcnOutcome, u8) {
        let way = usize::from(direction == Direction::Reverse);
        self.0[way][usize::from(bits & 3)][(r as usize).min(MOST)]
    }
}

/// Y = X + min(r, N - X).
fn modified(bits: u8, direction: Direction, r: u32, config: &MarkConfig) -> (EcnOutcome, u8) {
    let Some(x) = count(bits, direction, config.counter) else { return (EcnOutcome::Invalid, bits) };
    let n = capacity(config.counter).min(config.counter_max);
    let added = r.min(n.saturating_sub(x));
    let after = with_count(bits, direction, config.counter, x + added);
    match (r, added) {
        (0, _) => (EcnOutcome::Below, bits),
        (r, added) if added < r => (EcnOutcome::Saturated, after),
        _ => (EcnOutcome::Marked, after),
    }
}

/// The bits without the counts that a message from a port to a host must not bring: of an answer only its own goes, for
/// the other is what the server says of the request.
#[inline]
pub(super) const fn cleared(bits: u8, answers: bool, counter: Counter) -> u8 {
    match counter {
        Counter::IntegerBoth | Counter::ShiftBoth if answers => bits & 1 << place(Direction::Forward),
        _ => 0,
    }
}

/// N: the largest count that the two bits hold, for one direction.
#[inline]
pub(crate) const fn capacity(counter: Counter) -> u32 {
    match counter {
        Counter::Integer => 3,
        Counter::Shift => 2,
        Counter::IntegerBoth | Counter::ShiftBoth => 1,
    }
}

/// The count in the bits; `None` where they are none.
#[inline]
const fn count(bits: u8, direction: Direction, counter: Counter) -> Option<u32> {
    match (counter, bits) {
        (Counter::Integer, _) => Some(bits as u32),
        (Counter::Shift, 0b10) => None,
        (Counter::Shift, _) => Some(bits.count_ones()),
        (Counter::IntegerBoth | Counter::ShiftBoth, _) => Some((bits >> place(direction) & 1) as u32),
    }
}

/// The bits with this count, which fits.
#[inline]
const fn with_count(bits: u8, direction: Direction, counter: Counter, count: u32) -> u8 {
    match counter {
        Counter::Integer => count as u8,
        Counter::Shift => (1 << count) - 1,
        Counter::IntegerBoth | Counter::ShiftBoth => bits | (count as u8) << place(direction),
    }
}

/// Which bit is a direction's.
#[inline]
const fn place(direction: Direction) -> u32 {
    match direction {
        Direction::Forward => 1,
        Direction::Reverse => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(counter: Counter, counter_max: u32) -> MarkConfig {
        MarkConfig { counter, counter_max, ..MarkConfig::new(1, 1) }
    }

    /// RFC 3168 section 5: all four code points, below and above the threshold.
    #[test]
    fn classical_ecn_marks_what_is_capable_and_nothing_else() {
        for (bits, above) in [
            (0b00, (EcnOutcome::NotEct, 0b00)),
            (0b01, (EcnOutcome::Marked, 0b11)),
            (0b10, (EcnOutcome::Marked, 0b11)),
            (0b11, (EcnOutcome::Already, 0b11)),
        ] {
            assert_eq!(classical(bits, true), above);
            assert_eq!(classical(bits, false), (EcnOutcome::Below, bits));
        }
    }

    /// Every state of the two bits in every mode, by the count that it stands for.
    #[test]
    fn modified_ecn_counts_up_to_n() {
        use Direction::{Forward, Reverse};
        let states: [(Counter, Direction, &[u8]); 6] = [
            (Counter::Integer, Forward, &[0b00, 0b01, 0b10, 0b11]),
            (Counter::Shift, Reverse, &[0b00, 0b01, 0b11]),
            (Counter::IntegerBoth, Forward, &[0b00, 0b10]),
            (Counter::IntegerBoth, Reverse, &[0b00, 0b01]),
            (Counter::ShiftBoth, Forward, &[0b01, 0b11]),
            (Counter::ShiftBoth, Reverse, &[0b10, 0b11]),
        ];
        for (counter, direction, states) in states {
            let n = states.len() - 1;
            assert_eq!(capacity(counter) as usize, n);
            for (x, &bits) in states.iter().enumerate() {
                for r in 0..6 {
                    for most in 1..5 {
                        let y = x.max((x + r).min(n).min(most));
                        let outcome = match r {
                            0 => EcnOutcome::Below,
                            r if y - x < r => EcnOutcome::Saturated,
                            _ => EcnOutcome::Marked,
                        };
                        let counted = Counted::new(&config(counter, most as u32));
                        let seen = counted.mark(bits, direction, r as u32);
                        assert_eq!(
                            seen,
                            (outcome, states[y]),
                            "{counter:?} {direction:?} X {x} r {r} N {most}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_hole_is_no_count() {
        for r in 0..4 {
            let seen = Counted::new(&config(Counter::Shift, 2)).mark(0b10, Direction::Forward, r);
            assert_eq!(seen, (EcnOutcome::Invalid, 0b10));
        }
    }
}
