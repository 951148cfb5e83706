//! The control socket: one JSON line asks, one JSON line answers.
//!
//! The socket has an abstract name (`unix(7)`): it goes with the process, so that nothing is left after `kill -9`. It
//! belongs to the network namespace in which the switch was started; only root and the switch's own user are answered.

mod client;
mod server;

pub(crate) use client::ask;
pub(crate) use server::{Event, Server};

use serde::{Deserialize, Serialize};

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// All counters.
    Snapshot,
    /// Learnt and static addresses.
    Fdb,
    /// Forget learnt addresses.
    FlushFdb,
    /// Let no further frame start on this port's link: `PORT` or `SWITCH/PORT`.
    Hold(String),
    /// Let it serve again.
    Release(String),
}

/// Abstract names begin with this; the instance's name follows.
const PREFIX: &str = "plimsoll/";
