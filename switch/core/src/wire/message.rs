//! A time message that has a marking word, whichever protocol carries it.

use plimsoll_classify::{Class, Kind};

use super::{
    event::Event,
    ntp::{self, NtpMessage},
    ptp,
    word::Direction,
};
use crate::{Field, MarkOutcome};

/// A frame's message with a marking word.
#[derive(Debug)]
pub enum Message<'a> {
    /// A PTP event message, which has a correctionField too.
    Ptp(Event<'a>),
    /// An NTP message with our extension field.
    Ntp(NtpMessage<'a>),
}

impl<'a> Message<'a> {
    /// The message of `frame`, where `info` says it is. Nothing of `info` is believed without a check.
    ///
    /// # Errors
    /// Why the frame has none with a marking word: those of [`Event::new_checked`] and [`NtpMessage::new_checked`].
    #[inline]
    pub fn new_checked(frame: &'a mut [u8], info: &Class) -> Result<Self, MarkOutcome> {
        match info.kind {
            Kind::PtpEvent => Event::new_checked(frame, info).map(Self::Ptp),
            Kind::NtpRequest | Kind::NtpResponse => NtpMessage::new_checked(frame, info).map(Self::Ntp),
            Kind::Other | Kind::PtpGeneral => Err(MarkOutcome::NotSync),
        }
    }

    /// Whether a mark may be written.
    ///
    /// # Errors
    /// Why not: those of [`Event::markable`] and [`NtpMessage::markable`].
    #[inline]
    pub const fn markable(&self) -> Result<(), MarkOutcome> {
        match self {
            Self::Ptp(event) => event.markable(),
            Self::Ntp(message) => message.markable(),
        }
    }

    /// Which way it goes.
    #[inline]
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Ptp(event) => event.direction(),
            Self::Ntp(message) => message.direction(),
        }
    }

    /// Where its marking word is.
    #[inline]
    pub const fn field(&self) -> Field {
        match self {
            Self::Ptp(_) => Field::Ptp,
            Self::Ntp(_) => Field::Ntp,
        }
    }

    /// The marking word, host order.
    #[inline]
    pub fn word(&self) -> u32 {
        match self {
            Self::Ptp(event) => event.word(),
            Self::Ntp(message) => message.word(),
        }
    }

    /// Writes the marking word and mends the UDP checksum over it.
    #[inline]
    pub fn set_word(&mut self, word: u32) {
        match self {
            Self::Ptp(event) => event.set_word(word),
            Self::Ntp(message) => message.set_word(word),
        }
    }
}

/// Which way the frame's time message goes, whether or not it has a marking word; `None` where it is none: PTP of
/// another version than 2, NTP modes 6 and 7, and what is no PTP event message or NTP at all.
#[inline]
pub fn direction(frame: &[u8], info: &Class) -> Option<Direction> {
    let &[first, second] = frame.get(usize::from(info.payload)..)?.first_chunk()?;
    match info.kind {
        Kind::PtpEvent if second & 0x0F == 2 => ptp::direction(first & 0x0F),
        Kind::NtpRequest | Kind::NtpResponse => ntp::direction(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        event::tests::{CARRIERS, frame},
        ntp::tests::{frame as ntp_frame, header},
    };
    use plimsoll_classify::Flags;
    use proptest::prelude::*;

    #[test]
    fn every_message_has_its_field_and_direction() {
        for carrier in CARRIERS {
            for message_type in 0..4 {
                let (mut octets, info) = frame(carrier, &ptp::tests::message(message_type));
                let way = direction(&octets, &info).unwrap();
                let message = Message::new_checked(&mut octets, &info).unwrap();
                assert_eq!((message.field(), message.direction()), (Field::Ptp, way));
                assert_eq!(way == Direction::Forward, matches!(message_type, 1 | 2));
            }
        }
        for (mode, way) in [(3, Some(Direction::Forward)), (4, Some(Direction::Reverse)), (6, None)] {
            let (mut octets, info) = ntp_frame(true, &[header(4, mode), ntp::field(7).to_vec()].concat());
            assert_eq!(direction(&octets, &info), way);
            match Message::new_checked(&mut octets, &info) {
                Ok(message) => assert_eq!((message.field(), message.word()), (Field::Ntp, 7)),
                Err(skip) => assert_eq!((skip, way), (MarkOutcome::NtpMode, None)),
            }
        }
    }

    #[test]
    fn version_1_and_other_frames_have_no_direction() {
        let (mut octets, info) = frame(CARRIERS[1], &ptp::tests::message(0));
        assert_eq!(direction(&octets, &Class::OTHER), None);
        assert_eq!(direction(&octets[..43], &info), None);
        octets[usize::from(info.payload) + 1] = 1;
        assert_eq!(direction(&octets, &info), None);
    }

    proptest! {
        /// Whatever octets and offsets come in, nothing panics.
        #[test]
        fn any_frame_and_any_info(
            mut octets in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0u8..5, flags: u8, l3: u8, l4: u8, payload in 0u8..200, plant in any::<bool>(), word: u32,
        ) {
            let flags = Flags(flags & !Flags::FRAGMENT.0);
            let info = Class { kind: Kind::from_abi(kind), flags, l3, l4, payload, ..Class::OTHER };
            let at = usize::from(payload);
            if plant && octets.len() > at + 76 {
                octets[at] = 0x23;
                octets[at + 48..at + 76].copy_from_slice(&ntp::field(word));
            }
            let _ = direction(&octets, &info);
            if let Ok(mut message) = Message::new_checked(&mut octets, &info) {
                let _ = message.markable();
                message.set_word(word);
                prop_assert_eq!(message.word(), word);
            }
        }
    }
}
