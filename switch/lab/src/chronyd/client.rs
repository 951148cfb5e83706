//! A chronyd that follows a server, and what it says of it.

use super::{Association, CHRONYC, SOCKET, Settings, Tracking, config::Purpose, server::start};
use crate::daemon::{Daemon, DaemonError};
use plimsoll_port::namespace::Namespace;
use std::net::IpAddr;

/// A chronyd that follows one server.
#[derive(Debug)]
pub struct Client(Daemon);

impl Client {
    /// Starts it in `namespace`, the host `name`. It runs until this value is dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or what the system refused. What the daemon itself refuses shows when it is asked.
    pub fn start(
        namespace: &Namespace,
        name: &str,
        server: IpAddr,
        settings: &Settings,
    ) -> Result<Self, DaemonError> {
        start(namespace, name, settings.client(server, Purpose::Follow), settings).map(Self)
    }

    /// Where its clock is (`chronyc tracking`); `None` before it can be asked.
    ///
    /// # Errors
    /// [`DaemonError::Ended`] where the daemon ended by itself, with its last words.
    pub fn tracking(&mut self) -> Result<Option<Tracking>, DaemonError> {
        Ok(self.ask("tracking")?.as_deref().and_then(Tracking::parse))
    }

    /// What it had of its server (`chronyc ntpdata`); `None` before the first answer.
    ///
    /// # Errors
    /// As [`Client::tracking`].
    pub fn association(&mut self) -> Result<Option<Association>, DaemonError> {
        Ok(self.ask("ntpdata")?.as_deref().and_then(Association::parse))
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        self.0.log()
    }

    fn ask(&mut self, what: &str) -> Result<Option<String>, DaemonError> {
        self.0.check()?;
        let output = self.0.ask(CHRONYC, &["-c", "-h", SOCKET, what])?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}
