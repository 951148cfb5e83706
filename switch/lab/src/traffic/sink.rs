//! Receives a flow: what came, what is missing, and how long it took.

use super::{
    LatencySummary, SizeBounds, TrafficError,
    payload::{self, Header, flow_number},
    sequence::{Arrival, Sequence},
    source::histogram,
};
use nix::{
    errno::Errno,
    sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt},
    sys::time::TimeSpec,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::set_socket_recv_buffer_size_force,
    time::Timespec,
};
use serde::Serialize;
use std::{
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Socket buffer in octets: some 10 ms of 84-octet frames at 1 Gbit/s, by the kernel's accounting.
const BUFFER: usize = 32 << 20;
/// After `stop`, a sink goes on until nothing has come for this long.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// But not longer than this, should a stranger keep sending.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);
const SLOWEST_NS: u64 = 60_000_000_000;

/// One end of a flow: the one that receives.
#[derive(Debug)]
pub struct Sink {
    flow: String,
    address: SocketAddr,
    socket: UdpSocket,
}

/// What a sink received.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SinkReport {
    /// The flow's name.
    pub name: String,
    /// Packets, doubles left out.
    pub frames: u64,
    /// Their octets on the wire.
    pub wire_octets: u64,
    /// Packets missing below the highest number seen; those lost after it only the source knows.
    pub missing: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets of other flows, or too short to be ours.
    pub foreign: u64,
    /// Packets that found the socket's buffer full (SO_RXQ_OVFL).
    pub overflowed: u64,
    /// Bits per second on the wire between the first and the last packet; 0 with fewer than two.
    pub delivered_bps: f64,
    /// From the sender's call to the kernel's receive stamp.
    pub latency: LatencySummary,
}

impl Sink {
    /// Opens the receiving end of the flow called `flow` in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`TrafficError::Call`] where the system refuses the socket.
    pub fn open(flow: impl Into<String>, address: SocketAddr) -> Result<Self, TrafficError> {
        let flow = flow.into();
        let fail = |call, source| TrafficError::Call {
            flow: flow.clone(),
            address: address.to_string(),
            call,
            remedy: "check that the host has this address and no other flow has its port",
            source,
        };
        let socket = UdpSocket::bind(address).map_err(|e| fail("bind", e))?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .map_err(|e| fail("setsockopt SO_TIMESTAMPNS", e.into()))?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(|e| fail("setsockopt SO_RXQ_OVFL", e.into()))?;
        // Needs CAP_NET_ADMIN; without it the flow is received all the same, and overflows are counted.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
        Ok(Self { flow, address, socket })
    }

    /// The address it receives at; its port where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or(self.address)
    }

    /// Receives until `stop` is set and what was on its way has come.
    ///
    /// # Errors
    /// [`TrafficError::Call`] where the system refuses to receive.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<SinkReport, TrafficError> {
        let bounds = SizeBounds::new(self.address, 65_535);
        let number = flow_number(&self.flow);
        let mut sequence = Sequence::new();
        let mut latency = histogram(SLOWEST_NS);
        let mut control = nix::cmsg_space!(TimeSpec, u32);
        let mut report = SinkReport {
            name: self.flow.clone(),
            frames: 0,
            wire_octets: 0,
            missing: 0,
            reordered: 0,
            duplicates: 0,
            foreign: 0,
            overflowed: 0,
            delivered_bps: 0.0,
            latency: LatencySummary::default(),
        };
        let (mut first, mut last, mut first_octets) = (0, 0, 0);
        let mut stopping = None;
        loop {
            if stopping.is_none() && stop.load(Ordering::Relaxed) {
                stopping = Some(Instant::now());
            }
            if stopping.is_some_and(|since| since.elapsed() > LONGEST_DRAIN) {
                break;
            }
            let Some(packet) = self.receive(&mut control)? else {
                if !self.wait()? && stopping.is_some() {
                    break;
                }
                continue;
            };
            report.overflowed = packet.overflowed.map_or(report.overflowed, u64::from);
            let Some(header) = packet.header.filter(|header| header.flow == number) else {
                report.foreign += 1;
                continue;
            };
            match sequence.take(header.sequence) {
                Arrival::Next => {}
                Arrival::Reordered => report.reordered += 1,
                Arrival::Duplicate => {
                    report.duplicates += 1;
                    continue;
                }
            }
            let wire = u64::from(bounds.wire(packet.len));
            report.frames += 1;
            report.wire_octets += wire;
            if let Some(received) = packet.received {
                latency.saturating_record(received.saturating_sub(header.sent));
                last = received;
                if first == 0 {
                    (first, first_octets) = (received, wire);
                }
            }
        }
        if last > first {
            let octets = report.wire_octets - first_octets;
            report.delivered_bps = octets as f64 * 8e9 / (last - first) as f64;
        }
        report.missing = sequence.sent_at_least() - report.frames;
        report.latency = LatencySummary::of(&latency);
        Ok(report)
    }

    /// One packet, where one is there.
    fn receive(&self, control: &mut [u8]) -> Result<Option<Packet>, TrafficError> {
        let mut head = [0; payload::LEN];
        let mut parts = [IoSliceMut::new(&mut head)];
        // MSG_TRUNC: the length is the packet's, though only its head is copied.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let message = match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(self.failed("recvmsg", error.into())),
        };
        let (mut received, mut overflowed) = (None, None);
        for part in message.cmsgs().map_err(|e| self.failed("recvmsg control message", e.into()))? {
            match part {
                ControlMessageOwned::ScmTimestampns(at) => {
                    received = Some(at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64);
                }
                ControlMessageOwned::RxqOvfl(count) => overflowed = Some(count),
                _ => {}
            }
        }
        let len = message.bytes;
        let header = (len >= payload::LEN).then(|| Header::read(&head));
        Ok(Some(Packet { len, header, received, overflowed }))
    }

    /// Waits for a packet; false where none came.
    fn wait(&self) -> Result<bool, TrafficError> {
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, Some(&QUIET)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(self.failed("poll", error.into())),
        }
    }

    fn failed(&self, call: &'static str, source: io::Error) -> TrafficError {
        TrafficError::Call {
            flow: self.flow.clone(),
            address: self.address.to_string(),
            call,
            remedy: "check that the host's interface still exists",
            source,
        }
    }
}

