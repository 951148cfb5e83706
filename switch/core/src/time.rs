//! Time as the core knows it: a number that somebody passes in.

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
        Self(self.0 + ns)
    }
}

impl Sub<u64> for Nanos {
    type Output = Self;
    #[inline]
    fn sub(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }
}

/// Picoseconds: the link clock's unit, so that nothing drifts. 128 bits, so that nothing wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picos(pub u128);

impl From<Nanos> for Picos {
    #[inline]
    fn from(t: Nanos) -> Self {
        Self(u128::from(t.0) * 1000)
    }
}

impl Picos {
    /// The first whole nanosecond at or after this instant.
    #[inline]
    pub const fn ceil_nanos(self) -> Nanos {
        Nanos(self.0.div_ceil(1000) as u64)
    }
}
