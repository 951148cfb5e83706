//! What a client saw, message by message.

use super::{ClientCounters, ClockSample, MarkScale, PortIdentity};
use plimsoll_core::wire::ptp::MessageId;
use serde::Serialize;

/// One Sync, with its Follow_Up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SyncRecord {
    /// sequenceId.
    pub sequence: u16,
    /// sourcePortIdentity: the server's.
    pub source: PortIdentity,
    /// When the server sent it, CLOCK_REALTIME in nanoseconds.
    pub t1: u64,
    /// When the client received it.
    pub t2: u64,
    /// correctionField of the Sync and its Follow_Up together, 2^-16 ns.
    pub correction: i64,
    /// Marks in its word that nobody has put into correctionField.
    pub count: u32,
    /// Nanoseconds of `correction` that stand for marks: edge conversion's part.
    pub converted_ns: f64,
}

/// One Delay_Req, with its Delay_Resp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayRecord {
    /// sequenceId.
    pub sequence: u16,
    /// sourcePortIdentity of the Delay_Req: the client's.
    pub source: PortIdentity,
    /// When the client sent it, CLOCK_REALTIME in nanoseconds.
    pub t3: u64,
    /// When the server received it.
    pub t4: u64,
    /// correctionField of the Delay_Resp, into which the server copies that of the Delay_Req, 2^-16 ns.
    pub correction: i64,
    /// Marks in the request's word that nobody has put into correctionField, as the server sent them back.
    pub count: u32,
    /// Marks in the request's word that the server has put into correctionField.
    pub count_in_correction: u32,
    /// Nanoseconds of `correction` that stand for marks that a switch's edge put there.
    pub converted_ns: f64,
}

/// One Pdelay_Req, with its Pdelay_Resp and Pdelay_Resp_Follow_Up (IEEE 1588-2019 clause 11.4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PeerDelayRecord {
    /// sequenceId.
    pub sequence: u16,
    /// sourcePortIdentity of the Pdelay_Req: the client's.
    pub source: PortIdentity,
    /// sourcePortIdentity of the Pdelay_Resp: the peer's.
    pub peer: PortIdentity,
    /// When the client sent the request, CLOCK_REALTIME in nanoseconds.
    pub t1: u64,
    /// When the peer received it; `t1` of a one-step peer, which does not tell.
    pub t2: u64,
    /// When the peer sent its answer; `t1` of a one-step peer, whose `correction_response` has how long it took.
    pub t3: u64,
    /// When the client received that.
    pub t4: u64,
    /// correctionField of the request, as the Pdelay_Resp_Follow_Up brings it back, 2^-16 ns.
    pub correction_request: i64,
    /// correctionField of the answer.
    pub correction_response: i64,
    /// Marks in the request's word, as the Pdelay_Resp_Follow_Up brings it back.
    pub count_request: u32,
    /// Marks in the answer's word.
    pub count_response: u32,
    /// Nanoseconds of the two corrections that stand for marks: edge conversion's part.
    pub converted_ns: [f64; 2],
}

/// All that a client saw, in the order of its completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recording {
    /// domainNumber of all of them.
    pub domain: u8,
    /// The Syncs.
    pub syncs: Vec<SyncRecord>,
    /// The Delay_Reqs.
    pub delays: Vec<DelayRecord>,
    /// The Pdelay_Reqs.
    pub peer_delays: Vec<PeerDelayRecord>,
    /// What came to nothing.
    pub counters: ClientCounters,
}

impl Recording {
    /// Tells which part of each correctionField stands for marks: `converted` gives the nanoseconds that edge
    /// conversion added to a Sync (messageType 0), Delay_Req (1), Pdelay_Req (2) or Pdelay_Resp (3), as the switches
    /// recorded it; `None` where they know nothing of it. Without this, a converted mark cannot be told from a late
    /// release that was corrected.
    ///
    /// A sequenceId comes round after 65,536 messages, 17 minutes at 64 a second: `converted` is also given when the
    /// client sent or received the message (CLOCK_REALTIME, ns), by which it tells which of two is meant. A Sync that is
    /// flooded has one record for each port: `converted` must look at the port to the client.
    pub fn join(&mut self, mut converted: impl FnMut(&MessageId, u64) -> Option<u64>) {
        let domain = self.domain;
        let mut look_up = |message_type, sequence_id, source: PortIdentity, at| {
            let id = MessageId { domain, message_type, sequence_id, source_port_identity: source.0 };
            converted(&id, at).unwrap_or(0) as f64
        };
        for sync in &mut self.syncs {
            sync.converted_ns = look_up(0, sync.sequence, sync.source, sync.t2);
        }
        for delay in &mut self.delays {
            delay.converted_ns = look_up(1, delay.sequence, delay.source, delay.t3);
        }
        for exchange in &mut self.peer_delays {
            let PeerDelayRecord { sequence, source, peer, t1, t4, .. } = *exchange;
            exchange.converted_ns = [look_up(2, sequence, source, t1), look_up(3, sequence, peer, t4)];
        }
    }

