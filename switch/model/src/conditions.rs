//! When marks help: the paper's conditions C1, C2, C3 (Proposition 1, in the final form of App. A), and the truth.
//!
//! The conditions are about one hop, [`Rule::Edge`], and a counter that does not saturate. C1 is sufficient, not
//! necessary: an exponential delay gains at every threshold (R = 1), while C1 begins at 1.688 means; and C1's region
//! begins later, not earlier, as R grows. So both are reported: C1, and where the variance falls in truth.

use serde::Serialize;

use crate::{
    Law, ModelError, Rule, Setting,
    counter::{Counter, Tails},
    error::positive,
    moments::Spread,
};

/// What can be said of one hop, there and back, at one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// C1 for the forward delay.
    pub c1_forward: Bound,
    /// C1 for the reverse delay.
    pub c1_reverse: Bound,
    /// C2: the delay with the larger mean exceeds each threshold more often. `None` where means are equal: not needed.
    pub c2: Option<bool>,
    /// C3: delta is not too large. `None` where means are equal.
    pub c3: Option<Bound>,
    /// Whether the variance of the forward delay falls.
    pub variance_falls_forward: bool,
    /// Whether that of the reverse delay falls.
    pub variance_falls_reverse: bool,
    /// Whether the MSE of the offset falls.
    pub mse_falls: bool,
}

/// A bound on delta, and whether delta keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The bound, ns: delta is to be no less (C1), or less (C3).
    pub bound_ns: f64,
    /// Whether it is.
    pub holds: bool,
}

/// The right side of C1 in ns: variance falls with each of R thresholds where delta is no less than 2*E\[Q\]/(1 +
/// (2R - 1)*P(Q > R*delta)).
pub fn c1_bound_ns(law: &Law, delta_ns: f64, thresholds: u32) -> f64 {
    let beyond = law.ccdf(Rule::Edge.threshold(thresholds, delta_ns));
    2.0 * law.mean_ns() / (1.0 + (2.0 * f64::from(thresholds) - 1.0) * beyond)
}

/// The right side of C3 in ns; infinite where no threshold tells the two delays apart.
pub fn c3_bound_ns(larger: &Law, smaller: &Law, delta_ns: f64, thresholds: u32) -> f64 {
    let told: f64 = (1..=thresholds)
        .map(|i| Rule::Edge.threshold(i, delta_ns))
        .map(|x| larger.ccdf(x) - smaller.ccdf(x))
        .sum();
    if told > 0.0 { 2.0 * (larger.mean_ns() - smaller.mean_ns()) / told } else { f64::INFINITY }
}

/// Conditions and truth for one hop whose forward and reverse delays are these.
///
/// # Errors
/// [`ModelError::Range`] as [`Setting::new`].
pub fn conditions(
    forward: &Law,
    reverse: &Law,
    delta_ns: f64,
    thresholds: u32,
) -> Result<Conditions, ModelError> {
    let setting = Setting::new(delta_ns, thresholds, thresholds, Rule::Edge)?;
    let c1 = |law| {
        let bound_ns = c1_bound_ns(law, delta_ns, thresholds);
        Bound { bound_ns, holds: delta_ns >= bound_ns }
    };
    let (a, b) = (forward.mean_ns(), reverse.mean_ns());
    let ordered = (a != b).then_some(if a > b { (forward, reverse) } else { (reverse, forward) });
    let c2 = ordered.map(|(larger, smaller)| {
        (1..=thresholds).map(|i| Rule::Edge.threshold(i, delta_ns)).all(|x| larger.ccdf(x) > smaller.ccdf(x))
    });
    let c3 = ordered.map(|(larger, smaller)| {
        let bound_ns = c3_bound_ns(larger, smaller, delta_ns, thresholds);
        Bound { bound_ns, holds: delta_ns < bound_ns }
    });
    let mut hop = Hop::default();
    let (left_forward, left_reverse) = (hop.left(forward, &setting), hop.left(reverse, &setting));
    let all = |law: &Law| Spread { mean_ns: law.mean_ns(), var_ns2: law.variance_ns2() };
    Ok(Conditions {
        c1_forward: c1(forward),
        c1_reverse: c1(reverse),
        c2,
        c3,
        variance_falls_forward: left_forward.var_ns2 < all(forward).var_ns2,
        variance_falls_reverse: left_reverse.var_ns2 < all(reverse).var_ns2,
        mse_falls: crate::mse_ns2(left_forward, left_reverse) < crate::mse_ns2(all(forward), all(reverse)),
    })
}

