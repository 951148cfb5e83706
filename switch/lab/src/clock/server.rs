//! The side that is measured against: Announce, two-step Sync, and an answer to every Delay_Req.

use super::{
    ClockError, DEFAULT_INTERVAL, Transport, log_interval,
    message::{Body, Message, PortIdentity, flags},
    socket::Sockets,
};
use plimsoll_core::wire::{
    ptp::CORRECTION_OVERFLOW,
    word::{Direction, Word},
};
use serde::Serialize;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);
/// n*delta is cut to this, as a switch's edge cuts it: 1 s in 2^-16 ns.
const MOST_COMPENSATION: u128 = 1_000_000_000 << 16;

/// What a server is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The interface.
    pub interface: String,
    /// What carries the messages.
    pub transport: Transport,
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
            domain: 0,
            interval: DEFAULT_INTERVAL,
            compensate_ps: None,
            priority: 128,
        }
    }
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// Syncs sent with their Follow_Up.
    pub syncs: u64,
    /// Syncs that the kernel refused or gave no transmit stamp for: no Follow_Up.
    pub syncs_without_stamp: u64,
    /// Delay_Reqs answered.
    pub delay_requests: u64,
    /// Delay_Reqs without a receive stamp: not answered.
    pub delay_requests_without_stamp: u64,
    /// Delay_Reqs with a marking word of no valid mode: answered, the word sent back as it is.
    pub invalid_words: u64,
    /// Messages that are none, of another domain, or not for a server.
    pub ignored: u64,
}

/// A server on its interface.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    identity: PortIdentity,
    sockets: Sockets,
    report: ServerReport,
}

impl Server {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ClockError`] where the interface or a socket is not to be had.
    pub fn open(config: ServerConfig) -> Result<Self, ClockError> {
        let sockets = Sockets::open(&config.interface, config.transport)?;
        let identity = sockets.identity();
        Ok(Self { config, identity, sockets, report: ServerReport::default() })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`ClockError::Call`] where the interface goes away.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<ServerReport, ClockError> {
        let (mut sync, mut announce) = (0, 0);
        let mut next_sync = Instant::now();
        let mut next_announce = next_sync;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= next_announce {
                self.announce(announce)?;
                announce = announce.wrapping_add(1);
                next_announce = now + ANNOUNCE_INTERVAL;
            }
            if now >= next_sync {
                self.sync(sync)?;
                sync = sync.wrapping_add(1);
                next_sync += self.config.interval;
                if next_sync < now {
                    // What was missed is not sent later.
                    next_sync = now + self.config.interval;
                }
            }
            while let Some(received) = self.sockets.receive()? {
                match received.message {
                    Ok(request @ Message { body: Body::DelayReq { .. }, .. })
                        if request.domain == self.config.domain =>
                    {
                        self.answer(&request, received.at)?;
                    }
                    _ => self.report.ignored += 1,
                }
            }
            let patience = next_sync.min(next_announce).saturating_duration_since(Instant::now());
            self.sockets.wait(patience.min(NAP))?;
        }
        Ok(self.report)
    }

    /// The identity that its messages carry.
    pub const fn identity(&self) -> PortIdentity {
        self.identity
    }

    fn message(&self, sequence: u16, interval: Duration, body: Body) -> Message {
        Message {
            domain: self.config.domain,
            flags: 0,
            correction: 0,
            word: 0,
            source: self.identity,
            sequence,
            log_interval: log_interval(interval),
            body,
        }
    }

    fn announce(&self, sequence: u16) -> Result<(), ClockError> {
        let body = Body::Announce { priority: self.config.priority };
        self.sockets.send_general(&self.message(sequence, ANNOUNCE_INTERVAL, body))
    }

    fn sync(&mut self, sequence: u16) -> Result<(), ClockError> {
        let estimate = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let mut sync = self.message(sequence, self.config.interval, Body::Sync { origin_ns: estimate });
        sync.flags = flags::TWO_STEP;
        let Some(origin_ns) = self.sockets.send_event(&sync)? else {
            self.report.syncs_without_stamp += 1;
            return Ok(());
        };
        self.report.syncs += 1;
        self.sockets.send_general(&self.message(sequence, self.config.interval, Body::FollowUp { origin_ns }))
    }

    fn answer(&mut self, request: &Message, at: Option<u64>) -> Result<(), ClockError> {
        let Some(receive_ns) = at else {
            self.report.delay_requests_without_stamp += 1;
            return Ok(());
        };
        self.report.delay_requests += 1;
        let count = match Word::decode(request.word) {
            Ok(word) => word.count(Direction::Forward),
            Err(_) => {
                self.report.invalid_words += 1;
                0
            }
        };
        let body = Body::DelayResp { receive_ns, requesting: request.source };
        let mut response = self.message(request.sequence, self.config.interval, body);
        response.word = request.word;
        response.correction = request.correction;
        if let Some(delta_ps) = self.config.compensate_ps {
            response.correction = compensated(request.correction, count, delta_ps);
            if response.correction != CORRECTION_OVERFLOW {
                response.flags = flags::COMPENSATED;
            }
        }
        self.sockets.send_general(&response)
    }
}

/// correctionField with n*delta added, in 2^-16 ns, never more than "too large to represent" (clause 13.3.2.9).
fn compensated(correction: i64, count: u32, delta_ps: u64) -> i64 {
    let marks = (u128::from(count) * u128::from(delta_ps) * 65_536 + 500) / 1000;
    correction.saturating_add(marks.min(MOST_COMPENSATION) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compensation_is_n_delta_in_the_field_s_unit_and_stops_at_its_end() {
        assert_eq!(compensated(-(5 << 16), 3, 2_000_000), 5_995 << 16);
        assert_eq!(compensated(0, 1, 500), 1 << 15, "half a nanosecond");
        assert_eq!(compensated(7, u32::MAX, u64::MAX), 7 + (1_000_000_000 << 16));
        assert_eq!(compensated(i64::MAX, 1, 1_000), CORRECTION_OVERFLOW, "left as it is");
        assert_eq!(compensated(i64::MAX - 1, 1, 1_000), CORRECTION_OVERFLOW);
    }

    #[test]
    fn an_interval_is_told_as_its_logarithm() {
        assert_eq!(log_interval(DEFAULT_INTERVAL), -6);
        assert_eq!(log_interval(Duration::from_secs(1)), 0);
        assert_eq!(log_interval(Duration::from_millis(100)), -3);
    }
}
