//! When packets came and went, seen beside the daemons: taps on both hosts' interfaces, with the kernel's own stamps.
//!
//! A tap sees what arrives before any tc program does, and what is sent after it: its stamps are those of the wire,
//! whatever a host's shim tells the daemon. So what they come to is the offset without help, and the marks beside it are
//! those that the switches made.

use super::METER_PORT;
use crate::clock::{ClockError, DelayRecord, PortIdentity, SyncRecord, ntp, socket::nanoseconds};
use nix::{
    errno::Errno,
    sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns},
};
use plimsoll_classify::{Flags, Kind, WINDOW, classify};
use plimsoll_core::wire::{
    ntp::{HEADER_LEN, find},
    word::{Direction, Word},
};
use plimsoll_port::{namespace::Namespace, netlink::Netlink, packet};
use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};
use std::{
    collections::HashMap,
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

/// Octets of a frame that are read; of an answer with fields of NTS the marking field is not among them, for there is
/// none.
const BUFFER: usize = 512;
/// Room for a stamp.
const CONTROL: usize = 64;

/// Taps on a client's and a server's interface that see what a [`Meter`](super::Meter) asks and is answered.
#[derive(Debug)]
pub struct Tap {
    ends: [End; 2],
    seen: Seen,
}

#[derive(Debug)]
struct End {
    interface: String,
    socket: OwnedFd,
    identity: PortIdentity,
}

/// What passed so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Requests as they left the client, until their answers come: its transmit timestamp, when.
    asked: Option<(Id, u64)>,
    /// Packets at the server's end: requests that came, answers that left.
    at_server: HashMap<Id, (u64, Marks)>,
    /// One for every answer that came to the client, in order.
    pub exchanges: Vec<Option<Exchange>>,
}

/// Which packet: transmit and origin timestamp, both drawn at random by chronyd, and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    request: bool,
    transmit: u64,
    origin: u64,
}

/// What a packet had gathered when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The count in its marking field; 0 without one.
    pub count: u32,
    /// Whether a switch marked it CE.
    pub congested: bool,
}

/// A request and its answer by the wire's times, CLOCK_REALTIME in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the request left the client.
    pub asked: u64,
    /// When it came to the server, and with what.
    pub received: (u64, Marks),
    /// When the answer left the server.
    pub answered: u64,
    /// When it came to the client, and with what.
    pub returned: (u64, Marks),
}

impl Tap {
    /// Taps both ends.
    ///
    /// # Errors
    /// [`ClockError`] where an interface or socket is not to be had.
    pub fn open(client: (&Namespace, &str), server: (&Namespace, &str)) -> Result<Self, ClockError> {
        Ok(Self { ends: [End::open(client)?, End::open(server)?], seen: Seen::default() })
    }

    /// Waits for packets, `patience` at longest, and takes those that are there.
    ///
    /// # Errors
    /// [`ClockError::Call`] where an interface goes away.
    pub fn take(&mut self, patience: Duration) -> Result<(), ClockError> {
        let span =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut sockets = self.ends.each_ref().map(|end| PollFd::new(&end.socket, PollFlags::IN));
        if let Err(error) = poll(&mut sockets, Some(&span))
            && error != rustix::io::Errno::INTR
        {
            return Err(self.ends[0].failed("poll", error.into()));
        }
        // The client's end is read first and looked at last: what has come back there has passed at the server.
        let [client, server] = &self.ends;
        let mut came = Vec::new();
        while let Some(frame) = client.read()? {
            came.push(frame);
        }
        while let Some((frame, at)) = server.read()? {
            self.seen.at_server(&frame, at);
        }
        for (frame, at) in came {
            self.seen.at_client(&frame, at);
        }
        Ok(())
    }

    /// What passed, once the daemons have ended.
    ///
    /// # Errors
    /// As [`Tap::take`].
    pub fn finish(mut self) -> Result<Vec<Option<Exchange>>, ClockError> {
        self.take(Duration::ZERO)?;
        Ok(self.seen.exchanges)
    }

    /// The identities that records of the server and the client carry here.
    pub fn identities(&self) -> (PortIdentity, PortIdentity) {
        (self.ends[1].identity, self.ends[0].identity)
    }
}

