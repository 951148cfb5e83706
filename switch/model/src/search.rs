//! Which delta and R to set, under an objective (V-D).
//!
//! Deltas at equal ratios over a wide span, each with every R asked for: moments of a hop at a delta serve all of them.
//! Then the best of each R is refined between its neighbours by golden section. Wide, because the paper's interval
//! (lambda*, 3*lambda*) misses the optimum for lightly loaded links.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::{
    Exchanges, Interval, Law, ModelError, Pair, Paths, PathsEvaluator, Rule, Setting,
    error::{not_negative, positive},
    improvement,
};

/// What is to be small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The mean MSE of all pairs, ns^2.
    Mean,
    /// The largest MSE of any pair, ns^2.
    Minimax,
    /// The mean MSE of all pairs where a share of the time is a surge of traffic, ns^2.
    Surge {
        /// What the surge does: [`Law::surged`].
        factor: f64,
        /// Share of time, 0..=1; 1 plans for the surge alone.
        share: f64,
    },
    /// The time uncertainty bound: the offset error in ns that no pair exceeds with more than the probability 1 -
    /// `coverage`. Found on exchanges drawn at random, the same for all settings (or on those that were recorded), and
    /// two standard errors on the safe side, since the least of many estimates is too low an estimate; [`crate::uncertainty_ns`] of the choice is the
    /// bound without their noise.
    Uncertainty {
        /// Within (0, 1), as 0.999.
        coverage: f64,
        /// How many exchanges are drawn, at least 10/(1 - coverage); as many have to be in a recording.
        draws: u32,
        /// Of the draws.
        seed: u64,
    },
}

/// Where to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Deltas from here to there.
    pub deltas: Interval,
    /// In how many equal ratios.
    pub steps: u32,
    /// Values of R.
    pub thresholds: Vec<u32>,
    /// N.
    pub counter_max: u32,
    /// Where thresholds lie.
    pub rule: Rule,
}

impl Space {
    /// The widest span of deltas that makes sense for `pairs`, in 300 ratios: from a fiftieth of the shortest mean of a
    /// hop's delays to twice what the longest exceeds once in 10,000.
    ///
    /// # Errors
    /// [`ModelError::Range`] where no hop has a delay at all.
    pub fn around<P: Clone + Into<Paths>>(
        pairs: &[P],
        thresholds: Vec<u32>,
        counter_max: u32,
        rule: Rule,
    ) -> Result<Self, ModelError> {
        let laws: Vec<Law> = pairs.iter().flat_map(|pair| pair.clone().into().laws()).collect();
        let means = laws.iter().map(Law::mean_ns).filter(|&mean| mean > 0.0);
        let shortest = means.fold(f64::INFINITY, f64::min);
        let longest = laws.iter().map(|law| law.exceeded_by(1e-4)).fold(0.0, f64::max);
        if shortest.is_infinite() {
            return Err(ModelError::range("pairs", "without any queueing delay", "of paths with some"));
        }
        let deltas = Interval { from_ns: shortest / 50.0, to_ns: (2.0 * longest).max(shortest) };
        Ok(Self { deltas, steps: 300, thresholds, counter_max, rule })
    }

    /// All deltas, in ns.
    pub(crate) fn grid(&self) -> Result<impl Iterator<Item = f64>, ModelError> {
        self.check()?;
        Ok((0..=self.steps).map(|step| self.at(f64::from(step))))
    }

    /// The delta at a step, or between two.
    fn at(&self, step: f64) -> f64 {
        let Interval { from_ns, to_ns } = self.deltas;
        from_ns * libm::pow(to_ns / from_ns, step / f64::from(self.steps))
    }

    fn check(&self) -> Result<(), ModelError> {
        positive("lowest delta", self.deltas.from_ns)?;
        positive("highest delta", self.deltas.to_ns)?;
        if self.deltas.to_ns < self.deltas.from_ns {
            return Err(ModelError::range("highest delta", self.deltas.to_ns, "no less than the lowest"));
        }
        if self.steps == 0 {
            return Err(ModelError::range("steps", 0, "1 or more"));
        }
        if self.thresholds.is_empty() {
            return Err(ModelError::range("values of R", "empty", "at least one"));
        }
        Ok(())
    }
}

