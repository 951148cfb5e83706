//! Labs by the command: measured, left running, entered, killed.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::process::{Output, Process, run};
use plimsoll_tests::{Scratch, program, unique, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn plimsoll(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("RUST_LOG");
    run(&mut command, LONG)
}

/// A built-in lab under a name of its own, so that whoever else runs it on this machine is not in the way.
fn own(scratch: &Scratch, lab: &str, change: impl FnOnce(String) -> String) -> (String, PathBuf) {
    let text = plimsoll(&["lab", "cat", lab]).ok().stdout;
    let name = unique(lab);
    let path = scratch.write(&format!("{name}.toml"), &change(text));
    (name, path)
}

/// `lab run --json` of a lab that must go well, and be `good`. One that says itself that something else took its CPU
/// is repeated, twice at most.
fn measured(lab: &str, duration: &str, good: impl Fn(&Value) -> bool) -> Value {
    for attempt in 0.. {
        let output = plimsoll(&["lab", "run", lab, "--duration", duration, "--json", "--quiet"]);
        let result = output.json();
        if output.code() == Some(0) && good(&result) {
            return result;
        }
        assert!(attempt < 2 && result["degraded"] == true, "{lab}: {} {result:#}", output.stderr);
        eprintln!("{lab}: once more after {} {}", result["failed"], result["warnings"]);
    }
    unreachable!()
}

fn keys(value: &Value, wanted: &[&str]) {
    for key in wanted {
        assert!(value.get(key).is_some(), "no {key} in {value}");
    }
}

/// Whether the first clock's error became smaller by more than 30 %.
fn first_improves(result: &Value) -> bool {
    improvement(&result["clocks"][0]) > 0.3
}

/// How much smaller the median of the absolute error became. Where other programs take the CPUs, a few stalls of
/// milliseconds decide an rms; they do not touch the median.
fn improvement(clock: &Value) -> f64 {
    let median = |key: &str| clock[key]["abs_median_ns"].as_f64().unwrap();
    if clock["samples"].as_u64().unwrap() < 60 { 0.0 } else { 1.0 - median("compensated") / median("raw") }
}

#[test]
fn one_hop_shows_what_marks_are_worth_and_says_it_by_the_documented_keys() {
    let result = measured("one-hop", "3s", first_improves);
    keys(&result, &["clocks", "flows", "ports", "pinning"]);
    keys(
        &result["clocks"][0],
        &["name", "daemon", "transport", "samples", "raw_rms_ns", "compensated_rms_ns", "improvement"],
    );
    keys(&result["flows"][0], &["name", "offered_bps", "delivered_bps", "lost_frames"]);
    for port in result["ports"].as_array().unwrap() {
        keys(
            port,
            &[
                "switch",
                "port",
                "rate_bps",
                "measured_bps",
                "depth_bytes",
                "marks",
                "release_late",
                "late_arrival",
            ],
        );
        keys(&port["depth_bytes"], &["p50", "p99", "max"]);
        keys(&port["release_late"], &["count", "p99_ns"]);
        keys(&port["late_arrival"], &["count", "p99_ns"]);
    }
    let client = result["ports"].as_array().unwrap().iter().find(|port| port["port"] == "client").unwrap();
    let marked = client["marks"].as_object().unwrap().iter().filter(|(r, _)| *r != "0").count();
    assert!(marked > 3, "{client}");
    assert_eq!(result["clocks"][0]["daemon"], "plimsoll");
    // The figures agree with each other.
    let figure = |key: &str| result["clocks"][0][key].as_f64().unwrap();
    let share = 1.0 - figure("compensated_rms_ns") / figure("raw_rms_ns");
    assert!((share - figure("improvement")).abs() < 1e-6, "{}", result["clocks"][0]);
}

#[test]
fn the_tables_come_in_the_documented_order_and_progress_apart() {
    let output = plimsoll(&["lab", "run", "one-hop", "--duration", "1s"]).ok();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], "offset error: raw, compensated, improvement");
    let at = |head: &str| {
        lines.iter().position(|line| line.starts_with(head)).unwrap_or_else(|| panic!("{head}: {output:#?}"))
    };
    assert!(at("clock ") < at("flow ") && at("flow ") < at("port "), "{output:#?}");
    let footer = at("one-hop: measured 1.");
    assert!(at("port ") < footer && lines[footer].contains("; worker on CPU "), "{output:#?}");
    assert!(output.stderr.contains("building one-hop: 3 hosts, 1 switch, 3 links"), "{output:#?}");
}

#[test]
fn the_built_in_clock_profits_over_ethernet_and_ipv6_too() {
    let scratch = Scratch::new();
    for transport in ["l2", "udp6"] {
        let (_, path) = own(&scratch, "one-hop", |text| {
            let changed = text.replace("transport = \"udp4\"", &format!("transport = \"{transport}\""));
            assert_ne!(changed, text);
            changed
        });
        let result = measured(path.to_str().unwrap(), "2s", first_improves);
        assert_eq!(result["clocks"][0]["transport"], transport);
    }
}

