//! The loop: takes the next event, lets it happen, and notes what follows from it.

use super::{
    agenda::NEVER,
    flow::Flow,
    frames::{Facts, Owner, is_heard},
    line::End,
    net::Net,
    node::Node,
    ntp::NtpPair,
    ptp::PtpPair,
    truth::Truth,
};
use crate::clock::Transport;
use plimsoll_classify::{Class, Flags, Kind};
use plimsoll_core::{FrameId, Nanos, Pool};
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two looks at the stop flag and the progress.
const LOOK: u64 = 1 << 16;

/// Whose an event is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A frame arrives.
    Line(u32),
    /// A switch's link becomes free.
    Node(u32),
    /// A frame is due.
    Flow(u32),
    /// A clock's timer runs out.
    Clock(u32),
}

/// A clock pair.
#[derive(Debug)]
pub(super) enum Clock {
    Ptp(Box<PtpPair>),
    Ntp(Box<NtpPair>),
}

impl Clock {
    fn due(&self) -> Nanos {
        match self {
            Self::Ptp(pair) => pair.due(),
            Self::Ntp(pair) => pair.due(),
        }
    }
}

/// A network in virtual time.
#[derive(Debug)]
pub(super) struct World {
    pub(super) net: Net,
    nodes: Vec<Node>,
    pub(super) flows: Vec<Flow>,
    pub(super) clocks: Vec<Clock>,
    sources: Vec<Source>,
    /// The clocks with an end on each host.
    listeners: Vec<Vec<usize>>,
    /// Events so far.
    pub(super) events: u64,
    heard: Vec<u8>,
}

impl World {
    pub(super) fn new(
        mut net: Net,
        nodes: Vec<Node>,
        flows: Vec<(u32, Flow)>,
        clocks: Vec<(u32, Clock)>,
        sources: Vec<Source>,
        listeners: Vec<Vec<usize>>,
    ) -> Self {
        for (source, flow) in &flows {
            net.agenda.set(*source, flow.due());
        }
        for (source, clock) in &clocks {
            net.agenda.set(*source, clock.due());
        }
        let flows = flows.into_iter().map(|(_, flow)| flow).collect();
        let clocks = clocks.into_iter().map(|(_, clock)| clock).collect();
        Self { net, nodes, flows, clocks, sources, listeners, events: 0, heard: Vec::new() }
    }

    /// Lets everybody send until `until`, then lets what is on its way arrive. Returns when sending ended: earlier where
    /// `stop` was set.
    pub(super) fn run(
        &mut self,
        until: Nanos,
        truth: &mut Truth<'_>,
        stop: &AtomicBool,
        mut tell: impl FnMut(Nanos),
    ) -> Nanos {
        let mut ended = None;
        loop {
            let (now, source) = self.net.agenda.first();
            if ended.is_none() && now >= until {
                ended = Some(until);
                self.silence();
                continue;
            }
            if now == NEVER {
                return ended.unwrap_or(until);
            }
            self.events += 1;
            if self.events.is_multiple_of(LOOK) && ended.is_none() {
                tell(now);
                if stop.load(Ordering::Relaxed) {
                    ended = Some(now);
                    truth.cut(now.0);
                    self.silence();
                    continue;
                }
            }
            match self.sources[source as usize] {
                Source::Line(line) => self.arrive(line, now, truth),
                Source::Node(node) => {
                    let node = &mut self.nodes[node as usize];
                    node.advance(now);
                    node.settle(&mut self.net, &mut self.flows, truth);
                }
                Source::Flow(number) => {
                    let flow = &mut self.flows[number as usize];
                    let (len, sequence) = flow.send();
                    self.net.agenda.set(source, flow.due());
                    let info = flow.headers.info;
                    let facts = Facts { owner: Owner::Flow(number), len, info, sequence, sent: now };
                    self.net.send(flow.from, flow.headers.of(len), facts, now);
                }
                Source::Clock(number) => {
                    let clock = &mut self.clocks[number as usize];
                    match clock {
                        Clock::Ptp(pair) => pair.speak(now, &mut self.net),
                        Clock::Ntp(pair) => pair.speak(now, &mut self.net),
                    }
                    self.net.agenda.set(source, clock.due());
                }
            }
        }
    }

    /// No flow and no clock begins anything from now on.
    fn silence(&mut self) {
        for (number, source) in self.sources.iter().enumerate() {
            if matches!(source, Source::Flow(_) | Source::Clock(_)) {
                self.net.agenda.set(number as u32, NEVER);
            }
        }
    }

    #[inline]
    fn arrive(&mut self, line: u32, now: Nanos, truth: &mut Truth<'_>) {
        match self.net.arrive(line) {
            Some((End::Switch(node, port), frame)) => {
                let node = &mut self.nodes[node as usize];
                node.receive(port, frame, now, &mut self.net.frames);
                node.settle(&mut self.net, &mut self.flows, truth);
            }
            Some((End::Host(host), frame)) => self.hear(host, frame, now),
            None => {}
        }
    }

    /// A frame arrives at a host: on a link without a switch, or with a time message, which whoever listens there gets.
    fn hear(&mut self, host: u32, frame: FrameId, now: Nanos) {
        let facts = *self.net.frames.facts(frame);
        if !is_heard(&facts.info) {
            return self.net.frames.free(frame);
        }
        let clock = match facts.owner {
            Owner::Flow(flow) => {
                let flow = &mut self.flows[flow as usize];
                if flow.to == host {
                    flow.receive(facts.sequence, facts.sent, facts.len, now);
                }
                return self.net.frames.free(frame);
            }
            Owner::Clock(clock) => clock as usize,
        };
        let ecn = ecn_of(self.net.frames.bytes(frame), &facts.info);
        let mut heard = std::mem::take(&mut self.heard);
        heard.clear();
        heard.extend_from_slice(
            self.net.frames.bytes(frame).get(usize::from(facts.info.payload)..).unwrap_or_default(),
        );
        self.net.frames.free(frame);
        if matches!(facts.info.kind, Kind::NtpRequest | Kind::NtpResponse) {
            if let Clock::Ntp(pair) = &mut self.clocks[clock] {
                pair.receive(host, &heard, ecn, now, &mut self.net);
            }
        } else {
            let over = match facts.info.flags {
                flags if !flags.has(Flags::UDP) => Transport::L2,
                flags if flags.has(Flags::IPV6) => Transport::UdpV6,
                _ => Transport::UdpV4,
            };
            for &clock in &self.listeners[host as usize] {
                if let Clock::Ptp(pair) = &mut self.clocks[clock]
                    && pair.hears(over)
                {
                    pair.receive(host, &heard, now, &mut self.net);
                }
            }
        }
        self.heard = heard;
    }
}

/// The ECN bits of an IP packet (RFC 3168); 0 of others.
fn ecn_of(frame: &[u8], info: &Class) -> u8 {
    let octet = frame.get(usize::from(info.l3) + 1).copied().unwrap_or(0);
    match info.flags {
        flags if flags.has(Flags::IPV4) => octet & 3,
        flags if flags.has(Flags::IPV6) => octet >> 4 & 3,
        _ => 0,
    }
}
