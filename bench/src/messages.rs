//! Time messages over every carrier, made by etherparse, and what the benchmark reads of them again.

use anyhow::{Context, Result};
use etherparse::{
    Ethernet2Header, IpEcn, IpHeaders, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv6FlowLabel, Ipv6Header,
    PacketBuilder, UdpHeader, VlanId,
};

use crate::frames::{ETHERTYPE_PTP, SHORTEST};

const PORT_PTP_EVENT: u16 = 319;
const PORT_NTP: u16 = 123;
/// VLAN of tagged messages.
pub(crate) const VLAN: u16 = 5;

/// What carries a time message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Carrier {
    /// PTP over Ethernet.
    Ptp,
    /// PTP over UDP over IPv4.
    PtpUdp4,
    /// PTP over UDP over IPv6.
    PtpUdp6,
    /// NTP with the marking extension field, over IPv4.
    NtpUdp4,
    /// The same over IPv6.
    NtpUdp6,
}

impl Carrier {
    pub(crate) const ALL: [Self; 5] = [Self::Ptp, Self::PtpUdp4, Self::PtpUdp6, Self::NtpUdp4, Self::NtpUdp6];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ptp => "PTP",
            Self::PtpUdp4 => "PTP/UDPv4",
            Self::PtpUdp6 => "PTP/UDPv6",
            Self::NtpUdp4 => "NTP/UDPv4",
            Self::NtpUdp6 => "NTP/UDPv6",
        }
    }

    pub(crate) const fn is_ip(self) -> bool {
        !matches!(self, Self::Ptp)
    }

    pub(crate) const fn is_ntp(self) -> bool {
        matches!(self, Self::NtpUdp4 | Self::NtpUdp6)
    }

    const fn is_ipv4(self) -> bool {
        matches!(self, Self::PtpUdp4 | Self::NtpUdp4)
    }
}

/// A time message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) carrier: Carrier,
    /// Behind an 802.1Q tag of VLAN [`VLAN`], priority 0.
    pub(crate) tagged: bool,
    /// Delay_Req and NTP mode 3; else Sync and mode 4.
    pub(crate) request: bool,
    /// sequenceId, or the last octets of NTP's reference identifier.
    pub(crate) id: u16,
    /// The marking word.
    pub(crate) word: u32,
    /// The ECN bits, 0..=3; not over Ethernet.
    pub(crate) ecn: u8,
}

impl Message {
    /// A Sync without any mark.
    pub(crate) const fn sync(carrier: Carrier, id: u16) -> Self {
        Self { carrier, tagged: false, request: false, id, word: 0, ecn: 0 }
    }

    /// A frame with the message, without FCS, padded to the shortest.
    pub(crate) fn frame(&self, to: [u8; 6], from: [u8; 6]) -> Result<Vec<u8>> {
        let mut frame = Vec::with_capacity(192);
        if self.carrier.is_ip() {
            let (port, payload) =
                if self.carrier.is_ntp() { (PORT_NTP, self.ntp()) } else { (PORT_PTP_EVENT, self.ptp(from)) };
            let ethernet = PacketBuilder::ethernet2(from, to);
            let network = self.network()?;
            let packet = match self.tagged {
                true => ethernet.single_vlan(VlanId::try_new(VLAN)?).ip(network),
                false => ethernet.ip(network),
            };
            packet.udp(port, port).write(&mut frame, &payload).context("build a packet")?;
        } else {
            frame.extend([to, from].concat());
            if self.tagged {
                frame.extend([0x81, 0x00]);
                frame.extend(VLAN.to_be_bytes());
            }
            frame.extend(ETHERTYPE_PTP.to_be_bytes());
            frame.extend(self.ptp(from));
        }
        frame.resize(frame.len().max(SHORTEST as usize), 0);
        Ok(frame)
    }

