//! How marking words grow: what [`Word::decode`], [`Word::with_count`] and [`Word::encode`] make of them, in fewer
//! instructions. All that does not depend on the word is worked out once. A thermometer is compared with a full one as
//! the number that it is, and never counted.

use super::word::{Direction, InvalidWord, Word};
use crate::Counter;

/// What a port counts in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// What an unmarked word starts as.
    empty: u32,
    /// By a word's upper four bits.
    layouts: [Layout; 16],
}

/// Where a word has its counts. Each is `mask` wide, and `full` where it holds N. The forward one stands `forward` bits
/// up; the reverse one, or the only one, begins at bit 0.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Integers {
        forward: u8,
        mask: u32,
        full: u32,
    },
    /// `below`: bits that are set wherever the next one is.
    Thermometers {
        forward: u8,
        mask: u32,
        full: u32,
        below: u32,
    },
    /// None: bit 28 is set beside two thermometers.
    Stray,
}

impl Layout {
    const fn integers(forward: u8, width: u32, most: u32) -> Self {
        let mask = (1 << width) - 1;
        Self::Integers { forward, mask, full: if most < mask { most } else { mask } }
    }

    const fn thermometers(forward: u8, width: u32, most: u32) -> Self {
        let mask: u32 = (1 << width) - 1;
        let full = if most < width { (1 << most) - 1 } else { mask };
        Self::Thermometers { forward, mask, full, below: mask >> 1 | (mask >> 1) << forward }
    }
}

impl Growth {
    /// Unmarked words start in the mode of `counter`; N is the smaller of `most` and what a word's mode holds.
    pub(crate) const fn new(counter: Counter, most: u32) -> Self {
        let one = Layout::integers(0, 30, most);
        let both = Layout::integers(15, 15, most);
        let stack = Layout::thermometers(0, 29, most);
        let stacks = Layout::thermometers(14, 14, most);
        Self {
            empty: Word::empty(counter).encode(),
            layouts: [
                // Nobody looks for an unmarked word's.
                one,
                one,
                one,
                one,
                // 01: an integer.
                one,
                one,
                one,
                one,
                // 10: two.
                both,
                both,
                both,
                both,
                // 110: a thermometer; 1110: two.
                stack,
                stack,
                stacks,
                Layout::Stray,
            ],
        }
    }

    /// The word (host order) after `r` more marks of a message that goes this way, and whether it took them all: X grows
    /// to X + min(r, N - X); a count beyond N stays. An unmarked word stays as it is where r = 0. The other direction's
    /// count stays.
    ///
    /// # Errors
    /// [`InvalidWord`] for one that no marking switch writes.
    #[inline]
    pub(crate) fn grown(&self, word: u32, direction: Direction, r: u32) -> Result<(u32, bool), InvalidWord> {
        let started = if Word::is_unmarked(word) { self.empty } else { word };
        let shifted = |forward: u8| if direction == Direction::Forward { u32::from(forward) } else { 0 };
        // What the count is, would be without a limit, and its limit.
        let (shift, bits, wanted, full) = match self.layouts[(started >> 28) as usize] {
            Layout::Integers { forward, mask, full } => {
                let shift = shifted(forward);
                let bits = started >> shift & mask;
                (shift, bits, u64::from(bits) + u64::from(r), full)
            }
            Layout::Thermometers { forward, mask, full, below } => {
                if started >> 1 & !started & below != 0 {
                    return Err(InvalidWord(word));
                }
                let shift = shifted(forward);
                let bits = started >> shift & mask;
                // Not even an empty one takes more than 29.
                (shift, bits, ((u64::from(bits) + 1) << r.min(31)) - 1, full)
            }
            Layout::Stray => return Err(InvalidWord(word)),
        };
        if r == 0 {
            return Ok((word, true));
        }
        let most = bits.max(full);
        let whole = wanted <= u64::from(most);
        let after = if whole { wanted as u32 } else { most };
        Ok((started + ((after - bits) << shift), whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_grows_as_its_meaning_does(
            word in prop_oneof![any::<u32>(), (0u32..30).prop_map(|n| 3 << 30 | ((1 << n) - 1)),
                (0u32..15, 0u32..15).prop_map(|(f, r)| 7 << 29 | ((1 << f) - 1) << 14 | ((1 << r) - 1)), 0u32..9],
            forward: bool, r in prop_oneof![0u32..40, any::<u32>()], most in prop_oneof![1u32..40, 1u32..1 << 30],
            counter in prop::sample::select(vec![
                Counter::Integer, Counter::IntegerBoth, Counter::Shift, Counter::ShiftBoth,
            ]),
        ) {
            let direction = if forward { Direction::Forward } else { Direction::Reverse };
            let expected = Word::decode(word).map(|meaning| {
                let started = match meaning {
                    Word::Unmarked(_) if r > 0 => Word::empty(counter),
                    meaning => meaning,
                };
                let x = started.count(direction);
                let y = u64::from(x).max((u64::from(x) + u64::from(r)).min(started.capacity().min(most).into())) as u32;
                (if y == x { word } else { started.with_count(direction, y).encode() }, y - x == r)
            });
            prop_assert_eq!(Growth::new(counter, most).grown(word, direction, r), expected);
        }
    }
}
