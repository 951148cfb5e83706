//! What a server says, and answers; sockets and time are somebody else's.

use super::{
    log_interval,
    message::{Body, Message, PortIdentity, flags},
};
use plimsoll_core::wire::{
    ptp::CORRECTION_OVERFLOW,
    word::{Direction, Word},
};
use serde::Serialize;
use std::time::Duration;

/// Between two Announces.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// n*delta is cut to this, as a switch's edge cuts it: 1 s in 2^-16 ns.
const MOST_COMPENSATION: u128 = 1_000_000_000 << 16;

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// Syncs sent with their Follow_Up.
    pub syncs: u64,
    /// Syncs that the kernel refused or gave no transmit stamp for: no Follow_Up.
    pub syncs_without_stamp: u64,
    /// Delay_Reqs and Pdelay_Reqs answered.
    pub delay_requests: u64,
    /// Those without a receive stamp, and Pdelay_Reqs whose answer got no transmit stamp: not answered, or not in full.
    pub delay_requests_without_stamp: u64,
    /// Answers to NTP requests that the kernel did not take: to an address or a port that nothing can be sent to.
    pub answers_refused: u64,
    /// Delay_Reqs with a marking word of no valid mode: answered, the word sent back as it is.
    pub invalid_words: u64,
    /// Messages that are none, of another domain, or not for a server.
    pub ignored: u64,
}

/// A server's side of the exchange.
#[derive(Debug)]
pub(crate) struct Serving {
    identity: PortIdentity,
    domain: u8,
    /// Between two Syncs.
    interval: Duration,
    /// delta in picoseconds, where the marks of a Delay_Req go into its answer's correctionField.
    compensate_ps: Option<u64>,
    priority: u8,
    announced: u16,
    synced: u16,
    pub(crate) report: ServerReport,
}

impl Serving {
    /// A server that has said nothing yet.
    pub(crate) fn new(
        identity: PortIdentity,
        domain: u8,
        interval: Duration,
        priority: u8,
        compensate_ps: Option<u64>,
    ) -> Self {
        let report = ServerReport::default();
        Self { identity, domain, interval, compensate_ps, priority, announced: 0, synced: 0, report }
    }

    /// The identity that its messages carry.
    pub(crate) const fn identity(&self) -> PortIdentity {
        self.identity
    }

    /// The next Announce.
    pub(crate) fn announce(&mut self) -> Message {
        let sequence = self.announced;
        self.announced = sequence.wrapping_add(1);
        self.message(sequence, ANNOUNCE_INTERVAL, Body::Announce { priority: self.priority })
    }

    /// The next Sync, about to be sent at `estimate_ns`. [`Serving::follow_up`] comes after it.
    pub(crate) fn sync(&mut self, estimate_ns: u64) -> Message {
        let sequence = self.synced;
        self.synced = sequence.wrapping_add(1);
        let mut sync = self.message(sequence, self.interval, Body::Sync { origin_ns: estimate_ns });
        sync.flags = flags::TWO_STEP;
        sync
    }

    /// The Follow_Up of a Sync that was sent at `origin_ns`; `None` where it was not, or nobody knows when.
    pub(crate) fn follow_up(&mut self, sync: &Message, origin_ns: Option<u64>) -> Option<Message> {
        let Some(origin_ns) = origin_ns else {
            self.report.syncs_without_stamp += 1;
            return None;
        };
        self.report.syncs += 1;
        Some(self.message(sync.sequence, self.interval, Body::FollowUp { origin_ns }))
    }

    /// The answer to a message that arrived `at`, where it asks for one: CLOCK_REALTIME in ns, `None` without a stamp.
    pub(crate) fn answer(&mut self, request: &Message, at: Option<u64>) -> Option<Message> {
        if !matches!(request.body, Body::DelayReq { .. }) || request.domain != self.domain {
            self.report.ignored += 1;
            return None;
        }
        let Some(receive_ns) = at else {
            self.report.delay_requests_without_stamp += 1;
            return None;
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
        let mut response = self.message(request.sequence, self.interval, body);
        response.word = request.word;
        response.correction = request.correction;
        if let Some(delta_ps) = self.compensate_ps {
            response.correction = compensated(request.correction, count, delta_ps);
            if response.correction != CORRECTION_OVERFLOW {
                response.flags = flags::COMPENSATED;
            }
        }
        Some(response)
    }

    /// The Pdelay_Resp to a Pdelay_Req that arrived `at`. [`Serving::peer_follow_up`] comes after it.
    pub(crate) fn peer_answer(&mut self, request: &Message, at: Option<u64>) -> Option<Message> {
        if !matches!(request.body, Body::PdelayReq { .. }) || request.domain != self.domain {
            return None;
        }
        let Some(receive_ns) = at else {
            self.report.delay_requests_without_stamp += 1;
            return None;
        };
        let body = Body::PdelayResp { receive_ns, requesting: request.source };
        let mut response = self.message(request.sequence, self.interval, body);
        response.flags = flags::TWO_STEP;
        Some(response)
    }

    /// The Pdelay_Resp_Follow_Up of an answer that was sent at `origin_ns`: it brings the request's correctionField back
    /// (clause 11.4.2), and its word, whatever its mode: no switch marks this message.
    pub(crate) fn peer_follow_up(&mut self, request: &Message, origin_ns: Option<u64>) -> Option<Message> {
        let Some(origin_ns) = origin_ns else {
            self.report.delay_requests_without_stamp += 1;
            return None;
        };
        self.report.delay_requests += 1;
        self.report.invalid_words += u64::from(Word::decode(request.word).is_err());
        let body = Body::PdelayRespFollowUp { origin_ns, requesting: request.source };
        let message = self.message(request.sequence, self.interval, body);
        Some(Message { word: request.word, correction: request.correction, ..message })
    }

    fn message(&self, sequence: u16, interval: Duration, body: Body) -> Message {
        Message {
            domain: self.domain,
            flags: 0,
            correction: 0,
            word: 0,
            source: self.identity,
            sequence,
            log_interval: log_interval(interval),
            body,
        }
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
    use crate::clock::DEFAULT_INTERVAL;

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