/// A setting and what it gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The setting.
    pub setting: Setting,
    /// The objective: ns^2, or ns for [`Objective::Uncertainty`].
    pub value: f64,
    /// MSE of each pair, ns^2.
    pub mse_ns2: Vec<f64>,
    /// I of each pair.
    pub improvement: Vec<f64>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The best; of equal ones that with the smallest R.
    pub best: Choice,
    /// The best delta for each R, in the order asked for.
    pub by_thresholds: Vec<Choice>,
}

/// Searches `space` for the delta and R that are best for all `pairs` together.
///
/// # Errors
/// [`ModelError::Range`] without pairs, on an empty space, or an objective outside its range; a surge that overloads a
/// link is one.
pub fn search<P: Clone + Into<Paths>>(
    pairs: &[P],
    space: &Space,
    objective: &Objective,
) -> Result<Plan, ModelError> {
    if pairs.is_empty() {
        return Err(ModelError::range("pairs", "empty", "at least one"));
    }
    space.check()?;
    let settings = |delta| -> Result<Vec<Setting>, ModelError> {
        let setting = |&r: &u32| Setting::new(delta, r, space.counter_max, space.rule);
        space.thresholds.iter().map(setting).collect()
    };
    let mut judge = Judge::new(pairs.iter().cloned().map(Into::into).collect(), objective)?;

    // The best value of each R, and the step it was found at.
    let mut best = vec![(f64::INFINITY, 0.0); space.thresholds.len()];
    for (step, delta) in space.grid()?.enumerate() {
        let settings = settings(delta)?;
        judge.prepare(&settings);
        for (best, setting) in best.iter_mut().zip(&settings) {
            let value = judge.value(setting);
            if value < best.0 {
                *best = (value, step as f64);
            }
        }
    }
    let mut by_thresholds = vec![];
    for (&thresholds, &coarse) in space.thresholds.iter().zip(&best) {
        let setting = |step| Setting::new(space.at(step), thresholds, space.counter_max, space.rule);
        let mut value = |step| {
            let setting = setting(step)?;
            judge.prepare(&[setting]);
            Ok(judge.value(&setting))
        };
        let ends = ((coarse.1 - 1.0).max(0.0), (coarse.1 + 1.0).min(f64::from(space.steps)));
        let (least, step) = golden(ends, coarse, &mut value)?;
        by_thresholds.push(judge.choice(setting(step)?, least));
    }
    let better = |a: &Choice, b: &Choice| {
        a.value.total_cmp(&b.value).then(a.setting.thresholds().cmp(&b.setting.thresholds()))
    };
    let best = by_thresholds.iter().min_by(|a, b| better(a, b));
    let best = best.cloned().ok_or_else(|| ModelError::range("values of R", "empty", "at least one"))?;
    Ok(Plan { best, by_thresholds })
}

/// The least value, and where, between `ends`, by golden section; never worse than `known`. Where there are several
/// valleys, as laws of points have them, it goes down one.
fn golden(
    ends: (f64, f64),
    known: (f64, f64),
    value: &mut impl FnMut(f64) -> Result<f64, ModelError>,
) -> Result<(f64, f64), ModelError> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = ends;
    let mut best = known;
    let mut probe = |at: f64| {
        let found = value(at)?;
        if found < best.0 {
            best = (found, at);
        }
        Ok::<f64, ModelError>(found)
    };
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_left, mut at_right) = (probe(left)?, probe(right)?);
    while high - low > 1e-6 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = probe(left)?;
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = probe(right)?;
        }
    }
    Ok(best)
}

/// Judges settings by an objective. After `prepare` with settings of one delta, any of them can be asked for.
struct Judge {
    pairs: Vec<PathsEvaluator>,
    surged: Vec<PathsEvaluator>,
    /// Weight of the surge.
    share: f64,
    minimax: bool,
    draws: Option<Draws>,
}

