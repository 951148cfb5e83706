//! The switch without a machine: parses, learns, queues, shapes and marks.
//!
//! No clock, no I/O, no thread: time is a parameter, frames are handles into a [`Pool`], departures leave through an
//! [`Egress`]. A frame's way is [`Switch::receive`] -> egress queue -> [`Switch::advance`], in `switch.rs`.
//!
//! | file | idea |
//! |---|---|
//! | `switch.rs` | a frame's way: check, trust, learn, look up, copy |
//! | `port.rs` | a port's egress: depth, mark, queue, link |
//! | `depth.rs` | what the thresholds are compared with |
//! | `queue.rs`, `link.rs`, `class.rs` | eight queues, the link's exact clock, which queue |
//! | `deficit.rs` | whose turn it is among classes that share a link |
//! | `mark/`, `lateness.rs` | counters, ECN, trust, edge conversion; the machine's own lateness |
//! | `fdb.rs`, `vlan.rs`, `storm.rs` | forwarding database, VLANs and tags, storm control |
//! | `wire/` | views of what is on the wire |
//! | `config/`, `units.rs`, `time.rs`, `frame.rs` | what comes in: configuration, quantities, time, frames |
//! | `loss.rs`, `stats.rs` | what comes out: reasons and counters |
//!
//! Not here: spanning tree, IGMP snooping.
#![forbid(unsafe_code)]

mod class;
pub mod config;
mod deficit;
mod depth;
mod fdb;
mod frame;
pub mod lateness;
pub mod link;
mod loss;
mod mark;
mod port;
mod queue;
mod stats;
mod storm;
mod switch;
mod time;
mod units;
mod vlan;
pub mod wire;

pub use config::{
    Carriers, ConfigError, Counter, Depth, DepthScope, DepthUnit, EcnConfig, EcnScope, Ect, FixedEntry,
    MarkConfig, PortConfig, Rule, StormConfig, SwitchConfig, VidRange, Vlan,
};
pub use fdb::{FdbEntry, FdbStats};
pub use frame::{Departure, Discard, Egress, Field, FrameId, MarkRecord, Pool, PortId};
pub use loss::{
    DropCounts, DropReason, EcnCounts, EcnOutcome, EdgeCounts, EdgeOutcome, MarkCounts, MarkOutcome,
};
pub use queue::ClassStats;
pub use stats::{Buckets, Inversions, Marks, PortStats, Quantiles, SwitchStats, Traffic};
pub use switch::Switch;
pub use time::Nanos;
pub use units::{ByteCount, Rate, Span, UnitError};
