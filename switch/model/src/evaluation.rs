//! One setting on one pair of paths: counter, delay error, MSE and improvement (eq. 11-13).

use serde::Serialize;

use crate::{
    Law, Rule, Setting,
    counter::{Counter, Tails},
    moments::Spread,
};

/// Largest N whose counters are all listed in [`Direction::counter_pmf`].
const LISTED: u32 = 65_535;

/// The way there and the way back, a law of queueing delay per marking hop, in the order of travel (which makes no
/// difference). A path without hops has no queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Of requests (L_Req).
    pub forward: Vec<Law>,
    /// Of responses (L_Resp).
    pub reverse: Vec<Law>,
}

/// What marking does to one direction of a pair. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// P(T = n) at the end of the path, for n = 0..=N; where N is above 65,535, up to the largest that can be reached.
    pub counter_pmf: Vec<f64>,
    /// E\[T\].
    pub counter_mean: f64,
    /// E\[D\], the mean of the delay that marks leave.
    pub error_mean_ns: f64,
    /// Var(D).
    pub error_var_ns2: f64,
    /// E\[Q\], the mean without marks.
    pub delay_mean_ns: f64,
    /// Var(Q).
    pub delay_var_ns2: f64,
}

/// What a setting does to a pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Requests.
    pub forward: Direction,
    /// Responses.
    pub reverse: Direction,
    /// E\[eps_comp^2\]: mean squared offset error with marks, (Var A + Var B + (E A - E B)^2)/4 of what they leave.
    pub mse_ns2: f64,
    /// E\[eps^2\]: the same of the delays themselves.
    pub baseline_mse_ns2: f64,
    /// I = 1 - sqrt(mse/baseline); 0 where there is nothing to improve, below 0 where marks do harm.
    pub improvement: f64,
}

/// Mean squared offset error in ns^2 where the delays that remain have these means and variances: eq. 13.
pub fn mse_ns2(forward: Spread, reverse: Spread) -> f64 {
    let bias = forward.mean_ns - reverse.mean_ns;
    0.25 * (forward.var_ns2 + reverse.var_ns2 + bias * bias)
}

/// I = 1 - sqrt(mse/baseline) (VI-A2); 0 where both are 0.
pub fn improvement(mse_ns2: f64, baseline_mse_ns2: f64) -> f64 {
    if mse_ns2 == baseline_mse_ns2 { 0.0 } else { 1.0 - (mse_ns2 / baseline_mse_ns2).sqrt() }
}

/// A pair at one delta and rule, ready for every R up to `thresholds`. Memory is reused, so a search allocates nothing
/// per setting.
#[derive(Clone, Debug, Default)]
pub struct Evaluator {
    forward: Path,
    reverse: Path,
}

#[derive(Clone, Debug, Default)]
struct Path {
    tails: Vec<Tails>,
    counter: Counter,
}

impl Path {
    fn prepare(&mut self, laws: &[Law], delta_ns: f64, thresholds: u32, rule: Rule) {
        self.tails.resize_with(laws.len(), Tails::default);
        for (tails, law) in self.tails.iter_mut().zip(laws) {
            tails.fill(law, delta_ns, thresholds, rule);
        }
    }

    /// Transitions that one run of the counter makes: those of each hop from each count that can be reached before it.
    fn steps(&self, setting: &Setting) -> u64 {
        let (mut steps, mut reach) = (0_u64, 0);
        for hop in &self.tails {
            let most = hop.most(setting.thresholds()) as u64;
            steps = steps.saturating_add((reach + 1) * most);
            reach = (reach + most).min(u64::from(setting.counter_max()));
        }
        steps
    }

    fn left(&mut self, setting: &Setting) -> Spread {
        self.counter.run(&self.tails, setting);
        self.counter.left()
    }

    fn delay(&self) -> Spread {
        let mut sum = Spread::default();
        self.tails.iter().for_each(|hop| sum += hop.delay());
        sum
    }

    fn direction(&mut self, setting: &Setting) -> Direction {
        let (left, delay) = (self.left(setting), self.delay());
        let mut counter_pmf: Vec<f64> = self.counter.states().map(|state| state.mass).collect();
        if setting.counter_max() <= LISTED {
            counter_pmf.resize(setting.counter_max() as usize + 1, 0.0);
        }
        Direction {
            counter_mean: counter_pmf.iter().zip(0u32..).map(|(p, n)| p * f64::from(n)).sum(),
            counter_pmf,
            error_mean_ns: left.mean_ns,
            error_var_ns2: left.var_ns2,
            delay_mean_ns: delay.mean_ns,
            delay_var_ns2: delay.var_ns2,
        }
    }
}

