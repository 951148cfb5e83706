//! A switch or a Linux bridge in virtual time: the core, and where its ports lead.

use super::{
    frames::{Frames, Owner, is_heard},
    line::End,
    net::Net,
    truth::Truth,
};
use crate::sim::{agenda::NEVER, flow::Flow};
use plimsoll_core::{
    Departure, Discard, Egress, FrameId, Nanos, Pool, PortId, Switch, lateness,
    wire::{event::Correction, identity::TimeMessage},
};
use plimsoll_port::worker::{HEADER_OCTETS, Record, Release, ReleaseAt};

/// A switch at work.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) core: Switch,
    pub(super) out: Out,
    /// The line that each port sends into, and its propagation delay in ns.
    pub(super) ports: Vec<(u32, u64)>,
    pub(super) release: ReleaseAt,
    /// Pipeline latency L in ns.
    pub(super) latency: u64,
    /// Its number in records; a Linux bridge has none.
    pub(super) number: Option<u16>,
    /// Its source of events.
    pub(super) source: u32,
}

/// What the core told in one call.
#[derive(Debug, Default)]
pub(super) struct Out {
    departed: Vec<Departure>,
    lost: Vec<Discard>,
}

impl Egress for Out {
    #[inline]
    fn depart(&mut self, departure: &Departure) {
        self.departed.push(*departure);
    }

    fn discard(&mut self, discard: Discard) {
        self.lost.push(discard);
    }
}

impl Node {
    /// A frame arrives by `port`.
    #[inline]
    pub(super) fn receive(&mut self, port: PortId, frame: FrameId, now: Nanos, frames: &mut Frames) {
        let info = frames.facts(frame).info;
        self.core.receive(port, frame, &info, now, frames, &mut self.out);
    }

    /// Its links run up to now.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos) {
        self.core.advance(now, &mut self.out);
    }

    /// Sends what has departed on its way; a flow's frame whose next stop is a host is there already, since nothing that
    /// happens until then can change that.
    #[inline]
    pub(super) fn settle(&mut self, net: &mut Net, flows: &mut [Flow], truth: &mut Truth<'_>) {
        for discard in self.out.lost.drain(..) {
            if let Some(number) = self.number {
                truth.take(&Record { switch: number, ..Record::discard(&discard) }, &[]);
            }
        }
        for departure in self.out.departed.drain(..) {
            let (line, delay) = self.ports[departure.port.index()];
            let ideal = match self.release {
                ReleaseAt::End => departure.end,
                ReleaseAt::Start => departure.start + delay,
            };
            let (frame, at) = (departure.frame, ideal + self.latency);
            let sync = departure.info.kind.is_sync();
            let mut release = Release { released: at, ..Release::default() };
            if departure.transparent {
                // One that has no field to correct (NTP) leaves as it is.
                let residence = (at - delay).since(departure.arrived) as i64;
                let told = lateness::correct(net.frames.bytes_mut(frame), &departure.info, residence);
                release.corrected = matches!(told, Ok(Correction::Added | Correction::Saturated));
                release.residence_ns = release.corrected.then_some(residence);
            }
            if let Some(number) = self.number {
                let message =
                    if sync { TimeMessage::of(net.frames.bytes(frame), &departure.info) } else { None };
                let record = Record::sent(&departure, &release, message);
                // Whoever records gets what the worker would have kept: a time message whole, of others the headers.
                let octets = net.frames.bytes(frame);
                let octets = if sync { octets } else { &octets[..octets.len().min(HEADER_OCTETS)] };
                truth.take(&Record { switch: number, ..record }, octets);
            }
            if departure.info != net.frames.facts(frame).info {
                net.frames.retag(frame, &departure.info);
            }
            let facts = net.frames.facts(frame);
            match (net.lines[line as usize].to, facts.owner) {
                (End::Host(host), Owner::Flow(flow)) => {
                    let flow = &mut flows[flow as usize];
                    if flow.to == host && is_heard(&departure.info) {
                        flow.receive(facts.sequence, facts.sent, facts.len, at);
                    }
                    net.frames.free(frame);
                }
                _ => net.put(line, at, frame),
            }
        }
        net.agenda.set(self.source, self.core.next_decision().unwrap_or(NEVER));
    }
}
