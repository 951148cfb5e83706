//! What a client makes of the messages it sends and hears; sockets and time are somebody else's.

use super::{
    DelayMechanism, DelayRecord, PeerDelayRecord, PortIdentity, Recording, SyncRecord, log_interval,
    message::{Body, Message, MessageError, flags},
};
use plimsoll_core::wire::word::{Direction, Word};
use serde::Serialize;
use std::{collections::VecDeque, time::Duration};

/// Messages that wait for their other half; older ones are given up.
const PENDING: usize = 8192;
/// So are those that have waited longer: their sequenceId may come again, after 65,536 messages or with a server that
/// starts anew.
const PATIENCE: Duration = Duration::from_secs(4);

/// Completed Syncs of which a copy is known for one, for [`TWICE`]; after that the number is another's.
const COMPLETED: usize = 8;
const TWICE: Duration = Duration::from_millis(500);

/// What came to nothing at a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientCounters {
    /// Syncs without their Follow_Up, or the reverse.
    pub incomplete_syncs: u64,
    /// Delay_Reqs or Pdelay_Reqs without an answer, or without all of it.
    pub unanswered_requests: u64,
    /// Syncs without a receive stamp.
    pub syncs_without_stamp: u64,
    /// The same that the kernel refused or gave no transmit stamp for, and answers without a receive stamp.
    pub requests_without_stamp: u64,
    /// Marking words of no valid mode: taken as no mark.
    pub invalid_words: u64,
    /// Messages that are none, of another domain, of another server, for another client, or came twice.
    pub ignored: u64,
}

/// A client's side of the exchange.
#[derive(Debug)]
pub(crate) struct Measuring {
    identity: PortIdentity,
    /// Between two Delay_Reqs.
    interval: Duration,
    delay: DelayMechanism,
    sequence: u16,
    /// The first server heard, by Sync, Follow_Up or Announce; the client stays with it.
    server: Option<PortIdentity>,
    halves: VecDeque<HalfSync>,
    /// sequenceIds of the Syncs that were completed last, and when: what comes of them again comes twice.
    completed: VecDeque<(u16, Duration)>,
    /// sequenceId and transmit stamp of requests on their way, and since when.
    asked: VecDeque<(u16, u64, Duration)>,
    /// Those whose Pdelay_Resp is there, but no Pdelay_Resp_Follow_Up, and since when.
    half_answered: VecDeque<(PeerDelayRecord, Duration)>,
    recording: Recording,
}

/// What is known of a Sync whose other half is still to come; Follow_Up may overtake it.
#[derive(Debug)]
struct HalfSync {
    sequence: u16,
    since: Duration,
    /// t2, correctionField and marks of the Sync.
    sync: Option<(u64, i64, u32)>,
    /// t1 and correctionField of the Follow_Up.
    follow_up: Option<(u64, i64)>,
}

impl Measuring {
    /// A client that has heard nothing yet.
    pub(crate) fn new(identity: PortIdentity, domain: u8, interval: Duration, delay: DelayMechanism) -> Self {
        Self {
            identity,
            interval,
            delay,
            sequence: 0,
            server: None,
            halves: VecDeque::new(),
            completed: VecDeque::new(),
            asked: VecDeque::new(),
            half_answered: VecDeque::new(),
            recording: Recording { domain, ..Recording::default() },
        }
    }

    /// The identity that its messages carry.
    pub(crate) const fn identity(&self) -> PortIdentity {
        self.identity
    }

    /// The next Delay_Req or Pdelay_Req, once a server has been heard. [`Measuring::asked`] follows.
    pub(crate) fn request(&mut self) -> Option<Message> {
        self.server?;
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        Some(Message {
            domain: self.recording.domain,
            flags: 0,
            correction: 0,
            word: 0,
            source: self.identity,
            sequence,
            log_interval: log_interval(self.interval),
            body: match self.delay {
                DelayMechanism::E2e => Body::DelayReq { origin_ns: 0 },
                DelayMechanism::P2p => Body::PdelayReq { origin_ns: 0 },
            },
        })
    }

    /// The request of this number was sent at `t3`; `None` where it was not, or nobody knows when. `now` as in
    /// [`Measuring::take`].
    pub(crate) fn asked(&mut self, sequence: u16, t3: Option<u64>, now: Duration) {
        self.give_up(now);
        let Some(t3) = t3 else {
            self.recording.counters.requests_without_stamp += 1;
            return;
        };
        self.asked.push_back((sequence, t3, now));
        if self.asked.len() > PENDING {
            self.asked.pop_front();
            self.recording.counters.unanswered_requests += 1;
        }
    }

