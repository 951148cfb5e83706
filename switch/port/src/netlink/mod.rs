//! rtnetlink and ethtool: links, addresses, neighbours, what a driver offers, and a watch on links that come and go.
//!
//! A handle speaks to the namespace in which it was opened. Requests are synchronous: one message, its answer, done.

mod address;
mod ethtool;
mod link;
mod monitor;
mod xdp;

pub use ethtool::{Channels, Driver, Ethtool, Offloads};
pub use link::{Counters, Link, OperState, VethEnd, XdpAttached, XdpMode};
pub use monitor::{LinkEvent, LinkMonitor};

use crate::namespace::{Namespace, NamespaceError};
use neli::consts::nl::{NlmF, Nlmsg, NlmsgerrAttr};
use neli::consts::rtnl::Rtm;
use neli::consts::socket::NlFamily;
use neli::err::{Nlmsgerr, SocketError};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::{Buffer, RtBuffer};
use neli::utils::Groups;
use neli::{FromBytesWithInput, Size, ToBytes};
use std::fmt::Debug;
use std::io;

/// Why the kernel refused a request, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {call}: {source}{}; {remedy}", .kernel.as_ref().map(|k| format!(" ({k})")).unwrap_or_default())]
pub struct NetlinkError {
    /// Which interface, or pair of them.
    pub place: String,
    /// The request or system call.
    pub call: &'static str,
    /// Its errno.
    pub source: io::Error,
    /// What the kernel said beside the errno (NETLINK_EXT_ACK).
    pub kernel: Option<String>,
    /// What to do about it.
    pub remedy: String,
}

impl NetlinkError {
    pub(crate) fn new(place: impl Into<String>, call: &'static str, source: io::Error) -> Self {
        let place = place.into();
        let remedy = remedy(&source, &place);
        Self { place, call, source, kernel: None, remedy }
    }

    /// Whether the interface (or address) is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ENOENT))
    }
}

impl From<NamespaceError> for NetlinkError {
    fn from(e: NamespaceError) -> Self {
        Self {
            place: format!("network namespace {}", e.place),
            call: e.call,
            source: e.source,
            kernel: None,
            remedy: e.remedy.into(),
        }
    }
}

/// A handle on the routing netlink of one namespace.
pub struct Netlink {
    socket: NlSocketHandle,
    sequence: u32,
}

impl Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("port", &self.socket.pid()).finish_non_exhaustive()
    }
}

impl Netlink {
    /// Opens a handle in the calling thread's namespace.
    ///
    /// # Errors
    /// No netlink socket is to be had (a sandbox that filters the address family).
    pub fn open() -> Result<Self, NetlinkError> {
        let fail = |e: SocketError| NetlinkError::new("netlink", "socket(AF_NETLINK)", io_error(&e));
        let socket = NlSocketHandle::connect(NlFamily::Route, None, Groups::empty()).map_err(fail)?;
        socket.enable_ext_ack(true).map_err(fail)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Opens a handle in `namespace`; the calling thread stays where it is.
    ///
    /// # Errors
    /// As [`Netlink::open`] and [`Namespace::run_in`].
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run_in(Self::open)?
    }

    /// Sends a request that is answered by an acknowledgement alone.
    fn request<P>(
        &mut self,
        kind: Rtm,
        flags: NlmF,
        payload: P,
        place: &str,
        call: &'static str,
    ) -> Result<(), NetlinkError>
    where
        P: Size + ToBytes + FromBytesWithInput<Input = usize> + Debug,
    {
        self.send(kind, flags | NlmF::REQUEST | NlmF::ACK, payload, place, call)?;
        self.collect::<P>(place, call).map(drop)
    }

    /// Sends a request that is answered by messages (`NlmF::DUMP`: by many).
    fn query<P>(
        &mut self,
        kind: Rtm,
        flags: NlmF,
        payload: P,
        place: &str,
        call: &'static str,
    ) -> Result<Vec<P>, NetlinkError>
    where
        P: Size + ToBytes + FromBytesWithInput<Input = usize> + Debug,
    {
        // A dump ends with NLMSG_DONE, a single answer with the acknowledgement asked for.
        let end = if flags.contains(NlmF::DUMP) { NlmF::empty() } else { NlmF::ACK };
        self.send(kind, flags | NlmF::REQUEST | end, payload, place, call)?;
        self.collect(place, call)
    }

