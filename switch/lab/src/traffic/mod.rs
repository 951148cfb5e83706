//! Cross traffic: UDP flows between hosts, with a schedule that a seed repeats and a receiver that misses nothing.
//!
//! [`Source`] and [`Sink`] run in the thread that calls them, in whatever network namespace that thread is in. Sizes
//! and rates are those of the wire: a frame costs its octets, padded to 60, and 24 more (preamble 8, FCS 4, gap 12).

mod cycle;
mod error;
mod law;
mod payload;
mod report;
mod schedule;
mod sequence;
mod sink;
mod source;
mod spec;

pub use cycle::Cycle;
pub use error::TrafficError;
pub use report::{FlowReport, LatencySummary};
pub use schedule::{Due, Schedule};
pub use sink::{Sink, SinkReport};
pub(crate) use source::latency_histogram;
pub use source::{Source, SourceReport, sleep_until};
pub use spec::{FlowKind, FlowSpec, PaperFlow, SizeBounds, SizeDistribution, UNCAPPED};
