//! A time message, where its marking word is, and whether it may be changed.

use plimsoll_classify::word::{Direction, Word};
use plimsoll_classify::{Class, Flags, ntp, ptp};

use crate::{Count, Packet};

/// TLVs that are looked at behind an event message; with more it is left alone, as if authenticated.
const MAX_TLVS: u32 = 8;
/// NTP extension fields that are looked at: NTS has up to ten.
const MAX_FIELDS: u32 = 12;

const UDP_HEADER: u32 = 8;
const UDP_LENGTH: u32 = 4;
const UDP_CHECKSUM: u32 = 6;

/// The checksum over a message.
#[derive(Clone, Copy)]
pub(crate) enum Sum {
    /// None, or one that somebody completes later.
    Untouched,
    At(u32),
}

/// The marking word of a message, and its checksum.
#[derive(Clone, Copy)]
pub(crate) struct Marked {
    pub(crate) at: u32,
    pub(crate) word: u32,
    pub(crate) direction: Direction,
    pub(crate) sum: Sum,
}

/// A word's count that is to be used: how many marks, and the word without them.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) count: u32,
    pub(crate) cleared: u32,
}

impl Marked {
    /// The count of the message's own direction. Where a word has two, the other one stays: it is what a server of ours
    /// sends back.
    #[inline(always)]
    pub(crate) fn counted(&self) -> Result<Counted, Count> {
        let Ok(word) = Word::decode(self.word) else { return Err(Count::InvalidWord) };
        let cleared = if word.is_both() { word.with_count(self.direction, 0).encode() } else { 0 };
        Ok(Counted { count: word.count(self.direction), cleared })
    }

    /// Writes the word and mends the sum.
    #[inline(always)]
    pub(crate) fn write<P: Packet>(&self, packet: &mut P, word: u32) -> bool {
        if !packet.store(self.at, word.to_be_bytes()) {
            return false;
        }
        self.sum.mend(packet, self.word, word);
        true
    }
}

impl Sum {
    #[inline(always)]
    pub(crate) fn mend<P: Packet>(self, packet: &mut P, old: u32, new: u32) {
        if let Self::At(at) = self {
            packet.mend_udp(at, old, new);
        }
    }

    /// That of a message in the frame.
    #[inline(always)]
    pub(crate) fn of<P: Packet>(packet: &P, class: &Class) -> Result<Self, Count> {
        if !class.flags.has(Flags::UDP) {
            return Ok(Self::Untouched);
        }
        let at = u32::from(class.l4) + UDP_CHECKSUM;
        let sum = packet.load::<2>(at).ok_or(Count::Failed)?;
        match sum {
            [0, 0] if class.flags.has(Flags::IPV6) => Err(Count::ZeroChecksum),
            [0, 0] => Ok(Self::Untouched),
            _ if !P::KNOWS_PARTIAL && class.flags.has(Flags::PARTIAL_CHECKSUM) => Ok(Self::Untouched),
            _ => Ok(Self::At(at)),
        }
    }
}

/// Where the message's datagram ends (over Ethernet: the frame).
#[inline(always)]
pub(crate) fn end<P: Packet>(packet: &P, class: &Class, len: u32) -> Result<u32, Count> {
    if !class.flags.has(Flags::UDP) {
        return Ok(len);
    }
    let l4 = u32::from(class.l4);
    let length = u16::from_be_bytes(packet.load(l4 + UDP_LENGTH).ok_or(Count::Failed)?);
    let end = l4 + u32::from(length);
    if u32::from(length) < UDP_HEADER || end > len { Err(Count::Length) } else { Ok(end) }
}

