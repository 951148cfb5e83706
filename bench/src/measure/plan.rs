//! From a recording to a plan to its use: does a lab, set as planned, do what was foretold?
//!
//! A lab is run once with a record; delta is searched for what its messages met, for few and many thresholds, at i*delta
//! and centred; the lab is run again so set, with other seeds: other traffic. In the simulator, and on veth, where the
//! clock also sees what the machine does to it and the switch's record does not.

use crate::{
    facts::Facts,
    report::{Asked, Row},
    statistics::median,
};
use anyhow::{Context, Result, ensure};
use plimsoll_core::Span;
use plimsoll_lab::{
    lab::{self, RunOptions, Silent},
    record::RecordFile,
    results::{ClockOutcome, Outcome},
    sim::{self, SimOptions},
    topology::{Overrides, ThresholdRule, Topology},
};
use plimsoll_model::{
    CsvColumns, Exchanges, Objective, Recording, Rule, Setting, Space, improvement, search,
};
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};

const GROUP: &str = "plan";
const LABS: [&str; 2] = ["one-hop", "three-hop"];
const THRESHOLDS: [u32; 3] = [1, 4, 32];
const RULES: [(Rule, ThresholdRule); 2] =
    [(Rule::Edge, ThresholdRule::Edge), (Rule::Centred, ThresholdRule::Centred)];
/// Found over foretold.
const NEAR: (f64, f64) = (0.9, 1.1);
/// Seeds that a plan is applied to in the simulator, for each recording.
const SEEDS: usize = 4;
/// Seeds of applied plans begin so much after that of the recording.
const OTHER_TRAFFIC: u64 = 1000;

/// Measures: `simulated` of virtual time for each run of the simulator, `span` for each on veth.
pub(crate) fn measure(
    facts: &Facts,
    rounds: Option<usize>,
    simulated: Duration,
    span: Duration,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for lab in LABS {
        rows.extend(facts.unpinned(|| compare(lab, &World::Simulated, rounds.unwrap_or(3), simulated))?);
    }
    for lab in LABS {
        rows.extend(facts.unpinned(|| compare(lab, &World::Veth, rounds.unwrap_or(1), span))?);
    }
    Ok(rows)
}

/// Where labs run.
enum World {
    Simulated,
    Veth,
}

impl World {
    fn name(&self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Veth => "veth",
        }
    }

    /// One run; with a record where that is asked for.
    fn run(&self, lab: &str, overrides: &Overrides, record: Option<&Path>) -> Result<Outcome> {
        let topology = Topology::load(lab, overrides)?;
        let record = record.map(|path| RecordFile::new(path.to_owned())).transpose();
        let record = record.map_err(anyhow::Error::msg)?;
        let outcome = match self {
            Self::Simulated => {
                let options = SimOptions { record, ..SimOptions::default() };
                sim::run(&topology, options, &Silent, &AtomicBool::new(false))?.outcome
            }
            Self::Veth => {
                let options = RunOptions { record, publish: false };
                lab::run(topology, &options, &Silent, &AtomicBool::new(false))?
            }
        };
        ensure!(outcome.failed.is_empty(), "{lab}: {}", outcome.failed.join("; "));
        Ok(outcome)
    }

    /// The lab so set, with other traffic than was recorded: in the simulator several seeds. On veth also what the
    /// setting did to the waits that the switch recorded, which is all that a plan can know of.
    fn apply(
        &self,
        lab: &str,
        overrides: &Overrides,
        setting: &Setting,
    ) -> Result<(Vec<Outcome>, Option<f64>)> {
        match self {
            Self::Veth => {
                let file = Temporary::new(&format!("{lab}-applied.csv"));
                let outcome = self.run(lab, overrides, Some(&file.0))?;
                Ok((vec![outcome], Some(read(&file.0)?.improvement(setting))))
            }
            Self::Simulated => {
                let topology = Topology::load(lab, overrides)?;
                let (repeated, _) = sim::repeat(&topology, SEEDS, &AtomicBool::new(false))?;
                for run in &repeated.runs {
                    ensure!(run.failed.is_empty(), "{lab}: {}", run.failed.join("; "));
                }
                Ok((repeated.runs, None))
            }
        }
    }
}

/// A setting with what came of it in each round.
struct Tried {
    rule: (Rule, ThresholdRule),
    thresholds: u32,
    ratios: Vec<f64>,
    notes: Vec<String>,
    degraded: bool,
}

