//! Unmodified clock daemons as children of this process: found, configured in a directory of their own, started in a
//! namespace, watched, stopped.

mod child;
mod error;
mod logged;
mod scratch;

pub(crate) use child::{Daemon, Program, Start, scratch};
pub use error::DaemonError;
pub use logged::{LogLine, Logged};
pub(crate) use scratch::Scratch;

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_REALTIME in nanoseconds.
pub(crate) fn realtime() -> u64 {
    now(ClockId::Realtime)
}

/// A clock in nanoseconds.
pub(crate) fn now(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}
