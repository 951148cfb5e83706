//! Edge conversion: marks become a correction, for clocks that know nothing of marks.

use crate::{
    EdgeOutcome,
    wire::{
        event::{Correction, Event},
        word::Word,
    },
};

/// Largest delay that edge conversion believes, in picoseconds: 1 s.
const CAP_PS: u128 = 1_000_000_000_000;

/// Edge conversion: n * delta into correctionField, the word to 0, so that a clock which knows nothing of marks profits
/// and none that does compensates twice. Returns what became of it and the nanoseconds added.
#[inline]
pub(super) fn convert(event: &mut Event<'_>, delta_ps: u64) -> (EdgeOutcome, u64) {
    let message = event.message();
    let word = match (message.markable(), Word::decode(message.word())) {
        (Ok(()), Ok(word)) if word.is_both() => return (EdgeOutcome::ForwardReverse, 0),
        // An unmarked word's bits are not ours to clear.
        (Ok(()), Ok(Word::Unmarked(_))) => return (EdgeOutcome::Empty, 0),
        (Ok(()), Ok(word)) => word,
        _ => return (EdgeOutcome::Off, 0),
    };
    let wanted = u128::from(word.count(message.direction())) * u128::from(delta_ps);
    let ps = wanted.min(CAP_PS);
    // 2^-16 ns, to the nearest; 1 s is 6.6e13 of them.
    let scaled = ((ps << 16) + 500) / 1000;
    message.set_word(0);
    if wanted == 0 {
        return (EdgeOutcome::Empty, 0);
    }
    let outcome = match event.add_correction(scaled as i64) {
        Ok(Correction::Added) if wanted > CAP_PS => EdgeOutcome::Capped,
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
    use crate::wire::{
        event::tests::{Carrier, frame, sum_is_right},
        ptp::tests::message,
    };

    const DELTA: u64 = 60_000_000;

    /// A message of this type with this word and correction.
    fn with(message_type: u8, word: u32, correction: i64) -> Vec<u8> {
        let mut m = message(message_type);
        m[8..16].copy_from_slice(&correction.to_be_bytes());
        m[16..20].copy_from_slice(&word.to_be_bytes());
        m
    }

    fn converted(word: u32, correction: i64, delta_ps: u64) -> (EdgeOutcome, u64, u32, i64) {
        let (mut octets, info) = frame(Carrier::Udp4, &with(0, word, correction));
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        let (outcome, ns) = convert(&mut event, delta_ps);
        let (word, correction) = (event.message().word(), event.correction());
        assert!(sum_is_right(&octets));
        (outcome, ns, word, correction)
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

    #[test]
    fn an_authenticated_message_is_left_alone() {
        let mut m = with(0, 0x4000_0002, 0);
        m.extend([0x80, 0x09, 0, 4, 1, 2, 3, 4]);
        m[3] = 52;
        let (mut octets, info) = frame(Carrier::Udp4, &m);
        let before = octets.clone();
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        assert_eq!(convert(&mut event, DELTA), (EdgeOutcome::Off, 0));
        assert_eq!(octets, before);
    }
}
