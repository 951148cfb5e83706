//! Filters over a window of exchanges, with and without marks: the paper's VI-B and Fig. 12. One hop in virtual time, cross
//! traffic 60 s on and 20 s off, median delay as ptp4l filters and min-RTT, M from 1 to 12, R from 0 to 8.
//!
//! With waits that are independent from one exchange to the next, a long window without marks is as good as a few marks;
//! where a queue stands longer than the window, every exchange in it has waited. So there are two kinds of traffic, and
//! the correlation of the waits is beside each figure. delta is the best for each R, by a search over the waits.

use super::GROUP;
use crate::{
    fifo::exceeded,
    plot::{Axis, Lines, Series, Stroke},
    report::{Asked, Row},
    statistics::autocorrelation,
};
use anyhow::{Context, Result, ensure};
use plimsoll_lab::{
    clock::{ClockSample, FilterChoice, Filtered},
    lab::Silent,
    sim::{SimOptions, run},
    topology::{Overrides, Topology},
};
use plimsoll_model::Filter;
use std::{fmt::Write as _, fs, path::Path, sync::atomic::AtomicBool};

const LONGEST: usize = 12;
const MOST: u32 = 8;
/// M of the figure over R, R of that over M: the paper's.
const WINDOW: usize = 8;
const FEW: [u32; 3] = [0, 1, 2];
const FILTERS: [Filter; 2] = [Filter::MedianDelay, Filter::MinRtt];
/// Steps of the search for delta.
const STEPS: u64 = 400;

/// Cross traffic of a lab, and how often its clock asks.
struct Traffic {
    name: &'static str,
    about: &'static str,
    flow: &'static str,
    interval: &'static str,
}

const TRAFFICS: [Traffic; 2] = [
    Traffic {
        name: "independent",
        about: "Poisson, 70 %, 16 exchanges a second",
        flow: "kind = \"poisson\"\nload = 0.7",
        interval: "62.5ms",
    },
    Traffic {
        name: "standing",
        about: "bursts of 300 ms at 1.02 times the rate, 200 ms apart, in the mean; 64 exchanges a second",
        flow: "kind = \"on-off\"\nload = 0.61\non = \"300ms\"\noff = \"200ms\"",
        interval: "15.625ms",
    },
];

/// One simulation.
struct Run {
    thresholds: u32,
    delta_us: f64,
    samples: Vec<ClockSample>,
}

impl Run {
    /// Variance of the filtered offsets in us^2, compensated by the marks (of R = 0 there are none).
    fn variance(&self, filter: Filter, window: usize) -> f64 {
        let filtered = Filtered::of(FilterChoice { filter, window }, &self.samples);
        let deviation = if self.thresholds == 0 { filtered.raw } else { filtered.compensated }.deviation_ns;
        (deviation / 1e3).powi(2)
    }
}

/// Figures and a table go to `out`; each of `rounds` has a seed of its own.
pub(super) fn measure(rounds: usize, out: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut table = "# Variance of filtered offsets, us^2\n".to_owned();
    for traffic in &TRAFFICS {
        let mut all = Vec::new();
        for round in 0..rounds {
            all.push(runs(traffic, round as u64 + 1)?);
        }
        let first = all.first().context("there is a round")?;
        let correlation = correlation(first);
        let about = format!("{}; neighbours' waits correlate by {correlation:.2}", traffic.about);
        write_table(&mut table, first, &about)?;
        draw(first, traffic, correlation, out)?;
        for filter in FILTERS {
            // The paper's best case, and its claim about no filter at all.
            let fall = |runs: &Vec<Run>| {
                (1.0 - runs[7].variance(filter, WINDOW) / runs[0].variance(filter, WINDOW)) * 100.0
            };
            let name = filter.name();
            let what =
                format!("filters, {}: variance behind {name} of {WINDOW} falls by R = 7", traffic.name);
            let note = format!("{about}; paper: 99 % in its best case");
            rows.push(Row::new(GROUP, what, "%", Asked::Nothing, all.iter().map(fall).collect()).note(note));
            let ratio = |runs: &Vec<Run>| runs[2].variance(filter, 1) / runs[0].variance(filter, LONGEST);
            let what = format!(
                "filters, {}: variance of R = 2 unfiltered over that of no marks behind {name} of {LONGEST}",
                traffic.name
            );
            let note = format!("{about}; below 1 is the paper's claim of its VI-B");
            rows.push(Row::new(GROUP, what, "", Asked::Nothing, all.iter().map(ratio).collect()).note(note));
        }
    }
    let file = out.join("filters.md");
    fs::write(&file, table).with_context(|| format!("write {}", file.display()))?;
    Ok(rows)
}

