//! correctionField of a PTP event message, beside its marking word.

use plimsoll_classify::{Class, Kind};

use super::{
    checksum,
    message::Message,
    octets_mut,
    ptp::{CORRECTION_BEFORE_WORD, CORRECTION_OVERFLOW},
};
use crate::{Field, MarkOutcome};

/// A frame's PTP event message, open for marks and corrections.
#[derive(Debug)]
pub struct Event<'a>(Message<'a>);

/// What became of a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Added.
    Added,
    /// Added as far as the field goes: it says "too large to represent" now (or the lowest value).
    Saturated,
    /// The field said so before and stays.
    Overflowed,
}

impl<'a> Event<'a> {
    /// The event message of `frame`, where `info` says it is. Nothing of `info` is believed without a check.
    ///
    /// # Errors
    /// Why the frame has none: [`MarkOutcome::NotSync`] (NTP included), [`MarkOutcome::Fragment`],
    /// [`MarkOutcome::Version`], [`MarkOutcome::Length`].
    #[inline]
    pub fn new_checked(frame: &'a mut [u8], info: &Class) -> Result<Self, MarkOutcome> {
        if info.kind != Kind::PtpEvent {
            return Err(MarkOutcome::NotSync);
        }
        Message::new_checked(frame, info).map(Self)
    }

    /// The same of a message; `None` where it is NTP's.
    #[inline]
    pub(crate) fn of(message: Message<'a>) -> Option<Self> {
        (message.field() == Field::Ptp).then_some(Self(message))
    }

