//! `plimsoll plan`: searches delta and R, says how much the choice matters, and writes what a file takes.

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_core::Span;
use plimsoll_lab::results::{Table, time};
use plimsoll_model::{
    Choice, Curve, Evaluator, Interval, Objective, Paths, PathsEvaluator, Setting, Space, improvement,
    search as of,
};
use serde::Serialize;

use super::{
    inputs::{self, Named},
    running::running,
    usage,
};
use crate::{
    Usage,
    args::{ObjectiveArg, PlanSearch, RuleArg},
    say::Out,
};

/// Exchanges drawn for a time uncertainty bound, at least; and in units of the share outside the bound.
const DRAWS: (f64, f64) = (20_000.0, 100.0);
/// Largest coverage: ten million exchanges are drawn for it, 160 MB for each hop there and back.
const MOST_COVERAGE: f64 = 0.99999;

/// Transitions of counters that are waited for, at all deltas and R of a search together: two minutes or so, for curves
/// and refinements take as many again.
const MOST_STEPS: u64 = 10_000_000_000;

/// Difference of improvements from which on hops are told to depend on each other.
const DEPENDENT: f64 = 0.02;

/// How much of the best improvement a delta keeps to be called good.
const GOOD: f64 = 0.9;

#[derive(Serialize)]
struct Report {
    marking: Marking,
    /// What was minimised.
    objective: &'static str,
    pairs: Vec<PairReport>,
    /// Deltas around the chosen one that keep 90 % of its improvement, ns.
    good: Option<Interval>,
    by_thresholds: Vec<Row>,
    /// Improvement of all pairs together over delta, at the chosen R.
    curve: Curve,
}

/// The table `[marking]` of a topology file.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Marking {
    delta: String,
    thresholds: u32,
    rule: RuleArg,
    counter_max: u32,
}

#[derive(Serialize)]
struct PairReport {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forward_hops: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reverse_hops: Vec<String>,
    /// What the clocks speak, where it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    /// Exchanges recorded, or messages at the hop of a running switch with the fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    mse_ns2: f64,
    baseline_mse_ns2: f64,
    improvement: f64,
    /// Of a recording: the standard error of `improvement`, since it is of so many exchanges and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    improvement_error: Option<f64>,
    /// Of a recording: what Algorithm 1 says of the same delays, hops taken as independent of each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    independent_improvement: Option<f64>,
}

#[derive(Serialize)]
struct Row {
    thresholds: u32,
    delta_ns: f64,
    value: f64,
    improvement: f64,
    good: Option<Interval>,
}

