//! Marks beside the waits that they should tell: how many are wrong, and by how much.

use crate::fifo;

/// What marks mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// delta in picoseconds.
    pub(crate) delta_ps: u64,
    /// R.
    pub(crate) thresholds: u32,
}

/// A mark this close to a threshold may differ between the host's stamp and the port's.
pub(crate) const ZONE_PS: u64 = 5_000_000;

/// Marks that are not what they should be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) checked: u64,
    pub(crate) wrong: u64,
    /// Of them: by more than one.
    pub(crate) far: u64,
    /// Of them: the wait is farther than [`ZONE_PS`] from the nearest threshold.
    pub(crate) outside: u64,
    /// The farthest that a wait lay on the wrong side of a threshold, ps.
    pub(crate) worst_ps: u128,
    /// The largest share of the threshold that this was.
    pub(crate) worst_share: f64,
}

impl Wrong {
    /// Judges a mark of `found` by the wait.
    pub(crate) fn count(&mut self, scale: Scale, wait_ps: u128, found: u32) {
        let Scale { delta_ps, thresholds } = scale;
        let expected = fifo::exceeded(wait_ps, delta_ps, thresholds);
        self.checked += 1;
        if expected == found {
            return;
        }
        self.wrong += 1;
        self.far += u64::from(expected.abs_diff(found) > 1);
        // Of all thresholds between the wait and what the mark says, the farthest from the wait.
        let threshold = u128::from(delta_ps) * u128::from(if found > expected { found } else { found + 1 });
        let beyond = wait_ps.abs_diff(threshold);
        self.worst_ps = self.worst_ps.max(beyond);
        self.worst_share = self.worst_share.max(beyond as f64 / threshold as f64);
        let rest = wait_ps % u128::from(delta_ps);
        self.outside += u64::from(rest.min(u128::from(delta_ps) - rest) > u128::from(ZONE_PS));
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            checked: self.checked + other.checked,
            wrong: self.wrong + other.wrong,
            far: self.far + other.far,
            outside: self.outside + other.outside,
            worst_ps: self.worst_ps.max(other.worst_ps),
            worst_share: self.worst_share.max(other.worst_share),
        }
    }

    /// `part` of those checked; NaN of none.
    pub(crate) fn share(&self, part: u64) -> f64 {
        if self.checked == 0 { f64::NAN } else { part as f64 / self.checked as f64 }
    }

    /// The farthest beyond a threshold, as text.
    pub(crate) fn worst(&self) -> String {
        let us = self.worst_ps as f64 / 1e6;
        format!("at most {us:.2} us beyond a threshold ({:.1} % of it)", self.worst_share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELTA: u128 = 120_000_000;
    const SCALE: Scale = Scale { delta_ps: DELTA as u64, thresholds: 128 };

    #[test]
    fn wrong_marks_are_told_apart_by_how_wrong_they_are() {
        let mut wrong = Wrong::default();
        wrong.count(SCALE, DELTA * 3 + 1, 3);
        wrong.count(SCALE, DELTA * 3 + 1, 2); // right at the threshold
        wrong.count(SCALE, DELTA * 3 + 6_000_000, 2);
        wrong.count(SCALE, DELTA * 4 - 1, 2);
        assert_eq!((wrong.worst_ps, wrong.far), (DELTA - 1, 0));
        wrong.count(SCALE, DELTA * 4 - 1, 5);
        assert_eq!((wrong.checked, wrong.wrong, wrong.far, wrong.outside), (5, 4, 1, 1));
        // Five thresholds are said to be exceeded, and the fifth is DELTA + 1 away.
        assert_eq!(wrong.worst_ps, DELTA + 1);
        assert!((wrong.worst_share - 1.0 / 3.0).abs() < 1e-6, "{}", wrong.worst_share);
    }
}
