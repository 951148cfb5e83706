//! The emulated link's clock: when each frame starts and ends, in exact arithmetic.
//!
//! At `rate` bit/s one octet takes 8*10^9/rate ns. Reduced, that is `octet/units`, and an instant is whole nanoseconds
//! plus a count of 1/`units` ns. Every cost is a whole number of units, so sums carry no rounding at all; only what is
//! shown to the world is rounded up to a whole nanosecond (picosecond for a depth).

use crate::{Nanos, Rate};

const OCTET_TIMES_RATE: u64 = 8_000_000_000;

/// What an octet costs at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Cost of an octet in units.
    octet: u64,
    /// Units in a nanosecond.
    units: u64,
}

/// An instant on a link; the order is that of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant {
    ns: u64,
    /// Units beyond `ns`, below [`Pace::units`].
    part: u64,
}

impl Instant {
    /// This whole nanosecond.
    pub const fn at(t: Nanos) -> Self {
        Self { ns: t.0, part: 0 }
    }

    /// Whether it is earlier than `t`.
    #[inline]
    pub const fn is_before(self, t: Nanos) -> bool {
        self.ns < t.0
    }

    /// The first whole nanosecond after it.
    #[inline]
    pub const fn just_after(self) -> Nanos {
        Nanos(self.ns.saturating_add(1))
    }

    /// The first whole nanosecond at or after it.
    #[inline]
    pub const fn ceil(self) -> Nanos {
        Nanos(self.ns.saturating_add((self.part != 0) as u64))
    }
}

impl Pace {
    /// The pace of a rate of 1..=[`crate::config::MAX_RATE`] bit/s.
    pub const fn new(rate: Rate) -> Self {
        let common = gcd(OCTET_TIMES_RATE, rate.0);
        Self { octet: OCTET_TIMES_RATE / common, units: rate.0 / common }
    }

    /// `start` plus the time of so many octets.
    #[inline]
    pub const fn after(self, start: Instant, octets: u32) -> Instant {
        // At most 2^32 * 2^33 + 2^44 for sums of one frame: no overflow.
        let part = octets as u64 * self.octet + start.part;
        if self.units == 1 {
            return Instant { ns: start.ns.saturating_add(part), part: 0 };
        }
        Instant { ns: start.ns.saturating_add(part / self.units), part: part % self.units }
    }

    /// What must leave from `now` on until the link is free at `free` and `queued` octets are gone: wire octets and
    /// picoseconds, each rounded up.
    #[inline]
    pub const fn backlog(self, now: Nanos, free: Instant, queued: u64) -> (u64, u64) {
        let rest = if free.ns >= now.0 {
            (free.ns - now.0) as u128 * self.units as u128 + free.part as u128
        } else {
            0
        };
        let units = rest + queued as u128 * self.octet as u128;
        (least(div_ceil(rest, self.octet) + queued as u128), least(div_ceil(units * 1000, self.units)))
    }
}

#[inline]
const fn least(wide: u128) -> u64 {
    if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
}

/// Division rounded up; almost always of 64 bits, which is several times faster.
#[inline]
const fn div_ceil(number: u128, by: u64) -> u128 {
    match (number as u64 as u128 == number, by) {
        (_, 1) => number,
        (true, _) => (number as u64).div_ceil(by) as u128,
        (false, _) => number.div_ceil(by as u128),
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn end(rate: u64, start: u64, octets: u32) -> Instant {
        Pace::new(Rate(rate)).after(Instant::at(Nanos(start)), octets)
    }

    #[test]
    fn common_rates_cost_whole_nanoseconds() {
        assert_eq!(end(100_000_000, 5, 1538), Instant { ns: 5 + 123_040, part: 0 });
        assert_eq!(end(1_000_000_000, 0, 84), Instant { ns: 672, part: 0 });
        // 10 Gbit/s: 0.8 ns an octet, 84 of them 67.2 ns.
        assert_eq!(end(10_000_000_000, 0, 84), Instant { ns: 67, part: 1 });
        assert_eq!(end(10_000_000_000, 0, 84).ceil(), Nanos(68));
    }

    #[test]
    fn a_backlog_is_the_rest_in_service_and_the_queue() {
        let pace = Pace::new(Rate(100_000_000));
        // 80 ns an octet: 50 us of rest are 625 octets.
        assert_eq!(pace.backlog(Nanos(100), Instant::at(Nanos(50_100)), 1000), (1625, 130_000_000));
        assert_eq!(pace.backlog(Nanos(100), Instant::at(Nanos(99)), 1000), (1000, 80_000_000));
        assert_eq!(pace.backlog(Nanos(100), Instant::at(Nanos(100)), 0), (0, 0));
        // 79 ns are not a whole octet: rounded up.
        assert_eq!(pace.backlog(Nanos(0), Instant::at(Nanos(79)), 0), (1, 79_000));
    }

    #[test]
    fn a_million_frames_drift_by_nothing() {
        let rate = 123_456_789;
        let pace = Pace::new(Rate(rate));
        let mut t = Instant::at(Nanos(0));
        for _ in 0..1_000_000 {
            t = pace.after(t, 1538);
        }
        let exact = 1_000_000u128 * 1538 * 8_000_000_000;
        assert_eq!(u128::from(t.ns), exact / u128::from(rate));
        assert_eq!(u128::from(t.part) * u128::from(gcd(OCTET_TIMES_RATE, rate)), exact % u128::from(rate));
    }

    proptest! {
        #[test]
        fn a_backlog_in_time_compares_as_the_exact_one(
            rate in 1u64..=crate::config::MAX_RATE, now in 0u64..1 << 40, busy in 0u32..200_000, queued in 0u64..1 << 30, threshold: u64,
        ) {
            let pace = Pace::new(Rate(rate));
            let free = pace.after(Instant::at(Nanos(now)), busy);
            let (octets, ps) = pace.backlog(Nanos(now), free, queued);
            let total = u128::from(busy) + u128::from(queued);
            prop_assert_eq!(u128::from(octets), total);
            let exact = total * 8_000_000_000_000; // ps * rate
            if ps < u64::MAX {
                prop_assert_eq!(u128::from(ps) > u128::from(threshold), exact > u128::from(threshold) * u128::from(rate));
            }
        }
    }
}
