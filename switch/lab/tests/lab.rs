//! Labs on the running kernel: built, measured, held, entered, killed. Needs root.
#![allow(clippy::unwrap_used)]

use plimsoll_lab::lab::{self, Lab, LabError, RunOptions, Silent, StateFile};
use plimsoll_lab::record::RecordFile;
use plimsoll_lab::topology::{Overrides, Topology};
use std::ffi::OsString;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CONGESTED: &str = r#"
duration = "1500ms"
warmup = "500ms"
[marking]
delta = "100us"
thresholds = 256
[switch.s1]
[host.server]
[host.client]
[host.load]
[[link]]
between = ["server", "s1"]
rate = "100mbit"
[[link]]
between = ["client", "s1"]
rate = "10mbit"
[[link]]
between = ["load", "s1"]
rate = "100mbit"
[[flow]]
name = "cross"
from = "load"
to = "client"
load = 0.8
"#;

fn topology(name: &str, text: &str) -> Topology {
    Topology::parse(&format!("{name}.toml"), text, &Overrides::default()).unwrap()
}

#[test]
fn a_congested_lab_is_measured_from_clocks_to_ports() {
    let clocks =
        "[[clock]]\nname = \"reads\"\nserver = \"server\"\nclient = \"client\"\ntransport = \"l2\"\n";
    let t = topology("measured", &format!("{CONGESTED}{clocks}"));
    let record = std::env::temp_dir().join(format!("plimsoll-lab-{}.csv", std::process::id()));
    let options = RunOptions { record: Some(RecordFile::new(record.clone()).unwrap()), publish: true };
    let outcome = lab::run(t, &options, &Silent, &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.failed.as_slice(), outcome.exit_code()), (&[][..], 0), "{outcome}");

    let clock = &outcome.clocks[0].report;
    assert!(clock.samples > 20, "{outcome}");
    // Full frames of 1.2 ms at 10 Mbit/s wait for several of their kind; a mark leaves 100 us of it.
    assert!(clock.raw_rms_ns > 500_000.0, "{outcome}");
    assert!(clock.compensated_rms_ns < clock.raw_rms_ns / 4.0, "{outcome}");
    let flow = &outcome.flows[0];
    assert!(flow.received_frames > 100 && flow.lost_frames < flow.sent_frames / 2, "{outcome}");
    let client = outcome.ports.iter().find(|port| port.port == "client").unwrap();
    assert!(client.depth_bytes.max > 0 && client.marks.keys().any(|r| *r > 0), "{outcome}");
    assert!(client.depth_bytes.p50 > 0 && client.depth_bytes.max >= 1538, "{outcome}");
    // Frames of 1538 octets that leave right behind another do so at the rate, whatever the machine does.
    assert!((client.measured_bps.unwrap() / 10e6 - 1.0).abs() < 0.1, "{outcome}");
    assert_eq!(client.mode, "native");

    let json = serde_json::to_value(&outcome).unwrap();
    let keys = |value: &serde_json::Value, wanted: &[&str]| {
        for key in wanted {
            assert!(value.get(key).is_some(), "{key} in {value}");
        }
    };
    keys(&json, &["clocks", "flows", "ports", "pinning"]);
    let clock_keys =
        ["name", "daemon", "transport", "samples", "raw_rms_ns", "compensated_rms_ns", "improvement"];
    keys(&json["clocks"][0], &clock_keys);
    keys(&json["flows"][0], &["name", "offered_bps", "delivered_bps", "lost_frames"]);
    keys(&json["ports"][0], &["switch", "port", "rate_bps", "measured_bps", "marks"]);
    keys(&json["ports"][0]["depth_bytes"], &["p50", "p99", "max"]);
    for delays in ["release_late", "late_arrival"] {
        keys(&json["ports"][0][delays], &["count", "p99_ns"]);
    }
    assert_eq!(json["clocks"][0]["transport"], "l2");
    let lines = outcome.to_string();
    // A busy machine is said of in the heading itself.
    let mut heads = lines.lines();
    assert!(heads.next().unwrap().starts_with("offset error: raw, compensated, improvement"), "{lines}");
    assert!(heads.next().unwrap().starts_with("clock "), "{lines}");

    let csv = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    let sent = csv.lines().filter(|line| line.starts_with("s1,load,client,")).count() as u64;
    assert!(sent >= flow.received_frames, "{sent} of {}", flow.received_frames);
}

