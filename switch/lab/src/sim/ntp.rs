//! An NTP client and server in virtual time, in basic mode: the packets carry times taken when they are handed to the
//! host's link, and the marking extension field in forward-reverse mode.

use super::{net::Net, octets, ptp::within};
use crate::clock::{
    ClientCounters, ClockSample, DelayRecord, MarkScale, PortIdentity, SyncRecord, Transport,
    ntp::{LEN, Mode, Packet, poll},
};
use crate::topology::{ClockPlan, HostPlan};
use plimsoll_core::{
    Nanos,
    wire::word::{Direction, Word},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{collections::VecDeque, ops::RangeInclusive, time::Duration};

/// The word of a request: forward-reverse, nothing counted yet.
const BOTH: Word = Word::IntegerBoth { forward: 0, reverse: 0 };
/// Requests that wait for their answers; older ones are given up.
const PENDING: usize = 1024;

/// A client and the server that it asks.
#[derive(Debug)]
pub(super) struct NtpPair {
    number: u32,
    transport: Transport,
    interval: Duration,
    server: (u32, HostPlan),
    client: (u32, HostPlan),
    next_request: Nanos,
    interval_start: Nanos,
    random: ChaCha8Rng,
    /// Transmit timestamps of requests on their way.
    asked: VecDeque<u64>,
    exchanges: Vec<(SyncRecord, DelayRecord)>,
    counters: ClientCounters,
}

impl NtpPair {
    pub(super) fn new(number: u32, plan: &ClockPlan, hosts: &[HostPlan]) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
        let end = |host: usize| (host as u32, hosts[host].clone());
        Self {
            number,
            transport: plan.transport,
            interval: Duration::from_nanos(plan.interval_ns),
            server: end(plan.server),
            client: end(plan.client),
            next_request: Nanos(within(plan.interval_ns, &mut random)),
            interval_start: Nanos(0),
            random,
            asked: VecDeque::new(),
            exchanges: Vec::new(),
            counters: ClientCounters::default(),
        }
    }

    /// When the client asks next.
    pub(super) const fn due(&self) -> Nanos {
        self.next_request
    }

    /// Asks, at a random instant of every interval.
    pub(super) fn speak(&mut self, now: Nanos, net: &mut Net) {
        let interval = self.interval.as_nanos() as u64;
        self.interval_start = self.interval_start + interval;
        self.next_request = self.interval_start + within(interval, &mut self.random);
        let request = Packet {
            mode: Mode::Client,
            origin_ns: 0,
            receive_ns: 0,
            transmit_ns: now.0,
            poll: poll(self.interval),
            word: BOTH.encode(),
        };
        if self.say(&self.client, &self.server.1, &request, now, net).is_none() {
            self.counters.requests_without_stamp += 1;
            return;
        }
        self.asked.push_back(now.0);
        if self.asked.len() > PENDING {
            self.asked.pop_front();
            self.counters.unanswered_requests += 1;
        }
    }

    /// A packet of this pair arrived at a host.
    pub(super) fn receive(&mut self, host: u32, packet: &[u8], now: Nanos, net: &mut Net) {
        let Some(packet) = packet.get(..LEN).and_then(Packet::decode) else {
            self.counters.ignored += 1;
            return;
        };
        match packet.mode {
            Mode::Client if host == self.server.0 => self.answer(&packet, now, net),
            Mode::Server if host == self.client.0 => self.answered(&packet, now),
            // Flooded to somebody else.
            Mode::Client | Mode::Server => {}
        }
    }

    fn answer(&self, request: &Packet, now: Nanos, net: &mut Net) {
        // The request's count goes back in the forward half; a word of no valid mode goes back as it is.
        let word = match Word::decode(request.word) {
            Ok(Word::ShiftBoth { forward, .. }) => Word::ShiftBoth { forward, reverse: 0 }.encode(),
            Ok(word) => BOTH.with_count(Direction::Forward, word.count(Direction::Forward)).encode(),
            Err(_) => request.word,
        };
        let response = Packet {
            mode: Mode::Server,
            origin_ns: request.transmit_ns,
            receive_ns: now.0,
            transmit_ns: now.0,
            poll: request.poll,
            word,
        };
        self.say(&self.server, &self.client.1, &response, now, net);
    }

    fn answered(&mut self, response: &Packet, now: Nanos) {
        let place = self.asked.iter().rposition(|&sent| sent == response.origin_ns);
        let Some(t1) = place.and_then(|place| self.asked.remove(place)) else {
            self.counters.ignored += 1;
            return;
        };
        let word = Word::decode(response.word).unwrap_or_else(|_| {
            self.counters.invalid_words += 1;
            BOTH
        });
        let sequence = self.exchanges.len() as u16;
        let source = |host: &HostPlan| PortIdentity::from_mac(host.mac);
        self.exchanges.push((
            SyncRecord {
                sequence,
                source: source(&self.server.1),
                t1: response.transmit_ns,
                t2: now.0,
                correction: 0,
                count: word.count(Direction::Reverse),
                converted_ns: 0.0,
            },
            DelayRecord {
                sequence,
                source: source(&self.client.1),
                t3: t1,
                t4: response.receive_ns,
                correction: 0,
                count: word.count(Direction::Forward),
                count_in_correction: 0,
                converted_ns: 0.0,
            },
        ));
    }

    fn say(
        &self,
        from: &(u32, HostPlan),
        to: &HostPlan,
        packet: &Packet,
        now: Nanos,
        net: &mut Net,
    ) -> Option<Nanos> {
        let (frame, info) = octets::ntp(&from.1, to, self.transport, &packet.encode());
        net.send_message(from.0, self.number, &frame, info, now)
    }

    /// The exchanges that began within `window`, and all that the client saw.
    pub(super) fn finish(
        &mut self,
        window: &RangeInclusive<u64>,
        scale: MarkScale,
    ) -> (Vec<ClockSample>, ClientCounters) {
        self.counters.unanswered_requests += self.asked.len() as u64;
        self.exchanges.retain(|(_, request)| window.contains(&request.t3));
        let samples =
            self.exchanges.iter().map(|(sync, delay)| ClockSample::new(sync, delay, scale)).collect();
        (samples, self.counters)
    }
}
