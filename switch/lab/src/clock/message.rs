//! The PTP messages that a clock needs, as octets and as values (IEEE 1588-2019 clause 13).
//!
//! Octets 16..19 of the header, messageTypeSpecific, are zero for these messages by the standard; here they carry the
//! marking word.

use plimsoll_core::wire::ptp::{HEADER_LEN, Header};
use serde::{Deserialize, Serialize};
use std::fmt;

/// UDP port of event messages (Annex C.2, D.2).
pub const EVENT_PORT: u16 = 319;
/// UDP port of general messages.
pub const GENERAL_PORT: u16 = 320;
/// EtherType of PTP (Annex E.2).
pub const ETHERTYPE: u16 = 0x88F7;

/// versionPTP 2, minorVersionPTP 1 (clause 13.3.2): edition 2019.
const VERSION: u8 = 0x12;

mod field {
    use std::ops::Range;

    pub(super) const LENGTH: Range<usize> = 2..4;
    pub(super) const DOMAIN: usize = 4;
    pub(super) const FLAGS: Range<usize> = 6..8;
    pub(super) const CORRECTION: Range<usize> = 8..16;
    pub(super) const WORD: Range<usize> = 16..20;
    pub(super) const SOURCE: Range<usize> = 20..30;
    pub(super) const SEQUENCE: Range<usize> = 30..32;
    pub(super) const CONTROL: usize = 32;
    pub(super) const INTERVAL: usize = 33;
    /// First field of every message's body here: a Timestamp.
    pub(super) const TIMESTAMP: Range<usize> = 34..44;
    pub(super) const REQUESTING: Range<usize> = 44..54;
}

/// Bits of flagField, octet 0 the high one (clause 13.3.2, Table 37).
pub mod flags {
    /// A Sync whose precise time comes in a Follow_Up.
    pub const TWO_STEP: u16 = 0x0200;
    /// "PTP profile Specific 1". On a Delay_Resp of [`super::super::Server`] it says: the count of the request's mark
    /// is already in correctionField.
    pub const COMPENSATED: u16 = 0x2000;
}

/// clockIdentity and portNumber (clause 5.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortIdentity(pub [u8; 10]);

impl PortIdentity {
    /// Port 1 of the clock that has this MAC address, its identity made as EUI-48 in EUI-64 (FF-FE between the halves,
    /// as linuxptp does too; clause 7.5.2.2).
    pub const fn from_mac(mac: [u8; 6]) -> Self {
        Self([mac[0], mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5], 0, 1])
    }
}

impl fmt::Display for PortIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, high, low] = self.0;
        write!(
            f,
            "{a:02x}{b:02x}{c:02x}.{d:02x}{e:02x}.{g:02x}{h:02x}{i:02x}-{}",
            u16::from_be_bytes([high, low])
        )
    }
}

impl fmt::Debug for PortIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What differs between the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Clause 13.6, messageType 0. In two-step mode the time in it is an estimate or 0.
    Sync {
        /// originTimestamp.
        origin_ns: u64,
    },
    /// Clause 13.6, messageType 1.
    DelayReq {
        /// originTimestamp: an estimate or 0.
        origin_ns: u64,
    },
    /// Clause 13.7, messageType 8.
    FollowUp {
        /// preciseOriginTimestamp: t1.
        origin_ns: u64,
    },
    /// Clause 13.8, messageType 9.
    DelayResp {
        /// receiveTimestamp: t4.
        receive_ns: u64,
        /// Whose Delay_Req it answers.
        requesting: PortIdentity,
    },
    /// Clause 13.9, messageType 2.
    PdelayReq {
        /// originTimestamp: an estimate or 0.
        origin_ns: u64,
    },
    /// Clause 13.10, messageType 3.
    PdelayResp {
        /// requestReceiptTimestamp.
        receive_ns: u64,
        /// Whose Pdelay_Req it answers.
        requesting: PortIdentity,
    },
    /// Clause 13.11, messageType A.
    PdelayRespFollowUp {
        /// responseOriginTimestamp.
        origin_ns: u64,
        /// Whose Pdelay_Req was answered.
        requesting: PortIdentity,
    },
    /// Clause 13.5, messageType B. The grandmaster is the sender; the rest are the defaults of clause 7.6.
    Announce {
        /// grandmasterPriority1 and 2; 128 by default, the smaller wins.
        priority: u8,
    },
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// domainNumber.
    pub domain: u8,
    /// flagField: [`flags`].
    pub flags: u16,
    /// correctionField: nanoseconds times 2^16 (clause 13.3.2).
    pub correction: i64,
    /// The marking word.
    pub word: u32,
    /// sourcePortIdentity.
    pub source: PortIdentity,
    /// sequenceId.
    pub sequence: u16,
    /// logMessageInterval: log2 of seconds, 0x7F where it says nothing.
    pub log_interval: i8,
    /// The rest.
    pub body: Body,
}

