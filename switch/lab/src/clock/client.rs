//! The side that measures: it listens to Sync and Follow_Up, asks with Delay_Req or Pdelay_Req, and writes down what it
//! saw.

use super::{
    ClockError, DEFAULT_INTERVAL, DelayMechanism, PortIdentity, Recording, Stamps, Transport,
    measuring::Measuring, socket::Sockets,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Longest wait before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConfig {
    /// The interface.
    pub interface: String,
    /// What carries the messages.
    pub transport: Transport,
    /// Who stamps the messages.
    pub stamps: Stamps,
    /// domainNumber.
    pub domain: u8,
    /// How it measures the delay of the path.
    pub delay: DelayMechanism,
    /// Mean time between Delay_Reqs.
    pub interval: Duration,
    /// Seed of the instants within each interval.
    pub seed: u64,
}

impl ClientConfig {
    /// The defaults: domain 0, end to end, 64 Delay_Reqs a second.
    pub fn new(interface: impl Into<String>, transport: Transport) -> Self {
        Self {
            interface: interface.into(),
            transport,
            stamps: Stamps::Software,
            domain: 0,
            delay: DelayMechanism::E2e,
            interval: DEFAULT_INTERVAL,
            seed: 1,
        }
    }
}

/// A client on its interface.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    sockets: Sockets,
    measuring: Measuring,
    opened: Instant,
}

impl Client {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or a socket is not to be had.
    pub fn open(config: ClientConfig) -> Result<Self, ClockError> {
        let sockets = Sockets::open(&config.interface, config.transport, config.stamps)?;
        let measuring = Measuring::new(sockets.identity(), config.domain, config.interval, config.delay);
        Ok(Self { config, sockets, measuring, opened: Instant::now() })
    }

    /// Measures until `stop` is set, and hands over what it saw. It asks once it has heard a server, at a random
    /// instant of every interval, so that its requests keep no step with anything.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Recording, ClockError> {
        let mut asks = Asks::new(self.config.interval, self.config.seed);
        while !stop.load(Ordering::Relaxed) {
            if asks.due() {
                self.ask()?;
            }
            while let Some(received) = self.sockets.receive()? {
                self.measuring.take(received.message, received.at, self.opened.elapsed());
            }
            self.sockets.wait(asks.patience().min(NAP))?;
        }
        Ok(self.measuring.finish())
    }

    /// The identity that its messages carry.
    pub const fn identity(&self) -> PortIdentity {
        self.measuring.identity()
    }

    fn ask(&mut self) -> Result<(), ClockError> {
        if let Some(request) = self.measuring.request() {
            let t3 = self.sockets.send_event(&request)?;
            self.measuring.asked(request.sequence, t3, self.opened.elapsed());
        }
        Ok(())
    }
}

/// When a client asks: at a random instant of every interval.
#[derive(Debug)]
pub(super) struct Asks {
    interval: Duration,
    random: ChaCha8Rng,
    /// When the interval of the next request began.
    since: Instant,
    next: Instant,
}

impl Asks {
    pub(super) fn new(interval: Duration, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let since = Instant::now();
        Self { interval, next: since + interval.mul_f64(random.random()), random, since }
    }

    /// Whether it is time; if so, the next request is due in the next interval. Intervals that were missed are left out.
    pub(super) fn due(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.since += self.interval;
        if self.since + self.interval < now {
            self.since = now;
        }
        self.next = self.since + self.interval.mul_f64(self.random.random());
        true
    }

    /// How long until the next request.
    pub(super) fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}
