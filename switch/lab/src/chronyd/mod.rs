//! The unmodified chronyd of chrony: configured, started in a namespace, asked, stopped.
//!
//! It runs with `-x`, so that no clock is touched: it disciplines a clock within itself, and says how far that is from
//! its server. Plain, with a symmetric key, or with Network Time Security (RFC 8915). Works with chrony 4.3 (Debian 12).
//! Where AppArmor confines chronyd (Debian's package brings a profile for it), it may not read the directory that it is
//! started in; untried.

mod certificate;
mod client;
mod config;
mod report;
mod server;

pub use certificate::Certificate;
pub use client::Client;
pub use config::{Security, Settings};
pub use report::{Association, Tracking};
pub use server::Server;

use crate::daemon::Program;

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
/// Where it is asked: a path that means the same to chronyd and chronyc, both of which work in its directory.
const SOCKET: &str = "/proc/self/cwd/socket";
/// In the foreground, without control of the clock.
const ARGUMENTS: [&str; 4] = ["-x", "-d", "-f", CONFIG];
