//! Addresses, neighbours and routes of a link.

use super::{Attributes, Link, Netlink, NetlinkError};
use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Ifa, IfaF, Nda, Nud, RtAddrFamily, RtScope, RtTable, Rta, Rtm, RtmF, Rtn, Rtprot};
use neli::rtnl::{IfaddrmsgBuilder, NdmsgBuilder, RtmsgBuilder};
use neli::types::Buffer;
use std::io;
use std::net::IpAddr;

impl Netlink {
    /// Adds an address, at once usable (IFA_F_NODAD: no duplicate address detection).
    ///
    /// # Errors
    /// The address is there already, the prefix is too long, the link is gone, IPv6 is switched off (EACCES).
    pub fn add_address(&mut self, link: &Link, address: IpAddr, prefix: u8) -> Result<(), NetlinkError> {
        let place = format!("{link}, address {address}/{prefix}");
        let attributes =
            Attributes::new().with(Ifa::Local, octets(address)).with(Ifa::Address, octets(address));
        let request = IfaddrmsgBuilder::default()
            .ifa_family(family(address))
            .ifa_prefixlen(prefix)
            .ifa_flags(IfaF::NODAD | IfaF::PERMANENT)
            .ifa_scope(RtScope::Universe)
            .ifa_index(link.index)
            .rtattrs(attributes.done())
            .build()
            .map_err(|e| NetlinkError::new(place.as_str(), "ifaddrmsg", io::Error::other(e.to_string())))?;
        self.request(Rtm::Newaddr, NlmF::CREATE | NlmF::EXCL, request, &place, "RTM_NEWADDR")
    }

    /// Adds a permanent neighbour: no ARP, no neighbour discovery for it.
    ///
    /// # Errors
    /// The link is gone, or the address is none of a neighbour (its own, a group).
    pub fn add_neighbour(&mut self, link: &Link, address: IpAddr, mac: [u8; 6]) -> Result<(), NetlinkError> {
        let place = format!("{link}, neighbour {address}");
        let attributes =
            Attributes::new().with(Nda::Dst, octets(address)).with(Nda::Lladdr, Buffer::from(&mac[..]));
        let request = NdmsgBuilder::default()
            .ndm_family(family(address))
            .ndm_index(link.index as i32)
            .ndm_state(Nud::PERMANENT)
            .ndm_type(Rtn::Unspec)
            .rtattrs(attributes.done())
            .build()
            .map_err(|e| NetlinkError::new(place.as_str(), "ndmsg", io::Error::other(e.to_string())))?;
        self.request(Rtm::Newneigh, NlmF::CREATE | NlmF::REPLACE, request, &place, "RTM_NEWNEIGH")
    }

    /// Adds a route over the link: to a network, through `gateway` where there is one.
    ///
    /// # Errors
    /// The route is there already, the gateway is not reachable over the link, the link is down (ENETDOWN).
    pub fn add_route(
        &mut self,
        link: &Link,
        network: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
    ) -> Result<(), NetlinkError> {
        let place = format!("{link}, route {network}/{prefix}");
        let mut attributes = Attributes::new().with(Rta::Oif, link.index);
        if prefix > 0 {
            attributes = attributes.with(Rta::Dst, octets(network));
        }
        if let Some(gateway) = gateway {
            attributes = attributes.with(Rta::Gateway, octets(gateway));
        }
        let request = RtmsgBuilder::default()
            .rtm_family(family(network))
            .rtm_dst_len(prefix)
            .rtm_src_len(0)
            .rtm_tos(0)
            .rtm_table(RtTable::Main)
            .rtm_protocol(Rtprot::Static)
            .rtm_scope(if gateway.is_some() { RtScope::Universe } else { RtScope::Link })
            .rtm_type(Rtn::Unicast)
            .rtm_flags(RtmF::empty())
            .rtattrs(attributes.done())
            .build()
            .map_err(|e| NetlinkError::new(place.as_str(), "rtmsg", io::Error::other(e.to_string())))?;
        self.request(Rtm::Newroute, NlmF::CREATE | NlmF::EXCL, request, &place, "RTM_NEWROUTE")
    }
}

fn family(address: IpAddr) -> RtAddrFamily {
    if address.is_ipv4() { RtAddrFamily::Inet } else { RtAddrFamily::Inet6 }
}

fn octets(address: IpAddr) -> Buffer {
    match address {
        IpAddr::V4(a) => Buffer::from(&a.octets()[..]),
        IpAddr::V6(a) => Buffer::from(&a.octets()[..]),
    }
}
