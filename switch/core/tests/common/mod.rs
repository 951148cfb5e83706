//! Frames, a pool and an egress for tests: real octets, classified as the switch classifies them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test uses its part

use etherparse::{
    IpNumber, Ipv4Header, Ipv4Options, Ipv6Header, NetSlice, SlicedPacket, TransportSlice, UdpHeader,
};
use plimsoll_classify::{Class, WINDOW, classify};
use plimsoll_core::{
    Departure, Discard, Egress, FrameId, Nanos, Pool, PortId, Switch, wire::ethernet::TAG_LEN,
};

/// A pool of at most `capacity` frames that knows which are out.
#[derive(Debug)]
pub struct Frames {
    slots: Vec<Option<Vec<u8>>>,
    capacity: usize,
    /// Octets that a frame may grow to.
    pub longest: usize,
}

impl Frames {
    pub fn new(capacity: usize) -> Self {
        Self { slots: Vec::new(), capacity, longest: usize::MAX }
    }

    pub fn put(&mut self, octets: Vec<u8>) -> FrameId {
        assert!(self.out() < self.capacity, "the pool is empty");
        self.slots.push(Some(octets));
        FrameId(self.slots.len() as u32 - 1)
    }

    /// Takes a frame that departed.
    pub fn take(&mut self, frame: FrameId) -> Vec<u8> {
        self.slots[frame.0 as usize].take().expect("the frame is out, once")
    }

    /// Whether this number was ever given to a frame.
    pub fn knows(&self, id: u32) -> bool {
        (id as usize) < self.slots.len()
    }

    /// Frames that somebody owns.
    pub fn out(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

impl Pool for Frames {
    fn bytes(&self, frame: FrameId) -> &[u8] {
        self.slots[frame.0 as usize].as_ref().expect("the frame is out")
    }

    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        self.slots[frame.0 as usize].as_mut().expect("the frame is out")
    }

    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        (self.out() < self.capacity).then(|| self.put(self.bytes(frame).to_vec()))
    }

    fn grow(&mut self, frame: FrameId) -> bool {
        let octets = self.slots[frame.0 as usize].as_mut().expect("the frame is out");
        if octets.len() + TAG_LEN > self.longest {
            return false;
        }
        octets.splice(0..0, [0xEE; TAG_LEN]);
        true
    }

    fn shrink(&mut self, frame: FrameId) {
        self.slots[frame.0 as usize].as_mut().expect("the frame is out").drain(..TAG_LEN);
    }

    fn free(&mut self, frame: FrameId) {
        self.take(frame);
    }
}

/// What the core told.
#[derive(Debug, Default)]
pub struct Told {
    pub departures: Vec<Departure>,
    pub discards: Vec<Discard>,
    pub unsent: u64,
    /// Frames that ports without rate still take.
    pub room: Option<usize>,
}

impl Egress for Told {
    fn depart(&mut self, departure: &Departure) {
        if let Some(room) = &mut self.room {
            *room = room.saturating_sub(1);
        }
        self.departures.push(*departure);
    }

    fn discard(&mut self, discard: Discard) {
        self.discards.push(discard);
    }

    fn unsent_bytes(&self, _: PortId) -> u64 {
        self.unsent
    }

    fn has_room(&self, _: PortId) -> bool {
        self.room != Some(0)
    }
}

/// What the classifier says of a frame.
pub fn classified(frame: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    let len = frame.len().min(WINDOW);
    window[..len].copy_from_slice(&frame[..len]);
    classify(&window, frame.len() as u32)
}

/// The address of a station.
pub const fn station(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// A frame of some other EtherType and this length, with a tag if `tci` says so.
pub fn plain(source: [u8; 6], destination: [u8; 6], tci: Option<u16>, len: usize) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    if let Some(tci) = tci {
        frame.extend([0x81, 0]);
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0x88, 0xB5]);
    frame.resize(len.max(frame.len()), 0x5A);
    frame
}

/// A UDP packet with this DSCP and payload length.
pub fn ip(source: [u8; 6], destination: [u8; 6], dscp: u8, payload: usize) -> Vec<u8> {
    Packet { tos: dscp << 2, ..Packet::default() }.udp(source, destination, 5001, &vec![0xA5; payload])
}

/// How a UDP packet is written: by etherparse, from the ground up.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub v6: bool,
    /// DSCP and ECN: the TOS octet or traffic class.
    pub tos: u8,
    /// TCIs, at most two.
    pub tags: Vec<u16>,
    /// Words of IPv4 options, 0..=10.
    pub options: u8,
    pub id: u16,
    /// The first of several fragments (IPv4).
    pub fragment: bool,
    pub sum: Sum,
}

/// What stands in the UDP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sum {
    #[default]
    Complete,
    Zero,
    /// The pseudo-header's sum, as a local socket leaves it.
    Partial,
}

