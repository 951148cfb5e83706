//! The marking word: octets 16..19 of the PTP header (messageTypeSpecific, IEEE 1588-2019 clause 13.3.2.10).
//!
//! ```text
//! bits 31:30
//! 00  no mark; the rest is somebody else's (a PHY's receive time, for one)
//! 01  integer, one direction   n = 29:0                        N = 2^30 - 1
//! 10  integer, two directions  forward 29:15, reverse 14:0     N = 2^15 - 1 each
//! 11  bit shift; bit 29 = 0    thermometer in 28:0             N = 29
//!                bit 29 = 1    bit 28 = 0, forward 27:14, reverse 13:0, thermometers, N = 14 each
//! ```
//! A thermometer fills from its lowest bit: 3 is 0b0111. The word says its mode itself, so that it decodes without
//! configuration (the paper's IV-C2 names three switches for two bits; this layout holds all their combinations).

use core::fmt;

/// How a count is written (paper IV-A, IV-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Counter {
    /// An integer: N = 2^30 - 1 in the word, 3 in two ECN bits.
    #[default]
    Integer,
    /// A thermometer, one bit a mark: N = 29 in the word, 2 in two ECN bits (00, 01, 11).
    Shift,
    /// Integers for requests and responses apart (FR): N = 2^15 - 1 each in the word, 1 each in two ECN bits.
    IntegerBoth,
    /// Thermometers for requests and responses apart (FR): N = 14 each in the word, 1 each in two ECN bits.
    ShiftBoth,
}

impl Counter {
    /// N of a marking word in this mode, for one direction.
    pub const fn capacity(self) -> u32 {
        Word::empty(self).capacity()
    }
}

/// Which way a message goes, as forward-reverse marking tells them apart (paper IV-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// A request: Delay_Req, Pdelay_Req, NTP modes 3 and 1.
    Forward,
    /// A response: Sync, Pdelay_Resp, NTP modes 4, 2 and 5.
    Reverse,
}

/// A decoded marking word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// No mark: the 30 bits below are not ours.
    Unmarked(u32),
    /// An integer counter.
    Integer(u32),
    /// Two integer counters, for requests and responses.
    IntegerBoth {
        /// Marks of the request.
        forward: u16,
        /// Marks of the response.
        reverse: u16,
    },
    /// A bit-shift counter.
    Shift(u8),
    /// Two bit-shift counters, for requests and responses.
    ShiftBoth {
        /// Marks of the request.
        forward: u8,
        /// Marks of the response.
        reverse: u8,
    },
}

/// A word of no valid mode: a thermometer with a hole, or bit 28 set beside two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidWord(pub u32);

impl fmt::Display for InvalidWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x} is no marking word: a bit-shift counter with a hole or a stray bit", self.0)
    }
}

impl core::error::Error for InvalidWord {}

mod field {
    pub(super) const MODE: u32 = 0b11 << 30;
    pub(super) const UNMARKED: u32 = 0b00 << 30;
    pub(super) const INTEGER: u32 = 0b01 << 30;
    pub(super) const INTEGER_BOTH: u32 = 0b10 << 30;
    pub(super) const SHIFT: u32 = 0b11 << 30;
    pub(super) const SHIFT_BOTH: u32 = 0b111 << 29;
    pub(super) const COUNT: u32 = (1 << 30) - 1;
    pub(super) const HALF: u32 = (1 << 15) - 1;
    pub(super) const HALF_BITS: u32 = 15;
    pub(super) const THERMOMETER: u32 = (1 << 29) - 1;
    pub(super) const STRAY: u32 = 1 << 28;
    pub(super) const HALF_THERMOMETER: u32 = (1 << 14) - 1;
    pub(super) const HALF_THERMOMETER_BITS: u32 = 14;
}

impl Word {
    /// The mode of this counter, without any count.
    #[inline]
    pub const fn empty(counter: Counter) -> Self {
        match counter {
            Counter::Integer => Self::Integer(0),
            Counter::IntegerBoth => Self::IntegerBoth { forward: 0, reverse: 0 },
            Counter::Shift => Self::Shift(0),
            Counter::ShiftBoth => Self::ShiftBoth { forward: 0, reverse: 0 },
        }
    }

