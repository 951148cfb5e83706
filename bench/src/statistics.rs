//! Medians and percentiles of what was measured.

/// The median; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The smallest value that `share` (0..=1) of all do not exceed (nearest rank); 0 of nothing.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

/// Kolmogorov's and Smirnov's distance of two samples: the largest difference of their distribution functions. Ties
/// are one step of both.
pub(crate) fn ks_distance(one: &[f64], other: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (one, other) = (sorted(one), sorted(other));
    let share = |sorted: &[f64], x: f64| {
        sorted.partition_point(|value| *value <= x) as f64 / sorted.len().max(1) as f64
    };
    one.iter().chain(&other).map(|&x| (share(&one, x) - share(&other, x)).abs()).fold(0.0, f64::max)
}

/// The same of a sorted sample and a law with this distribution function, which has no atom where values repeat.
pub(crate) fn ks_distance_to(sorted: &[f64], law: impl Fn(f64) -> f64) -> f64 {
    let n = sorted.len() as f64;
    let mut most: f64 = 0.0;
    for group in sorted.chunk_by(|a, b| a == b).scan(0, |below, group| {
        let from = *below;
        *below += group.len();
        Some((group[0], from as f64 / n, *below as f64 / n))
    }) {
        let (x, before, after) = group;
        let at = law(x);
        // Nothing is below 0, where an atom of the law may be.
        let before = if x > 0.0 { at - before } else { 0.0 };
        most = most.max(before).max((after - at).abs());
    }
    most
}

/// The distance that samples of so many values of one continuous law exceed with probability `level` (asymptotic);
/// samples of a law with atoms exceed it less often.
pub(crate) fn ks_critical(one: usize, other: usize, level: f64) -> f64 {
    let (n, m) = (one as f64, other as f64);
    (-(level / 2.0).ln() / 2.0).sqrt() * ((n + m) / (n * m)).sqrt()
}

/// Correlation of values that stand `lag` apart; 0 where they do not vary.
pub(crate) fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let product = |a: &f64, b: &f64| (a - mean) * (b - mean);
    let variance: f64 = values.iter().map(|value| product(value, value)).sum();
    let together: f64 = values.iter().zip(values.iter().skip(lag)).map(|(a, b)| product(a, b)).sum();
    if variance > 0.0 { together / variance } else { 0.0 }
}

/// Percentiles as they are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
}

impl Percentiles {
    pub(crate) fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        Self {
            count: values.len() as u64,
            p50_ns: quantile(&values, 0.5),
            p90_ns: quantile(&values, 0.9),
            p99_ns: quantile(&values, 0.99),
            p999_ns: quantile(&values, 0.999),
            max_ns: values.last().copied().unwrap_or(0),
        }
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        write!(
            f,
            "p50 {:.2} p90 {:.2} p99 {:.2} p99.9 {:.1} max {:.0} us",
            us(self.p50_ns),
            us(self.p90_ns),
            us(self.p99_ns),
            us(self.p999_ns),
            us(self.max_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_correlations_of_known_samples() {
        assert_eq!(ks_distance(&[1.0, 2.0, 3.0, 4.0], &[3.0, 1.0, 4.0, 2.0]), 0.0);
        assert_eq!(ks_distance(&[0.0, 0.0, 0.0, 1.0], &[0.0, 1.0]), 0.25);
        assert_eq!(ks_distance(&[1.0, 2.0], &[5.0]), 1.0);
        let uniform = |x: f64| x.clamp(0.0, 1.0);
        assert!((ks_distance_to(&[0.1, 0.5, 0.6, 0.9], uniform) - 0.25).abs() < 1e-12);
        assert_eq!(ks_distance_to(&[0.5, 0.5], uniform), 0.5);
        // An atom at 0 that both have.
        assert!(ks_distance_to(&[0.0, 0.0, 0.75, 1.0], |x| 0.5 + 0.5 * uniform(x)) <= 0.375 + 1e-12);
        // 1.628 for 1 %, by the root of 2/n.
        assert!((ks_critical(200, 200, 0.01) - 0.1628).abs() < 1e-4);
        let square = [1.0, 1.0, -1.0, -1.0].repeat(100);
        assert!((autocorrelation(&square, 2) + 1.0).abs() < 0.01);
        assert!(autocorrelation(&square, 1).abs() < 0.01);
        assert_eq!(autocorrelation(&[3.0; 5], 1), 0.0);
    }

    #[test]
    fn medians_and_percentiles_of_known_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&values, q)), [1, 50, 99, 100]);
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(Percentiles::of(vec![7]).p99_ns, 7);
    }
}
