//! Unmodified chronyd behind host shims: the labs `clocks-chrony` and `clocks-nts` for its measurements, `clocks-standing` for
//! what its own tracking says, beside one that nobody helps, over the same congested link in the same run.
//!
//! In Poisson traffic some exchanges wait for nothing; chronyd finds them by their delay, and its tracking is as good without
//! help. So nothing is asked of it there.

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
/// Labs, with those; in the last one the same of its own tracking.
const LABS: [(&str, &[Helped]); 3] = [
    (
        "clocks-chrony",
        &[("plain", "field", 80.0), ("xleave", "field", 80.0), ("keyed", "one ECN threshold", 30.0)],
    ),
    ("clocks-nts", &[("nts", "one ECN threshold", 30.0)]),
    (STANDING, &[("plain", "field", 80.0), ("xleave", "field", 80.0), ("keyed", "one ECN threshold", 30.0)]),
];
/// The lab whose queue never empties.
const STANDING: &str = "clocks-standing";
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
            rows.extend(describe(lab, &outcomes, &bare, &(name, by, *asked))?);
        }
    }
    Ok(rows)
}

fn tracked(clock: &ClockOutcome) -> f64 {
    clock.logged.as_ref().map_or(f64::NAN, |log| log.offset_rms_ns)
}

fn describe(
    lab: &str,
    outcomes: &[Outcome],
    bare: &[&ClockOutcome],
    (name, by, asked): &Helped,
) -> Result<[Row; 2]> {
    let asked = Asked::AtLeast(*asked);
    let (measurements, of_tracking) = match lab {
        STANDING => (Asked::Nothing, asked),
        _ => (asked, Asked::Nothing),
    };
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
    let what = format!("{lab}: chronyd {name}, {transport}, by {by}: rms falls by");
    let measured = Row::new(GROUP, what, "%", measurements, improvements).note(note);
    let falls = bare.iter().zip(&clocks).map(|(bare, clock)| (1.0 - tracked(clock) / tracked(bare)) * 100.0);
    let note = format!(
        "rms of its clock's offset {:.1} us, without help {:.1} us, in {} looks a round",
        one(tracked),
        median(&us(bare, tracked)),
        first.logged.as_ref().map_or(0, |log| log.lines)
    );
    let what = format!("{lab}: chronyd {name}, {transport}, by {by}: its own tracking's rms falls by");
    let tracking = Row::new(GROUP, what, "%", of_tracking, falls.collect()).note(note);
    Ok([measured, tracking])
}
