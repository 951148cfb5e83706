//! What a clock fails with.

use plimsoll_port::netlink::NetlinkError;
use std::io;

/// A clock that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The interface is not there, or is none that a clock can use.
    #[error(transparent)]
    Interface(#[from] NetlinkError),
    /// The system refused a call.
    #[error("clock on {interface}: {call}: {source}; {remedy}")]
    Call {
        /// The interface.
        interface: String,
        /// The call.
        call: &'static str,
        /// What to do about it.
        remedy: &'static str,
        /// The system's own word.
        source: io::Error,
    },
}
