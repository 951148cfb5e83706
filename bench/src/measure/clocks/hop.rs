//! Real, unmodified ptp4l on both ends: what marks are worth to it, and how true it is with no traffic at all.
//!
//! One hop at 100 Mbit/s, Poisson cross traffic one way, the switch's edge ports turn marks into correctionField. delta
//! is fitted to the tail of the waits, which a naive FIFO foretells; it also foretells what an ideal switch would reach,
//! which stands beside each figure.

use super::{GROUP, degraded, run, us};
use crate::{
    facts::Facts,
    fifo::{self, Arrival},
    frames::LONGEST,
    report::{Asked, Row},
    statistics::{median, quantile},
};
use anyhow::Result;
use plimsoll_lab::{
    results::{ClockOutcome, Outcome},
    topology::{Overrides, Topology},
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use rand_distr::Exp1;
use std::fmt::Write as _;

const RATE_BPS: u64 = 100_000_000;
const LOADS: [f64; 2] = [0.7, 0.9];
const MOST: u32 = 128;

/// A choice of thresholds.
#[derive(Clone, Copy)]
struct Choice {
    /// R.
    thresholds: u32,
    /// Whether they lie at (i - 1/2)*delta.
    centred: bool,
    /// R*delta over the 99th percentile of the waits.
    reach: f64,
    /// By how much the rms must fall, in percent.
    asked: f64,
}

/// With many thresholds the waits beyond the last one are what is left, with few the steps between them; those are half
/// as long where the thresholds are centred.
const CHOICES: [Choice; 4] = [
    Choice { thresholds: MOST, centred: false, reach: 1.5, asked: 95.0 },
    Choice { thresholds: 32, centred: false, reach: 1.3, asked: 85.0 },
    Choice { thresholds: 4, centred: false, reach: 0.8, asked: 60.0 },
    Choice { thresholds: 4, centred: true, reach: 1.1, asked: 60.0 },
];
/// The same of ports that are transparent clocks, the comparator, in the same traffic.
const TRANSPARENT: f64 = 98.0;
const IDLE_RMS_US: f64 = 4.0;

/// Seconds of a measurement, of the settling before it not counted.
pub(super) fn measure(facts: &Facts, rounds: usize, seconds: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for load in LOADS {
        let waits = Waits::of(load);
        let mut outcomes = Vec::new();
        for round in 0..rounds {
            outcomes.push(run_text(facts, &congested(load, Help::Transparent, round as u32 + 1, seconds))?);
        }
        for (number, transport) in TRANSPORTS.iter().enumerate() {
            let clocks: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clocks.get(number)).collect();
            let name = format!("load {:.0} %, {transport}, transparent clock", load * 100.0);
            rows.push(describe(&name, TRANSPARENT, &clocks, "residence in correctionField", &outcomes));
        }
        for choice in CHOICES {
            let Choice { thresholds, centred, reach, asked } = choice;
            let delta_us = reach * waits.p99_us() / f64::from(thresholds);
            let mut outcomes = Vec::new();
            for round in 0..rounds {
                let help = Help::Marks { thresholds, centred, delta_us };
                outcomes.push(run_text(facts, &congested(load, help, round as u32 + 1, seconds))?);
            }
            let ideal = waits.improvement(delta_us, &choice) * 100.0;
            for (number, transport) in TRANSPORTS.iter().enumerate() {
                let clocks: Vec<_> =
                    outcomes.iter().filter_map(|outcome| outcome.clocks.get(number)).collect();
                let rule = if centred { " centred" } else { "" };
                let name = format!("load {:.0} %, {transport}, R = {thresholds}{rule}", load * 100.0);
                let fit = format!(
                    "ideal {ideal:.1} %; delta {delta_us:.1} us, R*delta {reach} times the waits' p99 {:.0} us (measured \
                     {:.0})",
                    waits.p99_us(),
                    measured_p99_us(&outcomes)
                );
                rows.push(describe(&name, asked, &clocks, &fit, &outcomes));
            }
        }
    }
    Ok(rows)
}

/// What frames of a Poisson flow wait at a FIFO link, sorted: what a Sync among them waits.
struct Waits {
    sorted_ps: Vec<u64>,
}

impl Waits {
    /// For cross traffic of full frames that takes `load` of the link.
    fn of(load: f64) -> Self {
        const FRAMES: usize = 1_000_000;
        let service_ns = f64::from(LONGEST + 24) * 8e9 / RATE_BPS as f64;
        let mut random = SmallRng::seed_from_u64(1);
        let mut at = 0.0;
        let mut next = || {
            at += random.sample::<f64, _>(Exp1) * service_ns / load;
            Arrival { at_ns: at as u64, len: LONGEST }
        };
        let arrivals: Vec<_> = (0..FRAMES).map(|_| next()).collect();
        let mut sorted_ps: Vec<u64> =
            fifo::waits_ps(&arrivals, RATE_BPS).into_iter().map(|wait| wait as u64).collect();
        sorted_ps.sort_unstable();
        Self { sorted_ps }
    }

