//! Exchanges message by message: what each of their messages waited at each hop, as it was recorded.
//!
//! Laws forget who waited with whom. Here the rule is applied to every message as the switches would have: hops of one
//! message may depend on each other, the counter saturates when it would have, and requests and responses are those that
//! a clock put together.

use std::sync::Arc;

use crate::{Evaluator, Law, ModelError, Pair, Setting, error::not_negative, improvement};

/// Exchanges of one pair of clocks. Cheap to clone.
///
/// An exchange is one message on each leg; the offset error is the sum over the legs of weight * what marks leave of
/// the message's delay. Of the paper's exchange (eq. 3) the legs are the request with -1/2 and the response with +1/2.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchanges {
    legs: Arc<Vec<Leg>>,
    len: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Leg {
    weight: f64,
    hops: usize,
    /// Delays in ns: hop by hop of a message, an exchange after another.
    delays: Vec<f64>,
}

/// Groups of neighbouring exchanges by whose differences errors of the figures are told.
const BLOCKS: usize = 20;

impl Exchanges {
    /// Exchanges whose legs have these weights and delays in ns: hop by hop of a message, a message after another.
    ///
    /// # Errors
    /// [`ModelError::Range`] without exchanges, on delays that are negative or not finite, or where legs have not the
    /// same number of messages.
    pub fn new(legs: Vec<(f64, usize, Vec<f64>)>) -> Result<Self, ModelError> {
        let mut len = None;
        for (_, hops, delays) in &legs {
            for &delay in delays {
                not_negative("recorded delay", delay)?;
            }
            // A leg without hops has no queues, and says nothing of how many exchanges there are.
            let Some(messages) = delays.len().checked_div(*hops) else { continue };
            if delays.len() % hops != 0 || len.is_some_and(|len| len != messages) {
                return Err(ModelError::range("recorded delays", delays.len(), "as many on each leg"));
            }
            len = Some(messages);
        }
        let len = len.unwrap_or(0);
        if len == 0 {
            return Err(ModelError::range("recorded exchanges", "empty", "at least one"));
        }
        let legs = legs.into_iter().map(|(weight, hops, delays)| Leg { weight, hops, delays }).collect();
        Ok(Self { legs: Arc::new(legs), len })
    }

    /// The paper's exchanges: a request over so many hops, a response over so many.
    ///
    /// # Errors
    /// As [`Exchanges::new`].
    pub fn two_way(forward: (usize, Vec<f64>), reverse: (usize, Vec<f64>)) -> Result<Self, ModelError> {
        Self::new(vec![(-0.5, forward.0, forward.1), (0.5, reverse.0, reverse.1)])
    }

    /// How many.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: there is at least one.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Delays of all hops of all legs, as laws that know nothing of each other.
    pub fn laws(&self) -> Vec<Law> {
        self.legs.iter().flat_map(Leg::laws).collect()
    }

    /// Each exchange's offset error in ns with marks by `setting`; `None`: without.
    pub fn errors(&self, setting: Option<&Setting>, errors: &mut Vec<f64>) {
        errors.clear();
        errors.resize(self.len, 0.0);
        for leg in self.legs.iter().filter(|leg| leg.hops > 0) {
            for (error, hops) in errors.iter_mut().zip(leg.delays.chunks_exact(leg.hops)) {
                *error += leg.weight * left(hops, setting);
            }
        }
    }

    /// Mean squared offset error in ns^2 with marks by `setting`; `None`: without.
    pub fn mse_ns2(&self, setting: Option<&Setting>) -> f64 {
        self.mse_with(setting, &mut Vec::new())
    }

    /// The same in memory that is there.
    pub(crate) fn mse_with(&self, setting: Option<&Setting>, errors: &mut Vec<f64>) -> f64 {
        self.errors(setting, errors);
        mean_square(errors)
    }

    /// I of `setting`.
    pub fn improvement(&self, setting: &Setting) -> f64 {
        improvement(self.mse_ns2(Some(setting)), self.mse_ns2(None))
    }

    /// I and its standard error, by leaving out one of 20 stretches of the recording after another (a jackknife over
    /// blocks, so that neighbours may depend on each other); `None` for fewer than 20 exchanges.
    pub fn improvement_and_error(&self, setting: &Setting) -> (f64, Option<f64>) {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        self.errors(Some(setting), &mut with);
        self.errors(None, &mut without);
        let whole = improvement(mean_square(&with), mean_square(&without));
        if self.len < BLOCKS {
            return (whole, None);
        }
        let all = [&with, &without].map(|errors| errors.iter().map(|e| e * e).sum::<f64>());
        let without_block = |block: usize| {
            let part = block * self.len / BLOCKS..(block + 1) * self.len / BLOCKS;
            let of = |errors: &[f64]| errors[part.clone()].iter().map(|e| e * e).sum::<f64>();
            improvement((all[0] - of(&with)).max(0.0), (all[1] - of(&without)).max(0.0))
        };
        let left: Vec<f64> = (0..BLOCKS).map(without_block).collect();
        let mean = left.iter().sum::<f64>() / BLOCKS as f64;
        let squares: f64 = left.iter().map(|i| (i - mean) * (i - mean)).sum();
        (whole, Some((squares * (BLOCKS - 1) as f64 / BLOCKS as f64).sqrt()))
    }

