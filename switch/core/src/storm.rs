//! Storm control: a token bucket on frames that a port would flood.

use crate::{Nanos, StormConfig};

const SECOND: u64 = 1_000_000_000;

/// The bucket; a frame costs one second's worth of `rate`, so that all is in whole numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    rate: u64,
    most: u64,
    credit: u64,
    filled: Nanos,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(config: StormConfig) -> Self {
        let most = u64::from(config.burst) * SECOND;
        Self { rate: config.frames_per_second.into(), most, credit: most, filled: Nanos(0) }
    }

    /// Whether another frame may pass at `now`.
    #[inline]
    pub(crate) fn admits(&mut self, now: Nanos) -> bool {
        let earned = now.since(self.filled).saturating_mul(self.rate);
        self.filled = self.filled.max(now);
        self.credit = self.credit.saturating_add(earned).min(self.most);
        let passes = self.credit >= SECOND;
        if passes {
            self.credit -= SECOND;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate() {
        let mut bucket = Bucket::new(StormConfig { frames_per_second: 1000, burst: 3 });
        let passed = |bucket: &mut Bucket, at: u64, frames: u32| {
            (0..frames).filter(|_| bucket.admits(Nanos(at))).count()
        };
        assert_eq!(passed(&mut bucket, 5, 10), 3);
        assert_eq!(passed(&mut bucket, 999_999, 1), 0);
        assert_eq!(passed(&mut bucket, 1_000_005, 1), 1);
        assert_eq!(passed(&mut bucket, 4_000_005, 10), 3);
        // An earlier instant neither earns nor loses.
        assert_eq!(passed(&mut bucket, 0, 1), 0);
        assert_eq!(passed(&mut bucket, u64::MAX, 10), 3);
    }

    #[test]
    fn a_steady_flow_at_the_rate_never_loses() {
        let mut bucket = Bucket::new(StormConfig { frames_per_second: 3, burst: 2 });
        assert!((1..1000u64).all(|n| bucket.admits(Nanos((n * SECOND).div_ceil(3)))));
    }
}
