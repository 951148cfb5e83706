//! The counter in a message's marking word (paper IV-A, IV-B).

use crate::{
    MarkOutcome,
    wire::{growth::Growth, message::Message},
};

/// Y = X + min(r, N - X) in the word's own mode; N is the smaller of the configured and the mode's. A count beyond N
/// is not lowered. An unmarked word gets the configured mode when r > 0 and stays as it is when r = 0. In modes of two
/// directions the count of the message's own grows. Returns what became of the message's word, and the word.
#[inline]
pub(super) fn mark(message: &mut Message<'_>, before: u32, r: u32, growth: &Growth) -> (MarkOutcome, u32) {
    if let Err(skip) = message.markable() {
        return (skip, before);
    }
    match growth.grown(before, message.direction(), r) {
        Err(_) => (MarkOutcome::InvalidWord, before),
        Ok(_) if r == 0 => (MarkOutcome::Zero, before),
        Ok((after, whole)) => {
            let outcome = if whole { MarkOutcome::Marked } else { MarkOutcome::Saturated };
            message.set_word(after);
            (outcome, after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Counter, MarkConfig,
        config::MAX_COUNT,
        wire::{
            event::tests::{CARRIERS, Carrier, frame, sum_is_right},
            ptp::tests::message,
            word::{Direction, Word},
        },
    };
    use proptest::prelude::*;

    fn config(counter_max: u32) -> MarkConfig {
        MarkConfig { counter_max, ..MarkConfig::new(1, 60_000_000) }
    }

    fn growth(config: &MarkConfig) -> Growth {
        Growth::new(config.counter, config.counter_max)
    }

    /// A message of this type with this word.
    fn with(message_type: u8, word: u32) -> Vec<u8> {
        let mut m = message(message_type);
        m[16..20].copy_from_slice(&word.to_be_bytes());
        m
    }

    fn marked(message_type: u8, word: u32, r: u32, n: u32) -> (MarkOutcome, u32) {
        marked_by(message_type, word, r, &config(n))
    }

    fn marked_by(message_type: u8, word: u32, r: u32, config: &MarkConfig) -> (MarkOutcome, u32) {
        let (mut octets, info) = frame(Carrier::Udp6, &with(message_type, word));
        let mut event = Message::new_checked(&mut octets, &info).unwrap();
        let told = mark(&mut event, word, r, &growth(config));
        assert_eq!(event.word(), told.1);
        assert!(sum_is_right(&octets));
        told
    }

    /// The paper's equation, Y = X + min(r, N - X), for every r and X of a counter with few bits (as its Fig. 6 draws
    /// one), whoever marked before.
    #[test]
    fn figure_6_every_r_and_x() {
        for n in [1, 3, 4, 10] {
            for x in 0..=n {
                for r in 0..=12 {
                    let y = x + r.min(n - x);
                    let outcome = match (r, y - x) {
                        (0, _) => MarkOutcome::Zero,
                        (r, added) if added == r => MarkOutcome::Marked,
                        _ => MarkOutcome::Saturated,
                    };
                    assert_eq!(marked(0, 1 << 30 | x, r, n), (outcome, 1 << 30 | y), "N {n}, X {x}, r {r}");
                }
            }
        }
    }

    #[test]
    fn an_unmarked_word_changes_only_when_there_is_a_mark() {
        assert_eq!(marked(0, 0, 0, MAX_COUNT), (MarkOutcome::Zero, 0));
        assert_eq!(marked(0, 0, 3, MAX_COUNT), (MarkOutcome::Marked, 0x4000_0003));
        // A PHY's receive time stays while there is nothing to say, and gives way to a mark.
        assert_eq!(marked(0, 0x1234_5678, 0, MAX_COUNT), (MarkOutcome::Zero, 0x1234_5678));
        assert_eq!(marked(0, 0x1234_5678, 3, MAX_COUNT), (MarkOutcome::Marked, 0x4000_0003));
    }

    #[test]
    fn counters_saturate_and_are_never_lowered() {
        assert_eq!(marked(0, 0x7FFF_FFFE, 3, MAX_COUNT), (MarkOutcome::Saturated, 0x7FFF_FFFF));
        assert_eq!(marked(0, 0x7FFF_FFFF, 0, MAX_COUNT), (MarkOutcome::Zero, 0x7FFF_FFFF));
        assert_eq!(marked(0, 0x4000_0009, 2, 5), (MarkOutcome::Saturated, 0x4000_0009));
    }

    #[test]
    fn other_modes_are_continued_in_their_own() {
        // Sync (0) and Pdelay_Resp (3) go reverse, Delay_Req (1) and Pdelay_Req (2) forward.
        for message_type in [0, 3] {
            assert_eq!(marked(message_type, 0x8001_0003, 4, MAX_COUNT), (MarkOutcome::Marked, 0x8001_0007));
            assert_eq!(marked(message_type, 0xE000_4001, 2, MAX_COUNT), (MarkOutcome::Marked, 0xE000_4007));
        }
        for message_type in [1, 2] {
            assert_eq!(marked(message_type, 0x8001_0003, 4, MAX_COUNT), (MarkOutcome::Marked, 0x8003_0003));
            assert_eq!(marked(message_type, 0xE000_4001, 2, MAX_COUNT), (MarkOutcome::Marked, 0xE001_C001));
        }
        assert_eq!(marked(0, 0x8000_7FFF, 1, MAX_COUNT), (MarkOutcome::Saturated, 0x8000_7FFF));
        assert_eq!(marked(0, 0xC000_0001, 30, MAX_COUNT), (MarkOutcome::Saturated, 0xDFFF_FFFF));
        assert_eq!(marked(0, 0xE000_0000, 20, MAX_COUNT), (MarkOutcome::Saturated, 0xE000_3FFF));
    }

    #[test]
    fn invalid_words_and_authenticated_messages_are_left_alone() {
        for r in [0, 3] {
            assert_eq!(marked(0, 0xC000_0002, r, MAX_COUNT), (MarkOutcome::InvalidWord, 0xC000_0002));
            assert_eq!(marked(0, 0xF000_0000, r, MAX_COUNT), (MarkOutcome::InvalidWord, 0xF000_0000));
        }
        let mut m = with(0, 0x4000_0002);
        m.extend([0x80, 0x09, 0, 4, 1, 2, 3, 4]);
        m[3] = 52;
        let (mut octets, info) = frame(Carrier::Udp4, &m);
        let before = octets.clone();
        let mut event = Message::new_checked(&mut octets, &info).unwrap();
        assert_eq!(
            mark(&mut event, 0x4000_0002, 3, &growth(&config(MAX_COUNT))),
            (MarkOutcome::Authenticated, 0x4000_0002)
        );
        assert_eq!(octets, before);
    }

    #[test]
    fn an_unmarked_word_gets_the_configured_mode() {
        // Sync goes reverse, Delay_Req forward.
        for (counter, message_type, word) in [
            (Counter::Integer, 0, 0x4000_0003),
            (Counter::Integer, 1, 0x4000_0003),
            (Counter::IntegerBoth, 0, 0x8000_0003),
            (Counter::IntegerBoth, 1, 0x8001_8000),
            (Counter::Shift, 0, 0xC000_0007),
            (Counter::Shift, 1, 0xC000_0007),
            (Counter::ShiftBoth, 0, 0xE000_0007),
            (Counter::ShiftBoth, 1, 0xE001_C000),
        ] {
            let config = MarkConfig { counter, ..config(MAX_COUNT) };
            for unmarked in [0, 0x1234_5678] {
                assert_eq!(marked_by(message_type, unmarked, 0, &config), (MarkOutcome::Zero, unmarked));
                assert_eq!(marked_by(message_type, unmarked, 3, &config), (MarkOutcome::Marked, word));
            }
            // A word that has a mode keeps it.
            assert_eq!(marked_by(message_type, 0x4000_0001, 3, &config), (MarkOutcome::Marked, 0x4000_0004));
        }
    }

    fn direction() -> impl Strategy<Value = (u8, Direction)> {
        prop::sample::select(vec![
            (0, Direction::Reverse),
            (1, Direction::Forward),
            (2, Direction::Forward),
            (3, Direction::Reverse),
        ])
    }

    const COUNTERS: [Counter; 4] =
        [Counter::Integer, Counter::IntegerBoth, Counter::Shift, Counter::ShiftBoth];

    fn path() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0u32..8, 1..6)
    }

    proptest! {
        /// A path of hops: the count is min(N, sum of r), the same for each order of the hops, and never falls.
        #[test]
        fn the_order_of_hops_does_not_change_the_total(
            (message_type, direction) in direction(), (path, shuffled) in path().prop_flat_map(|path| (Just(path.clone()), Just(path).prop_shuffle())),
            counter in prop::sample::select(COUNTERS.to_vec()), counter_max in 1u32..40,
        ) {
            let config = MarkConfig { counter, ..config(counter_max) };
            let total = |hops: &[u32]| hops.iter().fold((0, 0), |(word, last), &r| {
                let word = marked_by(message_type, word, r, &config).1;
                let count = Word::decode(word).unwrap().count(direction);
                assert!(count >= last, "a count never falls");
                (word, count)
            });
            let n = Word::empty(counter).capacity().min(counter_max);
            prop_assert_eq!(total(&path).1, path.iter().sum::<u32>().min(n));
            prop_assert_eq!(total(&path), total(&shuffled));
        }

        /// All modes give the same count through the decoder while it is below the least N.
        #[test]
        fn integer_and_shift_agree_below_n((message_type, direction) in direction(), path in path()) {
            let n = 14;
            let counts = COUNTERS.map(|counter| {
                let config = MarkConfig { counter, ..config(n) };
                let word = path.iter().fold(0, |word, &r| marked_by(message_type, word, r, &config).1);
                Word::decode(word).unwrap().count(direction)
            });
            prop_assert_eq!(counts, [path.iter().sum::<u32>().min(n); 4]);
        }

        /// Whatever word comes in: valid ones never fall, wrap or change the other direction, invalid ones stay.
        #[test]
        fn no_count_falls_or_wraps((message_type, direction) in direction(), word: u32, r: u32, counter_max in 1..=MAX_COUNT) {
            let (outcome, after) = marked(message_type, word, r, counter_max);
            match (Word::decode(word), Word::decode(after)) {
                (Err(_), _) => prop_assert_eq!((outcome, after), (MarkOutcome::InvalidWord, word)),
                (Ok(before), Ok(after)) => {
                    let (x, y) = (before.count(direction), after.count(direction));
                    prop_assert!(y >= x);
                    prop_assert!(y == x || y <= counter_max.min(after.capacity()));
                    prop_assert!(u64::from(y) <= u64::from(x) + u64::from(r));
                    let other = if direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
                    prop_assert!(!before.is_both() || before.count(other) == after.count(other));
                }
                (Ok(_), Err(_)) => prop_assert!(false, "a valid word became an invalid one"),
            }
        }

        #[test]
        fn every_carrier_gets_the_same_word_and_keeps_its_sum(word: u32, r in 0u32..40, message_type in 0u8..4) {
            let mut words = CARRIERS.map(|carrier| {
                let (mut octets, info) = frame(carrier, &with(message_type, word));
                let mut event = Message::new_checked(&mut octets, &info).unwrap();
                let (outcome, _) = mark(&mut event, word, r, &growth(&config(MAX_COUNT)));
                let after = event.word();
                assert!(carrier == Carrier::Udp4NoSum || sum_is_right(&octets));
                (outcome, after)
            });
            words.rotate_left(1);
            prop_assert!(words.iter().all(|w| *w == words[0]));
        }
    }
}