/// R = 0 .. 8 in the same traffic.
fn runs(traffic: &Traffic, seed: u64) -> Result<Vec<Run>> {
    let plain = simulate(traffic, seed, 0, 0.0)?;
    let waits = waits_ps(&plain);
    ensure!(!waits.is_empty(), "no exchange was complete");
    let mut runs = vec![Run { thresholds: 0, delta_us: 0.0, samples: plain }];
    for thresholds in 1..=MOST {
        let delta_us = best_delta_us(&waits, thresholds);
        let samples = simulate(traffic, seed, thresholds, delta_us)?;
        runs.push(Run { thresholds, delta_us, samples });
    }
    Ok(runs)
}

fn simulate(traffic: &Traffic, seed: u64, thresholds: u32, delta_us: f64) -> Result<Vec<ClockSample>> {
    let text = lab(traffic, seed, thresholds, delta_us);
    let topology = Topology::parse(traffic.name, &text, &Overrides::default())?;
    let mut outcome = run(&topology, SimOptions::default(), &Silent, &AtomicBool::new(false))?.outcome;
    ensure!(outcome.failed.is_empty(), "{}", outcome.failed.join("; "));
    Ok(std::mem::take(&mut outcome.clocks.first_mut().context("there is a clock")?.samples))
}

fn lab(traffic: &Traffic, seed: u64, thresholds: u32, delta_us: f64) -> String {
    let mut text = format!("duration = \"160s\"\nwarmup = \"0s\"\nseed = {seed}\n");
    if thresholds > 0 {
        let delta_ns = (delta_us * 1e3).round().max(1.0);
        let _ = write!(text, "[marking]\ndelta = \"{delta_ns}ns\"\nthresholds = {thresholds}\n");
    }
    text.push_str("[switch.s1]\n[host.server]\n[host.client]\n[host.load]\n");
    for host in ["server", "client", "load"] {
        let _ =
            write!(text, "[[link]]\nbetween = [\"{host}\", \"s1\"]\nrate = \"100mbit\"\nqueue = \"4MB\"\n");
    }
    let _ = write!(
        text,
        "[[flow]]\nfrom = \"load\"\nto = \"client\"\nsize = \"1500B\"\ncycle = {{ on = \"60s\", off = \"20s\" \
         }}\n{}\n[[clock]]\nserver = \"server\"\nclient = \"client\"\ninterval = \"{}\"\n",
        traffic.flow, traffic.interval
    );
    text
}

/// What Syncs waited: their delay above the least.
fn waits_ps(samples: &[ClockSample]) -> Vec<u64> {
    let delay = |sample: &ClockSample| sample.t2.saturating_sub(sample.t1);
    let least = samples.iter().map(delay).min().unwrap_or(0);
    samples.iter().map(|sample| (delay(sample) - least) * 1000).collect()
}

/// Correlation of the waits of neighbouring exchanges while the traffic is on.
fn correlation(runs: &[Run]) -> f64 {
    let samples = &runs[0].samples;
    let start = samples.first().map_or(0, |sample| sample.t1);
    let on: Vec<ClockSample> = samples
        .iter()
        .filter(|sample| (sample.t1 - start) % 80_000_000_000 < 59_000_000_000)
        .copied()
        .collect();
    autocorrelation(&waits_ps(&on).into_iter().map(|wait| wait as f64).collect::<Vec<_>>(), 1)
}

