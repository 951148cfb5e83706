//! The unmodified ptp4l of linuxptp as a clock of the lab: configured, started in a namespace, listened to, stopped.
//!
//! It runs free (`free_running 1`), so that no clock is touched. Its slave event monitor tells the four times and the
//! corrections of every message, which become a [`Recording`] like that of a built-in [`Client`](crate::clock::Client);
//! what it logs about itself is kept beside. Works with linuxptp 3.1 (Debian 12) and later.

mod client;
mod config;
mod daemon;
mod error;
mod log;
mod monitor;
mod scratch;

pub use client::{Client, Observation};
pub use config::{Settings, TimestampProcessing};
pub use daemon::{Server, version};
pub use error::Ptp4lError;
pub use log::{LogEntry, LogSummary};

#[cfg(doc)]
use crate::clock::Recording;