    /// MSE in ns^2 by Algorithm 1 on the laws of the same delays, all hops and legs independent of each other; `None`:
    /// without marks.
    pub fn independent_mse_ns2(&self, setting: Option<&Setting>) -> f64 {
        let (mut mean, mut variance) = (0.0, 0.0);
        let mut evaluator = Evaluator::default();
        for leg in self.legs.iter() {
            let laws: Vec<Law> = leg.laws().collect();
            let (m, v) = match setting {
                Some(setting) => {
                    let found = evaluator.evaluate(&Pair { forward: laws, reverse: vec![] }, setting).forward;
                    (found.error_mean_ns, found.error_var_ns2)
                }
                None => {
                    laws.iter().fold((0.0, 0.0), |(m, v), law| (m + law.mean_ns(), v + law.variance_ns2()))
                }
            };
            mean += leg.weight * m;
            variance += leg.weight * leg.weight * v;
        }
        variance + mean * mean
    }

    /// All delays `factor` times as long.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a factor that is negative or not finite.
    pub fn scaled(&self, factor: f64) -> Result<Self, ModelError> {
        not_negative("factor of delays", factor)?;
        let scaled = |leg: &Leg| Leg { delays: leg.delays.iter().map(|d| d * factor).collect(), ..*leg };
        Ok(Self { legs: Arc::new(self.legs.iter().map(scaled).collect()), len: self.len })
    }
}

impl Leg {
    fn laws(&self) -> impl Iterator<Item = Law> {
        let law = |hop| Law::samples(self.delays.iter().skip(hop).step_by(self.hops).copied().collect());
        // All delays were checked, and there is at least one.
        (0..self.hops).filter_map(move |hop| law(hop).ok())
    }
}

/// What marks leave of a message's delay.
fn left(hops: &[f64], setting: Option<&Setting>) -> f64 {
    let delay = hops.iter().sum::<f64>();
    let Some(setting) = setting else { return delay };
    // Y = X + min(r, N - X) at each hop (IV-A) comes to the least of N and the sum.
    let marks = hops.iter().map(|&delay| u64::from(setting.marks(delay))).sum::<u64>();
    delay - marks.min(u64::from(setting.counter_max())) as f64 * setting.delta_ns()
}

fn mean_square(errors: &[f64]) -> f64 {
    errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rule, evaluate};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn an_exchange_by_hand() {
        // Two hops forward, one back; the second exchange saturates at N = 3.
        let exchanges = Exchanges::two_way((2, vec![25.0, 9.0, 31.0, 22.0]), (1, vec![14.0, 0.0])).unwrap();
        let setting = Setting::new(10.0, 9, 3, Rule::Edge).unwrap();
        let mut errors = vec![];
        exchanges.errors(None, &mut errors);
        assert_eq!(errors, [(14.0 - 34.0) / 2.0, -53.0 / 2.0]);
        exchanges.errors(Some(&setting), &mut errors);
        assert_eq!(errors, [(4.0 - 14.0) / 2.0, -23.0 / 2.0]);
        assert_eq!(exchanges.mse_ns2(Some(&setting)), f64::midpoint(25.0, 11.5 * 11.5));
        assert_eq!((exchanges.len(), exchanges.laws().len()), (2, 3));
        let twice = exchanges.scaled(2.0).unwrap();
        assert_eq!(twice.mse_ns2(None), 4.0 * exchanges.mse_ns2(None));
    }

    #[test]
    fn of_independent_hops_it_says_what_algorithm_1_says() {
        let (mut rng, draws) = (ChaCha8Rng::seed_from_u64(7), 20_000);
        let laws = [Law::exponential(7e3, 0.6).unwrap(), Law::gamma(2.0, 9e3, 0.8).unwrap()];
        let mut drawn = || (0..draws).flat_map(|_| &laws).map(|law| law.sample(&mut rng)).collect::<Vec<_>>();
        let exchanges = Exchanges::two_way((2, drawn()), (2, drawn())).unwrap();
        let pair = Pair { forward: laws.to_vec(), reverse: laws.to_vec() };
        for (r, n) in [(1, 1), (4, 5), (32, 64)] {
            let setting = Setting::new(4e3, r, n, Rule::Centred).unwrap();
            let found = evaluate(&pair, &setting);
            let (i, error) = exchanges.improvement_and_error(&setting);
            let error = error.unwrap();
            assert!(error > 0.0 && error < 0.02, "{error}");
            assert!((i - found.improvement).abs() < 4.0 * error, "{i} {} {error}", found.improvement);
            let alone = improvement(
                exchanges.independent_mse_ns2(Some(&setting)),
                exchanges.independent_mse_ns2(None),
            );
            assert!((alone - found.improvement).abs() < 4.0 * error);
        }
    }

    #[test]
    fn dependent_hops_are_not_taken_for_independent_ones() {
        // The second hop waits whenever the first does not.
        let hops: Vec<f64> =
            (0..1000).flat_map(|i| if i % 2 == 0 { [40.0, 0.0] } else { [0.0, 40.0] }).collect();
        let exchanges = Exchanges::two_way((2, hops), (0, vec![])).unwrap();
        assert_eq!(exchanges.mse_ns2(None), 400.0);
        assert_eq!(exchanges.independent_mse_ns2(None), 600.0);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |legs| Exchanges::new(legs).unwrap_err().to_string();
        assert!(said(vec![(0.5, 1, vec![])]).starts_with("recorded exchanges is empty"));
        assert!(said(vec![]).starts_with("recorded exchanges is empty"));
        assert!(said(vec![(0.5, 1, vec![-1.0])]).starts_with("recorded delay is -1"));
        assert!(said(vec![(0.5, 1, vec![1.0]), (0.5, 1, vec![1.0, 2.0])]).contains("as many on each leg"));
        let (i, error) = Exchanges::two_way((1, vec![9.0]), (0, vec![]))
            .unwrap()
            .improvement_and_error(&Setting::new(10.0, 1, 1, Rule::Edge).unwrap());
        assert_eq!((i, error), (0.0, None));
    }
}
