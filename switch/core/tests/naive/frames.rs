//! What is sent into both switches: octets for the one, what made them for the model.

use plimsoll_core::MarkOutcome;
use proptest::prelude::*;

use crate::{
    common::{self, Packet, Sum},
    marks::Message,
    model::Priority,
};

/// What a frame holds, as the generator chose it.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Plain { len: usize, tci: Option<u16> },
    Ip { packet: Packet, payload: usize },
    Ptp { packet: Packet, over_ethernet: bool, ptp: Ptp },
    Ntp { packet: Packet, ntp: Ntp },
}

/// A PTP event message.
#[derive(Clone, Debug)]
pub(crate) struct Ptp {
    message_type: u8,
    word: u32,
    correction: i64,
    twist: Twist,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Twist {
    None,
    /// PTP version 1, where it is over UDP.
    Version1,
    /// A messageLength that no event message has.
    Short,
    Authenticated,
}

/// An NTP message.
#[derive(Clone, Debug)]
pub(crate) struct Ntp {
    version: u8,
    mode: u8,
    /// Lengths of the extension fields before ours.
    before: Vec<u16>,
    field: Option<u32>,
    /// Octets behind it, of a MAC.
    after: usize,
}

/// A frame's octets, what the model has to know of them, and where a switch may change them.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) octets: Vec<u8>,
    /// The VLAN that the outer tag names, 0 for none.
    pub(crate) vid: u16,
    pub(crate) priority: Priority,
    pub(crate) message: Option<Message>,
    pub(crate) ecn: Option<u8>,
    pub(crate) places: Places,
}

/// Where in a frame things are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    pub(crate) word: Option<usize>,
    correction: Option<usize>,
    udp_sum: Option<usize>,
    /// The octet with the ECN bits, and the bits in it.
    ecn: Option<(usize, u8)>,
    ipv4_sum: Option<usize>,
}

impl Places {
    /// The frame with all of it blanked: what no switch may change.
    pub(crate) fn blanked(&self, octets: &[u8]) -> Vec<u8> {
        let mut octets = octets.to_vec();
        for (at, len) in [(self.word, 4), (self.correction, 8), (self.udp_sum, 2), (self.ipv4_sum, 2)] {
            if let Some(at) = at {
                octets[at..at + len].fill(0);
            }
        }
        if let Some((at, bits)) = self.ecn {
            octets[at] &= !bits;
        }
        octets
    }

    /// The same in a frame that has become so much longer.
    pub(crate) fn moved(&self, by: isize) -> Self {
        let moved = |at: usize| at.checked_add_signed(by).unwrap();
        Self {
            word: self.word.map(moved),
            correction: self.correction.map(moved),
            udp_sum: self.udp_sum.map(moved),
            ecn: self.ecn.map(|(at, bits)| (moved(at), bits)),
            ipv4_sum: self.ipv4_sum.map(moved),
        }
    }

    pub(crate) fn word(&self, octets: &[u8]) -> u32 {
        self.word.map_or(0, |at| u32::from_be_bytes(octets[at..at + 4].try_into().unwrap()))
    }

    pub(crate) fn correction(&self, octets: &[u8]) -> i64 {
        self.correction.map_or(0, |at| i64::from_be_bytes(octets[at..at + 8].try_into().unwrap()))
    }

    pub(crate) fn ecn(&self, octets: &[u8]) -> Option<u8> {
        self.ecn.map(|(at, bits)| (octets[at] & bits) >> bits.trailing_zeros())
    }

