//! Frames for tests, octet by octet: whatever a test wants wrong can be wrong.

pub const C_TAG: u16 = 0x8100;
pub const S_TAG: u16 = 0x88A8;
pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86DD;
pub const PTP: u16 = 0x88F7;
pub const ARP: u16 = 0x0806;
pub const UDP: u8 = 17;
pub const TCP: u8 = 6;

/// An Ethernet frame with these tags (TPID, TCI), outer first, and no padding.
pub fn ether(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0x1B, 0x19, 0, 0, 0, 0x02, 0, 0, 0, 0, 0x01];
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Zeros up to the least length of an Ethernet frame, without FCS.
pub fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}

/// What an IPv4 header says.
pub struct V4 {
    pub tos: u8,
    pub options: usize,
    pub fragment: u16,
    pub protocol: u8,
    /// Total length, where it is not the true one.
    pub total: Option<u16>,
}

impl Default for V4 {
    fn default() -> Self {
        Self { tos: 0, options: 0, fragment: 0, protocol: UDP, total: None }
    }
}

/// An IPv4 packet from 192.0.2.1 to 224.0.1.129; options are NOPs.
pub fn ipv4(header: V4, payload: &[u8]) -> Vec<u8> {
    let length = 20 + header.options;
    let total = header.total.unwrap_or((length + payload.len()) as u16);
    let mut packet = vec![0x40 | (length / 4) as u8, header.tos];
    packet.extend(total.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(header.fragment.to_be_bytes());
    packet.extend([64, header.protocol, 0, 0, 192, 0, 2, 1, 224, 0, 1, 129]);
    packet.extend(vec![1; header.options]);
    let sum = !fold(words(&packet));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet from 2001:db8::1 to ff02::181; `extensions` are (type, the header's octets but its next-header field).
pub fn ipv6(class: u8, extensions: &[(u8, Vec<u8>)], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = extensions.iter().map(|(_, rest)| rest.len() + 1).sum::<usize>() + payload.len();
    let mut packet = vec![0x60 | class >> 4, class << 4 | 0x03, 0xAB, 0xCD];
    packet.extend((length as u16).to_be_bytes());
    packet.push(extensions.first().map_or(protocol, |(kind, _)| *kind));
    packet.push(64);
    packet.extend([0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x81]);
    for (index, (_, rest)) in extensions.iter().enumerate() {
        packet.push(extensions.get(index + 1).map_or(protocol, |(kind, _)| *kind));
        packet.extend(rest);
    }
    packet.extend(payload);
    packet
}

/// Hop-by-hop options, routing or destination options of 8 * `units` octets.
pub fn extension(kind: u8, units: usize) -> (u8, Vec<u8>) {
    let mut rest = vec![0; 8 * units - 1];
    rest[0] = (units - 1) as u8;
    (kind, rest)
}

/// An Authentication Header with a 12-octet integrity value: 24 octets (RFC 4302).
pub fn authentication() -> (u8, Vec<u8>) {
    let mut rest = vec![0xA5; 23];
    rest[0] = 4;
    (51, rest)
}

/// A fragment header.
pub fn fragment(offset: u16, more: bool) -> (u8, Vec<u8>) {
    let field = (offset << 3 | u16::from(more)).to_be_bytes();
    (44, vec![0, field[0], field[1], 0, 0, 0, 7])
}

/// A UDP datagram, its checksum 0.
pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(source.to_be_bytes());
    datagram.extend(destination.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// A TCP segment, its checksum 0.
pub fn tcp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// What stands in the transport checksum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sum {
    Complete,
    /// The folded pseudo-header sum, not complemented: Linux CHECKSUM_PARTIAL.
    Partial,
    Wrong,
}

/// Writes the checksum of the UDP or TCP header at `l4` behind an IP header at `l3`.
pub fn summed(mut frame: Vec<u8>, l3: usize, l4: usize, sum: Sum) -> Vec<u8> {
    let (addresses, protocol) = match frame[l3] >> 4 {
        4 => (l3 + 12..l3 + 20, frame[l3 + 9]),
        // The last next-header field before l4 is not tracked here: a UDP length tells UDP from TCP.
        _ if usize::from(u16::from_be_bytes([frame[l4 + 4], frame[l4 + 5]])) == frame.len() - l4 => {
            (l3 + 8..l3 + 40, UDP)
        }
        _ => (l3 + 8..l3 + 40, TCP),
    };
    let field = l4 + if protocol == UDP { 6 } else { 16 };
    frame[field..field + 2].copy_from_slice(&[0, 0]);
    let pseudo = words(&frame[addresses]) + u64::from(protocol) + (frame.len() - l4) as u64;
    let value = match sum {
        Sum::Partial => fold(pseudo),
        Sum::Complete => !fold(pseudo + words(&frame[l4..])),
        Sum::Wrong => fold(pseudo) ^ 0x0101,
    };
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
    frame
}

/// A PTP message of `length` octets: first octet (majorSdoId, messageType), version octet, messageLength.
pub fn ptp(first: u8, version: u8, length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message[0] = first;
    message[1] = version;
    message[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    message
}

/// A PTP version 1 message.
pub fn ptp_1(length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message[1] = 1;
    message[3] = 1;
    message[4..8].copy_from_slice(b"_DFL");
    message
}

/// An NTP message of `length` octets.
pub fn ntp(version: u8, mode: u8, length: usize) -> Vec<u8> {
    let mut message = vec![0; length];
    message[0] = version << 3 | mode;
    message
}

fn words(octets: &[u8]) -> u64 {
    octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}
