//! The switch without a machine: parses, learns, queues, shapes and marks.
//!
//! No clock, no I/O, no thread: time is a parameter, frames are handles into a [`Pool`], departures leave through an
//! [`Egress`]. A frame's way is [`Switch::receive`] -> egress queue -> [`Switch::advance`], in `switch.rs`.
#![forbid(unsafe_code)]

mod config;
mod frame;
mod loss;
mod switch;
mod time;
mod units;

pub use config::{ConfigError, MarkConfig, PortConfig, SwitchConfig};
pub use frame::{Departure, Discard, Egress, FrameId, MarkRecord, Pool, PortId};
pub use loss::{DropReason, MarkOutcome};
pub use switch::Switch;
pub use time::{Nanos, Picos};
pub use units::{ByteCount, Rate, Span, UnitError};