    fn p99_us(&self) -> f64 {
        quantile(&self.sorted_ps, 0.99) as f64 / 1e6
    }

    /// By how much exact marks make the rms of waits less, 0..1.
    fn improvement(&self, delta_us: f64, choice: &Choice) -> f64 {
        let delta_ps = (delta_us * 1e6) as u64;
        let lower_ps = if choice.centred { delta_ps / 2 } else { 0 };
        let rest = |wait: u64| {
            let marks = fifo::exceeded((wait + lower_ps).into(), delta_ps, choice.thresholds);
            wait as f64 - f64::from(marks) * delta_ps as f64
        };
        let (raw, left) = self
            .sorted_ps
            .iter()
            .fold((0.0, 0.0), |(raw, left), &wait| (raw + (wait as f64).powi(2), left + rest(wait).powi(2)));
        1.0 - (left / raw).sqrt()
    }
}

const TRANSPORTS: [&str; 2] = ["udp4", "l2"];

fn describe(name: &str, asked: f64, clocks: &[&ClockOutcome], fit: &str, outcomes: &[Outcome]) -> Row {
    let one = |pick: fn(&ClockOutcome) -> f64| median(&us(clocks, pick));
    let (raw, compensated) =
        (us(clocks, |c| c.report.raw_rms_ns), us(clocks, |c| c.report.compensated_rms_ns));
    let improvements = clocks.iter().map(|clock| clock.report.improvement * 100.0).collect();
    let samples: usize = clocks.iter().map(|clock| clock.report.samples).sum();
    let saturated: usize = clocks.iter().map(|clock| clock.report.saturated).sum();
    let mut note = format!(
        "rms raw {:.1} us, compensated {:.1} us; |offset| median {:.1} -> {:.1} us, best 99 % {:.1} -> {:.1} us; saturated \
         {saturated} of {samples}; ptp4l itself logs rms {:.1} us; {fit}",
        median(&raw),
        median(&compensated),
        one(|c| c.report.raw.abs_median_ns),
        one(|c| c.report.compensated.abs_median_ns),
        one(|c| c.report.raw.best_99_rms_ns),
        one(|c| c.report.compensated.best_99_rms_ns),
        one(|c| c.logged.as_ref().map_or(f64::NAN, |log| log.offset_rms_ns)),
    );
    let late = outcomes.iter().flat_map(|outcome| &outcome.flows).map(|flow| flow.send_late.p99_ns).max();
    let stalls: u64 = outcomes.iter().flat_map(|outcome| &outcome.flows).map(|flow| flow.stalls).sum();
    let late_us = late.unwrap_or(0) as f64 / 1000.0;
    let _ = write!(note, "; cross traffic sent late by p99 {late_us:.0} us, stood still {stalls} times");
    degraded(&mut note, outcomes);
    Row::new(GROUP, format!("{name}: rms falls by"), "%", Asked::AtLeast(asked), improvements).note(note)
}

/// Offsets without traffic: through the switch, a Linux bridge, and a veth pair, in one run.
pub(super) fn idle(facts: &Facts, rounds: usize, seconds: u32) -> Result<Vec<Row>> {
    let mut rms = [Vec::new(), Vec::new(), Vec::new()];
    let mut logged = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        let outcome = run_text(facts, &quiet(round as u32 + 1, seconds))?;
        for (number, clock) in outcome.clocks.iter().enumerate() {
            rms[number].push(clock.report.raw_rms_ns / 1000.0);
            logged[number].push(clock.logged.as_ref().map_or(f64::NAN, |log| log.offset_rms_ns) / 1000.0);
        }
    }
    let note = |number: usize| format!("ptp4l itself logs rms {:.2} us", median(&logged[number]));
    let ratio = rms[0].iter().zip(&rms[1]).map(|(ours, bridge)| ours / bridge).collect();
    let row = |what: &str, unit, asked, rounds| Row::new(GROUP, format!("idle: {what}"), unit, asked, rounds);
    Ok(vec![
        row("rms through the switch", "us", Asked::AtMost(IDLE_RMS_US), rms[0].clone()).note(note(0)),
        row("the same over that through a Linux bridge", "", Asked::AtMost(1.0), ratio),
        row("rms through a Linux bridge", "us", Asked::Nothing, rms[1].clone()).note(note(1)),
        row("rms over a veth pair", "us", Asked::Nothing, rms[2].clone()).note(note(2)),
    ])
}

/// The 99th percentile of the waits at the congested port, by the depth that frames found there.
fn measured_p99_us(outcomes: &[Outcome]) -> f64 {
    let deepest =
        |outcome: &Outcome| outcome.ports.iter().map(|port| port.depth_bytes.p99).max().unwrap_or(0);
    let p99: Vec<f64> =
        outcomes.iter().map(|outcome| deepest(outcome) as f64 * 8e6 / RATE_BPS as f64).collect();
    median(&p99)
}

