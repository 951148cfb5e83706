//! A chronyd that measures and follows nobody.

use super::{MEASUREMENTS, Measurement, Settings, config::Purpose, server::start};
use crate::daemon::{Daemon, DaemonError};
use plimsoll_port::namespace::Namespace;
use std::net::IpAddr;

/// A chronyd that asks a server and writes down what it measures by every answer. It disciplines nothing (`noselect`),
/// not even the clock within itself, so that its offsets are from the machine's own clock.
#[derive(Debug)]
pub struct Meter(Daemon);

impl Meter {
    /// Starts it in `namespace`, the host `name`, beside a [`Client`](super::Client) if need be. It runs until this value
    /// is dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or what the system refused. What the daemon itself refuses shows in [`Meter::check`].
    pub fn start(
        namespace: &Namespace,
        name: &str,
        server: IpAddr,
        settings: &Settings,
    ) -> Result<Self, DaemonError> {
        start(namespace, name, settings.client(server, Purpose::Measure), settings).map(Self)
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`DaemonError::Ended`] with its last words.
    pub fn check(&mut self) -> Result<(), DaemonError> {
        self.0.check()
    }

    /// Ends it, and hands over a measurement for each answer that came, in their order.
    pub fn stop(mut self) -> Vec<Measurement> {
        self.0.stop();
        self.measurements()
    }

    /// Those so far.
    pub fn measurements(&self) -> Vec<Measurement> {
        self.0.read(MEASUREMENTS).lines().filter_map(Measurement::parse).collect()
    }
}
