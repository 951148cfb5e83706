//! What marks are worth to clocks: unmodified ptp4l over one hop and over three, unmodified chronyd in all its modes, the
//! filters of the paper's VI-B, and how true clocks are with no traffic at all.

mod chrony;
mod filters;
mod hop;
mod three_hop;

use crate::{facts::Facts, report::Row};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use plimsoll_lab::{
    lab::{self, RunOptions, Silent},
    results::{ClockOutcome, Outcome},
    topology::Topology,
};
use std::{fmt::Write as _, fs, path::Path, sync::atomic::AtomicBool};

const GROUP: &str = "clocks";

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// No traffic: the noise beneath all figures.
    Idle,
    /// ptp4l over one hop, several R, beside transparent clocks.
    Hop,
    /// ptp4l over three hops with the paper's mix MI, beside transparent clocks.
    ThreeHop,
    /// chronyd: plain, interleaved, keyed, NTS.
    Chrony,
    /// Filters with and without marks (the paper's VI-B), in virtual time; figures.
    Filters,
}

/// Measures these parts, or all, with so many seconds a run; figures go to `out`.
pub(crate) fn measure(
    facts: &Facts,
    parts: &[Part],
    rounds: usize,
    seconds: u32,
    out: &Path,
) -> Result<Vec<Row>> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut rows = Vec::new();
    if wanted(Part::Idle) {
        rows.extend(hop::idle(facts, rounds, seconds)?);
    }
    if wanted(Part::Hop) {
        rows.extend(hop::measure(facts, rounds, seconds)?);
    }
    if wanted(Part::ThreeHop) {
        rows.extend(three_hop::measure(facts, rounds, seconds)?);
    }
    if wanted(Part::Chrony) {
        rows.extend(chrony::measure(facts, rounds, seconds)?);
    }
    if wanted(Part::Filters) {
        fs::create_dir_all(out)
            .with_context(|| format!("make the directory {}; name another one by --out", out.display()))?;
        rows.extend(facts.unpinned(|| filters::measure(rounds, out))?);
    }
    Ok(rows)
}

/// Runs a lab that must go well.
fn run(facts: &Facts, topology: Topology) -> Result<Outcome> {
    let outcome = facts
        .unpinned(|| Ok(lab::run(topology, &RunOptions::default(), &Silent, &AtomicBool::new(false))?))?;
    ensure!(outcome.failed.is_empty(), "{}", outcome.failed.join("; "));
    ensure!(outcome.frames_conserved, "chunks are not conserved");
    Ok(outcome)
}

/// A figure of a clock in each round, given in ns, in microseconds.
fn us(clocks: &[&ClockOutcome], pick: fn(&ClockOutcome) -> f64) -> Vec<f64> {
    clocks.iter().map(|clock| pick(clock) / 1000.0).collect()
}

/// The clock of this name in each round.
fn named<'o>(outcomes: &'o [Outcome], name: &str) -> Vec<&'o ClockOutcome> {
    outcomes
        .iter()
        .filter_map(|outcome| outcome.clocks.iter().find(|clock| clock.report.name == name))
        .collect()
}

/// Says in how many rounds something else took the machine's time.
fn degraded(note: &mut String, outcomes: &[Outcome]) {
    let rounds = outcomes.iter().filter(|outcome| outcome.degraded).count();
    if rounds > 0 {
        let _ = write!(note, "; DEGRADED in {rounds} rounds: something else used the CPUs");
    }
}
