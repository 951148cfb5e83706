//! The same network under several seeds, on as many threads as there are CPUs: means, and how sure they are.

use super::{SimError, SimOptions, Simulated, run};
use crate::lab::Silent;
use crate::results::{Outcome, Table};
use crate::topology::Topology;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// One figure over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// Whose it is: a clock, a port, a flow.
    pub of: String,
    /// Which figure, with its unit.
    pub figure: &'static str,
    /// Mean of the runs.
    pub mean: f64,
    /// Standard error of that mean: standard deviation of the runs by the root of their number.
    pub standard_error: f64,
}

/// All runs, in the order of their seeds, and the means of what stands first in their tables.
#[derive(Clone, Debug, Serialize)]
pub struct Repeated {
    /// The lab's name.
    pub lab: String,
    /// Means and their standard errors.
    pub headline: Vec<Headline>,
    /// Every run: seeds count up from the first.
    pub runs: Vec<Outcome>,
    /// Runs that were asked for: more than those above after an interruption.
    pub asked: usize,
}

impl Repeated {
    /// 0 where nothing failed and no run is missing, else 1.
    pub fn exit_code(&self) -> u8 {
        if self.runs.len() < self.asked {
            return 1;
        }
        self.runs.iter().map(Outcome::exit_code).max().unwrap_or(0)
    }
}

/// Simulates `runs` seeds from the topology's own on, each a run of its own. Returns them and all that they cost.
/// `stop` ends those that run, as [`run`] says, and begins no others.
///
/// # Errors
/// As [`run`].
pub fn repeat(
    topology: &Topology,
    runs: usize,
    stop: &AtomicBool,
) -> Result<(Repeated, Vec<Simulated>), SimError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(runs);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        break;
                    }
                    let seeded = topology.with_seed(topology.seed.wrapping_add(number as u64));
                    let simulated = run(&seeded, SimOptions::default(), &Silent, stop);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, simulated));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let simulated = done.into_iter().map(|(_, simulated)| simulated).collect::<Result<Vec<_>, _>>()?;
    let outcomes: Vec<Outcome> = simulated.iter().map(|simulated| simulated.outcome.clone()).collect();
    let lab = topology.name.clone();
    let repeated = Repeated { lab, headline: headline(&outcomes), runs: outcomes, asked: runs };
    Ok((repeated, simulated))
}

/// Name and value of each figure of one run.
fn figures(outcome: &Outcome) -> Vec<(String, &'static str, f64)> {
    let mut figures = Vec::new();
    for clock in &outcome.clocks {
        let (name, report) = (format!("clock {}", clock.report.name), &clock.report);
        figures.push((name.clone(), "raw rms, ns", report.raw_rms_ns));
        figures.push((name.clone(), "compensated rms, ns", report.compensated_rms_ns));
        figures.push((name, "improvement", report.improvement));
    }
    for flow in &outcome.flows {
        let name = format!("flow {}", flow.name);
        figures.push((name.clone(), "latency mean, ns", flow.latency.mean_ns));
        figures.push((name, "lost frames", flow.lost_frames as f64));
    }
    for port in outcome.ports.iter().filter(|port| port.frames > 0) {
        let name = format!("{} to {}", port.switch, port.port);
        figures.push((name.clone(), "depth p99, B", port.depth_bytes.p99 as f64));
        figures.push((name, "used, bit/s", port.sent_bps));
    }
    figures
}

fn headline(runs: &[Outcome]) -> Vec<Headline> {
    let all: Vec<_> = runs.iter().map(figures).collect();
    let Some(first) = all.first() else { return Vec::new() };
    first
        .iter()
        .map(|(of, figure, _)| {
            // A port that did nothing in one run has no figure there.
            let values: Vec<f64> = all
                .iter()
                .filter_map(|run| run.iter().find(|(o, f, _)| o == of && f == figure))
                .map(|(.., value)| *value)
                .collect();
            let (mean, standard_error) = mean(&values);
            Headline { of: of.clone(), figure, mean, standard_error }
        })
        .collect()
}

/// Mean and its standard error; the latter is 0 for fewer than two values.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["of", "figure", "mean", "standard error"]);
        for line in &self.headline {
            let digits = if line.mean.abs() < 10.0 { 4 } else { 0 };
            table.row(vec![
                line.of.clone(),
                line.figure.into(),
                format!("{:.digits$}", line.mean),
                format!("{:.digits$}", line.standard_error),
            ]);
        }
        writeln!(f, "{table}")?;
        let seeds = (self.runs.first().map_or(0, |run| run.seed), self.runs.last().map_or(0, |run| run.seed));
        let span = self.runs.first().map_or(0.0, |run| run.duration_s);
        writeln!(
            f,
            "{}: simulated {} times {span:.1} s, seeds {} to {}",
            self.lab,
            self.runs.len(),
            seeds.0,
            seeds.1
        )?;
        if self.runs.len() < self.asked {
            writeln!(f, "failed: interrupted after {} of {} runs", self.runs.len(), self.asked)?;
        }
        let mut said = Vec::new();
        for run in &self.runs {
            for warning in run.warnings.iter().filter(|warning| !said.contains(*warning)).collect::<Vec<_>>()
            {
                writeln!(f, "warning: {warning}")?;
                said.push(warning.clone());
            }
            for failure in &run.failed {
                writeln!(f, "failed: seed {}: {failure}", run.seed)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn a_mean_s_standard_error_is_that_of_the_sample() {
        let (mean, error) = super::mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean, 2.5);
        // Variance 5/3, by 4 runs.
        assert!((error - (5.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(super::mean(&[7.0]), (7.0, 0.0));
    }
}
