//! The simulator: how much faster than real time it is, and whether the same file gives the same distributions on veth.
//!
//! The speed is of one hop at 1 Gbit/s, Poisson frames of 850 octets on the wire, 85 % of the link, in time that one CPU
//! gave, ground truth and tables included. The distributions are those that Sync messages meet: what they find ahead of them, and
//! their r; compared by Kolmogorov's and Smirnov's distance of two samples.

use crate::{
    cpu_time::own_ns,
    facts,
    facts::Facts,
    report::{Asked, Row},
    statistics::{autocorrelation, ks_critical, ks_distance},
};
use anyhow::{Context, Result, ensure};
use plimsoll_lab::{
    lab::{self, RunOptions, Silent},
    record::{RecordFile, Sink},
    sim::{SimOptions, Simulated, run},
    topology::{Overrides, Topology},
};
use plimsoll_port::worker::{Fate, Record};
use std::{fs, path::Path, sync::atomic::AtomicBool, time::Duration};

const GROUP: &str = "sim";
/// Virtual time by real time on one CPU.
const RATIO: f64 = 20.0;
/// Level of the test: equal distributions are told different once in a hundred times.
const LEVEL: f64 = 0.01;
/// Correlation of neighbours below which samples count as independent.
const INDEPENDENT: f64 = 0.05;
/// The simulator's sample is so many times that of veth, so that it adds little to the distance.
const MORE: u32 = 20;

/// One hop at 1 Gbit/s.
const FAST: &str = r#"
[switch.s1]
[host.a]
[host.b]
[[link]]
between = ["a", "s1"]
[[link]]
between = ["b", "s1"]
rate = "1gbit"
[[flow]]
from = "a"
to = "b"
load = 0.85
"#;

/// Measures: `simulated` of virtual time for the speed, `span` on veth for the distributions.
pub(crate) fn measure(facts: &Facts, rounds: usize, simulated: Duration, span: Duration) -> Result<Vec<Row>> {
    let mut rows = facts::on_cpu(facts.worker_cpu, || speed(rounds, simulated))?;
    for load in [0.7, 0.9] {
        rows.extend(facts.unpinned(|| distributions(load, span))?);
    }
    Ok(rows)
}

fn speed(rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let sizes = [("850 B", "size = \"812B\""), ("exponential, mean 850 B", "paper = \"SF\"")];
    for (what, size) in sizes {
        let overrides = Overrides { duration: Some(span), ..Overrides::default() };
        let text = format!("warmup = \"100ms\"\n{FAST}{size}\n");
        let topology = Topology::parse("fast", &text, &overrides)?;
        let (mut ratio, mut events, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let since = own_ns();
            let run = simulate(&topology, Vec::new())?;
            let took = (own_ns() - since) as f64 / 1e9;
            let sent: u64 = run.outcome.flows.iter().map(|flow| flow.sent_frames).sum();
            ratio.push(run.simulated.as_secs_f64() / took);
            events.push(run.events as f64 / took / 1e6);
            frames.push(sent as f64 / took / 1e6);
        }
        let name = |figure: &str| format!("one hop, 1 Gbit/s, 85 %, {what}: {figure}");
        rows.push(Row::new(GROUP, name("times real time"), "", Asked::AtLeast(RATIO), ratio));
        rows.push(Row::new(GROUP, name("events"), "M/s", Asked::Nothing, events));
        rows.push(Row::new(GROUP, name("frames"), "M/s", Asked::Nothing, frames));
    }
    Ok(rows)
}

fn simulate(topology: &Topology, sinks: Vec<&mut dyn Sink>) -> Result<Simulated> {
    let options = SimOptions { sinks, ..SimOptions::default() };
    let simulated = run(topology, options, &Silent, &AtomicBool::new(false))?;
    ensure!(simulated.outcome.failed.is_empty(), "{:?}", simulated.outcome.failed);
    Ok(simulated)
}

