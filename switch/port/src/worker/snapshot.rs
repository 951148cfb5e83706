//! All counters of a worker as of one moment, as control socket and results print them.

use hdrhistogram::Histogram;
use plimsoll_core::{MarkOutcome, SwitchStats, Vlan, wire::event::Correction};
use serde::Serialize;

use super::node::Running;
use crate::{Port, PortCounters, PortDescription, Tally, Umem, port::Reading};

/// A worker's counters.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Each switch.
    pub switches: Vec<NodeSnapshot>,
    /// Where all chunks of the frame memory are.
    pub frames: Tally,
    /// Whether each of them is in exactly one place, and those said to be held are queued or wait for release.
    pub frames_conserved: bool,
}

/// One switch's counters.
#[derive(Clone, Debug, Serialize)]
pub struct NodeSnapshot {
    /// Its name.
    pub name: String,
    /// Pipeline latency in ns.
    pub latency_ns: u64,
    /// Nanoseconds for which links stood still after stalls (`stall = "re-anchor"`).
    pub link_stalled_ns: u64,
    /// Its ports.
    pub ports: Vec<PortSnapshot>,
    /// What the core counted.
    pub stats: SwitchStats,
}

/// One port of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct PortSnapshot {
    /// Name in the configuration.
    pub name: String,
    /// Rate of the emulated link in bit/s; `None`: as fast as the machine sends.
    pub rate_bps: Option<u64>,
    /// Quanta of its lowest classes, which share the link by deficit round robin, octets on the wire; all others have
    /// strict priority.
    pub quanta: Vec<u64>,
    /// Thresholds R of its marker; 0 where it does not mark.
    pub thresholds: u32,
    /// The delay that one mark stands for, ns; 0 where it does not mark.
    pub delta_ns: f64,
    /// Whether marks become correctionField here.
    pub edge: bool,
    /// Whether counts that arrive here are kept.
    pub trust: bool,
    /// Its VLANs.
    pub vlan: Vlan,
    /// How it was opened; `None` while the interface is absent.
    pub description: Option<PortDescription>,
    /// What it counted, also before its interface went away and came back; `None` where it was never open.
    pub counters: Option<PortCounters>,
    /// Whether it is a transparent clock.
    pub transparent_clock: bool,
    /// What it did as one.
    pub residence: Residence,
    /// Frames that were due while the interface was down or absent: lost.
    pub lost_down: u64,
    /// How late frames were released.
    pub release_late: Lateness,
    /// How much later than stamped frames were taken as arrived (inversions).
    pub late_arrival: Lateness,
}

/// Messages of clocks that left by a transparent clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Residence {
    /// Their residence went into correctionField.
    pub corrected: u64,
    /// correctionField is at its largest value, which means "too large to say".
    pub saturated: u64,
    /// They have no correctionField that could be changed: NTP, fragments, other versions, wrong lengths, a zero
    /// checksum over IPv6.
    pub no_field: u64,
}

impl Residence {
    pub(super) const fn count(&mut self, told: Result<Correction, MarkOutcome>) {
        match told {
            Ok(Correction::Added) => self.corrected += 1,
            Ok(Correction::Saturated | Correction::Overflowed) => self.saturated += 1,
            Err(_) => self.no_field += 1,
        }
    }
}

/// A distribution of delays in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lateness {
    /// Frames counted.
    pub frames: u64,
    /// Frames later than 1 us.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Share within 1 us, 0..1; 1 where nothing was counted.
    pub within_1us: f64,
}

impl Lateness {
    /// What a histogram of nanoseconds comes to.
    pub fn of(h: &Histogram<u64>) -> Self {
        let frames = h.len();
        let within = h.count_between(0, 1000);
        Self {
            frames,
            count: frames - within,
            p50_ns: h.value_at_quantile(0.5),
            p99_ns: h.value_at_quantile(0.99),
            p999_ns: h.value_at_quantile(0.999),
            max_ns: h.max(),
            within_1us: if frames == 0 { 1.0 } else { within as f64 / frames as f64 },
        }
    }
}

/// A snapshot of which nothing has been read from the kernel or summed up yet: what the worker's thread makes, quickly,
/// for whoever asked to complete it on a thread of its own.
#[derive(Debug)]
pub(super) struct Draft {
    snapshot: Snapshot,
    /// By switch and port.
    pending: Vec<Vec<Pending>>,
}

/// What is still to be worked out of one port.
#[derive(Debug)]
struct Pending {
    open: Option<Reading>,
    closed: PortCounters,
    release_late: Histogram<u64>,
    late_arrival: Histogram<u64>,
}

impl Draft {
    pub(super) fn take(nodes: &[Running], umem: &Umem) -> Self {
        let frames = umem.tally(nodes.iter().flat_map(|n| n.ports.iter().flatten()));
        let held: u64 = nodes.iter().map(Running::held).sum();
        Self {
            snapshot: Snapshot {
                switches: nodes.iter().map(NodeSnapshot::of).collect(),
                frames,
                frames_conserved: frames.is_whole() && frames.held == held,
            },
            pending: nodes.iter().map(Pending::of_ports).collect(),
        }
    }

    /// Reads the kernel's counters, a moment later than the rest, and works out the distributions.
    pub(super) fn complete(mut self) -> Snapshot {
        let ports = self.snapshot.switches.iter_mut().flat_map(|switch| &mut switch.ports);
        for (port, pending) in ports.zip(self.pending.into_iter().flatten()) {
            let never = pending.closed == PortCounters::default();
            let open = pending.open.map(Reading::complete);
            port.counters = open.or((!never).then(PortCounters::default)).map(|mut counters| {
                counters.add_closed(&pending.closed);
                counters
            });
            port.release_late = Lateness::of(&pending.release_late);
            port.late_arrival = Lateness::of(&pending.late_arrival);
        }
        self.snapshot
    }
}

impl Pending {
    fn of_ports(node: &Running) -> Vec<Self> {
        let pending = |(number, open): (usize, &Option<Port>)| Self {
            open: open.as_ref().map(Port::reading),
            closed: node.closed[number],
            release_late: node.release_late[number].clone(),
            late_arrival: node.late_arrival[number].clone(),
        };
        node.ports.iter().enumerate().map(pending).collect()
    }
}

impl NodeSnapshot {
    /// All but what is [`Pending`].
    fn of(node: &Running) -> Self {
        let config = node.core.config();
        let ports = config
            .ports
            .iter()
            .enumerate()
            .map(|(number, port)| {
                let open = node.ports.get(number).and_then(Option::as_ref);
                PortSnapshot {
                    name: port.name.clone(),
                    rate_bps: port.rate.map(|rate| rate.0),
                    quanta: port.quanta.clone(),
                    thresholds: port.mark.map_or(0, |mark| mark.thresholds),
                    delta_ns: port.mark.map_or(0.0, |mark| mark.delta_ps as f64 / 1000.0),
                    edge: port.edge,
                    trust: port.trust,
                    vlan: port.vlan.clone(),
                    description: open.map(|p| p.describe().clone()),
                    counters: None,
                    transparent_clock: port.transparent_clock,
                    residence: node.residence[number],
                    lost_down: node.lost_down[number],
                    release_late: Lateness::default(),
                    late_arrival: Lateness::default(),
                }
            })
            .collect();
        Self {
            name: config.name.clone(),
            latency_ns: node.latency,
            link_stalled_ns: node.link_stalled_ns,
            ports,
            stats: node.core.stats(),
        }
    }
}
