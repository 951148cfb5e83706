//! Frames made and read octet by octet. Nothing here is the switch's: what it writes is judged by other eyes.

use etherparse::{IpEcn, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, PacketBuilder};

/// Broadcast.
pub const BROADCAST: [u8; 6] = [0xFF; 6];

const IPV4: u16 = 0x0800;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88A8;
const IPV6: u16 = 0x86DD;
const PTP: u16 = 0x88F7;

/// PTP's group addresses (IEEE 1588-2019 annexes C, D, E), and the Ethernet addresses that stand for the IP ones.
const GROUP_L2: [u8; 6] = [0x01, 0x1B, 0x19, 0, 0, 0];
const GROUP_V4: [u8; 4] = [224, 0, 1, 129];
const GROUP_V4_MAC: [u8; 6] = [0x01, 0x00, 0x5E, 0x00, 0x01, 0x81];
const GROUP_V6: [u8; 16] = [0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x81];
const GROUP_V6_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0x01, 0x81];

/// An Ethernet frame without FCS, padded to 60 octets.
pub fn ether(destination: [u8; 6], source: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&destination[..], &source, &ethertype.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The frame with a tag of this type, VLAN and priority.
pub fn tagged(frame: &[u8], ethertype: u16, vlan: u16, priority: u16) -> Vec<u8> {
    let tag = [ethertype.to_be_bytes(), (priority << 13 | vlan).to_be_bytes()].concat();
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// A frame that says nothing but where it comes from, so that a switch learns the address.
pub fn hello(source: [u8; 6]) -> Vec<u8> {
    ether(BROADCAST, source, 0x88B5, b"hello")
}

/// A frame of so many octets from one station to another, of the EtherType for local experiments (802 clause 9.2.3).
pub fn bulk(source: [u8; 6], destination: [u8; 6], length: usize) -> Vec<u8> {
    ether(destination, source, 0x88B5, &vec![0xA5; length - 14])
}

/// A datagram of so many octets in all that ECN may mark (ECT(0), RFC 3168), from one station to another, but to an
/// address that nobody has: it is dropped there without a word.
///
/// # Panics
/// When it is too short or too long to be one.
pub fn ecn_capable(source: [u8; 6], destination: [u8; 6], length: usize) -> Vec<u8> {
    let header = Ipv4Header {
        ecn: IpEcn::TWO,
        ..Ipv4Header::new(0, 64, IpNumber::UDP, [10, 99, 0, 1], [10, 99, 0, 2]).unwrap()
    };
    let builder =
        PacketBuilder::ethernet2(source, destination).ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()));
    let mut frame = Vec::new();
    builder.udp(9, 9).write(&mut frame, &vec![0xA5; length - 42]).unwrap();
    frame
}

/// What carries a PTP event message to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Ethernet.
    L2,
    /// UDP over IPv4.
    Udp4,
    /// The same without a checksum (RFC 768).
    Udp4NoSum,
    /// UDP over IPv6.
    Udp6,
    /// Ethernet behind one 802.1Q tag.
    TaggedL2,
    /// UDP over IPv4 behind one tag.
    TaggedUdp4,
    /// UDP over IPv6 behind one tag.
    TaggedUdp6,
}

impl Carrier {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::L2,
        Self::Udp4,
        Self::Udp4NoSum,
        Self::Udp6,
        Self::TaggedL2,
        Self::TaggedUdp4,
        Self::TaggedUdp6,
    ];

    /// Whether the message has a checksum over it.
    pub fn is_summed(self) -> bool {
        matches!(self, Self::Udp4 | Self::Udp6 | Self::TaggedUdp4 | Self::TaggedUdp6)
    }

    /// The VLAN of its tag.
    pub fn vlan(self) -> Option<u16> {
        matches!(self, Self::TaggedL2 | Self::TaggedUdp4 | Self::TaggedUdp6).then_some(7)
    }
}

/// The parts of a PTP message that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// messageType: 0 Sync, 1 Delay_Req, ...
    pub kind: u8,
    /// domainNumber.
    pub domain: u8,
    /// sequenceId.
    pub sequence: u16,
    /// messageTypeSpecific: the marking word.
    pub word: u32,
    /// correctionField, 2^-16 ns.
    pub correction: i64,
}