impl Judge {
    fn new(paths: Vec<Paths>, objective: &Objective) -> Result<Self, ModelError> {
        let (mut surged, mut share_of_surges, mut draws) = (vec![], 0.0, None);
        match *objective {
            Objective::Mean | Objective::Minimax => {}
            Objective::Surge { factor, share } => {
                if not_negative("share of surges", share)? > 1.0 {
                    return Err(ModelError::range("share of surges", share, "at most 1"));
                }
                share_of_surges = share;
                for pair in &paths {
                    surged.push(PathsEvaluator::new(pair.surged(factor)?));
                }
            }
            Objective::Uncertainty { coverage, draws: many, seed } => {
                draws = Some(Draws::new(&paths, coverage, many, seed)?);
            }
        }
        let pairs = paths.into_iter().map(PathsEvaluator::new).collect();
        let minimax = matches!(objective, Objective::Minimax);
        Ok(Self { pairs, surged, share: share_of_surges, minimax, draws })
    }

    fn prepare(&mut self, settings: &[Setting]) {
        let Some(most) = settings.iter().max_by_key(|setting| setting.thresholds()) else { return };
        if self.draws.is_none() {
            self.pairs.iter_mut().chain(&mut self.surged).for_each(|pair| pair.prepare(most));
        }
    }

    fn value(&mut self, setting: &Setting) -> f64 {
        if let Some(draws) = &mut self.draws {
            return draws.bound_ns(setting);
        }
        if self.minimax {
            return self.pairs.iter_mut().map(|pair| pair.mse_ns2(setting)).fold(0.0, f64::max);
        }
        let pairs = self.pairs.len() as f64;
        let mean = |all: &mut [PathsEvaluator]| {
            all.iter_mut().map(|pair| pair.mse_ns2(setting)).sum::<f64>() / pairs
        };
        (1.0 - self.share) * mean(&mut self.pairs) + self.share * mean(&mut self.surged)
    }

    fn choice(&mut self, setting: Setting, value: f64) -> Choice {
        let (mut mse_ns2, mut improved) = (vec![], vec![]);
        for pair in &mut self.pairs {
            pair.prepare(&setting);
            let mse = pair.mse_ns2(&setting);
            mse_ns2.push(mse);
            improved.push(improvement(mse, pair.baseline_mse_ns2()));
        }
        Choice { setting, value, mse_ns2, improvement: improved }
    }
}

/// Exchanges of each pair, drawn once, or recorded.
struct Draws {
    /// With the place, among the sorted errors, of the bound.
    pairs: Vec<(Exchanges, usize)>,
    errors: Vec<f64>,
}

impl Draws {
    fn new(paths: &[Paths], coverage: f64, draws: u32, seed: u64) -> Result<Self, ModelError> {
        if !(coverage > 0.0 && coverage < 1.0) {
            return Err(ModelError::range("coverage", coverage, "above 0 and below 1"));
        }
        let enough = |argument, draws: usize| {
            if (draws as f64) < 10.0 / (1.0 - coverage) {
                return Err(ModelError::range(argument, draws, "at least 10/(1 - coverage)"));
            }
            let safe = coverage + 2.0 * (coverage * (1.0 - coverage) / draws as f64).sqrt();
            Ok(((safe * draws as f64).ceil() as usize).clamp(1, draws) - 1)
        };
        let rank = enough("draws", draws as usize)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut drawn = |path: &[Law]| -> (usize, Vec<f64>) {
            let delays = (0..draws).flat_map(|_| path).map(|law| law.sample(&mut rng)).collect();
            (path.len(), delays)
        };
        let mut pairs = vec![];
        for paths in paths {
            pairs.push(match paths {
                // Without any hop there is no error, whatever is drawn.
                Paths::Laws(Pair { forward, reverse }) if forward.is_empty() && reverse.is_empty() => {
                    continue;
                }
                Paths::Laws(pair) => (Exchanges::two_way(drawn(&pair.forward), drawn(&pair.reverse))?, rank),
                Paths::Recorded(exchanges) => {
                    (exchanges.clone(), enough("recorded exchanges", exchanges.len())?)
                }
            });
        }
        Ok(Self { pairs, errors: vec![] })
    }

