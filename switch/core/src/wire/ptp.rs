//! The PTP header and what a switch needs of an event message (IEEE 1588-2019 clause 13).

use plimsoll_classify::{Class, Kind};
use serde::Serialize;

use super::word::Direction;
use crate::MarkOutcome;

pub use plimsoll_classify::ptp::{
    CORRECTION_OVERFLOW, EVENT_LEN, HEADER_LEN, PEER_DELAY_LEN, TLV_AUTHENTICATION, direction,
};

mod field {
    use core::ops::Range;

    pub(super) const TYPE: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const LENGTH: Range<usize> = 2..4;
    pub(super) const DOMAIN: usize = 4;
    pub(super) const CORRECTION: Range<usize> = 8..16;
    pub(super) const TYPE_SPECIFIC: Range<usize> = 16..20;
    pub(super) const SOURCE_PORT: Range<usize> = 20..30;
    pub(super) const SEQUENCE: Range<usize> = 30..32;
}

/// Where the marking word stands in the header: messageTypeSpecific.
pub(super) const WORD: usize = field::TYPE_SPECIFIC.start;
/// How far before it correctionField begins.
pub(super) const CORRECTION_BEFORE_WORD: u16 = (WORD - field::CORRECTION.start) as u16;

/// What tells one PTP message from another (clause 7.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MessageId {
    /// domainNumber: clocks of several domains may share an identity.
    pub domain: u8,
    /// messageType: 0 Sync, 1 Delay_Req, 2 Pdelay_Req, 3 Pdelay_Resp, 8..D general messages.
    pub message_type: u8,
    /// sequenceId.
    pub sequence_id: u16,
    /// sourcePortIdentity: clockIdentity (8 octets) and portNumber (2).
    pub source_port_identity: [u8; 10],
}

/// Which PTP message a frame carries; `None` where the classifier found none or the header does not fit.
#[inline]
pub fn message_id(frame: &[u8], info: &Class) -> Option<MessageId> {
    if !matches!(info.kind, Kind::PtpEvent | Kind::PtpGeneral) {
        return None;
    }
    let message = frame.get(usize::from(info.payload)..)?;
    Some(Header::new_checked(message)?.id())
}

/// Whether an event message of this messageType answers a request: Pdelay_Resp (3) does, Sync does not.
#[inline]
pub const fn answers(message_type: u8) -> bool {
    message_type == 3
}

/// The common header of a PTP version 2 message.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Header<'a> {
    /// The view; `None` where `message` is shorter than the header or of another version than 2 (any minor version).
    #[inline]
    pub const fn new_checked(message: &'a [u8]) -> Option<Self> {
        match message.first_chunk::<HEADER_LEN>() {
            Some(header) if header[field::VERSION] & 0x0F == 2 => Some(Self(header)),
            _ => None,
        }
    }

    /// messageType, 0..15.
    #[inline]
    pub const fn message_type(&self) -> u8 {
        self.0[field::TYPE] & 0x0F
    }

    /// messageLength in octets, TLVs included.
    #[inline]
    pub fn message_length(&self) -> u16 {
        u16::from_be_bytes(part(self.0, field::LENGTH))
    }

    /// correctionField in 2^-16 ns.
    #[inline]
    pub fn correction(&self) -> i64 {
        i64::from_be_bytes(part(self.0, field::CORRECTION))
    }

    /// messageTypeSpecific: the marking word's place.
    #[inline]
    pub fn type_specific(&self) -> u32 {
        u32::from_be_bytes(part(self.0, field::TYPE_SPECIFIC))
    }

    /// Which message it is.
    #[inline]
    pub fn id(&self) -> MessageId {
        MessageId {
            domain: self.0[field::DOMAIN],
            message_type: self.message_type(),
            sequence_id: u16::from_be_bytes(part(self.0, field::SEQUENCE)),
            source_port_identity: part(self.0, field::SOURCE_PORT),
        }
    }
}

/// A fixed range of the header as an array; the ranges above fit by construction.
#[inline]
fn part<const N: usize>(header: &[u8; HEADER_LEN], range: core::ops::Range<usize>) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&header[range]);
    octets
}

/// An event message: version 2, messageType 0..3, whole.
#[derive(Clone, Copy, Debug)]
pub struct EventMessage<'a> {
    header: Header<'a>,
    direction: Direction,
    /// What follows the message's own body, up to messageLength.
    tlvs: &'a [u8],
}

impl<'a> EventMessage<'a> {
    /// The view of the message that `message` begins with; what follows messageLength is ignored.
    ///
    /// # Errors
    /// [`MarkOutcome::Length`], [`MarkOutcome::Version`] or, for a general message, [`MarkOutcome::NotSync`].
    #[inline]
    pub fn new_checked(message: &'a [u8]) -> Result<Self, MarkOutcome> {
        if message.len() < HEADER_LEN {
            return Err(MarkOutcome::Length);
        }
        let header = Header::new_checked(message).ok_or(MarkOutcome::Version)?;
        let direction = direction(header.message_type()).ok_or(MarkOutcome::NotSync)?;
        let body = if header.message_type() < 2 { EVENT_LEN } else { PEER_DELAY_LEN };
        let whole = message.get(..usize::from(header.message_length())).ok_or(MarkOutcome::Length)?;
        let tlvs = whole.get(body..).ok_or(MarkOutcome::Length)?;
        Ok(Self { header, direction, tlvs })
    }

