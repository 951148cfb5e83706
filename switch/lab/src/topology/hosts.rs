//! Hosts: addresses that nobody has to write down.

use super::error::{Source, TopologyError};
use super::file::{File, Host};
use super::network::{Network, Node};
use plimsoll_core::{Rate, config::MAX_RATE};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Prefix length of the hosts' IPv4 network.
pub const PREFIX_V4: u8 = 16;
/// Prefix length of the hosts' IPv6 network.
pub const PREFIX_V6: u8 = 64;

/// One host: a namespace with one interface, `net0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its IPv4 address, of a /16.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, of a /64.
    pub v6: Ipv6Addr,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// MTU of its interface.
    pub mtu: u32,
    /// Rate of its own link, towards the network; `None`: it sends at once. Simulated only: on veth hosts send unshaped.
    pub uplink: Option<Rate>,
}

pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
) -> Result<Vec<HostPlan>, TopologyError> {
    let mut taken: HashMap<IpAddr, &str> = HashMap::new();
    let mut hosts = Vec::new();
    for (index, name) in network.hosts.iter().enumerate() {
        // 10.77.0.1 to 10.77.0.254, then 10.77.1.1 on; fd77::1 and 02-50-4C-00-00-01 likewise.
        let (high, low) = ((index / 254) as u8, (index % 254 + 1) as u8);
        let mut host = HostPlan {
            name: name.clone(),
            v4: Ipv4Addr::new(10, 77, high, low),
            v6: Ipv6Addr::new(0xFD77, 0, 0, 0, 0, 0, u16::from(high), u16::from(low)),
            mac: [0x02, 0x50, 0x4C, 0, high, low],
            mtu: 1500,
            uplink: None,
        };
        host.mtu = network
            .links
            .iter()
            .find(|(ends, _)| ends.contains(&Node::Host(index)))
            .map_or(1500, |(_, mtu)| *mtu);
        if let Some(written) = raw.host.get(name.as_str()) {
            host.v4 = written.address.as_ref().map_or(host.v4, |a| *a.get_ref());
            host.v6 = written.address6.as_ref().map_or(host.v6, |a| *a.get_ref());
            host.uplink = uplink(source, name, written)?;
        }
        hosts.push(host);
    }
    for host in &hosts {
        let written = raw.host.get(host.name.as_str());
        let spans = [
            (IpAddr::from(host.v4), written.and_then(|w| w.address.as_ref()).map(toml::Spanned::span)),
            (IpAddr::from(host.v6), written.and_then(|w| w.address6.as_ref()).map(toml::Spanned::span)),
        ];
        for (address, span) in spans {
            let key = format!("host.{}.address", host.name);
            if let Some(other) = taken.insert(address, &host.name) {
                let problem = format!("{address} is the address of {other} too");
                return Err(source.error(span, key, problem, "give each host an address of its own"));
            }
            if !usable(address) {
                let problem = format!("{address} is no address of one host");
                return Err(source.error(span, key, problem, "write a unicast address, or leave it out"));
            }
            if !together(address, hosts[0].v4, hosts[0].v6) {
                let problem = format!("{address} is not in the network of {}", hosts[0].name);
                let remedy = format!(
                    "keep all hosts in one /{PREFIX_V4} (IPv6: /{PREFIX_V6}): labs switch, they do not route"
                );
                return Err(source.error(span, key, problem, remedy));
            }
        }
    }
    Ok(hosts)
}

fn uplink(source: &Source<'_>, name: &str, host: &Host) -> Result<Option<Rate>, TopologyError> {
    let Some(written) = &host.uplink else { return Ok(None) };
    match written.get_ref().0 {
        Some(rate) if rate.0 > MAX_RATE => {
            let key = format!("host.{name}.uplink");
            Err(source.error(Some(written.span()), key, format!("is {rate}"), "write 10tbit at most"))
        }
        rate => Ok(rate),
    }
}

fn usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            let host = u32::from(a) & (u32::MAX >> PREFIX_V4);
            let whole = u32::MAX >> PREFIX_V4;
            !a.is_multicast() && !a.is_loopback() && !a.is_unspecified() && host != 0 && host != whole
        }
        IpAddr::V6(a) => !a.is_multicast() && !a.is_loopback() && !a.is_unspecified(),
    }
}

fn together(address: IpAddr, v4: Ipv4Addr, v6: Ipv6Addr) -> bool {
    match address {
        IpAddr::V4(a) => u32::from(a) >> (32 - PREFIX_V4) == u32::from(v4) >> (32 - PREFIX_V4),
        IpAddr::V6(a) => u128::from(a) >> (128 - PREFIX_V6) == u128::from(v6) >> (128 - PREFIX_V6),
    }
}
