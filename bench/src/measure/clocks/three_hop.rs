//! Unmodified ptp4l over three congested hops each way with the paper's mix MI: the lab `clocks-three-hop`, with many and
//! with few thresholds, and with transparent clocks in their place.

use super::{GROUP, degraded, named, run, us};
use crate::{
    facts::Facts,
    report::{Asked, Row},
    statistics::median,
};
use anyhow::{Context, Result};
use plimsoll_core::Span;
use plimsoll_lab::{
    results::Outcome,
    topology::{BUILT_IN, Overrides, Topology},
};
use std::time::Duration;

const LAB: &str = "clocks-three-hop";
/// R, delta in microseconds, and by how much the rms must fall, in percent. The waits of one hop seldom
/// exceed 32 * 25 us.
const CHOICES: [(u32, u64, f64); 2] = [(128, 10, 90.0), (32, 25, 75.0)];
/// The paper's mix is of its exponential flows; its own figure is 30 to 80 %.
const PAPER: &str = "paper: 30 to 80 %";

pub(super) fn measure(facts: &Facts, rounds: usize, seconds: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (thresholds, delta_us, asked) in CHOICES {
        let delta = Some(Span { ps: delta_us * 1_000_000 });
        let overrides = Overrides { thresholds: Some(thresholds), delta, ..Overrides::default() };
        let outcomes =
            outcomes(facts, rounds, seconds, |overrides| Ok(Topology::load(LAB, overrides)?), overrides)?;
        let what = format!("R = {thresholds}, delta {delta_us} us");
        rows.extend(describe(&what, Asked::AtLeast(asked), &outcomes));
    }
    let text = transparent()?;
    let parse = |overrides: &Overrides| Ok(Topology::parse("transparent", &text, overrides)?);
    let outcomes = outcomes(facts, rounds, seconds, parse, Overrides::default())?;
    rows.extend(describe("transparent clocks", Asked::Nothing, &outcomes));
    Ok(rows)
}

fn outcomes(
    facts: &Facts,
    rounds: usize,
    seconds: u32,
    load: impl Fn(&Overrides) -> Result<Topology>,
    overrides: Overrides,
) -> Result<Vec<Outcome>> {
    (0..rounds)
        .map(|round| {
            let duration = Some(Duration::from_secs(seconds.into()));
            let overrides = Overrides { duration, seed: Some(round as u64 + 1), ..overrides };
            run(facts, load(&overrides)?)
        })
        .collect()
}

fn describe(what: &str, asked: Asked, outcomes: &[Outcome]) -> Vec<Row> {
    ["udp4", "l2"]
        .into_iter()
        .map(|name| {
            let clocks = named(outcomes, name);
            let one = |pick| median(&us(&clocks, pick));
            let mut note = format!(
                "rms raw {:.1} us, compensated {:.1} us; best 99 % {:.1} -> {:.1} us; p99 {:.1} -> {:.1} us; ptp4l itself logs \
                 rms {:.1} us; {PAPER}",
                one(|c| c.report.raw.rms_ns),
                one(|c| c.report.compensated.rms_ns),
                one(|c| c.report.raw.best_99_rms_ns),
                one(|c| c.report.compensated.best_99_rms_ns),
                one(|c| c.report.raw.abs_p99_ns),
                one(|c| c.report.compensated.abs_p99_ns),
                one(|c| c.logged.as_ref().map_or(f64::NAN, |log| log.offset_rms_ns)),
            );
            degraded(&mut note, outcomes);
            let improvements = clocks.iter().map(|clock| clock.report.improvement * 100.0).collect();
            let what = format!("three hops, MI, {name}, {what}: rms falls by");
            Row::new(GROUP, what, "%", asked, improvements).note(note)
        })
        .collect()
}

/// The lab with transparent clocks in the place of marks.
fn transparent() -> Result<String> {
    let text = BUILT_IN.iter().find(|lab| lab.name == LAB).context("the lab is built in")?.text;
    let (before, rest) = text.split_once("[marking]\n").context("the lab marks")?;
    let (_, after) = rest.split_once("\n\n").context("there is more than [marking]")?;
    let after = after
        .replace("rate = \"100mbit\"\n", "rate = \"100mbit\"\ntransparent-clock = true\n")
        .replace("compensation = \"edge\"\n", "compensation = \"transparent-clock\"\n");
    Ok(format!("{before}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comparator_is_the_same_network_without_marks() {
        let marks = Topology::load(LAB, &Overrides::default()).unwrap();
        let other = Topology::parse("transparent", &transparent().unwrap(), &Overrides::default()).unwrap();
        assert!(marks.marking.is_some() && other.marking.is_none());
        assert_eq!((&marks.hosts, &marks.flows), (&other.hosts, &other.flows));
        let ports = other.switches.iter().flat_map(|switch| &switch.config.ports);
        assert_eq!(ports.filter(|port| port.transparent_clock).count(), 6);
    }
}
