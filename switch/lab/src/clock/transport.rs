//! What carries the exchange: for PTP by the names that linuxptp uses.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What carries the messages (IEEE 1588-2019 Annexes C, D, E).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// Ethernet, EtherType 0x88F7, to 01-1B-19-00-00-00.
    L2,
    /// UDP over IPv4, to 224.0.1.129.
    #[default]
    #[serde(rename = "UDPv4")]
    UdpV4,
    /// UDP over IPv6, to ff0e::181.
    #[serde(rename = "UDPv6")]
    UdpV6,
    /// NTP over UDP and IPv4, to port 123, with the marking extension field. Simulated only, for now.
    #[serde(rename = "NTP/IPv4")]
    NtpV4,
    /// NTP over UDP and IPv6.
    #[serde(rename = "NTP/IPv6")]
    NtpV6,
}

impl Transport {
    /// Those of PTP.
    pub const PTP: [Self; 3] = [Self::L2, Self::UdpV4, Self::UdpV6];

    /// Its name in files, results and ptp4l's `network_transport`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "L2",
            Self::UdpV4 => "UDPv4",
            Self::UdpV6 => "UDPv6",
            Self::NtpV4 => "NTP/IPv4",
            Self::NtpV6 => "NTP/IPv6",
        }
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

    fn from_str(text: &str) -> Result<Self, String> {
        Self::PTP
            .into_iter()
            .find(|transport| transport.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("{text:?} is no transport of PTP; write L2, UDPv4 or UDPv6"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_reads_its_own_name_and_refuses_others_with_the_remedy() {
        for transport in Transport::PTP {
            assert_eq!(transport.name().parse(), Ok(transport));
            assert_eq!(serde_json::to_string(&transport).unwrap(), format!("\"{transport}\""));
        }
        assert_eq!("udpv4".parse(), Ok(Transport::UdpV4));
        assert_eq!(
            "tcp".parse::<Transport>(),
            Err("\"tcp\" is no transport of PTP; write L2, UDPv4 or UDPv6".into())
        );
    }
}
