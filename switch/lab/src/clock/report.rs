//! The figures of a clock: how far its offsets are from 0, with and without the marks.

use super::{ClockSample, Transport};
use plimsoll_model::{Filter, Window};
use serde::{Deserialize, Serialize};

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
    /// 99th percentile of the absolute values (nearest rank).
    pub abs_p99_ns: f64,
    /// Root of the mean square of the 99 % with the least absolute value.
    pub best_99_rms_ns: f64,
    /// Greatest absolute value.
    pub abs_max_ns: f64,
}

/// A filter over the last exchanges, as a clock may use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterChoice {
    /// Which.
    pub filter: Filter,
    /// M: how many exchanges, 1 or more.
    pub window: usize,
}

impl Default for FilterChoice {
    /// None, over one exchange.
    fn default() -> Self {
        Self { filter: Filter::None, window: 1 }
    }
}

impl FilterChoice {
    /// The largest window: as many as ptp4l's filters take.
    pub const LONGEST: usize = 128;
}

/// What a filter makes of the offsets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filtered {
    /// Which filter.
    #[serde(flatten)]
    pub choice: FilterChoice,
    /// Filtered offsets without the marks.
    pub raw: OffsetStatistics,
    /// Filtered offsets with them.
    pub compensated: OffsetStatistics,
    /// 1 - compensated/raw of their rms; 0 where nothing was measured.
    pub improvement: f64,
}

impl Filtered {
    /// Of these exchanges, raw and compensated each through a filter of its own. The first M - 1, whose window is not yet
    /// full, are left out where there are more.
    pub fn of(choice: FilterChoice, samples: &[ClockSample]) -> Self {
        let full = if samples.len() >= choice.window { choice.window.saturating_sub(1) } else { 0 };
        let through = |of| OffsetStatistics::of(Self::offsets(choice, samples, of).skip(full));
        let raw = through(|sample| (sample.raw_ns, sample.raw_delay_ns));
        let compensated = through(|sample| (sample.compensated_ns, sample.compensated_delay_ns));
        Self { choice, improvement: improvement(&raw, &compensated), raw, compensated }
    }

    /// The filtered offset at each of these exchanges; `of` gives an exchange's offset and delay.
    pub fn offsets(
        choice: FilterChoice,
        samples: &[ClockSample],
        of: fn(&ClockSample) -> (f64, f64),
    ) -> impl Iterator<Item = f64> {
        let window = Window::new(choice.filter, choice.window.max(1)).ok();
        window.into_iter().flat_map(move |mut window| {
            samples.iter().map(move |sample| {
                let (offset, delay) = of(sample);
                window.push(delay + offset, delay - offset)
            })
        })
    }
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
    /// What a filter makes of both; `null` where none was asked for.
    pub filtered: Option<Filtered>,
}

impl ClockReport {
    /// Of these exchanges, without a filter.
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
            improvement: improvement(&raw, &compensated),
            raw,
            compensated,
            filtered: None,
        }
    }

    /// The same with what a filter makes of these exchanges; nothing is added for a filter that is none.
    pub fn filtered(self, choice: FilterChoice, samples: &[ClockSample]) -> Self {
        let filtered = (choice.filter != Filter::None).then(|| Filtered::of(choice, samples));
        Self { filtered, ..self }
    }
}

/// The paper's I, by the rms; 0 where nothing was measured.
fn improvement(raw: &OffsetStatistics, compensated: &OffsetStatistics) -> f64 {
    if raw.rms_ns > 0.0 { 1.0 - compensated.rms_ns / raw.rms_ns } else { 0.0 }
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
            abs_p99_ns: offsets[(offsets.len() * 99).div_ceil(100) - 1],
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

    const SAMPLE: ClockSample = ClockSample {
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
        n_response: 0,
        saturated: false,
        raw_ns: 0.0,
        compensated_ns: 0.0,
        raw_delay_ns: 1000.0,
        compensated_delay_ns: 1000.0,
    };

    #[test]
    fn the_figures_of_known_offsets() {
        let found = OffsetStatistics::of([3.0, -1.0, -5.0, 1.0]);
        assert_eq!((found.rms_ns, found.mean_ns, found.median_ns), (3.0, -0.5, 0.0));
        assert_eq!((found.abs_median_ns, found.abs_max_ns, found.best_99_rms_ns), (2.0, 5.0, 3.0));
        assert_eq!(found.abs_p99_ns, 5.0);
        assert_eq!(OffsetStatistics::of((1..=200).map(f64::from)).abs_p99_ns, 198.0);
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
        let sample =
            |raw_ns, compensated_ns, saturated| ClockSample { saturated, raw_ns, compensated_ns, ..SAMPLE };
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

    #[test]
    fn a_filter_works_on_raw_and_compensated_apart_and_its_window_fills_first() {
        let sample = |raw_ns: f64, raw_delay_ns: f64| ClockSample {
            raw_ns,
            raw_delay_ns,
            compensated_ns: raw_ns / 10.0,
            compensated_delay_ns: 500.0,
            ..SAMPLE
        };
        // Waits of 0, 80, 0, 40 of Syncs over a path of 500.
        let samples = [sample(0.0, 500.0), sample(40.0, 540.0), sample(0.0, 500.0), sample(20.0, 520.0)];
        let of = |filter, window| {
            let report = ClockReport::new("a", "plimsoll", Transport::L2, &samples);
            report.filtered(FilterChoice { filter, window }, &samples).filtered.unwrap()
        };
        let least = of(Filter::MinRtt, 2);
        assert_eq!((least.raw.abs_max_ns, least.compensated.abs_max_ns), (0.0, 4.0));
        // Medians of three offsets: 0 and 20, of which the first two are while the window fills.
        let median = of(Filter::MedianOffset, 3);
        assert_eq!((median.raw.rms_ns, median.raw.abs_max_ns), (200.0f64.sqrt(), 20.0));
        assert!((median.improvement - 0.9).abs() < 1e-12);
        // ptp4l's: the Sync in full, less the median delay. 500 - 500, 580 - 520, 500 - 500, 540 - 510 without a window.
        assert_eq!(of(Filter::MedianDelay, 4).raw.rms_ns, 30.0);
        let none = ClockReport::new("a", "plimsoll", Transport::L2, &samples);
        assert_eq!(none.clone().filtered(FilterChoice::default(), &samples), none);
    }
}
