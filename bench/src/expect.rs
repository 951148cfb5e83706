//! What a marking switch must write, in plain arithmetic: written down again from the paper (IV-A, IV-C) and RFC 3168, and
//! sharing no code with the switch.

use plimsoll_core::{Counter, Rule};

/// Threshold i in octets on the wire: i*K, or (i - 1/2)*K.
pub(crate) const fn threshold(rule: Rule, i: u64, k: u64) -> u64 {
    match rule {
        Rule::Edge => i * k,
        Rule::Centred => i * k - k / 2,
    }
}

/// r: how many of the first R thresholds a depth exceeds.
pub(crate) fn exceeded(rule: Rule, depth: u64, k: u64, thresholds: u32) -> u32 {
    (1..=u64::from(thresholds)).filter(|i| depth > threshold(rule, *i, k)).count() as u32
}

/// N of the 30 bits behind a PTP word's configuration, in the direction that counts.
pub(crate) const fn largest(counter: Counter) -> u32 {
    match counter {
        Counter::Integer => (1 << 30) - 1,
        Counter::IntegerBoth => (1 << 15) - 1,
        Counter::Shift => 29,
        Counter::ShiftBoth => 14,
    }
}

/// The word that says `count` in the direction of a request or a response, and nothing in the other.
pub(crate) const fn word(counter: Counter, count: u32, request: bool) -> u32 {
    let ones = ((1_u64 << if count < 31 { count } else { 31 }) - 1) as u32;
    match (counter, request) {
        (Counter::Integer, _) => 0x4000_0000 | count,
        (Counter::IntegerBoth, true) => 0x8000_0000 | count << 15,
        (Counter::IntegerBoth, false) => 0x8000_0000 | count,
        (Counter::Shift, _) => 0xC000_0000 | ones,
        (Counter::ShiftBoth, true) => 0xE000_0000 | ones << 14,
        (Counter::ShiftBoth, false) => 0xE000_0000 | ones,
    }
}

/// Y = X + min(r, N - X).
pub(crate) const fn counted(before: u32, r: u32, largest: u32) -> u32 {
    let room = largest - before;
    before + if r < room { r } else { room }
}

/// The word behind a switch that exceeded r thresholds; a message came with `before` marks, 0 in a word of zeros.
pub(crate) const fn marked_word(counter: Counter, before: u32, r: u32, request: bool) -> u32 {
    match counted(before, r, largest(counter)) {
        0 => 0,
        count => word(counter, count, request),
    }
}

/// RFC 3168: ECT becomes CE above the threshold; nothing else changes.
pub(crate) const fn classical_ecn(before: u8, above: bool) -> u8 {
    if above && before != 0 { 3 } else { before }
}

/// Two ECN bits as a counter (IV-C1): 0 to 3, or the thermometer 00, 01, 11, or a bit for requests (the upper) and one
/// for responses. 10 is no thermometer and stays.
pub(crate) const fn counted_ecn(counter: Counter, before: u8, r: u32, request: bool) -> u8 {
    match (counter, request) {
        (Counter::Integer, _) => counted(before as u32, r, 3) as u8,
        (Counter::Shift, _) => match before {
            2 => 2,
            3 => 3,
            below => (1_u8 << counted(below as u32, r, 2)) - 1,
        },
        (_, true) => before | ((r > 0) as u8 * 2),
        (_, false) => before | (r > 0) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Counter::{Integer, IntegerBoth, Shift, ShiftBoth};

    #[test]
    fn thresholds_are_exceeded_strictly_and_r_ends_at_their_number() {
        let r = |depth| exceeded(Rule::Edge, depth, 1000, 3);
        assert_eq!([0, 999, 1000, 1001, 2000, 2001, 3001, 9000].map(r), [0, 0, 0, 1, 1, 2, 3, 3]);
        let r = |depth| exceeded(Rule::Centred, depth, 1000, 3);
        assert_eq!([0, 499, 500, 501, 1500, 1501, 2501, 9000].map(r), [0, 0, 0, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn words_of_every_kind() {
        assert_eq!(word(Integer, 5, false), 0x4000_0005);
        assert_eq!((word(IntegerBoth, 5, true), word(IntegerBoth, 5, false)), (0x8002_8000, 0x8000_0005));
        assert_eq!(word(Shift, 29, false), 0xDFFF_FFFF);
        assert_eq!((word(ShiftBoth, 2, true), word(ShiftBoth, 14, false)), (0xE000_C000, 0xE000_3FFF));
        assert_eq!([Integer, IntegerBoth, Shift, ShiftBoth].map(|c| marked_word(c, 0, 0, true)), [0; 4]);
        assert_eq!(marked_word(Shift, 3, 100, false), 0xDFFF_FFFF);
        assert_eq!(marked_word(IntegerBoth, 3, 2, true), 0x8002_8000);
    }

    #[test]
    fn ecn_bits() {
        assert_eq!([0, 1, 2, 3].map(|bits| classical_ecn(bits, true)), [0, 3, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|bits| classical_ecn(bits, false)), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 9].map(|r| counted_ecn(Integer, 1, r, false)), [1, 2, 3, 3]);
        assert_eq!([0, 1, 2, 9].map(|r| counted_ecn(Shift, 0, r, false)), [0, 1, 3, 3]);
        assert_eq!([0, 1, 9].map(|r| counted_ecn(Shift, 1, r, true)), [1, 3, 3]);
        assert_eq!([0, 1, 9].map(|r| counted_ecn(Shift, 2, r, true)), [2, 2, 2]);
        assert_eq!([0, 1, 9].map(|r| counted_ecn(ShiftBoth, 0, r, true)), [0, 2, 2]);
        assert_eq!([0, 1, 9].map(|r| counted_ecn(IntegerBoth, 2, r, false)), [2, 3, 3]);
    }
}
