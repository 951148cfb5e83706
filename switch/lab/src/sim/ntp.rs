//! An NTP client and server in virtual time, in basic mode: the packets carry times taken when they are handed to the
//! host's link, and the marking extension field in forward-reverse mode; or, standing in for chronyd where it
//! authenticates, no field, and marks by ECN.

use super::{net::Net, octets, ptp::within};
use crate::clock::{
    Asking, ClientCounters, ClockSample, MarkScale, PortIdentity, ServerReport, Transport, answer,
    ntp::{LEN, Mode, Packet},
};
use crate::topology::{Carrier, ClockPlan, HostPlan};
use plimsoll_core::{
    Nanos,
    wire::{
        ntp::{HEADER_LEN, field},
        word::Word,
    },
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{collections::HashMap, ops::RangeInclusive, time::Duration};

/// A client and the server that it asks.
#[derive(Debug)]
pub(super) struct NtpPair {
    number: u32,
    transport: Transport,
    interval: u64,
    /// Marks are CE, and packets have no field.
    by_ecn: bool,
    server: (u32, HostPlan),
    client: (u32, HostPlan),
    next_request: Nanos,
    interval_start: Nanos,
    random: ChaCha8Rng,
    asking: Asking,
    /// Whether requests that were answered, by their transmit timestamps, had come as CE: the server's host takes that
    /// into account where it arises, and tells nobody.
    congested: HashMap<u64, bool>,
}

impl NtpPair {
    pub(super) fn new(number: u32, plan: &ClockPlan, hosts: &[HostPlan]) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
        let end = |host: usize| (host as u32, hosts[host].clone());
        let identity = |host: usize| PortIdentity::from_mac(hosts[host].mac);
        let interval = Duration::from_nanos(plan.interval_ns);
        Self {
            number,
            transport: plan.transport,
            interval: plan.interval_ns,
            by_ecn: plan.carrier == Carrier::Ecn,
            server: end(plan.server),
            client: end(plan.client),
            next_request: Nanos(within(plan.interval_ns, &mut random)),
            interval_start: Nanos(0),
            random,
            asking: Asking::new(identity(plan.client), identity(plan.server), interval),
            congested: HashMap::new(),
        }
    }

    /// When the client asks next.
    pub(super) const fn due(&self) -> Nanos {
        self.next_request
    }

    /// Asks, at a random instant of every interval.
    pub(super) fn speak(&mut self, now: Nanos, net: &mut Net) {
        self.interval_start = self.interval_start + self.interval;
        self.next_request = self.interval_start + within(self.interval, &mut self.random);
        let request = self.asking.request(now.0);
        let sent = self.say(&self.client, &self.server.1, &request, now, net);
        // Basic mode: by the time at which it is handed to the host's link.
        self.asking.asked(&request, sent.map(|_| now.0));
    }

    /// A packet of this pair arrived at a host, with these ECN bits.
    pub(super) fn receive(&mut self, host: u32, packet: &[u8], ecn: u8, now: Nanos, net: &mut Net) {
        let ce = ecn == 3;
        let Some(packet) = self.read(packet) else { return self.asking.take(None, Some(now.0)) };
        match packet.mode {
            Mode::Client if host == self.server.0 => {
                if self.by_ecn {
                    self.congested.insert(packet.transmit_ns, ce);
                }
                let response = answer(&packet, now.0, now.0, &mut ServerReport::default());
                self.say(&self.server, &self.client.1, &response, now, net);
            }
            Mode::Server if host == self.client.0 => {
                let word = match self.congested.remove(&packet.origin_ns) {
                    Some(asked_ce) => {
                        Word::IntegerBoth { forward: u16::from(asked_ce), reverse: u16::from(ce) }.encode()
                    }
                    None => packet.word,
                };
                self.asking.take(Some(&Packet { word, ..packet }), Some(now.0));
            }
            // Flooded to somebody else.
            Mode::Client | Mode::Server => {}
        }
    }

    fn read(&self, packet: &[u8]) -> Option<Packet> {
        if self.by_ecn {
            return Packet::decode(&[packet.get(..HEADER_LEN)?, &field(0)].concat());
        }
        Packet::decode(packet.get(..LEN)?)
    }

    fn say(
        &self,
        from: &(u32, HostPlan),
        to: &HostPlan,
        packet: &Packet,
        now: Nanos,
        net: &mut Net,
    ) -> Option<Nanos> {
        let octets = packet.encode();
        let octets = if self.by_ecn { &octets[..HEADER_LEN] } else { &octets[..] };
        let (frame, info) = octets::ntp(&from.1, to, self.transport, octets);
        net.send_message(from.0, self.number, &frame, info, now)
    }

    /// The exchanges that began within `window`, and all that the client saw.
    pub(super) fn finish(
        &mut self,
        window: &RangeInclusive<u64>,
        scale: MarkScale,
    ) -> (Vec<ClockSample>, ClientCounters) {
        let mut seen = self.asking.finish();
        seen.exchanges.retain(|(_, request)| window.contains(&request.t3));
        (seen.samples(scale), seen.counters)
    }
}
