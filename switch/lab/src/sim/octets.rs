//! The octets of what hosts send: headers of flows, and whole time messages, as they would be on veth.

use crate::clock::{
    Transport,
    message::{ETHERTYPE, EVENT_PORT, GENERAL_PORT},
    ntp,
    socket::{GROUP_L2, GROUP_V4, GROUP_V6, PEERS_L2, PEERS_V4, PEERS_V6, TRAILER_V6},
};
use crate::topology::HostPlan;
use etherparse::{EtherType, Ethernet2Header, PacketBuilder, PacketBuilderStep, UdpHeader};
use plimsoll_classify::{Class, Flags, WINDOW, classify};
use std::net::{IpAddr, SocketAddr};

/// Hop limit of unicast packets, as Linux has it.
const TTL: u8 = 64;
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;

/// Ethernet, IP and UDP headers of a flow's frames: only lengths and sums differ from frame to frame, for the payload is
/// zero (what is known of a frame lies beside it).
#[derive(Debug)]
pub(super) struct Headers {
    octets: Vec<u8>,
    pub(super) info: Class,
    ipv6: bool,
    /// Sums of all that stays: of the IPv4 header, of the pseudo header and the UDP header.
    ip_sum: u32,
    udp_sum: u32,
}

impl Headers {
    /// Headers of packets to `target`, which is `to`'s.
    pub(super) fn new(from: &HostPlan, to: &HostPlan, target: SocketAddr, dscp: u8) -> Self {
        let port = target.port();
        let mut octets = udp(from, to.mac, target.ip(), TTL, port, &[0; 16]);
        let ipv6 = target.is_ipv6();
        if ipv6 {
            octets[ETHERNET] |= dscp >> 2;
            octets[ETHERNET + 1] |= dscp << 6;
        } else {
            octets[ETHERNET + 1] = dscp << 2;
        }
        let info = class_of(&octets);
        let l4 = usize::from(info.l4);
        octets.truncate(l4 + 8);
        // Lengths, and the sums over them: what is written for each frame.
        octets[l4 + 4..].fill(0);
        if ipv6 {
            octets[18..20].fill(0);
        } else {
            octets[16..18].fill(0);
            octets[24..26].fill(0);
        }
        let addresses = if ipv6 { ETHERNET + 8..l4 } else { ETHERNET + 12..l4 };
        let udp_sum = sum(&octets[addresses]) + sum(&octets[l4..]) + 17;
        Self { ip_sum: sum(&octets[ETHERNET..l4]), udp_sum, octets, info, ipv6 }
    }

    /// The headers of a frame of `len` octets.
    #[inline]
    pub(super) fn of(&mut self, len: u32) -> &[u8] {
        let l4 = usize::from(self.info.l4);
        let ip = len - ETHERNET as u32;
        let udp = len - l4 as u32;
        let mut put = |at: usize, number: u32| {
            self.octets[at..at + 2].copy_from_slice(&(number as u16).to_be_bytes());
        };
        if self.ipv6 {
            put(18, udp);
        } else {
            put(16, ip);
            put(24, folded(self.ip_sum + ip));
        }
        put(l4 + 4, udp);
        // The length stands in the pseudo header and in the header; a sum of 0 is written as its complement.
        put(
            l4 + 6,
            match folded(self.udp_sum + 2 * udp) {
                0 => 0xFFFF,
                sum => sum,
            },
        );
        &self.octets
    }
}

/// A PTP message as its host sends it; messages of peer delay have groups of their own.
pub(super) fn ptp(
    from: &HostPlan,
    transport: Transport,
    event: bool,
    peers: bool,
    message: &[u8],
) -> (Vec<u8>, Class) {
    let port = if event { EVENT_PORT } else { GENERAL_PORT };
    let frame = match transport {
        Transport::UdpV4 => {
            let group = if peers { PEERS_V4 } else { GROUP_V4 };
            let [_, a, b, c] = group.octets();
            udp(from, [0x01, 0x00, 0x5E, a & 0x7F, b, c], group.into(), 1, port, message)
        }
        Transport::UdpV6 => {
            let group = if peers { PEERS_V6 } else { GROUP_V6 };
            let [.., a, b, c, d] = group.octets();
            let message = [message, &[0; TRAILER_V6]].concat();
            udp(from, [0x33, 0x33, a, b, c, d], group.into(), 1, port, &message)
        }
        Transport::L2 | Transport::NtpV4 | Transport::NtpV6 => {
            let destination = if peers { PEERS_L2 } else { GROUP_L2 };
            let header = Ethernet2Header { destination, source: from.mac, ether_type: EtherType(ETHERTYPE) };
            [&header.to_bytes()[..], message].concat()
        }
    };
    let info = class_of(&frame);
    (frame, info)
}

