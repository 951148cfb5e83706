//! Links: veth pairs made in one request, settings, and what a link is.

use super::{Attributes, Netlink, NetlinkError};
use crate::namespace::Namespace;
use neli::attr::Attribute;
use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Iff, Ifla, IflaInfo, RtAddrFamily, Rtm};
use neli::rtnl::{Ifinfomsg, IfinfomsgBuilder};
use neli::types::{Buffer, RtBuffer};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// VETH_INFO_PEER of linux/veth.h.
const VETH_INFO_PEER: u16 = 1;
// linux/if_link.h
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// IFNAMSIZ without the zero that ends it.
const NAME_MAX: usize = 15;

/// One end of a veth pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Interface name, at most 15 octets.
    pub name: &'a str,
    /// Where it shall stand.
    pub namespace: &'a Namespace,
    /// Its address; the kernel's choice where `None`.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in octets of the network layer; 1500 where `None`.
    pub mtu: Option<u32>,
    /// TX and RX queues. An XDP program attaches to an end only if the other has no more TX queues than it has RX
    /// queues.
    pub queues: (u32, u32),
}

impl<'a> VethEnd<'a> {
    /// An end with the kernel's address, MTU 1500 and one queue each way.
    pub fn new(name: &'a str, namespace: &'a Namespace) -> Self {
        Self { name, namespace, mac: None, mtu: None, queues: (1, 1) }
    }
}

/// RFC 2863 operational state, IFLA_OPERSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperState {
    /// The driver does not say (loopback, tun).
    Unknown,
    /// Hardware is missing.
    NotPresent,
    /// No carrier, or administratively down.
    Down,
    /// A lower link is down.
    LowerDown,
    /// In a test.
    Testing,
    /// Waits for an event (802.1X).
    Dormant,
    /// Passes frames.
    Up,
}

impl OperState {
    fn from_abi(n: u8) -> Self {
        match n {
            1 => Self::NotPresent,
            2 => Self::Down,
            3 => Self::LowerDown,
            4 => Self::Testing,
            5 => Self::Dormant,
            6 => Self::Up,
            _ => Self::Unknown,
        }
    }
}

/// How an XDP program is attached, IFLA_XDP_ATTACHED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the stack, after an skb was made.
    Generic,
    /// On the card.
    Offload,
    /// Several of them.
    Several,
}

/// The XDP program of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct XdpAttached {
    /// How it is attached.
    pub mode: XdpMode,
    /// Its id, as `bpftool prog show id` takes it; 0 where the kernel does not say.
    pub program: u32,
}

/// rtnl_link_stats64, the part that tells losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Octets received.
    pub rx_bytes: u64,
    /// Octets sent.
    pub tx_bytes: u64,
    /// Frames dropped on receiving.
    pub rx_dropped: u64,
    /// Frames dropped on sending. On a veth that sends to an XDP port: its ring of 256 frames was full.
    pub tx_dropped: u64,
    /// Frames that a NIC had no buffer for.
    pub rx_missed: u64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Link {
    /// Index in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// `veth`, `bridge`, ...; `None` for hardware and loopback.
    pub kind: Option<String>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// MTU in octets of the network layer.
    pub mtu: u32,
    /// IFF_* flags, `man 7 netdevice`.
    pub flags: u32,
    /// Whether the link passes frames.
    pub oper_state: OperState,
    /// Its XDP program.
    pub xdp: Option<XdpAttached>,
    /// TX queues.
    pub tx_queues: u32,
    /// RX queues.
    pub rx_queues: u32,
    /// Index of the other end (veth) or of the link below (VLAN), in whatever namespace that is.
    pub lower: Option<u32>,
    /// The namespace of [`Link::lower`], as this one numbers it; `None`: the same one.
    pub lower_namespace: Option<i32>,
    /// Index of the bridge or bond that owns it.
    pub master: Option<u32>,
    /// How often somebody asked for promiscuous mode.
    pub promiscuity: u32,
    /// Counters at the time of the request.
    pub counters: Counters,
}

