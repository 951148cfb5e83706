//! The unmodified chronyd of chrony: configured, started in a namespace, asked, stopped.
//!
//! It runs with `-x`, so that no clock is touched: it disciplines a clock within itself, and says how far that is from
//! the machine's. Plain, interleaved, with a symmetric key, or with Network Time Security (RFC 8915). A [`Client`]
//! follows its server, a [`Meter`] writes down each measurement, and a [`Tap`] sees beside them when packets really came
//! and went, and what marks they had. Works with chrony 4.3 (Debian 12).
//! Where AppArmor confines chronyd (Debian's package brings a profile for it), it may not read the directory that it is
//! started in; untried.

mod certificate;
mod client;
mod config;
mod meter;
mod report;
mod server;
mod tap;

pub use certificate::Certificate;
pub use client::Client;
pub use config::{Security, Settings};
pub use meter::Meter;
pub use report::{Association, Measurement, Tracking};
pub use server::Server;
pub use tap::{Exchange, Seen, Tap};

use crate::daemon::{DaemonError, Program};

const PROGRAM: Program = Program {
    name: "chronyd",
    package: "chrony",
    remedy: "check that nothing else has its UDP port 123, and that AppArmor does not confine it (aa-status)",
};
/// Asks it.
const CHRONYC: Program = Program { name: "chronyc", ..PROGRAM };
/// Names of its files in its directory.
const CONFIG: &str = "config";
const KEYS: &str = "keys";
const CERTIFICATE: &str = "certificate.pem";
const PRIVATE_KEY: &str = "key.pem";
/// UDP port from which a [`Meter`] asks.
const METER_PORT: u16 = 1123;
/// Its log of measurements.
const MEASUREMENTS: &str = "measurements.log";
/// Where it is asked: a path that means the same to chronyd and chronyc, both of which work in its directory.
const SOCKET: &str = "/proc/self/cwd/socket";
/// What is installed, as `chronyd -v` says it.
///
/// # Errors
/// [`DaemonError::Missing`] where it, chronyc, or for Network Time Security openssl is not installed.
pub fn version(nts: bool) -> Result<String, DaemonError> {
    CHRONYC.version("-v")?;
    if nts {
        Certificate::tool()?;
    }
    PROGRAM.version("-v")
}

/// In the foreground, without control of the clock.
const ARGUMENTS: [&str; 4] = ["-x", "-d", "-f", CONFIG];
