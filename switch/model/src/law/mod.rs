//! Laws of queueing delay at one hop (Q_{m,l}).
//!
//! Every law answers one question, [`Law::above`]: probability and the first two partial moments of the delays above
//! x, strictly. All else (bins, conditions, grids) is made of that.

mod discrete;
mod exponential;
mod gamma;
mod grammar;
mod histogram;

pub use discrete::Discrete;
pub use exponential::{Exponential, Mm1};
pub use gamma::Gamma;
pub use histogram::{Bin, Histogram};

use plimsoll_core::Rate;
use rand::Rng;
use rand_distr::Distribution as _;

use crate::{ModelError, Moments, error::positive};

/// A law of queueing delays, which are never negative.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// Exponential with an atom at zero; closed form.
    Exponential(Exponential),
    /// Wait in an M/M/1 queue; closed form.
    Mm1(Mm1),
    /// Gamma with an atom at zero; closed form by the incomplete gamma function.
    Gamma(Gamma),
    /// Finitely many values: constant, points, samples; exact.
    Discrete(Discrete),
    /// Counts by interval; exact where thresholds are ends of intervals.
    Histogram(Histogram),
}

impl Law {
    /// Exponential of this mean in ns with probability `waits`, else zero: [`Exponential::new`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn exponential(mean_ns: f64, waits: f64) -> Result<Self, ModelError> {
        Exponential::new(mean_ns, waits).map(Self::Exponential)
    }

    /// Wait in an M/M/1 queue: [`Mm1::new`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn mm1(size_octets: f64, gap_ns: f64, rate: Rate) -> Result<Self, ModelError> {
        Mm1::new(size_octets, gap_ns, rate).map(Self::Mm1)
    }

    /// Gamma of this shape, and mean in ns, with probability `waits`, else zero: [`Gamma::new`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn gamma(shape: f64, mean_ns: f64, waits: f64) -> Result<Self, ModelError> {
        Gamma::new(shape, mean_ns, waits).map(Self::Gamma)
    }

    /// Always the same delay: [`Discrete::constant`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn constant(delay_ns: f64) -> Result<Self, ModelError> {
        Discrete::constant(delay_ns).map(Self::Discrete)
    }

    /// Delays in ns with weights: [`Discrete::points`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn points(points: &[(f64, f64)]) -> Result<Self, ModelError> {
        Discrete::points(points).map(Self::Discrete)
    }

    /// Recorded delays in ns: [`Discrete::samples`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn samples(samples: Vec<f64>) -> Result<Self, ModelError> {
        Discrete::samples(samples).map(Self::Discrete)
    }

    /// Counts by interval: [`Histogram::new`].
    ///
    /// # Errors
    /// [`ModelError::Range`].
    pub fn histogram(bins: &[Bin]) -> Result<Self, ModelError> {
        Histogram::new(bins).map(Self::Histogram)
    }

    /// Moments, about `about`, of the delays above x ns, strictly; of all where x is negative.
    #[inline]
    pub fn above(&self, x: f64, about: f64) -> Moments {
        match self {
            Self::Exponential(law) => law.above(x, about),
            Self::Mm1(law) => law.wait().above(x, about),
            Self::Gamma(law) => law.above(x, about),
            Self::Discrete(law) => law.above(x, about),
            Self::Histogram(law) => law.above(x, about),
        }
    }

    /// P(X > x).
    pub fn ccdf(&self, x: f64) -> f64 {
        self.above(x, 0.0).mass
    }

    /// E\[X\], ns.
    pub fn mean_ns(&self) -> f64 {
        self.above(f64::NEG_INFINITY, 0.0).first
    }

    /// Var(X), ns^2.
    pub fn variance_ns2(&self) -> f64 {
        self.above(f64::NEG_INFINITY, self.mean_ns()).variance()
    }

    /// The smallest delay in ns that is exceeded with a probability of at most `beyond`, which is above 0 (for laws
    /// without a largest delay).
    pub fn exceeded_by(&self, beyond: f64) -> f64 {
        match self {
            Self::Exponential(law) => law.inverse(beyond),
            Self::Mm1(law) => law.wait().inverse(beyond),
            Self::Discrete(law) => law.inverse(beyond),
            Self::Gamma(_) | Self::Histogram(_) => self.bisect(beyond),
        }
    }

    fn bisect(&self, beyond: f64) -> f64 {
        if self.ccdf(0.0) <= beyond {
            return 0.0;
        }
        let (mut below, mut above) = (0.0, self.mean_ns().max(f64::MIN_POSITIVE));
        while self.ccdf(above) > beyond && above < f64::MAX / 2.0 {
            (below, above) = (above, above * 2.0);
        }
        for _ in 0..100 {
            let middle = 0.5 * (below + above);
            if self.ccdf(middle) > beyond {
                below = middle;
            } else {
                above = middle;
            }
        }
        above
    }

    /// A delay in ns at random.
    pub fn sample(&self, rng: &mut impl Rng) -> f64 {
        match self {
            // Inverse transform: a uniform number in [0, 1), taken as the probability to be exceeded, is never 0.
            Self::Exponential(_) | Self::Mm1(_) | Self::Discrete(_) => {
                self.exceeded_by(1.0 - rng.random::<f64>())
            }
            Self::Gamma(law) => {
                if rng.random::<f64>() >= law.waits() {
                    return 0.0;
                }
                rand_distr::Gamma::new(law.shape(), law.scale_ns())
                    .map_or(f64::NAN, |gamma| gamma.sample(rng))
            }
            Self::Histogram(law) => law.sample(rng.random()),
        }
    }

    /// The law of `factor` times the delay.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a factor that is not above 0.
    pub fn scaled(&self, factor: f64) -> Result<Self, ModelError> {
        positive("factor", factor)?;
        Ok(match self {
            Self::Exponential(law) => Self::Exponential(law.scaled(factor)?),
            Self::Mm1(law) => Self::Exponential(law.wait().scaled(factor)?),
            Self::Gamma(law) => Self::Gamma(law.scaled(factor)?),
            Self::Discrete(law) => Self::Discrete(law.scaled(factor)?),
            Self::Histogram(law) => Self::Histogram(law.scaled(factor)?),
        })
    }

    /// The law in a surge of traffic. M/M/1 takes `factor` times as many packets; of other laws the load behind them is
    /// not known, and all delays become `factor` times as long.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a factor that is not above 0, or that brings an M/M/1 queue to a load of 1.
    pub fn surged(&self, factor: f64) -> Result<Self, ModelError> {
        match self {
            Self::Mm1(law) => law.busier(positive("factor", factor)?).map(Self::Mm1),
            _ => self.scaled(factor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn one_of_each() -> Vec<Law> {
        vec![
            Law::exponential(7e3, 0.34).unwrap(),
            Law::mm1(850.0, 8e3, Rate(1_000_000_000)).unwrap(),
            Law::gamma(2.5, 9e3, 0.8).unwrap(),
            Law::points(&[(0.0, 0.5), (10e3, 0.25), (12e3, 0.25)]).unwrap(),
            Law::samples((0..1000).map(|i| f64::from(i * i % 977)).collect()).unwrap(),
            Law::histogram(&[
                Bin { from_ns: 0.0, to_ns: 0.0, count: 10 },
                Bin { from_ns: 0.0, to_ns: 5e3, count: 5 },
                Bin { from_ns: 8e3, to_ns: 9e3, count: 7 },
            ])
            .unwrap(),
        ]
    }

    #[test]
    fn draws_follow_their_law() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
        for law in one_of_each() {
            let draws: Vec<f64> = (0..100_000).map(|_| law.sample(&mut rng)).collect();
            let n = draws.len() as f64;
            let mean = draws.iter().sum::<f64>() / n;
            let se = (law.variance_ns2() / n).sqrt();
            assert!((mean - law.mean_ns()).abs() < 4.0 * se, "{law:?}: mean {mean}, not {}", law.mean_ns());
            for beyond in [0.9, 0.5, 0.1, 0.01] {
                let x = law.exceeded_by(beyond);
                let p = law.ccdf(x);
                let found = draws.iter().filter(|&&d| d > x).count() as f64 / n;
                let se = (p * (1.0 - p) / n).sqrt();
                assert!((found - p).abs() <= 4.5 * se, "{law:?}: P(X > {x}) {found}, not {p}");
                assert!(p <= beyond && (x == 0.0 || law.ccdf(x * (1.0 - 1e-9)) >= beyond * (1.0 - 1e-6)));
            }
        }
    }

    #[test]
    fn moments_above_add_up_and_scale() {
        for law in one_of_each() {
            for factor in [0.5, 3.0] {
                let scaled = law.scaled(factor).unwrap();
                for x in [-1.0, 0.0, 1.0, 977.0, 6e3, 9e3, 5e4] {
                    let (a, b) = (law.above(x, 100.0), scaled.above(x * factor, 100.0 * factor));
                    assert!((a.mass - b.mass).abs() < 1e-12, "{law:?} {x}");
                    assert!((a.first * factor - b.first).abs() < 1e-9 * law.mean_ns(), "{law:?} {x}");
                    assert!((a.second * factor * factor - b.second).abs() < 1e-9 * law.variance_ns2() * 10.0);
                }
            }
            assert!(law.scaled(0.0).is_err() && law.surged(-1.0).is_err());
        }
        let busy = Law::mm1(850.0, 8e3, Rate(1_000_000_000)).unwrap();
        assert!((busy.surged(1.1).unwrap().mean_ns() / 1e3 - 0.935 * 6.8 / 0.065).abs() < 1e-6);
        assert!(busy.surged(1.2).unwrap_err().to_string().starts_with("rho"));
    }
}