#[test]
fn an_unmodified_ptp4l_profits_behind_edge_ports() {
    let result = measured("one-hop-ptp4l", "5s", first_improves);
    let clock = &result["clocks"][0];
    assert_eq!(clock["daemon"], "ptp4l");
    assert!(clock["logged"]["lines"].as_u64().unwrap() > 0, "{clock}");
}

#[test]
fn an_unmodified_ptp4l_profits_between_transparent_clocks() {
    let result = measured("transparent-clock", "5s", first_improves);
    assert_eq!(
        (&result["clocks"][0]["compensation"], &result["marking"]),
        (&"transparent-clock".into(), &Value::Null)
    );
    let ports = result["ports"].as_array().unwrap();
    let corrected = |name: &str| {
        let port = ports.iter().find(|port| port["port"] == name).unwrap();
        port["transparent_messages"].as_u64().unwrap()
    };
    assert!(corrected("client") > 100 && corrected("server") > 100 && corrected("load") == 0, "{result}");
}

#[test]
fn two_clocks_behind_edge_ports_are_each_told_of_their_own_conversions() {
    let scratch = Scratch::new();
    // The second pair's hosts sit behind edge ports too: what is flooded to them is converted there as well, and must
    // not count for the first pair.
    let (_, path) = own(&scratch, "one-hop", |text| {
        let more = "[host.server2]\n[host.client2]\n[[link]]\nbetween = [\"server2\", \"s1\"]\nrate = \"100mbit\"\n\
                    [[link]]\nbetween = [\"client2\", \"s1\"]\nrate = \"100mbit\"\n\
                    [[clock]]\nname = \"second\"\nserver = \"server2\"\nclient = \"client2\"\ncompensation = \"edge\"\n\
                    [[flow]]\nname = \"cross2\"\nfrom = \"load\"\nto = \"client2\"\nload = 0.2\nsize = \"1500B\"\n";
        format!("{text}compensation = \"edge\"\n{more}")
    });
    // The second client's link is nearly idle. Had it been told of the first one's conversions, its raw error would be
    // about as large as the other's.
    let raw = |clock: &Value| clock["raw"]["abs_median_ns"].as_f64().unwrap();
    let apart = |clocks: &Value| raw(&clocks[1]) * 3.0 < raw(&clocks[0]);
    let result =
        measured(path.to_str().unwrap(), "3s", |result| first_improves(result) && apart(&result["clocks"]));
    assert_eq!(result["clocks"].as_array().unwrap().len(), 2);
    assert_eq!(result["clocks"][1]["compensation"], "edge");
}