    pub(crate) fn udp_sum(&self, octets: &[u8]) -> Option<[u8; 2]> {
        self.udp_sum.map(|at| [octets[at], octets[at + 1]])
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let tci = || (0u16..16, prop_oneof![Just(0u16), 5u16..8]).prop_map(|(high, vid)| high << 12 | vid);
    let tags = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(tci(), 1..3)];
    let sum = prop_oneof![6 => Just(Sum::Complete), 1 => Just(Sum::Zero), 1 => Just(Sum::Partial)];
    (any::<bool>(), any::<u8>(), tags, prop_oneof![3 => Just(0u8), 1 => 0u8..11], any::<u16>(), sum).prop_map(
        |(v6, tos, tags, options, id, sum)| Packet { v6, tos, tags, options, id, sum, fragment: false },
    )
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(0u32),
        3 => (0u32..70).prop_map(|n| 1 << 30 | n),
        1 => (0u32..40, 0u32..40).prop_map(|(f, r)| 2 << 30 | f << 15 | r),
        1 => (0u32..30).prop_map(|n| 3 << 30 | ((1 << n) - 1)),
        1 => (0u32..15, 0u32..15).prop_map(|(f, r)| 7 << 29 | ((1 << f) - 1) << 14 | ((1 << r) - 1)),
        1 => any::<u32>(),
    ]
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    let len = || prop_oneof![Just(60usize), 14usize..1519, Just(1514)];
    let tci = (0u16..16, prop_oneof![Just(0u16), 5u16..8]).prop_map(|(high, vid)| high << 12 | vid);
    let correction = prop_oneof![Just(0i64), any::<i64>(), Just(i64::MAX), Just(i64::MAX - 65_536)];
    let twist = prop_oneof![
        12 => Just(Twist::None), 1 => Just(Twist::Version1), 1 => Just(Twist::Short), 1 => Just(Twist::Authenticated),
    ];
    let ptp = (0u8..4, word(), correction, twist).prop_map(|(message_type, word, correction, twist)| Ptp {
        message_type,
        word,
        correction,
        twist,
    });
    let version = prop_oneof![9 => Just(4u8), 1 => 1u8..8];
    let mode = prop_oneof![9 => 1u8..6, 1 => 6u8..8];
    let before =
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec((4u16..20).prop_map(|n| n * 4), 1..3)];
    let after = prop_oneof![6 => Just(0usize), 1 => prop::sample::select(vec![4usize, 20, 24, 68])];
    let ntp = (version, mode, before, prop::option::weighted(0.8, word()), after)
        .prop_map(|(version, mode, before, field, after)| Ntp { version, mode, before, field, after });
    let fragment = prop_oneof![4 => Just(false), 1 => Just(true)];
    prop_oneof![
        3 => (len(), prop::option::of(tci)).prop_map(|(len, tci)| Content::Plain { len, tci }),
        3 => (packet(), fragment, 0usize..1400).prop_map(|(packet, fragment, payload)| {
            Content::Ip { packet: Packet { fragment: fragment && !packet.v6, ..packet }, payload }
        }),
        4 => (packet(), prop::bool::weighted(0.3), ptp)
            .prop_map(|(packet, over_ethernet, ptp)| Content::Ptp { packet, over_ethernet, ptp }),
        3 => (packet(), ntp).prop_map(|(packet, ntp)| Content::Ntp { packet, ntp }),
    ]
}

impl Content {
    pub(crate) fn make(&self, source: [u8; 6], destination: [u8; 6]) -> Made {
        match self {
            Self::Plain { len, tci } => {
                let octets = common::plain(source, destination, *tci, *len);
                other(octets, tci.as_slice(), None)
            }
            Self::Ip { packet, payload } => {
                in_packet(packet, packet.udp(source, destination, 5001, &vec![0xA5; *payload]))
            }
            Self::Ptp { packet, over_ethernet: true, ptp } => {
                let (message, octets) = ptp.make(true, None);
                let octets = common::ethernet(source, destination, &packet.tags, 0x88F7, &octets);
                with_message(other(octets, &packet.tags, None), message, packet.l3())
            }
            Self::Ptp { packet, over_ethernet: false, ptp } => {
                let (message, octets) = ptp.make(false, Some(packet));
                let made = in_packet(packet, packet.udp(source, destination, 319, &octets));
                with_message(made, message, packet.payload())
            }
            Self::Ntp { packet, ntp } => {
                let (message, octets, word) = ntp.make(packet);
                let mut made = in_packet(packet, packet.udp(source, destination, 123, &octets));
                made.message = Some(message);
                made.places.word = message.word.map(|_| packet.payload() + word);
                made
            }
        }
    }
}

