//! The control socket: one JSON line asks, one JSON line answers.
//!
//! The socket has an abstract name (`unix(7)`): it goes with the process, so that nothing is left after `kill -9`. It
//! belongs to the network namespace in which the switch was started; only root and the switch's own user are answered.
//! Since anybody there can take such a name, only a switch of root or of the client's own user is asked.

mod client;
mod server;

pub(crate) use client::ask;
pub(crate) use server::{Event, Server};

use crate::Usage;
use anyhow::Result;
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

/// `sun_path` of `sockaddr_un` without the leading 0.
const LONGEST: usize = 107;

/// The abstract name of the switch called `name`.
///
/// # Errors
/// [`Usage`]: no socket has a name as long.
fn full_name(name: &str) -> Result<String> {
    let most = LONGEST - PREFIX.len();
    if name.len() > most {
        let message = format!("--name has {} octets; a switch's name has {most} at most", name.len());
        return Err(Usage(message).into());
    }
    Ok(format!("{PREFIX}{name}"))
}
