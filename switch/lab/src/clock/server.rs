//! The side that is measured against: Announce, two-step Sync, and an answer to every Delay_Req and Pdelay_Req.

use super::{
    ClockError, DEFAULT_INTERVAL, PortIdentity, ServerReport, Stamps, Transport,
    serving::{ANNOUNCE_INTERVAL, Serving},
    socket::{Received, Sockets},
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Longest wait before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);

/// What a server is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The interface.
    pub interface: String,
    /// What carries the messages.
    pub transport: Transport,
    /// Who stamps the messages.
    pub stamps: Stamps,
    /// domainNumber.
    pub domain: u8,
    /// Time between Syncs.
    pub interval: Duration,
    /// delta in picoseconds: n*delta of a Delay_Req's marks is added to its Delay_Resp's correctionField, so that
    /// clients that know nothing of marks profit. A client of ours sees that and still tells raw from compensated.
    pub compensate_ps: Option<u64>,
    /// grandmasterPriority1 and 2: the smaller wins.
    pub priority: u8,
}

impl ServerConfig {
    /// The defaults: domain 0, 64 Syncs a second, no compensation, priority 128.
    pub fn new(interface: impl Into<String>, transport: Transport) -> Self {
        Self {
            interface: interface.into(),
            transport,
            stamps: Stamps::Software,
            domain: 0,
            interval: DEFAULT_INTERVAL,
            compensate_ps: None,
            priority: 128,
        }
    }
}

/// A server on its interface.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    sockets: Sockets,
    serving: Serving,
}

impl Server {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or a socket is not to be had.
    pub fn open(config: ServerConfig) -> Result<Self, ClockError> {
        let sockets = Sockets::open(&config.interface, config.transport, config.stamps)?;
        let ServerConfig { domain, interval, priority, compensate_ps, .. } = config;
        let serving = Serving::new(sockets.identity(), domain, interval, priority, compensate_ps);
        Ok(Self { config, sockets, serving })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<ServerReport, ClockError> {
        let mut next_sync = Instant::now();
        let mut next_announce = next_sync;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next_announce {
                self.sockets.send_general(&self.serving.announce())?;
                next_announce = now + ANNOUNCE_INTERVAL;
            }
            if now >= next_sync {
                self.sync()?;
                next_sync += self.config.interval;
                if next_sync < now {
                    // What was missed is not sent later.
                    next_sync = now + self.config.interval;
                }
            }
            while let Some(received) = self.sockets.receive()? {
                self.answer(&received)?;
            }
            let patience = next_sync.min(next_announce).saturating_duration_since(Instant::now());
            self.sockets.wait(patience.min(NAP))?;
        }
        Ok(self.serving.report)
    }

    /// The identity that its messages carry.
    pub const fn identity(&self) -> PortIdentity {
        self.serving.identity()
    }

    fn sync(&mut self) -> Result<(), ClockError> {
        let estimate = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let sync = self.serving.sync(estimate);
        let origin_ns = self.sockets.send_event(&sync)?;
        match self.serving.follow_up(&sync, origin_ns) {
            Some(follow_up) => self.sockets.send_general(&follow_up),
            None => Ok(()),
        }
    }

    fn answer(&mut self, received: &Received) -> Result<(), ClockError> {
        if let Ok(request) = &received.message
            && let Some(response) = self.serving.peer_answer(request, received.at)
        {
            let sent = self.sockets.send_event(&response)?;
            let follow_up = self.serving.peer_follow_up(request, sent);
            return follow_up.map_or(Ok(()), |message| self.sockets.send_general(&message));
        }
        let response = match &received.message {
            Ok(request) => self.serving.answer(request, received.at),
            Err(_) => {
                self.serving.report.ignored += 1;
                None
            }
        };
        response.map_or(Ok(()), |response| self.sockets.send_general(&response))
    }
}