    /// Reads a word (host order).
    ///
    /// # Errors
    /// [`InvalidWord`] for one that no marking switch writes.
    #[inline]
    pub const fn decode(word: u32) -> Result<Self, InvalidWord> {
        Ok(match word & field::MODE {
            field::UNMARKED => Self::Unmarked(word & field::COUNT),
            field::INTEGER => Self::Integer(word & field::COUNT),
            field::INTEGER_BOTH => Self::IntegerBoth {
                forward: (word >> field::HALF_BITS & field::HALF) as u16,
                reverse: (word & field::HALF) as u16,
            },
            _ if word & field::SHIFT_BOTH == field::SHIFT_BOTH => {
                let forward = thermometer(word >> field::HALF_THERMOMETER_BITS & field::HALF_THERMOMETER);
                let reverse = thermometer(word & field::HALF_THERMOMETER);
                match (word & field::STRAY, forward, reverse) {
                    (0, Some(forward), Some(reverse)) => Self::ShiftBoth { forward, reverse },
                    _ => return Err(InvalidWord(word)),
                }
            }
            _ => match thermometer(word & field::THERMOMETER) {
                Some(count) => Self::Shift(count),
                None => return Err(InvalidWord(word)),
            },
        })
    }

    /// Whether a word (host order) has no mark: [`Word::Unmarked`].
    #[inline]
    pub const fn is_unmarked(word: u32) -> bool {
        word & field::MODE == field::UNMARKED
    }

    /// The word to write (host order). Counts beyond their field are cut to its largest value.
    #[inline]
    pub const fn encode(self) -> u32 {
        match self {
            Self::Unmarked(rest) => field::UNMARKED | rest & field::COUNT,
            Self::Integer(count) => field::INTEGER | least(count, field::COUNT),
            Self::IntegerBoth { forward, reverse } => {
                let (forward, reverse) =
                    (least(forward as u32, field::HALF), least(reverse as u32, field::HALF));
                field::INTEGER_BOTH | forward << field::HALF_BITS | reverse
            }
            Self::Shift(count) => field::SHIFT | filled(count, 29),
            Self::ShiftBoth { forward, reverse } => {
                field::SHIFT_BOTH | filled(forward, 14) << field::HALF_THERMOMETER_BITS | filled(reverse, 14)
            }
        }
    }

    /// N: the largest count that this mode holds, for one direction.
    #[inline]
    pub const fn capacity(self) -> u32 {
        match self {
            Self::Unmarked(_) | Self::Integer(_) => field::COUNT,
            Self::IntegerBoth { .. } => field::HALF,
            Self::Shift(_) => 29,
            Self::ShiftBoth { .. } => 14,
        }
    }

    /// Marks that a message going this way carries; modes of one direction have one count for both.
    #[inline]
    pub const fn count(self, direction: Direction) -> u32 {
        match (self, direction) {
            (Self::Unmarked(_), _) => 0,
            (Self::Integer(count), _) => count,
            (Self::IntegerBoth { forward, .. }, Direction::Forward) => forward as u32,
            (Self::IntegerBoth { reverse, .. }, Direction::Reverse) => reverse as u32,
            (Self::Shift(count), _) => count as u32,
            (Self::ShiftBoth { forward, .. }, Direction::Forward) => forward as u32,
            (Self::ShiftBoth { reverse, .. }, Direction::Reverse) => reverse as u32,
        }
    }

    /// The same mode with this count, cut to the mode's N; an unmarked word becomes an integer one.
    #[inline]
    pub const fn with_count(self, direction: Direction, count: u32) -> Self {
        let count = least(count, self.capacity());
        match (self, direction) {
            (Self::Unmarked(_) | Self::Integer(_), _) => Self::Integer(count),
            (Self::IntegerBoth { reverse, .. }, Direction::Forward) => {
                Self::IntegerBoth { forward: count as u16, reverse }
            }
            (Self::IntegerBoth { forward, .. }, Direction::Reverse) => {
                Self::IntegerBoth { forward, reverse: count as u16 }
            }
            (Self::Shift(_), _) => Self::Shift(count as u8),
            (Self::ShiftBoth { reverse, .. }, Direction::Forward) => {
                Self::ShiftBoth { forward: count as u8, reverse }
            }
            (Self::ShiftBoth { forward, .. }, Direction::Reverse) => {
                Self::ShiftBoth { forward, reverse: count as u8 }
            }
        }
    }