struct Packet {
    /// Octets of UDP payload.
    len: usize,
    /// `None` where it is too short to be ours.
    header: Option<Header>,
    /// The kernel's stamp, CLOCK_REALTIME in nanoseconds.
    received: Option<u64>,
    /// Packets lost to a full buffer so far; absent while there were none.
    overflowed: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{FlowKind, FlowReport, FlowSpec, SizeDistribution, Source};
    use plimsoll_core::Rate;
    use std::thread;

    fn over_loopback(address: &str) -> FlowReport {
        let stop = AtomicBool::new(false);
        let stop_sink = AtomicBool::new(false);
        let mut sink = Sink::open("cross", address.parse().unwrap()).unwrap();
        let spec = FlowSpec {
            name: "cross".into(),
            kind: FlowKind::Poisson,
            rate: Rate(20_000_000),
            size: SizeDistribution::Exponential { mean_wire: 800.0 },
            seed: 3,
            mtu: 1500,
            dscp: 0,
            cycle: None,
        };
        let target = sink.address();
        // A stray of another flow and one too short to be any.
        let stray = UdpSocket::bind((target.ip(), 0)).unwrap();
        stray.send_to(&[0; 100], target).unwrap();
        stray.send_to(&[0; 3], target).unwrap();
        let mut source = Source::open(spec, target).unwrap();
        thread::scope(|s| {
            let received = s.spawn(|| sink.run(&stop_sink).unwrap());
            let sent = s.spawn(|| source.run(&stop).unwrap());
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            let sent = sent.join().unwrap();
            stop_sink.store(true, Ordering::Relaxed);
            let received = received.join().unwrap();
            assert_eq!(received.foreign, 2);
            assert_eq!(received.wire_octets, sent.wire_octets, "sizes add up on both sides");
            FlowReport::new(&sent, &received)
        })
    }

    #[test]
    fn a_flow_over_loopback_arrives_whole_and_is_counted_alike_at_both_ends() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let report = over_loopback(address);
            assert!(report.sent_frames > 0, "{report:?}");
            assert_eq!(report.received_frames, report.sent_frames, "{report:?}");
            assert_eq!((report.lost_frames, report.duplicate_frames, report.reordered_frames), (0, 0, 0));
            assert_eq!(report.latency.count, report.sent_frames);
            assert!(report.latency.max_ns < 10_000_000_000, "{report:?}");
        }
    }

    #[test]
    fn what_found_the_socket_full_is_told_apart() {
        let mut sink = Sink::open("late", "127.0.0.1:0".parse().unwrap()).unwrap();
        nix::sys::socket::setsockopt(&sink.socket, sockopt::RcvBuf, &20_000).unwrap();
        let target = sink.address();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut packet = [0; 100];
        for sequence in 0..1000 {
            Header { flow: flow_number("late"), sequence, sent: 0 }.write(&mut packet);
            socket.send_to(&packet, target).unwrap();
        }
        // The count of the lost ones comes with a packet that was not.
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let running = scope.spawn(|| sink.run(&stop).unwrap());
            thread::sleep(Duration::from_millis(200));
            Header { flow: flow_number("late"), sequence: 1000, sent: 0 }.write(&mut packet);
            socket.send_to(&packet, target).unwrap();
            stop.store(true, Ordering::Relaxed);
            let report = running.join().unwrap();
            assert_eq!(report.frames + report.overflowed, 1001, "{report:?}");
            assert!(report.overflowed > 500, "{report:?}");
            assert_eq!(report.missing, report.overflowed);
        });
    }
}
