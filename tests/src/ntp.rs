//! NTP packets made octet by octet (RFC 5905, RFC 7822), with and without our extension field.

use crate::frames::ether;
use etherparse::PacketBuilder;
use std::net::IpAddr;

/// Type and magic of our field.
const FIELD: u16 = 0xF5C0;
const MAGIC: [u8; 4] = *b"CMC1";

/// What stands behind the 48 octets of an NTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Plain,
    /// Our field, with this word.
    Field(u32),
    /// The same, and a message authentication code of 20 octets (a key's number and SHA-1's first 16) after it.
    FieldThenMac(u32),
    /// A message authentication code alone.
    Mac,
    /// A field of NTS (RFC 8915 section 5: Unique Identifier) of the length of ours.
    Other,
    /// Our field with another magic.
    Foreign(u32),
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// 3 asks, 4 answers.
    pub mode: u8,
    /// What stands behind the header.
    pub tail: Tail,
}

impl Packet {
    /// Its octets.
    pub fn octets(self) -> Vec<u8> {
        let mut octets = vec![4 << 3 | self.mode, 1, 6, 0xE6];
        // Dispersions and times: any.
        octets.extend((4..48).map(|n| n * 5));
        let field = |of: u16, magic: [u8; 4], word: u32| {
            let mut field = [of.to_be_bytes(), 28_u16.to_be_bytes()].concat();
            field.extend(magic);
            field.extend(word.to_be_bytes());
            field.resize(28, 0);
            field
        };
        let mac = [&[0, 0, 0, 1][..], &[0x6B; 16]].concat();
        match self.tail {
            Tail::Plain => {}
            Tail::Field(word) => octets.extend(field(FIELD, MAGIC, word)),
            Tail::FieldThenMac(word) => octets.extend([field(FIELD, MAGIC, word), mac].concat()),
            Tail::Mac => octets.extend(mac),
            Tail::Other => octets.extend(field(0x0104, [7; 4], 0x0707_0707)),
            Tail::Foreign(word) => octets.extend(field(FIELD, *b"CMC2", word)),
        }
        octets
    }

    /// A frame that carries it from one station to another, over the family of their addresses.
    ///
    /// # Panics
    /// When the addresses are of two families.
    pub fn frame(self, from: ([u8; 6], IpAddr), to: ([u8; 6], IpAddr)) -> Vec<u8> {
        let (builder, ethertype) = match (from.1, to.1) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (PacketBuilder::ipv4(from.octets(), to.octets(), 64), 0x0800)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                (PacketBuilder::ipv6(from.octets(), to.octets(), 64), 0x86DD)
            }
            addresses => panic!("{addresses:?}"),
        };
        let mut packet = Vec::new();
        builder.udp(123, 123).write(&mut packet, &self.octets()).unwrap();
        ether(to.0, from.0, ethertype, &packet)
    }
}