    /// The message, for its marking word.
    #[inline]
    pub const fn message(&mut self) -> &mut Message<'a> {
        &mut self.0
    }

    /// correctionField in 2^-16 ns.
    #[inline]
    pub fn correction(&mut self) -> i64 {
        self.field().map_or(0, |field| i64::from_be_bytes(*field))
    }

    /// Adds 2^-16 ns to correctionField. It saturates; a field that says "too large" ([`CORRECTION_OVERFLOW`]) stays.
    /// What covers the marking word does not cover this field (an AUTHENTICATION TLV: clause 16.14.3).
    ///
    /// # Errors
    /// [`MarkOutcome::ZeroChecksum`] where the frame's sum must not be touched.
    #[inline]
    pub fn add_correction(&mut self, scaled: i64) -> Result<Correction, MarkOutcome> {
        let sum = self.0.sum();
        if sum.is_invalid() {
            return Err(MarkOutcome::ZeroChecksum);
        }
        let Some(field) = self.field() else { return Err(MarkOutcome::Length) };
        let old = i64::from_be_bytes(*field);
        if old == CORRECTION_OVERFLOW {
            return Ok(Correction::Overflowed);
        }
        let new = old.saturating_add(scaled);
        *field = new.to_be_bytes();
        sum.mend(self.0.frame(), |sum| checksum::mended_u64(sum, old as u64, new as u64));
        let whole = old.checked_add(scaled).is_some() && new != CORRECTION_OVERFLOW;
        Ok(if whole { Correction::Added } else { Correction::Saturated })
    }

    #[inline]
    fn field(&mut self) -> Option<&mut [u8; 8]> {
        let at = self.0.word_at().checked_sub(CORRECTION_BEFORE_WORD)?;
        octets_mut(self.0.frame(), at)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{super::ptp::tests::message, *};
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use plimsoll_classify::{Flags, WINDOW, classify};
    use proptest::prelude::*;

    /// What carries the message of a test.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Carrier {
        Ethernet,
        Udp4,
        Udp4NoSum,
        Udp6,
    }

    pub(crate) const CARRIERS: [Carrier; 4] =
        [Carrier::Ethernet, Carrier::Udp4, Carrier::Udp4NoSum, Carrier::Udp6];

    /// A frame with this message in it, and what the classifier says of it.
    pub(crate) fn frame(carrier: Carrier, message: &[u8]) -> (Vec<u8>, Class) {
        let (source, destination) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let mut frame = Vec::new();
        match carrier {
            Carrier::Ethernet => {
                frame.extend(destination);
                frame.extend(source);
                frame.extend([0x88, 0xF7]);
                frame.extend(message);
                frame.resize(frame.len().max(60), 0);
            }
            Carrier::Udp4 | Carrier::Udp4NoSum => PacketBuilder::ethernet2(source, destination)
                .ipv4([10, 0, 0, 1], [224, 0, 1, 129], 1)
                .udp(319, 319)
                .write(&mut frame, message)
                .unwrap(),
            Carrier::Udp6 => PacketBuilder::ethernet2(source, destination)
                .ipv6([0xFE; 16], [0xFF; 16], 1)
                .udp(319, 319)
                .write(&mut frame, &[message, &[0, 0]].concat())
                .unwrap(),
        }
        if carrier == Carrier::Udp4NoSum {
            frame[40..42].fill(0);
        }
        let mut info = classified(&frame);
        assert_eq!(info.kind, Kind::PtpEvent, "{carrier:?}");
        // One complete sum in 65,536 looks like a partial one; here they are complete.
        info.flags = Flags(info.flags.0 & !Flags::PARTIAL_CHECKSUM.0);
        (frame, info)
    }

    pub(crate) fn classified(frame: &[u8]) -> Class {
        let mut window = [0; WINDOW];
        let len = frame.len().min(WINDOW);
        window[..len].copy_from_slice(&frame[..len]);
        classify(&window, frame.len() as u32)
    }

    /// Whether the frame's UDP sum, where it has one, is what another library computes.
    pub(crate) fn sum_is_right(frame: &[u8]) -> bool {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { return true };
        let header = udp.to_header();
        let computed = match sliced.net.unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap()
            }
            etherparse::NetSlice::Ipv6(ip) => {
                header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap()
            }
            _ => unreachable!("no other network layer is built here"),
        };
        header.checksum == computed
    }

    #[test]
    fn a_word_is_written_where_it_belongs_and_the_sum_stays_right() {
        for carrier in CARRIERS {
            let (mut octets, info) = frame(carrier, &message(0));
            let before = octets.clone();
            Event::new_checked(&mut octets, &info).unwrap().message().set_word(0x4000_0005);
            let payload = usize::from(info.payload);
            assert_eq!(octets[payload + 16..payload + 20], [0x40, 0, 0, 5], "{carrier:?}");
            let sum = usize::from(info.l4) + 6;
            let mut expected = before.clone();
            expected[payload + 16..payload + 20].copy_from_slice(&[0x40, 0, 0, 5]);
            match carrier {
                Carrier::Udp4 | Carrier::Udp6 => {
                    expected[sum..sum + 2].copy_from_slice(&octets[sum..sum + 2]);
                    assert!(sum_is_right(&octets), "{carrier:?}");
                }
                Carrier::Ethernet | Carrier::Udp4NoSum => {}
            }
            assert_eq!(octets, expected, "{carrier:?}: nothing else changes");
        }
    }

    #[test]
    fn corrections_saturate_and_leave_the_overflow_value_alone() {
        let (mut octets, info) = frame(Carrier::Udp4, &message(1));
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        assert_eq!(event.add_correction(5 << 16), Ok(Correction::Added));
        assert_eq!(event.correction(), 5 << 16);
        assert_eq!(event.add_correction(-(6 << 16)), Ok(Correction::Added));
        assert_eq!(event.correction(), -(1 << 16));
        assert_eq!(event.add_correction(i64::MAX), Ok(Correction::Added));
        assert_eq!(event.add_correction(i64::MAX), Ok(Correction::Saturated));
        assert_eq!(event.correction(), CORRECTION_OVERFLOW);
        assert_eq!(event.add_correction(-1), Ok(Correction::Overflowed));
        assert_eq!(event.correction(), CORRECTION_OVERFLOW);
        assert!(sum_is_right(&octets));
    }

    #[test]
    fn a_zero_sum_over_ipv6_and_a_partial_sum_are_left_alone() {
        let (mut octets, info) = frame(Carrier::Udp6, &message(0));
        let sum = usize::from(info.l4) + 6;
        octets[sum..sum + 2].fill(0);
        let mut event = Event::new_checked(&mut octets, &info).unwrap();
        assert_eq!(event.message().markable(), Err(MarkOutcome::ZeroChecksum));
        assert_eq!(event.add_correction(1), Err(MarkOutcome::ZeroChecksum));

        for carrier in [Carrier::Udp4, Carrier::Udp6] {
            let (mut octets, mut info) = frame(carrier, &message(0));
            let sum = usize::from(info.l4) + 6;
            octets[sum..sum + 2].copy_from_slice(&[0x12, 0x34]);
            info.flags = info.flags.with(Flags::PARTIAL_CHECKSUM);
            let mut event = Event::new_checked(&mut octets, &info).unwrap();
            assert_eq!(event.message().markable(), Ok(()));
            event.message().set_word(0x4000_0001);
            assert_eq!(event.add_correction(77), Ok(Correction::Added));
            assert_eq!(octets[sum..sum + 2], [0x12, 0x34], "{carrier:?}");
        }
    }

    #[test]
    fn a_message_beyond_its_datagram_is_not_touched() {
        // The frame is long enough, but the UDP length ends before the message does: no sum would cover the word.
        let (mut octets, info) = frame(Carrier::Udp4, &message(0));
        let length = usize::from(info.l4) + 4;
        octets[length..length + 2].copy_from_slice(&51u16.to_be_bytes());
        assert_eq!(Event::new_checked(&mut octets, &info).unwrap_err(), MarkOutcome::Length);
        octets[length..length + 2].copy_from_slice(&53u16.to_be_bytes());
        assert_eq!(Event::new_checked(&mut octets, &info).unwrap_err(), MarkOutcome::Length);
    }

    #[test]
    fn fragments_and_other_frames_have_no_event() {
        let (mut octets, mut info) = frame(Carrier::Udp4, &message(0));
        assert_eq!(Event::new_checked(&mut octets, &Class::OTHER).unwrap_err(), MarkOutcome::NotSync);
        info.flags = info.flags.with(Flags::FRAGMENT);
        assert_eq!(Event::new_checked(&mut octets, &info).unwrap_err(), MarkOutcome::Fragment);
    }

    proptest! {
        /// Whatever octets and offsets come in, nothing panics, and a right sum stays right through any change.
        #[test]
        fn any_frame_and_any_info(
            mut octets in prop::collection::vec(any::<u8>(), 0..150),
            flags: u8, l3: u8, l4: u8, payload in 0u8..160, version: bool, word: u32, scaled: i64,
        ) {
            let info = Class { kind: Kind::PtpEvent, flags: Flags(flags & !2), l3, l4, payload, ..Class::OTHER };
            if version && octets.len() > usize::from(payload) + 4 {
                octets[usize::from(payload)..][..4].copy_from_slice(&[0, 2, 0, 44]);
            }
            if let Ok(mut event) = Event::new_checked(&mut octets, &info) {
                event.message().set_word(word);
                prop_assert_eq!(event.message().word(), word);
                let _ = event.add_correction(scaled);
            }
        }

        #[test]
        fn sums_stay_right_through_any_sequence_of_changes(
            changes in prop::collection::vec((any::<u32>(), any::<i64>()), 1..8),
            carrier in prop::sample::select(CARRIERS.to_vec()),
            message_type in 0u8..4,
        ) {
            let (mut octets, info) = frame(carrier, &message(message_type));
            for (word, scaled) in changes {
                let mut event = Event::new_checked(&mut octets, &info).unwrap();
                event.message().set_word(word);
                event.add_correction(scaled).unwrap();
                prop_assert!(carrier == Carrier::Udp4NoSum || sum_is_right(&octets));
            }
        }
    }

    #[test]
    fn the_judge_of_sums_finds_a_wrong_one() {
        let (mut octets, info) = frame(Carrier::Udp6, &message(0));
        assert!(sum_is_right(&octets));
        octets[usize::from(info.payload) + 3] ^= 1;
        assert!(!sum_is_right(&octets));
    }
}
