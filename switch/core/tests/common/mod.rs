//! Frames, a pool and an egress for tests: real octets, classified as the switch classifies them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test uses its part

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use plimsoll_classify::{Class, WINDOW, classify};
use plimsoll_core::{Departure, Discard, Egress, FrameId, Nanos, Pool, PortId, Switch};

/// A pool of at most `capacity` frames that knows which are out.
#[derive(Debug)]
pub struct Frames {
    slots: Vec<Option<Vec<u8>>>,
    capacity: usize,
}

impl Frames {
    pub fn new(capacity: usize) -> Self {
        Self { slots: Vec::new(), capacity }
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
    fn depart(&mut self, departure: Departure) {
        if let Some(room) = &mut self.room {
            *room = room.saturating_sub(1);
        }
        self.departures.push(departure);
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
    let mut header =
        etherparse::Ipv4Header::new(0, 64, etherparse::IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
    header.dscp = dscp.try_into().unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(source, destination)
        .ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
        .udp(5001, 5001)
        .write(&mut frame, &vec![0xA5; payload])
        .unwrap();
    frame
}

/// How a PTP message is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Ethernet,
    Udp4,
    Udp6,
}

/// A PTP event message of this type with this word and correction.
pub fn ptp(
    source: [u8; 6],
    destination: [u8; 6],
    carrier: Carrier,
    message_type: u8,
    word: u32,
    correction: i64,
) -> Vec<u8> {
    let len = if message_type >= 2 { 54 } else { 44 };
    let mut message = vec![0; len];
    message[..4].copy_from_slice(&[message_type, 0x12, 0, len as u8]);
    message[8..16].copy_from_slice(&correction.to_be_bytes());
    message[16..20].copy_from_slice(&word.to_be_bytes());
    let mut frame = Vec::new();
    match carrier {
        Carrier::Ethernet => {
            frame.extend([destination, source].concat());
            frame.extend([0x88, 0xF7]);
            frame.extend(message);
            frame.resize(frame.len().max(60), 0);
        }
        Carrier::Udp4 => PacketBuilder::ethernet2(source, destination)
            .ipv4([10, 0, 0, 1], [224, 0, 1, 129], 1)
            .udp(319, 319)
            .write(&mut frame, &message)
            .unwrap(),
        Carrier::Udp6 => PacketBuilder::ethernet2(source, destination)
            .ipv6([0xFE; 16], [0xFF; 16], 1)
            .udp(319, 319)
            .write(&mut frame, &message)
            .unwrap(),
    }
    frame
}

/// Whether the frame's UDP checksum, where it has one, is what another library computes.
pub fn sum_is_right(frame: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return true };
    let header = udp.to_header();
    let computed = match sliced.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload()),
        etherparse::NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()),
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