impl End {
    fn open((namespace, interface): (&Namespace, &str)) -> Result<Self, ClockError> {
        let link = Netlink::open_in(namespace)?.link(interface)?;
        let open = || {
            let socket = packet::tap(link.index, ntp::PORT)?;
            setsockopt(&socket, ReceiveTimestampns, &true)?;
            io::Result::Ok(socket)
        };
        let identity = PortIdentity::from_mac(link.mac.unwrap_or_default());
        let remedy = "run as root, or with CAP_NET_RAW and CAP_SYS_ADMIN";
        let fail = |source| ClockError::Call { interface: interface.to_owned(), call: "tap", remedy, source };
        let socket =
            namespace.run_in(open).map_err(|e| fail(io::Error::other(e.to_string())))?.map_err(fail)?;
        Ok(Self { interface: interface.to_owned(), socket, identity })
    }

    /// A frame that is there, and when the kernel stamped it.
    fn read(&self) -> Result<Option<(Vec<u8>, u64)>, ClockError> {
        let (mut octets, mut control) = (vec![0; BUFFER], vec![0; CONTROL]);
        loop {
            let mut parts = [IoSliceMut::new(&mut octets)];
            let received = recvmsg::<()>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            let (length, at) = match received {
                Ok(message) => {
                    let at = message.cmsgs().into_iter().flatten().find_map(|part| match part {
                        ControlMessageOwned::ScmTimestampns(stamp) => nanoseconds(stamp),
                        _ => None,
                    });
                    (message.bytes, at)
                }
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(self.failed("recvmsg", error.into())),
            };
            if let Some(at) = at {
                octets.truncate(length);
                return Ok(Some((octets, at)));
            }
        }
    }

    fn failed(&self, call: &'static str, source: io::Error) -> ClockError {
        ClockError::Call { interface: self.interface.clone(), call, remedy: "check the interface", source }
    }
}

impl Seen {
    fn at_client(&mut self, frame: &[u8], at: u64) {
        match read(frame) {
            Some((id, _)) if id.request => self.asked = Some((id, at)),
            Some((id, marks)) => {
                // chronyd has one request on its way at most; a second answer to it finds none.
                let asked = self.asked.take();
                let exchange = asked.and_then(|(asked, sent)| {
                    let (came, requested) = self.at_server.remove(&asked)?;
                    let (left, _) = self.at_server.remove(&id)?;
                    Some(Exchange {
                        asked: sent,
                        received: (came, requested),
                        answered: left,
                        returned: (at, marks),
                    })
                });
                self.exchanges.push(exchange);
                // Of older requests no answer counts any more: those were lost.
                if let Some((_, sent)) = asked {
                    self.at_server.retain(|_, (passed, _)| *passed >= sent);
                }
            }
            None => {}
        }
    }

    fn at_server(&mut self, frame: &[u8], at: u64) {
        if let Some((id, marks)) = read(frame) {
            self.at_server.insert(id, (at, marks));
        }
    }
}

/// Which packet of a meter's a frame is, and its marks.
fn read(frame: &[u8]) -> Option<(Id, Marks)> {
    let mut window = [0; WINDOW];
    let seen = frame.len().min(WINDOW);
    window[..seen].copy_from_slice(&frame[..seen]);
    let class = classify(&window, frame.len() as u32);
    let (l3, l4) = (usize::from(class.l3), usize::from(class.l4));
    let request = match class.kind {
        Kind::NtpRequest => true,
        Kind::NtpResponse => false,
        _ => return None,
    };
    let ports = frame.get(l4..l4 + 4)?;
    let client = if request { &ports[..2] } else { &ports[2..] };
    if client != METER_PORT.to_be_bytes() {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([*frame.get(l4 + 4)?, *frame.get(l4 + 5)?]));
    let message = frame.get(usize::from(class.payload)..)?;
    let message = message.get(..length.saturating_sub(8)).unwrap_or(message);
    let header = message.get(..HEADER_LEN)?;
    let number =
        |from: usize| header[from..from + 8].iter().fold(0, |n: u64, &octet| n << 8 | u64::from(octet));
    let direction = if request { Direction::Forward } else { Direction::Reverse };
    let count = find(message).ok().and_then(|(at, ..)| {
        let word = message.get(at..at + 4)?.iter().fold(0, |n: u32, &octet| n << 8 | u32::from(octet));
        Word::decode(word).ok().map(|word| word.count(direction))
    });
    let ecn = match class.flags {
        flags if flags.has(Flags::IPV4) => *frame.get(l3 + 1)?,
        _ => *frame.get(l3 + 1)? >> 4,
    };
    let marks = Marks { count: count.unwrap_or(0), congested: ecn & 3 == 3 };
    Some((Id { request, transmit: number(40), origin: number(24) }, marks))
}