#[test]
fn edges_convert_for_a_clock_that_knows_no_marks_and_raw_is_still_told() {
    let clocks =
        "[[clock]]\nname = \"edge\"\nserver = \"server\"\nclient = \"client\"\ncompensation = \"edge\"\n";
    let t = topology("edge", &format!("{CONGESTED}{clocks}"));
    let outcome = lab::run(t, &RunOptions::default(), &Silent, &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.failed, Vec::<String>::new(), "{outcome}");
    let clock = &outcome.clocks[0].report;
    // `raw` is what the clock measured and what the switch says it took out. Were nothing written into frames, what it
    // measured would be half of that: each was told of once and left in once.
    assert!(clock.raw_rms_ns > 500_000.0, "{outcome}");
    assert!(clock.compensated_rms_ns < clock.raw_rms_ns / 4.0, "{outcome}");
}

#[test]
fn a_hop_without_marks_leaves_words_and_ecn_alone_and_its_neighbours_do_not() {
    // All three hops towards the client are congested; the one between s2 and s3 knows nothing of marks.
    let text = r#"
duration = "1500ms"
warmup = "500ms"
[marking]
delta = "100us"
thresholds = 256
ecn-threshold = "100us"
[switch.s1]
[switch.s2]
[switch.s3]
[host.server]
[host.client]
[host.a]
[[link]]
between = ["server", "s1"]
remark = "ect0"
[[link]]
between = ["a", "s1"]
[[link]]
between = ["s1", "s2"]
rate = "10mbit"
[[link]]
between = ["s2", "s3"]
rate = "9mbit"
mark = false
[[link]]
between = ["s3", "client"]
rate = "8mbit"
remark = "ect0"
[[flow]]
name = "cross"
from = "a"
to = "client"
kind = "poisson"
load = 0.95
size = "500B"
sizes = "exponential"
[[clock]]
name = "ptp"
server = "server"
client = "client"
transport = "udp4"
"#;
    let record = std::env::temp_dir().join(format!("plimsoll-lab-hop-{}.csv", std::process::id()));
    let options = RunOptions { record: Some(RecordFile::new(record.clone()).unwrap()), publish: false };
    let outcome = lab::run(topology("hop-off", text), &options, &Silent, &AtomicBool::new(false)).unwrap();
    let csv = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    assert_eq!(outcome.failed, Vec::<String>::new(), "{outcome}");
    for (switch, port, marks) in [("s1", "s2", true), ("s2", "s3", false), ("s3", "client", true)] {
        let found = outcome.ports.iter().find(|p| p.switch == switch && p.port == port).unwrap();
        assert!(found.depth_bytes.max > 1000, "{switch} to {port} was not congested: {outcome}");
        assert_eq!(found.marks.keys().any(|r| *r > 0), marks, "{switch} to {port}: {outcome}");
        assert_eq!(found.ecn.get("marked").is_some_and(|n| *n > 0), marks, "{switch} to {port}: {outcome}");
        assert!(marks || (found.marks.is_empty() && found.ecn.is_empty()), "{switch} to {port}: {outcome}");
    }
    // Syncs by that hop: word and ECN bits leave as they came, and some came with marks.
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let syncs: Vec<_> = csv
        .lines()
        .map(cells)
        .filter(|row| {
            (row[0].as_str(), row[2].as_str()) == ("s2", "s3") && row[column("message_type")] == "0"
        })
        .collect();
    assert!(syncs.len() > 50, "{} Syncs", syncs.len());
    for row in &syncs {
        let same = |before: &str, after: &str| row[column(before)] == row[column(after)];
        assert!(same("word_before", "word_after") && same("ecn_before", "ecn_after"), "{row:?}");
        assert_eq!(
            (row[column("outcome")].as_str(), row[column("ecn_outcome")].as_str()),
            ("off", "off"),
            "{row:?}"
        );
    }
    assert!(syncs.iter().any(|row| row[column("word_before")].as_str() > "40000000"));
    assert!(syncs.iter().any(|row| row[column("ecn_before")] == "3"), "no CE came");
}

