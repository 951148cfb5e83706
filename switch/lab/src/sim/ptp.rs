//! A PTP clock pair in virtual time: the built-in clock's own server and client, with the simulator's links in place of
//! sockets. Event messages are stamped when their first bit leaves the host and when their last bit has arrived.

use super::{net::Net, octets};
use crate::clock::{
    ANNOUNCE_INTERVAL, Measuring, PortIdentity, Recording, Serving, Transport, message::Message,
};
use crate::topology::{ClockPlan, HostPlan};
use plimsoll_core::Nanos;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// grandmasterPriority1 and 2 of a default server.
const PRIORITY: u8 = 128;

/// One end, as a sender.
#[derive(Debug)]
struct Speaker {
    host: HostPlan,
    /// The host's number, and the pair's among the clocks.
    number: u32,
    clock: u32,
    transport: Transport,
}

impl Speaker {
    /// Sends a message; when its first bit leaves, where there is room for it.
    fn say(&self, event: bool, message: &Message, now: Nanos, net: &mut Net) -> Option<u64> {
        let (frame, info) = {
            let peers = message.body.is_peer_delay();
            octets::ptp(&self.host, self.transport, event, peers, &message.encode())
        };
        net.send_message(self.number, self.clock, &frame, info, now).map(|start| start.0)
    }
}

/// A server and a client.
#[derive(Debug)]
pub(super) struct PtpPair {
    interval: u64,
    server: Speaker,
    client: Speaker,
    serving: Serving,
    measuring: Measuring,
    next_sync: Nanos,
    next_announce: Nanos,
    next_request: Nanos,
    /// When the interval of the next Delay_Req began.
    interval_start: Nanos,
    random: ChaCha8Rng,
}

impl PtpPair {
    pub(super) fn new(number: u32, plan: &ClockPlan, hosts: &[HostPlan]) -> Self {
        let speaker = |host: usize| Speaker {
            host: hosts[host].clone(),
            number: host as u32,
            clock: number,
            transport: plan.transport,
        };
        let (server, client) = (speaker(plan.server), speaker(plan.client));
        let interval = Duration::from_nanos(plan.interval_ns);
        let identity = |speaker: &Speaker| PortIdentity::from_mac(speaker.host.mac);
        let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
        let phase = |random: &mut ChaCha8Rng| Nanos(within(plan.interval_ns, random));
        // A phase of its own, so that the pairs of one host do not speak at one instant.
        let (next_sync, next_request) = (phase(&mut random), phase(&mut random));
        Self {
            interval: plan.interval_ns,
            serving: Serving::new(identity(&server), plan.domain, interval, PRIORITY, None),
            measuring: Measuring::new(identity(&client), plan.domain, interval, plan.delay),
            server,
            client,
            next_sync,
            next_announce: next_sync,
            next_request,
            interval_start: Nanos(0),
            random,
        }
    }

    /// When one of its timers runs out next.
    pub(super) fn due(&self) -> Nanos {
        self.next_sync.min(self.next_announce).min(self.next_request)
    }

    /// Says what is due.
    pub(super) fn speak(&mut self, now: Nanos, net: &mut Net) {
        if self.next_announce <= now {
            self.next_announce = now + ANNOUNCE_INTERVAL.as_nanos() as u64;
            self.server.say(false, &self.serving.announce(), now, net);
        }
        if self.next_sync <= now {
            self.next_sync = self.next_sync + self.interval;
            let sync = self.serving.sync(now.0);
            let sent = self.server.say(true, &sync, now, net);
            if let Some(follow_up) = self.serving.follow_up(&sync, sent) {
                self.server.say(false, &follow_up, now, net);
            }
        }
        if self.next_request <= now {
            self.interval_start = self.interval_start + self.interval;
            self.next_request = self.interval_start + within(self.interval, &mut self.random);
            if let Some(request) = self.measuring.request() {
                let sent = self.client.say(true, &request, now, net);
                self.measuring.asked(request.sequence, sent, Duration::from_nanos(now.0));
            }
        }
    }

    /// Whether it listens to messages over this.
    pub(super) fn hears(&self, transport: Transport) -> bool {
        transport == self.server.transport
    }

    /// A message arrived at a host; all that listen there get it.
    pub(super) fn receive(&mut self, host: u32, message: &[u8], now: Nanos, net: &mut Net) {
        let message = Message::decode(message);
        if host == self.client.number {
            self.measuring.take(message, Some(now.0), Duration::from_nanos(now.0));
        }
        if host == self.server.number
            && let Ok(message) = message
        {
            if let Some(response) = self.serving.peer_answer(&message, Some(now.0)) {
                let sent = self.server.say(true, &response, now, net);
                if let Some(follow_up) = self.serving.peer_follow_up(&message, sent) {
                    self.server.say(false, &follow_up, now, net);
                }
            } else if let Some(response) = self.serving.answer(&message, Some(now.0)) {
                self.server.say(false, &response, now, net);
            }
        }
    }

    /// What the client saw.
    pub(super) fn finish(&mut self) -> Recording {
        self.measuring.finish()
    }
}

/// A random instant within an interval of so many nanoseconds.
pub(super) fn within(interval: u64, random: &mut ChaCha8Rng) -> u64 {
    (interval as f64 * random.random::<f64>()) as u64
}