impl Exchange {
    /// The two messages as records, with the marks that count: those in the field, or CE as one.
    pub(crate) fn records(
        &self,
        sequence: u16,
        (server, client): (PortIdentity, PortIdentity),
        by_ecn: bool,
    ) -> (SyncRecord, DelayRecord) {
        let count = |marks: Marks| if by_ecn { u32::from(marks.congested) } else { marks.count };
        let sync = SyncRecord {
            sequence,
            source: server,
            t1: self.answered,
            t2: self.returned.0,
            correction: 0,
            count: count(self.returned.1),
            converted_ns: 0.0,
        };
        let delay = DelayRecord {
            sequence,
            source: client,
            t3: self.asked,
            t4: self.received.0,
            correction: 0,
            count: count(self.received.1),
            count_in_correction: 0,
            converted_ns: 0.0,
        };
        (sync, delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// A frame of a meter's request or answer, with the marking field where `word` is given.
    fn frame(request: bool, ids: (u64, u64), word: Option<u32>, ecn: u8) -> Vec<u8> {
        let mut message = vec![0; HEADER_LEN];
        message[0] = 4 << 3 | if request { 3 } else { 4 };
        message[24..32].copy_from_slice(&ids.1.to_be_bytes());
        message[40..48].copy_from_slice(&ids.0.to_be_bytes());
        message.extend(word.map(plimsoll_core::wire::ntp::field).into_iter().flatten());
        let ports = if request { (METER_PORT, 123) } else { (123, METER_PORT) };
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(ports.0, ports.1)
            .write(&mut frame, &message)
            .unwrap();
        frame[15] |= ecn;
        frame
    }

    #[test]
    fn an_exchange_is_the_four_times_of_its_two_packets_and_their_marks() {
        let mut seen = Seen::default();
        seen.at_client(&frame(true, (7, 0), Some(0), 2), 100);
        seen.at_server(&frame(true, (7, 0), Some(0x4000_0003), 3), 150);
        seen.at_server(&frame(false, (9, 7), Some(0), 2), 160);
        seen.at_client(&frame(false, (9, 7), Some(0x4000_0005), 2), 230);
        // Answered by somebody whom the tap did not see.
        seen.at_client(&frame(true, (8, 9), None, 0), 300);
        seen.at_client(&frame(false, (11, 8), None, 0), 330);
        let marks = |count, congested| Marks { count, congested };
        let exchange = Exchange {
            asked: 100,
            received: (150, marks(3, true)),
            answered: 160,
            returned: (230, marks(5, false)),
        };
        assert_eq!(seen.exchanges, [Some(exchange), None]);
        let ids = (PortIdentity([1; 10]), PortIdentity([2; 10]));
        let (sync, delay) = exchange.records(4, ids, false);
        assert_eq!(
            (sync.t1, sync.t2, sync.count, delay.t3, delay.t4, delay.count),
            (160, 230, 5, 100, 150, 3)
        );
        let (sync, delay) = exchange.records(4, ids, true);
        assert_eq!((sync.count, delay.count), (0, 1));
    }

    #[test]
    fn what_was_lost_on_its_way_back_is_not_kept() {
        let mut seen = Seen::default();
        for number in 1..=50 {
            let at = number * 1000;
            seen.at_client(&frame(true, (number, 0), None, 0), at);
            seen.at_server(&frame(true, (number, 0), None, 0), at + 10);
            seen.at_server(&frame(false, (number + 100, number), None, 0), at + 20);
            // Every fifth answer arrives.
            if number % 5 == 0 {
                seen.at_client(&frame(false, (number + 100, number), None, 0), at + 30);
            }
        }
        assert_eq!((seen.exchanges.len(), seen.at_server.len()), (10, 0));
    }

    #[test]
    fn what_is_no_meter_s_is_left_out() {
        let mut other = frame(true, (7, 0), None, 0);
        other[34..36].copy_from_slice(&[0x80, 1]);
        assert_eq!(read(&other), None);
        assert_eq!(read(&[0; 60]), None);
        let whole = frame(false, (7, 0), None, 0);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
    }
}