    /// Hands over what was seen; what is still under way came to nothing.
    pub(crate) fn finish(&mut self) -> Recording {
        let counters = &mut self.recording.counters;
        counters.incomplete_syncs += self.halves.len() as u64;
        counters.unanswered_requests += (self.asked.len() + self.half_answered.len()) as u64;
        self.halves.clear();
        self.asked.clear();
        self.half_answered.clear();
        let domain = self.recording.domain;
        std::mem::replace(&mut self.recording, Recording { domain, ..Recording::default() })
    }

    /// Gives up what has waited too long.
    fn give_up(&mut self, now: Duration) {
        while self.completed.pop_front_if(|(_, at)| now.saturating_sub(*at) > TWICE).is_some() {}
        let counters = &mut self.recording.counters;
        let late = |since: Duration| now.saturating_sub(since) > PATIENCE;
        while self.halves.pop_front_if(|half| late(half.since)).is_some() {
            counters.incomplete_syncs += 1;
        }
        while self.asked.pop_front_if(|(.., since)| late(*since)).is_some() {
            counters.unanswered_requests += 1;
        }
        while self.half_answered.pop_front_if(|(_, since)| late(*since)).is_some() {
            counters.unanswered_requests += 1;
        }
    }

    /// Takes a message that arrived, and when (CLOCK_REALTIME, ns; `None` without a stamp). `now` is by a clock that
    /// nobody sets, from any beginning.
    pub(crate) fn take(&mut self, message: Result<Message, MessageError>, at: Option<u64>, now: Duration) {
        self.give_up(now);
        let (domain, server) = (self.recording.domain, &mut self.server);
        let ours = |message: &Message| message.domain == domain && is_of_server(server, message);
        let Some(message) = message.ok().filter(ours) else {
            self.recording.counters.ignored += 1;
            return;
        };
        match message.body {
            Body::Sync { origin_ns } => {
                let Some(t2) = at else {
                    self.recording.counters.syncs_without_stamp += 1;
                    return;
                };
                let count = self.count(message.word, Direction::Reverse);
                let two_step = message.flags & flags::TWO_STEP != 0;
                let same = |half: &HalfSync| half.sequence == message.sequence && half.sync.is_some();
                if let Some(place) = self.halves.iter().rposition(same) {
                    if now.saturating_sub(self.halves[place].since) <= TWICE {
                        self.recording.counters.ignored += 1;
                        return;
                    }
                    // Another of the same number came to nothing.
                    self.halves.remove(place);
                    self.recording.counters.incomplete_syncs += 1;
                }
                self.complete(message, now, |half| {
                    half.sync = Some((t2, message.correction, count));
                    if !two_step {
                        half.follow_up = Some((origin_ns, 0));
                    }
                });
            }
            Body::FollowUp { origin_ns } => {
                self.complete(message, now, |half| half.follow_up = Some((origin_ns, message.correction)));
            }
            Body::DelayResp { receive_ns, requesting } => self.answered(&message, receive_ns, requesting),
            Body::PdelayResp { receive_ns, requesting } => {
                self.peer_answered(&message, receive_ns, requesting, at, now);
            }
            Body::PdelayRespFollowUp { origin_ns, requesting } => {
                self.peer_followed(&message, origin_ns, requesting);
            }
            Body::Announce { .. } | Body::DelayReq { .. } | Body::PdelayReq { .. } => {}
        }
    }

    fn count(&mut self, word: u32, direction: Direction) -> u32 {
        Word::decode(word).map_or_else(
            |_| {
                self.recording.counters.invalid_words += 1;
                0
            },
            |word| word.count(direction),
        )
    }

    /// Adds what a message tells to its half, and records the Sync where that makes it whole.
    fn complete(&mut self, message: Message, now: Duration, tell: impl FnOnce(&mut HalfSync)) {
        let sequence = message.sequence;
        if self.completed.iter().any(|&(completed, _)| completed == sequence) {
            self.recording.counters.ignored += 1;
            return;
        }
        let place = self.halves.iter().rposition(|half| half.sequence == sequence).unwrap_or_else(|| {
            self.halves.push_back(HalfSync { sequence, since: now, sync: None, follow_up: None });
            self.halves.len() - 1
        });
        let half = &mut self.halves[place];
        tell(half);
        if let HalfSync { sync: Some((t2, in_sync, count)), follow_up: Some((t1, in_follow_up)), .. } = *half
        {
            self.halves.remove(place);
            self.completed.push_back((sequence, now));
            if self.completed.len() > COMPLETED {
                self.completed.pop_front();
            }
            self.recording.syncs.push(SyncRecord {
                sequence,
                source: message.source,
                t1,
                t2,
                correction: in_sync.saturating_add(in_follow_up),
                count,
                converted_ns: 0.0,
            });
        } else if self.halves.len() > PENDING {
            self.halves.pop_front();
            self.recording.counters.incomplete_syncs += 1;
        }
    }

