//! A port's line: rate asked and measured, depths, marks, how true its times were, what it lost.

use super::Outcome;
use crate::record::tally::{PortTally, Totals};
use crate::topology::Topology;
use plimsoll_port::PortCounters;
use plimsoll_port::worker::{Lateness, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;

/// Wire octets that had to leave before a frame, itself not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DepthBytes {
    /// Median.
    pub p50: u64,
    /// 99 % are not above this.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// One port of a switch.
#[derive(Clone, Debug, Serialize)]
pub struct PortOutcome {
    /// The switch.
    pub switch: String,
    /// The port, named after its neighbour.
    pub port: String,
    /// Rate asked for, bit/s on the wire; `null`: as fast as the machine sends.
    pub rate_bps: Option<u64>,
    /// Rate of frames that left right behind another, by the instants of their release; `null` where too
    /// few did to tell.
    pub measured_bps: Option<f64>,
    /// Bit/s on the wire, on average.
    pub sent_bps: f64,
    /// Frames sent.
    pub frames: u64,
    /// Frames that the queue refused.
    pub dropped: u64,
    /// What frames found ahead of them.
    pub depth_bytes: DepthBytes,
    /// Messages that could be marked, in their word or by modified ECN, by r.
    pub marks: BTreeMap<u32, u64>,
    /// Messages whose counter could not take all of r.
    pub saturated: u64,
    /// How late frames were released, against the ideal instant + L.
    pub release_late: Lateness,
    /// Frames that came out of the order of their stamps, and were taken as arrived later.
    pub inversions: u64,
    /// How much later, of all frames.
    pub late_arrival: Lateness,
    /// How the port received: `native`, `generic`; `simulated`.
    pub mode: String,
    /// Frames lost at the interface, around the switch, by reason, since the lab stands. `before_xdp` is what the
    /// neighbour sent faster than its end of the link takes.
    pub losses: BTreeMap<&'static str, u64>,
    /// Frames by what became of their ECN bits, where the port marks those.
    pub ecn: BTreeMap<&'static str, u64>,
    /// Messages whose residence a transparent clock added to correctionField.
    pub transparent_messages: u64,
    /// Whether its link was held at the end.
    pub held: bool,
}

impl PortOutcome {
    fn new(switch: &str, port: &str, rate_bps: Option<u64>, tally: Option<&PortTally>, seconds: f64) -> Self {
        let mut outcome = Self {
            switch: switch.to_owned(),
            port: port.to_owned(),
            rate_bps,
            measured_bps: None,
            sent_bps: 0.0,
            frames: 0,
            dropped: 0,
            depth_bytes: DepthBytes::default(),
            marks: BTreeMap::new(),
            saturated: 0,
            release_late: Lateness { within_1us: 1.0, ..Lateness::default() },
            inversions: 0,
            late_arrival: Lateness { within_1us: 1.0, ..Lateness::default() },
            mode: "simulated".to_owned(),
            losses: BTreeMap::new(),
            ecn: BTreeMap::new(),
            transparent_messages: 0,
            held: false,
        };
        if let Some(tally) = tally {
            let depth = |q| tally.depth.value_at_quantile(q);
            outcome.measured_bps = tally.measured_bps();
            outcome.sent_bps = if seconds > 0.0 { tally.wire_octets as f64 * 8.0 / seconds } else { 0.0 };
            outcome.frames = tally.frames;
            outcome.dropped = tally.dropped;
            outcome.depth_bytes = DepthBytes { p50: depth(0.5), p99: depth(0.99), max: tally.depth.max() };
            outcome.marks.clone_from(&tally.marks);
            outcome.saturated = tally.saturated;
            outcome.ecn = tally.ecn.iter().map(|(what, n)| (what.name(), *n)).collect();
            outcome.transparent_messages = tally.transparent;
            outcome.release_late = Lateness::of(&tally.release_late);
            outcome.inversions = tally.inversions();
            outcome.late_arrival = Lateness::of(&tally.late_arrival);
        }
        outcome
    }
}

impl Outcome {
    /// The ports' figures.
    pub(crate) fn take_ports(&mut self, topology: &Topology, totals: &Totals) {
        for (s, plan) in topology.switches.iter().enumerate() {
            for (p, config) in plan.config.ports.iter().enumerate() {
                let (tally, rate) = (totals.port(s, p), config.rate.map(|rate| rate.0));
                self.ports.push(PortOutcome::new(&plan.name, &config.name, rate, tally, self.duration_s));
            }
        }
    }

    /// What the machine did around them; `snapshot` is of the running worker, `last` of the stopped one.
    pub(crate) fn take_machine(&mut self, snapshot: &Snapshot, last: &Snapshot) {
        let seen = snapshot.switches.iter().flat_map(|switch| switch.ports.iter().zip(&switch.stats.ports));
        for (port, (seen, core)) in self.ports.iter_mut().zip(seen) {
            port.held = core.held;
            match &seen.description {
                Some(description) => {
                    port.mode = description.mode.name().to_owned();
                    port.losses = seen.counters.as_ref().map(losses).unwrap_or_default();
                    if let Some(line) = overrun(|name| port.losses.get(name).copied()) {
                        self.warnings.push(format!("switch {}, port {}: {line}", port.switch, port.port));
                    }
                }
                None => self.failed.push(format!(
                    "switch {}, port {}: its interface is gone; see `dmesg`",
                    port.switch, port.port
                )),
            }
        }
        self.frames_conserved = snapshot.frames_conserved && last.frames.is_whole();
        if !self.frames_conserved {
            self.failed.push(format!(
                "frames are not where they should be: {:?}, {:?} at the end; please report this",
                snapshot.frames, last.frames
            ));
        }
        self.judge();
    }
}

/// In one line what was lost before the switch saw it, by its counters of these names: how much, where, and what to do
/// about it. `None` where nothing was.
pub fn overrun(counter: impl Fn(&str) -> Option<u64>) -> Option<String> {
    let counted =
        |name: &'static str| counter(name).filter(|frames| *frames > 0).map(|frames| (name, frames));
    let lost: Vec<_> = PortCounters::OVERRUN.into_iter().filter_map(counted).collect();
    if lost.is_empty() {
        return None;
    }
    let total: u64 = lost.iter().map(|(_, frames)| frames).sum();
    let places: Vec<_> = lost.iter().map(|(name, frames)| format!("{name} {frames}")).collect();
    Some(format!(
        "{total} frames were lost before the switch saw them ({}): they came faster than this machine takes them, and \
         the queues did not fill as they would have; offer less, or leave the worker a CPU of its own",
        places.join(", ")
    ))
}

/// What was lost beside the switch, where anything was.
fn losses(counters: &PortCounters) -> BTreeMap<&'static str, u64> {
    counters.losses().filter(|(_, n)| *n > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_before_the_switch_are_one_line_with_count_places_and_remedy() {
        let counters = BTreeMap::from([
            ("before_xdp", 70),
            ("tx_down", 9),
            ("fill_ring_empty", 2),
            ("bulk_ring_full", 0),
        ]);
        let line = overrun(|name| counters.get(name).copied()).unwrap();
        assert!(line.starts_with(
            "72 frames were lost before the switch saw them (before_xdp 70, fill_ring_empty 2): "
        ));
        assert!(line.contains("; offer less, or "), "{line}");
        assert_eq!(overrun(|name| (name == "tx_down").then_some(9)), None);
    }
}
