//! A watch on the links of a namespace, so that a port that vanishes is `absent` and comes back by its name.

use super::{Link, NetlinkError, io_error, link, parse};
use crate::namespace::Namespace;
use neli::consts::nl::Nlmsg;
use neli::consts::rtnl::Rtm;
use neli::consts::socket::NlFamily;
use neli::nl::NlPayload;
use neli::rtnl::Ifinfomsg;
use neli::socket::synchronous::NlSocketHandle;
use neli::types::Buffer;
use neli::utils::Groups;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// RTNLGRP_LINK of linux/rtnetlink.h.
const RTNLGRP_LINK: u32 = 1;

/// What happened to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It is new or has changed: flags, state, MTU, XDP program.
    Changed(Link),
    /// It is gone from the namespace: deleted or moved. One that returns by the same name has another index.
    Removed(Link),
    /// The kernel had more to say than the socket holds: list the links again.
    Overrun,
}

/// Receives link changes of one namespace. Open it before listing the links, so that no change falls between.
pub struct LinkMonitor {
    socket: NlSocketHandle,
    pending: VecDeque<LinkEvent>,
}

impl std::fmt::Debug for LinkMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkMonitor").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl LinkMonitor {
    /// Opens a monitor in the calling thread's namespace.
    ///
    /// # Errors
    /// No netlink socket is to be had.
    pub fn open() -> Result<Self, NetlinkError> {
        let fail = |e| NetlinkError::new("link monitor", "socket(AF_NETLINK)", io_error(&e));
        let groups = Groups::new_groups(&[RTNLGRP_LINK]);
        let socket = NlSocketHandle::connect(NlFamily::Route, None, groups).map_err(fail)?;
        let monitor = Self { socket, pending: VecDeque::new() };
        rustix::io::ioctl_fionbio(monitor.as_fd(), true)
            .map_err(|e| NetlinkError::new("link monitor", "ioctl(FIONBIO)", e.into()))?;
        Ok(monitor)
    }

    /// Opens a monitor in `namespace`; the calling thread stays where it is.
    ///
    /// # Errors
    /// As [`LinkMonitor::open`] and [`Namespace::run_in`].
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run_in(Self::open)?
    }

    /// The next change, `None` when there is none now. Wait for readability of the descriptor ([`AsFd`]).
    ///
    /// # Errors
    /// The socket failed.
    pub fn next_event(&mut self) -> Result<Option<LinkEvent>, NetlinkError> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let fail = |e: io::Error| NetlinkError::new("link monitor", "recv", e);
            let messages = match self.socket.recv::<u16, Buffer>() {
                Ok((messages, _)) => messages,
                Err(e) => {
                    let e = io_error(&e);
                    return match (e.kind(), e.raw_os_error()) {
                        (io::ErrorKind::WouldBlock, _) => Ok(None),
                        (_, Some(libc::ENOBUFS)) => Ok(Some(LinkEvent::Overrun)),
                        (io::ErrorKind::Interrupted, _) => continue,
                        _ => Err(fail(e)),
                    };
                }
            };
            for message in messages {
                let message = message.map_err(|e| fail(io_error(&e)))?;
                let kind = *message.nl_type();
                let NlPayload::Payload(bytes) = message.nl_payload() else { continue };
                let event: fn(Link) -> LinkEvent = if kind == u16::from(Rtm::Newlink) {
                    LinkEvent::Changed
                } else if kind == u16::from(Rtm::Dellink) {
                    LinkEvent::Removed
                } else if kind == u16::from(Nlmsg::Overrun) {
                    self.pending.push_back(LinkEvent::Overrun);
                    continue;
                } else {
                    continue;
                };
                let message: Ifinfomsg = parse(bytes, "link monitor", "RTM_NEWLINK")?;
                self.pending.push_back(event(link::link(&message)));
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as `self` is, and the borrow ends before.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}
