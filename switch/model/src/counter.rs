//! Algorithm 1 as a dynamic program: the counter along a path, and the delay that is left, jointly.
//!
//! The paper's tree of all counter evolutions merges into one state per counter value (its App. C). With each value n
//! go P(T = n), E\[D; T = n\] and E\[D^2; T = n\], where D is the delay that marks have not taken away so far. They must go
//! together: once the counter can saturate, what later hops leave depends on what earlier ones counted, and adding
//! variances hop by hop is wrong.
//!
//! From counter n, a hop of delay X adds r = 0..M-1 where X lies between thresholds r and r+1, and M = min(R, N - n)
//! where X exceeds threshold M: the top interval is open (it is closed in the printed Algorithm 1, which loses its
//! mass). So with the moments of X - i*delta above threshold i, one for each i, all transitions are at hand.

use crate::{Law, Moments, Rule, Setting, moments::Spread};

/// Moments of one hop's delay by threshold: what Algorithm 1 needs to know of a law. One `Tails` serves every R and N
/// up to what it was made for.
#[derive(Clone, Debug, Default)]
pub struct Tails {
    /// Mean and variance of the delay itself.
    delay: Spread,
    /// Of X - i*delta on X > threshold i, from i = 0 (the whole law) on. Ends at R, or before the first threshold
    /// that is never exceeded.
    above: Vec<Moments>,
    /// Of X - i*delta between thresholds i and i + 1, by moment.
    mass: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Tails {
    /// Fills in `law` at thresholds 1..=`thresholds`, reusing memory.
    pub fn fill(&mut self, law: &Law, delta_ns: f64, thresholds: u32, rule: Rule) {
        let whole = law.above(f64::NEG_INFINITY, 0.0);
        self.delay =
            Spread { mean_ns: whole.first, var_ns2: law.above(f64::NEG_INFINITY, whole.first).variance() };
        self.above.clear();
        self.above.push(whole);
        for i in 1..=thresholds {
            let tail = law.above(rule.threshold(i, delta_ns), f64::from(i) * delta_ns);
            if tail.mass <= 0.0 {
                break;
            }
            self.above.push(tail);
        }
        for column in [&mut self.mass, &mut self.first, &mut self.second] {
            column.clear();
        }
        for i in 0..self.above.len() {
            let next = self.above.get(i + 1).map_or_else(Moments::default, |tail| tail.raised(delta_ns));
            let bin = self.above[i] - next;
            self.mass.push(bin.mass);
            self.first.push(bin.first);
            self.second.push(bin.second);
        }
    }

    /// The most marks that this hop can give to a counter.
    pub(crate) fn most(&self, thresholds: u32) -> usize {
        (self.above.len() - 1).min(thresholds as usize)
    }

    /// Mean and variance of the delay itself.
    pub const fn delay(&self) -> Spread {
        self.delay
    }
}

/// The joint state after some hops: moments of the delay left, by counter.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    now: Columns,
    next: Columns,
}

/// Moments by counter value, one array each so that the inner loop runs on vectors.
#[derive(Clone, Debug, Default)]
struct Columns {
    mass: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Columns {
    fn reset(&mut self, len: usize) {
        for column in [&mut self.mass, &mut self.first, &mut self.second] {
            column.clear();
            column.resize(len, 0.0);
        }
    }

    fn at(&self, n: usize) -> Moments {
        Moments { mass: self.mass[n], first: self.first[n], second: self.second[n] }
    }
}

impl Counter {
    /// Sends the counter, from 0, along a path. `tails` are those of each hop, made for the setting's delta and rule, and
    /// its R or more.
    pub fn run(&mut self, tails: &[Tails], setting: &Setting) {
        self.now.reset(1);
        self.now.mass[0] = 1.0;
        for hop in tails {
            self.hop(hop, setting);
        }
    }