/// Octets that are no message for a clock of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Shorter than its type needs, or than it says.
    #[error("shorter than a message of its type")]
    Truncated,
    /// Not version 2.
    #[error("PTP version {0}")]
    Version(u8),
    /// A messageType that this clock does not use.
    #[error("messageType {0:#x}")]
    Type(u8),
    /// A time with more than 10^9 - 1 nanoseconds, or beyond the year 2554.
    #[error("a timestamp that is none")]
    Timestamp,
}

impl Body {
    const fn message_type(self) -> u8 {
        match self {
            Self::Sync { .. } => 0x0,
            Self::DelayReq { .. } => 0x1,
            Self::PdelayReq { .. } => 0x2,
            Self::PdelayResp { .. } => 0x3,
            Self::FollowUp { .. } => 0x8,
            Self::DelayResp { .. } => 0x9,
            Self::PdelayRespFollowUp { .. } => 0xA,
            Self::Announce { .. } => 0xB,
        }
    }

    /// Octets of the whole message.
    const fn length(self) -> usize {
        match self {
            Self::Sync { .. } | Self::DelayReq { .. } | Self::FollowUp { .. } => 44,
            // A Pdelay_Req is as long as its answer, so that both wait alike.
            Self::DelayResp { .. }
            | Self::PdelayReq { .. }
            | Self::PdelayResp { .. }
            | Self::PdelayRespFollowUp { .. } => 54,
            Self::Announce { .. } => 64,
        }
    }

    /// controlField, which only PTPv1 hardware reads (clause 13.3.2, Table 42).
    const fn control(self) -> u8 {
        match self {
            Self::Sync { .. } => 0,
            Self::DelayReq { .. } => 1,
            Self::FollowUp { .. } => 2,
            Self::DelayResp { .. } => 3,
            Self::Announce { .. }
            | Self::PdelayReq { .. }
            | Self::PdelayResp { .. }
            | Self::PdelayRespFollowUp { .. } => 5,
        }
    }

    /// Whether it is of peer delay: those have destinations of their own.
    pub(crate) const fn is_peer_delay(self) -> bool {
        matches!(self, Self::PdelayReq { .. } | Self::PdelayResp { .. } | Self::PdelayRespFollowUp { .. })
    }
}

impl Message {
    /// The message's octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = vec![0; self.body.length()];
        b[0] = self.body.message_type();
        b[1] = VERSION;
        b[field::LENGTH].copy_from_slice(&(self.body.length() as u16).to_be_bytes());
        b[field::DOMAIN] = self.domain;
        b[field::FLAGS].copy_from_slice(&self.flags.to_be_bytes());
        b[field::CORRECTION].copy_from_slice(&self.correction.to_be_bytes());
        b[field::WORD].copy_from_slice(&self.word.to_be_bytes());
        b[field::SOURCE].copy_from_slice(&self.source.0);
        b[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        b[field::CONTROL] = self.body.control();
        b[field::INTERVAL] = self.log_interval.to_be_bytes()[0];
        match self.body {
            Body::Sync { origin_ns }
            | Body::DelayReq { origin_ns }
            | Body::PdelayReq { origin_ns }
            | Body::FollowUp { origin_ns } => {
                b[field::TIMESTAMP].copy_from_slice(&timestamp(origin_ns));
            }
            Body::DelayResp { receive_ns: ns, requesting }
            | Body::PdelayResp { receive_ns: ns, requesting }
            | Body::PdelayRespFollowUp { origin_ns: ns, requesting } => {
                b[field::TIMESTAMP].copy_from_slice(&timestamp(ns));
                b[field::REQUESTING].copy_from_slice(&requesting.0);
            }
            Body::Announce { priority } => {
                b[47] = priority;
                // grandmasterClockQuality: class 248 (default), accuracy unknown, variance not computed.
                b[48..52].copy_from_slice(&[248, 0xFE, 0xFF, 0xFF]);
                b[52] = priority;
                b[53..61].copy_from_slice(&self.source.0[..8]);
                // timeSource: an internal oscillator.
                b[63] = 0xA0;
            }
        }
        b
    }