    fn send<P>(
        &mut self,
        kind: Rtm,
        flags: NlmF,
        payload: P,
        place: &str,
        call: &'static str,
    ) -> Result<(), NetlinkError>
    where
        P: Size + ToBytes + Debug,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let message = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(payload))
            .build()
            .map_err(|e| NetlinkError::new(place, call, io::Error::other(e.to_string())))?;
        self.socket.send(&message).map_err(|e| NetlinkError::new(place, call, io_error(&e)))
    }

    /// Reads the answer to the last request up to its acknowledgement or the end of the dump.
    fn collect<P>(&mut self, place: &str, call: &'static str) -> Result<Vec<P>, NetlinkError>
    where
        P: Size + FromBytesWithInput<Input = usize> + Debug,
    {
        let broken = |e: SocketError| NetlinkError::new(place, call, io_error(&e));
        let mut answers = Vec::new();
        loop {
            let (messages, _) = self.socket.recv::<u16, Buffer>().map_err(broken)?;
            for message in messages {
                let message: Nlmsghdr<u16, Buffer> = message.map_err(broken)?;
                if *message.nl_seq() != self.sequence {
                    continue; // left over from a request that failed half-way
                }
                let done = *message.nl_type() == u16::from(Nlmsg::Done);
                match message.nl_payload() {
                    NlPayload::Ack(_) | NlPayload::Empty => return Ok(answers),
                    NlPayload::Err(e) => return Err(refused(e, place, call)),
                    NlPayload::DumpExtAck(e) if *e.error() != 0 => {
                        let source = io::Error::from_raw_os_error(e.error().saturating_neg());
                        return Err(NetlinkError::new(place, call, source));
                    }
                    NlPayload::DumpExtAck(_) => return Ok(answers),
                    NlPayload::Payload(_) if done => return Ok(answers),
                    NlPayload::Payload(bytes) => answers.push(parse(bytes, place, call)?),
                }
            }
        }
    }
}

/// The typed form of a message's octets.
fn parse<P: FromBytesWithInput<Input = usize>>(
    bytes: &Buffer,
    place: &str,
    call: &'static str,
) -> Result<P, NetlinkError> {
    P::from_bytes_with_input(&mut io::Cursor::new(bytes.as_ref()), bytes.len())
        .map_err(|e| NetlinkError::new(place, call, io::Error::other(e.to_string())))
}

fn refused<M>(e: &Nlmsgerr<M>, place: &str, call: &'static str) -> NetlinkError {
    let mut error = NetlinkError::new(place, call, io::Error::from_raw_os_error(e.error().saturating_neg()));
    error.kernel = e
        .ext_ack()
        .get_attr_handle()
        .get_attr_payload_as_with_len::<String>(NlmsgerrAttr::Msg)
        .ok()
        .map(|text| text.trim_end_matches('\0').to_owned());
    error
}

fn io_error(e: &SocketError) -> io::Error {
    match e {
        SocketError::Io(e) => match e.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::from(e.kind()),
        },
        other => io::Error::other(other.to_string()),
    }
}

fn remedy(source: &io::Error, place: &str) -> String {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root, or with CAP_NET_ADMIN".into(),
        Some(libc::EEXIST) => format!("choose other names than {place}, or delete what has them"),
        Some(libc::ENODEV | libc::ENXIO) => "see `ip link` for the interfaces there are".into(),
        Some(libc::EOPNOTSUPP) => "the kernel or the driver does not offer it".into(),
        Some(libc::ENOBUFS | libc::ENOMEM) => "free memory, then try again".into(),
        Some(libc::EBUSY) => "something else holds it; wait, or end that first".into(),
        Some(libc::EINVAL | libc::ERANGE) => "the value is not allowed here".into(),
        _ => "see `dmesg`".into(),
    }
}

/// An attribute list under construction: nested ones are payloads like any other.
pub(crate) struct Attributes<T>(RtBuffer<T, Buffer>);

impl<T: neli::consts::rtnl::RtaType> Attributes<T> {
    pub(crate) fn new() -> Self {
        Self(RtBuffer::new())
    }

    /// Adds an attribute of plain values, whose encoding cannot fail.
    pub(crate) fn with(mut self, kind: T, value: impl Size + ToBytes) -> Self {
        if let Ok(attribute) = neli::rtnl::RtattrBuilder::default().rta_type(kind).rta_payload(value).build()
        {
            self.0.push(attribute);
        }
        self
    }

    pub(crate) fn done(self) -> RtBuffer<T, Buffer> {
        self.0
    }
}
