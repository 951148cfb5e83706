//! A clock's sockets: event messages with the kernel's timestamps, general messages without.
//!
//! Receive stamps are taken where the frame enters the network stack, transmit stamps where the driver takes it
//! (Documentation/networking/timestamping.rst); the latter come back through the socket's error queue with a copy of
//! the frame.

use super::{
    ClockError, Transport,
    message::{ETHERTYPE, EVENT_PORT, GENERAL_PORT, Message, MessageError, PortIdentity},
};
use etherparse::{EtherType, Ethernet2Header};
use nix::{
    errno::Errno,
    sys::socket::{
        ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt,
        sockopt::{BindToDevice, Timestamping},
    },
};
use plimsoll_port::{
    netlink::{Link, Netlink},
    packet,
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
    io::{self, IoSliceMut},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Ethernet destination of all messages but peer delay (Annex E.3).
pub(crate) const GROUP_L2: [u8; 6] = [0x01, 0x1B, 0x19, 0, 0, 0];
/// IPv4 destination (Annex C.3).
pub(crate) const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);
/// IPv6 destination with global scope (Annex D.3).
pub(crate) const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF0E, 0, 0, 0, 0, 0, 0, 0x181);
/// Octets that UDP over IPv6 carries behind the message (Annex D.1).
pub(crate) const TRAILER_V6: usize = 2;
/// How long a transmit stamp may take; veth gives it within the call.
const STAMP_PATIENCE: Duration = Duration::from_millis(50);
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Longer than any message for us with the headers that the error queue returns; a longer one is cut, and refused.
const BUFFER: usize = 512;
/// Room for a stamp of three times and an error with an IPv6 address.
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
}

/// A message that arrived, and when.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: Result<Message, MessageError>,
    /// CLOCK_REALTIME in nanoseconds; `None` where the kernel did not stamp it.
    pub(super) at: Option<u64>,
}

/// What a socket gave.
struct Stamped {
    octets: Vec<u8>,
    at: Option<u64>,
}

impl Sockets {
    /// Opens them in the calling thread's network namespace.
    pub(super) fn open(interface: &str, transport: Transport) -> Result<Self, ClockError> {
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
                return Err(fail("transport", "write l2, udp4 or udp6, or use `plimsoll sim`")(
                    io::Error::other(format!("{transport} is simulated only")),
                ));
            }
            Transport::L2 => {
                let open = |ethertype, group| {
                    packet::open(link.index, ethertype, group)
                        .map_err(fail("packet socket", "run as root, or with CAP_NET_RAW"))
                };
                (open(Some(ETHERTYPE), Some(GROUP_L2))?, open(None, None)?)
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
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        setsockopt(&event, Timestamping, &stamps).map_err(|e| {
            fail("setsockopt SO_TIMESTAMPING", "use a kernel with network timestamping")(e.into())
        })?;
        Ok(Self { transport, link, mac, event, general, control: vec![0; CONTROL] })
    }

    /// Port 1 of a clock on this interface.
    pub(super) const fn identity(&self) -> PortIdentity {
        PortIdentity::from_mac(self.mac)
    }