    fn network(&self) -> Result<IpHeaders> {
        let ecn = IpEcn::try_new(self.ecn)?;
        if self.carrier.is_ipv4() {
            let mut header = Ipv4Header::new(0, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2])?;
            header.ecn = ecn;
            return Ok(IpHeaders::Ipv4(header, Default::default()));
        }
        let address = |last| {
            let mut address = [0; 16];
            (address[0], address[15]) = (0xFD, last);
            address
        };
        let mut header = Ipv6Header {
            traffic_class: 0,
            // Beside the ECN bits in the same octets: must stay.
            flow_label: Ipv6FlowLabel::try_new(0xA_BCDE)?,
            payload_length: 0,
            next_header: IpNumber::UDP,
            hop_limit: 64,
            source: address(1),
            destination: address(2),
        };
        header.set_ecn(ecn);
        Ok(IpHeaders::Ipv6(header, Default::default()))
    }

    /// IEEE 1588-2019 clause 13.3, a Sync or Delay_Req of 44 octets.
    fn ptp(&self, from: [u8; 6]) -> Vec<u8> {
        let mut message = vec![0; 44];
        message[0] = u8::from(self.request);
        message[1] = 2; // versionPTP
        message[3] = 44; // messageLength
        message[16..20].copy_from_slice(&self.word.to_be_bytes());
        message[20..26].copy_from_slice(&from); // clockIdentity
        message[29] = 1; // portNumber
        message[30..32].copy_from_slice(&self.id.to_be_bytes());
        message
    }

    /// RFC 5905 section 7.3 with the marking extension field behind it.
    fn ntp(&self) -> Vec<u8> {
        let mut message = vec![0; 48 + 28];
        message[0] = 4 << 3 | if self.request { 3 } else { 4 };
        message[1] = 2; // stratum
        message[14..16].copy_from_slice(&self.id.to_be_bytes());
        let field = &mut message[48..];
        field[..2].copy_from_slice(&0xF5C0_u16.to_be_bytes());
        field[2..4].copy_from_slice(&28_u16.to_be_bytes());
        field[4..8].copy_from_slice(b"CMC1");
        field[8..12].copy_from_slice(&self.word.to_be_bytes());
        message
    }
}

/// A PTP event message as a receiver finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenSync {
    pub(crate) source: [u8; 6],
    pub(crate) sequence: u16,
    /// messageTypeSpecific, octets 16..19: the marking word.
    pub(crate) word: u32,
    /// correctionField, 2^-16 ns.
    pub(crate) correction: i64,
    /// The ECN bits; 0 over Ethernet.
    pub(crate) ecn: u8,
}

/// Reads a Sync over Ethernet or UDPv4 out of a frame's first octets (76 are enough), with somebody else's parser and
/// offsets written down here again, so that a mistake in the switch's views is not repeated.
pub(crate) fn read_sync(head: &[u8]) -> Option<SeenSync> {
    let (ethernet, behind) = Ethernet2Header::from_slice(head).ok()?;
    let (message, ecn) = match ethernet.ether_type.0 {
        ETHERTYPE_PTP => (behind, 0),
        0x0800 => {
            let header = Ipv4HeaderSlice::from_slice(behind).ok()?;
            let (udp, message) = UdpHeader::from_slice(behind.get(header.slice().len()..)?).ok()?;
            (header.protocol() == IpNumber::UDP && udp.destination_port == PORT_PTP_EVENT)
                .then_some((message, header.ecn().value()))?
        }
        _ => return None,
    };
    if message.len() < 34 || message[0] & 15 != 0 || message[1] & 15 != 2 {
        return None;
    }
    Some(SeenSync {
        source: ethernet.source,
        sequence: u16::from_be_bytes([message[30], message[31]]),
        word: u32::from_be_bytes(message[16..20].try_into().ok()?),
        correction: i64::from_be_bytes(message[8..16].try_into().ok()?),
        ecn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frames, memory::class_of};
    use plimsoll_classify::{Flags, Kind};

    const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];

    #[test]
    fn a_sync_reads_back() {
        for carrier in [Carrier::Ptp, Carrier::PtpUdp4] {
            let ecn = if carrier.is_ip() { 2 } else { 0 };
            let message = Message { word: 0x4000_0005, ecn, ..Message::sync(carrier, 0x1234) };
            let seen = SeenSync { source: FROM, sequence: 0x1234, word: 0x4000_0005, correction: 0, ecn };
            assert_eq!(read_sync(&message.frame(TO, FROM).unwrap()[..]), Some(seen), "{carrier:?}");
            let request = Message { request: true, ..message };
            assert_eq!(read_sync(&request.frame(TO, FROM).unwrap()), None);
        }
        assert_eq!(read_sync(&frames::sync(TO, FROM, frames::ETHERTYPE_BULK, 60, 1)), None);
    }

    #[test]
    fn the_classifier_knows_every_message() {
        for carrier in Carrier::ALL {
            for (tagged, request) in [(false, false), (false, true), (true, false), (true, true)] {
                let message = Message { tagged, request, ..Message::sync(carrier, 1) };
                let class = class_of(&message.frame(TO, FROM).unwrap());
                let kind = match (carrier.is_ntp(), request) {
                    (false, _) => Kind::PtpEvent,
                    (true, true) => Kind::NtpRequest,
                    (true, false) => Kind::NtpResponse,
                };
                assert_eq!((class.kind, class.flags.has(Flags::TAGGED)), (kind, tagged), "{message:?}");
            }
        }
    }
}