fn run_text(facts: &Facts, text: &str) -> Result<Outcome> {
    run(facts, Topology::parse("bench", text, &Overrides::default())?)
}

/// What the switch does for the clocks behind it.
#[derive(Clone, Copy)]
enum Help {
    /// Marks, which its edge ports turn into correctionField.
    Marks { thresholds: u32, centred: bool, delta_us: f64 },
    /// Its ports are transparent clocks.
    Transparent,
}

fn congested(load: f64, help: Help, seed: u32, seconds: u32) -> String {
    let mut text = format!("name = \"bench\"\nduration = \"{seconds}s\"\nseed = {seed}\n");
    let (port, clock) = match help {
        Help::Marks { thresholds, centred, delta_us } => {
            let rule = if centred { "rule = \"centred\"\n" } else { "" };
            let delta_ns = (delta_us * 1000.0).round().max(1.0);
            let _ = write!(text, "[marking]\ndelta = \"{delta_ns}ns\"\nthresholds = {thresholds}\n{rule}");
            ("", "compensation = \"edge\"\n")
        }
        Help::Transparent => ("transparent-clock = true\n", ""),
    };
    text.push_str("[switch.s1]\n[host.server]\n[host.client]\n[host.load]\n");
    for host in ["server", "client", "load"] {
        let _ = write!(text, "[[link]]\nbetween = [\"{host}\", \"s1\"]\nrate = \"100mbit\"\n{port}");
    }
    let _ = write!(
        text,
        "[[flow]]\nname = \"cross\"\nfrom = \"load\"\nto = \"client\"\nkind = \"poisson\"\nload = {load}\nsize = \
         \"1500B\"\n"
    );
    for transport in TRANSPORTS {
        let _ = write!(
            text,
            "[[clock]]\nname = \"{transport}\"\nserver = \"server\"\nclient = \"client\"\ndaemon = \"ptp4l\"\ntransport = \
             \"{transport}\"\n{clock}"
        );
    }
    text
}

fn quiet(seed: u32, seconds: u32) -> String {
    let mut text =
        format!("name = \"bench\"\nduration = \"{seconds}s\"\nseed = {seed}\n[switch.s1]\n[bridge.br1]\n");
    for host in ["p-server", "p-client", "b-server", "b-client", "d-server", "d-client"] {
        let _ = writeln!(text, "[host.{host}]");
    }
    for (host, node) in [("p-server", "s1"), ("p-client", "s1"), ("b-server", "br1"), ("b-client", "br1")] {
        let rate = if node == "s1" { "rate = \"100mbit\"\n" } else { "" };
        let _ = write!(text, "[[link]]\nbetween = [\"{host}\", \"{node}\"]\n{rate}");
    }
    text.push_str("[[link]]\nbetween = [\"d-server\", \"d-client\"]\n");
    for (name, letter) in [("switch", 'p'), ("bridge", 'b'), ("veth", 'd')] {
        let _ = write!(
            text,
            "[[clock]]\nname = \"{name}\"\nserver = \"{letter}-server\"\nclient = \"{letter}-client\"\ndaemon = \"ptp4l\"\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ideal_switch_reaches() {
        let edge = |thresholds| Choice { thresholds, ..CHOICES[0] };
        let waits = Waits::of(0.7);
        // M/D/1: the mean wait is rho/(2(1 - rho)) services of 123.04 us.
        let mean_us = waits.sorted_ps.iter().sum::<u64>() as f64 / 1e6 / waits.sorted_ps.len() as f64;
        assert!((mean_us - 143.5).abs() < 3.0, "{mean_us}");
        let improvements = [(157.0, 4), (9.2, 128), (1e9, 4)]
            .map(|(delta_us, thresholds)| waits.improvement(delta_us, &edge(thresholds)));
        assert!((improvements[0] - 0.645).abs() < 0.02, "{improvements:?}");
        assert!((improvements[1] - 0.956).abs() < 0.02, "{improvements:?}");
        assert_eq!(improvements[2], 0.0);
    }

    #[test]
    fn the_labs_are_labs() {
        for Choice { thresholds, centred, .. } in CHOICES {
            let text = congested(0.7, Help::Marks { thresholds, centred, delta_us: 8.123 }, 1, 5);
            let topology = Topology::parse("bench", &text, &Overrides::default()).unwrap();
            assert_eq!(topology.clocks.len(), 2);
            assert_eq!(topology.marking.unwrap().delta_ps, 8_123_000);
        }
        let topology =
            Topology::parse("bench", &congested(0.7, Help::Transparent, 1, 5), &Overrides::default())
                .unwrap();
        assert!(topology.switches[0].config.ports.iter().all(|port| port.transparent_clock));
        assert!(topology.marking.is_none());
        let topology = Topology::parse("bench", &quiet(1, 5), &Overrides::default()).unwrap();
        assert_eq!((topology.clocks.len(), topology.bridges.len()), (3, 1));
    }
}
