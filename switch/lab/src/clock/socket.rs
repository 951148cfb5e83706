//! A clock's sockets: event messages with the kernel's timestamps, general messages without.
//!
//! Receive stamps are taken where the frame enters the network stack, transmit stamps where the driver takes it
//! (Documentation/networking/timestamping.rst); the latter come back through the socket's error queue with a copy of
//! the frame.

use super::{
    ClockError, Stamps, Transport,
    message::{ETHERTYPE, EVENT_PORT, GENERAL_PORT, Message, MessageError, PortIdentity},
};
use etherparse::{EtherType, Ethernet2Header};
use nix::{
    errno::Errno,
    sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, sendmsg,
        setsockopt,
        sockopt::{BindToDevice, Ipv4PacketInfo, Ipv6RecvPacketInfo, Timestamping},
    },
};
use plimsoll_port::{
    netlink::{Link, Netlink},
    packet,
    timestamping::HardwareTimestamps,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{
        AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, send, sendto, socket_with, sockopt,
    },
    time::Timespec,
};
use std::{
    ffi::OsString,
    io::{self, IoSlice, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Ethernet destination of all messages but peer delay (Annex E.3).
pub(crate) const GROUP_L2: [u8; 6] = [0x01, 0x1B, 0x19, 0, 0, 0];
/// IPv4 destination (Annex C.3).
pub(crate) const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);
/// IPv6 destination with global scope (Annex D.3).
pub(crate) const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF0E, 0, 0, 0, 0, 0, 0, 0x181);
/// The same three for peer delay.
pub(crate) const PEERS_L2: [u8; 6] = [0x01, 0x80, 0xC2, 0, 0, 0x0E];
pub(crate) const PEERS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 107);
pub(crate) const PEERS_V6: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0x6B);
/// Octets that UDP over IPv6 carries behind the message (Annex D.1).
pub(crate) const TRAILER_V6: usize = 2;
/// How long a transmit stamp may take; veth gives it within the call.
const STAMP_PATIENCE: Duration = Duration::from_millis(50);
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Longer than any message for us with the headers that the error queue returns; a longer one is cut, and refused.
const BUFFER: usize = 512;
/// Room for a stamp of three times, an error with an IPv6 address, and an address of ours.
const CONTROL: usize = 256;

/// The sockets of one clock on one interface.
#[derive(Debug)]
pub(super) struct Sockets {
    transport: Transport,
    link: Link,
    mac: [u8; 6],
    event: OwnedFd,
    /// For L2 only to send: what arrives all comes to `event`.
    general: OwnedFd,
    control: Vec<u8>,
    _hardware: Option<HardwareTimestamps>,
}

/// A message that arrived, and when.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: Result<Message, MessageError>,
    /// CLOCK_REALTIME in nanoseconds; `None` where the kernel did not stamp it.
    pub(super) at: Option<u64>,
}

/// What a socket gave.
#[derive(Debug)]
pub(super) struct Stamped {
    pub(super) octets: Vec<u8>,
    /// CLOCK_REALTIME in nanoseconds; `None` without a stamp.
    pub(super) at: Option<u64>,
    /// Who sent it, of UDP.
    pub(super) from: Option<SocketAddr>,
    /// Which of our addresses it came to, and by which interface; `None` where the socket does not tell.
    pub(super) to: Option<(IpAddr, u32)>,
}

