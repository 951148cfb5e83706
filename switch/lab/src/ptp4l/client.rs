//! A ptp4l that measures, and the monitor that listens to it.

use super::{CONFIG, LogEntry, PROGRAM, Settings, monitor};
use crate::clock::Recording;
use crate::daemon::{Daemon, DaemonError, LogLine, Logged, Start, now, realtime, scratch};
use plimsoll_port::namespace::Namespace;
use rustix::time::ClockId;
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
    pub fn logged(&self) -> Logged {
        // It tells CLOCK_MONOTONIC.
        let epoch = realtime().wrapping_sub(now(ClockId::Monotonic));
        let line = |entry: &LogEntry| LogLine {
            at: epoch.wrapping_add((entry.at_s * 1e9) as u64),
            offset_ns: entry.offset_ns,
            delay_ns: entry.delay_ns,
        };
        Logged::of(self.log.iter().map(line).collect())
    }
}

impl Client {
    /// Starts it on `interface` of `namespace`. It runs until this value is dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`DaemonError::Missing`], or what the system refused.
    pub fn start(namespace: &Namespace, interface: &str, settings: &Settings) -> Result<Self, DaemonError> {
        let scratch = scratch(PROGRAM, interface)?;
        let fail = || PROGRAM.failed(interface, "UNIX socket for its events", "check that /proc is mounted");
        // Before the daemon starts: it does not try again.
        let monitor = UnixDatagram::bind(scratch.path().join(MONITOR)).map_err(fail())?;
        monitor.set_read_timeout(Some(NAP)).map_err(fail())?;
        let files = [(CONFIG, &*settings.client(interface, MONITOR))];
        let start = Start { namespace, place: interface, arguments: &["-f", CONFIG], files: &files };
        let daemon = Daemon::start(PROGRAM, scratch, &start)?;
        Ok(Self { daemon, monitor, domain: settings.domain })
    }

    /// Listens until `stop` is set; see [`Client::run_until`].
    ///
    /// # Errors
    /// As there.
    pub fn run(self, stop: &AtomicBool) -> Result<Observation, DaemonError> {
        self.run_until(|_| stop.load(Ordering::Relaxed))
    }

    /// Listens until what was seen is `enough`, asked after each message and every 50 ms (its log is read at the end),
    /// then ends the daemon and hands over what it told. The daemon waits where the listener lags, so nothing is lost.
    ///
    /// # Errors
    /// [`DaemonError::Ended`] where the daemon ended by itself, with its last words.
    pub fn run_until(mut self, enough: impl Fn(&Observation) -> bool) -> Result<Observation, DaemonError> {
        let mut seen = Observation::default();
        seen.recording.domain = self.domain;
        while !enough(&seen) {
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
    fn take(&self, seen: &mut Observation) -> Result<bool, DaemonError> {
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
                _ => Err(self.daemon.failed("recv of its events", "start it again")(error)),
            },
        }
    }
}
