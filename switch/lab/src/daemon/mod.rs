//! Unmodified clock daemons as children of this process: found, configured in a directory of their own, started in a
//! namespace, watched, stopped.

mod child;
mod error;
mod scratch;

pub(crate) use child::{Daemon, Program, Start, scratch};
pub use error::DaemonError;
pub(crate) use scratch::Scratch;