impl Evaluator {
    /// Takes the moments of all hops at thresholds 1..=R of `setting`; those for a smaller R are among them.
    pub fn prepare(&mut self, pair: &Pair, setting: &Setting) {
        let (delta_ns, rule) = (setting.delta_ns(), setting.rule());
        let thresholds = setting.thresholds().min(setting.counter_max());
        self.forward.prepare(&pair.forward, delta_ns, thresholds, rule);
        self.reverse.prepare(&pair.reverse, delta_ns, thresholds, rule);
    }

    /// What `setting` costs on the pair last prepared: transitions of counters, of which a CPU makes some hundred million
    /// a second. It grows with the square of R where paths have several hops whose delays reach all thresholds.
    pub fn steps(&self, setting: &Setting) -> u64 {
        self.forward.steps(setting).saturating_add(self.reverse.steps(setting))
    }

    /// MSE in ns^2 of `setting` on the pair last prepared: with the same delta and rule, and an R and N of no more.
    pub fn mse_ns2(&mut self, setting: &Setting) -> f64 {
        mse_ns2(self.forward.left(setting), self.reverse.left(setting))
    }

    /// MSE in ns^2 without marks.
    pub fn baseline_mse_ns2(&self) -> f64 {
        mse_ns2(self.forward.delay(), self.reverse.delay())
    }

    /// All there is to say of `setting` on `pair`, by Algorithm 1.
    pub fn evaluate(&mut self, pair: &Pair, setting: &Setting) -> Evaluation {
        self.prepare(pair, setting);
        let (forward, reverse) = (self.forward.direction(setting), self.reverse.direction(setting));
        let (mse_ns2, baseline_mse_ns2) = (self.mse_ns2(setting), self.baseline_mse_ns2());
        let improvement = improvement(mse_ns2, baseline_mse_ns2);
        Evaluation { forward, reverse, mse_ns2, baseline_mse_ns2, improvement }
    }
}

