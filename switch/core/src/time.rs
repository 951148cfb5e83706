//! Time as the core knows it: a number that somebody passes in. Sums saturate: no clock gets there, no input panics.

use std::ops::{Add, Sub};

/// Nanoseconds on the machine's monotonic clock (or of a simulator's virtual time).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The difference to an earlier instant, 0 where `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Nanos {
    type Output = Self;
    #[inline]
    fn add(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub<u64> for Nanos {
    type Output = Self;
    #[inline]
    fn sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums_stop_at_the_ends() {
        assert_eq!(Nanos(7).since(Nanos(3)), 4);
        assert_eq!(Nanos(3).since(Nanos(7)), 0);
        assert_eq!(Nanos(3) - 7, Nanos(0));
        assert_eq!(Nanos(u64::MAX) + 1, Nanos(u64::MAX));
    }
}