impl Link {
    /// Administratively up.
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Up with carrier: IFF_RUNNING.
    pub fn is_running(&self) -> bool {
        self.flags & libc::IFF_RUNNING as u32 != 0
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interface {} (index {})", self.name, self.index)
    }
}

impl Netlink {
    /// Makes a veth pair, both ends with their names, namespaces and settings, in one request: both or none.
    ///
    /// # Errors
    /// A name is taken or too long, the kernel has no veth (CONFIG_VETH), CAP_NET_ADMIN is missing in either
    /// namespace.
    pub fn create_veth(&mut self, one: &VethEnd<'_>, other: &VethEnd<'_>) -> Result<(), NetlinkError> {
        let place = format!("interfaces {} and {}", one.name, other.name);
        for name in [one.name, other.name] {
            check_name(name)?;
        }
        let peer = message(0, Iff::empty(), Iff::empty(), end(other).done())?;
        let data = Attributes::new().with(VETH_INFO_PEER, peer).done();
        let info =
            Attributes::new().with(IflaInfo::Kind, "veth".to_owned()).with(IflaInfo::Data, data).done();
        let request = message(0, Iff::empty(), Iff::empty(), end(one).with(Ifla::Linkinfo, info).done())?;
        let flags = NlmF::CREATE | NlmF::EXCL;
        let mut made = self.request(Rtm::Newlink, flags, request, &place, "RTM_NEWLINK veth");
        if let Err(e) = &mut made
            && e.source.raw_os_error() == Some(libc::EOPNOTSUPP)
        {
            e.remedy = "use a kernel with CONFIG_VETH (`modprobe veth`)".into();
        }
        made
    }