/// The delta that leaves the least variance of the waits.
fn best_delta_us(waits_ps: &[u64], thresholds: u32) -> f64 {
    let most = waits_ps.iter().max().copied().unwrap_or(0).max(STEPS);
    let variance = |delta_ps: u64| {
        let rest = |wait: &u64| {
            *wait as f64 - f64::from(exceeded((*wait).into(), delta_ps, thresholds)) * delta_ps as f64
        };
        let n = waits_ps.len() as f64;
        let mean = waits_ps.iter().map(rest).sum::<f64>() / n;
        waits_ps.iter().map(|wait| (rest(wait) - mean).powi(2)).sum::<f64>() / n
    };
    let candidates = (1..=STEPS).map(|step| most * step / STEPS);
    let best = candidates.min_by(|one, other| variance(*one).total_cmp(&variance(*other)));
    best.unwrap_or(1) as f64 / 1e6
}

fn write_table(table: &mut String, runs: &[Run], about: &str) -> Result<()> {
    for filter in FILTERS {
        write!(table, "\n## {}: {about}\n\n| M |", filter.name())?;
        for run in runs {
            write!(
                table,
                " R = {}{} |",
                run.thresholds,
                match run.thresholds {
                    0 => String::new(),
                    _ => format!(", {:.0} us", run.delta_us),
                }
            )?;
        }
        write!(table, "\n|---|{}\n", "---|".repeat(runs.len()))?;
        for window in 1..=LONGEST {
            write!(table, "| {window} |")?;
            for run in runs {
                write!(table, " {:.1} |", run.variance(filter, window))?;
            }
            table.push('\n');
        }
    }
    Ok(())
}

/// Fig. 12a: over R with M = 8; Fig. 12b: over M with R = 0, 1, 2.
fn draw(runs: &[Run], traffic: &Traffic, correlation: f64, out: &Path) -> Result<()> {
    let name = traffic.name;
    let stroke = |filter| if filter == Filter::MinRtt { Stroke::Dashed } else { Stroke::Line };
    let title = format!("{name}: neighbours' waits correlate by {correlation:.2}");
    let figure = |x, series| Lines {
        title: &title,
        x: Axis::linear(x),
        y: Axis::log("variance of filtered offsets, us^2"),
        series,
    };
    let over_r = FILTERS.map(|filter| {
        let points = runs.iter().map(|run| (f64::from(run.thresholds), run.variance(filter, WINDOW)));
        Series::new(format!("{} of {WINDOW}", filter.name()), stroke(filter), 0, points.collect())
    });
    figure("R", over_r.into()).draw(&out.join(format!("filters-r-{name}.svg")))?;
    let mut over_m = Vec::new();
    for filter in FILTERS {
        for run in runs.iter().filter(|run| FEW.contains(&run.thresholds)) {
            let points = (1..=LONGEST).map(|window| (window as f64, run.variance(filter, window))).collect();
            let name = format!("{}, R = {}", filter.name(), run.thresholds);
            over_m.push(Series::new(name, stroke(filter), run.thresholds as usize, points));
        }
    }
    figure("M", over_m).draw(&out.join(format!("filters-m-{name}.svg")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_delta_of_known_waits() {
        // Half of them none, half 100 us: one threshold just below takes all.
        let waits: Vec<u64> = (0..1000).map(|i| i % 2 * 100_000_000).collect();
        let delta = best_delta_us(&waits, 1);
        assert!((99.0..100.0).contains(&delta), "{delta}");
        let delta = best_delta_us(&waits, 2);
        assert!((49.0..100.0).contains(&delta), "{delta}");
    }

    #[test]
    fn the_labs_are_labs_with_and_without_marks() {
        for traffic in &TRAFFICS {
            for thresholds in [0, 3] {
                let text = lab(traffic, 1, thresholds, 12.5);
                let topology = Topology::parse("bench", &text, &Overrides::default()).unwrap();
                assert_eq!(
                    topology.marking.map(|mark| mark.thresholds),
                    (thresholds > 0).then_some(thresholds)
                );
            }
        }
    }
}
