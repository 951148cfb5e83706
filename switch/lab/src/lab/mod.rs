//! Labs: a topology built of namespaces, veth pairs and switches, run, measured, and gone.
//!
//! Everything is held by descriptors of this process: when it ends, `kill -9` included, nothing is left. The worker
//! with all switches stays on one CPU, hosts and whatever runs on them on the others.

mod build;
mod chrony;
mod daemon;
mod error;
mod measure;
mod names;
mod pair;
mod pin;
mod progress;
mod shim;
mod state;
mod traffic;

pub use daemon::{down, exec, up};
pub use error::LabError;
pub use measure::{RunOptions, run};
pub use pin::Pinning;
pub use progress::{Progress, Silent, Stderr};
pub use state::{HostAddresses, Listed, State, StateFile, clean, list};
pub use traffic::Traffic;

use crate::results::HostOutcome;
use crate::topology::{Node as Place, Topology};
use build::Namespaces;
use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::Netlink;
use plimsoll_port::worker::{Records, Snapshot, Worker, WorkerConfig};
use std::thread;
use std::time::{Duration, Instant};

/// A network that stands and switches.
#[derive(Debug)]
pub struct Lab {
    topology: Topology,
    namespaces: Namespaces,
    worker: Worker,
    pinning: Pinning,
}

impl Lab {
    /// Builds the network and starts its switches. The calling thread, and what it starts from then on, moves to the
    /// CPUs that the worker does not use. Needs root: CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF.
    ///
    /// # Errors
    /// [`LabError`]: whatever could not be made; nothing of it is left.
    pub fn start(topology: Topology, records: Option<Records>) -> Result<Self, LabError> {
        if let Some([place, problem, remedy]) = topology.simulated_only() {
            return Err(LabError::state(place, problem, remedy));
        }
        let pinning = Pinning::plan(topology.cpu)?;
        pinning.confine()?;
        let namespaces = build::build(&topology)?;
        let (nodes, umem) = build::open(&topology, &namespaces)?;
        let worker = Worker::spawn(WorkerConfig {
            nodes,
            umem,
            cpu: Some(pinning.worker_cpu),
            idle: topology.idle,
            records,
        })?;
        Ok(Self { topology, namespaces, worker, pinning })
    }

    /// What it was built of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The thread that runs the switches.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Holds the service of a switch's port: what comes for it is queued, no frame starts. The port is named as the
    /// interface, or `SWITCH/PORT` where several switches have one of that name.
    ///
    /// # Errors
    /// There is no such port, or the worker has ended.
    pub fn hold(&self, port: &str) -> Result<(), LabError> {
        let (node, port) = self.worker.find(port)?;
        Ok(self.worker.hold(node, port)?)
    }

    /// Lets a held port serve from now on.
    ///
    /// # Errors
    /// As [`Lab::hold`].
    pub fn resume(&self, port: &str) -> Result<(), LabError> {
        let (node, port) = self.worker.find(port)?;
        Ok(self.worker.resume(node, port)?)
    }

    /// Who runs where.
    pub fn pinning(&self) -> &Pinning {
        &self.pinning
    }

    /// The namespace of a host, switch or bridge.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        let (_, namespace) = self.namespaces().find(|(node, _)| *node == name)?;
        Some(namespace)
    }

    /// All namespaces with their nodes' names: hosts, switches, bridges.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        let t = &self.topology;
        let hosts = t.hosts.iter().map(|host| host.name.as_str());
        let switches = t.switches.iter().map(|switch| switch.name.as_str());
        let bridges = t.bridges.iter().map(String::as_str);
        let ns = &self.namespaces;
        hosts.zip(&ns.hosts).chain(switches.zip(&ns.switches)).chain(bridges.zip(&ns.bridges))
    }

    /// What the hosts' own stacks dropped.
    fn host_drops(&self) -> Result<Vec<HostOutcome>, LabError> {
        let hosts = self.topology.hosts.iter().zip(&self.namespaces.hosts);
        hosts
            .map(|(host, namespace)| {
                let counters = Netlink::open_in(namespace)
                    .and_then(|mut netlink| netlink.link("net0"))
                    .map_err(LabError::netlink(&host.name))?
                    .counters;
                Ok(HostOutcome {
                    name: host.name.clone(),
                    rx_dropped: counters.rx_dropped,
                    tx_dropped: counters.tx_dropped,
                })
            })
            .collect()
    }

    /// Waits until no frame is in a switch, for `most` at longest.
    fn drain(&self, most: Duration) {
        let since = Instant::now();
        while since.elapsed() < most && self.worker.snapshot().is_ok_and(|s| s.frames.held + s.frames.rx > 0)
        {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn host(&self, index: usize) -> &Namespace {
        self.namespaces.of(Place::Host(index))
    }

    /// Stops the switches in the order that loses no frame, then lets everything go. Returns the last counters.
    ///
    /// # Errors
    /// The worker had ended before.
    pub fn stop(self) -> Result<Snapshot, LabError> {
        Ok(self.worker.stop()?)
    }
}
