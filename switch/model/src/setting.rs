//! What a network is set to: delta, R, N, and where the thresholds lie.

use serde::Serialize;

use crate::error::{ModelError, positive};

/// Largest R that the model takes. Thresholds above all delays cost nothing.
pub const MAX_THRESHOLDS: u32 = 1 << 20;

/// Where threshold i = 1, 2, .. lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// i*delta, as in the paper (III-B, eq. 9): a count of r says that the delay was at least r*delta, so what is left
    /// has a bias of about delta/2.
    #[default]
    Edge,
    /// (i - 1/2)*delta, beyond the paper: r*delta is the middle of the delays that are counted r, so what is left has
    /// nearly no bias.
    Centred,
}

impl Rule {
    /// Threshold `i`, 1 or more, in ns.
    #[inline]
    pub fn threshold(self, i: u32, delta_ns: f64) -> f64 {
        match self {
            Self::Edge => f64::from(i) * delta_ns,
            Self::Centred => (f64::from(i) - 0.5) * delta_ns,
        }
    }
}

/// delta, R, N and the rule, checked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    delta_ns: f64,
    thresholds: u32,
    counter_max: u32,
    rule: Rule,
}

impl Setting {
    /// delta in ns, R (1..=[`MAX_THRESHOLDS`]), N (1 or more). R above N is no error and counts as N, since a hop can
    /// add no more than that.
    ///
    /// # Errors
    /// [`ModelError::Range`] that names the one outside its range.
    pub fn new(delta_ns: f64, thresholds: u32, counter_max: u32, rule: Rule) -> Result<Self, ModelError> {
        positive("delta", delta_ns)?;
        if !(1..=MAX_THRESHOLDS).contains(&thresholds) {
            return Err(ModelError::range("thresholds (R)", thresholds, "within 1..=1048576"));
        }
        if counter_max == 0 {
            return Err(ModelError::range("counter-max (N)", counter_max, "1 or more"));
        }
        Ok(Self { delta_ns, thresholds, counter_max, rule })
    }

    /// delta: the delay that one mark stands for, ns.
    pub const fn delta_ns(&self) -> f64 {
        self.delta_ns
    }

    /// R, thresholds per hop.
    pub const fn thresholds(&self) -> u32 {
        self.thresholds
    }

    /// N, the counter's largest value.
    pub const fn counter_max(&self) -> u32 {
        self.counter_max
    }

    /// Where the thresholds lie.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// r: how many of the thresholds 1..=R a delay of `delay_ns` exceeds, strictly.
    #[inline]
    pub fn marks(&self, delay_ns: f64) -> u32 {
        let exceeds = |i| delay_ns > self.rule.threshold(i, self.delta_ns);
        // A guess by division, put right by the comparisons that define r: rounding decides nothing.
        let mut r = ((delay_ns / self.delta_ns) as u32).min(self.thresholds);
        while r > 0 && !exceeds(r) {
            r -= 1;
        }
        while r < self.thresholds && exceeds(r + 1) {
            r += 1;
        }
        r
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_thresholds_exceeded() {
        for rule in [Rule::Edge, Rule::Centred] {
            for delta in [0.1, 1.0, 3.7, 1e4] {
                let setting = Setting::new(delta, 7, 9, rule).unwrap();
                for step in 0..4000 {
                    let delay = f64::from(step) * delta * 0.0025;
                    let count = (1..=7).filter(|&i| delay > rule.threshold(i, delta)).count();
                    assert_eq!(setting.marks(delay) as usize, count, "{rule:?} {delta} {delay}");
                }
                assert_eq!(setting.marks(0.0), 0);
                assert_eq!(setting.marks(f64::MAX), 7);
            }
        }
        let edge = Setting::new(10.0, 4, 4, Rule::Edge).unwrap();
        assert_eq!([10.0, 10.000001, 20.0, 41.0].map(|d| edge.marks(d)), [0, 1, 1, 4]);
        let centred = Setting::new(10.0, 4, 4, Rule::Centred).unwrap();
        assert_eq!([5.0, 5.000001, 15.0, 35.1].map(|d| centred.marks(d)), [0, 1, 1, 4]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |delta, r, n| Setting::new(delta, r, n, Rule::Edge).unwrap_err().to_string();
        assert_eq!(said(0.0, 1, 1), "delta is 0; it must be a finite number above 0");
        assert!(said(f64::INFINITY, 1, 1).starts_with("delta is inf"));
        assert_eq!(said(1.0, 0, 1), "thresholds (R) is 0; it must be within 1..=1048576");
        assert_eq!(said(1.0, 1, 0), "counter-max (N) is 0; it must be 1 or more");
    }
}