    fn answered(&mut self, response: &Message, t4: u64, requesting: PortIdentity) {
        let Some((sequence, t3)) = self.asked_by(response, requesting) else { return };
        let count = self.count(response.word, Direction::Forward);
        let in_correction = response.flags & flags::COMPENSATED != 0;
        self.recording.delays.push(DelayRecord {
            sequence,
            source: self.identity,
            t3,
            t4,
            correction: response.correction,
            count: if in_correction { 0 } else { count },
            count_in_correction: if in_correction { count } else { 0 },
            converted_ns: 0.0,
        });
    }
}

impl Measuring {
    /// The request that this answers: its number, and when it was sent.
    fn asked_by(&mut self, response: &Message, requesting: PortIdentity) -> Option<(u16, u64)> {
        let mine = requesting == self.identity;
        let place = self.asked.iter().rposition(|&(sequence, ..)| mine && sequence == response.sequence);
        let asked = place.and_then(|place| self.asked.remove(place));
        self.recording.counters.ignored += u64::from(asked.is_none());
        asked.map(|(sequence, sent, _)| (sequence, sent))
    }

    fn peer_answered(
        &mut self,
        response: &Message,
        t2: u64,
        requesting: PortIdentity,
        at: Option<u64>,
        now: Duration,
    ) {
        let Some((sequence, t1)) = self.asked_by(response, requesting) else { return };
        let Some(t4) = at else {
            self.recording.counters.requests_without_stamp += 1;
            return;
        };
        let count_response = self.count(response.word, Direction::Reverse);
        // A one-step peer has put its turnaround into correctionField, and nothing follows (clause 11.4.2): all of the
        // delay there and back stands as the answer's.
        let two_step = response.flags & flags::TWO_STEP != 0;
        let (t2, t3) = if two_step { (t2, 0) } else { (t1, t1) };
        let record = PeerDelayRecord {
            sequence,
            source: self.identity,
            peer: response.source,
            t1,
            t2,
            t3,
            t4,
            correction_request: 0,
            correction_response: response.correction,
            count_request: 0,
            count_response,
            converted_ns: [0.0; 2],
        };
        if !two_step {
            self.recording.peer_delays.push(record);
            return;
        }
        self.half_answered.push_back((record, now));
        if self.half_answered.len() > PENDING {
            self.half_answered.pop_front();
            self.recording.counters.unanswered_requests += 1;
        }
    }

    fn peer_followed(&mut self, follow_up: &Message, t3: u64, requesting: PortIdentity) {
        let mine = requesting == self.identity;
        let ours = |(record, _): &(PeerDelayRecord, Duration)| mine && record.sequence == follow_up.sequence;
        let Some((record, _)) =
            self.half_answered.iter().rposition(ours).and_then(|place| self.half_answered.remove(place))
        else {
            self.recording.counters.ignored += 1;
            return;
        };
        let count_request = self.count(follow_up.word, Direction::Forward);
        self.recording.peer_delays.push(PeerDelayRecord {
            t3,
            correction_request: follow_up.correction,
            count_request,
            ..record
        });
    }
}

