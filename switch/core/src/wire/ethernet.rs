//! Ethernet II and 802.1Q: addresses, EtherType, tag control information.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    /// Of a tagged frame, whose tag begins where the EtherType of others is.
    pub(super) const TCI: Range<usize> = 14..16;
}

/// Octets of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// Octets of a VLAN tag: TPID and TCI.
pub const TAG_LEN: usize = 4;
/// TPID of a customer's tag (802.1Q-2018 Table 9-1).
pub const TPID_C: u16 = 0x8100;
/// TPID of a provider's tag.
pub const TPID_S: u16 = 0x88A8;

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Broadcast.
    pub const BROADCAST: Self = Self([0xFF; 6]);

    /// Whether it stands for a group of stations (802.3 clause 3.2.3: the I/G bit); broadcast included.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The last octet (0x00..=0x0F) of 01-80-C2-00-00-0X, an address that 802.1Q bridges do not forward
    /// (802.1Q-2018 Table 8-1); `None` for any other address.
    #[inline]
    pub const fn reserved(self) -> Option<u8> {
        match self.0 {
            [0x01, 0x80, 0xC2, 0, 0, last @ 0..=0x0F] => Some(last),
            _ => None,
        }
    }

    /// The address as the lower 48 bits of a number.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address in the lower 48 bits of `number`.
    #[inline]
    pub const fn from_u64(number: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

/// A text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no MAC address; write it like \"02:00:00:00:00:01\"")]
pub struct MacError {
    /// The text.
    pub text: String,
}

impl FromStr for Mac {
    type Err = MacError;

    /// # Errors
    /// [`MacError`] unless `text` is six pairs of hex digits with colons between them.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let refuse = || MacError { text: text.into() };
        let mut octets = [0; 6];
        let mut pairs = text.split(':');
        for octet in &mut octets {
            let pair = pairs.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = u8::from_str_radix(pair.ok_or_else(refuse)?, 16).map_err(|_| refuse())?;
        }
        if pairs.next().is_some() { Err(refuse()) } else { Ok(Self(octets)) }
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The header of a frame that is long enough to have one.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Header<'a> {
    /// The view; `None` where the frame is shorter than 14 octets.
    #[inline]
    pub const fn new_checked(frame: &'a [u8]) -> Option<Self> {
        match frame.first_chunk() {
            Some(header) => Some(Self(header)),
            None => None,
        }
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Mac {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.0[field::DESTINATION]);
        Mac(mac)
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Mac {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.0[field::SOURCE]);
        Mac(mac)
    }

    /// EtherType or length; the TPID where the frame is tagged.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        let mut word = [0; 2];
        word.copy_from_slice(&self.0[field::ETHERTYPE]);
        u16::from_be_bytes(word)
    }
}

/// Tag control information of a VLAN tag, host order (802.1Q-2018 clause 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tci(pub u16);

impl Tci {
    /// A tag's control information of this priority, 0..7, and VLAN, with DEI 0.
    #[inline]
    pub const fn new(pcp: u8, vid: u16) -> Self {
        Self((pcp as u16) << 13 | vid & 0x0FFF)
    }

    /// Priority code point, 0..7.
    #[inline]
    pub const fn pcp(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// VLAN identifier, 0 (priority tag: no VLAN) to 4095.
    #[inline]
    pub const fn vid(self) -> u16 {
        self.0 & 0x0FFF
    }
}

/// The outer tag of a frame that has one.
#[inline]
pub fn tag(frame: &[u8]) -> Option<Tci> {
    let tpid = Header::new_checked(frame)?.ethertype();
    let tci = frame.get(field::TCI)?.first_chunk()?;
    matches!(tpid, TPID_C | TPID_S).then_some(Tci(u16::from_be_bytes(*tci)))
}

/// Writes the outer tag of a frame that has one.
#[inline]
pub(crate) fn set_tag(frame: &mut [u8], tci: Tci) {
    if let Some(octets) = frame.get_mut(field::TCI) {
        octets.copy_from_slice(&tci.0.to_be_bytes());
    }
}

/// Writes a tag into a frame that was made [`TAG_LEN`] octets longer in front: the addresses go there, the tag behind
/// them.
#[inline]
pub(crate) fn push_tag(frame: &mut [u8], tci: Tci) {
    if let Some(start) = frame.first_chunk_mut::<{ HEADER_LEN + 2 }>() {
        start.copy_within(TAG_LEN.., 0);
        start[field::ETHERTYPE].copy_from_slice(&TPID_C.to_be_bytes());
        start[field::TCI].copy_from_slice(&tci.0.to_be_bytes());
    }
}

/// Moves the addresses over the outer tag, so that the frame's first [`TAG_LEN`] octets are for nothing.
#[inline]
pub(crate) fn pop_tag(frame: &mut [u8]) {
    if let Some(start) = frame.first_chunk_mut::<{ HEADER_LEN + 2 }>() {
        start.copy_within(..field::SOURCE.end, TAG_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_in_behind_the_addresses_and_out_again() {
        let plain: Vec<u8> = (1..=12).chain([0x08, 0x00, 0x45]).collect();
        let mut frame = [&[0xEE; 4][..], &plain].concat();
        push_tag(&mut frame, Tci::new(5, 10));
        let tagged: Vec<u8> = (1..=12).chain([0x81, 0x00, 0xA0, 0x0A, 0x08, 0x00, 0x45]).collect();
        assert_eq!((&frame, tag(&frame), tag(&plain)), (&tagged, Some(Tci(0xA00A)), None));
        set_tag(&mut frame, Tci(0xB00B));
        assert_eq!(tag(&frame), Some(Tci(0xB00B)));
        pop_tag(&mut frame);
        assert_eq!(frame[4..], plain);
        for cut in 0..16 {
            let mut short = tagged[..cut].to_vec();
            assert_eq!(tag(&short), None);
            set_tag(&mut short, Tci(0));
        }
    }

    #[test]
    fn a_header_reads_its_fields() {
        let frame = [1, 2, 3, 4, 5, 6, 0x0A, 7, 8, 9, 10, 11, 0x88, 0xF7, 0xFF];
        let header = Header::new_checked(&frame).unwrap();
        assert_eq!(header.destination(), Mac([1, 2, 3, 4, 5, 6]));
        assert_eq!(header.source(), Mac([0x0A, 7, 8, 9, 10, 11]));
        assert_eq!(header.ethertype(), 0x88F7);
        assert!(Header::new_checked(&frame[..13]).is_none());
    }

    #[test]
    fn addresses_say_what_they_are() {
        assert!(Mac::BROADCAST.is_group());
        assert!(!Mac([2, 0, 0, 0, 0, 1]).is_group());
        assert_eq!(Mac([1, 0x80, 0xC2, 0, 0, 0x0E]).reserved(), Some(0x0E));
        assert_eq!(Mac([1, 0x80, 0xC2, 0, 0, 0x10]).reserved(), None);
        assert_eq!(Mac([1, 0x1B, 0x19, 0, 0, 0]).reserved(), None);
        let mac: Mac = "02:00:5E:10:00:fF".parse().unwrap();
        assert_eq!(mac, Mac([2, 0, 0x5E, 0x10, 0, 0xFF]));
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02:00:00:00:00:+1"] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_tci_splits() {
        assert_eq!((Tci(0xB00A).pcp(), Tci(0xB00A).vid()), (5, 10));
    }
}