impl Sockets {
    /// Opens them in the calling thread's network namespace.
    pub(super) fn open(interface: &str, transport: Transport, stamps: Stamps) -> Result<Self, ClockError> {
        let link = Netlink::open()?.link(interface)?;
        let fail = |call, remedy| {
            let interface = interface.to_owned();
            move |source| ClockError::Call { interface, call, remedy, source }
        };
        let mac = link.mac.ok_or_else(|| {
            fail("RTM_GETLINK", "use an Ethernet interface")(io::Error::other("it has no MAC address"))
        })?;
        let (event, general) = match transport {
            Transport::NtpV4 | Transport::NtpV6 => {
                return Err(fail("transport", "write l2, udp4 or udp6")(io::Error::other(format!(
                    "{transport} carries no PTP"
                ))));
            }
            Transport::L2 => {
                let open = |ethertype, groups| {
                    packet::open(link.index, ethertype, groups)
                        .map_err(fail("packet socket", "run as root, or with CAP_NET_RAW"))
                };
                (open(Some(ETHERTYPE), &[GROUP_L2, PEERS_L2][..])?, open(None, &[])?)
            }
            Transport::UdpV4 | Transport::UdpV6 => {
                let open = |port| {
                    open_udp(&link, transport, port).map_err(fail(
                        "UDP socket",
                        "run as root, give the interface an address, and end other PTP daemons on it",
                    ))
                };
                (open(EVENT_PORT)?, open(GENERAL_PORT)?)
            }
        };
        let hardware = match stamps {
            Stamps::Software => None,
            Stamps::Hardware => Some(HardwareTimestamps::enable(interface).map_err(fail(
                "ioctl SIOCSHWTSTAMP",
                "leave --timestamps hardware out, or use an interface with a PTP hardware clock (ethtool -T)",
            ))?),
        };
        stamp(&event, stamps)
            .map_err(fail("setsockopt SO_TIMESTAMPING", "use a kernel with network timestamping"))?;
        Ok(Self { transport, link, mac, event, general, control: control(), _hardware: hardware })
    }

    /// Port 1 of a clock on this interface.
    pub(super) const fn identity(&self) -> PortIdentity {
        PortIdentity::from_mac(self.mac)
    }

    /// Sends an event message; when it left, where the kernel told (CLOCK_REALTIME, ns).
    pub(super) fn send_event(&mut self, message: &Message) -> Result<Option<u64>, ClockError> {
        let octets = message.encode();
        let peers = message.body.is_peer_delay();
        if !self.send(self.event.as_fd(), EVENT_PORT, peers, &octets)? {
            return Ok(None);
        }
        sent_at(&self.event, &mut self.control, &octets).map_err(|(call, e)| self.failed(call, e))
    }

    /// Sends a general message.
    pub(super) fn send_general(&self, message: &Message) -> Result<(), ClockError> {
        let peers = message.body.is_peer_delay();
        self.send(self.general.as_fd(), GENERAL_PORT, peers, &message.encode()).map(|_| ())
    }

    /// Waits until a message is there or `patience` has passed.
    pub(super) fn wait(&self, patience: Duration) -> Result<(), ClockError> {
        let mut sockets =
            [PollFd::new(&self.event, PollFlags::IN), PollFd::new(&self.general, PollFlags::IN)];
        wait(&mut sockets, patience).map_err(|e| self.failed("poll", e))
    }

    /// A message that is there, events first.
    pub(super) fn receive(&mut self) -> Result<Option<Received>, ClockError> {
        let mut stamped = None;
        for socket in [&self.event, &self.general] {
            stamped = read(socket, &mut self.control, false).map_err(|e| self.failed("recvmsg", e))?;
            if stamped.is_some() {
                break;
            }
        }
        let Some(Stamped { octets, at, .. }) = stamped else { return Ok(None) };
        let message = match self.transport {
            Transport::L2 => Message::decode(octets.get(ETHERNET..).unwrap_or_default()),
            _ => Message::decode(&octets),
        };
        Ok(Some(Received { message, at }))
    }

    /// Whether the kernel took the message; an error only where no later one would fare better.
    fn send(
        &self,
        socket: BorrowedFd<'_>,
        port: u16,
        peers: bool,
        message: &[u8],
    ) -> Result<bool, ClockError> {
        let mut packet = Vec::with_capacity(ETHERNET + message.len() + TRAILER_V6);
        if self.transport == Transport::L2 {
            let destination = if peers { PEERS_L2 } else { GROUP_L2 };
            let header = Ethernet2Header { destination, source: self.mac, ether_type: EtherType(ETHERTYPE) };
            packet.extend(header.to_bytes());
        }
        packet.extend(message);
        let group: SocketAddr = match self.transport {
            Transport::L2 => return self.sent(send(socket, &packet, SendFlags::empty()), "send"),
            Transport::UdpV4 => (if peers { PEERS_V4 } else { GROUP_V4 }, port).into(),
            _ => {
                packet.extend([0; TRAILER_V6]);
                (if peers { PEERS_V6 } else { GROUP_V6 }, port).into()
            }
        };
        self.sent(sendto(socket, &packet, SendFlags::empty(), &group), "sendto")
    }

