//! The worker: one busy thread that runs all switches of a process.
//!
//! Each round it reads the clock, then all receive rings, merges them by arrival stamp into the core, runs the links
//! up to clock - L, and releases each frame at its ideal instant + L. So marks and departures are those of an ideal
//! switch with the constant pipeline latency L, whatever the machine does in between.

mod handle;
mod merge;
mod node;
mod octets;
mod record;
mod release;
mod run;
mod snapshot;

pub use handle::{Worker, WorkerConfig, WorkerError};
pub use node::{Node, Stall};
pub use octets::{HEADER_OCTETS, MESSAGE_OCTETS};
pub use record::{Fate, Record, RecordWhat, Records, Release, Sent};
pub use release::ReleaseAt;
pub use snapshot::{Lateness, NodeSnapshot, PortSnapshot, Residence, Snapshot};

/// What the worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Spins: the truest times, one CPU always busy.
    Spin,
    /// Spins for 100 us after the last frame, then sleeps until a frame comes or one is due.
    #[default]
    Adaptive,
    /// Sleeps at once: the least CPU, wake-ups of tens of microseconds.
    Sleep,
}