    /// Makes a Linux bridge, as the kernel makes them: no spanning tree, frames pass at once.
    ///
    /// # Errors
    /// The name is taken or none, the kernel has no bridge (CONFIG_BRIDGE), CAP_NET_ADMIN is missing.
    pub fn create_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        check_name(name)?;
        let info = Attributes::new().with(IflaInfo::Kind, "bridge".to_owned()).done();
        let attributes =
            Attributes::new().with(Ifla::Ifname, name.to_owned()).with(Ifla::Linkinfo, info).done();
        let request = message(0, Iff::empty(), Iff::empty(), attributes)?;
        let place = format!("interface {name}");
        let flags = NlmF::CREATE | NlmF::EXCL;
        self.request(Rtm::Newlink, flags, request, &place, "RTM_NEWLINK bridge")
    }

    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// Either is gone, or the kernel refuses the link (loopback, another bridge).
    pub fn set_master(&mut self, link: &Link, bridge: &Link) -> Result<(), NetlinkError> {
        let attributes = Attributes::new().with(Ifla::Master, bridge.index).done();
        let request = message(link.index, Iff::empty(), Iff::empty(), attributes)?;
        self.request(Rtm::Newlink, NlmF::empty(), request, &link.to_string(), "RTM_NEWLINK IFLA_MASTER")
    }

    /// All links of the namespace.
    ///
    /// # Errors
    /// Netlink itself failed.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let request = message(0, Iff::empty(), Iff::empty(), RtBuffer::new())?;
        let answers = self.query(Rtm::Getlink, NlmF::DUMP, request, "interfaces", "RTM_GETLINK")?;
        Ok(answers.iter().map(link).collect())
    }

    /// The link of this name.
    ///
    /// # Errors
    /// There is none (see [`NetlinkError::is_absent`]), or the name is none.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        check_name(name)?;
        let place = format!("interface {name}");
        let by_name = Attributes::new().with(Ifla::Ifname, name.to_owned()).done();
        let request = message(0, Iff::empty(), Iff::empty(), by_name)?;
        self.one(request, &place)
    }

    /// The link of this index.
    ///
    /// # Errors
    /// There is none (see [`NetlinkError::is_absent`]).
    pub fn link_at(&mut self, index: u32) -> Result<Link, NetlinkError> {
        let request = message(index, Iff::empty(), Iff::empty(), RtBuffer::new())?;
        self.one(request, &format!("interface index {index}"))
    }

    /// The other end of a veth, in whatever namespace it is.
    ///
    /// # Errors
    /// The link has no other end, or it is in a namespace that this one has no number for or no right to
    /// (CAP_NET_ADMIN there).
    pub fn peer(&mut self, link: &Link) -> Result<Link, NetlinkError> {
        let place = format!("{link}, its other end");
        let index = link.lower.ok_or_else(|| {
            NetlinkError::new(place.as_str(), "IFLA_LINK", io::Error::from_raw_os_error(libc::ENODEV))
        })?;
        let mut attributes = Attributes::new();
        if let Some(namespace) = link.lower_namespace {
            attributes = attributes.with(Ifla::IfNetnsid, namespace);
        }
        let request = message(index, Iff::empty(), Iff::empty(), attributes.done())?;
        self.one(request, &place)
    }

    fn one(&mut self, request: Ifinfomsg, place: &str) -> Result<Link, NetlinkError> {
        let answers = self.query(Rtm::Getlink, NlmF::empty(), request, place, "RTM_GETLINK")?;
        let absent = || NetlinkError::new(place, "RTM_GETLINK", io::Error::from_raw_os_error(libc::ENODEV));
        answers.first().map(link).ok_or_else(absent)
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// The link is gone, or CAP_NET_ADMIN is missing.
    pub fn set_up(&mut self, link: &Link, up: bool) -> Result<(), NetlinkError> {
        let flags = if up { Iff::UP } else { Iff::empty() };
        let request = message(link.index, flags, Iff::UP, RtBuffer::new())?;
        self.request(Rtm::Newlink, NlmF::empty(), request, &link.to_string(), "RTM_NEWLINK IFF_UP")
    }

    /// Sets a link's MTU in octets of the network layer.
    ///
    /// # Errors
    /// The driver does not allow the value, or CAP_NET_ADMIN is missing.
    pub fn set_mtu(&mut self, link: &Link, mtu: u32) -> Result<(), NetlinkError> {
        let attributes = Attributes::new().with(Ifla::Mtu, mtu).done();
        let request = message(link.index, Iff::empty(), Iff::empty(), attributes)?;
        self.request(Rtm::Newlink, NlmF::empty(), request, &link.to_string(), "RTM_NEWLINK IFLA_MTU")
    }

    /// Deletes a link; of a veth pair both ends go.
    ///
    /// # Errors
    /// The link is gone, is hardware, or CAP_NET_ADMIN is missing.
    pub fn delete_link(&mut self, link: &Link) -> Result<(), NetlinkError> {
        let request = message(link.index, Iff::empty(), Iff::empty(), RtBuffer::new())?;
        self.request(Rtm::Dellink, NlmF::empty(), request, &link.to_string(), "RTM_DELLINK")
    }
}

fn check_name(name: &str) -> Result<(), NetlinkError> {
    let good = !name.is_empty()
        && name.len() <= NAME_MAX
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0');
    if good {
        return Ok(());
    }
    Err(NetlinkError {
        place: format!("interface {name:?}"),
        call: "name",
        source: io::Error::from_raw_os_error(libc::EINVAL),
        kernel: None,
        remedy: format!("use 1 to {NAME_MAX} octets without `/`, `:` and blanks"),
    })
}

pub(super) fn message(
    index: u32,
    flags: Iff,
    change: Iff,
    attributes: RtBuffer<Ifla, Buffer>,
) -> Result<Ifinfomsg, NetlinkError> {
    IfinfomsgBuilder::default()
        .ifi_family(RtAddrFamily::Unspecified)
        .ifi_index(index as i32)
        .ifi_flags(flags)
        .ifi_change(change)
        .rtattrs(attributes)
        .build()
        .map_err(|e| NetlinkError::new("netlink", "ifinfomsg", io::Error::other(e.to_string())))
}