    fn sent(&self, result: rustix::io::Result<usize>, call: &'static str) -> Result<bool, ClockError> {
        use rustix::io::Errno;
        match result {
            Ok(_) => Ok(true),
            // PERM: a firewall drops it.
            Err(Errno::NOBUFS | Errno::AGAIN | Errno::INTR | Errno::PERM) => Ok(false),
            Err(error) => Err(self.failed(call, error.into())),
        }
    }

    fn failed(&self, call: &'static str, source: io::Error) -> ClockError {
        failed(&self.link.name, call, source)
    }
}

/// A call that failed on a socket that was open already.
pub(super) fn failed(interface: &str, call: &'static str, source: io::Error) -> ClockError {
    let remedy = match source.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => "set the interface up",
        Some(libc::ENETUNREACH | libc::EADDRNOTAVAIL | libc::EHOSTUNREACH) => {
            "give the interface an address of this family"
        }
        _ => "check the interface",
    };
    ClockError::Call { interface: interface.to_owned(), call, remedy, source }
}

/// Makes the kernel stamp what the socket receives. What it sends leaves no copy in the error queue, which somebody
/// would have to read.
pub(super) fn stamp_received(socket: &OwnedFd) -> io::Result<()> {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(socket, Timestamping, &flags).map_err(Into::into)
}

/// Makes the kernel, or the interface, stamp what the socket sends and receives; each stamp of a message sent is to be
/// read ([`sent_at`]).
pub(super) fn stamp(socket: &OwnedFd, stamps: Stamps) -> io::Result<()> {
    let flags = match stamps {
        Stamps::Software => {
            TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
                | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
                | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        }
        Stamps::Hardware => {
            TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE
                | TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
                | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE
        }
    };
    setsockopt(socket, Timestamping, &flags).map_err(Into::into)
}

/// Room for what [`read`] gets beside a message.
pub(super) fn control() -> Vec<u8> {
    vec![0; CONTROL]
}

/// When the kernel gave a message to its driver that was just sent; `None` where it does not tell. What fails is said
/// with its call.
pub(super) fn sent_at(
    socket: &OwnedFd,
    control: &mut [u8],
    octets: &[u8],
) -> Result<Option<u64>, (&'static str, io::Error)> {
    let deadline = Instant::now() + STAMP_PATIENCE;
    loop {
        match read(socket, control, true).map_err(|e| ("recvmsg", e))? {
            Some(sent) if sent.octets.windows(octets.len()).any(|part| part == octets) => return Ok(sent.at),
            // The stamp of an earlier message, given up.
            Some(_) => {}
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(None);
                }
                // The error queue is told by POLLERR, which needs no asking.
                wait(&mut [PollFd::new(socket, PollFlags::empty())], left).map_err(|e| ("poll", e))?;
            }
        }
    }
}

/// A message that is there, or a frame from the error queue.
pub(super) fn read(socket: &OwnedFd, control: &mut [u8], error_queue: bool) -> io::Result<Option<Stamped>> {
    let queue = if error_queue { MsgFlags::MSG_ERRQUEUE } else { MsgFlags::empty() };
    let mut octets = vec![0; BUFFER];
    let mut parts = [IoSliceMut::new(&mut octets)];
    let flags = MsgFlags::MSG_DONTWAIT | queue;
    let received = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), flags);
    let (length, at, from, to) = match received {
        Ok(message) => {
            let (mut at, mut to) = (None, None);
            for part in message.cmsgs().into_iter().flatten() {
                match part {
                    // One of them, as was asked for.
                    ControlMessageOwned::ScmTimestampsns(stamps) => {
                        at = nanoseconds(stamps.hw_raw).or_else(|| nanoseconds(stamps.system));
                    }
                    ControlMessageOwned::Ipv4PacketInfo(info) => {
                        let address = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr));
                        to = Some((address.into(), info.ipi_ifindex as u32));
                    }
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        to = Some((Ipv6Addr::from(info.ipi6_addr.s6_addr).into(), info.ipi6_ifindex));
                    }
                    _ => {}
                }
            }
            (message.bytes, at, message.address.and_then(address), to)
        }
        // ECONNREFUSED and its like: an answer to an earlier message, not to this call.
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    octets.truncate(length);
    Ok(Some(Stamped { octets, at, from, to }))
}

