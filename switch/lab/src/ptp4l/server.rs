//! A ptp4l that serves.

use super::{CONFIG, PROGRAM, Settings};
use crate::daemon::{Daemon, DaemonError, Start, scratch};
use plimsoll_port::namespace::Namespace;

/// A ptp4l that serves: the master of its domain.
#[derive(Debug)]
pub struct Server(Daemon);

impl Server {
    /// Starts it on `interface` of `namespace`. It takes its role about a second later, and runs until this value is
    /// dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or what the system refused. What the daemon itself refuses shows in
    /// [`Server::check`].
    pub fn start(namespace: &Namespace, interface: &str, settings: &Settings) -> Result<Self, DaemonError> {
        let files = [(CONFIG, &*settings.server(interface))];
        let start = Start { namespace, place: interface, arguments: &["-f", CONFIG], files: &files };
        Ok(Self(Daemon::start(PROGRAM, scratch(PROGRAM, interface)?, &start)?))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`DaemonError::Ended`] with its last words.
    pub fn check(&mut self) -> Result<(), DaemonError> {
        self.0.check()
    }
}

/// The installed version, as `ptp4l -v` says it.
///
/// # Errors
/// [`DaemonError::Missing`] where it is not installed.
pub fn version() -> Result<String, DaemonError> {
    PROGRAM.version("-v")
}