#[test]
fn idle_compares_plimsoll_a_bridge_and_a_cable() {
    // An error of milliseconds would be of a clock that does not work at all.
    let works = |clock: &Value| {
        clock["samples"].as_u64() > Some(60) && clock["raw"]["abs_median_ns"].as_f64() < Some(1e6)
    };
    let result = measured("idle", "2s", |result| result["clocks"].as_array().unwrap().iter().all(works));
    let clocks = result["clocks"].as_array().unwrap();
    let names: Vec<_> = clocks.iter().map(|clock| clock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plimsoll", "linux-bridge", "direct-veth"]);
}

/// Ends a lab that a test left, whatever happens.
struct Up(String);

impl Drop for Up {
    fn drop(&mut self) {
        let mut command = Command::new(program());
        let _ = command.args(["lab", "down", &self.0]).output();
    }
}

fn listed(name: &str) -> Option<Value> {
    let all = plimsoll(&["lab", "list", "--json"]).ok().json();
    all["running"].as_array().unwrap().iter().find(|lab| lab["name"] == name).cloned()
}

fn state_file(name: &str) -> PathBuf {
    Path::new("/run/plimsoll/labs").join(format!("{name}.json"))
}

#[test]
fn a_lab_that_stays_is_entered_shown_and_ended() {
    let scratch = Scratch::new();
    let (name, path) = own(&scratch, "one-hop", |text| text);
    let path = path.to_str().unwrap();
    let up = Up(name.clone());
    let output = plimsoll(&["lab", "up", "--traffic", path]).ok();
    assert!(output.stdout.contains(&format!("lab {name} stands (pid ")), "{output:#?}");
    let twice = plimsoll(&["lab", "up", path]);
    assert_eq!(twice.code(), Some(1), "{twice:#?}");
    assert!(twice.stderr.contains("runs already") && twice.stderr.contains("lab down"), "{twice:#?}");

    let exec =
        |host: &str, command: &[&str]| plimsoll(&[&["lab", "exec", &name, host, "--"], command].concat());
    let shown = exec("client", &["ip", "-j", "address", "show", "net0"]).ok().json();
    for family in ["inet", "inet6"] {
        let addresses = shown[0]["addr_info"].as_array().unwrap();
        let global = addresses.iter().find(|a| a["family"] == family && a["scope"] == "global").unwrap();
        let pinged = exec(
            "server",
            &["ping", "-n", "-c", "3", "-i", "0.2", "-W", "5", global["local"].as_str().unwrap()],
        );
        assert!(pinged.clone().ok().stdout.contains("3 received"), "{pinged:#?}");
    }
    // By name too, without a word in the machine's own file; `up` says both.
    let hosts_file = || std::fs::read_to_string("/etc/hosts").unwrap();
    let before = hosts_file();
    for family in ["-4", "-6"] {
        let _ = exec("client", &["ping", family, "-c", "1", "-W", "5", "server"]).ok();
    }
    let names = exec("s1", &["cat", "/etc/hosts"]).ok().stdout;
    assert!(names.contains(" client\n") && names.contains(" localhost"), "{names}");
    assert_eq!(hosts_file(), before);
    let line = output.stdout.lines().find(|line| line.starts_with("client ")).unwrap();
    let local = |family: &str| {
        let all = shown[0]["addr_info"].as_array().unwrap();
        all.iter().find(|a| a["family"] == family && a["scope"] == "global").unwrap()["local"].clone()
    };
    for address in [local("inet"), local("inet6"), shown[0]["address"].clone()] {
        assert!(line.contains(address.as_str().unwrap()), "{address} in {line}");
    }
    // The command's own exit code comes back.
    assert_eq!(exec("load", &["sh", "-c", "exit 7"]).code(), Some(7));
    let nobody = exec("nobody", &["true"]);
    assert_eq!(nobody.code(), Some(1));
    assert!(
        nobody.stderr.contains("has no node \"nobody\"; its nodes are client, load, s1, server"),
        "{nobody:#?}"
    );

    let shown = plimsoll(&["show", "ports", "--name", &name, "--json"]).ok().json();
    assert_eq!(shown["frames_conserved"], true, "{}", shown["frames"]);
    let client = shown["ports"].as_array().unwrap().iter().find(|port| port["port"] == "client").unwrap();
    assert!(client["tx"]["frames"].as_u64().unwrap() > 10, "no traffic: {client}");
    let table = plimsoll(&["show", "queues", "--name", &name]).ok().stdout;
    assert!(table.starts_with("switch") && table.contains("client"), "{table}");

    let pid = listed(&name).unwrap()["state"]["pid"].as_u64().unwrap();
    assert_eq!(plimsoll(&["lab", "down", &name]).ok().stdout, format!("lab {name} has ended\n"));
    assert!(!state_file(&name).exists() && !state_file(&name).with_extension("log").exists());
    assert!(!Path::new(&format!("/proc/{pid}/exe")).exists());
    assert_eq!(listed(&name), None);
    let gone = plimsoll(&["lab", "down", &name]);
    assert_eq!(gone.code(), Some(1));
    drop(up);
}

#[test]
fn a_killed_lab_leaves_a_file_only_and_clean_removes_it() {
    let scratch = Scratch::new();
    let (name, path) = own(&scratch, "one-hop", |text| text);
    let up = Up(name.clone());
    let _ = plimsoll(&["lab", "up", path.to_str().unwrap()]).ok();
    let lab = listed(&name).unwrap();
    assert_eq!(lab["running"], true);
    let pid = lab["state"]["pid"].as_u64().unwrap();
    let programs: Vec<u64> = {
        let shown = plimsoll(&["show", "ports", "--name", &name, "--json"]).ok().json();
        let ports = shown["ports"].as_array().unwrap().iter();
        ports.filter_map(|port| port["description"]["program_id"].as_u64()).collect()
    };
    assert_eq!(programs.len(), 3);
    let namespaces: Vec<String> = lab["state"]["nodes"]
        .as_object()
        .unwrap()
        .values()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect();
    assert!(namespaces.iter().all(|path| Path::new(path).exists()));
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_for("the lab to be seen as ended", LONG, || (listed(&name)?["running"] == false).then_some(()));
    assert!(namespaces.iter().all(|path| !Path::new(path).exists()));
    wait_for("the end of its programs", LONG, || {
        (!programs.iter().any(|id| plimsoll_tests::remains::program_exists(*id))).then_some(())
    });
    let exec = plimsoll(&["lab", "exec", &name, "client", "true"]);
    assert_eq!(exec.code(), Some(1));
    assert!(exec.stderr.contains("does not run"), "{exec:#?}");
    assert!(state_file(&name).exists());
    let cleaned = plimsoll(&["lab", "clean"]).ok();
    assert!(cleaned.stdout.contains(&name), "{cleaned:#?}");
    assert!(!state_file(&name).exists() && !state_file(&name).with_extension("log").exists());
    assert_eq!(listed(&name), None);
    drop(up);
}

#[test]
fn a_measurement_ends_at_once_on_sigint_and_says_that_it_is_not_whole() {
    let scratch = Scratch::new();
    let (_, path) = own(&scratch, "one-hop", |text| text);
    let mut command = Command::new(program());
    command
        .args(["lab", "run", path.to_str().unwrap(), "--duration", "600s", "--json"])
        .env_remove("RUST_LOG");
    let mut process = Process::start(&mut command);
    process.says("settling for", LONG);
    std::thread::sleep(Duration::from_secs(2));
    process.signal(Signal::INT);
    let output = process.end(Duration::from_secs(15));
    assert_eq!(output.code(), Some(1), "{output:#?}");
    let failed = output.json()["failed"].to_string();
    assert!(failed.contains("interrupted after "), "{failed}");
}
