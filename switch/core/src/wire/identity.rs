//! Which time message a frame carries: by what records tell one from another.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plimsoll_classify::{Class, Flags, Kind};

use super::{
    datagram, ntp,
    ptp::{self, MessageId},
    word::Direction,
};

/// Where the source address stands in an IP header.
const IPV4_SOURCE: usize = 12;
const IPV6_SOURCE: usize = 8;
/// Where the transmit timestamp stands in an NTP message (RFC 5905 figure 8).
const TRANSMIT: usize = 40;

/// What tells one time message from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeMessage {
    /// PTP.
    Ptp(MessageId),
    /// NTP that carries time (modes 1 to 5).
    Ntp(NtpId),
}

/// What tells one NTP message from all others, as long as clocks do not stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NtpId {
    /// Whether it is a response (modes 2, 4 and 5).
    pub response: bool,
    /// Source address.
    pub source: IpAddr,
    /// Transmit timestamp (RFC 5905 section 7.3); some clients fill it at random.
    pub transmit: u64,
}

impl TimeMessage {
    /// The time message in a frame; `None` where the classifier found none, or its header does not fit. Nothing of
    /// `info` is believed without a check.
    pub fn of(frame: &[u8], info: &Class) -> Option<Self> {
        match info.kind {
            Kind::PtpEvent | Kind::PtpGeneral => ptp::message_id(frame, info).map(Self::Ptp),
            Kind::NtpRequest | Kind::NtpResponse => NtpId::of(frame, info).map(Self::Ntp),
            Kind::Other => None,
        }
    }

    /// The PTP message, where it is one.
    pub const fn ptp(&self) -> Option<&MessageId> {
        match self {
            Self::Ptp(id) => Some(id),
            Self::Ntp(_) => None,
        }
    }
}

impl NtpId {
    fn of(frame: &[u8], info: &Class) -> Option<Self> {
        let (message, _) = datagram::find(frame, info).ok()?;
        let response = ntp::direction(*message.first()?)? == Direction::Reverse;
        let transmit = u64::from_be_bytes(*message.get(TRANSMIT..)?.first_chunk()?);
        let header = frame.get(usize::from(info.l3)..)?;
        let source = if info.flags.has(Flags::IPV4) {
            IpAddr::V4(Ipv4Addr::from(*header.get(IPV4_SOURCE..)?.first_chunk::<4>()?))
        } else if info.flags.has(Flags::IPV6) {
            IpAddr::V6(Ipv6Addr::from(*header.get(IPV6_SOURCE..)?.first_chunk::<16>()?))
        } else {
            return None;
        };
        Some(Self { response, source, transmit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ntp::tests::{frame, header};

    #[test]
    fn ntp_is_told_by_mode_address_and_transmit_timestamp() {
        for (v6, source) in [(false, "10.0.0.1"), (true, "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd")] {
            for (mode, response) in [(3, false), (4, true), (1, false), (2, true)] {
                let (octets, info) = frame(v6, &header(4, mode));
                let source = source.parse().unwrap();
                let id = NtpId { response, source, transmit: 0xE5A1_0203_0405_0607 };
                assert_eq!(TimeMessage::of(&octets, &info), Some(TimeMessage::Ntp(id)));
                assert_eq!(TimeMessage::Ntp(id).ptp(), None);
                for end in 0..octets.len() {
                    assert_eq!(TimeMessage::of(&octets[..end], &info), None, "cut at {end}");
                }
            }
            let (octets, info) = frame(v6, &header(4, 6));
            assert_eq!(TimeMessage::of(&octets, &info), None, "mode 6 carries no time");
        }
        assert_eq!(TimeMessage::of(&[0; 60], &Class::OTHER), None);
    }
}
