//! Unmodified chronyd behind host shims: the labs `clocks-chrony` and `clocks-nts`. Its measurements, and what its own
//! tracking says, beside those of one that nobody helps, over the same congested link in the same run.

use super::{GROUP, degraded, named, run, us};
use crate::{
    facts::Facts,
    report::{Asked, Row},
    statistics::median,
};
use anyhow::{Context, Result};
use plimsoll_lab::{
    results::{ClockOutcome, Outcome},
    topology::{Overrides, Topology},
};
use std::time::Duration;

/// A clock that has help: its name, what helps, and by how much the rms must fall, in percent.
type Helped = (&'static str, &'static str, f64);
/// Labs, with those.
const LABS: [(&str, &[Helped]); 2] = [
    (
        "clocks-chrony",
        &[("plain", "field", 80.0), ("xleave", "field", 80.0), ("keyed", "one ECN threshold", 30.0)],
    ),
    ("clocks-nts", &[("nts", "one ECN threshold", 30.0)]),
];
/// The one without help.
const BARE: &str = "bare";

pub(super) fn measure(facts: &Facts, rounds: usize, seconds: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (lab, clocks) in LABS {
        let mut outcomes = Vec::new();
        for round in 0..rounds {
            let duration = Some(Duration::from_secs(seconds.into()));
            let overrides = Overrides { duration, seed: Some(round as u64 + 1), ..Overrides::default() };
            outcomes.push(run(facts, Topology::load(lab, &overrides)?)?);
        }
        let bare = named(&outcomes, BARE);
        for (name, by, asked) in clocks {
            rows.extend(describe(&outcomes, &bare, name, by, *asked)?);
        }
    }
    Ok(rows)
}

fn tracked(clock: &ClockOutcome) -> f64 {
    clock.logged.as_ref().map_or(f64::NAN, |log| log.offset_rms_ns)
}

fn describe(
    outcomes: &[Outcome],
    bare: &[&ClockOutcome],
    name: &str,
    by: &str,
    asked: f64,
) -> Result<[Row; 2]> {
    let clocks = named(outcomes, name);
    let first = clocks.first().with_context(|| format!("there is no clock {name}"))?;
    let transport = first.report.transport;
    let one = |pick| median(&us(&clocks, pick));
    let mut note = format!(
        "rms by taps {:.1} us, as chronyd measured {:.1} us (without help {:.1} us); |offset| median {:.1} -> {:.1} us; p99 {:.1} \
         -> {:.1} us; {} measurements",
        one(|c| c.report.raw.rms_ns),
        one(|c| c.report.compensated.rms_ns),
        median(&us(bare, |c| c.report.raw.rms_ns)),
        one(|c| c.report.raw.abs_median_ns),
        one(|c| c.report.compensated.abs_median_ns),
        one(|c| c.report.raw.abs_p99_ns),
        one(|c| c.report.compensated.abs_p99_ns),
        clocks.iter().map(|clock| clock.report.samples).sum::<usize>(),
    );
    degraded(&mut note, outcomes);
    let improvements = clocks.iter().map(|clock| clock.report.improvement * 100.0).collect();
    let what = format!("chronyd {name}, {transport}, by {by}: rms falls by");
    let measured = Row::new(GROUP, what, "%", Asked::AtLeast(asked), improvements).note(note);
    // Of its own tracking, any improvement is asked.
    let falls = bare.iter().zip(&clocks).map(|(bare, clock)| (1.0 - tracked(clock) / tracked(bare)) * 100.0);
    let note = format!(
        "rms of its clock's offset {:.1} us, without help {:.1} us, in {} looks a round",
        one(tracked),
        median(&us(bare, tracked)),
        first.logged.as_ref().map_or(0, |log| log.lines)
    );
    let what = format!("chronyd {name}, {transport}: its own tracking falls by");
    let tracking = Row::new(GROUP, what, "%", Asked::AtLeast(0.0), falls.collect()).note(note);
    Ok([measured, tracking])
}