pub(super) fn search(args: &PlanSearch) -> Result<ExitCode> {
    let named = match &args.recording {
        Some(path) => inputs::recorded(path)?,
        None if args.running => running(args.name.as_deref(), &args.forward, &args.reverse)?,
        None => inputs::pairs(&args.forward, &args.reverse)?,
    };
    if named.is_empty() {
        let message = "nothing to plan for: give --forward LAW,.., --recording FILE or --running, or see `plimsoll plan \
                       evaluate`";
        return Err(Usage(message.into()).into());
    }
    let report = report(args, &named)?;
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(Out, "{}", text(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(args: &PlanSearch, named: &[Named]) -> Result<Report> {
    let pairs: Vec<Paths> = named.iter().map(|named| named.paths.clone()).collect();
    if args.counter_max == 0 {
        return Err(Usage("counter-max (N) is 0; it must be 1 or more".into()).into());
    }
    let mut thresholds: Vec<u32> = args.thresholds.iter().map(|&r| r.min(args.counter_max)).collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    let rule = args.rule.into();
    let space = Space::around(&pairs, thresholds, args.counter_max, rule).map_err(usage)?;
    affordable(&pairs, &space)?;
    let (objective, name) = objective(args)?;
    let plan = of(&pairs, &space, &objective).map_err(usage)?;
    let curve = |choice: &Choice| -> Result<_> {
        let (setting, best) = (choice.setting, together(&pairs, &choice.setting));
        let curve = Curve::new(&pairs, &space, setting.thresholds()).map_err(usage)?;
        let good = (best > 0.0).then(|| curve.around(setting.delta_ns(), GOOD * best));
        Ok((best, good, curve))
    };
    let row = |choice: &Choice| {
        let (improvement, good, _) = curve(choice)?;
        let (thresholds, delta_ns) = (choice.setting.thresholds(), choice.setting.delta_ns());
        Ok(Row { thresholds, delta_ns, value: choice.value, improvement, good })
    };
    let by_thresholds = plan.by_thresholds.iter().map(row).collect::<Result<_>>()?;
    let (_, good, curve) = curve(&plan.best)?;

    // What is said of the pairs holds for the delta as a file gives it.
    let delta = short(plan.best.setting.delta_ns());
    let thresholds = plan.best.setting.thresholds();
    let delta_ns = delta.parse::<Span>().map_err(|e| Usage(e.to_string()))?.ps as f64 / 1e3;
    let setting = Setting::new(delta_ns, thresholds, args.counter_max, rule).map_err(usage)?;
    let of_pair = |named: &Named| of_pair(named, &setting);
    let pairs = named.iter().map(of_pair).collect();
    let marking = Marking { delta, thresholds, rule: args.rule, counter_max: args.counter_max };
    Ok(Report { marking, objective: name, pairs, good, by_thresholds, curve })
}

fn objective(args: &PlanSearch) -> Result<(Objective, &'static str)> {
    Ok(match args.objective {
        ObjectiveArg::Mean => (Objective::Mean, "mean MSE of all pairs"),
        ObjectiveArg::Minimax => (Objective::Minimax, "largest MSE of any pair"),
        ObjectiveArg::Surge => (
            Objective::Surge { factor: args.surge, share: args.surge_share },
            "mean MSE, part of the time in a surge of traffic",
        ),
        ObjectiveArg::Uncertainty => {
            let coverage = args.coverage;
            if coverage > MOST_COVERAGE {
                let message = format!("--coverage {coverage:?}: write up to {MOST_COVERAGE}");
                return Err(Usage(message).into());
            }
            let draws = (DRAWS.1 / (1.0 - coverage)).max(DRAWS.0) as u32;
            (Objective::Uncertainty { coverage, draws, seed: 1 }, "time uncertainty bound of the worst pair")
        }
    })
}

/// Refuses what would take hours, as `plan evaluate` does. Recordings take what their exchanges take, whatever R is.
fn affordable(pairs: &[Paths], space: &Space) -> Result<()> {
    let (mut evaluator, mut steps) = (Evaluator::default(), 0_u64);
    let most = space.thresholds.iter().max().copied().unwrap_or(1);
    let (from, to) = (space.deltas.from_ns, space.deltas.to_ns);
    for pair in pairs {
        let Paths::Laws(pair) = pair else { continue };
        for step in 0..=space.steps {
            let delta_ns = from * (to / from).powf(f64::from(step) / f64::from(space.steps));
            let setting = |r| Setting::new(delta_ns, r, space.counter_max, space.rule).map_err(usage);
            evaluator.prepare(pair, &setting(most)?);
            for &r in &space.thresholds {
                steps = steps.saturating_add(evaluator.steps(&setting(r)?));
            }
            if steps > MOST_STEPS {
                let message = format!(
                    "--thresholds {most}: too many for this path, whose time grows with their square (hours); write smaller \
                     or fewer R, or a smaller --counter-max"
                );
                return Err(Usage(message).into());
            }
        }
    }
    Ok(())
}

fn of_pair(named: &Named, setting: &Setting) -> PairReport {
    let mut evaluator = PathsEvaluator::new(named.paths.clone());
    evaluator.prepare(setting);
    let (mse_ns2, baseline_mse_ns2) = (evaluator.mse_ns2(setting), evaluator.baseline_mse_ns2());
    let (error, independent) = match &named.paths {
        Paths::Laws(_) => (None, None),
        Paths::Recorded(exchanges) => {
            let alone = |setting| exchanges.independent_mse_ns2(setting);
            (exchanges.improvement_and_error(setting).1, Some(improvement(alone(Some(setting)), alone(None))))
        }
    };
    let [forward_hops, reverse_hops] = named.hops.clone();
    PairReport {
        name: named.name.clone(),
        forward_hops,
        reverse_hops,
        protocol: named.protocol,
        samples: named.samples,
        mse_ns2,
        baseline_mse_ns2,
        improvement: improvement(mse_ns2, baseline_mse_ns2),
        improvement_error: error,
        independent_improvement: independent,
    }
}

/// I of all pairs together.
fn together(pairs: &[Paths], setting: &Setting) -> f64 {
    let (mut with, mut without) = (0.0, 0.0);
    for pair in pairs {
        let mut evaluator = PathsEvaluator::new(pair.clone());
        evaluator.prepare(setting);
        with += evaluator.mse_ns2(setting);
        without += evaluator.baseline_mse_ns2();
    }
    improvement(with, without)
}

/// A delay to three digits, as files write it.
fn short(ns: f64) -> String {
    let units = [("ps", 1e-3), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (unit, size) = *units.iter().rev().find(|(_, size)| ns >= *size).unwrap_or(&units[0]);
    let value = ns / size;
    let decimals = if unit == "ps" { 0 } else { 2usize.saturating_sub(value.log10().max(0.0) as usize) };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["R", "best delta", "improvement", "90 % of it from", "to"]);
    for row in &report.by_thresholds {
        let end = |of: fn(&Interval) -> f64| row.good.as_ref().map_or("-".into(), |good| time(of(good)));
        table.row(vec![
            row.thresholds.to_string(),
            time(row.delta_ns),
            format!("{:.1} %", row.improvement * 100.0),
            end(|good| good.from_ns),
            end(|good| good.to_ns),
        ]);
    }
    let mut text = format!("objective: {}\n\n{table}\n", report.objective);
    let mut table = Table::new(&[
        "pair",
        "clocks",
        "exchanges",
        "offset error rms",
        "with marks",
        "improvement",
        "error",
    ]);
    let mut dependent = String::new();
    for pair in &report.pairs {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        table.row(vec![
            pair.name.clone(),
            pair.protocol.unwrap_or("-").into(),
            pair.samples.map_or("-".into(), |samples| samples.to_string()),
            time(pair.baseline_mse_ns2.sqrt()),
            time(pair.mse_ns2.sqrt()),
            percent(pair.improvement),
            pair.improvement_error.map_or("-".into(), percent),
        ]);
        if let Some(alone) = pair.independent_improvement.filter(|i| (i - pair.improvement).abs() > DEPENDENT)
        {
            dependent.push_str(&format!(
                "{}: hops depend on each other; the model, which takes them as independent, says {}\n",
                pair.name,
                percent(alone)
            ));
        }
    }
    let Marking { delta, thresholds, rule, counter_max } = &report.marking;
    let rule = if *rule == RuleArg::Centred { "rule = \"centred\"\n" } else { "" };
    text.push_str(&format!(
        "{table}{dependent}\nimprovement over delta, R = {thresholds}\n{}\n",
        plot(&report.curve)
    ));
    text.push_str("for a file:\n\n");
    text.push_str(&format!(
        "[marking]\ndelta = \"{delta}\"\nthresholds = {thresholds}\n{rule}counter-max = {counter_max}\n"
    ));
    text
}

/// The curve in characters: 60 columns of delta at equal ratios, a line for each 10 %.
fn plot(curve: &Curve) -> String {
    const COLUMNS: usize = 60;
    let points = &curve.points;
    let at = |column: usize| points[column * (points.len() - 1) / (COLUMNS - 1)];
    let top = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let lines = ((top * 10.0).ceil() as i32).max(1);
    let mut text = String::new();
    for line in (1..=lines).rev() {
        let least = f64::from(line - 1) / 10.0;
        let row: String = (0..COLUMNS)
            .map(|column| match at(column).1 {
                i if i >= least + 0.05 => '#',
                i if i > least => '.',
                _ => ' ',
            })
            .collect();
        text.push_str(&format!("{:>4} % |{}\n", line * 10, row.trim_end()));
    }
    let (from, to) = (time(points[0].0), time(points[points.len() - 1].0));
    text.push_str(&format!("       +{}\n", "-".repeat(COLUMNS)));
    text.push_str(&format!("        {from}{to:>width$}\n", width = COLUMNS.saturating_sub(from.len())));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn planned(arguments: &[&str]) -> Report {
        let all = ["plimsoll", "plan"].iter().chain(arguments);
        let crate::args::Command::Plan(args) = crate::args::Args::try_parse_from(all).unwrap().command else {
            panic!("not a plan");
        };
        let named = inputs::pairs(&args.search.forward, &args.search.reverse).unwrap();
        report(&args.search, &named).unwrap()
    }

    #[test]
    fn a_delta_is_written_to_three_digits() {
        for (ns, text) in [
            (24_863.2, "24.9us"),
            (8_000.0, "8us"),
            (123_456.0, "123us"),
            (1.5e6, "1.5ms"),
            (0.25, "250ps"),
            (999.9, "1000ns"),
        ] {
            assert_eq!(short(ns), text);
            text.parse::<Span>().unwrap();
        }
    }

    #[test]
    fn a_plan_is_what_the_model_finds() {
        let plan = planned(&[
            "--forward",
            "mm1(600B/14us@1gbit),mm1(850B/8us@1gbit)",
            "--reverse",
            "exp(7us,p=0.34)",
            "--thresholds",
            "4,1,16,64",
            "--counter-max",
            "16",
        ]);
        assert_eq!(plan.by_thresholds.iter().map(|row| row.thresholds).collect::<Vec<_>>(), [1, 4, 16]);
        assert_eq!((plan.marking.thresholds, plan.marking.counter_max), (16, 16));
        assert!(plan.pairs[0].improvement > 0.8, "{}", plan.pairs[0].improvement);
        assert!((plan.pairs[0].improvement - plan.by_thresholds[2].improvement).abs() < 0.01);
        let good = plan.good.unwrap();
        let delta = plan.marking.delta.parse::<Span>().unwrap().ps as f64 / 1e3;
        assert!(good.from_ns < delta && delta < good.to_ns);
        let text = text(&plan);
        assert!(text.contains("[marking]\ndelta = \"") && text.contains("counter-max = 16\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    /// 10^10 transitions at the smallest delta alone.
    #[test]
    fn what_would_take_hours_is_refused() {
        let law = "mm1(600B/14us@1gbit)";
        let pair = inputs::pairs(&[[law; 3].join(",")], &[]).unwrap().remove(0).paths;
        let afford = |thresholds: Vec<u32>, counter_max| {
            let pairs = [pair.clone()];
            let space = Space::around(&pairs, thresholds, counter_max, plimsoll_model::Rule::Edge).unwrap();
            affordable(&pairs, &space)
        };
        let error = afford(vec![4, 100_000], u32::MAX).unwrap_err();
        assert!(
            error.is::<Usage>() && error.to_string().starts_with("--thresholds 100000: too many"),
            "{error}"
        );
        afford(vec![1, 2, 4, 8, 16, 32, 128], 65_535).unwrap();
    }

    #[test]
    fn every_objective_is_searched() {
        for objective in ["mean", "minimax", "surge", "uncertainty"] {
            let plan = planned(&[
                "--forward",
                "mm1(600B/14us@1gbit)",
                "--thresholds",
                "2",
                "--counter-max",
                "2",
                "--objective",
                objective,
                "--coverage",
                "0.99",
            ]);
            assert!(plan.pairs[0].improvement > 0.2, "{objective}: {}", plan.pairs[0].improvement);
        }
    }
}