    /// Tells what a shim on the receiving host made of each message, of the client's and of the server's: `counted` gives,
    /// by the message and its time as in [`Recording::join`], the marks with which it came there, which the shim took
    /// out of it. With `corrected` it added n*delta to correctionField, else it took that from the receive timestamp,
    /// which is put back here, so that the marks stand beside it as if nobody had taken them.
    pub fn helped(
        &mut self,
        corrected: bool,
        scale: MarkScale,
        mut counted: impl FnMut(&MessageId, u64) -> u32,
    ) {
        let domain = self.domain;
        let mut look_up = |message_type, sequence_id, source: PortIdentity, at| {
            let most = match message_type {
                1 | 2 => scale.saturated_at.to_server,
                _ => scale.saturated_at.to_client,
            };
            let id = MessageId { domain, message_type, sequence_id, source_port_identity: source.0 };
            counted(&id, at).min(most)
        };
        // In whole nanoseconds, as the shim does it.
        let put_back = |at: &mut u64, count: u32| *at += scale.ns(count).round() as u64;
        for sync in &mut self.syncs {
            let count = look_up(0, sync.sequence, sync.source, sync.t2);
            if corrected {
                sync.converted_ns = scale.ns(count);
            } else {
                sync.count += count;
                put_back(&mut sync.t2, count);
            }
        }
        for delay in &mut self.delays {
            let count = look_up(1, delay.sequence, delay.source, delay.t3);
            if corrected {
                delay.converted_ns = scale.ns(count);
            } else {
                delay.count += count;
                put_back(&mut delay.t4, count);
            }
        }
        for exchange in &mut self.peer_delays {
            let PeerDelayRecord { sequence, source, peer, t1, t4, .. } = *exchange;
            let counts = [look_up(2, sequence, source, t1), look_up(3, sequence, peer, t4)];
            if corrected {
                exchange.converted_ns = counts.map(|count| scale.ns(count));
            } else {
                exchange.count_request += counts[0];
                exchange.count_response += counts[1];
                put_back(&mut exchange.t2, counts[0]);
                put_back(&mut exchange.t4, counts[1]);
            }
        }
    }

