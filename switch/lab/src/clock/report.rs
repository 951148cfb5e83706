//! The figures of a clock: how far its offsets are from 0, with and without the marks.

use super::{ClockSample, Transport};
use serde::Serialize;

/// Offsets of one kind, in nanoseconds; the truth is 0. All 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OffsetStatistics {
    /// Root of the mean square.
    pub rms_ns: f64,
    /// Mean: the bias.
    pub mean_ns: f64,
    /// Standard deviation about the mean: the noise.
    pub deviation_ns: f64,
    /// Median.
    pub median_ns: f64,
    /// Median of the absolute values.
    pub abs_median_ns: f64,
    /// Root of the mean square of the 99 % with the least absolute value.
    pub best_99_rms_ns: f64,
    /// Greatest absolute value.
    pub abs_max_ns: f64,
}

/// One clock, as a line of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// The clock pair's name.
    pub name: String,
    /// What measured: `plimsoll` or `ptp4l`.
    pub daemon: String,
    /// What carried the messages.
    pub transport: Transport,
    /// Exchanges.
    pub samples: usize,
    /// Exchanges with a count at its largest: the wait may have been longer than it says.
    pub saturated: usize,
    /// Root mean square of the offsets without the marks.
    pub raw_rms_ns: f64,
    /// The same with them.
    pub compensated_rms_ns: f64,
    /// 1 - compensated/raw: the paper's I. 0 where nothing was measured.
    pub improvement: f64,
    /// Offsets without the marks.
    pub raw: OffsetStatistics,
    /// Offsets with them.
    pub compensated: OffsetStatistics,
}

impl ClockReport {
    /// Of these exchanges.
    pub fn new(
        name: impl Into<String>,
        daemon: impl Into<String>,
        transport: Transport,
        samples: &[ClockSample],
    ) -> Self {
        let raw = OffsetStatistics::of(samples.iter().map(|sample| sample.raw_ns));
        let compensated = OffsetStatistics::of(samples.iter().map(|sample| sample.compensated_ns));
        Self {
            name: name.into(),
            daemon: daemon.into(),
            transport,
            samples: samples.len(),
            saturated: samples.iter().filter(|sample| sample.saturated).count(),
            raw_rms_ns: raw.rms_ns,
            compensated_rms_ns: compensated.rms_ns,
            improvement: if raw.rms_ns > 0.0 { 1.0 - compensated.rms_ns / raw.rms_ns } else { 0.0 },
            raw,
            compensated,
        }
    }
}

impl OffsetStatistics {
    /// Of these offsets in nanoseconds.
    pub fn of(offsets: impl IntoIterator<Item = f64>) -> Self {
        let mut offsets: Vec<f64> = offsets.into_iter().collect();
        if offsets.is_empty() {
            return Self::default();
        }
        let mean_ns = offsets.iter().sum::<f64>() / offsets.len() as f64;
        let rms_ns = rms(&offsets);
        let deviation_ns =
            (offsets.iter().map(|x| (x - mean_ns).powi(2)).sum::<f64>() / offsets.len() as f64).sqrt();
        offsets.sort_by(f64::total_cmp);
        let median_ns = median(&offsets);
        for offset in &mut offsets {
            *offset = offset.abs();
        }
        offsets.sort_by(f64::total_cmp);
        // One of 100 is left out, none of fewer.
        let best = offsets.len() - offsets.len() / 100;
        Self {
            rms_ns,
            mean_ns,
            deviation_ns,
            median_ns,
            abs_median_ns: median(&offsets),
            best_99_rms_ns: rms(&offsets[..best]),
            abs_max_ns: offsets[offsets.len() - 1],
        }
    }
}

fn rms(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

/// Of sorted values, at least one.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_known_offsets() {
        let found = OffsetStatistics::of([3.0, -1.0, -5.0, 1.0]);
        assert_eq!((found.rms_ns, found.mean_ns, found.median_ns), (3.0, -0.5, 0.0));
        assert_eq!((found.abs_median_ns, found.abs_max_ns, found.best_99_rms_ns), (2.0, 5.0, 3.0));
        assert!((found.deviation_ns.powi(2) - (9.0 - 0.25)).abs() < 1e-9, "rms^2 = mean^2 + deviation^2");
        assert_eq!(OffsetStatistics::of([]), OffsetStatistics::default());
    }

    #[test]
    fn the_best_99_of_100_leave_out_the_worst_one() {
        let offsets = (0..200).map(|i| if i == 7 || i == 90 { -1e6 } else { 2.0 });
        let found = OffsetStatistics::of(offsets);
        assert_eq!(found.best_99_rms_ns, 2.0);
        assert_eq!(found.rms_ns, ((2e12 + 198.0 * 4.0) / 200.0f64).sqrt());
    }

    #[test]
    fn improvement_is_one_minus_the_ratio_and_the_keys_are_those_of_the_interface() {
        let sample = |raw_ns, compensated_ns, saturated| ClockSample {
            seq: 0,
            sync_seq: 0,
            t1: 0,
            t2: 0,
            t3: 0,
            t4: 0,
            correction_sync_ns: 0.0,
            correction_delay_ns: 0.0,
            n_sync: 0,
            n_delay: 0,
            saturated,
            raw_ns,
            compensated_ns,
        };
        let samples = [sample(100.0, 5.0, false), sample(-100.0, -5.0, true)];
        let report = ClockReport::new("a", "ptp4l", Transport::L2, &samples);
        assert_eq!((report.samples, report.saturated, report.improvement), (2, 1, 0.95));
        let json = serde_json::to_value(&report).unwrap();
        for key in
            ["name", "daemon", "transport", "samples", "raw_rms_ns", "compensated_rms_ns", "improvement"]
        {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["transport"], "l2");
        assert_eq!(ClockReport::new("a", "plimsoll", Transport::L2, &[]).improvement, 0.0);
    }
}