/// A frame with these tags; without any, its priority is in the DSCP or nowhere.
fn other(octets: Vec<u8>, tags: &[u16], dscp: Option<u8>) -> Made {
    let untagged = dscp.map_or(Priority::Nowhere, Priority::Dscp);
    Made {
        octets,
        vid: tags.first().map_or(0, |tci| tci & 0xFFF),
        priority: tags.first().map_or(untagged, |tci| Priority::Tag((tci >> 13) as u8)),
        message: None,
        ecn: None,
        places: Places::default(),
    }
}

fn in_packet(packet: &Packet, octets: Vec<u8>) -> Made {
    let mut made = other(octets, &packet.tags, Some(packet.tos >> 2));
    let l3 = packet.l3();
    made.ecn = Some(packet.tos & 3);
    made.places.ecn = Some(if packet.v6 { (l3 + 1, 0x30) } else { (l3 + 1, 0x03) });
    made.places.ipv4_sum = (!packet.v6).then_some(l3 + 10);
    made.places.udp_sum = Some(packet.payload() - 2);
    made
}

fn with_message(mut made: Made, message: Message, at: usize) -> Made {
    made.message = Some(message);
    made.places.word = message.word.map(|_| at + 16);
    made.places.correction = message.word.map(|_| at + 8);
    made
}

/// UDP over IPv6 must have a checksum.
fn unsummed(packet: Option<&Packet>) -> Option<MarkOutcome> {
    packet.is_some_and(|packet| packet.v6 && packet.sum == Sum::Zero).then_some(MarkOutcome::ZeroChecksum)
}

impl Ptp {
    fn make(&self, over_ethernet: bool, packet: Option<&Packet>) -> (Message, Vec<u8>) {
        let mut octets = common::ptp_message(self.message_type, self.word, self.correction);
        let mut message = Message {
            ntp: false,
            forward: Some(self.message_type == 1 || self.message_type == 2),
            answers: self.message_type == 3,
            word: Some(self.word),
            skip: unsummed(packet),
            correction: self.correction,
        };
        let unmarked = |skip| Message { word: None, skip: Some(skip), correction: 0, ..message };
        match self.twist {
            Twist::None => {}
            // Over Ethernet it is no PTP.
            Twist::Version1 if over_ethernet => {}
            Twist::Version1 => {
                octets[..2].copy_from_slice(&[0, 1]);
                message = Message { forward: None, ..unmarked(MarkOutcome::Version) };
            }
            Twist::Short => {
                octets[3] = 43;
                message = unmarked(MarkOutcome::Length);
            }
            Twist::Authenticated => {
                octets.extend([0x80, 0x09, 0, 4, 1, 2, 3, 4]);
                octets[3] = octets.len() as u8;
                message.skip = message.skip.or(Some(MarkOutcome::Authenticated));
            }
        }
        (message, octets)
    }
}

impl Ntp {
    /// The message, its octets, and where the word is in them.
    fn make(&self, packet: &Packet) -> (Message, Vec<u8>, usize) {
        let mut octets = common::ntp(self.version, self.mode);
        for &len in &self.before {
            octets.extend([[1, 4], len.to_be_bytes()].concat());
            octets.resize(octets.len() + usize::from(len) - 4, 0x77);
        }
        let word = octets.len() + 8;
        octets.extend(self.field.map(common::ntp_field).unwrap_or_default());
        octets.resize(octets.len() + self.after, 0);
        let covered = (self.after > 0).then_some(MarkOutcome::FieldNotLast);
        let (word_there, skip) = match (self.mode, self.version, self.field) {
            (6 | 7, _, _) => (None, Some(MarkOutcome::NtpMode)),
            (_, version, _) if version != 4 => (None, Some(MarkOutcome::NtpVersion)),
            (_, _, None) => (None, Some(MarkOutcome::NoField)),
            (_, _, field) => (field, unsummed(Some(packet)).or(covered)),
        };
        let forward = (self.mode < 6).then_some(self.mode == 1 || self.mode == 3);
        let answers = self.mode == 2 || self.mode == 4;
        (Message { ntp: true, forward, answers, word: word_there, skip, correction: 0 }, octets, word)
    }
}