#[test]
fn a_measurement_that_is_interrupted_says_so_and_keeps_what_it_has() {
    let t = topology("stopped", &CONGESTED.replace("1500ms", "60s"));
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let run = scope.spawn(|| lab::run(t, &RunOptions::default(), &Silent, &stop).unwrap());
        thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
        run.join().unwrap()
    });
    assert!(outcome.failed[0].starts_with("interrupted after "), "{outcome}");
    assert_eq!(outcome.exit_code(), 1);
    assert!(outcome.flows[0].received_frames > 0, "{outcome}");
    assert!(outcome.frames_conserved);
}

#[test]
fn hosts_reach_each_other_through_a_switch_a_bridge_and_a_cable() {
    let t = Topology::load("idle", &Overrides::default()).unwrap();
    // On a thread of its own: the lab moves it to other CPUs.
    thread::spawn(move || {
        let lab = Lab::start(t, None).unwrap();
        for pair in [("p-server", "p-client"), ("b-server", "b-client"), ("d-server", "d-client")] {
            let host = |name| lab.topology().hosts[lab.topology().host(name).unwrap()].clone();
            let (from, to) = (host(pair.0), host(pair.1));
            for (from_ip, to_ip) in
                [(IpAddr::from(from.v4), IpAddr::from(to.v4)), (from.v6.into(), to.v6.into())]
            {
                let open = |name: &str, ip| {
                    lab.namespace(name).unwrap().run_in(|| UdpSocket::bind((ip, 0)).unwrap())
                };
                let (source, sink) = (open(pair.0, from_ip).unwrap(), open(pair.1, to_ip).unwrap());
                sink.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                source.send_to(b"plimsoll", sink.local_addr().unwrap()).unwrap();
                let (length, address) = sink.recv_from(&mut [0; 64]).unwrap();
                assert_eq!((length, address.ip()), (8, from_ip), "{pair:?}");
            }
        }
        let last = lab.stop().unwrap();
        assert!(last.frames.is_whole() && last.frames.total == last.frames.free + last.frames.withdrawn);
        // Nothing but what passed: no solicitation, no report of the switch's own.
        let port = &last.switches[0].stats.ports[0];
        assert_eq!(port.name, "p-server");
    })
    .join()
    .unwrap();
}

#[test]
fn what_cannot_be_built_is_refused_in_one_line() {
    let t = topology("cpu", &format!("{CONGESTED}\n[worker]\ncpu = 1000\n"));
    let error = thread::spawn(|| Lab::start(t, None).map(drop).unwrap_err()).join().unwrap();
    assert!(matches!(error, LabError::State { .. }));
    assert!(
        error.to_string().starts_with("worker: cpu = 1000 is none that this process may use; write one of [")
    );
    let t = topology("record", CONGESTED);
    let options = RunOptions {
        record: Some(RecordFile::new("/no/such/folder/file.csv".into()).unwrap()),
        publish: false,
    };
    let error = lab::run(t, &options, &Silent, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("/no/such/folder/file.csv") && !error.contains('\n'), "{error}");
}

/// The arguments that make this test binary run one of its helper processes below.
fn helper(name: &str) -> Vec<OsString> {
    ["--exact", name, "--ignored", "--nocapture"].map(OsString::from).into()
}

