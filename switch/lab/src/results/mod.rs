//! What a measurement came to: JSON whose keys are an interface, and tables for people.

mod clocks;
mod exchanges;
mod ports;
mod show;
mod table;

pub use clocks::ClockOutcome;
pub use exchanges::prepare_exchanges;
pub use ports::{DepthBytes, PortOutcome, overrun};
pub use table::{Table, octets, time};

use crate::lab::{Lab, Pinning};
use crate::topology::{CounterKind, ThresholdRule, Topology, largest_count};
use crate::traffic::FlowReport;
use plimsoll_core::{Counter, Depth, DepthScope, DepthUnit, Rule};
use serde::Serialize;

/// 99th percentile of late releases, ns, above which times are not to be trusted. On a CPU of its own the worker stays
/// below half of it, also where several ports release at one instant and all but one wait for the others' system calls.
const LATE_NS: u64 = 100_000;
/// Share of the time that a flow's sender may stand still.
const STOOD_STILL: f64 = 0.05;
/// Frames from which on that percentile means something.
const ENOUGH: u64 = 200;

/// R, N and delta of the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Marking {
    /// The delay that one mark stands for.
    pub delta_ns: f64,
    /// R.
    pub thresholds: u32,
    /// N.
    pub counter_max: u32,
    /// How a count is written.
    pub counter: CounterKind,
    /// Whether requests and responses have counts of their own.
    pub forward_reverse: bool,
    /// Where the thresholds lie.
    pub rule: ThresholdRule,
}

/// The depth that thresholds are compared with, as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// Which frames count: `ahead`, `queue`, `port`.
    pub depth: &'static str,
    /// How: `exact`, `frames`, `frames-waiting`, `cells`.
    pub count: &'static str,
    /// Octets of a cell; `null` where there are none.
    pub cell_bytes: Option<u32>,
}

impl Measure {
    fn of(depth: Depth) -> Self {
        let (count, cell_bytes) = match depth.unit {
            DepthUnit::Exact => ("exact", None),
            DepthUnit::Frames { in_service: true } => ("frames", None),
            DepthUnit::Frames { in_service: false } => ("frames-waiting", None),
            DepthUnit::Cells { octets } => ("cells", Some(octets)),
        };
        let depth = match depth.scope {
            DepthScope::Ahead => "ahead",
            DepthScope::Queue => "queue",
            DepthScope::Port => "port",
        };
        Self { depth, count, cell_bytes }
    }
}

/// What a host's own stack dropped at its interface, since the lab stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostOutcome {
    /// Its name.
    pub name: String,
    /// On receiving: its backlog was full, or no protocol wanted the frame (PTP over Ethernet where no clock listens).
    pub rx_dropped: u64,
    /// On sending: the switch's end of the link was full.
    pub tx_dropped: u64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The lab's name.
    pub lab: String,
    /// How long was measured, after flows and clocks had settled.
    pub duration_s: f64,
    /// Seed of the traffic.
    pub seed: u64,
    /// How the network marks; `null` where it does not.
    pub marking: Option<Marking>,
    /// Where classical ECN begins to mark, as time on the link; `null` where it does not.
    pub ecn_threshold_ns: Option<f64>,
    /// By what depth.
    pub measure: Measure,
    /// The clock pairs.
    pub clocks: Vec<ClockOutcome>,
    /// The flows, from their start to their end, settling included.
    pub flows: Vec<FlowReport>,
    /// The switches' ports, during the measurement.
    pub ports: Vec<PortOutcome>,
    /// The hosts' own drops.
    pub hosts: Vec<HostOutcome>,
    /// Who ran where; `null` where all of it was simulated.
    pub pinning: Option<Pinning>,
    /// Whether every frame buffer was accounted for at the end.
    pub frames_conserved: bool,
    /// The machine was too busy: times are not those of the switch being emulated.
    pub degraded: bool,
    /// What works, but not as one might think.
    pub warnings: Vec<String>,
    /// What went wrong; the exit code is 1 where there is anything.
    pub failed: Vec<String>,
    /// It ended before its time: what is missing then has a reason already.
    #[serde(skip)]
    pub(crate) cut_short: bool,
}

