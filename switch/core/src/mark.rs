//! The marker: what the thresholds that a depth exceeds make of a message's marking word (paper IV-A).

use crate::{
    EdgeOutcome, MarkOutcome,
    wire::{
        event::{Correction, Event},
        word::Word,
    },
};

/// Largest delay that edge conversion believes, in picoseconds: 1 s.
const EDGE_CAP_PS: u128 = 1_000_000_000_000;

/// Y = X + min(r, N - X) in the word's own mode; N is the smaller of the configured and the mode's. A count beyond N
/// is not lowered. An unmarked word becomes an integer one when r > 0 and stays as it is when r = 0.
#[inline]
pub(crate) fn mark(event: &mut Event<'_>, r: u32, counter_max: u32) -> MarkOutcome {
    if let Err(skip) = event.markable() {
        return skip;
    }
    let Ok(word) = Word::decode(event.word()) else { return MarkOutcome::InvalidWord };
    let (x, n) = (word.count(event.direction()), word.capacity().min(counter_max));
    let added = r.min(n.saturating_sub(x));
    if added > 0 {
        event.set_word(word.with_count(event.direction(), x + added).encode());
    }
    match (r, added) {
        (0, _) => MarkOutcome::Zero,
        (r, added) if added < r => MarkOutcome::Saturated,
        _ => MarkOutcome::Marked,
    }
}

/// What ingress trust found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// There was nothing to clear.
    NoCount,
    /// The counts are gone.
    Cleared,
    /// There were counts, and no octet of the message may be changed: it is authenticated, or its checksum wrong. They
    /// go on.
    Untouched,
}

/// Ingress trust: clears the counts of a port that must not bring any.
#[inline]
pub(crate) fn distrust(event: &mut Event<'_>) -> Distrust {
    let Ok(word) = Word::decode(event.word()) else { return Distrust::NoCount };
    let cleared = word.cleared();
    if cleared == word {
        return Distrust::NoCount;
    }
    if event.markable().is_err() {
        return Distrust::Untouched;
    }
    event.set_word(cleared.encode());
    Distrust::Cleared
}

