//! Recorded histograms: counts of delays by interval.

use std::sync::Arc;

use crate::{
    Moments,
    error::{ModelError, not_negative},
};

/// Counts by interval, delays spread evenly within each. Cheap to clone.
///
/// Where within its interval a delay was is not known: P(X > x) is wrong by at most the share of the interval that x
/// falls into, the mean by half the mean width; both are exact where thresholds lie on the intervals' ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bins: Arc<Bins>,
}

#[derive(Debug, PartialEq)]
struct Bins {
    /// Increasing, not overlapping.
    bins: Vec<Bin>,
    /// Of this interval and those above, about 0; one more than intervals.
    from: Vec<Moments>,
}

/// Delays in (from, to], or at `from` exactly where both are the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Lower end, ns.
    pub from_ns: f64,
    /// Upper end, ns.
    pub to_ns: f64,
    /// How many delays.
    pub count: u64,
}

impl Bin {
    /// Moments of what lies above x, of one delay in here, about 0.
    fn above(&self, x: f64) -> Moments {
        let (a, b) = (x.max(self.from_ns), self.to_ns);
        if self.from_ns == self.to_ns {
            return if self.from_ns > x { Moments::atom(1.0, self.from_ns) } else { Moments::default() };
        }
        if a >= b {
            return Moments::default();
        }
        let mass = (b - a) / (b - self.from_ns);
        Moments { mass, first: mass * 0.5 * (a + b), second: mass * (a * a + a * b + b * b) / 3.0 }
    }
}

impl Histogram {
    /// Intervals in any order; empty ones are left out.
    ///
    /// # Errors
    /// [`ModelError::Range`] where nothing was counted, an end is negative, not finite or below the other one, or two
    /// intervals overlap.
    pub fn new(bins: &[Bin]) -> Result<Self, ModelError> {
        let mut bins: Vec<_> = bins.iter().copied().filter(|bin| bin.count > 0).collect();
        if bins.is_empty() {
            return Err(ModelError::range("histogram", "empty", "at least one delay"));
        }
        for bin in &bins {
            not_negative("lower end of an interval", bin.from_ns)?;
            not_negative("upper end of an interval", bin.to_ns)?;
            if bin.to_ns < bin.from_ns {
                return Err(ModelError::range(
                    "upper end of an interval",
                    bin.to_ns,
                    "no less than the lower",
                ));
            }
        }
        bins.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns).then(a.to_ns.total_cmp(&b.to_ns)));
        if let Some(pair) = bins.windows(2).find(|pair| pair[1].from_ns < pair[0].to_ns) {
            return Err(ModelError::range(
                "lower end of an interval",
                pair[1].from_ns,
                "no less than the upper of the one before",
            ));
        }
        let all: u64 = bins.iter().map(|bin| bin.count).sum();
        let mut from = vec![Moments::default(); bins.len() + 1];
        for (i, bin) in bins.iter().enumerate().rev() {
            from[i] = from[i + 1];
            from[i] += bin.above(f64::NEG_INFINITY).times(bin.count as f64 / all as f64);
        }
        // What rounding left of the whole.
        from[0].mass = 1.0;
        Ok(Self { bins: Arc::new(Bins { bins, from }) })
    }

    pub(super) fn above(&self, x: f64, about: f64) -> Moments {
        let Bins { bins, from } = &*self.bins;
        let first = bins.partition_point(|bin| bin.to_ns <= x);
        let mut moments = from[first];
        if let Some(bin) = bins.get(first).filter(|bin| bin.from_ns < x) {
            let share = from[first].mass - from[first + 1].mass;
            moments = from[first + 1];
            moments += bin.above(x).times(share);
        }
        moments.raised(-about)
    }

    /// The delay that the share `uniform` of all, 0..1, does not exceed.
    pub(super) fn sample(&self, uniform: f64) -> f64 {
        let Bins { bins, from } = &*self.bins;
        let beyond = 1.0 - uniform;
        let at = from[1..].partition_point(|tail| tail.mass >= beyond).min(bins.len() - 1);
        let (low, high) = (from[at + 1].mass, from[at].mass);
        bins[at].from_ns
            + (bins[at].to_ns - bins[at].from_ns) * ((high - beyond) / (high - low)).clamp(0.0, 1.0)
    }

    /// The intervals, increasing.
    pub fn bins(&self) -> &[Bin] {
        &self.bins.bins
    }

    /// The upper end of the highest interval, ns.
    pub fn largest_ns(&self) -> f64 {
        self.bins.bins.last().map_or(0.0, |bin| bin.to_ns)
    }

    pub(super) fn scaled(&self, factor: f64) -> Result<Self, ModelError> {
        let scaled = |bin: &Bin| Bin { from_ns: bin.from_ns * factor, to_ns: bin.to_ns * factor, ..*bin };
        Self::new(&self.bins.bins.iter().map(scaled).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(from_ns: f64, to_ns: f64, count: u64) -> Bin {
        Bin { from_ns, to_ns, count }
    }

    #[test]
    fn an_atom_and_an_interval() {
        let law = Histogram::new(&[bin(10.0, 20.0, 1), bin(0.0, 0.0, 3), bin(30.0, 40.0, 0)]).unwrap();
        let all = law.above(-1.0, 0.0);
        assert!((all.first - 15.0 / 4.0).abs() < 1e-12);
        assert!((all.second - (400.0 + 200.0 + 100.0) / 12.0).abs() < 1e-12);
        assert_eq!(law.above(0.0, 0.0).mass, 0.25);
        let half = law.above(15.0, 15.0);
        assert!((half.mass - 0.125).abs() < 1e-15 && (half.first - 0.125 * 2.5).abs() < 1e-12);
        assert!((half.second - 0.125 * 25.0 / 3.0).abs() < 1e-12);
        assert_eq!(law.above(20.0, 0.0), Moments::default());
        assert_eq!(law.largest_ns(), 20.0);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |bins: &[Bin]| Histogram::new(bins).unwrap_err().to_string();
        assert!(said(&[bin(0.0, 1.0, 0)]).starts_with("histogram is empty"));
        assert!(said(&[bin(-1.0, 1.0, 1)]).starts_with("lower end of an interval is -1"));
        assert!(said(&[bin(2.0, 1.0, 1)]).starts_with("upper end of an interval is 1; it must be no less"));
        assert!(said(&[bin(0.0, 2.0, 1), bin(1.0, 3.0, 1)]).contains("one before"));
    }
}
