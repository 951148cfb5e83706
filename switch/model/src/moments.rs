//! Probability and partial moments of an event, the currency of everything here.

use std::ops::{AddAssign, Sub};

/// P(A), E\[X - c; A\] and E\[(X - c)^2; A\] of an event A, about a point c that the context names.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// P(A).
    pub mass: f64,
    /// E\[X - c; A\], ns.
    pub first: f64,
    /// E\[(X - c)^2; A\], ns^2.
    pub second: f64,
}

impl Moments {
    /// Moments of an event of probability `mass` on which X - c is `value` for certain.
    pub const fn atom(mass: f64, value: f64) -> Self {
        Self { mass, first: mass * value, second: mass * value * value }
    }

    /// The same event about c - `by`: X - c grows by `by`.
    #[inline]
    pub const fn raised(self, by: f64) -> Self {
        Self {
            mass: self.mass,
            first: self.first + by * self.mass,
            second: self.second + by * (2.0 * self.first + by * self.mass),
        }
    }

    /// All three scaled.
    #[inline]
    pub(crate) const fn times(self, factor: f64) -> Self {
        Self { mass: self.mass * factor, first: self.first * factor, second: self.second * factor }
    }

    /// The variance where the event is certain; never below 0.
    pub fn variance(self) -> f64 {
        (self.second - self.first * self.first).max(0.0)
    }
}

/// Mean and variance of a delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean, ns.
    pub mean_ns: f64,
    /// Variance, ns^2.
    pub var_ns2: f64,
}

impl AddAssign for Spread {
    /// Adds an independent delay.
    fn add_assign(&mut self, other: Self) {
        self.mean_ns += other.mean_ns;
        self.var_ns2 += other.var_ns2;
    }
}

impl AddAssign for Moments {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.mass += other.mass;
        self.first += other.first;
        self.second += other.second;
    }
}

impl Sub for Moments {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self {
            mass: self.mass - other.mass,
            first: self.first - other.first,
            second: self.second - other.second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_moves_the_point_they_are_about() {
        let mut two = Moments::atom(0.25, 3.0);
        two += Moments::atom(0.5, -1.0);
        let mut moved = Moments::atom(0.25, 5.0);
        moved += Moments::atom(0.5, 1.0);
        assert_eq!(two.raised(2.0), moved);
        assert_eq!((moved - Moments::atom(0.5, 1.0)), Moments::atom(0.25, 5.0));
        assert_eq!(Moments::atom(1.0, 7.0).variance(), 0.0);
    }
}
