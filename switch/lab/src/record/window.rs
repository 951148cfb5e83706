//! Which records belong to the measurement, and which to the time that the lab settled.

use std::sync::atomic::{AtomicU64, Ordering};

/// The span that counts, CLOCK_MONOTONIC in nanoseconds; moved while records come in.
#[derive(Debug)]
pub struct Window {
    from: AtomicU64,
    until: AtomicU64,
}

impl Window {
    /// Nothing counts yet.
    pub const fn closed() -> Self {
        Self { from: AtomicU64::new(u64::MAX), until: AtomicU64::new(u64::MAX) }
    }

    /// Everything counts: there is nothing to settle.
    pub const fn always() -> Self {
        Self { from: AtomicU64::new(0), until: AtomicU64::new(u64::MAX) }
    }

    /// From `now` on everything counts.
    pub fn open(&self, now: u64) {
        self.from.store(now, Ordering::Release);
    }

    /// What was released after `now` no longer counts.
    pub fn close(&self, now: u64) {
        self.until.store(now, Ordering::Release);
    }

    /// Whether what was released `at` counts.
    pub fn holds(&self, at: u64) -> bool {
        self.from.load(Ordering::Acquire) <= at && at <= self.until.load(Ordering::Acquire)
    }
}