    /// Reads a message; what follows its messageLength (padding, the two octets of Annex D) is left alone.
    ///
    /// # Errors
    /// [`MessageError`] where the octets are none that a clock of ours takes.
    pub fn decode(octets: &[u8]) -> Result<Self, MessageError> {
        let fixed: &[u8; HEADER_LEN] = octets.first_chunk().ok_or(MessageError::Truncated)?;
        let header = Header::new_checked(fixed).ok_or(MessageError::Version(fixed[1] & 0x0F))?;
        let length = usize::from(header.message_length());
        let octets = octets.get(..length).ok_or(MessageError::Truncated)?;
        let time = || {
            let octets = octets.get(field::TIMESTAMP).ok_or(MessageError::Truncated)?;
            read_timestamp(octets).ok_or(MessageError::Timestamp)
        };
        let requesting = || octets.get(field::REQUESTING).map(identity).ok_or(MessageError::Truncated);
        let body = match header.message_type() {
            0x0 => Body::Sync { origin_ns: time()? },
            0x1 => Body::DelayReq { origin_ns: time()? },
            0x2 => Body::PdelayReq { origin_ns: time()? },
            0x3 => Body::PdelayResp { receive_ns: time()?, requesting: requesting()? },
            0x8 => Body::FollowUp { origin_ns: time()? },
            0x9 => Body::DelayResp { receive_ns: time()?, requesting: requesting()? },
            0xA => Body::PdelayRespFollowUp { origin_ns: time()?, requesting: requesting()? },
            0xB => Body::Announce { priority: *octets.get(47).ok_or(MessageError::Truncated)? },
            other => return Err(MessageError::Type(other)),
        };
        if length < body.length() {
            return Err(MessageError::Truncated);
        }
        Ok(Self {
            domain: fixed[field::DOMAIN],
            flags: number(&fixed[field::FLAGS]) as u16,
            correction: header.correction(),
            word: header.type_specific(),
            source: PortIdentity(header.id().source_port_identity),
            sequence: header.id().sequence_id,
            log_interval: fixed[field::INTERVAL].cast_signed(),
            body,
        })
    }
}

fn number(big_endian: &[u8]) -> u64 {
    big_endian.iter().fold(0, |n, &octet| n << 8 | u64::from(octet))
}

fn identity(octets: &[u8]) -> PortIdentity {
    let mut identity = PortIdentity([0; 10]);
    identity.0.copy_from_slice(octets);
    identity
}

/// Timestamp: 48 bits of seconds, 32 of nanoseconds (clause 5.3.3).
fn timestamp(ns: u64) -> [u8; 10] {
    let mut octets = [0; 10];
    octets[..6].copy_from_slice(&(ns / 1_000_000_000).to_be_bytes()[2..]);
    octets[6..].copy_from_slice(&((ns % 1_000_000_000) as u32).to_be_bytes());
    octets
}

