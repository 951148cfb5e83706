//! NTP packets with the marking extension field, as octets and as values (RFC 5905 section 7.3, RFC 7822).
//!
//! The word is that of PTP; an endpoint of ours always writes the forward-reverse mode, since one exchange needs the
//! counts of both directions apart: the server sends the request's count back in the forward half, and the response
//! gathers its own in the other. The field is [`plimsoll_core::wire::ntp`]'s.

use plimsoll_core::wire::ntp::{FIELD_LEN, HEADER_LEN, VERSION, field};
use std::time::Duration;

/// Octets of a packet with its extension field.
pub const LEN: usize = HEADER_LEN + FIELD_LEN;
/// UDP port (RFC 5905 section 7.2).
pub const PORT: u16 = 123;

/// LI 0, and the version.
const FIRST: u8 = VERSION << 3;
/// Octets of the field that say whose it is: type, length, magic.
const KNOWN_BY: usize = 8;

/// Which side sent it (RFC 5905 figure 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 3.
    Client,
    /// 4.
    Server,
}

/// A packet. Times are nanoseconds since NTP's epoch of 1900, modulo an era (2^32 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Client or server.
    pub mode: Mode,
    /// Origin timestamp: of a response the request's transmit timestamp.
    pub origin_ns: u64,
    /// Receive timestamp: when the server received the request.
    pub receive_ns: u64,
    /// Transmit timestamp: when the packet was sent.
    pub transmit_ns: u64,
    /// Log2 of the poll interval in seconds.
    pub poll: i8,
    /// The marking word of the extension field.
    pub word: u32,
}

impl Packet {
    /// The packet's octets.
    pub fn encode(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        b[0] = FIRST | if self.mode == Mode::Client { 3 } else { 4 };
        b[1] = if self.mode == Mode::Client { 0 } else { 1 };
        b[2] = self.poll.to_be_bytes()[0];
        // Precision 2^-30 s.
        b[3] = (-30i8).to_be_bytes()[0];
        b[24..32].copy_from_slice(&timestamp(self.origin_ns).to_be_bytes());
        b[32..40].copy_from_slice(&timestamp(self.receive_ns).to_be_bytes());
        b[40..48].copy_from_slice(&timestamp(self.transmit_ns).to_be_bytes());
        b[HEADER_LEN..].copy_from_slice(&field(self.word));
        b
    }

    /// Reads a packet; `None` where it is of another version or mode, or its last field is not ours.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let b: &[u8; LEN] = octets.try_into().ok()?;
        let mode = match b[0] & 0x3F {
            octet if octet == FIRST | 3 => Mode::Client,
            octet if octet == FIRST | 4 => Mode::Server,
            _ => return None,
        };
        if b[HEADER_LEN..HEADER_LEN + KNOWN_BY] != field(0)[..KNOWN_BY] {
            return None;
        }
        let number =
            |from: usize| b[from..from + 8].iter().fold(0, |n: u64, &octet| n << 8 | u64::from(octet));
        Some(Self {
            mode,
            origin_ns: nanoseconds(number(24)),
            receive_ns: nanoseconds(number(32)),
            transmit_ns: nanoseconds(number(40)),
            poll: b[2].cast_signed(),
            word: (number(56) >> 32) as u32,
        })
    }
}

/// The poll field of an interval: log2 of seconds, to the nearest.
pub fn poll(interval: Duration) -> i8 {
    super::log_interval(interval)
}

/// From 1900 to 1970.
const EPOCH_NS: u64 = 2_208_988_800 * 1_000_000_000;
/// An era: 2^32 s.
const ERA_NS: u64 = (1 << 32) * 1_000_000_000;

/// NTP's time, as a [`Packet`] has it, of nanoseconds since 1970.
pub const fn from_unix(ns: u64) -> u64 {
    (ns + EPOCH_NS) % ERA_NS
}

/// Nanoseconds since 1970 of NTP's time, within the 136 years from then on.
pub const fn to_unix(ns: u64) -> u64 {
    (ns % ERA_NS + ERA_NS - EPOCH_NS) % ERA_NS
}

/// 32 bits of seconds, 32 of their fraction, to the nearest: 2^-32 s is 0.23 ns, so that whole nanoseconds read back.
fn timestamp(ns: u64) -> u64 {
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    (seconds << 32) + ((rest << 32) + 500_000_000) / 1_000_000_000
}

fn nanoseconds(timestamp: u64) -> u64 {
    let (seconds, fraction) = (timestamp >> 32, timestamp & 0xFFFF_FFFF);
    seconds * 1_000_000_000 + ((fraction * 1_000_000_000 + (1 << 31)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_classify::{Kind, WINDOW, classify};

    fn packet() -> Packet {
        Packet {
            mode: Mode::Server,
            origin_ns: 1,
            receive_ns: 999_999_999,
            transmit_ns: 4_000_000_123_456_789_012,
            poll: -6,
            word: 0x8001_0000,
        }
    }

    #[test]
    fn the_octets_are_those_of_the_standard_and_of_the_field() {
        let octets = packet().encode();
        assert_eq!(octets[..4], [0x24, 1, 0xFA, 0xE2]);
        // 1 ns is 4.29 of 2^-32 s.
        assert_eq!(octets[24..32], [0, 0, 0, 0, 0, 0, 0, 4]);
        #[rustfmt::skip]
        assert_eq!(octets[48..60], [0xF5, 0xC0, 0, 28, b'C', b'M', b'C', b'1', 0x80, 1, 0, 0]);
        assert_eq!(octets[60..], [0; 16]);
        let request = Packet { mode: Mode::Client, ..packet() }.encode();
        assert_eq!(request[0], 0x23);
    }

    #[test]
    fn whole_nanoseconds_read_back() {
        assert_eq!(Packet::decode(&packet().encode()), Some(packet()));
        for ns in (0..4_000_000_000).step_by(1_234_567) {
            let sent = Packet { transmit_ns: ns, ..packet() };
            assert_eq!(Packet::decode(&sent.encode()), Some(sent));
        }
    }

    #[test]
    fn times_since_1970_read_back_also_in_the_next_era() {
        // 2026, and after 2036-02-07, when NTP's seconds begin anew.
        for ns in [1_796_000_000_123_456_789, 2_085_978_496_000_000_000, 3_000_000_000_999_999_999] {
            assert_eq!(to_unix(from_unix(ns)), ns);
        }
        assert_eq!(from_unix(0), EPOCH_NS);
        assert_eq!(from_unix(2_085_978_496_000_000_000), 0);
    }

    #[test]
    fn anything_else_is_none() {
        let octets = packet().encode();
        assert_eq!(Packet::decode(&octets[..LEN - 1]), None);
        assert_eq!(Packet::decode(&[&octets[..], &[0]].concat()), None);
        for at in [0, 48, 51, 52] {
            let mut other = octets;
            other[at] ^= 0x08;
            assert_eq!(Packet::decode(&other), None, "octet {at}");
        }
    }

    #[test]
    fn the_classifier_takes_it_for_what_it_is() {
        for (mode, kind) in [(Mode::Client, Kind::NtpRequest), (Mode::Server, Kind::NtpResponse)] {
            let mut frame = Vec::new();
            etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
                .udp(PORT, PORT)
                .write(&mut frame, &Packet { mode, ..packet() }.encode())
                .unwrap();
            let mut window = [0; WINDOW];
            window[..frame.len()].copy_from_slice(&frame);
            assert_eq!(classify(&window, frame.len() as u32).kind, kind);
        }
    }
}
