//! What a daemon fails with.

use std::io;

/// A daemon that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// It is not installed.
    #[error("{daemon}: not found in PATH or /usr/sbin; install the Debian package `{package}`")]
    Missing {
        /// Its program.
        daemon: &'static str,
        /// What brings it.
        package: &'static str,
    },
    /// It ended by itself.
    #[error("{daemon} on {place} ended with {status}: {said}; {remedy}")]
    Ended {
        /// Its program.
        daemon: &'static str,
        /// Its interface, or its host.
        place: String,
        /// Exit status.
        status: String,
        /// The last line it logged.
        said: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The system refused a call.
    #[error("{daemon} on {place}: {call}: {source}; {remedy}")]
    Call {
        /// Its program.
        daemon: &'static str,
        /// Its interface, or its host.
        place: String,
        /// The call.
        call: &'static str,
        /// What to do about it.
        remedy: &'static str,
        /// The system's own word.
        source: io::Error,
    },
}
