//! The planner's arithmetic: how long Algorithm 1 and a search take, on this thread alone.

use crate::report::{Asked, Row};
use anyhow::Result;
use plimsoll_core::Rate;
use plimsoll_model::{Evaluator, Law, Objective, Pair, Rule, Setting, Space, monte_carlo::simulate, search};
use rustix::time::{ClockId, clock_gettime};

const GROUP: &str = "model";
const HOPS: usize = 7;
/// Targets: one evaluation with closed-form laws, and with samples once they are sorted; 1,000 deltas at 16 R.
const CLOSED_US: f64 = 150.0;
const SAMPLES_MS: f64 = 20.0;
const SEARCH_S: f64 = 3.0;
/// Recorded delays of each hop.
const SAMPLES: usize = 100_000;

/// Milliseconds of CPU that `work` takes: what others do on the machine does not count.
fn cpu_ms<T>(work: impl FnOnce() -> T) -> f64 {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let begun = now();
    std::hint::black_box(work());
    let ended = now();
    (ended.tv_sec - begun.tv_sec) as f64 * 1e3 + (ended.tv_nsec - begun.tv_nsec) as f64 / 1e6
}

/// Seven hops, each with a law of its own.
fn paths() -> Result<Vec<(&'static str, Vec<Law>)>> {
    let of = |law: fn(f64) -> Result<Law, plimsoll_model::ModelError>| {
        (0..HOPS).map(|hop| law(hop as f64)).collect::<Result<Vec<_>, _>>()
    };
    Ok(vec![
        ("exponential", of(|i| Law::exponential(5e3 + 1e3 * i, 0.7))?),
        ("M/M/1", of(|i| Law::mm1(600.0 + 30.0 * i, 8e3, Rate(1_000_000_000)))?),
        ("gamma", of(|i| Law::gamma(0.7 + 0.3 * i, 5e3 + 1e3 * i, 0.7))?),
    ])
}

/// A path there and back, in the opposite order.
fn pair(path: &[Law]) -> Pair {
    Pair { forward: path.to_vec(), reverse: path.iter().rev().cloned().collect() }
}

/// Measures `rounds` of each.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Row>> {
    let setting = Setting::new(4e3, 32, 32, Rule::Edge)?;
    let mut rows = vec![];
    for (name, path) in paths()? {
        let (pair, mut evaluator) = (pair(&path), Evaluator::default());
        let once = |evaluator: &mut Evaluator| {
            cpu_ms(|| (0..100).for_each(|_| drop(evaluator.evaluate(&pair, &setting)))) * 10.0
        };
        let took = (0..rounds).map(|_| once(&mut evaluator)).collect();
        let what = format!("evaluation, L = 7 each way, N = R = 32, {name}");
        rows.push(Row::new(GROUP, what, "us", Asked::AtMost(CLOSED_US), took));
        let mut space =
            Space::around(std::slice::from_ref(&pair), (1..=16).map(|i| 2 * i).collect(), 32, Rule::Edge)?;
        space.steps = 999;
        let find = || cpu_ms(|| search(std::slice::from_ref(&pair), &space, &Objective::Mean)) / 1e3;
        let took = (0..rounds).map(|_| find()).collect();
        let what = format!("search, 1,000 deltas at 16 R, {name}");
        rows.push(Row::new(GROUP, what, "s", Asked::AtMost(SEARCH_S), took));
    }
    rows.push(samples(rounds, &setting)?);
    rows.push(drawn(rounds, &setting)?);
    Ok(rows)
}

/// Sums of sorted samples and one evaluation on them.
fn samples(rounds: usize, setting: &Setting) -> Result<Row> {
    let mut rng = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let mut sorted = vec![];
    for law in &paths()?[0].1 {
        let mut delays: Vec<f64> = (0..SAMPLES).map(|_| law.sample(&mut rng)).collect();
        delays.sort_by(f64::total_cmp);
        sorted.push(delays);
    }
    let mut took = vec![];
    for _ in 0..rounds {
        let hops = sorted.clone();
        took.push(cpu_ms(|| -> Result<_> {
            let path = hops.into_iter().map(Law::samples).collect::<Result<Vec<_>, _>>()?;
            Ok(Evaluator::default().evaluate(&pair(&path), setting))
        }));
    }
    let what = format!("evaluation, 7 hops of {SAMPLES} sorted samples, their sums included");
    Ok(Row::new(GROUP, what, "ms", Asked::AtMost(SAMPLES_MS), took))
}

/// The check by drawing, for comparison.
fn drawn(rounds: usize, setting: &Setting) -> Result<Row> {
    let path = &paths()?[0].1;
    let took = (0..rounds).map(|_| cpu_ms(|| simulate(path, setting, 100_000, 1))).collect();
    Ok(Row::new(GROUP, "100,000 messages drawn at random, 7 hops", "ms", Asked::Nothing, took))
}