/// What each Sync found on its way to the client, in the order of its sending.
#[derive(Debug, Default)]
struct Syncs {
    /// Wire octets ahead of it.
    depth: Vec<f64>,
    /// Thresholds exceeded.
    r: Vec<f64>,
}

impl Syncs {
    fn push(&mut self, depth: f64, r: f64) {
        self.depth.push(depth);
        self.r.push(r);
    }
}

impl Sink for Syncs {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        // The built-in lab's second link leads to the client; messageType 0 is Sync.
        let sync = record
            .message
            .is_some_and(|message| message.ptp().is_some_and(|message| message.message_type == 0));
        if let (Fate::Sent(sent), true, Some(1)) = (&record.fate, sync, record.egress.map(|port| port.0)) {
            self.push(sent.depth_bytes as f64, f64::from(sent.mark.r));
        }
        Ok(())
    }
}

/// The built-in lab `one-hop` on veth beside itself simulated, with other seeds: two samples that share nothing.
fn distributions(load: f64, span: Duration) -> Result<Vec<Row>> {
    let overrides = |duration, seed| Overrides {
        duration: Some(duration),
        seed: Some(seed),
        load: Some(load),
        ..Overrides::default()
    };
    let mut simulated = Syncs::default();
    let topology = Topology::load("one-hop", &overrides(MORE * span, 1000))?;
    simulate(&topology, vec![&mut simulated])?;

    let path = std::env::temp_dir().join(format!("plimsoll-bench-sim-{}.csv", std::process::id()));
    let topology = Topology::load("one-hop", &overrides(span, 1))?;
    let options = RunOptions {
        record: Some(RecordFile::new(path.clone()).map_err(anyhow::Error::msg)?),
        publish: false,
    };
    let outcome = lab::run(topology, &options, &Silent, &AtomicBool::new(false));
    let real = read(&path);
    fs::remove_file(&path).with_context(|| path.display().to_string())?;
    let (outcome, real) = (outcome?, real?);
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);

    // A long queue is still there when the next Sync comes: only every so many of them are independent.
    let step = (1..real.depth.len()).find(|&lag| autocorrelation(&simulated.depth, lag) < INDEPENDENT);
    let step = step.context("no two Syncs are independent: measure longer")?;
    let row = |what: &str, real: &[f64], simulated: &[f64]| {
        let thin = |values: &[f64]| values.iter().step_by(step).copied().collect::<Vec<_>>();
        let (real, simulated) = (thin(real), thin(simulated));
        let critical = ks_critical(real.len(), simulated.len(), LEVEL);
        let distance = ks_distance(&real, &simulated);
        Row::new(
            GROUP,
            format!("one-hop, load {load}: KS distance of {what}, veth and simulated"),
            "",
            Asked::AtMost(critical),
            vec![distance],
        )
        .note(format!(
            "{} and {} Syncs, every {step}. of those sent (correlation of neighbours below {INDEPENDENT}); level {LEVEL}",
            real.len(),
            simulated.len()
        ))
        .void_if(outcome.degraded, "the machine was too busy")
    };
    Ok(vec![row("depth", &real.depth, &simulated.depth), row("r", &real.r, &simulated.r)])
}

/// The Syncs to the client in a file of records.
fn read(path: &Path) -> Result<Syncs> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut lines = text.lines();
    let head: Vec<_> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).with_context(|| name.to_owned());
    let (egress, message) = (column("egress")?, column("message_type")?);
    let (depth, r, drop) = (column("depth_bytes")?, column("r")?, column("drop")?);
    let mut syncs = Syncs::default();
    for line in lines {
        let cells: Vec<_> = line.split(',').collect();
        let is = |column: usize, text: &str| cells.get(column) == Some(&text);
        if is(egress, "client") && is(message, "0") && is(drop, "") {
            syncs.push(cells[depth].parse()?, cells[r].parse()?);
        }
    }
    ensure!(!syncs.depth.is_empty(), "{}: no Sync in it", path.display());
    Ok(syncs)
}
