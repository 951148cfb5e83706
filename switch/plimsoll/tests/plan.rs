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

/// A file that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Records a lab in virtual time, plans from what its messages met, and applies the plan to other traffic: raw rms and
/// improvement are as foretold, within 10 %.
fn a_plan_holds(lab: &str, recording: &str, seconds: &str, protocol: &str) {
    let file = Scratch::new(recording);
    let path = file.path();
    json(&["sim", lab, "--duration", seconds, "--seed", "5", "--record", path, "--quiet", "--json"]);
    for (thresholds, rule) in
        [("1", "edge"), ("4", "edge"), ("4", "centred"), ("32", "edge"), ("32", "centred")]
    {
        let asked = ["--thresholds", thresholds, "--rule", rule];
        let plan = json(&[&["plan", "--recording", path, "--json"][..], &asked].concat());
        let [pair] = plan["pairs"].as_array().expect("pairs").as_slice() else { panic!("{plan}") };
        assert_eq!(
            (pair["name"].as_str(), pair["protocol"].as_str()),
            (Some("client to server"), Some(protocol))
        );
        let number = |value: &Value| value.as_f64().expect("a number");
        let predicted = [number(&pair["improvement"]), number(&pair["baseline_mse_ns2"]).sqrt()];
        let error = number(&pair["improvement_error"]);
        let delta = plan["marking"]["delta"].as_str().expect("a text");
        let again = ["sim", lab, "--duration", "120s", "--seed", "6", "--delta", delta, "--quiet", "--json"];
        let clock = &json(&[&again[..], &asked].concat())["clocks"][0];
        let found = [number(&clock["improvement"]), number(&clock["raw_rms_ns"])];
        println!(
            "{recording}, R {thresholds} {rule}, delta {delta}: predicted {predicted:?} +- {error}, found {found:?}"
        );
        for (predicted, found) in predicted.into_iter().zip(found) {
            assert!((found / predicted - 1.0).abs() < 0.1, "{lab}: predicted {predicted}, found {found}");
        }
        assert!(error > 0.0 && error < 0.05, "{error}");
    }
}

#[test]
fn a_plan_from_one_hop_holds() {
    a_plan_holds("one-hop", "plan-one-hop.csv", "60s", "PTP E2E");
}

#[test]
fn a_plan_from_three_hops_holds() {
    a_plan_holds("three-hop", "plan-three-hop.csv", "20s", "PTP E2E");
}

#[test]
fn a_plan_from_a_capture_of_ntp_holds() {
    let text = String::from_utf8(plimsoll(&["lab", "cat", "one-hop"]).stdout).expect("UTF-8");
    let lab = Scratch::new("plan-ntp.toml");
    std::fs::write(&lab.0, text.replace("transport = \"udp4\"", "transport = \"ntp4\"")).expect("written");
    a_plan_holds(lab.path(), "plan-ntp.pcapng", "60s", "NTP");
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
    let capture = Scratch::new("plan-no-capture.pcapng");
    std::fs::write(&capture.0, b"\n\r\r\nno capture").expect("written");
    for (arguments, words) in [
        (&["--recording", "/dev/null"][..], "recording /dev/null"),
        (&["--recording", "/nowhere.csv"], "name a file that you may read"),
        (&["--recording", capture.path()], "is no pcapng file"),
        (&["--forward", "exp(7us)", "--counter-max", "0"], "counter-max (N) is 0; it must be 1 or more"),
        (&["--forward", "exp(7us)", "--thresholds", "0"], "thresholds (R) is 0; it must be"),
        (&["--forward", "constant(0us)"], "without any queueing delay"),
        (&[], "give --forward LAW,.., --recording FILE or --running"),
        (&["--running", "--recording", "x.csv"], "cannot be used with"),
        (&["--name", "x"], "--running"),
    ] {
        let output = plimsoll(&[&["plan"][..], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let output = plimsoll(&["plan", "--running", "--name", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no switch called \"nobody\" runs here"));
}
