//! `plimsoll plan evaluate`: one setting on one pair of paths.

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_lab::results::{Table, time};
use plimsoll_model::{Conditions, Direction, Evaluation, Evaluator, Law, Pair, Rule, Setting, conditions};
use serde::Serialize;

use super::{inputs::laws, usage};
use crate::{Usage, args::PlanEvaluate, say::Out};

/// Transitions of counters that are waited for: some ten seconds.
const MOST_STEPS: u64 = 2_000_000_000;

#[derive(Serialize)]
struct Report {
    setting: Setting,
    #[serde(flatten)]
    evaluation: Evaluation,
    /// The paper's C1 to C3, which are about one hop with thresholds at i*delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Conditions>,
}

pub(super) fn evaluate(args: &PlanEvaluate) -> Result<ExitCode> {
    let pair = Pair { forward: laws(&args.forward)?, reverse: laws(&args.reverse)? };
    let delta_ns = args.delta.ps as f64 / 1e3;
    let setting =
        Setting::new(delta_ns, args.thresholds, args.counter_max, args.rule.into()).map_err(usage)?;
    let mut evaluator = Evaluator::default();
    evaluator.prepare(&pair, &setting);
    if evaluator.steps(&setting) > MOST_STEPS {
        let message = format!(
            "--thresholds {}: too many for this path, whose time grows with their square (hours); write a smaller R or a \
             larger delta, so that R*delta covers the delays and no more",
            args.thresholds
        );
        return Err(Usage(message).into());
    }
    let evaluation = evaluator.evaluate(&pair, &setting);
    let report = Report { setting, evaluation, conditions: of_one_hop(&pair, &setting)? };
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(Out, "{}", table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_one_hop(pair: &Pair, setting: &Setting) -> Result<Option<Conditions>> {
    let one = |path: &[Law]| match path {
        [] => Law::constant(0.0).map(Some),
        [law] => Ok(Some(law.clone())),
        _ => Ok(None),
    };
    match (one(&pair.forward).map_err(usage)?, one(&pair.reverse).map_err(usage)?) {
        (Some(forward), Some(reverse)) if setting.rule() == Rule::Edge => {
            let thresholds = setting.thresholds().min(setting.counter_max());
            conditions(&forward, &reverse, setting.delta_ns(), thresholds).map(Some).map_err(usage)
        }
        _ => Ok(None),
    }
}

fn table(report: &Report) -> String {
    let evaluation = &report.evaluation;
    let mut table = Table::new(&["path", "delay mean", "sd", "left mean", "sd", "marks", "saturated"]);
    let mut row = |name: &str, d: &Direction| {
        // Listed up to N, or up to what can be reached where N is beyond any path.
        let saturated = d.counter_pmf.get(report.setting.counter_max() as usize).unwrap_or(&0.0);
        table.row(vec![
            name.into(),
            time(d.delay_mean_ns),
            time(d.delay_var_ns2.sqrt()),
            time(d.error_mean_ns),
            time(d.error_var_ns2.sqrt()),
            format!("{:.3}", d.counter_mean),
            format!("{:.3} %", saturated * 100.0),
        ]);
    };
    row("forward", &evaluation.forward);
    row("reverse", &evaluation.reverse);
    let mut text = table.to_string();
    text.push_str(&format!(
        "\noffset error rms {} -> {}, improvement {:.1} %\n",
        time(evaluation.baseline_mse_ns2.sqrt()),
        time(evaluation.mse_ns2.sqrt()),
        evaluation.improvement * 100.0
    ));
    if let Some(found) = &report.conditions {
        let c1 = found.c1_forward.bound_ns;
        let say = |yes| if yes { "holds" } else { "does not hold" };
        text.push_str(&format!("C1 forward (delta of {} or more) {}", time(c1), say(found.c1_forward.holds)));
        let falls = if found.variance_falls_forward { "falls" } else { "does not fall" };
        text.push_str(&format!("; its variance {falls}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_keys_that_scripts_read() {
        let pair = Pair { forward: laws("exp(7us,p=0.34)").unwrap(), reverse: vec![] };
        let setting = Setting::new(7e3, 1, 2, Rule::Edge).unwrap();
        let report = Report {
            setting,
            evaluation: plimsoll_model::evaluate(&pair, &setting),
            conditions: of_one_hop(&pair, &setting).unwrap(),
        };
        let json = serde_json::to_value(&report).unwrap();
        let p = 0.34 * (-1.0f64).exp();
        let pmf = json["forward"]["counter_pmf"].as_array().unwrap();
        assert_eq!(pmf.len(), 3);
        assert!((pmf[1].as_f64().unwrap() - p).abs() < 1e-15);
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        assert!((number(&json["forward"]["counter_mean"]) - p).abs() < 1e-15);
        assert!((number(&json["forward"]["error_mean_ns"]) - 7e3 * (0.34 - p)).abs() < 1e-9);
        for key in ["error_var_ns2", "error_mean_ns"] {
            assert_eq!(number(&json["reverse"][key]), 0.0);
        }
        let mse = (number(&json["forward"]["error_var_ns2"])
            + number(&json["forward"]["error_mean_ns"]).powi(2))
            / 4.0;
        assert!((number(&json["mse_ns2"]) - mse).abs() < 1e-6);
        let improvement = 1.0 - (mse / number(&json["baseline_mse_ns2"])).sqrt();
        assert!((number(&json["improvement"]) - improvement).abs() < 1e-12);
        assert_eq!(json["conditions"]["c2"], true);
        let text = table(&report);
        assert!(text.contains("forward") && text.contains("improvement"), "{text}");
    }
}
