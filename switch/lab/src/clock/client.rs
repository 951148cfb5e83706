//! The side that measures: it listens to Sync and Follow_Up, asks with Delay_Req, and writes down what it saw.

use super::{
    ClockError, DEFAULT_INTERVAL, PortIdentity, Recording, Transport, measuring::Measuring, socket::Sockets,
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
    /// domainNumber.
    pub domain: u8,
    /// Mean time between Delay_Reqs.
    pub interval: Duration,
    /// Seed of the instants within each interval.
    pub seed: u64,
}

impl ClientConfig {
    /// The defaults: domain 0, 64 Delay_Reqs a second.
    pub fn new(interface: impl Into<String>, transport: Transport) -> Self {
        Self { interface: interface.into(), transport, domain: 0, interval: DEFAULT_INTERVAL, seed: 1 }
    }
}

/// A client on its interface.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    sockets: Sockets,
    measuring: Measuring,
}

impl Client {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or a socket is not to be had.
    pub fn open(config: ClientConfig) -> Result<Self, ClockError> {
        let sockets = Sockets::open(&config.interface, config.transport)?;
        let measuring = Measuring::new(sockets.identity(), config.domain, config.interval);
        Ok(Self { config, sockets, measuring })
    }

    /// Measures until `stop` is set, and hands over what it saw. It asks once it has heard a server, at a random
    /// instant of every interval, so that its requests keep no step with anything.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Recording, ClockError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.config.seed);
        let mut interval_start = Instant::now();
        let mut next = interval_start + self.config.interval.mul_f64(rng.random());
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next {
                self.ask()?;
                interval_start += self.config.interval;
                if interval_start + self.config.interval < now {
                    // Intervals that were missed are left out.
                    interval_start = now;
                }
                next = interval_start + self.config.interval.mul_f64(rng.random());
            }
            while let Some(received) = self.sockets.receive()? {
                self.measuring.take(received.message, received.at);
            }
            self.sockets.wait(next.saturating_duration_since(Instant::now()).min(NAP))?;
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
            self.measuring.asked(request.sequence, t3);
        }
        Ok(())
    }
}