/// Makes the kernel tell with each packet which of our addresses it came to.
pub(super) fn tell_addresses(socket: &OwnedFd, v4: bool) -> io::Result<()> {
    if v4 {
        setsockopt(socket, Ipv4PacketInfo, &true)?;
    } else {
        setsockopt(socket, Ipv6RecvPacketInfo, &true)?;
    }
    Ok(())
}

/// Sends from the address of ours that was asked: who asks looks whom an answer is from. Without it from that which the
/// kernel takes.
pub(super) fn send_from(
    socket: &OwnedFd,
    ours: Option<(IpAddr, u32)>,
    to: SocketAddr,
    octets: &[u8],
) -> rustix::io::Result<()> {
    let (v4, v6);
    let info = match ours {
        None => None,
        Some((IpAddr::V4(address), _)) => {
            let [here, nowhere] = [address.to_bits().to_be(), 0].map(|s_addr| libc::in_addr { s_addr });
            v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: here, ipi_addr: nowhere };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        Some((IpAddr::V6(address), interface)) => {
            let here = libc::in6_addr { s6_addr: address.octets() };
            v6 = libc::in6_pktinfo { ipi6_addr: here, ipi6_ifindex: interface };
            Some(ControlMessage::Ipv6PacketInfo(&v6))
        }
    };
    let parts = [IoSlice::new(octets)];
    let to = SockaddrStorage::from(to);
    sendmsg(socket.as_raw_fd(), &parts, info.as_slice(), MsgFlags::empty(), Some(&to))
        .map(drop)
        .map_err(|errno| rustix::io::Errno::from_raw_os_error(errno as i32))
}

fn address(storage: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|it| SocketAddr::V4((*it).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|it| SocketAddr::V6((*it).into())))
}

/// Waits for one of these, or until `patience` has passed.
pub(super) fn wait(sockets: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    let patience =
        Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(sockets, Some(&patience)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_udp(link: &Link, transport: Transport, port: u16) -> io::Result<OwnedFd> {
    let v4 = transport == Transport::UdpV4;
    let (family, any) = if v4 {
        (AddressFamily::INET, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
    } else {
        (AddressFamily::INET6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
    };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
    // Clocks of several domains may share an interface: a multicast goes to each of them.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    setsockopt(&socket, BindToDevice, &OsString::from(&link.name))?;
    if v4 {
        sockopt::set_ip_multicast_if_with_ifindex(&socket, &GROUP_V4, &Ipv4Addr::UNSPECIFIED, link.index)?;
        sockopt::set_ip_multicast_loop(&socket, false)?;
        sockopt::set_ip_multicast_ttl(&socket, 1)?;
    } else {
        sockopt::set_ipv6_v6only(&socket, true)?;
        sockopt::set_ipv6_multicast_if(&socket, link.index)?;
        sockopt::set_ipv6_multicast_loop(&socket, false)?;
        sockopt::set_ipv6_multicast_hops(&socket, 1)?;
    }
    bind(&socket, &any)?;
    if v4 {
        for group in [GROUP_V4, PEERS_V4] {
            sockopt::set_ip_add_membership_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, link.index)?;
        }
    } else {
        for group in [GROUP_V6, PEERS_V6] {
            sockopt::set_ipv6_add_membership(&socket, &group, link.index)?;
        }
    }
    Ok(socket)
}

/// Nanoseconds of a stamp; `None` for the zero that means there is none.
pub(crate) fn nanoseconds(stamp: nix::sys::time::TimeSpec) -> Option<u64> {
    let ns = stamp.tv_sec() as u64 * 1_000_000_000 + stamp.tv_nsec() as u64;
    (ns != 0).then_some(ns)
}
