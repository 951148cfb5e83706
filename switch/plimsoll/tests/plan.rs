//! `plimsoll plan` as a user runs it: what it predicts is what the simulator then finds, and bad input is refused.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

fn plimsoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().expect("the program starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = plimsoll(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A recording that goes with the test.
struct Recorded(PathBuf);

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Records a lab in virtual time, plans from what its messages met, and applies the plan to other traffic.
fn a_plan_holds(lab: &str, recorded: &str) {
    let file = Recorded(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("plan-{lab}.csv")));
    let path = file.0.to_str().expect("UTF-8");
    json(&["sim", lab, "--duration", recorded, "--seed", "5", "--record", path, "--quiet", "--json"]);
    for thresholds in ["1", "4", "32"] {
        let plan = json(&["plan", "--recording", path, "--thresholds", thresholds, "--json"]);
        assert_eq!(plan["pairs"].as_array().map(Vec::len), Some(1));
        let predicted = plan["pairs"][0]["improvement"].as_f64().expect("a number");
        let delta = plan["marking"]["delta"].as_str().expect("a text");
        let again = [
            "sim",
            lab,
            "--duration",
            "120s",
            "--seed",
            "6",
            "--delta",
            delta,
            "--thresholds",
            thresholds,
            "--quiet",
            "--json",
        ];
        let found = json(&again)["clocks"][0]["improvement"].as_f64().expect("a number");
        println!("{lab}, R {thresholds}, delta {delta}: predicted {predicted:.3}, found {found:.3}");
        assert!((found / predicted - 1.0).abs() < 0.1, "{lab}: predicted {predicted}, found {found}");
    }
}

#[test]
fn a_plan_from_one_hop_holds() {
    a_plan_holds("one-hop", "60s");
}

#[test]
fn a_plan_from_three_hops_holds() {
    a_plan_holds("three-hop", "20s");
}

#[test]
fn bad_input_is_refused_by_name() {
    for (arguments, words) in [
        (&["--forward", "exp(-7us)", "--delta", "1us", "--thresholds", "1"][..], "has mean -7us"),
        (&["--forward", "exp(7us)", "--delta", "0us", "--thresholds", "1"], "delta is 0; it must be"),
        (
            &["--forward", "exp(7us)", "--delta", "1us", "--thresholds", "0"],
            "thresholds (R) is 0; it must be",
        ),
        (&["--forward", "samples(/dev/null)", "--delta", "1us", "--thresholds", "1"], "samples empty"),
        (
            &["--forward", "mm1(1kB/8us@1gbit)", "--delta", "1us", "--thresholds", "1"],
            "1; it must be below 1",
        ),
        (&["--forward", "samples(/nowhere)", "--delta", "1us", "--thresholds", "1"], "cannot be read"),
    ] {
        let all = [&["plan", "evaluate", "--counter-max", "4"][..], arguments].concat();
        let output = plimsoll(&all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{all:?}: {said}");
        assert!(said.contains(words) && said.trim_end().lines().count() == 1, "{said}");
    }
    let certain =
        ["plan", "--forward", "exp(7us)", "--objective", "uncertainty", "--coverage", "0.9999999999"];
    let output = plimsoll(&certain);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("write up to 0.99999"));
    let output = plimsoll(&["plan", "--recording", "/dev/null"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("recording /dev/null"));
}
