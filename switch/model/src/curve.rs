//! Improvement over delta: how much a choice matters.

use serde::Serialize;

use crate::{Interval, ModelError, Paths, PathsEvaluator, Setting, Space, improvement};

/// Improvement at deltas of equal ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Delta in ns, increasing, and I of all pairs together: 1 - sqrt(sum of MSE / sum of baselines).
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Of `pairs` with R = `thresholds` at all deltas of `space`.
    ///
    /// # Errors
    /// [`ModelError::Range`] as [`crate::search`].
    pub fn new<P: Clone + Into<Paths>>(
        pairs: &[P],
        space: &Space,
        thresholds: u32,
    ) -> Result<Self, ModelError> {
        let mut pairs: Vec<_> = pairs.iter().map(|pair| PathsEvaluator::new(pair.clone().into())).collect();
        let points = space.grid()?.map(|delta_ns| {
            let setting = Setting::new(delta_ns, thresholds, space.counter_max, space.rule)?;
            let (mut with, mut without) = (0.0, 0.0);
            for pair in &mut pairs {
                pair.prepare(&setting);
                with += pair.mse_ns2(&setting);
                without += pair.baseline_mse_ns2();
            }
            Ok((delta_ns, improvement(with, without)))
        });
        Ok(Self { points: points.collect::<Result<_, ModelError>>()? })
    }

    /// The run of deltas around `delta_ns` at which I is `at_least` so much; nothing but `delta_ns` itself, whose own I is
    /// not asked, where neighbours have less.
    pub fn around(&self, delta_ns: f64, at_least: f64) -> Interval {
        let enough = |point: &&(f64, f64)| point.1 >= at_least;
        let (below, above) = self.points.split_at(self.points.partition_point(|point| point.0 <= delta_ns));
        let from = below.iter().rev().take_while(enough).last();
        let to = above.iter().take_while(enough).last();
        Interval {
            from_ns: from.map_or(delta_ns, |point| point.0),
            to_ns: to.map_or(delta_ns, |point| point.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Law, Pair, Rule};

    #[test]
    fn a_hill_with_a_region_around_its_top() {
        let law = Law::exponential(10e3, 1.0).unwrap();
        let pairs = [Pair { forward: vec![law.clone()], reverse: vec![law] }];
        let space = Space::around(&pairs, vec![1], 1, Rule::Edge).unwrap();
        let curve = Curve::new(&pairs, &space, 1).unwrap();
        let best = curve.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let good = curve.around(best.0, 0.9 * best.1);
        assert!(good.from_ns < best.0 && best.0 < good.to_ns);
        for &(delta, i) in &curve.points {
            assert_eq!(i >= 0.9 * best.1, (good.from_ns..=good.to_ns).contains(&delta), "{delta}");
        }
        // An exponential gains at every delta.
        let all = curve.around(best.0, 0.0);
        assert_eq!(all, Interval { from_ns: curve.points[0].0, to_ns: curve.points[300].0 });
        assert_eq!(curve.around(100.0, 0.5), Interval { from_ns: 100.0, to_ns: 100.0 });
        assert_eq!(space.deltas.from_ns, 200.0);
    }
}
