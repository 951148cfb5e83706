//! n * delta, within limits that no forged count gets beyond.

use crate::Settings;

/// Largest delay that a message is believed, in picoseconds: 1 s, as at a switch's edge port.
pub const CAP_PS: u64 = 1_000_000_000_000;

/// What a message's marks come to.
#[derive(Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) marks: u32,
    ps: u64,
    /// Whether the count said more than is believed.
    pub(crate) capped: bool,
}

impl Amount {
    /// Of a counter.
    #[inline(always)]
    pub(crate) fn of(count: u32, settings: &Settings) -> Self {
        let most = settings.counter_max;
        let marks = if count < most { count } else { most };
        let amount = Self::times(marks, settings.delta_ps);
        Self { capped: amount.capped || marks < count, ..amount }
    }

    /// Of one CE.
    #[inline(always)]
    pub(crate) fn of_ce(settings: &Settings) -> Self {
        Self::times(1, settings.ce_ps)
    }

    /// Without a product that could overflow: the kernel's machine has no wider one.
    #[inline(always)]
    fn times(marks: u32, each_ps: u64) -> Self {
        let capped = CAP_PS.checked_div(each_ps).is_some_and(|most| u64::from(marks) > most);
        let ps = if capped { CAP_PS } else { u64::from(marks) * each_ps };
        Self { marks, ps, capped }
    }

    /// In nanoseconds, to the nearest.
    #[inline(always)]
    pub(crate) const fn ns(self) -> u64 {
        (self.ps + 500) / 1000
    }

    /// In 2^-16 ns, to the nearest; at most 6.6e13 of them.
    #[inline(always)]
    pub(crate) const fn scaled(self) -> i64 {
        (((self.ps << 16) + 500) / 1000) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_believed_up_to_its_limit_and_one_second() {
        let settings = |delta_ps, counter_max| Settings { delta_ps, counter_max, ..Settings::NONE };
        for (count, delta_ps, most, ns, capped) in [
            (3, 60_000_000, u32::MAX, 180_000, false),
            (3, 500, u32::MAX, 2, false), // 1.5 ns
            (9, 60_000_000, 4, 240_000, true),
            (u32::MAX, u64::MAX, u32::MAX, 1_000_000_000, true),
            (1_000, 1_000_000_000, u32::MAX, 1_000_000_000, false),
            (1_001, 1_000_000_000, u32::MAX, 1_000_000_000, true),
            (5, 0, u32::MAX, 0, false),
        ] {
            let amount = Amount::of(count, &settings(delta_ps, most));
            assert_eq!((amount.ns(), amount.capped), (ns, capped), "{count} of {delta_ps} ps");
        }
        assert_eq!(Amount::of(1, &settings(1_000_000, 9)).scaled(), 1000 << 16);
    }
}
