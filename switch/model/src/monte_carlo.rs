//! The rule itself, drawn at random: a check on Algorithm 1 that shares nothing with it but laws and thresholds.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Law, Setting};

/// What draws of one direction gave, with standard errors. Times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// How many messages.
    pub draws: usize,
    /// Messages by counter value, 0 to the largest seen.
    pub counters: Vec<u64>,
    /// Mean counter.
    pub counter_mean: Estimate,
    /// Mean of the delay that marks left.
    pub error_mean_ns: Estimate,
    /// Its variance.
    pub error_var_ns2: Estimate,
}

/// An estimate and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error, itself estimated from the draws.
    pub standard_error: f64,
}

impl Estimate {
    /// Of a mean.
    fn mean(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (n, sum) = values.clone().fold((0.0, 0.0), |(n, sum), v| (n + 1.0, sum + v));
        let mean = sum / n;
        let square: f64 = values.map(|v| (v - mean) * (v - mean)).sum();
        Self { value: mean, standard_error: (square / (n * (n - 1.0))).sqrt() }
    }

    /// Of a variance.
    fn variance(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mean = Self::mean(values.clone()).value;
        Self::mean(values.map(move |v| (v - mean) * (v - mean)))
    }
}

/// One message: its counter at the end of the path, and the delay in ns that n*delta leaves.
pub fn message(path: &[Law], setting: &Setting, rng: &mut impl Rng) -> (u32, f64) {
    let (mut counter, mut delay) = (0, 0.0);
    for law in path {
        let hop = law.sample(rng);
        // Y = X + min(r, N - X) (IV-A).
        counter += setting.marks(hop).min(setting.counter_max() - counter);
        delay += hop;
    }
    (counter, delay - f64::from(counter) * setting.delta_ns())
}

/// `draws` messages (2 or more) along a path; the same seed gives the same ones.
pub fn simulate(path: &[Law], setting: &Setting, draws: usize, seed: u64) -> Simulation {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let messages: Vec<_> = (0..draws.max(2)).map(|_| message(path, setting, &mut rng)).collect();
    let mut counters = Vec::new();
    for &(n, _) in &messages {
        if counters.len() <= n as usize {
            counters.resize(n as usize + 1, 0);
        }
        counters[n as usize] += 1;
    }
    let left = messages.iter().map(|&(_, left)| left);
    Simulation {
        draws: messages.len(),
        counters,
        counter_mean: Estimate::mean(messages.iter().map(|&(n, _)| f64::from(n))),
        error_mean_ns: Estimate::mean(left.clone()),
        error_var_ns2: Estimate::variance(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;

    #[test]
    fn a_message_follows_the_rule() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let path = [25.0, 5.0, 47.0].map(|d| Law::constant(d).unwrap());
        for (rule, n, marked) in
            [(Rule::Edge, 9, 2 + 3), (Rule::Edge, 4, 4), (Rule::Centred, 9, 2 + 3), (Rule::Centred, 1, 1)]
        {
            let setting = Setting::new(10.0, 3, n, rule).unwrap();
            assert_eq!(message(&path, &setting, &mut rng), (marked, 77.0 - f64::from(marked) * 10.0));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_messages() {
        let path = [Law::gamma(2.0, 5e3, 0.7).unwrap(), Law::exponential(3e3, 0.5).unwrap()];
        let setting = Setting::new(2e3, 4, 6, Rule::Edge).unwrap();
        let one = simulate(&path, &setting, 1000, 7);
        assert_eq!(one, simulate(&path, &setting, 1000, 7));
        assert!(one != simulate(&path, &setting, 1000, 8));
        assert_eq!(one.counters.iter().sum::<u64>(), 1000);
    }
}
