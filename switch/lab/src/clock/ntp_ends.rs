//! An NTP client and server as instruments, in basic mode with the marking extension field, by the kernel's stamps. What
//! a response says of its own departure is read from the clock just before: the part that basic mode cannot know.

use super::{
    ClientConfig, ClockError, Exchanges, PortIdentity, ServerConfig, ServerReport, Stamps, Transport,
    asking::{Asking, answer},
    client::Asks,
    ntp::{self, Mode, PORT, Packet, from_unix, to_unix},
    socket::{control, failed, read, send_from, sent_at, stamp, stamp_received, tell_addresses, wait},
};
use nix::sys::socket::{setsockopt, sockopt::BindToDevice};
use plimsoll_port::netlink::Netlink;
use rustix::{
    event::{PollFd, PollFlags},
    net::{
        AddressFamily, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, send, socket_with, sockopt,
    },
};
use std::{
    ffi::OsString,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Longest wait before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);

/// An NTP client on its interface.
#[derive(Debug)]
pub struct NtpClient {
    config: ClientConfig,
    socket: OwnedFd,
    control: Vec<u8>,
    asking: Asking,
}

impl NtpClient {
    /// Opens its socket in the calling thread's network namespace. Of `config`, transport, domain, stamps and delay
    /// mechanism mean nothing to it: the server's address says which family.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or the socket is not to be had.
    pub fn open(config: ClientConfig, server: IpAddr) -> Result<Self, ClockError> {
        let options = |socket: &OwnedFd| stamp(socket, Stamps::Software);
        let (socket, identity) = open(&config.interface, server.is_ipv4(), 0, options)?;
        connect(&socket, &SocketAddr::from((server, PORT)))
            .map_err(|e| failed(&config.interface, "connect", e.into()))?;
        let asking = Asking::new(identity, PortIdentity([0; 10]), config.interval);
        Ok(Self { config, socket, control: control(), asking })
    }

    /// Measures until `stop` is set, and hands over what it saw. It asks at a random instant of every interval, so that
    /// its requests keep no step with anything.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Exchanges, ClockError> {
        let mut asks = Asks::new(self.config.interval, self.config.seed);
        while !stop.load(Ordering::Relaxed) {
            if asks.due() {
                self.ask()?;
            }
            while let Some(received) =
                read(&self.socket, &mut self.control, false).map_err(|e| self.failed("recvmsg", e))?
            {
                let answer = Packet::decode(&received.octets).map(|packet| Packet {
                    receive_ns: to_unix(packet.receive_ns),
                    transmit_ns: to_unix(packet.transmit_ns),
                    ..packet
                });
                self.asking.take(answer.as_ref(), received.at);
            }
            wait(&mut [PollFd::new(&self.socket, PollFlags::IN)], asks.patience().min(NAP))
                .map_err(|e| self.failed("poll", e))?;
        }
        Ok(self.asking.finish())
    }

    fn ask(&mut self) -> Result<(), ClockError> {
        let request = self.asking.request(from_unix(now()));
        let octets = request.encode();
        let t1 = match send(&self.socket, &octets, SendFlags::empty()) {
            Ok(_) => {
                sent_at(&self.socket, &mut self.control, &octets).map_err(|(call, e)| self.failed(call, e))?
            }
            Err(error) => refused(error).map_err(|e| self.failed("send", e))?,
        };
        self.asking.asked(&request, t1);
        Ok(())
    }

    fn failed(&self, call: &'static str, source: io::Error) -> ClockError {
        failed(&self.config.interface, call, source)
    }
}

/// An NTP server on its interface.
#[derive(Debug)]
pub struct NtpServer {
    interface: String,
    socket: OwnedFd,
    control: Vec<u8>,
}

impl NtpServer {
    /// Opens its socket in the calling thread's network namespace. Of `config` interface and transport mean something to
    /// it.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or the socket is not to be had: another server may have port 123.
    pub fn open(config: ServerConfig) -> Result<Self, ClockError> {
        let v4 = config.transport != Transport::NtpV6;
        let options = |socket: &OwnedFd| {
            stamp_received(socket)?;
            tell_addresses(socket, v4)
        };
        let (socket, _) = open(&config.interface, v4, PORT, options)?;
        Ok(Self { interface: config.interface, socket, control: control() })
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<ServerReport, ClockError> {
        let mut report = ServerReport::default();
        let fail = |call, e| failed(&self.interface, call, e);
        while !stop.load(Ordering::Relaxed) {
            wait(&mut [PollFd::new(&self.socket, PollFlags::IN)], NAP).map_err(|e| fail("poll", e))?;
            while let Some(received) =
                read(&self.socket, &mut self.control, false).map_err(|e| fail("recvmsg", e))?
            {
                let request = Packet::decode(&received.octets).filter(|packet| packet.mode == Mode::Client);
                match (request, received.from, received.at) {
                    (Some(request), Some(from), Some(at)) => {
                        let response = answer(&request, from_unix(at), from_unix(now()), &mut report);
                        if let Err(error) = send_from(&self.socket, received.to, from, &response.encode()) {
                            unanswered(error).map_err(|e| fail("sendmsg", e))?;
                            report.delay_requests -= 1;
                            report.answers_refused += 1;
                        }
                    }
                    (Some(_), _, None) => report.delay_requests_without_stamp += 1,
                    _ => report.ignored += 1,
                }
            }
        }
        Ok(report)
    }
}

/// A packet that the kernel did not take; an error only where no later one would fare better.
fn refused(error: rustix::io::Errno) -> io::Result<Option<u64>> {
    use rustix::io::Errno;
    match error {
        // PERM: a firewall drops it.
        Errno::NOBUFS | Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED | Errno::PERM => Ok(None),
        error => Err(error.into()),
    }
}

/// An answer that the kernel did not take: who asks may have an address or a port that nothing can be sent to. An error
/// only where the interface is gone.
fn unanswered(error: rustix::io::Errno) -> io::Result<()> {
    use rustix::io::Errno;
    match error {
        Errno::NETDOWN | Errno::NODEV | Errno::NXIO | Errno::BADF => Err(error.into()),
        _ => Ok(()),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// A UDP socket on an interface, with these options, and an identity made of that interface's address.
fn open(
    interface: &str,
    v4: bool,
    port: u16,
    options: impl Fn(&OwnedFd) -> io::Result<()>,
) -> Result<(OwnedFd, PortIdentity), ClockError> {
    let link = Netlink::open()?.link(interface)?;
    let make = || {
        let (family, any) = if v4 {
            (AddressFamily::INET, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        } else {
            (AddressFamily::INET6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
        setsockopt(&socket, BindToDevice, &OsString::from(interface))?;
        if !v4 {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &any)?;
        options(&socket)?;
        io::Result::Ok(socket)
    };
    let socket = make().map_err(|source| ClockError::Call {
        interface: interface.to_owned(),
        call: "UDP socket",
        remedy: "run as root, give the interface an address, and end other NTP servers on it",
        source,
    })?;
    Ok((socket, PortIdentity::from_mac(link.mac.unwrap_or_default())))
}

const _: () = assert!(ntp::LEN < 128, "a packet and its headers fit the buffer of the error queue");
