//! What a lab fails with: one line, with place and remedy.

use crate::clock::ClockError;
use crate::daemon::DaemonError;
use crate::record::RecordError;
use crate::topology::TopologyError;
use crate::traffic::TrafficError;
use plimsoll_port::PortError;
use plimsoll_port::namespace::NamespaceError;
use plimsoll_port::netlink::NetlinkError;
use plimsoll_port::worker::WorkerError;
use std::io;

/// A lab that cannot be built, run, found or ended.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The file.
    #[error(transparent)]
    Topology(Box<TopologyError>),
    /// A namespace.
    #[error("{node}: {source}")]
    Namespace {
        /// The host, switch or bridge.
        node: String,
        /// What it was.
        source: Box<NamespaceError>,
    },
    /// An interface.
    #[error("{node}: {source}")]
    Netlink {
        /// The host, switch or bridge.
        node: String,
        /// What it was.
        source: Box<NetlinkError>,
    },
    /// A port of a switch.
    #[error("switch {switch}: {source}")]
    Port {
        /// The switch.
        switch: String,
        /// What it was.
        source: Box<PortError>,
    },
    /// A host's shims.
    #[error("host {host}: {source}")]
    Shim {
        /// The host.
        host: String,
        /// What it was.
        source: Box<PortError>,
    },
    /// The worker.
    #[error(transparent)]
    Worker(Box<WorkerError>),
    /// The file of the ground truth.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A flow.
    #[error(transparent)]
    Traffic(Box<TrafficError>),
    /// The built-in clock.
    #[error("clock {name}: {source}")]
    Clock {
        /// The clock pair.
        name: String,
        /// What it was.
        source: Box<ClockError>,
    },
    /// A daemon.
    #[error("clock {name}: {source}")]
    Daemon {
        /// The clock pair.
        name: String,
        /// What it was.
        source: Box<DaemonError>,
    },
    /// A system call of the lab's own.
    #[error("{place}: {call}: {source}; {remedy}")]
    Call {
        /// What it was about.
        place: String,
        /// The call.
        call: &'static str,
        /// Its errno.
        source: io::Error,
        /// What to do about it.
        remedy: String,
    },
    /// What was asked for cannot be done now.
    #[error("{place}: {problem}; {remedy}")]
    State {
        /// The lab, or a host of it.
        place: String,
        /// Why not.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

macro_rules! boxed {
    ($($variant:ident($error:ty)),+) => {$(
        impl From<$error> for LabError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )+};
}

boxed!(Topology(TopologyError), Worker(WorkerError), Traffic(TrafficError));

impl LabError {
    pub(super) fn port(switch: &str) -> impl Fn(PortError) -> Self + '_ {
        move |source| Self::Port { switch: switch.to_owned(), source: source.into() }
    }

    pub(super) fn clock(name: &str) -> impl Fn(ClockError) -> Self + Clone + Send + 'static {
        let name = name.to_owned();
        move |source| Self::Clock { name: name.clone(), source: source.into() }
    }

    pub(super) fn daemon(name: &str) -> impl Fn(DaemonError) -> Self + Clone + Send + 'static {
        let name = name.to_owned();
        move |source| Self::Daemon { name: name.clone(), source: source.into() }
    }

    pub(super) fn call(
        place: impl Into<String>,
        call: &'static str,
        source: impl Into<io::Error>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Call { place: place.into(), call, source: source.into(), remedy: remedy.into() }
    }

    pub(super) fn state(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::State { place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }

    pub(super) fn namespace(node: &str) -> impl FnOnce(NamespaceError) -> Self + '_ {
        move |source| Self::Namespace { node: node.to_owned(), source: source.into() }
    }

    pub(super) fn netlink(node: &str) -> impl FnOnce(NetlinkError) -> Self + '_ {
        move |source| Self::Netlink { node: node.to_owned(), source: source.into() }
    }
}