    /// Sends an event message; when it left, where the kernel told (CLOCK_REALTIME, ns).
    pub(super) fn send_event(&mut self, message: &Message) -> Result<Option<u64>, ClockError> {
        let octets = message.encode();
        if !self.send(self.event.as_fd(), EVENT_PORT, &octets)? {
            return Ok(None);
        }
        let deadline = Instant::now() + STAMP_PATIENCE;
        loop {
            match self.read(true)? {
                Some(sent) if sent.octets.windows(octets.len()).any(|part| part == octets) => {
                    return Ok(sent.at);
                }
                // The stamp of an earlier message, given up.
                Some(_) => {}
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    // The error queue is told by POLLERR, which needs no asking.
                    self.poll(&mut [PollFd::new(&self.event, PollFlags::empty())], left)?;
                }
            }
        }
    }

    /// Sends a general message.
    pub(super) fn send_general(&self, message: &Message) -> Result<(), ClockError> {
        self.send(self.general.as_fd(), GENERAL_PORT, &message.encode()).map(|_| ())
    }

    /// Waits until a message is there or `patience` has passed.
    pub(super) fn wait(&self, patience: Duration) -> Result<(), ClockError> {
        let mut sockets =
            [PollFd::new(&self.event, PollFlags::IN), PollFd::new(&self.general, PollFlags::IN)];
        self.poll(&mut sockets, patience)
    }

    /// A message that is there, events first.
    pub(super) fn receive(&mut self) -> Result<Option<Received>, ClockError> {
        let Some(Stamped { octets, at }) = self.read(false)? else { return Ok(None) };
        let message = match self.transport {
            Transport::L2 => Message::decode(octets.get(ETHERNET..).unwrap_or_default()),
            _ => Message::decode(&octets),
        };
        Ok(Some(Received { message, at }))
    }

    /// Whether the kernel took the message; an error only where no later one would fare better.
    fn send(&self, socket: BorrowedFd<'_>, port: u16, message: &[u8]) -> Result<bool, ClockError> {
        let mut packet = Vec::with_capacity(ETHERNET + message.len() + TRAILER_V6);
        if self.transport == Transport::L2 {
            let header =
                Ethernet2Header { destination: GROUP_L2, source: self.mac, ether_type: EtherType(ETHERTYPE) };
            packet.extend(header.to_bytes());
        }
        packet.extend(message);
        let group: SocketAddr = match self.transport {
            Transport::L2 => return self.sent(send(socket, &packet, SendFlags::empty()), "send"),
            Transport::UdpV4 => (GROUP_V4, port).into(),
            _ => {
                packet.extend([0; TRAILER_V6]);
                (GROUP_V6, port).into()
            }
        };
        self.sent(sendto(socket, &packet, SendFlags::empty(), &group), "sendto")
    }

    fn sent(&self, result: rustix::io::Result<usize>, call: &'static str) -> Result<bool, ClockError> {
        use rustix::io::Errno;
        match result {
            Ok(_) => Ok(true),
            Err(Errno::NOBUFS | Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(self.failed(call, error.into())),
        }
    }

    /// One frame from the error queue, or one message from the first socket that has one.
    fn read(&mut self, error_queue: bool) -> Result<Option<Stamped>, ClockError> {
        let queue = if error_queue { MsgFlags::MSG_ERRQUEUE } else { MsgFlags::empty() };
        let sockets = [&self.event, &self.general];
        let sockets = if error_queue { &sockets[..1] } else { &sockets };
        for socket in sockets {
            let mut octets = vec![0; BUFFER];
            let mut parts = [IoSliceMut::new(&mut octets)];
            let flags = MsgFlags::MSG_DONTWAIT | queue;
            let received = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), flags);
            let (length, at) = match received {
                Ok(message) => {
                    let mut at = None;
                    for part in message.cmsgs().into_iter().flatten() {
                        if let ControlMessageOwned::ScmTimestampsns(stamps) = part {
                            at = nanoseconds(stamps.system);
                        }
                    }
                    (message.bytes, at)
                }
                // ECONNREFUSED and its like: an answer to an earlier message, not to this call.
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => continue,
                Err(error) => return Err(self.failed("recvmsg", error.into())),
            };
            octets.truncate(length);
            return Ok(Some(Stamped { octets, at }));
        }
        Ok(None)
    }

    fn poll(&self, sockets: &mut [PollFd<'_>], patience: Duration) -> Result<(), ClockError> {
        let patience =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(sockets, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(self.failed("poll", error.into())),
        }
    }

    fn failed(&self, call: &'static str, source: io::Error) -> ClockError {
        let remedy = match source.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => "set the interface up",
            Some(libc::ENETUNREACH | libc::EADDRNOTAVAIL | libc::EHOSTUNREACH) => {
                "give the interface an address of this family"
            }
            _ => "check the interface",
        };
        ClockError::Call { interface: self.link.name.clone(), call, remedy, source }
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
        sockopt::set_ip_add_membership_with_ifindex(&socket, &GROUP_V4, &Ipv4Addr::UNSPECIFIED, link.index)?;
    } else {
        sockopt::set_ipv6_add_membership(&socket, &GROUP_V6, link.index)?;
    }
    Ok(socket)
}

/// Nanoseconds of a stamp; `None` for the zero that means there is none.
pub(crate) fn nanoseconds(stamp: nix::sys::time::TimeSpec) -> Option<u64> {
    let ns = stamp.tv_sec() as u64 * 1_000_000_000 + stamp.tv_nsec() as u64;
    (ns != 0).then_some(ns)
}
