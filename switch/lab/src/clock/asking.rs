//! NTP's exchange in basic mode, both sides (RFC 5905 section 8); sockets and time are somebody else's.

use super::{
    ClientCounters, ClockSample, DelayRecord, MarkScale, PortIdentity, ServerReport, SyncRecord,
    ntp::{Mode, Packet, poll},
};
use plimsoll_core::wire::word::{Direction, Word};
use serde::Serialize;
use std::{collections::VecDeque, time::Duration};

/// The word of a request: forward-reverse, nothing counted yet.
const BOTH: Word = Word::IntegerBoth { forward: 0, reverse: 0 };
/// Requests that wait for their answers; older ones are given up.
const PENDING: usize = 1024;

/// A client's side of the exchange.
#[derive(Debug)]
pub(crate) struct Asking {
    interval: Duration,
    /// Of client and server, for the records.
    ends: [PortIdentity; 2],
    /// Transmit timestamps of requests on their way, and when they were sent.
    asked: VecDeque<(u64, u64)>,
    recording: Exchanges,
}

/// All exchanges that a client saw, in the order of their answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Exchanges {
    /// Answer and request of each.
    pub exchanges: Vec<(SyncRecord, DelayRecord)>,
    /// What came to nothing.
    pub counters: ClientCounters,
}

impl Exchanges {
    /// The offsets that follow.
    pub fn samples(&self, scale: MarkScale) -> Vec<ClockSample> {
        self.exchanges.iter().map(|(answer, request)| ClockSample::new(answer, request, scale)).collect()
    }
}

impl Asking {
    /// A client that has asked nothing yet.
    pub(crate) fn new(client: PortIdentity, server: PortIdentity, interval: Duration) -> Self {
        Self { interval, ends: [client, server], asked: VecDeque::new(), recording: Exchanges::default() }
    }

    /// A request with this transmit timestamp, by which its answer is known. [`Asking::asked`] follows.
    pub(crate) fn request(&self, transmit_ns: u64) -> Packet {
        Packet {
            mode: Mode::Client,
            origin_ns: 0,
            receive_ns: 0,
            transmit_ns,
            poll: poll(self.interval),
            word: BOTH.encode(),
        }
    }

    /// The request was sent at `t1`; `None` where it was not, or nobody knows when.
    pub(crate) fn asked(&mut self, request: &Packet, t1: Option<u64>) {
        let Some(t1) = t1 else {
            self.recording.counters.requests_without_stamp += 1;
            return;
        };
        self.asked.push_back((request.transmit_ns, t1));
        if self.asked.len() > PENDING {
            self.asked.pop_front();
            self.recording.counters.unanswered_requests += 1;
        }
    }

    /// Takes what arrived, and when. Of an answer, receive and transmit timestamp are times of the client's scale.
    pub(crate) fn take(&mut self, answer: Option<&Packet>, at: Option<u64>) {
        let counters = &mut self.recording.counters;
        let answer = answer.filter(|packet| packet.mode == Mode::Server);
        let place = answer.and_then(|answer| {
            let place = self.asked.iter().rposition(|(transmit, _)| *transmit == answer.origin_ns)?;
            Some((answer, self.asked.remove(place)?.1))
        });
        let Some((answer, t1)) = place else {
            counters.ignored += 1;
            return;
        };
        let Some(t4) = at else {
            counters.requests_without_stamp += 1;
            return;
        };
        let word = Word::decode(answer.word).unwrap_or_else(|_| {
            counters.invalid_words += 1;
            BOTH
        });
        let sequence = self.recording.exchanges.len() as u16;
        let [client, server] = self.ends;
        self.recording.exchanges.push((
            SyncRecord {
                sequence,
                source: server,
                t1: answer.transmit_ns,
                t2: t4,
                correction: 0,
                count: word.count(Direction::Reverse),
                converted_ns: 0.0,
            },
            DelayRecord {
                sequence,
                source: client,
                t3: t1,
                t4: answer.receive_ns,
                correction: 0,
                count: word.count(Direction::Forward),
                count_in_correction: 0,
                converted_ns: 0.0,
            },
        ));
    }

    /// Hands over what was seen; what is still under way came to nothing.
    pub(crate) fn finish(&mut self) -> Exchanges {
        self.recording.counters.unanswered_requests += self.asked.len() as u64;
        self.asked.clear();
        std::mem::take(&mut self.recording)
    }
}

/// A server's answer to a request that it received and answers at these times. The request's count goes back in the
/// forward half; a word of no valid mode goes back as it is, and is counted.
pub(crate) fn answer(
    request: &Packet,
    receive_ns: u64,
    transmit_ns: u64,
    report: &mut ServerReport,
) -> Packet {
    report.delay_requests += 1;
    let word = match Word::decode(request.word) {
        Ok(Word::ShiftBoth { forward, .. }) => Word::ShiftBoth { forward, reverse: 0 }.encode(),
        Ok(word) => BOTH.with_count(Direction::Forward, word.count(Direction::Forward)).encode(),
        Err(_) => {
            report.invalid_words += 1;
            request.word
        }
    };
    Packet {
        mode: Mode::Server,
        origin_ns: request.transmit_ns,
        receive_ns,
        transmit_ns,
        poll: request.poll,
        word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Saturation;

    #[test]
    fn an_exchange_carries_the_counts_of_both_directions_apart() {
        let ends = [PortIdentity([1; 10]), PortIdentity([2; 10])];
        let mut asking = Asking::new(ends[0], ends[1], Duration::from_millis(62));
        let mut report = ServerReport::default();
        let mut request = asking.request(1_000);
        asking.asked(&request, Some(1_010));
        // Two marks on its way, three on the way back.
        request.word = Word::IntegerBoth { forward: 2, reverse: 0 }.encode();
        let mut response = answer(&request, 1_100, 1_120, &mut report);
        assert_eq!(Word::decode(response.word), Ok(Word::IntegerBoth { forward: 2, reverse: 0 }));
        response.word = Word::IntegerBoth { forward: 2, reverse: 3 }.encode();
        asking.take(Some(&response), Some(1_250));
        // The same once more, and somebody else's.
        asking.take(Some(&response), Some(1_260));
        asking.take(None, Some(1_270));
        let unanswered = asking.request(2_000);
        asking.asked(&unanswered, Some(2_010));
        asking.asked(&unanswered, None);
        let seen = asking.finish();
        let scale = MarkScale { delta_ps: 10_000, saturated_at: Saturation::both(10) };
        let sample = seen.samples(scale)[0];
        assert_eq!((sample.t1, sample.t2, sample.t3, sample.t4), (1_120, 1_250, 1_010, 1_100));
        assert_eq!((sample.n_sync, sample.n_delay), (3, 2));
        // 130 ns and 90 ns; 30 and 20 of them marked.
        assert_eq!((sample.raw_ns, sample.compensated_ns), (20.0, 15.0));
        let ClientCounters { unanswered_requests, requests_without_stamp, ignored, .. } = seen.counters;
        assert_eq!((unanswered_requests, requests_without_stamp, ignored), (1, 1, 2));
        assert_eq!((report.delay_requests, report.invalid_words), (1, 0));
        request.word = 0xC000_0002;
        assert_eq!(answer(&request, 0, 0, &mut report).word, 0xC000_0002);
        assert_eq!(report.invalid_words, 1);
    }
}
