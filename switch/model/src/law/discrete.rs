//! Delays that take finitely many values: a constant, points with probabilities, recorded samples.

use std::sync::Arc;

use crate::{
    Moments,
    error::{ModelError, not_negative, positive},
};

/// Values with probabilities. Cheap to clone.
///
/// Moments of a tail are one binary search in sums that were made once, so an evaluation costs the same for a hundred
/// samples as for a million. Exact but for rounding: about 1e-16 of the law's variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Discrete {
    sums: Arc<Sums>,
}

#[derive(Debug, PartialEq)]
struct Sums {
    /// Increasing, each once.
    values: Vec<f64>,
    /// What sums are about: the mean, so that they lose little where the law is far from 0.
    centre: f64,
    /// Of the values from this one on; one more than values, the last all zero.
    from: Vec<Moments>,
}

impl Discrete {
    /// The same delay always, in ns.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a delay that is negative or not finite.
    pub fn constant(delay_ns: f64) -> Result<Self, ModelError> {
        Self::points(&[(delay_ns, 1.0)])
    }

    /// Delays in ns with their probabilities (weights: they are divided by their sum).
    ///
    /// # Errors
    /// [`ModelError::Range`] without points, on a delay that is negative or not finite, weights that are not above 0, or
    /// sums beyond what a number holds.
    pub fn points(points: &[(f64, f64)]) -> Result<Self, ModelError> {
        if points.is_empty() {
            return Err(ModelError::range("points", "empty", "at least one"));
        }
        for &(delay_ns, weight) in points {
            not_negative("delay of a point", delay_ns)?;
            positive("weight of a point", weight)?;
        }
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self::of_sorted(points.len(), |i| points[i])
    }

    /// Recorded delays in ns, each as likely as any other.
    ///
    /// # Errors
    /// [`ModelError::Range`] without samples, on one that is negative or not finite, or where sums are beyond what a
    /// number holds.
    pub fn samples(mut samples: Vec<f64>) -> Result<Self, ModelError> {
        if samples.is_empty() {
            return Err(ModelError::range("samples", "empty", "at least one"));
        }
        for &sample in &samples {
            not_negative("sample", sample)?;
        }
        samples.sort_unstable_by(f64::total_cmp);
        Self::of_sorted(samples.len(), |i| (samples[i], 1.0))
    }

    /// Of `len` values in increasing order, each with its weight.
    fn of_sorted(len: usize, point: impl Fn(usize) -> (f64, f64)) -> Result<Self, ModelError> {
        let (mut weight, mut centre) = (Compensated::default(), Compensated::default());
        for (value, w) in (0..len).map(&point) {
            weight.add(w);
            centre.add(value * w);
        }
        let weight = weight.total();
        let centre = centre.total() / weight;
        let mut values = Vec::with_capacity(len);
        let mut from = Vec::with_capacity(len + 1);
        from.push(Moments::default());
        let [mut mass, mut first, mut second] = [Compensated::default(); 3];
        for i in (0..len).rev() {
            let (value, w) = point(i);
            let part = Moments::atom(w, value - centre);
            mass.add(part.mass);
            first.add(part.first);
            second.add(part.second);
            if i == 0 || point(i - 1).0 != value {
                values.push(value);
                let sum = Moments { mass: mass.total(), first: first.total(), second: second.total() };
                from.push(sum.times(1.0 / weight));
            }
        }
        values.reverse();
        from.reverse();
        // What rounding left of the whole.
        from[0].mass = 1.0;
        if !centre.is_finite() || !from[0].second.is_finite() {
            let range = "so that it and the sum of squares are finite";
            return Err(ModelError::range("sum of weights or weighted delays", "beyond all numbers", range));
        }
        Ok(Self { sums: Arc::new(Sums { values, centre, from }) })
    }

    /// The values, increasing, with the probability of each.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        let sums = &*self.sums;
        sums.values.iter().enumerate().map(|(i, &value)| (value, sums.from[i].mass - sums.from[i + 1].mass))
    }

    /// The largest value, ns.
    pub fn largest_ns(&self) -> f64 {
        self.sums.values.last().copied().unwrap_or(0.0)
    }

    pub(super) fn above(&self, x: f64, about: f64) -> Moments {
        let first = self.sums.values.partition_point(|&value| value <= x);
        self.sums.from[first].raised(self.sums.centre - about)
    }

    /// The smallest value that is exceeded with a probability of at most `beyond`.
    pub(super) fn inverse(&self, beyond: f64) -> f64 {
        let at = self.sums.from[1..].partition_point(|tail| tail.mass > beyond);
        self.sums.values.get(at).copied().unwrap_or_else(|| self.largest_ns())
    }

    pub(super) fn scaled(&self, factor: f64) -> Result<Self, ModelError> {
        Self::points(&self.values().map(|(value, weight)| (value * factor, weight)).collect::<Vec<_>>())
    }
}

/// A sum that keeps what each addition rounds off (Knuth's two-sum).
#[derive(Clone, Copy, Default)]
struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    #[inline]
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let of_value = sum - self.sum;
        self.lost += (self.sum - (sum - of_value)) + (value - of_value);
        self.sum = sum;
    }

    const fn total(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_strict_and_values_are_merged() {
        let law = Discrete::samples(vec![10.0, 0.0, 10.0, 30.0]).unwrap();
        assert_eq!(law.values().collect::<Vec<_>>(), [(0.0, 0.25), (10.0, 0.5), (30.0, 0.25)]);
        assert_eq!(law.above(-1.0, 0.0), Moments { mass: 1.0, first: 12.5, second: 275.0 });
        assert_eq!(law.above(10.0, 0.0), Moments { mass: 0.25, first: 7.5, second: 225.0 });
        assert_eq!(law.above(9.9, 10.0), Moments { mass: 0.75, first: 5.0, second: 100.0 });
        assert_eq!(law.above(30.0, 7.0), Moments::default());
    }

    #[test]
    fn quantiles_are_values() {
        let law = Discrete::samples(vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        for (beyond, value) in
            [(1.0, 1.0), (0.8, 1.0), (0.75, 1.0), (0.7, 2.0), (0.25, 3.0), (0.2, 4.0), (0.0, 4.0)]
        {
            assert_eq!(law.inverse(beyond), value, "{beyond}");
        }
    }

    #[test]
    fn delays_far_from_zero_keep_their_variance() {
        let law = Discrete::samples((0..100_000).map(|i| 1e9 + f64::from(i % 2)).collect()).unwrap();
        assert!((law.above(-1.0, 1e9 + 0.5).variance() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(
            Discrete::samples(vec![]).unwrap_err().to_string(),
            "samples is empty; it must be at least one"
        );
        assert!(Discrete::samples(vec![1.0, -1.0]).unwrap_err().to_string().starts_with("sample is -1; "));
        assert!(Discrete::points(&[]).unwrap_err().to_string().starts_with("points is empty"));
        assert!(
            Discrete::points(&[(1.0, 0.0)]).unwrap_err().to_string().starts_with("weight of a point is 0")
        );
        assert!(Discrete::constant(f64::INFINITY).is_err());
        // Each is a number, their sum or the sum of their squares is none.
        for overflows in [
            Discrete::points(&[(0.0, 1e308), (1.0, 1e308)]),
            Discrete::samples(vec![1e308, 1e308]),
            Discrete::samples(vec![0.0, 1e200]),
        ] {
            assert!(
                overflows.unwrap_err().to_string().starts_with("sum of weights or weighted delays is beyond")
            );
        }
    }
}