/// One hop by Algorithm 1, memory reused.
#[derive(Default)]
struct Hop {
    tails: [Tails; 1],
    counter: Counter,
}

impl Hop {
    fn left(&mut self, law: &Law, setting: &Setting) -> Spread {
        self.tails[0].fill(law, setting.delta_ns(), setting.thresholds(), setting.rule());
        self.counter.run(&self.tails, setting);
        self.counter.left()
    }
}

/// Deltas from `from_ns` on, up to `to_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Where it begins, ns.
    pub from_ns: f64,
    /// Where it ends, ns.
    pub to_ns: f64,
}

/// Deltas in `span` for which something holds. Between neighbours of `steps` + 1 deltas at equal ratios that differ, the
/// end is found to 1e-12; what begins and ends between two neighbours is missed, which only laws of points or samples
/// can do.
fn region(span: Interval, steps: u32, mut holds: impl FnMut(f64) -> bool) -> Vec<Interval> {
    let ratio = libm::log(span.to_ns / span.from_ns) / f64::from(steps);
    let at = |i: u32| if i == steps { span.to_ns } else { span.from_ns * libm::exp(f64::from(i) * ratio) };
    let mut found: Vec<Interval> = vec![];
    let (mut last, mut inside) = (span.from_ns, holds(span.from_ns));
    let mut from = span.from_ns;
    for i in 1..=steps {
        let delta = at(i);
        if holds(delta) != inside {
            let (mut low, mut high) = (last, delta);
            while high - low > 1e-12 * high {
                let middle = 0.5 * (low + high);
                if middle <= low || middle >= high {
                    break;
                }
                if holds(middle) == inside { low = middle } else { high = middle }
            }
            if inside {
                found.push(Interval { from_ns: from, to_ns: low });
            } else {
                from = high;
            }
            inside = !inside;
        }
        last = delta;
    }
    if inside {
        found.push(Interval { from_ns: from, to_ns: span.to_ns });
    }
    found
}

fn checked(span: Interval, steps: u32) -> Result<Interval, ModelError> {
    positive("lower end of the span", span.from_ns)?;
    positive("upper end of the span", span.to_ns)?;
    if span.to_ns <= span.from_ns {
        return Err(ModelError::range("upper end of the span", span.to_ns, "above the lower"));
    }
    if steps == 0 {
        return Err(ModelError::range("steps", steps, "1 or more"));
    }
    Ok(span)
}

/// Deltas in `span`, looked at in `steps` equal ratios, that satisfy C1 with R thresholds. Above 2*E\[Q\] all do.
///
/// # Errors
/// [`ModelError::Range`] on a span that is empty or not above 0, or without steps, or R = 0.
pub fn c1_region(
    law: &Law,
    thresholds: u32,
    span: Interval,
    steps: u32,
) -> Result<Vec<Interval>, ModelError> {
    let span = checked(span, steps)?;
    Setting::new(span.from_ns, thresholds, thresholds, Rule::Edge)?;
    Ok(region(span, steps, |delta| delta >= c1_bound_ns(law, delta, thresholds)))
}