/// An NTP packet as its host sends it.
pub(super) fn ntp(from: &HostPlan, to: &HostPlan, transport: Transport, packet: &[u8]) -> (Vec<u8>, Class) {
    let target = if transport == Transport::NtpV6 { IpAddr::V6(to.v6) } else { IpAddr::V4(to.v4) };
    let frame = udp(from, to.mac, target, TTL, ntp::PORT, packet);
    let info = class_of(&frame);
    (frame, info)
}

fn udp(from: &HostPlan, mac: [u8; 6], target: IpAddr, ttl: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(from.mac, mac);
    let packet: PacketBuilderStep<UdpHeader> = match target {
        IpAddr::V4(to) => ethernet.ipv4(from.v4.octets(), to.octets(), ttl).udp(port, port),
        IpAddr::V6(to) => ethernet.ipv6(from.v6.octets(), to.octets(), ttl).udp(port, port),
    };
    let mut frame = Vec::with_capacity(packet.size(payload.len()));
    // Writing into a vector fails for lengths beyond 65,535 only.
    if packet.write(&mut frame, payload).is_err() {
        unreachable!("time messages are short");
    }
    frame
}

/// What the classifier says, but that sums are complete: our hosts leave none to anybody else.
fn class_of(frame: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    let seen = frame.len().min(WINDOW);
    window[..seen].copy_from_slice(&frame[..seen]);
    let mut info = classify(&window, frame.len() as u32);
    info.flags = Flags(info.flags.0 & !Flags::PARTIAL_CHECKSUM.0);
    info
}

/// Ones' complement sum of 16-bit words, not folded (RFC 1071).
fn sum(octets: &[u8]) -> u32 {
    octets.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

#[inline]
const fn folded(sum: u32) -> u32 {
    let once = (sum & 0xFFFF) + (sum >> 16);
    let twice = (once & 0xFFFF) + (once >> 16);
    !twice & 0xFFFF
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::message::{Body, Message, PortIdentity};
    use crate::topology::{Overrides, Topology};
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use plimsoll_classify::Kind;

    fn hosts() -> Vec<HostPlan> {
        Topology::load("one-hop", &Overrides::default()).unwrap().hosts
    }

    /// Whether lengths and sums are right, by another's code.
    fn is_right(frame: &[u8]) -> bool {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Udp(udp)) = packet.transport else { return false };
        let (header, payload) = (udp.to_header(), udp.payload());
        let udp_sum = match packet.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header().to_header();
                if ip.header_checksum != ip.calc_header_checksum()
                    || usize::from(ip.total_len) + 14 != frame.len()
                {
                    return false;
                }
                header.calc_checksum_ipv4(&ip, payload)
            }
            NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), payload),
            NetSlice::Arp(_) => return false,
        };
        header.checksum == udp_sum.unwrap() && frame.len() - 14 >= payload.len() + 28
    }

    #[test]
    fn headers_of_every_length_have_right_lengths_sums_and_dscp() {
        let hosts = hosts();
        for target in ["10.77.0.2:7700", "[fd77::2]:7700"] {
            let mut headers = Headers::new(&hosts[2], &hosts[1], target.parse().unwrap(), 46);
            assert_eq!((headers.info.kind, headers.info.priority), (Kind::Other, 5));
            for len in (78..1515).chain([9000, 65_549]) {
                let mut frame = headers.of(len).to_vec();
                frame.resize(len as usize, 0);
                assert!(is_right(&frame), "{target} {len}");
                assert_eq!(class_of(&frame), headers.info);
                assert_eq!((&frame[..6], &frame[6..12]), (&hosts[1].mac[..], &hosts[2].mac[..]));
            }
        }
    }

    #[test]
    fn messages_are_classified_as_what_they_are() {
        let hosts = hosts();
        let message = Message {
            domain: 0,
            flags: 0,
            correction: 0,
            word: 0,
            source: PortIdentity([1; 10]),
            sequence: 1,
            log_interval: 0,
            body: Body::Sync { origin_ns: 0 },
        };
        for transport in Transport::PTP {
            for (event, kind) in [(true, Kind::PtpEvent), (false, Kind::PtpGeneral)] {
                let body = if event { message.body } else { Body::FollowUp { origin_ns: 0 } };
                let (frame, info) =
                    ptp(&hosts[0], transport, event, false, &Message { body, ..message }.encode());
                assert_eq!(info.kind, kind, "{transport}");
                assert!(transport == Transport::L2 || is_right(&frame), "{transport}");
            }
        }
        let packet = [0x23; ntp::LEN];
        for transport in [Transport::NtpV4, Transport::NtpV6] {
            let (frame, info) = super::ntp(&hosts[0], &hosts[1], transport, &packet);
            assert_eq!(info.kind, Kind::NtpRequest, "{transport}");
            assert!(is_right(&frame) && frame.len() <= super::super::frames::HEAD, "{transport}");
        }
    }
}