/// The common header of a PTP message, whose whole length is inside its datagram, and where the message ends.
#[inline(always)]
pub(crate) fn header<P: Packet>(
    packet: &P,
    class: &Class,
    len: u32,
) -> Result<([u8; ptp::HEADER_LEN], u32), Count> {
    let at = u32::from(class.payload);
    let header: [u8; ptp::HEADER_LEN] = packet.load(at).ok_or(Count::Length)?;
    if header[1] & 0x0F != 2 {
        return Err(Count::Other);
    }
    let length = u32::from(u16::from_be_bytes([header[2], header[3]]));
    let body = if header[0] & 0x0F == 2 || header[0] & 0x0F == 3 || header[0] & 0x0F == 0xA {
        ptp::PEER_DELAY_LEN as u32
    } else {
        ptp::EVENT_LEN as u32
    };
    if length < body || at + length > end(packet, class, len)? {
        return Err(Count::Length);
    }
    Ok((header, at + length))
}

/// The marking word of a PTP event message, with its header.
#[inline(always)]
pub(crate) fn event<P: Packet>(
    packet: &P,
    class: &Class,
    len: u32,
) -> Result<(Marked, [u8; ptp::HEADER_LEN]), Count> {
    let (header, end) = header(packet, class, len)?;
    let kind = header[0] & 0x0F;
    let direction = ptp::direction(kind).ok_or(Count::Other)?;
    let at = u32::from(class.payload);
    let body = if kind < 2 { ptp::EVENT_LEN } else { ptp::PEER_DELAY_LEN } as u32;
    if is_authenticated(packet, at + body, end)? {
        return Err(Count::Authenticated);
    }
    let word = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
    let sum = Sum::of(packet, class)?;
    Ok((Marked { at: at + 16, word, direction, sum }, header))
}

/// Whether an AUTHENTICATION TLV is among those from `at` to `end`. One that does not fit ends the search.
#[inline(always)]
fn is_authenticated<P: Packet>(packet: &P, mut at: u32, end: u32) -> Result<bool, Count> {
    let mut seen = 0;
    while seen < MAX_TLVS {
        if at + 4 > end {
            return Ok(false);
        }
        let [t0, t1, l0, l1] = packet.load(at).ok_or(Count::Failed)?;
        if u16::from_be_bytes([t0, t1]) == ptp::TLV_AUTHENTICATION {
            return Ok(true);
        }
        at += 4 + u32::from(u16::from_be_bytes([l0, l1]));
        seen += 1;
    }
    Ok(at + 4 <= end)
}

/// What an NTP message has behind its header.
pub(crate) enum Behind {
    /// No field of ours.
    None,
    /// Ours, and nothing behind it.
    Field(Marked),
    /// Ours, which what follows covers.
    Covered,
}

/// The field of an NTP message that goes this way.
#[inline(always)]
pub(crate) fn behind<P: Packet>(
    packet: &P,
    class: &Class,
    len: u32,
    version: u8,
    direction: Direction,
) -> Result<Behind, Count> {
    let message = u32::from(class.payload);
    let end = end(packet, class, len)?;
    let mut at = message + ntp::HEADER_LEN as u32;
    if at > end {
        return Err(Count::Length);
    }
    if version != ntp::VERSION {
        return Ok(Behind::None);
    }
    let (mut found, mut word) = (0, 0);
    let mut seen = 0;
    while seen < MAX_FIELDS && at + ntp::LEAST_FIELD as u32 <= end {
        // Type, length, magic, word: the least field has them.
        let field: [u8; 12] = packet.load(at).ok_or(Count::Failed)?;
        let length = u16::from_be_bytes([field[2], field[3]]);
        // A MAC, or nothing that could be told.
        if length < ntp::LEAST_FIELD as u16 || length & 3 != 0 || at + u32::from(length) > end {
            break;
        }
        let ours = u16::from_be_bytes([field[0], field[1]]) == ntp::FIELD_TYPE
            && length == ntp::FIELD_LEN as u16
            && [field[4], field[5], field[6], field[7]] == ntp::MAGIC;
        if ours {
            found = at;
            word = u32::from_be_bytes([field[8], field[9], field[10], field[11]]);
        }
        at += u32::from(length);
        seen += 1;
    }
    if found == 0 {
        return Ok(Behind::None);
    }
    if found + ntp::FIELD_LEN as u32 != end {
        return Ok(Behind::Covered);
    }
    let sum = Sum::of(packet, class)?;
    Ok(Behind::Field(Marked { at: found + ntp::WORD as u32, word, direction, sum }))
}