impl Message {
    /// A Sync as a clock sends it.
    pub fn sync(sequence: u16) -> Self {
        Self { kind: 0, domain: 0, sequence, word: 0, correction: 0 }
    }

    /// The message, 44 octets.
    pub fn octets(self) -> Vec<u8> {
        let mut octets = vec![0; 44];
        octets[0] = self.kind;
        octets[1] = 0x12; // minor version 1
        octets[2..4].copy_from_slice(&44_u16.to_be_bytes());
        octets[4] = self.domain;
        octets[6] = 0x02; // two-step
        octets[8..16].copy_from_slice(&self.correction.to_be_bytes());
        octets[16..20].copy_from_slice(&self.word.to_be_bytes());
        octets[20..30].copy_from_slice(&[2, 0, 0, 0xFF, 0xFE, 0xE2, 0xE0, 1, 0, 1]);
        octets[30..32].copy_from_slice(&self.sequence.to_be_bytes());
        octets
    }

    /// A frame with the message, to PTP's group.
    ///
    /// # Panics
    /// Never: the message fits.
    pub fn frame(self, carrier: Carrier, source: [u8; 6]) -> Vec<u8> {
        let message = self.octets();
        let mut packet = Vec::new();
        let mut frame = match carrier {
            Carrier::L2 | Carrier::TaggedL2 => ether(GROUP_L2, source, PTP, &message),
            Carrier::Udp4 | Carrier::Udp4NoSum | Carrier::TaggedUdp4 => {
                let builder = PacketBuilder::ipv4([10, 88, 0, 9], GROUP_V4, 1).udp(319, 319);
                builder.write(&mut packet, &message).unwrap();
                ether(GROUP_V4_MAC, source, IPV4, &packet)
            }
            Carrier::Udp6 | Carrier::TaggedUdp6 => {
                let from = [0xFD, 0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
                let builder = PacketBuilder::ipv6(from, GROUP_V6, 1).udp(319, 319);
                // Two octets more than messageLength, as linuxptp sends them.
                builder.write(&mut packet, &[&message[..], &[0, 0]].concat()).unwrap();
                ether(GROUP_V6_MAC, source, IPV6, &packet)
            }
        };
        if carrier == Carrier::Udp4NoSum {
            frame[40..42].fill(0);
        }
        match carrier.vlan() {
            Some(vlan) => tagged(&frame, VLAN, vlan, 0),
            None => frame,
        }
    }
}

/// What a marking word says, by its layout alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// No mark.
    None,
    /// An integer.
    Integer(u32),
    /// Integers of requests and of responses.
    IntegerBoth(u32, u32),
    /// A thermometer.
    Shift(u32),
    /// Thermometers of requests and of responses.
    ShiftBoth(u32, u32),
    /// No valid word.
    Invalid,
}

impl Marks {
    /// Reads a word.
    pub fn of(word: u32) -> Self {
        let ones = |bits: u32| (bits.count_ones() == bits.trailing_ones()).then_some(bits.count_ones());
        match (word >> 30, word >> 29 & 1) {
            (0, _) => Self::None,
            (1, _) => Self::Integer(word & 0x3FFF_FFFF),
            (2, _) => Self::IntegerBoth(word >> 15 & 0x7FFF, word & 0x7FFF),
            (_, 0) => ones(word & 0x1FFF_FFFF).map_or(Self::Invalid, Self::Shift),
            _ if word >> 28 & 1 == 1 => Self::Invalid,
            _ => match (ones(word >> 14 & 0x3FFF), ones(word & 0x3FFF)) {
                (Some(forward), Some(reverse)) => Self::ShiftBoth(forward, reverse),
                _ => Self::Invalid,
            },
        }
    }
}

/// A UDP checksum as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The message is not over UDP.
    None,
    /// Zero: not summed.
    Zero,
    /// What one computes.
    Right,
    /// Anything else.
    Wrong,
}

/// A PTP event message as it was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The message.
    pub message: Message,
    /// Its checksum.
    pub sum: Sum,
    /// The VLAN of the outer tag.
    pub vlan: Option<u16>,
}

