//! Filters of offsets, as clocks use them (paper II-B, VI-B): what a window of exchanges makes of the last one.
//!
//! An exchange is two measured delays, forward T2 - T1 and reverse T4 - T3, both with the clock's offset in it; its raw
//! offset is (forward - reverse)/2 and its delay (forward + reverse)/2. Feed raw delays, or those that marks have
//! corrected: the filter is the same.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::error::ModelError;

/// How offsets are filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// Each exchange's own offset.
    #[default]
    None,
    /// The last forward delay less the median of the window's delays. This is ptp4l's default (`delay_filter
    /// moving_median`, `tsproc_mode filter`), not the median of offsets: the forward delay enters in full, not halved.
    MedianDelay,
    /// The last forward delay less the mean of the window's delays: ptp4l's `delay_filter moving_average`.
    MeanDelay,
    /// Median of the window's offsets.
    MedianOffset,
    /// Mean of the window's offsets: a moving average.
    MeanOffset,
    /// The offset of the exchange with the least round trip in the window; of equal ones the newest (chrony, NTP).
    MinRtt,
}

impl Filter {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::MedianDelay, Self::MeanDelay, Self::MedianOffset, Self::MeanOffset, Self::MinRtt];

    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::MedianDelay => "median-delay",
            Self::MeanDelay => "mean-delay",
            Self::MedianOffset => "median-offset",
            Self::MeanOffset => "mean-offset",
            Self::MinRtt => "min-rtt",
        }
    }
}

/// A filter with its window.
#[derive(Clone, Debug)]
pub struct Window {
    filter: Filter,
    length: usize,
    /// Forward and reverse of the last exchanges, oldest first.
    exchanges: VecDeque<(f64, f64)>,
    sorted: Vec<f64>,
}

impl Window {
    /// A filter over the last `length` exchanges (M), 1 or more.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a length of 0.
    pub fn new(filter: Filter, length: usize) -> Result<Self, ModelError> {
        if length == 0 {
            return Err(ModelError::range("filter window (M)", length, "1 or more"));
        }
        Ok(Self { filter, length, exchanges: VecDeque::with_capacity(length), sorted: vec![] })
    }

    /// Takes an exchange's delays in ns; the filtered offset of forward over reverse, ns. Until the window is full, it
    /// is as long as there are exchanges.
    pub fn push(&mut self, forward_ns: f64, reverse_ns: f64) -> f64 {
        if self.exchanges.len() == self.length {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back((forward_ns, reverse_ns));
        let delay = |&(f, r): &(f64, f64)| 0.5 * (f + r);
        let offset = |&(f, r): &(f64, f64)| 0.5 * (f - r);
        let mean = |of: fn(&(f64, f64)) -> f64, window: &VecDeque<_>| {
            window.iter().map(of).sum::<f64>() / window.len() as f64
        };
        match self.filter {
            Filter::None => 0.5 * (forward_ns - reverse_ns),
            Filter::MedianDelay => forward_ns - self.median(delay),
            Filter::MeanDelay => forward_ns - mean(delay, &self.exchanges),
            Filter::MedianOffset => self.median(offset),
            Filter::MeanOffset => mean(offset, &self.exchanges),
            Filter::MinRtt => {
                self.exchanges.iter().rev().min_by(|a, b| delay(a).total_cmp(&delay(b))).map_or(0.0, offset)
            }
        }
    }

    /// Of an even number the mean of the two in the middle, as linuxptp takes it.
    fn median(&mut self, of: impl Fn(&(f64, f64)) -> f64) -> f64 {
        self.sorted.clear();
        self.sorted.extend(self.exchanges.iter().map(of));
        self.sorted.sort_unstable_by(f64::total_cmp);
        let middle = self.sorted.len() / 2;
        if self.sorted.len() % 2 == 1 {
            self.sorted[middle]
        } else {
            0.5 * (self.sorted[middle - 1] + self.sorted[middle])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset 100, symmetric base delay 1000, and these queueing delays.
    fn run(filter: Filter, length: usize, queues: &[(f64, f64)]) -> Vec<f64> {
        let mut window = Window::new(filter, length).unwrap();
        queues.iter().map(|&(f, r)| window.push(1100.0 + f, 900.0 + r)).collect()
    }

    #[test]
    fn each_filter_by_hand() {
        let queues = [(0.0, 0.0), (60.0, 0.0), (0.0, 20.0), (8.0, 8.0)];
        assert_eq!(run(Filter::None, 3, &queues), [100.0, 130.0, 90.0, 100.0]);
        // Delays 1000, 1030, 1010, 1008: medians 1000, 1015, 1010, 1010.
        assert_eq!(run(Filter::MedianDelay, 3, &queues), [100.0, 145.0, 90.0, 98.0]);
        assert_eq!(run(Filter::MeanDelay, 2, &queues), [100.0, 145.0, 80.0, 99.0]);
        assert_eq!(run(Filter::MedianOffset, 3, &queues), [100.0, 115.0, 100.0, 100.0]);
        assert_eq!(run(Filter::MeanOffset, 2, &queues), [100.0, 115.0, 110.0, 95.0]);
        assert_eq!(run(Filter::MinRtt, 3, &queues), [100.0, 100.0, 100.0, 100.0]);
        assert_eq!(run(Filter::MinRtt, 2, &queues), [100.0, 100.0, 90.0, 100.0]);
    }

    #[test]
    fn a_window_of_one_filters_nothing() {
        let queues = [(5.0, 1.0), (60.0, 3.0), (0.0, 20.0)];
        for filter in Filter::ALL {
            assert_eq!(run(filter, 1, &queues), run(Filter::None, 1, &queues), "{}", filter.name());
        }
    }

    #[test]
    fn the_newest_of_equal_round_trips_counts() {
        assert_eq!(run(Filter::MinRtt, 3, &[(4.0, 0.0), (0.0, 4.0), (9.0, 9.0)]), [102.0, 98.0, 98.0]);
    }

    #[test]
    fn no_window_is_refused() {
        let error = Window::new(Filter::MinRtt, 0).unwrap_err().to_string();
        assert_eq!(error, "filter window (M) is 0; it must be 1 or more");
    }
}