/// [`Evaluator::evaluate`] once.
pub fn evaluate(pair: &Pair, setting: &Setting) -> Evaluation {
    Evaluator::default().evaluate(pair, setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Pair {
        Pair {
            forward: vec![
                Law::exponential(7e3, 0.34).unwrap(),
                Law::gamma(0.7, 20e3, 1.0).unwrap(),
                Law::points(&[(0.0, 1.0), (9e3, 1.0), (60e3, 0.5)]).unwrap(),
            ],
            reverse: vec![Law::exponential(3e3, 0.9).unwrap()],
        }
    }

    #[test]
    fn the_cost_is_known_before_it_is_paid() {
        let setting = |r| Setting::new(1.0, r, 1 << 30, Rule::Edge).unwrap();
        let law = Law::exponential(7e3, 1.0).unwrap();
        let steps = |hops, r| {
            let mut evaluator = Evaluator::default();
            let pair = Pair { forward: vec![law.clone(); hops], reverse: vec![] };
            evaluator.prepare(&pair, &setting(r));
            evaluator.steps(&setting(r))
        };
        assert_eq!(steps(1, 1000), 1000);
        assert_eq!(steps(3, 1000), 1000 + 1001 * 1000 + 2001 * 1000);
        // Delays end, whatever R is: no more than 15 thresholds of a constant delay of 15.5 ns are exceeded.
        let pair = Pair { forward: vec![Law::constant(15.5).unwrap(); 2], reverse: vec![] };
        let mut evaluator = Evaluator::default();
        evaluator.prepare(&pair, &setting(1 << 20));
        assert_eq!(evaluator.steps(&setting(1 << 20)), 15 + 16 * 15);
    }

    fn near(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * a.abs().max(b.abs())
    }

    #[test]
    fn order_of_hops_never_matters() {
        for (r, n) in [(1, 1), (4, 3), (4, 6), (9, 12), (40, 64)] {
            let setting = Setting::new(5e3, r, n, Rule::Edge).unwrap();
            let one = evaluate(&mixed(), &setting);
            for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0], [2, 0, 1]] {
                let pair = Pair { forward: order.map(|i| mixed().forward[i].clone()).to_vec(), ..mixed() };
                let other = evaluate(&pair, &setting);
                assert!(near(one.forward.error_var_ns2, other.forward.error_var_ns2, 1e-12));
                assert!(near(one.mse_ns2, other.mse_ns2, 1e-12), "R {r} N {n} {order:?}");
                for (a, b) in one.forward.counter_pmf.iter().zip(&other.forward.counter_pmf) {
                    assert!((a - b).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn a_counter_of_one_and_thresholds_above_n_clip() {
        for rule in [Rule::Edge, Rule::Centred] {
            let of = |r, n| evaluate(&mixed(), &Setting::new(5e3, r, n, rule).unwrap());
            assert_eq!(of(1, 1), of(40, 1));
            assert_eq!(of(6, 6), of(7, 6));
            assert_eq!(of(6, 6), of(1 << 20, 6));
            assert!(of(6, 6).forward.error_var_ns2 != of(5, 6).forward.error_var_ns2);
        }
    }

    #[test]
    fn without_thresholds_in_reach_all_delay_is_left() {
        for delta in [1e-9, 1e12] {
            for rule in [Rule::Edge, Rule::Centred] {
                let found = evaluate(&mixed(), &Setting::new(delta, 4, 8, rule).unwrap());
                assert!(near(found.mse_ns2, found.baseline_mse_ns2, 1e-9), "{delta}");
                assert!(near(found.forward.error_mean_ns, found.forward.delay_mean_ns, 1e-9));
                assert!(found.improvement.abs() < 1e-9);
            }
        }
        let none = evaluate(&Pair::default(), &Setting::new(1e3, 4, 8, Rule::Edge).unwrap());
        assert_eq!((none.mse_ns2, none.baseline_mse_ns2, none.improvement), (0.0, 0.0, 0.0));
        assert_eq!(none.forward.counter_pmf, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn hops_add_up_exactly_unless_the_counter_saturates() {
        let sum = |n, r| {
            let setting = Setting::new(5e3, r, n, Rule::Edge).unwrap();
            let one = |law: &Law| {
                let pair = Pair { forward: vec![law.clone()], reverse: vec![] };
                evaluate(&pair, &setting).forward
            };
            let hops: Vec<_> = mixed().forward.iter().map(one).collect();
            let mean: f64 = hops.iter().map(|hop| hop.error_mean_ns).sum();
            let variance: f64 = hops.iter().map(|hop| hop.error_var_ns2).sum();
            (mean, variance, evaluate(&mixed(), &setting).forward)
        };
        for r in [1, 2, 4, 9] {
            let (mean, variance, path) = sum(3 * r, r);
            assert!(near(mean, path.error_mean_ns, 1e-12) && near(variance, path.error_var_ns2, 1e-12));
            // One value less, and what hops leave is correlated: the sums are wrong.
            let (mean, variance, path) = sum(3 * r - 1, r);
            assert!(!near(mean, path.error_mean_ns, 1e-6) && !near(variance, path.error_var_ns2, 1e-6));
        }
    }

    #[test]
    fn a_large_n_lists_what_can_be_reached() {
        let setting = Setting::new(5e3, 4, u32::MAX, Rule::Edge).unwrap();
        assert_eq!(evaluate(&mixed(), &setting).forward.counter_pmf.len(), 13);
        let setting = Setting::new(5e3, 4, 20, Rule::Edge).unwrap();
        assert_eq!(evaluate(&mixed(), &setting).forward.counter_pmf.len(), 21);
    }

    #[test]
    fn centred_thresholds_take_the_bias() {
        let law = Law::exponential(20e3, 1.0).unwrap();
        let pair = Pair { forward: vec![law; 2], reverse: vec![] };
        let of = |rule| evaluate(&pair, &Setting::new(5e3, 40, 128, rule).unwrap());
        let (edge, centred) = (of(Rule::Edge), of(Rule::Centred));
        assert!((edge.forward.error_mean_ns - 4.8e3).abs() < 300.0, "{edge:?}");
        assert!(centred.forward.error_mean_ns.abs() < 0.05 * edge.forward.error_mean_ns);
        assert!(centred.improvement > edge.improvement + 0.05);
    }
}