fn held_name() -> String {
    // The helper has this process as its parent.
    format!("held-{}", std::process::id())
}

#[test]
#[ignore = "no test: the process that holds the lab of the test below"]
fn helper_holds_a_lab() {
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
    let name = format!("held-{parent}");
    let mut file = StateFile::claim(&name).unwrap();
    let lab = Lab::start(topology(&name, CONGESTED), None).unwrap();
    file.publish(&lab).unwrap();
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "no test: the process that becomes a command in a lab's host"]
fn helper_enters_a_lab() {
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
    let script = "readlink /proc/self/ns/net; grep Cpus_allowed_list /proc/self/status";
    let command = ["sh", "-c", script].map(OsString::from);
    panic!("{}", lab::exec(&format!("held-{parent}"), "client", &command, |_| ()));
}

#[test]
fn a_lab_that_stays_is_listed_entered_ended_and_leaves_nothing_when_killed() {
    let (name, program) = (held_name(), std::env::current_exe().unwrap());
    let missing = lab::down(&name).unwrap_err().to_string();
    assert!(missing.starts_with(&format!("lab {name}: does not run; ")), "{missing}");

    let state = lab::up(&name, &program, &helper("helper_holds_a_lab")).unwrap();
    assert_eq!(state.nodes.keys().collect::<Vec<_>>(), ["client", "load", "s1", "server"]);
    let twice = lab::up(&name, &program, &helper("helper_holds_a_lab")).unwrap_err().to_string();
    assert!(twice.contains(&format!("runs already (pid {})", state.pid)), "{twice}");
    let listed = lab::list().unwrap().into_iter().find(|lab| lab.name == name).unwrap();
    assert!(listed.running && listed.state.as_ref() == Some(&state));
    assert!(!lab::clean().unwrap().contains(&name), "what runs is not cleaned away");

    let output = Command::new(&program).args(helper("helper_enters_a_lab")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let inside = std::fs::metadata(&state.nodes["client"]).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&inside);
    assert!(text.contains(&format!("net:[{inode}]")), "{text}");
    // Not on the worker's CPU, though this process may use all.
    let allowed = text.lines().find_map(|line| line.split_once("Cpus_allowed_list:")).unwrap().1.trim();
    let cpus: Vec<_> = state.cpus.iter().map(ToString::to_string).collect();
    assert!(
        cpus.len() > 2 || allowed == cpus.join(",") || allowed == cpus.join("-"),
        "{allowed}, not {cpus:?}"
    );
    let error = lab::exec(&name, "nobody", &["true".into()], |_| ()).to_string();
    assert!(error.contains("has no node \"nobody\"; its nodes are client, load, s1, server"), "{error}");

    lab::down(&name).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", state.pid)).join("exe").exists());
    // The helper handles no signal: as with kill -9 its file is left, and nothing else.
    let listed = lab::list().unwrap().into_iter().find(|lab| lab.name == name).unwrap();
    assert!(!listed.running);
    let state = lab::up(&name, &program, &helper("helper_holds_a_lab")).unwrap();
    assert!(Command::new("kill").args(["-9", &state.pid.to_string()]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(10);
    while lab::list().unwrap().iter().any(|lab| lab.name == name && lab.running) && Instant::now() < deadline
    {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(lab::clean().unwrap().contains(&name));
    assert!(lab::list().unwrap().iter().all(|lab| lab.name != name));
}

#[test]
fn a_lab_that_cannot_stand_says_why_at_once() {
    let name = format!("fails-{}", std::process::id());
    let arguments = ["-c", "echo one; echo 'plimsoll: host a: no; do that' >&2; exit 1"].map(OsString::from);
    let error = lab::up(&name, std::path::Path::new("sh"), &arguments).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("lab {name} ended at once (exit status: 1): host a: no; do that")),
        "{error}"
    );
}