    /// The same mode without any count; an unmarked word stays as it is.
    #[inline]
    pub const fn cleared(self) -> Self {
        match self {
            Self::Unmarked(_) => self,
            Self::Integer(_) => Self::Integer(0),
            Self::IntegerBoth { .. } => Self::IntegerBoth { forward: 0, reverse: 0 },
            Self::Shift(_) => Self::Shift(0),
            Self::ShiftBoth { .. } => Self::ShiftBoth { forward: 0, reverse: 0 },
        }
    }

    /// Whether it has a count for each direction.
    #[inline]
    pub const fn is_both(self) -> bool {
        matches!(self, Self::IntegerBoth { .. } | Self::ShiftBoth { .. })
    }
}

#[inline]
const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// How many bits are set, if they are the lowest ones.
#[inline]
const fn thermometer(bits: u32) -> Option<u8> {
    // LLVM's table for trailing ones is one that the kernel's verifier does not follow.
    let ones = if cfg!(target_arch = "bpf") { bits.count_ones() } else { bits.trailing_ones() };
    if bits & (bits + 1) == 0 { Some(ones as u8) } else { None }
}

/// The `count` lowest bits, at most `width` of them.
#[inline]
const fn filled(count: u8, width: u32) -> u32 {
    (1 << least(count as u32, width)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn all_five_states_read_and_write() {
        for (word, meaning) in [
            (0x0000_0000, Word::Unmarked(0)),
            (0x3FFF_FFFF, Word::Unmarked(0x3FFF_FFFF)),
            (0x4000_0000, Word::Integer(0)),
            (0x4000_0005, Word::Integer(5)),
            (0x7FFF_FFFF, Word::Integer((1 << 30) - 1)),
            (0x8000_0000, Word::IntegerBoth { forward: 0, reverse: 0 }),
            (0x8001_0003, Word::IntegerBoth { forward: 2, reverse: 3 }),
            (0xBFFF_FFFF, Word::IntegerBoth { forward: 32_767, reverse: 32_767 }),
            (0xC000_0000, Word::Shift(0)),
            (0xC000_0007, Word::Shift(3)),
            (0xDFFF_FFFF, Word::Shift(29)),
            (0xE000_0000, Word::ShiftBoth { forward: 0, reverse: 0 }),
            (0xE000_4003, Word::ShiftBoth { forward: 1, reverse: 2 }),
            (0xEFFF_FFFF, Word::ShiftBoth { forward: 14, reverse: 14 }),
        ] {
            assert_eq!(Word::decode(word), Ok(meaning), "{word:#x}");
            assert_eq!(meaning.encode(), word, "{meaning:?}");
        }
    }

    #[test]
    fn holes_and_stray_bits_are_invalid() {
        for word in
            [0xC000_0002, 0xC000_0005, 0xD000_0000, 0xF000_0000, 0xE000_0002, 0xE000_8000, 0xFFFF_FFFF]
        {
            assert_eq!(Word::decode(word), Err(InvalidWord(word)), "{word:#x}");
        }
    }

    #[test]
    fn a_count_goes_to_its_direction_and_stops_at_n() {
        let both = Word::IntegerBoth { forward: 1, reverse: 2 };
        assert_eq!(both.with_count(Direction::Forward, 9), Word::IntegerBoth { forward: 9, reverse: 2 });
        assert_eq!(
            both.with_count(Direction::Reverse, 40_000),
            Word::IntegerBoth { forward: 1, reverse: 32_767 }
        );
        assert_eq!(Word::Unmarked(77).with_count(Direction::Reverse, 4), Word::Integer(4));
        assert_eq!(Word::Shift(3).with_count(Direction::Forward, 99), Word::Shift(29));
        assert_eq!(Word::Unmarked(77).cleared(), Word::Unmarked(77));
        assert_eq!(both.cleared().encode(), 0x8000_0000);
    }

    proptest! {
        #[test]
        fn what_is_valid_survives(word: u32) {
            if let Ok(meaning) = Word::decode(word) {
                prop_assert_eq!(meaning.encode(), word);
                for direction in [Direction::Forward, Direction::Reverse] {
                    let count = meaning.count(direction);
                    prop_assert!(count <= meaning.capacity());
                    if !matches!(meaning, Word::Unmarked(_)) {
                        prop_assert_eq!(meaning.with_count(direction, count), meaning);
                    }
                }
            }
        }
    }
}