    /// The exchanges: each Delay_Req that was answered, with the newest Sync received before it was sent. A Sync may
    /// serve several; a Delay_Req before the first Sync serves none. Where peers asked each other, each Sync goes with the
    /// newest of their exchanges that was complete before it came.
    pub fn samples(&self, scale: MarkScale) -> Vec<ClockSample> {
        if !self.peer_delays.is_empty() {
            let mut peers = self.peer_delays.clone();
            peers.sort_by_key(|exchange| exchange.t4);
            let sample = |sync: &SyncRecord| {
                let before = peers.partition_point(|exchange| exchange.t4 <= sync.t2);
                Some(ClockSample::peer(sync, peers[..before].last()?, scale))
            };
            return self.syncs.iter().filter_map(sample).collect();
        }
        let mut syncs = self.syncs.clone();
        syncs.sort_by_key(|sync| sync.t2);
        self.delays
            .iter()
            .filter_map(|delay| {
                let before = syncs.partition_point(|sync| sync.t2 <= delay.t3);
                Some(ClockSample::new(syncs[..before].last()?, delay, scale))
            })
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::clock::Saturation;

    const SERVER: PortIdentity = PortIdentity([1; 10]);
    const CLIENT: PortIdentity = PortIdentity([2; 10]);
    const T: u64 = 1_790_000_000_000_000_000;
    pub(crate) const SCALE_US: MarkScale =
        MarkScale { delta_ps: 10_000_000, saturated_at: Saturation::both(4) };

    pub(crate) fn sync(sequence: u16, t1: u64, wait: u64) -> SyncRecord {
        SyncRecord {
            sequence,
            source: SERVER,
            t1: T + t1,
            t2: T + t1 + wait,
            correction: 0,
            count: 0,
            converted_ns: 0.0,
        }
    }

    pub(crate) fn delay(sequence: u16, t3: u64, wait: u64) -> DelayRecord {
        DelayRecord {
            sequence,
            source: CLIENT,
            t3: T + t3,
            t4: T + t3 + wait,
            correction: 0,
            count: 0,
            count_in_correction: 0,
            converted_ns: 0.0,
        }
    }

    #[test]
    fn what_a_switch_or_the_server_converted_is_left_out_of_raw_only() {
        // 30 us of marks and 2 us of lateness, both in correctionField; 36 us on the way.
        let mut recording = Recording {
            domain: 4,
            syncs: vec![SyncRecord { correction: 32_000 << 16, ..sync(1, 0, 36_000) }],
            delays: vec![DelayRecord {
                correction: 10_000 << 16,
                count_in_correction: 1,
                ..delay(2, 50_000, 14_000)
            }],
            ..Recording::default()
        };
        recording.join(|id, at| {
            let sync =
                MessageId { domain: 4, message_type: 0, sequence_id: 1, source_port_identity: [1; 10] };
            (*id == sync && at == T + 36_000).then_some(30_000)
        });
        let sample = recording.samples(SCALE_US)[0];
        assert_eq!((sample.n_sync, sample.n_delay), (3, 1));
        assert_eq!((sample.correction_sync_ns, sample.correction_delay_ns), (2_000.0, 0.0));
        assert_eq!((sample.raw_ns, sample.compensated_ns), (10_000.0, 0.0));
    }

    #[test]
    fn a_delay_goes_with_the_newest_sync_received_before_it() {
        let recording = Recording {
            domain: 0,
            // The second one waited long: it completed after the third.
            syncs: vec![sync(1, 0, 10), sync(3, 200, 10), sync(2, 100, 500)],
            delays: vec![delay(7, 5, 1), delay(8, 150, 1), delay(9, 210, 1), delay(10, 700, 1)],
            ..Recording::default()
        };
        let pairs: Vec<_> =
            recording.samples(SCALE_US).iter().map(|sample| (sample.seq, sample.sync_seq)).collect();
        assert_eq!(pairs, [(8, 1), (9, 3), (10, 2)]);
    }

    #[test]
    fn peers_take_the_mean_of_their_own_exchange_and_marks_of_all_three_messages_count() {
        let exchange = PeerDelayRecord {
            sequence: 5,
            source: CLIENT,
            peer: SERVER,
            t1: T,
            t2: T + 24_000,
            t3: T + 30_000,
            t4: T + 44_000,
            correction_request: 0,
            correction_response: 10_000 << 16,
            count_request: 2,
            count_response: 0,
            converted_ns: [0.0, 0.0],
        };
        let mut recording = Recording {
            syncs: vec![sync(1, 0, 9), SyncRecord { count: 3, ..sync(2, 50_000, 34_000) }],
            peer_delays: vec![exchange],
            ..Recording::default()
        };
        // An edge put the answer's mark into its correctionField: the path takes 4 us, 24 and 14 us with their waits.
        recording
            .join(|id, _| (id.message_type == 3 && id.source_port_identity == [1; 10]).then_some(10_000));
        let samples = recording.samples(SCALE_US);
        assert_eq!(samples.len(), 1, "the first Sync came before any delay was known");
        let sample = samples[0];
        assert_eq!((sample.raw_delay_ns, sample.compensated_delay_ns), (19_000.0, 4_000.0));
        assert_eq!((sample.raw_ns, sample.compensated_ns), (15_000.0, 0.0));
        assert_eq!((sample.n_sync, sample.n_delay, sample.n_response, sample.saturated), (3, 2, 1, false));
    }

    #[test]
    fn what_a_shim_took_is_put_back_for_raw_and_left_out_of_compensated() {
        for corrected in [false, true] {
            // 36 us on the way, 30 of them marked; the shim told 6 us, or corrected 30.
            let sync = if corrected {
                SyncRecord { correction: 30_000 << 16, ..sync(1, 0, 36_000) }
            } else {
                sync(1, 0, 6_000)
            };
            let mut recording = Recording {
                syncs: vec![sync],
                delays: vec![delay(2, 50_000, 4_000)],
                ..Recording::default()
            };
            recording.helped(corrected, SCALE_US, |id, _| if id.message_type == 0 { 3 } else { 0 });
            let sample = recording.samples(SCALE_US)[0];
            assert_eq!(
                (sample.raw_ns, sample.compensated_ns, sample.n_sync),
                (16_000.0, 1_000.0, 3),
                "{corrected}"
            );
        }
    }
}