/// Deltas in `span`, looked at in `steps` equal ratios, for which the variance of one hop's delay falls with R
/// thresholds: by Algorithm 1, and by more than its rounding of about 1e-13 of the variance.
///
/// # Errors
/// As [`c1_region`].
pub fn variance_region(
    law: &Law,
    thresholds: u32,
    rule: Rule,
    span: Interval,
    steps: u32,
) -> Result<Vec<Interval>, ModelError> {
    let span = checked(span, steps)?;
    Setting::new(span.from_ns, thresholds, thresholds, rule)?;
    let before = law.variance_ns2() * (1.0 - 1e-13);
    let mut hop = Hop::default();
    Ok(region(span, steps, |delta| {
        Setting::new(delta, thresholds, thresholds, rule)
            .is_ok_and(|setting| hop.left(law, &setting).var_ns2 < before)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ns: f64, to_ns: f64) -> Interval {
        Interval { from_ns, to_ns }
    }

    #[test]
    fn c1_of_an_exponential_is_sufficient_but_not_necessary() {
        let law = Law::exponential(1e3, 1.0).unwrap();
        let mut last = 0.0;
        for (r, begins) in [(1, Some(1.688)), (2, None), (4, None), (8, None)] {
            let c1 = c1_region(&law, r, span(1.0, 2e4), 2000).unwrap();
            assert_eq!(c1.len(), 1, "{c1:?}");
            assert_eq!(c1[0].to_ns, 2e4);
            if let Some(begins) = begins {
                assert!((c1[0].from_ns / 1e3 - begins).abs() < 1e-3, "{c1:?}");
            }
            // It moves up with R, against the paper's V-A and Fig. 8a.
            assert!(c1[0].from_ns > last && c1[0].from_ns < 2e3);
            last = c1[0].from_ns;
            let truth = variance_region(&law, r, Rule::Edge, span(1.0, 2e4), 2000).unwrap();
            assert_eq!(truth, [span(1.0, 2e4)], "R = {r}");
        }
    }

    #[test]
    fn where_c1_holds_variance_falls() {
        let laws = [
            Law::exponential(1e3, 0.3).unwrap(),
            Law::gamma(4.0, 1e3, 1.0).unwrap(),
            Law::gamma(0.4, 1e3, 0.8).unwrap(),
            Law::points(&[(0.0, 3.0), (700.0, 1.0), (2500.0, 1.0)]).unwrap(),
            Law::samples((0..500).map(|i| f64::from(i * i % 491)).collect()).unwrap(),
        ];
        let mut tried = 0;
        for law in &laws {
            for r in [1, 2, 3, 8] {
                for step in 1..=200 {
                    let delta = f64::from(step) * 0.02 * law.mean_ns();
                    let found = conditions(law, law, delta, r).unwrap();
                    // With no mass above the first threshold nothing changes at all.
                    if found.c1_forward.holds && law.ccdf(delta) > 0.0 {
                        assert!(found.variance_falls_forward, "{law:?} R {r} delta {delta}");
                        tried += 1;
                    }
                    assert_eq!((found.c2, found.c3), (None, None));
                }
            }
        }
        assert!(tried > 500, "{tried}");
    }

    #[test]
    fn variance_can_rise() {
        // Half at 0, half at 10: one threshold at 9 leaves 1; at 1 it leaves 9; two states 30 apart from 25 leave 5.
        let law = Law::points(&[(0.0, 1.0), (10.0, 1.0)]).unwrap();
        let truth = variance_region(&law, 1, Rule::Edge, span(0.1, 40.0), 400).unwrap();
        assert!((truth[0].to_ns - 10.0).abs() < 1e-9 && truth.len() == 1, "{truth:?}");
        // Centred: the threshold is at delta/2; beyond 20 there is nothing above it, and from delta = 20 on it is wrong
        // by more than what it takes away.
        let truth = variance_region(&law, 1, Rule::Centred, span(0.1, 40.0), 400).unwrap();
        assert!((truth[0].to_ns - 20.0).abs() < 1e-6 && truth.len() == 1, "{truth:?}");
        // A narrow law far from zero: thresholds within it add variance.
        let law = Law::gamma(1000.0, 1e3, 1.0).unwrap();
        let truth = variance_region(&law, 1, Rule::Edge, span(10.0, 3e3), 3000).unwrap();
        assert!(!truth.iter().any(|i| i.from_ns < 1e3 && i.to_ns > 1e3), "{truth:?}");
        assert!(!conditions(&law, &law, 1e3, 1).unwrap().variance_falls_forward);
    }

    #[test]
    fn unequal_means_need_c2_and_c3() {
        let (a, b) = (Law::exponential(4e3, 0.7).unwrap(), Law::exponential(2e3, 0.4).unwrap());
        for (forward, reverse) in [(&a, &b), (&b, &a)] {
            let found = conditions(forward, reverse, 3e3, 2).unwrap();
            assert_eq!(found.c2, Some(true));
            let c3 = found.c3.unwrap();
            let p = |x: f64| 0.7 * (-x / 4e3).exp() - 0.4 * (-x / 2e3).exp();
            assert!((c3.bound_ns - 2.0 * (2.8e3 - 0.8e3) / (p(3e3) + p(6e3))).abs() < 1e-6);
            assert!(c3.holds && found.mse_falls);
        }
        let crossing = Law::points(&[(0.0, 9.0), (20e3, 2.0)]).unwrap();
        assert_eq!(conditions(&crossing, &a, 1e3, 2).unwrap().c2, Some(false));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let law = Law::exponential(1e3, 1.0).unwrap();
        assert!(conditions(&law, &law, 0.0, 1).unwrap_err().to_string().starts_with("delta is 0"));
        assert!(c1_region(&law, 0, span(1.0, 2.0), 9).unwrap_err().to_string().starts_with("thresholds"));
        assert!(c1_region(&law, 1, span(2.0, 2.0), 9).unwrap_err().to_string().starts_with("upper end"));
    }
}