fn end(end: &VethEnd<'_>) -> Attributes<Ifla> {
    let mut attributes = Attributes::new()
        .with(Ifla::Ifname, end.name.to_owned())
        .with(Ifla::NetNsFd, end.namespace.as_fd().as_raw_fd())
        .with(Ifla::NumTxQueues, end.queues.0)
        .with(Ifla::NumRxQueues, end.queues.1);
    if let Some(mac) = end.mac {
        attributes = attributes.with(Ifla::Address, Buffer::from(&mac[..]));
    }
    if let Some(mtu) = end.mtu {
        attributes = attributes.with(Ifla::Mtu, mtu);
    }
    attributes
}

/// A link out of the kernel's message; what it does not say stays at its neutral value.
pub(super) fn link(message: &Ifinfomsg) -> Link {
    let mut link = Link {
        index: message.ifi_index().unsigned_abs(),
        name: String::new(),
        kind: None,
        mac: None,
        mtu: 0,
        flags: u32::from(*message.ifi_flags()),
        oper_state: OperState::Unknown,
        xdp: None,
        tx_queues: 0,
        rx_queues: 0,
        lower: None,
        lower_namespace: None,
        master: None,
        promiscuity: 0,
        counters: Counters::default(),
    };
    for attribute in message.rtattrs().iter() {
        let bytes: &[u8] = attribute.rta_payload().as_ref();
        match attribute.rta_type() {
            Ifla::Ifname => link.name = text(bytes),
            Ifla::Address => link.mac = bytes.try_into().ok(),
            Ifla::Mtu => link.mtu = number(bytes),
            Ifla::Operstate => link.oper_state = OperState::from_abi(bytes.first().copied().unwrap_or(0)),
            Ifla::NumTxQueues => link.tx_queues = number(bytes),
            Ifla::NumRxQueues => link.rx_queues = number(bytes),
            Ifla::Link => link.lower = Some(number(bytes)),
            Ifla::LinkNetnsid => link.lower_namespace = Some(number(bytes) as i32),
            Ifla::Master => link.master = Some(number(bytes)),
            Ifla::Promiscuity => link.promiscuity = number(bytes),
            Ifla::Stats64 => link.counters = counters(bytes),
            Ifla::Linkinfo => link.kind = nested(attribute, u16::from(IflaInfo::Kind)).map(|b| text(&b)),
            Ifla::Xdp => link.xdp = xdp(attribute),
            _ => {}
        }
    }
    link
}

type Raw = neli::rtnl::Rtattr<Ifla, Buffer>;

fn nested(attribute: &Raw, kind: u16) -> Option<Vec<u8>> {
    let inner = attribute.get_attr_handle::<u16>().ok()?;
    inner.get_attribute(kind).map(|a| a.payload().as_ref().to_vec())
}

fn xdp(attribute: &Raw) -> Option<XdpAttached> {
    let mode = match nested(attribute, IFLA_XDP_ATTACHED)?.first()? {
        1 => XdpMode::Native,
        2 => XdpMode::Generic,
        3 => XdpMode::Offload,
        4 => XdpMode::Several,
        _ => return None,
    };
    let program = nested(attribute, IFLA_XDP_PROG_ID).map_or(0, |b| number(&b));
    Some(XdpAttached { mode, program })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn counters(bytes: &[u8]) -> Counters {
    // struct rtnl_link_stats64, linux/if_link.h: rx and tx packets, octets, errors, drops, in this order; then
    // multicast, collisions, five kinds of RX errors, and rx_missed_errors.
    let at =
        |i: usize| bytes.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Counters {
        rx_packets: at(0),
        tx_packets: at(1),
        rx_bytes: at(2),
        tx_bytes: at(3),
        rx_dropped: at(6),
        tx_dropped: at(7),
        rx_missed: at(15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused_with_the_rule() {
        for name in ["", ".", "..", "a/b", "a b", "a:b", "0123456789abcdef"] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("1 to 15 octets"), "{error}");
        }
        check_name("0123456789abcde").unwrap();
    }
}