fn compare(lab: &str, world: &World, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let name = |what: &str| format!("{lab}, {}: {what}", world.name());
    let mut raw = Vec::new();
    let (mut raw_note, mut degraded) = (String::new(), false);
    let tried = |rule| {
        THRESHOLDS.map(|thresholds| Tried {
            rule,
            thresholds,
            ratios: vec![],
            notes: vec![],
            degraded: false,
        })
    };
    let mut all: Vec<Tried> = RULES.into_iter().flat_map(tried).collect();
    for round in 0..rounds as u64 {
        let overrides = Overrides { duration: Some(span), seed: Some(round + 1), ..Overrides::default() };
        let file = Temporary::new(&format!("{lab}-{}-{round}.csv", world.name()));
        let recorded = world.run(lab, &overrides, Some(&file.0))?;
        let exchanges = read(&file.0)?;
        let (seen, told) = (the_clock(&recorded)?.report.raw_rms_ns, exchanges.mse_ns2(None).sqrt());
        raw.push(seen / told);
        degraded |= recorded.degraded;
        raw_note = format!("{:.1} us by the record, {:.1} us by the clock", told / 1e3, seen / 1e3);
        for tried in &mut all {
            let (setting, foretold, error) = plan(&exchanges, tried)?;
            let applied = Overrides {
                seed: Some(OTHER_TRAFFIC * (round + 1)),
                delta: Some(Span { ps: (setting.delta_ns() * 1e3).round() as u64 }),
                thresholds: Some(tried.thresholds),
                rule: Some(tried.rule.1),
                ..overrides
            };
            let (outcomes, by_record) = world.apply(lab, &applied, &setting)?;
            let clocks = outcomes.iter().map(the_clock).collect::<Result<Vec<_>>>()?;
            let mean_square = |of: fn(&ClockOutcome) -> f64| {
                clocks.iter().map(|clock| of(clock).powi(2)).sum::<f64>() / clocks.len() as f64
            };
            let (with, without) =
                (mean_square(|c| c.report.compensated_rms_ns), mean_square(|c| c.report.raw_rms_ns));
            let found = improvement(with, without);
            tried.ratios.push(found / foretold);
            tried.degraded |= outcomes.iter().any(|outcome| outcome.degraded);
            let alone = improvement(
                exchanges.independent_mse_ns2(Some(&setting)),
                exchanges.independent_mse_ns2(None),
            );
            let saturated: usize = clocks.iter().map(|clock| clock.report.saturated).sum();
            let samples: usize = clocks.iter().map(|clock| clock.report.samples).sum();
            let by_record =
                by_record.map_or(String::new(), |i| format!(" (by its record {:.1} %)", i * 100.0));
            tried.notes.push(format!(
                "delta {:.1} us: foretold {:.1} +- {:.1} % (hops independent {:.1} %), found {:.1} %{by_record}; raw rms {:.1} and {:.1} \
                 us; saturated {saturated} of {samples}",
                setting.delta_ns() / 1e3,
                foretold * 100.0,
                error * 100.0,
                alone * 100.0,
                found * 100.0,
                told / 1e3,
                without.sqrt() / 1e3,
            ));
        }
    }
    let why = "something else used the worker's CPU";
    let mut rows = vec![
        Row::new(GROUP, name("raw rms by the clock over that by the record"), "", Asked::Nothing, raw)
            .note(raw_note)
            .void_if(degraded, why),
    ];
    for Tried { rule, thresholds, ratios, notes, degraded } in all {
        let centred = if rule.0 == Rule::Centred { " centred" } else { "" };
        let what = name(&format!("R = {thresholds}{centred}: improvement found over foretold"));
        // The round that counts is the median.
        let middle = median(&ratios);
        let nearest = |a: &f64, b: &f64| (a - middle).abs().total_cmp(&(b - middle).abs());
        let at = ratios.iter().enumerate().min_by(|a, b| nearest(a.1, b.1)).map_or(0, |(i, _)| i);
        let row = Row::new(GROUP, what, "", Asked::Within(NEAR.0, NEAR.1), ratios);
        rows.push(row.note(notes[at].clone()).void_if(degraded, why));
    }
    Ok(rows)
}

fn the_clock(outcome: &Outcome) -> Result<&ClockOutcome> {
    outcome.clocks.first().context("the lab has no clock")
}

/// The best delta for what was recorded, the improvement that it foretells, and its standard error.
fn plan(exchanges: &Exchanges, tried: &Tried) -> Result<(Setting, f64, f64)> {
    let pairs = [exchanges.clone()];
    let most = plimsoll_core::config::MAX_COUNT;
    let space = Space::around(&pairs, vec![tried.thresholds], most, tried.rule.0)?;
    let setting = search(&pairs, &space, &Objective::Mean)?.best.setting;
    let (foretold, error) = exchanges.improvement_and_error(&setting);
    Ok((setting, foretold, error.unwrap_or(f64::NAN)))
}

/// The exchanges of the only pair in a record.
fn read(path: &Path) -> Result<Exchanges> {
    let mut lines = BufReader::new(File::open(path)?).lines();
    let mut columns = CsvColumns::new(&lines.next().transpose()?.unwrap_or_default())?;
    let mut recording = Recording::default();
    for line in lines {
        if let Some(row) = columns.row(&line?)? {
            recording.take(&row);
        }
    }
    let mut pairs = recording.pairs()?;
    ensure!(pairs.len() == 1, "{} pairs of clocks instead of one", pairs.len());
    Ok(pairs.remove(0).exchanges)
}

/// A file that goes when it is no longer needed.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("plimsoll-bench-plan-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_the_simulator_is_planned_from_and_its_raw_rms_is_the_clocks() {
        let overrides =
            Overrides { duration: Some(Duration::from_secs(5)), seed: Some(3), ..Overrides::default() };
        for lab in LABS {
            let file = Temporary::new(&format!("test-{lab}.csv"));
            let recorded = World::Simulated.run(lab, &overrides, Some(&file.0)).unwrap();
            let exchanges = read(&file.0).unwrap();
            let clock = &the_clock(&recorded).unwrap().report;
            // Both put the same Sync to each Delay_Req; at the ends one exchange may be the clock's alone.
            assert!(exchanges.len().abs_diff(clock.samples) <= 1, "{} {}", exchanges.len(), clock.samples);
            let told = exchanges.mse_ns2(None).sqrt();
            assert!((told / clock.raw_rms_ns - 1.0).abs() < 0.02, "{told} {}", clock.raw_rms_ns);
        }
    }
}
