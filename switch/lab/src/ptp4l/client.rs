//! A ptp4l that measures, and the monitor that listens to it.

use super::{
    LogEntry, LogSummary, Ptp4lError, Settings,
    daemon::{Daemon, scratch},
    monitor,
};
use crate::clock::Recording;
use plimsoll_port::namespace::Namespace;
use std::{
    io::ErrorKind,
    os::unix::net::UnixDatagram,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Name of the monitor's socket in the daemon's directory.
const MONITOR: &str = "events";
/// Longest wait before the stop flag and the daemon are looked at again.
const NAP: Duration = Duration::from_millis(50);
/// Longer than any datagram of the monitor.
const BUFFER: usize = 2048;

/// A ptp4l that measures: a slave that can become nothing else.
#[derive(Debug)]
pub struct Client {
    daemon: Daemon,
    monitor: UnixDatagram,
    domain: u8,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The times and corrections of each message, as the daemon's monitor sent them.
    pub recording: Recording,
    /// What the daemon logged of its own offset.
    pub log: Vec<LogEntry>,
    /// Datagrams that were none of the monitor's.
    pub foreign: u64,
}

impl Observation {
    /// What the daemon logged, as figures.
    pub fn log_summary(&self) -> LogSummary {
        LogSummary::of(&self.log)
    }
}

impl Client {
    /// Starts it on `interface` of `namespace`. It runs until this value is dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`Ptp4lError::Missing`], or what the system refused.
    pub fn start(namespace: &Namespace, interface: &str, settings: &Settings) -> Result<Self, Ptp4lError> {
        let scratch = scratch(interface)?;
        let fail = |source| Ptp4lError::Call {
            interface: interface.into(),
            call: "UNIX socket for its events",
            remedy: "check that /proc is mounted",
            source,
        };
        // Before the daemon starts: it does not try again.
        let monitor = UnixDatagram::bind(scratch.path().join(MONITOR)).map_err(fail)?;
        monitor.set_read_timeout(Some(NAP)).map_err(fail)?;
        let config = settings.client(interface, MONITOR);
        let daemon = Daemon::start(namespace, interface, scratch, &config)?;
        Ok(Self { daemon, monitor, domain: settings.domain })
    }

    /// Listens until `stop` is set, then ends the daemon and hands over what it told. The daemon waits where the
    /// listener lags, so nothing is lost.
    ///
    /// # Errors
    /// [`Ptp4lError::Ended`] where the daemon ended by itself, with its last words.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Observation, Ptp4lError> {
        let mut seen = Observation::default();
        seen.recording.domain = self.domain;
        while !stop.load(Ordering::Relaxed) {
            if !self.take(&mut seen)? {
                self.daemon.check()?;
            }
        }
        self.daemon.stop();
        while self.take(&mut seen)? {}
        seen.log = self.daemon.log().lines().filter_map(LogEntry::parse).collect();
        Ok(seen)
    }

    /// One datagram; `false` where none came for a while.
    fn take(&self, seen: &mut Observation) -> Result<bool, Ptp4lError> {
        let mut datagram = [0; BUFFER];
        match self.monitor.recv(&mut datagram) {
            Ok(length) => {
                if !monitor::take(&datagram[..length], &mut seen.recording) {
                    seen.foreign += 1;
                }
                Ok(true)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(self.daemon.failed("recv of its events", "start it again", error)),
            },
        }
    }
}