/// Edge conversion: n * delta into correctionField, the word to 0, so that a clock which knows nothing of marks profits
/// and none that does compensates twice. Returns what became of it and the nanoseconds added.
#[inline]
pub(crate) fn convert(event: &mut Event<'_>, delta_ps: u64) -> (EdgeOutcome, u64) {
    let word = match (event.markable(), Word::decode(event.word())) {
        (Ok(()), Ok(word)) if word.is_both() => return (EdgeOutcome::ForwardReverse, 0),
        // An unmarked word's bits are not ours to clear.
        (Ok(()), Ok(Word::Unmarked(_))) => return (EdgeOutcome::Empty, 0),
        (Ok(()), Ok(word)) => word,
        _ => return (EdgeOutcome::Off, 0),
    };
    let wanted = u128::from(word.count(event.direction())) * u128::from(delta_ps);
    let ps = wanted.min(EDGE_CAP_PS);
    // 2^-16 ns, to the nearest; 1 s is 6.6e13 of them.
    let scaled = ((ps << 16) + 500) / 1000;
    event.set_word(0);
    if wanted == 0 {
        return (EdgeOutcome::Empty, 0);
    }
    let outcome = match event.add_correction(scaled as i64) {
        Ok(Correction::Added) if wanted > EDGE_CAP_PS => EdgeOutcome::Capped,
        Ok(Correction::Added) => EdgeOutcome::Converted,
        Ok(Correction::Saturated) => EdgeOutcome::Saturated,
        Ok(Correction::Overflowed) => return (EdgeOutcome::Overflowed, 0),
        Err(_) => return (EdgeOutcome::Off, 0),
    };
    (outcome, ((ps + 500) / 1000) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::MAX_COUNT,
        wire::{
            event::tests::{CARRIERS, Carrier, frame, sum_is_right},
            ptp::tests::message,
        },
    };
    use proptest::prelude::*;

    const DELTA: u64 = 60_000_000;

    /// A message of this type with this word and correction.
    fn with(message_type: u8, word: u32, correction: i64) -> Vec<u8> {
        let mut m = message(message_type);
        m[8..16].copy_from_slice(&correction.to_be_bytes());
        m[16..20].copy_from_slice(&word.to_be_bytes());
        m
    }

    fn marked(message_type: u8, word: u32, r: u32, n: u32) -> (MarkOutcome, u32) {
        let (mut octets, info) = frame(Carrier::Udp6, &with(message_type, word, 0));
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        let outcome = mark(&mut event, r, n);
        let after = event.word();
        assert!(sum_is_right(&octets));
        (outcome, after)
    }

    fn converted(word: u32, correction: i64, delta_ps: u64) -> (EdgeOutcome, u64, u32, i64) {
        let (mut octets, info) = frame(Carrier::Udp4, &with(0, word, correction));
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        let (outcome, ns) = convert(&mut event, delta_ps);
        let (word, correction) = (event.word(), event.correction());
        assert!(sum_is_right(&octets));
        (outcome, ns, word, correction)
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
        let mut m = with(0, 0x4000_0002, 0);
        m.extend([0x80, 0x09, 0, 4, 1, 2, 3, 4]);
        m[3] = 52;
        let (mut octets, info) = frame(Carrier::Udp4, &m);
        let before = octets.clone();
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        assert_eq!(mark(&mut event, 3, MAX_COUNT), MarkOutcome::Authenticated);
        assert_eq!(convert(&mut event, DELTA), (EdgeOutcome::Off, 0));
        assert_eq!(distrust(&mut event), Distrust::Untouched);
        assert_eq!(octets, before);
    }

    #[test]
    fn hosts_lose_their_counts_but_not_their_mode() {
        let distrusted = |word: u32| {
            let (mut octets, info) = frame(Carrier::Ethernet, &with(1, word, 0));
            let mut event = Event::new_checked(&mut octets, &info).unwrap();
            (distrust(&mut event), event.word())
        };
        assert_eq!(distrusted(0x4000_0007), (Distrust::Cleared, 0x4000_0000));
        assert_eq!(distrusted(0x8001_0003), (Distrust::Cleared, 0x8000_0000));
        assert_eq!(distrusted(0xC000_0001), (Distrust::Cleared, 0xC000_0000));
        assert_eq!(distrusted(0xE000_4001), (Distrust::Cleared, 0xE000_0000));
        for word in [0, 0x1234_5678, 0x4000_0000, 0xE000_0000, 0xC000_0002] {
            assert_eq!(distrusted(word), (Distrust::NoCount, word));
        }
    }

    #[test]
    fn edge_conversion_moves_the_count_into_the_correction() {
        let one = 60_000i64 << 16;
        assert_eq!(converted(0x4000_0003, 7, DELTA), (EdgeOutcome::Converted, 180_000, 0, 3 * one + 7));
        assert_eq!(converted(0xC000_0007, -7, DELTA), (EdgeOutcome::Converted, 180_000, 0, 3 * one - 7));
        assert_eq!(converted(0x4000_0000, 7, DELTA), (EdgeOutcome::Empty, 0, 0, 7));
        assert_eq!(converted(0x1234_5678, 7, DELTA), (EdgeOutcome::Empty, 0, 0x1234_5678, 7));
        // 1/3 ns is 21845.33 of 65536: to the nearest.
        assert_eq!(converted(0x4000_0001, 0, 333), (EdgeOutcome::Converted, 0, 0, 21_823));
        // A count that says more than 1 s is not believed further.
        let second = 1_000_000_000i64 << 16;
        assert_eq!(converted(0x7FFF_FFFF, 0, DELTA), (EdgeOutcome::Capped, 1_000_000_000, 0, second));
        assert_eq!(
            converted(0x4000_0001, i64::MAX - 1, DELTA),
            (EdgeOutcome::Saturated, 60_000, 0, i64::MAX)
        );
        assert_eq!(converted(0x4000_0001, i64::MAX, DELTA), (EdgeOutcome::Overflowed, 0, 0, i64::MAX));
        for word in [0x8001_0003, 0xE000_4001] {
            assert_eq!(converted(word, 7, DELTA), (EdgeOutcome::ForwardReverse, 0, word, 7));
        }
        assert_eq!(converted(0xC000_0002, 7, DELTA), (EdgeOutcome::Off, 0, 0xC000_0002, 7));
    }

    proptest! {
        #[test]
        fn every_carrier_gets_the_same_word_and_keeps_its_sum(word: u32, r in 0u32..40, message_type in 0u8..4) {
            let mut words = CARRIERS.map(|carrier| {
                let (mut octets, info) = frame(carrier, &with(message_type, word, 0));
                let mut event = Event::new_checked(&mut octets, &info).unwrap();
                let outcome = mark(&mut event, r, MAX_COUNT);
                let after = event.word();
                assert!(carrier == Carrier::Udp4NoSum || sum_is_right(&octets));
                (outcome, after)
            });
            words.rotate_left(1);
            prop_assert!(words.iter().all(|w| *w == words[0]));
        }
    }
}
