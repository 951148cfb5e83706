//! A chronyd that serves.

use super::{ARGUMENTS, CONFIG, PROGRAM, Settings};
use crate::daemon::{Daemon, DaemonError, Start, scratch};
use plimsoll_port::namespace::Namespace;

/// A chronyd that serves its host's clock, as of stratum 1, to all who ask.
#[derive(Debug)]
pub struct Server(Daemon);

impl Server {
    /// Starts it in `namespace`, the host `name`. It runs until this value is dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or what the system refused. What the daemon itself refuses shows in
    /// [`Server::check`].
    pub fn start(namespace: &Namespace, name: &str, settings: &Settings) -> Result<Self, DaemonError> {
        start(namespace, name, settings.server(), settings).map(Self)
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`DaemonError::Ended`] with its last words.
    pub fn check(&mut self) -> Result<(), DaemonError> {
        self.0.check()
    }
}

/// Either end.
pub(super) fn start(
    namespace: &Namespace,
    place: &str,
    config: String,
    settings: &Settings,
) -> Result<Daemon, DaemonError> {
    let mut files = settings.files();
    files.push((CONFIG, config));
    let files: Vec<_> = files.iter().map(|(name, content)| (*name, content.as_str())).collect();
    let start = Start { namespace, place, arguments: &ARGUMENTS, files: &files };
    Daemon::start(PROGRAM, scratch(PROGRAM, place)?, &start)
}