impl Packet {
    /// Where the IP header begins.
    pub fn l3(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    /// Where the UDP payload begins.
    pub fn payload(&self) -> usize {
        self.l3() + if self.v6 { 40 } else { 20 + 4 * usize::from(self.options) } + 8
    }

    pub fn udp(&self, source: [u8; 6], destination: [u8; 6], port: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = [destination, source].concat();
        for tci in &self.tags {
            frame.extend([0x81, 0]);
            frame.extend(tci.to_be_bytes());
        }
        let length = 8 + payload.len() as u16;
        let mut udp = if self.v6 {
            let header = Ipv6Header {
                traffic_class: self.tos,
                payload_length: length,
                next_header: IpNumber::UDP,
                hop_limit: 64,
                source: [0xFD; 16],
                destination: [0xFE; 16],
                ..Ipv6Header::default()
            };
            frame.extend([0x86, 0xDD]);
            frame.extend(header.to_bytes());
            UdpHeader::with_ipv6_checksum(40_000, port, &header, payload).unwrap()
        } else {
            let options = vec![1; usize::from(self.options) * 4];
            let mut header =
                Ipv4Header::new(length, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
            header.dscp = (self.tos >> 2).try_into().unwrap();
            header.ecn = (self.tos & 3).try_into().unwrap();
            header.identification = self.id;
            header.more_fragments = self.fragment;
            header.options = Ipv4Options::try_from(&options[..]).unwrap();
            header.set_payload_len(usize::from(length)).unwrap();
            header.header_checksum = header.calc_header_checksum();
            frame.extend([8, 0]);
            frame.extend(header.to_bytes());
            UdpHeader::with_ipv4_checksum(40_000, port, &header, payload).unwrap()
        };
        match self.sum {
            Sum::Complete => {}
            Sum::Zero => udp.checksum = 0,
            Sum::Partial => {
                let addresses: &[u8] =
                    if self.v6 { &frame[frame.len() - 32..] } else { &[10, 0, 0, 1, 10, 0, 0, 2] };
                let words = addresses.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
                let sum = words.sum::<u32>() + 17 + u32::from(length);
                udp.checksum = ((sum & 0xFFFF) + (sum >> 16)) as u16;
            }
        }
        frame.extend(udp.to_bytes());
        frame.extend(payload);
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

/// An NTP header of this version and mode.
pub fn ntp(version: u8, mode: u8) -> Vec<u8> {
    let mut message = vec![0; 48];
    message[0] = version << 3 | mode;
    message[40..48].copy_from_slice(&[0xE5, 0xA1, 1, 2, 3, 4, 5, 6]);
    message
}

/// The extension field with this marking word.
pub fn ntp_field(word: u32) -> Vec<u8> {
    let mut field = vec![0xF5, 0xC0, 0, 28, b'C', b'M', b'C', b'1'];
    field.extend(word.to_be_bytes());
    field.resize(28, 0);
    field
}

/// How a PTP message is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Ethernet,
    Udp4,
    Udp6,
}

/// A PTP event message of this type with this word and correction.
pub fn ptp_message(message_type: u8, word: u32, correction: i64) -> Vec<u8> {
    let len = if message_type >= 2 { 54 } else { 44 };
    let mut message = vec![0; len];
    message[..4].copy_from_slice(&[message_type, 0x12, 0, len as u8]);
    message[8..16].copy_from_slice(&correction.to_be_bytes());
    message[16..20].copy_from_slice(&word.to_be_bytes());
    message
}

/// A frame with this after its EtherType, with these tags.
pub fn ethernet(
    source: [u8; 6],
    destination: [u8; 6],
    tags: &[u16],
    ethertype: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    for tci in tags {
        frame.extend([0x81, 0]);
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A frame with a PTP event message in it.
pub fn ptp(
    source: [u8; 6],
    destination: [u8; 6],
    carrier: Carrier,
    message_type: u8,
    word: u32,
    correction: i64,
) -> Vec<u8> {
    let message = ptp_message(message_type, word, correction);
    let packet = Packet { v6: carrier == Carrier::Udp6, ..Packet::default() };
    match carrier {
        Carrier::Ethernet => ethernet(source, destination, &[], 0x88F7, &message),
        Carrier::Udp4 | Carrier::Udp6 => packet.udp(source, destination, 319, &message),
    }
}

/// Whether the frame's checksums, IPv4's and UDP's where it has them, are what another library computes.
pub fn sum_is_right(frame: &[u8]) -> bool {
    ipv4_sum_is_right(frame) && udp_sum_is_right(frame)
}

/// The same of the IPv4 header alone.
pub fn ipv4_sum_is_right(frame: &[u8]) -> bool {
    match SlicedPacket::from_ethernet(frame).unwrap().net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            header.header_checksum == header.calc_header_checksum()
        }
        _ => true,
    }
}

/// The same of UDP alone; none (zero) is not right.
pub fn udp_sum_is_right(frame: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return true };
    let header = udp.to_header();
    let computed = match sliced.net.unwrap() {
        NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
        NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
        _ => unreachable!("no other network layer is built here"),
    };
    header.checksum == computed.unwrap()
}

/// A switch with its pool and what it told.
#[derive(Debug)]
pub struct Bench {
    pub switch: Switch,
    pub pool: Frames,
    pub told: Told,
}

impl Bench {
    pub fn new(config: plimsoll_core::SwitchConfig, capacity: usize) -> Self {
        Self { switch: Switch::new(config).unwrap(), pool: Frames::new(capacity), told: Told::default() }
    }

    pub fn receive(&mut self, port: u16, octets: Vec<u8>, at: u64) -> FrameId {
        let info = classified(&octets);
        self.receive_as(port, octets, &info, at)
    }

    pub fn receive_as(&mut self, port: u16, octets: Vec<u8>, info: &Class, at: u64) -> FrameId {
        let frame = self.pool.put(octets);
        self.switch.receive(PortId(port), frame, info, Nanos(at), &mut self.pool, &mut self.told);
        frame
    }

    pub fn advance(&mut self, to: u64) {
        self.switch.advance(Nanos(to), &mut self.told);
    }

    /// Departures so far with their octets, taken out of the pool.
    pub fn departed(&mut self) -> Vec<(Departure, Vec<u8>)> {
        let taken = std::mem::take(&mut self.told.departures);
        taken.into_iter().map(|d| (d, self.pool.take(d.frame))).collect()
    }
}