/// The PTP event message of a frame; `None` where there is none.
pub fn read(frame: &[u8]) -> Option<Seen> {
    let mut at = 12;
    let mut vlan = None;
    let mut ethertype = word(frame, at)?;
    while matches!(ethertype, VLAN | SERVICE_VLAN) {
        vlan = vlan.or(Some(word(frame, at + 2)? & 0x0FFF));
        at += 4;
        ethertype = word(frame, at)?;
    }
    let network = at + 2;
    let (message, sum) = match ethertype {
        PTP => (frame.get(network..)?, Sum::None),
        IPV4 if frame.get(network + 9) == Some(&17) => {
            let udp = network + usize::from(frame[network] & 15) * 4;
            datagram(frame, udp, &frame[network + 12..network + 20])?
        }
        IPV6 if frame.get(network + 6) == Some(&17) => {
            datagram(frame, network + 40, frame.get(network + 8..network + 40)?)?
        }
        _ => return None,
    };
    let header = message.get(..34)?;
    let message = Message {
        kind: header[0] & 15,
        domain: header[4],
        sequence: word(header, 30)?,
        word: u32::from_be_bytes(header[16..20].try_into().ok()?),
        correction: i64::from_be_bytes(header[8..16].try_into().ok()?),
    };
    (message.kind < 4).then_some(Seen { message, sum, vlan })
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(octets.get(at..at + 2)?.try_into().ok()?))
}

/// The payload of a datagram to port 319, and its checksum; `addresses` are those of its network header.
fn datagram<'f>(frame: &'f [u8], at: usize, addresses: &[u8]) -> Option<(&'f [u8], Sum)> {
    if word(frame, at + 2)? != 319 {
        return None;
    }
    let length = word(frame, at + 4)?;
    let udp = frame.get(at..at + usize::from(length))?;
    let sum = match word(udp, 6)? {
        0 => Sum::Zero,
        // Over everything with the sum itself, the result is all ones.
        _ if folded(&[addresses, &[0, 17], &length.to_be_bytes(), udp]) == 0xFFFF => Sum::Right,
        _ => Sum::Wrong,
    };
    Some((udp.get(8..)?, sum))
}

/// The one's complement sum (RFC 1071), added up word by word.
fn folded(parts: &[&[u8]]) -> u32 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_what_is_read() {
        let message = Message { kind: 1, domain: 3, sequence: 77, word: 0x4000_0005, correction: -9 };
        for carrier in Carrier::ALL {
            let seen = read(&message.frame(carrier, [2, 0, 0, 0, 0, 1])).unwrap();
            let sum = match carrier {
                Carrier::L2 | Carrier::TaggedL2 => Sum::None,
                Carrier::Udp4NoSum => Sum::Zero,
                _ => Sum::Right,
            };
            assert_eq!(seen, Seen { message, sum, vlan: carrier.vlan() }, "{carrier:?}");
        }
    }

    #[test]
    fn a_wrong_sum_is_found_and_other_frames_are_none() {
        for carrier in Carrier::ALL.into_iter().filter(|carrier| carrier.is_summed()) {
            let mut frame = Message::sync(1).frame(carrier, [2, 0, 0, 0, 0, 1]);
            let tag = if carrier.vlan().is_some() { 4 } else { 0 };
            let payload = if carrier == Carrier::Udp6 || carrier == Carrier::TaggedUdp6 { 62 } else { 42 };
            frame[payload + tag + 40] ^= 1;
            assert_eq!(read(&frame).unwrap().sum, Sum::Wrong, "{carrier:?}");
        }
        assert_eq!(read(&hello([2, 0, 0, 0, 0, 1])), None);
        let follow_up = Message { kind: 8, ..Message::sync(1) };
        assert_eq!(read(&follow_up.frame(Carrier::L2, [2, 0, 0, 0, 0, 1])), None);
    }

    #[test]
    fn a_word_says_its_mode_and_its_counts() {
        for (word, marks) in [
            (0, Marks::None),
            (0x3FFF_FFFF, Marks::None),
            (0x4000_0005, Marks::Integer(5)),
            (0x8001_8002, Marks::IntegerBoth(3, 2)),
            (0xC000_0007, Marks::Shift(3)),
            (0xDFFF_FFFF, Marks::Shift(29)),
            (0xC000_0005, Marks::Invalid),
            (0xE000_C001, Marks::ShiftBoth(2, 1)),
            (0xE000_8001, Marks::Invalid),
            (0xF000_0000, Marks::Invalid),
        ] {
            assert_eq!(Marks::of(word), marks, "{word:#x}");
        }
    }
}