    /// Its header.
    #[inline]
    pub const fn header(&self) -> Header<'a> {
        self.header
    }

    /// Whether it is a request (forward) or a response (reverse).
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether an AUTHENTICATION TLV covers it. A TLV that does not fit ends the search.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        let mut rest = self.tlvs;
        while let Some(([t0, t1, l0, l1], after)) = rest.split_first_chunk::<4>() {
            if u16::from_be_bytes([*t0, *t1]) == TLV_AUTHENTICATION {
                return true;
            }
            let Some(next) = after.get(usize::from(u16::from_be_bytes([*l0, *l1]))..) else { break };
            rest = next;
        }
        false
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message of this type with its least length, sequence 0x1234, from port 3.
    pub(crate) fn message(message_type: u8) -> Vec<u8> {
        let len = if matches!(message_type, 2 | 3) { PEER_DELAY_LEN } else { EVENT_LEN };
        let mut m = vec![0; len];
        m[0] = 0x10 | message_type;
        m[1] = 0x12;
        m[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        m[20..30].copy_from_slice(&[0, 0x1B, 0x19, 0xFF, 0xFE, 1, 2, 3, 0, 3]);
        m[30..32].copy_from_slice(&0x1234u16.to_be_bytes());
        m
    }

    fn with_tlv(mut m: Vec<u8>, tlv: u16, value: usize) -> Vec<u8> {
        m.extend(tlv.to_be_bytes());
        m.extend((value as u16).to_be_bytes());
        m.extend(vec![0; value]);
        let len = m.len() as u16;
        m[2..4].copy_from_slice(&len.to_be_bytes());
        m
    }

    fn refusal(m: &[u8]) -> MarkOutcome {
        EventMessage::new_checked(m).unwrap_err()
    }

    #[test]
    fn a_message_reads_its_fields() {
        let mut m = message(1);
        m[4] = 9;
        m[8..16].copy_from_slice(&(-2i64 << 16).to_be_bytes());
        m[16..20].copy_from_slice(&0x4000_0007u32.to_be_bytes());
        let event = EventMessage::new_checked(&m).unwrap();
        assert_eq!(event.direction(), Direction::Forward);
        assert_eq!(event.header().correction(), -131_072);
        assert_eq!(event.header().type_specific(), 0x4000_0007);
        let id = event.header().id();
        assert_eq!(
            (id.domain, id.message_type, id.sequence_id, id.source_port_identity[9]),
            (9, 1, 0x1234, 3)
        );
    }

    #[test]
    fn only_whole_version_2_event_messages_pass() {
        for message_type in 0..=3 {
            let m = message(message_type);
            assert!(EventMessage::new_checked(&m).is_ok());
            for len in 0..m.len() {
                assert_eq!(refusal(&m[..len]), MarkOutcome::Length, "{message_type} cut to {len}");
            }
        }
        let mut m = message(0);
        m[1] = 0x01;
        assert_eq!(refusal(&m), MarkOutcome::Version);
        assert_eq!(refusal(&message(8)), MarkOutcome::NotSync);
        let mut m = message(0);
        m[3] = 43;
        assert_eq!(refusal(&m), MarkOutcome::Length);
        let mut m = message(2);
        m[3] = 44;
        assert_eq!(refusal(&m), MarkOutcome::Length);
    }

    #[test]
    fn an_authentication_tlv_is_found_behind_others() {
        let authenticated = |m: &[u8]| EventMessage::new_checked(m).unwrap().is_authenticated();
        assert!(!authenticated(&message(0)));
        let m = with_tlv(with_tlv(message(0), 0x0003, 6), TLV_AUTHENTICATION, 32);
        assert!(authenticated(&m));
        assert!(authenticated(&with_tlv(message(3), TLV_AUTHENTICATION, 32)));
        assert!(!authenticated(&with_tlv(message(0), 0x0003, 6)));
        // A TLV longer than the message hides nothing behind it.
        let mut m = with_tlv(message(0), 0x0003, 6);
        m[46] = 0xFF;
        assert!(!authenticated(&m));
        // Octets behind messageLength (padding, linuxptp's two over UDPv6) are not read as TLVs.
        let mut m = message(0);
        m.extend([0x80, 0x09, 0, 0]);
        assert!(!authenticated(&m));
    }

    #[test]
    fn an_id_needs_a_ptp_frame() {
        let mut frame = vec![0; 14];
        frame.extend(message(8));
        let info = Class { kind: Kind::PtpGeneral, payload: 14, ..Class::OTHER };
        assert_eq!(message_id(&frame, &info).unwrap().message_type, 8);
        assert_eq!(message_id(&frame, &Class::OTHER), None);
        assert_eq!(message_id(&frame[..40], &info), None);
        assert_eq!(message_id(&frame, &Class { payload: 200, ..info }), None);
    }
}