/// Whether a message of the domain is the server's. The first that says what only a server says is it: requests of
/// other clients come by multicast too.
fn is_of_server(server: &mut Option<PortIdentity>, message: &Message) -> bool {
    if matches!(message.body, Body::Sync { .. } | Body::FollowUp { .. } | Body::Announce { .. }) {
        server.get_or_insert(message.source);
    }
    *server == Some(message.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{MarkScale, Saturation};

    const SERVER: PortIdentity = PortIdentity([1; 10]);
    const CLIENT: PortIdentity = PortIdentity([2; 10]);
    const S: u64 = 1_000_000_000;

    fn client(delay: DelayMechanism) -> Measuring {
        Measuring::new(CLIENT, 0, Duration::from_millis(1), delay)
    }

    fn from_server(sequence: u16, flags: u16, body: Body) -> Result<Message, MessageError> {
        let source = SERVER;
        Ok(Message { domain: 0, flags, correction: 0, word: 0, source, sequence, log_interval: 0, body })
    }

    /// A Sync, and a Follow_Up, at so many seconds.
    fn sync(measuring: &mut Measuring, sequence: u16, at_s: u64) {
        let body = Body::Sync { origin_ns: 0 };
        let now = Duration::from_secs(at_s);
        measuring.take(from_server(sequence, flags::TWO_STEP, body), Some(at_s * S + 9), now);
    }

    fn follow_up(measuring: &mut Measuring, sequence: u16, at_s: u64) {
        let body = Body::FollowUp { origin_ns: at_s * S };
        measuring.take(from_server(sequence, 0, body), None, Duration::from_secs(at_s));
    }

    #[test]
    fn a_half_never_meets_the_other_half_of_a_later_message() {
        let delays = |measuring: &mut Measuring| {
            let recording = measuring.finish();
            let delays: Vec<_> = recording.syncs.iter().map(|sync| sync.t2 - sync.t1).collect();
            (delays, recording.counters.incomplete_syncs)
        };
        // Its Follow_Up was lost; the number comes round.
        let mut measuring = client(DelayMechanism::E2e);
        sync(&mut measuring, 7, 1);
        sync(&mut measuring, 7, 66);
        follow_up(&mut measuring, 7, 66);
        assert_eq!(delays(&mut measuring), (vec![9], 1));
        // The server starts anew at once.
        sync(&mut measuring, 0, 101);
        sync(&mut measuring, 0, 103);
        follow_up(&mut measuring, 0, 103);
        assert_eq!(delays(&mut measuring), (vec![9], 1));
        // The Sync was lost.
        follow_up(&mut measuring, 7, 201);
        sync(&mut measuring, 7, 266);
        follow_up(&mut measuring, 7, 266);
        assert_eq!(delays(&mut measuring), (vec![9], 1));
        // Follow_Up may overtake.
        follow_up(&mut measuring, 8, 270);
        sync(&mut measuring, 8, 270);
        assert_eq!(delays(&mut measuring), (vec![9], 0));
    }

    #[test]
    fn what_comes_twice_is_ignored() {
        let mut measuring = client(DelayMechanism::E2e);
        let one_step = Body::Sync { origin_ns: S };
        sync(&mut measuring, 6, 1);
        for _ in 0..2 {
            sync(&mut measuring, 6, 1);
            follow_up(&mut measuring, 6, 1);
            measuring.take(from_server(7, 0, one_step), Some(S + 5), Duration::from_secs(1));
        }
        let recording = measuring.finish();
        let sequences: Vec<_> = recording.syncs.iter().map(|sync| sync.sequence).collect();
        assert_eq!(sequences, [6, 7]);
        assert_eq!(recording.counters, ClientCounters { ignored: 4, ..ClientCounters::default() });
        // The same number, of a server that has started anew.
        sync(&mut measuring, 6, 2);
        follow_up(&mut measuring, 6, 2);
        assert_eq!(measuring.finish().syncs.len(), 1);
    }

    #[test]
    fn a_one_step_peer_s_answer_completes_the_exchange() {
        let mut measuring = client(DelayMechanism::P2p);
        let now = Duration::from_secs(1);
        sync(&mut measuring, 0, 1);
        follow_up(&mut measuring, 0, 1);
        measuring.asked(7, Some(S), now);
        // 50 us at the peer, 4 us either way.
        let body = Body::PdelayResp { receive_ns: 0, requesting: CLIENT };
        let answer = from_server(7, 0, body).map(|answer| Message { correction: 50_000 << 16, ..answer });
        measuring.take(answer, Some(S + 58_000), now);
        sync(&mut measuring, 1, 2);
        follow_up(&mut measuring, 1, 2);
        let recording = measuring.finish();
        assert_eq!(recording.counters, ClientCounters::default());
        let scale = MarkScale { delta_ps: 0, saturated_at: Saturation::both(0) };
        let delays: Vec<_> = recording.samples(scale).iter().map(|sample| sample.raw_delay_ns).collect();
        assert_eq!(delays, [4_000.0]);
    }

    #[test]
    fn a_request_whose_answer_was_lost_is_given_up() {
        let mut measuring = client(DelayMechanism::E2e);
        measuring.asked(7, Some(S), Duration::from_secs(1));
        let body = Body::DelayResp { receive_ns: 66 * S, requesting: CLIENT };
        sync(&mut measuring, 0, 65);
        measuring.take(from_server(7, 0, body), None, Duration::from_secs(66));
        let recording = measuring.finish();
        assert_eq!(recording.delays, []);
        assert_eq!((recording.counters.unanswered_requests, recording.counters.ignored), (1, 1));
    }

    #[test]
    fn another_clients_request_makes_no_server() {
        let message = |last: u8, body| Message {
            domain: 0,
            flags: 0,
            correction: 0,
            word: 0,
            source: PortIdentity([last; 10]),
            sequence: 0,
            log_interval: 0,
            body,
        };
        let mut server = None;
        assert!(!is_of_server(&mut server, &message(7, Body::DelayReq { origin_ns: 0 })));
        assert_eq!(server, None);
        assert!(is_of_server(&mut server, &message(1, Body::Sync { origin_ns: 0 })));
        assert!(!is_of_server(&mut server, &message(2, Body::Sync { origin_ns: 0 })));
        assert!(!is_of_server(&mut server, &message(7, Body::DelayReq { origin_ns: 0 })));
        assert_eq!(server, Some(message(1, Body::Sync { origin_ns: 0 }).source));
    }
}