/// The same, as nanoseconds since the epoch; `None` where it is no time or does not fit.
pub(crate) fn read_timestamp(octets: &[u8]) -> Option<u64> {
    let (seconds, nanoseconds) = (number(octets.get(..6)?), number(octets.get(6..10)?));
    if nanoseconds >= 1_000_000_000 {
        return None;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: PortIdentity = PortIdentity([0, 1, 2, 0xFF, 0xFE, 3, 4, 5, 0, 1]);
    const CLIENT: PortIdentity = PortIdentity([10, 11, 12, 0xFF, 0xFE, 13, 14, 15, 0, 1]);
    const TIME: u64 = 0x0102_0304 * 1_000_000_000 + 0x0506_0708;

    fn message(body: Body) -> Message {
        Message {
            domain: 7,
            flags: flags::TWO_STEP,
            correction: -0x0001_8000,
            word: 0x4000_002A,
            source: SOURCE,
            sequence: 0xABCD,
            log_interval: -6,
            body,
        }
    }

    fn all() -> [Message; 8] {
        [
            Body::Sync { origin_ns: TIME },
            Body::DelayReq { origin_ns: 0 },
            Body::FollowUp { origin_ns: TIME },
            Body::DelayResp { receive_ns: TIME, requesting: CLIENT },
            Body::Announce { priority: 128 },
            Body::PdelayReq { origin_ns: 0 },
            Body::PdelayResp { receive_ns: TIME, requesting: CLIENT },
            Body::PdelayRespFollowUp { origin_ns: TIME, requesting: CLIENT },
        ]
        .map(message)
    }

    #[test]
    fn the_octets_of_a_delay_resp_are_those_of_the_standard() {
        let octets = message(Body::DelayResp { receive_ns: TIME, requesting: CLIENT }).encode();
        #[rustfmt::skip]
        assert_eq!(octets, [
            0x09, 0x12, 0, 54, 7, 0, 0x02, 0x00,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0x80, 0x00,
            0x40, 0x00, 0x00, 0x2A,
            0, 1, 2, 0xFF, 0xFE, 3, 4, 5, 0, 1,
            0xAB, 0xCD, 3, 0xFA,
            0, 0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
            10, 11, 12, 0xFF, 0xFE, 13, 14, 15, 0, 1,
        ]);
    }

    #[test]
    fn the_octets_of_an_announce_are_those_of_the_standard() {
        let octets = message(Body::Announce { priority: 100 }).encode();
        #[rustfmt::skip]
        assert_eq!(octets[34..], [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 100, 248, 0xFE, 0xFF, 0xFF, 100,
            0, 1, 2, 0xFF, 0xFE, 3, 4, 5, 0, 0, 0xA0,
        ]);
        assert_eq!((octets.len(), octets[0], octets[3], octets[32]), (64, 0x0B, 64, 5));
    }

    #[test]
    fn every_message_reads_back_also_with_octets_behind_it() {
        for message in all() {
            let mut octets = message.encode();
            assert_eq!(Message::decode(&octets), Ok(message));
            octets.extend([0xEE; 12]);
            assert_eq!(Message::decode(&octets), Ok(message));
        }
    }

    #[test]
    fn a_message_cut_anywhere_or_that_says_it_is_shorter_is_refused() {
        for message in all() {
            let mut octets = message.encode();
            for length in 0..octets.len() {
                assert_eq!(Message::decode(&octets[..length]), Err(MessageError::Truncated));
            }
            for says in 0..octets.len() {
                octets[3] = says as u8;
                assert_eq!(Message::decode(&octets), Err(MessageError::Truncated), "{says}");
            }
        }
    }

    #[test]
    fn other_versions_types_and_times_that_are_none_are_refused() {
        let mut octets = message(Body::Sync { origin_ns: TIME }).encode();
        octets[1] = 0x02;
        assert!(Message::decode(&octets).is_ok(), "edition 2008");
        octets[1] = 0x01;
        assert_eq!(Message::decode(&octets), Err(MessageError::Version(1)));
        octets[1] = 0x12;
        octets[0] = 0x1C;
        assert_eq!(Message::decode(&octets), Err(MessageError::Type(0xC)), "Signaling");
        octets[0] = 0x10;
        assert!(Message::decode(&octets).is_ok(), "majorSdoId 1");
        octets[40..44].copy_from_slice(&1_000_000_000u32.to_be_bytes());
        assert_eq!(Message::decode(&octets), Err(MessageError::Timestamp));
    }

    #[test]
    fn an_identity_is_written_as_linuxptp_writes_it() {
        assert_eq!(PortIdentity::from_mac([0, 1, 2, 3, 4, 5]), SOURCE);
        assert_eq!(SOURCE.to_string(), "000102.fffe.030405-1");
    }
}