    /// The bound of the worst pair.
    fn bound_ns(&mut self, setting: &Setting) -> f64 {
        let mut worst: f64 = 0.0;
        for (exchanges, rank) in &self.pairs {
            exchanges.errors(Some(setting), &mut self.errors);
            self.errors.iter_mut().for_each(|error| *error = error.abs());
            let (_, bound, _) = self.errors.select_nth_unstable_by(*rank, f64::total_cmp);
            worst = worst.max(*bound);
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evaluator, evaluate, uncertainty_ns};
    use plimsoll_core::Rate;

    const GBIT: Rate = Rate(1_000_000_000);

    fn both_ways(law: &Law, hops: usize) -> Pair {
        Pair { forward: vec![law.clone(); hops], reverse: vec![law.clone(); hops] }
    }

    fn space(pairs: &[Pair], thresholds: &[u32], n: u32) -> Space {
        Space::around(pairs, thresholds.to_vec(), n, Rule::Edge).unwrap()
    }

    /// For an exponential of mean m and R = 1, MSE is least where d/dx of x^2*p*(1-p) - 2x*Cov is 0, with p = e^(-x/m)
    /// and Cov = p*x: 2 - 2p... solved by bisection here.
    #[test]
    fn one_threshold_on_an_exponential() {
        let law = Law::exponential(1e3, 1.0).unwrap();
        let pairs = [both_ways(&law, 1)];
        let plan = search(&pairs, &space(&pairs, &[1], 1), &Objective::Mean).unwrap();
        // Var D = m^2 + x^2 p(1-p) - 2x*(p*x) with x in means: derivative of x^2 (-p - p^2) is -2x(p+p^2) + x^2(p+2p^2).
        let slope = |x: f64| {
            let p = (-x).exp();
            -2.0 * (1.0 + p) + x * (1.0 + 2.0 * p)
        };
        let (mut low, mut high) = (0.5, 3.0);
        while high - low > 1e-12 {
            let middle = 0.5 * (low + high);
            if slope(middle) < 0.0 { low = middle } else { high = middle }
        }
        assert!((plan.best.setting.delta_ns() / 1e3 - low).abs() < 1e-4, "{plan:?} {low}");
        assert_eq!(plan.best.value, evaluate(&pairs[0], &plan.best.setting).mse_ns2);
    }

    #[test]
    fn the_best_is_no_worse_than_any_of_a_fine_scan() {
        let pairs = [Pair {
            forward: vec![Law::mm1(600.0, 14e3, GBIT).unwrap(), Law::mm1(1000.0, 12e3, GBIT).unwrap()],
            reverse: vec![Law::gamma(0.5, 9e3, 0.8).unwrap()],
        }];
        let mut space = space(&pairs, &[1, 2, 4, 8, 16], 16);
        let plan = search(&pairs, &space, &Objective::Mean).unwrap();
        let mut evaluator = Evaluator::default();
        for (i, &r) in space.thresholds.iter().enumerate() {
            let least = (0..4000)
                .map(|k| space.deltas.from_ns * 1.0025f64.powi(k))
                .map(|delta| evaluator.evaluate(&pairs[0], &Setting::new(delta, r, 16, Rule::Edge).unwrap()))
                .map(|e| e.mse_ns2)
                .fold(f64::INFINITY, f64::min);
            assert!(plan.by_thresholds[i].value <= least * (1.0 + 1e-9), "R = {r}");
            assert!(i == 0 || plan.by_thresholds[i].value <= plan.by_thresholds[i - 1].value);
        }
        assert_eq!(plan.best.value, plan.by_thresholds[4].value);
        assert!(plan.best.improvement[0] > 0.7, "{plan:?}");
        space.rule = Rule::Centred;
        let centred = search(&pairs, &space, &Objective::Mean).unwrap();
        assert!(centred.best.improvement[0] > plan.best.improvement[0]);
    }

    #[test]
    fn minimax_protects_the_worst_pair() {
        let pairs = [(600.0, 14e3), (850.0, 8e3)].map(|(s, g)| both_ways(&Law::mm1(s, g, GBIT).unwrap(), 3));
        let space = space(&pairs, &[1], 1);
        let of = |objective| search(&pairs, &space, &objective).unwrap().best;
        let alone = search(&pairs[..1], &space, &Objective::Mean).unwrap().best;
        let (mean, minimax) = (of(Objective::Mean), of(Objective::Minimax));
        let worst = |choice: &Choice| {
            pairs.iter().map(|pair| evaluate(pair, &choice.setting).mse_ns2).fold(0.0, f64::max)
        };
        assert!(worst(&minimax) <= worst(&mean) && worst(&minimax) < worst(&alone));
        assert!(minimax.setting.delta_ns() > alone.setting.delta_ns());
        assert_eq!(minimax.value, worst(&minimax));
    }

    #[test]
    fn a_surge_asks_for_a_larger_delta() {
        let pairs = [both_ways(&Law::mm1(850.0, 10e3, GBIT).unwrap(), 2)];
        let space = space(&pairs, &[2], 4);
        let of = |share| search(&pairs, &space, &Objective::Surge { factor: 1.3, share }).unwrap().best;
        let deltas = [0.0, 0.2, 1.0].map(|share| of(share).setting.delta_ns());
        assert!(deltas[0] < deltas[1] && deltas[1] < deltas[2], "{deltas:?}");
        let normal = search(&pairs, &space, &Objective::Mean).unwrap().best;
        assert_eq!(normal.setting, of(0.0).setting);
        let error = search(&pairs, &space, &Objective::Surge { factor: 1.5, share: 0.5 }).unwrap_err();
        assert!(error.to_string().starts_with("rho = 8*size/(rate*gap) is 1.02"), "{error}");
    }

    #[test]
    fn a_bound_needs_thresholds_that_reach_the_tail() {
        let pairs = [both_ways(&Law::exponential(10e3, 0.7).unwrap(), 1)];
        let mut space = space(&pairs, &[4], 4);
        space.steps = 100;
        let objective = Objective::Uncertainty { coverage: 0.99, draws: 20_000, seed: 3 };
        let bound = search(&pairs, &space, &objective).unwrap().best;
        let mean = search(&pairs, &space, &Objective::Mean).unwrap().best;
        assert!(bound.setting.delta_ns() > mean.setting.delta_ns(), "{bound:?} {mean:?}");
        let exact = |choice: &Choice| uncertainty_ns(&pairs[0], &choice.setting, 0.99, 50.0).unwrap();
        // 4.70 us is the least of a fine scan of the exact bound.
        assert!(
            exact(&bound) < 4.70e3 * 1.05 && exact(&mean) > 4.70e3 * 1.1,
            "{} {}",
            exact(&bound),
            exact(&mean)
        );
        assert!((0.99..1.06).contains(&(bound.value / exact(&bound))), "{} {}", bound.value, exact(&bound));
        let few = Objective::Uncertainty { coverage: 0.9999, draws: 1000, seed: 3 };
        assert!(search(&pairs, &space, &few).unwrap_err().to_string().starts_with("draws is 1000"));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let pairs = [both_ways(&Law::exponential(1e3, 1.0).unwrap(), 1)];
        let said = |space: &Space| search(&pairs, space, &Objective::Mean).unwrap_err().to_string();
        let good = space(&pairs, &[1], 1);
        let with = |change: fn(&mut Space)| {
            let mut space = good.clone();
            change(&mut space);
            said(&space)
        };
        assert!(with(|s| s.thresholds.clear()).starts_with("values of R is empty"));
        assert!(with(|s| s.thresholds = vec![0]).starts_with("thresholds (R) is 0"));
        assert!(with(|s| s.counter_max = 0).starts_with("counter-max (N) is 0"));
        assert!(with(|s| s.deltas.from_ns = 0.0).starts_with("lowest delta is 0"));
        assert!(
            search::<Pair>(&[], &good, &Objective::Mean)
                .unwrap_err()
                .to_string()
                .starts_with("pairs is empty")
        );
        let idle = [both_ways(&Law::constant(0.0).unwrap(), 1)];
        assert!(Space::around(&idle, vec![1], 1, Rule::Edge).is_err());
    }
}
