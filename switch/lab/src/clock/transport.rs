//! What carries the exchange, by the names that files, arguments and results have.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What carries the messages (IEEE 1588-2019 Annexes C, D, E).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// Ethernet, EtherType 0x88F7, to 01-1B-19-00-00-00.
    #[serde(rename = "l2")]
    L2,
    /// UDP over IPv4, to 224.0.1.129.
    #[default]
    #[serde(rename = "udp4")]
    UdpV4,
    /// UDP over IPv6, to ff0e::181.
    #[serde(rename = "udp6")]
    UdpV6,
    /// NTP over UDP and IPv4, to port 123; of the built-in clock with the marking extension field.
    #[serde(rename = "ntp4")]
    NtpV4,
    /// NTP over UDP and IPv6.
    #[serde(rename = "ntp6")]
    NtpV6,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::L2, Self::UdpV4, Self::UdpV6, Self::NtpV4, Self::NtpV6];
    /// Those of PTP.
    pub const PTP: [Self; 3] = [Self::L2, Self::UdpV4, Self::UdpV6];

    /// Its name in files, arguments and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::UdpV4 => "udp4",
            Self::UdpV6 => "udp6",
            Self::NtpV4 => "ntp4",
            Self::NtpV6 => "ntp6",
        }
    }

    /// Its name as ptp4l's `network_transport`; `None` where that has none.
    pub const fn linuxptp_name(self) -> Option<&'static str> {
        match self {
            Self::L2 => Some("L2"),
            Self::UdpV4 => Some("UDPv4"),
            Self::UdpV6 => Some("UDPv6"),
            Self::NtpV4 | Self::NtpV6 => None,
        }
    }

    /// The one that is called so, here or by linuxptp, in either case.
    pub(crate) fn of_name(text: &str) -> Option<Self> {
        let called = |name: &str| name.eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(|t| called(t.name()) || t.linuxptp_name().is_some_and(called))
    }

    /// Whether it carries NTP.
    pub const fn is_ntp(self) -> bool {
        matches!(self, Self::NtpV4 | Self::NtpV6)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    /// One of them.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::of_name(text).ok_or_else(|| {
            format!("{text:?} carries neither PTP nor NTP; write l2, udp4 or udp6, or ntp4 or ntp6")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_has_one_name_everywhere_and_linuxptp_s_is_read() {
        for transport in Transport::ALL {
            assert_eq!(transport.name().parse(), Ok(transport));
            let json = serde_json::to_string(&transport).unwrap();
            assert_eq!(json, format!("\"{transport}\""));
            assert_eq!(serde_json::from_str::<Transport>(&json).unwrap(), transport);
        }
        for transport in Transport::PTP {
            assert_eq!(transport.linuxptp_name().unwrap().parse(), Ok(transport));
        }
        assert_eq!("udpv4".parse(), Ok(Transport::UdpV4));
        let told = "\"tcp\" carries neither PTP nor NTP; write l2, udp4 or udp6, or ntp4 or ntp6";
        assert_eq!("tcp".parse::<Transport>(), Err(told.into()));
    }
}
