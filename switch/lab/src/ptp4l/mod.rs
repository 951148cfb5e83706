//! The unmodified ptp4l of linuxptp as a clock of the lab: configured, started in a namespace, listened to, stopped.
//!
//! It runs free (`free_running 1`), so that no clock is touched. Its slave event monitor tells the four times and the
//! corrections of every message, which become a [`Recording`] like that of a built-in [`Client`](crate::clock::Client);
//! what it logs about itself is kept beside. Works with linuxptp 3.1 (Debian 12) and later.

mod client;
mod config;
mod log;
mod monitor;
mod server;

pub use crate::clock::DelayMechanism;
pub use client::{Client, Observation};
pub use config::{Profile, Settings};
pub use log::LogEntry;
pub use server::{Server, version};

use crate::daemon::Program;

#[cfg(doc)]
use crate::clock::Recording;

const PROGRAM: Program = Program {
    name: "ptp4l",
    package: "linuxptp",
    remedy: "check that the interface is up, has an address, and no other PTP daemon uses it",
};
/// Name of its configuration in its directory.
const CONFIG: &str = "config";