impl Outcome {
    /// A lab's result, to be filled.
    pub(crate) fn of(lab: &Lab) -> Self {
        let topology = lab.topology();
        let mut outcome = Self::new(topology, Some(lab.pinning().clone()));
        let warnings = &mut outcome.warnings;
        if lab.pinning().shared {
            warnings.push(format!(
                "there is one CPU only (number {}): the worker shares it with the hosts, and times lie; use two",
                lab.pinning().worker_cpu
            ));
        }
        let others = crate::lab::list().unwrap_or_default();
        for other in others.iter().filter(|other| other.running && other.name != topology.name) {
            warnings.push(format!(
                "lab {} runs on this machine too, and takes CPU: `plimsoll lab down {}`",
                other.name, other.name
            ));
        }
        if let Some(host) = topology.hosts.iter().find(|host| host.uplink.is_some()) {
            warnings.push(format!(
                "host {}: its uplink is for `plimsoll sim`; on veth hosts send unshaped",
                host.name
            ));
        }
        outcome
    }

    /// A result to be filled.
    pub(crate) fn new(topology: &Topology, pinning: Option<Pinning>) -> Self {
        Self {
            lab: topology.name.clone(),
            duration_s: 0.0,
            seed: topology.seed,
            marking: topology.marking.map(|mark| Marking {
                delta_ns: mark.delta_ps as f64 / 1e3,
                thresholds: mark.thresholds,
                counter_max: largest_count(&mark),
                counter: match mark.counter {
                    Counter::Integer | Counter::IntegerBoth => CounterKind::Integer,
                    Counter::Shift | Counter::ShiftBoth => CounterKind::BitShift,
                },
                forward_reverse: matches!(mark.counter, Counter::IntegerBoth | Counter::ShiftBoth),
                rule: match mark.rule {
                    Rule::Edge => ThresholdRule::Edge,
                    Rule::Centred => ThresholdRule::Centred,
                },
            }),
            ecn_threshold_ns: topology.ecn.map(|ecn| ecn.threshold_ps as f64 / 1e3),
            measure: Measure::of(topology.depth),
            clocks: Vec::new(),
            flows: Vec::new(),
            ports: Vec::new(),
            hosts: Vec::new(),
            pinning,
            frames_conserved: false,
            degraded: false,
            warnings: topology.warnings.clone(),
            failed: Vec::new(),
            cut_short: false,
        }
    }

    /// 0 where nothing failed, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.failed.is_empty())
    }

    pub(crate) fn take_clock(&mut self, clock: ClockOutcome) {
        let name = &clock.report.name;
        if clock.report.samples == 0 && !self.cut_short {
            let c = &clock.counters;
            self.failed.push(format!(
                "clock {name}: no exchange was completed ({} requests unanswered, {} Syncs incomplete); measure longer, \
                 or look with `plimsoll lab up` and `lab exec`",
                c.unanswered_requests, c.incomplete_syncs
            ));
        }
        self.clocks.push(clock);
    }

    pub(crate) fn take_flows(&mut self, flows: Vec<FlowReport>, failed: Vec<String>) {
        self.failed.extend(failed);
        for flow in &flows {
            let name = &flow.name;
            if flow.received_frames == 0 {
                let sent = flow.sent_frames;
                self.failed
                    .push(format!("flow {name}: {sent} packets sent, none received; see the ports' losses"));
            }
            if flow.stalled_ns as f64 > STOOD_STILL * self.duration_s * 1e9 {
                self.degraded = true;
                self.warnings.push(format!(
                    "flow {name}: its sender's machine stood still {} times, {} altogether: other work uses the hosts' \
                     CPUs, and times are not to be trusted",
                    flow.stalls,
                    table::time(flow.stalled_ns as f64)
                ));
            }
            if flow.lost_in_sink > 0 {
                let lost = flow.lost_in_sink;
                self.warnings.push(format!(
                    "flow {name}: {lost} packets found the receiver's socket full: the hosts' CPUs are too busy"
                ));
            }
        }
        self.flows = flows;
    }

    /// Judges the machine by the ports' releases.
    fn judge(&mut self) {
        let judged = self.ports.iter().filter(|port| port.release_late.frames >= ENOUGH);
        if let Some(port) = judged.max_by_key(|port| port.release_late.p99_ns)
            && port.release_late.p99_ns > LATE_NS
            && let Some(pinning) = &self.pinning
        {
            self.degraded = true;
            self.warnings.push(format!(
                "switch {}, port {}: one release in 100 was late by more than {}: something else uses CPU {}, and times are not to be trusted",
                port.switch,
                port.port,
                table::time(port.release_late.p99_ns as f64),
                pinning.worker_cpu
            ));
        }
    }
}
