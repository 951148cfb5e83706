//! One exchange, and the offsets that follow from it: raw, and after n*delta is taken off.

use super::{DelayRecord, MarkScale, PeerDelayRecord, SyncRecord};
use serde::Serialize;

/// correctionField's unit: 2^-16 ns (IEEE 1588-2019 clause 13.3.2).
const SCALE: f64 = 65_536.0;

/// One exchange: a Delay_Req and the newest Sync before it; by peer delay a Sync and the newest exchange of Pdelay_Req and
/// Pdelay_Resp before it, whose request stands in place of the Delay_Req.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClockSample {
    /// sequenceId of the Delay_Req.
    pub seq: u16,
    /// sequenceId of the Sync.
    pub sync_seq: u16,
    /// When the server sent the Sync, CLOCK_REALTIME in nanoseconds.
    pub t1: u64,
    /// When the client received it.
    pub t2: u64,
    /// When the client sent the Delay_Req.
    pub t3: u64,
    /// When the server received it.
    pub t4: u64,
    /// correctionField on the way to the client, in nanoseconds, without what stands for marks.
    pub correction_sync_ns: f64,
    /// correctionField on the way to the server, without what stands for marks.
    pub correction_delay_ns: f64,
    /// Marks that the Sync gathered.
    pub n_sync: u32,
    /// Marks that the Delay_Req gathered.
    pub n_delay: u32,
    /// Marks that a Pdelay_Resp gathered; 0 end to end.
    pub n_response: u32,
    /// Whether one of them may stand for less than the wait.
    pub saturated: bool,
    /// Offset without the marks: ((t2 - t1 - c1) - (t4 - t3 - c2)) / 2, the paper's equation 3; by peer delay t2 - t1 - c1
    /// less the mean delay of the peers' own exchange.
    pub raw_ns: f64,
    /// The same after n*delta is taken from either direction.
    pub compensated_ns: f64,
    /// Mean delay of the two directions without the marks.
    pub raw_delay_ns: f64,
    /// The same after n*delta is taken from either direction.
    pub compensated_delay_ns: f64,
}

impl ClockSample {
    /// The exchange of this Sync and this Delay_Req.
    pub fn new(sync: &SyncRecord, delay: &DelayRecord, scale: MarkScale) -> Self {
        // Marks as time, wherever they are; and corrections without those that are in them.
        let sync_marks = scale.to_client_ns(sync.count) + sync.converted_ns;
        let correction_sync_ns = sync.correction as f64 / SCALE - sync.converted_ns;
        let in_delay = scale.to_server_ns(delay.count_in_correction) + delay.converted_ns;
        let delay_marks = scale.to_server_ns(delay.count) + in_delay;
        let correction_delay_ns = delay.correction as f64 / SCALE - in_delay;
        let forward = difference(delay.t4, delay.t3) - correction_delay_ns;
        let reverse = difference(sync.t2, sync.t1) - correction_sync_ns;
        let (raw_ns, raw_delay_ns) = ((reverse - forward) / 2.0, (reverse + forward) / 2.0);
        let n_sync = sync.count + scale.count(sync.converted_ns);
        let n_delay = delay.count + delay.count_in_correction + scale.count(delay.converted_ns);
        Self {
            seq: delay.sequence,
            sync_seq: sync.sequence,
            t1: sync.t1,
            t2: sync.t2,
            t3: delay.t3,
            t4: delay.t4,
            correction_sync_ns,
            correction_delay_ns,
            n_sync,
            n_delay,
            n_response: 0,
            saturated: scale.saturated_at.reached(n_sync, n_delay),
            raw_ns,
            compensated_ns: raw_ns - (sync_marks - delay_marks) / 2.0,
            raw_delay_ns,
            compensated_delay_ns: raw_delay_ns - (sync_marks + delay_marks) / 2.0,
        }
    }