    fn hop(&mut self, hop: &Tails, setting: &Setting) {
        let reach = self.now.mass.len() - 1;
        let limit = setting.counter_max() as usize;
        let most = hop.most(setting.thresholds());
        self.next.reset((reach + most).min(limit) + 1);
        for n in 0..=reach {
            let left = self.now.at(n);
            if left.mass == 0.0 {
                continue;
            }
            let most = most.min(limit - n);
            let next = &mut self.next;
            let to = next.mass[n..n + most].iter_mut();
            let to = to.zip(&mut next.first[n..n + most]).zip(&mut next.second[n..n + most]);
            let bins = hop.mass[..most].iter().zip(&hop.first[..most]).zip(&hop.second[..most]);
            for (((mass, first), second), ((&bin_mass, &bin_first), &bin_second)) in to.zip(bins) {
                *mass += left.mass * bin_mass;
                *first += left.first * bin_mass + left.mass * bin_first;
                *second += left.second * bin_mass + 2.0 * left.first * bin_first + left.mass * bin_second;
            }
            let top = hop.above[most];
            next.mass[n + most] += left.mass * top.mass;
            next.first[n + most] += left.first * top.mass + left.mass * top.first;
            next.second[n + most] +=
                left.second * top.mass + 2.0 * left.first * top.first + left.mass * top.second;
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    /// The largest count that can be reached.
    pub fn reach(&self) -> usize {
        self.now.mass.len() - 1
    }

    /// P(T = n) with the moments about 0 of the delay left on it, for n = 0..=[`Counter::reach`].
    pub fn states(&self) -> impl ExactSizeIterator<Item = Moments> {
        (0..self.now.mass.len()).map(|n| self.now.at(n))
    }

    /// Mean and variance of the delay left, D.
    pub fn left(&self) -> Spread {
        let sum = |column: &[f64]| column.iter().sum();
        let all = Moments { mass: 1.0, first: sum(&self.now.first), second: sum(&self.now.second) };
        Spread { mean_ns: all.first, var_ns2: all.variance() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hop_of_an_exponential_in_closed_form() {
        let (mean, delta) = (7e3, 5e3);
        let law = Law::exponential(mean, 0.6).unwrap();
        for r in [1, 2, 5] {
            let setting = Setting::new(delta, r, 8, Rule::Edge).unwrap();
            let mut tails = Tails::default();
            tails.fill(&law, delta, r, Rule::Edge);
            let mut counter = Counter::default();
            counter.run(&[tails], &setting);
            let p = |i: u32| 0.6 * (-f64::from(i) * delta / mean).exp();
            let marks: f64 = (1..=r).map(p).sum();
            assert!((counter.states().map(|s| s.mass).sum::<f64>() - 1.0).abs() < 1e-15);
            assert!((counter.left().mean_ns - (0.6 * mean - delta * marks)).abs() < 1e-9);
            for (n, state) in counter.states().enumerate() {
                let n = n as u32;
                let above = if n == r { 0.0 } else { p(n + 1) };
                let exact = if n == 0 { 1.0 - above } else { p(n) - above };
                assert!((state.mass - exact).abs() < 1e-15, "{n}");
            }
            // R1: each threshold takes (2*Cov - x(1 - p))*x*p off the variance (paper App. B), here in closed form.
            let pr = p(r);
            let cov = pr * (f64::from(r) * delta + mean - 0.6 * mean)
                - delta * (1..r).map(|i| pr * (1.0 - p(i))).sum::<f64>();
            let less = 2.0 * delta * cov - delta * delta * pr * (1.0 - pr);
            let mut fewer = Counter::default();
            let mut tails = Tails::default();
            tails.fill(&law, delta, r, Rule::Edge);
            let variance = if r == 1 {
                law.variance_ns2()
            } else {
                fewer.run(&[tails], &Setting::new(delta, r - 1, 8, Rule::Edge).unwrap());
                fewer.left().var_ns2
            };
            assert!((variance - counter.left().var_ns2 - less).abs() < 1e-6 * variance, "R = {r}");
        }
    }

    #[test]
    fn thresholds_that_are_never_exceeded_cost_nothing() {
        let mut tails = Tails::default();
        tails.fill(&Law::constant(35.0).unwrap(), 10.0, 1 << 20, Rule::Edge);
        assert_eq!(tails.most(1 << 20), 3);
        let mut counter = Counter::default();
        counter.run(&[tails.clone(), tails], &Setting::new(10.0, 1 << 20, u32::MAX, Rule::Edge).unwrap());
        assert_eq!(counter.reach(), 6);
        assert!((counter.left().mean_ns - 10.0).abs() < 1e-12 && counter.left().var_ns2 < 1e-12);
    }
}
