//! What a daemon fails with.

use plimsoll_port::namespace::NamespaceError;
use std::io;

/// A ptp4l that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Ptp4lError {
    /// It is not installed.
    #[error("ptp4l: not found in PATH or /usr/sbin; install the Debian package `linuxptp`")]
    Missing,
    /// It ended by itself.
    #[error(
        "ptp4l on {interface} ended with {status}: {said}; check that the interface is up, has an address, and no other PTP daemon uses it"
    )]
    Ended {
        /// Its interface.
        interface: String,
        /// Exit status.
        status: String,
        /// The last line it logged.
        said: String,
    },
    /// The system refused a call.
    #[error("ptp4l on {interface}: {call}: {source}; {remedy}")]
    Call {
        /// Its interface.
        interface: String,
        /// The call.
        call: &'static str,
        /// What to do about it.
        remedy: &'static str,
        /// The system's own word.
        source: io::Error,
    },
    /// Its namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}