    /// The exchange of this Sync and these messages of peer delay.
    pub fn peer(sync: &SyncRecord, exchange: &PeerDelayRecord, scale: MarkScale) -> Self {
        let [in_request, in_response] = exchange.converted_ns;
        // Delays without what stands for marks in their corrections, and the marks as time.
        let delay = |later, earlier, correction: i64, converted: f64| {
            difference(later, earlier) - (correction as f64 / SCALE - converted)
        };
        let request = delay(exchange.t2, exchange.t1, exchange.correction_request, in_request);
        let response = delay(exchange.t4, exchange.t3, exchange.correction_response, in_response);
        let reverse = delay(sync.t2, sync.t1, sync.correction, sync.converted_ns);
        let sync_marks = scale.to_client_ns(sync.count) + sync.converted_ns;
        let peer_marks = scale.to_server_ns(exchange.count_request)
            + in_request
            + scale.to_client_ns(exchange.count_response)
            + in_response;
        let raw_delay_ns = (request + response) / 2.0;
        let compensated_delay_ns = raw_delay_ns - peer_marks / 2.0;
        let n_sync = sync.count + scale.count(sync.converted_ns);
        let n_delay = exchange.count_request + scale.count(in_request);
        let n_response = exchange.count_response + scale.count(in_response);
        Self {
            seq: exchange.sequence,
            sync_seq: sync.sequence,
            t1: sync.t1,
            t2: sync.t2,
            t3: exchange.t1,
            t4: exchange.t2,
            correction_sync_ns: sync.correction as f64 / SCALE - sync.converted_ns,
            correction_delay_ns: exchange.correction_request as f64 / SCALE - in_request,
            n_sync,
            n_delay,
            n_response,
            saturated: scale.saturated_at.reached(n_sync.max(n_response), n_delay),
            raw_ns: reverse - raw_delay_ns,
            compensated_ns: reverse - sync_marks - compensated_delay_ns,
            raw_delay_ns,
            compensated_delay_ns,
        }
    }

    /// What a daemon measured by a Sync that takes the delay of the path from elsewhere: its offset, raw and compensated
    /// being the same.
    pub fn by_path_delay(sync: &SyncRecord, delay_ns: f64) -> Self {
        let correction_sync_ns = sync.correction as f64 / SCALE;
        let offset_ns = difference(sync.t2, sync.t1) - correction_sync_ns - delay_ns;
        Self {
            seq: sync.sequence,
            sync_seq: sync.sequence,
            t1: sync.t1,
            t2: sync.t2,
            t3: 0,
            t4: 0,
            correction_sync_ns,
            correction_delay_ns: 0.0,
            n_sync: 0,
            n_delay: 0,
            n_response: 0,
            saturated: false,
            raw_ns: offset_ns,
            compensated_ns: offset_ns,
            raw_delay_ns: delay_ns,
            compensated_delay_ns: delay_ns,
        }
    }

    /// The same exchange as a daemon measured it that somebody else helps: that is the compensated offset and delay.
    pub fn measured(self, offset_ns: f64, delay_ns: f64) -> Self {
        Self { compensated_ns: offset_ns, compensated_delay_ns: delay_ns, ..self }
    }

    /// The same exchange of a daemon that nobody helps: what it measured is the raw offset and delay, and there is no
    /// other.
    pub fn unhelped(self, offset_ns: f64, delay_ns: f64) -> Self {
        Self { raw_ns: offset_ns, raw_delay_ns: delay_ns, ..self }.measured(offset_ns, delay_ns)
    }
}

