//! A time message that has a marking word, whichever protocol carries it.

use plimsoll_classify::{Class, Flags, Kind};

use super::{
    checksum,
    datagram::{self, Sum},
    ntp, octets, octets_mut,
    ptp::{self, EventMessage},
    word::Direction,
};
use crate::{Field, MarkOutcome};

/// Where a frame's message has its marking word. Found once, with every check; it holds as long as the frame is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The word's first octet in the frame.
    at: u16,
    sum: Sum,
    field: Field,
    direction: Direction,
    /// What covers the word, so that it must not be written.
    covered: Option<MarkOutcome>,
}

impl Place {
    /// Looks into `frame` where `info` says that its message is. Nothing of `info` is believed without a check.
    ///
    /// # Errors
    /// Why the frame has no message with a marking word: [`MarkOutcome::NotSync`], [`MarkOutcome::Fragment`],
    /// [`MarkOutcome::Version`], [`MarkOutcome::Length`], [`MarkOutcome::NtpMode`], [`MarkOutcome::NtpVersion`],
    /// [`MarkOutcome::NoField`].
    // A call would write the result octet by octet and read it back at once as words, for which the stores must retire.
    #[inline(always)]
    pub fn find(frame: &[u8], info: &Class) -> Result<Self, MarkOutcome> {
        let field = match info.kind {
            Kind::PtpEvent => Field::Ptp,
            // Of NTP over anything else than UDP nobody has heard.
            Kind::NtpRequest | Kind::NtpResponse if info.flags.has(Flags::UDP) => Field::Ntp,
            _ => return Err(MarkOutcome::NotSync),
        };
        let (message, sum) = datagram::find(frame, info)?;
        let (at, direction, covered) = if field == Field::Ptp {
            let event = EventMessage::new_checked(message)?;
            let covered = event.is_authenticated().then_some(MarkOutcome::Authenticated);
            (ptp::WORD, event.direction(), covered)
        } else {
            let (at, direction, last) = ntp::find(message)?;
            (at, direction, (!last).then_some(MarkOutcome::FieldNotLast))
        };
        let covered = if sum.is_invalid() { Some(MarkOutcome::ZeroChecksum) } else { covered };
        let at = u16::try_from(usize::from(info.payload) + at).map_err(|_| MarkOutcome::Length)?;
        Ok(Self { at, sum, field, direction, covered })
    }

    /// Which field the word is in.
    #[inline]
    pub const fn field(&self) -> Field {
        self.field
    }

    /// Which way the message goes.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The marking word of the frame that this was found in, host order.
    #[inline]
    pub fn word(&self, frame: &[u8]) -> u32 {
        octets(frame, self.at).map_or(0, |octets| u32::from_be_bytes(*octets))
    }
}

/// A frame's message with a marking word, open for marks.
#[derive(Debug)]
pub struct Message<'a> {
    frame: &'a mut [u8],
    place: Place,
}

impl<'a> Message<'a> {
    /// The message of `frame`, where `info` says it is.
    ///
    /// # Errors
    /// Those of [`Place::find`].
    #[inline]
    pub fn new_checked(frame: &'a mut [u8], info: &Class) -> Result<Self, MarkOutcome> {
        Place::find(frame, info).map(|place| Self { frame, place })
    }

    /// The message of a frame in which the place was found before.
    #[inline]
    pub(crate) const fn at(frame: &'a mut [u8], place: Place) -> Self {
        Self { frame, place }
    }

    /// Whether a mark may be written.
    ///
    /// # Errors
    /// [`MarkOutcome::ZeroChecksum`], [`MarkOutcome::Authenticated`] or [`MarkOutcome::FieldNotLast`].
    #[inline]
    pub const fn markable(&self) -> Result<(), MarkOutcome> {
        match self.place.covered {
            Some(covered) => Err(covered),
            None => Ok(()),
        }
    }

    /// Which way it goes.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.place.direction
    }

    /// Where its marking word is.
    #[inline]
    pub const fn field(&self) -> Field {
        self.place.field
    }

    /// The marking word, host order.
    #[inline]
    pub fn word(&self) -> u32 {
        self.place.word(self.frame)
    }

    /// Writes the marking word and mends the UDP checksum over it.
    #[inline]
    pub fn set_word(&mut self, word: u32) {
        if let Some(octets) = octets_mut(self.frame, self.place.at) {
            let old = u32::from_be_bytes(*octets);
            *octets = word.to_be_bytes();
            self.place.sum.mend(self.frame, |sum| checksum::mended_u32(sum, old, word));
        }
    }

    /// The frame.
    #[inline]
    pub(super) const fn frame(&mut self) -> &mut [u8] {
        self.frame
    }

    /// The word's first octet in the frame.
    #[inline]
    pub(super) const fn word_at(&self) -> u16 {
        self.place.at
    }

    /// The checksum over the message.
    #[inline]
    pub(super) const fn sum(&self) -> Sum {
        self.place.sum
    }
}

/// Which way the frame's time message goes, whether or not it has a marking word; `None` where it is none: PTP of
/// another version than 2, NTP modes 6 and 7, and what is no PTP event message or NTP at all.
#[inline]
pub fn direction(frame: &[u8], info: &Class) -> Option<Direction> {
    let &[first, second] = octets(frame, u16::from(info.payload))?;
    match info.kind {
        Kind::PtpEvent if second & 0x0F == 2 => ptp::direction(first & 0x0F),
        Kind::NtpRequest | Kind::NtpResponse => ntp::direction(first),
        _ => None,
    }
}

/// Whether the frame's time message answers one request, and so has something to say of it: Pdelay_Resp, NTP modes 4 and
/// 2. Sync and NTP broadcasts (mode 5) answer nobody, and a Delay_Resp is a general message, which no switch marks.
#[inline]
pub fn answers(frame: &[u8], info: &Class) -> bool {
    match (info.kind, frame.get(usize::from(info.payload))) {
        (Kind::PtpEvent, Some(first)) => ptp::answers(first & 0x0F),
        (Kind::NtpRequest | Kind::NtpResponse, Some(&first)) => ntp::answers(first),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        event::tests::{CARRIERS, frame},
        ntp::tests::{frame as ntp_frame, header},
    };
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