fn difference(later: u64, earlier: u64) -> f64 {
    later.wrapping_sub(earlier).cast_signed() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{
        Recording, Saturation,
        record::tests::{SCALE_US, delay, sync},
    };

    #[test]
    fn marks_are_taken_from_their_own_direction_and_halved() {
        let marked = SyncRecord { count: 3, ..sync(1, 0, 34_000) };
        let sample = ClockSample::new(&marked, &delay(9, 100_000, 4_000), SCALE_US);
        assert_eq!((sample.raw_ns, sample.compensated_ns), (15_000.0, 0.0));
        assert_eq!((sample.n_sync, sample.n_delay, sample.saturated), (3, 0, false));
        let marked = DelayRecord { count: 4, ..delay(9, 100_000, 44_000) };
        let sample = ClockSample::new(&sync(1, 0, 4_000), &marked, SCALE_US);
        assert_eq!((sample.raw_ns, sample.compensated_ns), (-20_000.0, 0.0));
        assert!(sample.saturated);
        // Six marks where four are the most that the way can say.
        let forged = SyncRecord { count: 6, ..sync(1, 0, 44_000) };
        let sample = ClockSample::new(&forged, &delay(9, 100_000, 4_000), SCALE_US);
        assert_eq!((sample.raw_ns, sample.compensated_ns, sample.n_sync), (20_000.0, 0.0, 6));
        let forged = SyncRecord { count: u32::MAX, ..forged };
        let boundless = MarkScale { saturated_at: Saturation::both(u32::MAX), ..SCALE_US };
        let sample = ClockSample::new(&forged, &delay(9, 100_000, 4_000), boundless);
        assert_eq!(sample.compensated_ns, 20_000.0 - 5e8, "1 s at most");
        let unmarked = MarkScale { delta_ps: 0, saturated_at: Saturation::both(0) };
        assert!(!ClockSample::new(&sync(1, 0, 4_000), &delay(9, 0, 1), unmarked).saturated);
    }

    #[test]
    fn each_way_s_marks_are_believed_by_what_that_way_can_say() {
        for (saturated_at, sync_marks, delay_marks, compensated) in [
            (Saturation { to_client: 4, to_server: 0 }, 3, 0, 0.0),
            (Saturation { to_client: 0, to_server: 4 }, 0, 3, 0.0),
            // Forged where nothing marks.
            (Saturation { to_client: 0, to_server: 4 }, 3, 0, 15_000.0),
            (Saturation { to_client: 4, to_server: 2 }, 0, 3, -5_000.0),
        ] {
            let scale = MarkScale { saturated_at, ..SCALE_US };
            let wait = |marks: u32| 4_000 + 10_000 * u64::from(marks);
            let sync = SyncRecord { count: sync_marks, ..sync(1, 0, wait(sync_marks)) };
            let delay = DelayRecord { count: delay_marks, ..delay(9, 100_000, wait(delay_marks)) };
            let sample = ClockSample::new(&sync, &delay, scale);
            assert_eq!(sample.compensated_ns, compensated, "{saturated_at:?}");
            assert_eq!(
                sample.saturated,
                delay_marks >= saturated_at.to_server && saturated_at.to_server == 2
            );
            // Put back by a shim's record, and taken again: no more, no less.
            let mut recording = Recording {
                syncs: vec![SyncRecord {
                    count: 0,
                    t2: sync.t2 - 10_000 * u64::from(sync_marks.min(saturated_at.to_client)),
                    ..sync
                }],
                delays: vec![DelayRecord {
                    count: 0,
                    t4: delay.t4 - 10_000 * u64::from(delay_marks.min(saturated_at.to_server)),
                    ..delay
                }],
                ..Recording::default()
            };
            recording.helped(
                false,
                scale,
                |id, _| if id.message_type == 0 { sync_marks } else { delay_marks },
            );
            let helped = recording.samples(scale)[0];
            assert_eq!(
                (helped.raw_ns, helped.compensated_ns),
                (sample.raw_ns, compensated),
                "{saturated_at:?}"
            );
        }
    }

    #[test]
    fn corrections_of_lateness_count_in_both_figures_and_keep_their_fraction() {
        let late = SyncRecord { correction: (7_000 << 16) + 0x8000, ..sync(1, 0, 11_001) };
        let sample = ClockSample::new(&late, &delay(2, 50_000, 4_000), SCALE_US);
        assert_eq!(sample.correction_sync_ns, 7_000.5);
        assert_eq!((sample.raw_ns, sample.compensated_ns), (0.25, 0.25));
        let late = DelayRecord { correction: -(1_000 << 16), ..delay(2, 50_000, 4_000) };
        assert_eq!(ClockSample::new(&sync(1, 0, 4_000), &late, SCALE_US).raw_ns, -500.0);
    }
}
