//! Mistakes: each is told in one line with the place and the remedy, by its exit code, and changes nothing.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::{Output, run};
use plimsoll_tests::remains::Remains;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::{Scratch, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

/// One line that holds all these parts, and this exit code.
fn told(output: &Output, code: i32, parts: &[&str]) {
    assert_eq!(output.code(), Some(code), "{output:#?}");
    let line = output.stderr.strip_suffix('\n').unwrap_or(&output.stderr);
    assert!(line.starts_with("plimsoll: ") && !line.contains('\n'), "not one line: {output:#?}");
    for part in parts {
        assert!(line.contains(part), "{part:?} in {line:?}");
    }
    assert!(line.contains("; ") || line.contains(" see "), "no remedy in {line:?}");
    assert_eq!(output.stdout, "");
}

/// Runs it where two free ports are, and looks whether anything is changed.
struct Bench {
    net: Net,
    before: Remains,
    scratch: Scratch,
}

impl Bench {
    fn new() -> Self {
        let net = Net::new(2, Stack::Silent);
        let before = Remains::of(&net.switch);
        Self { net, before, scratch: Scratch::new() }
    }

    fn refuses(&self, arguments: &[&str], code: i32, parts: &[&str]) {
        self.refuses_command(&mut plimsoll(&self.net.switch, arguments), code, parts);
    }

    fn refuses_command(&self, command: &mut Command, code: i32, parts: &[&str]) {
        told(&run(command, SOON), code, parts);
        assert_eq!(Remains::of(&self.net.switch), self.before, "{command:?}");
    }

    /// `plimsoll run FILE` with this text.
    fn refuses_file(&self, text: &str, parts: &[&str]) {
        let path = self.scratch.write("switch.toml", text);
        self.refuses(&["run", path.to_str().unwrap()], 2, &[&["switch.toml"], parts].concat());
    }

    /// `plimsoll lab run FILE` with this text.
    fn refuses_lab(&self, text: &str, parts: &[&str]) {
        let path = self.scratch.write("net.toml", text);
        self.refuses(&["lab", "run", path.to_str().unwrap()], 2, &[&["net.toml"], parts].concat());
    }
}

#[test]
fn files_with_mistakes_are_refused_with_line_key_and_remedy() {
    let bench = Bench::new();
    bench.refuses_file(
        "[[port]]\nname = \"p0\"\nspeed = \"1gbit\"\n",
        &["switch.toml:3:1: port.speed: unknown key speed; the keys here are name, "],
    );
    bench.refuses_file(
        "[[port]]\nname = \"p0\"\nrate = 100\n",
        &["switch.toml:3:8: port.rate: \"100\" has no unit; ", "\"100mbit\""],
    );
    bench.refuses_file(
        "[[port]]\nname = \"p0\"\nrate = \"100mbps\"\n",
        &["switch.toml:3:8: port.rate: ", "mbit"],
    );
    bench.refuses_file(
        "[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\n[[port]]\nname = \"p0\"\n",
        &["switch.toml:6:8: port.name: p0 is a port already; name each interface once"],
    );
    bench.refuses_file(
        "[[port]]\nname = \"sixteen-letters1\"\n",
        &["switch.toml:2:8: port.name: ", "sixteen-letters1", "15"],
    );
    // Steps of 7500 and 15000 octets at 1 Gbit/s are 60 and 120 us.
    bench.refuses_file(
        "[marking]\n[[port]]\nname = \"p0\"\nrate = \"1gbit\"\nstep = \"7500B\"\n[[port]]\nname = \"p1\"\nrate = \"1gbit\"\nstep = \"15000B\"\n",
        &["switch.toml:9:8: port.step: ", "60us", "120us"],
    );
    bench.refuses_file("[[port]]\nname = \"p0\"\nmark = true\n", &["port.mark: there is no [marking]; "]);
    bench.refuses_file(
        "[marking]\necn-threshold = \"120us\"\ndepth = \"all\"\n[[port]]\nname = \"p0\"\n",
        &["switch.toml:3:9: marking.depth: unknown value \"all\"; write one of ahead, queue, port"],
    );
    bench.refuses_file(
        "[marking]\ndelta = \"60us\"\ncell = \"80B\"\n[[port]]\nname = \"p0\"\n",
        &["switch.toml:3:8: marking.cell: is the cell of count = \"cells\" alone; "],
    );
    // What the core refuses has the file's place too.
    bench.refuses_file(
        "[marking]\ndelta = \"60us\"\n[[port]]\nname = \"p0\"\nrate = \"1gbit\"\nmark = true\ntransparent-clock = true\n",
        &["switch.toml:7:21: port.transparent-clock: switch switch, port p0: stands beside mark", "mark = false"],
    );
    bench.refuses_file(
        "[marking]\ndelta = \"60us\"\ncarriers = [\"ptp\", \"ecn\"]\n[[port]]\nname = \"p0\"\nrate = \"1gbit\"\n[[port]]\nname = \
         \"p1\"\nremark = \"ect0\"\n",
        &["switch.toml:9:10: port.remark: switch switch, ports p0 and p1: use the ECN bits as a counter"],
    );
    bench.refuses_file("[[port]]\nname = \"p0\n", &["switch.toml:2:"]);
    bench.refuses_file(
        "name = \"a b\"\n[[port]]\nname = \"p0\"\n",
        &["switch.toml:1:8: name: \"a b\" is no name for a switch; write name"],
    );
    bench.refuses_file("name = \"nothing\"\n", &["there is no port; write [[port]]"]);
    bench.refuses(&["run", "/no/such/file.toml"], 2, &["/no/such/file.toml: ", "No such file"]);
    bench.refuses_file(
        "[switch.s1]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s1\"]\n[[link]]\nbetween = [\"b\", \"s1\"]\n",
        &["is a lab's file", "plimsoll lab run"],
    );
}

#[test]
fn arguments_with_mistakes_are_refused_with_their_name_and_the_remedy() {
    let bench = Bench::new();
    for (arguments, parts) in [
        (&["run"][..], &["no ports", "--port NAME"][..]),
        (&["run", "--port", "p0,speed=3"], &["port.speed: unknown key speed; the keys here are "]),
        (&["run", "--port", "p0,rate=100"], &["port.rate: \"100\" has no unit"]),
        (&["run", "--port", "p0,=100"], &["--port p0,=100: ", "rate=100mbit"]),
        (&["run", "--port", "p0", "--port", "p0"], &["p0 is a port already"]),
        (&["run", "--port", "sixteen-letters1"], &["sixteen-letters1", "15"]),
        (
            &["run", "--port", "p0", "--port", "nosuch"],
            &["nosuch: there is no such interface here; see `ip link`"],
        ),
        (&["run", "--port", "p0", "--delta", "60"], &["'--delta <DELTA>'", "has no unit", "60us"]),
        (
            &["run", "--port", "p0", "--thresholds", "4"],
            &["--thresholds: is given, but no port here marks; ", "--delta"],
        ),
        (
            &["run", "--port", "p0", "--ecn-threshold", "1us"],
            &["--ecn-threshold: is given, but no port here marks"],
        ),
        (&["run", "--port", "p0", "--counter", "shift"], &["'shift'", "integer, bit-shift"]),
        (&["run", "--port", "p0,remark=ect2"], &["port.remark: unknown value \"ect2\"; write ect0 or ect1"]),
        (&["run", "--port", "p0,storm=1000"], &["storm=1000 is no limit; write frames per second and burst"]),
        (
            &["run", "--port", "p0,queue-frames=0"],
            &["port.queue-frames: switch switch, port p0: is 0; write 1 to"],
        ),
        (&["lab", "run", "one-hop", "--counter-max", "0"], &["marking.counter-max: N is 0; write 1 to"]),
        (
            &["run", "--port", "p0", "--record", "a.pcap"],
            &["'a.pcap'", "--record <FILE>", "name it NAME.csv or NAME.pcapng"],
        ),
        (&["lab", "run", "idle", "--record", "truth"], &["'truth'", "name it NAME.csv or NAME.pcapng"]),
        (&["run", "--prot", "p0"], &["'--prot'", "'--port'"]),
        (
            &["run", "--port", "p0", "--name", "a b"],
            &["--name \"a b\": is no name for a switch; write 1 to 64"],
        ),
        (&["run", "--port", "p0", "--name", ""], &["--name \"\": is no name for a switch"]),
        (&["run", "--port", "p0,edge"], &["edge", "delta"]),
        (&["run", "--port", "p0", "--cpu", "999"], &["CPU 999 is not there, or not for this process; "]),
        (&["run", "--port", "p0", "--latency", "2s"], &["--latency 2s: more than 1 s; "]),
        (&["show", "ports", "--flush"], &["--flush forgets addresses; write `plimsoll show fdb --flush`"]),
        (&["fly"], &["'fly'"]),
        (&["show"], &["<WHAT>"]),
        (&["show", "everything"], &["'everything'", "ports, queues, fdb, drops, marks"]),
        (&["lab", "run", "two-hop"], &["two-hop: no lab of this name is built in; there are ", "one-hop"]),
        (&["lab", "up", "two-hop"], &["two-hop: no lab of this name is built in; there are ", "one-hop"]),
        (&["lab", "cat", "two-hop"], &["there is no built-in lab \"two-hop\"; there are ", "one-hop"]),
        (&["sim", "/dev/zero"], &["/dev/zero: is longer than 16000 kB; name a text file"]),
        (&["run", "/dev/zero"], &["/dev/zero: is longer than 16000 kB; name a text file"]),
        (
            &[
                "plan",
                "evaluate",
                "--forward",
                "exp(7us),exp(7us)",
                "--delta",
                "1ns",
                "--thresholds",
                "1000000",
            ],
            &["--thresholds 1000000: too many for this path"],
        ),
        (&["lab", "run", "/no/such/lab.toml"], &["/no/such/lab.toml: cannot be read"]),
        (&["lab", "run", "one-hop", "--duration", "0s"], &["--duration 0", "20s"]),
        (&["lab", "run", "one-hop", "--load=-1"], &["load"]),
        (&["lab", "run", "one-hop", "--load=70"], &["load", "0.7 for 70 %"]),
        (&["clock", "--interface", "p0"], &["--role <ROLE>"]),
        (&["clock", "--role", "client", "--interface", "p0", "--transport", "UDP"], &["'UDP'", "udp4"]),
    ] {
        bench.refuses(arguments, 2, parts);
    }
}

#[test]
fn labs_with_mistakes_are_refused_with_line_key_and_remedy() {
    const HOSTS: &str =
        "[switch.s1]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s1\"]\nrate = \"10mbit\"\n";
    let bench = Bench::new();
    let lab = |rest: &str| format!("{HOSTS}[[link]]\nbetween = [\"b\", \"s1\"]\n{rest}");
    bench.refuses_lab(
        &lab("colour = 3\n"),
        &["net.toml:9:1: link.colour: unknown key colour; the keys here are "],
    );
    bench.refuses_lab(&lab("rate = 10\n"), &["net.toml:9:8: link.rate: ", "has no unit"]);
    bench.refuses_lab(&lab("[host.a]\n"), &["net.toml:9:"]);
    bench.refuses_lab(&lab("[host.sixteen-letters1]\n"), &["net.toml:9:", "sixteen-letters1", "15"]);
    bench.refuses_lab(&lab("[[flow]]\nfrom = \"a\"\nto = \"c\"\n"), &["net.toml:11:6: flow.to: ", "\"c\""]);
    bench.refuses_lab(
        "[marking]\n[switch.s1]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s1\"]\nrate = \"10mbit\"\nstep = \"750B\"\n\
         [[link]]\nbetween = [\"b\", \"s1\"]\nrate = \"10mbit\"\nstep = \"1500B\"\n",
        &["net.toml:12:8: link.step: ", "600us", "1200us"],
    );
    bench.refuses_lab(
        &lab("ecn = true\n"),
        &["net.toml:9:7: link.ecn: there is no threshold from which on ECN marks; write ecn-threshold"],
    );
    bench.refuses_lab(
        &lab("remark = \"ce\"\n"),
        &["net.toml:9:10: link.remark: unknown value \"ce\"; write ect0 or ect1"],
    );
    bench.refuses_lab(
        &lab("transparent-clock = { to-s1 = true }\n"),
        &["net.toml:9:21: link.transparent-clock: to-s1: b is no switch"],
    );
}

#[test]
fn networks_that_this_machine_cannot_hold_are_refused_before_any_memory_is_taken() {
    let bench = Bench::new();
    let chain = |switches: usize, link: &str| {
        let mut text = String::from("[host.a]\n[host.b]\n");
        let nodes: Vec<_> = (0..switches).map(|i| format!("s{i}")).collect();
        nodes.iter().for_each(|node| text.push_str(&format!("[switch.{node}]\n")));
        let way: Vec<_> = ["a".to_owned()].into_iter().chain(nodes).chain(["b".to_owned()]).collect();
        for ends in way.windows(2) {
            text.push_str(&format!("[[link]]\nbetween = [\"{}\", \"{}\"]\n{link}", ends[0], ends[1]));
        }
        text
    };
    bench.refuses_lab(
        &chain(128, ""),
        &["its switches have 256 ports: more than 255 exist in `plimsoll sim` only; leave some out"],
    );
    // A million frames of each class at each of 2000 ports.
    bench.refuses_lab(
        &chain(1000, "queue-frames = 1048576\n"),
        &[
            "1000 switches reserve ",
            " for queues and FDBs, and this machine has ",
            "; leave some out, or write smaller",
        ],
    );
}

/// `plimsoll` without some capabilities, by `setpriv`.
fn without(bench: &Bench, capabilities: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    let dropped: Vec<String> = capabilities.split(',').map(|name| format!("-{name}")).collect();
    command.arg(format!("--bounding-set={}", dropped.join(",")));
    command.args([&format!("--inh-caps={}", dropped.join(",")), "--"]).arg(program()).args(arguments);
    bench.net.switch.enter_command(&mut command);
    command
}

#[test]
fn a_missing_capability_is_named_and_nothing_is_half_done() {
    let bench = Bench::new();
    let ports = ["run", "--port", "p0", "--port", "p1"];
    for (capabilities, named) in
        [("net_admin,sys_admin", "CAP_NET_ADMIN"), ("net_raw", "CAP_NET_RAW"), ("bpf,sys_admin", "CAP_BPF")]
    {
        bench.refuses_command(&mut without(&bench, capabilities, &ports), 1, &[named, "run as root"]);
    }
    // The same command with all of them works: it was the capability.
    let _ = Switch::start(&bench.net, &ports[1..]).stop().ok();
    for arguments in [&["lab", "run", "idle", "--quiet"][..], &["lab", "up", "idle"]] {
        bench.refuses_command(&mut without(&bench, "sys_admin", arguments), 1, &["CAP_SYS_ADMIN"]);
    }
    let clock = ["clock", "--role", "server", "--interface", "p0", "--transport", "l2"];
    bench.refuses_command(&mut without(&bench, "net_raw", &clock), 1, &["p0", "CAP_NET_RAW"]);
}

#[test]
fn failures_are_told_apart_from_mistakes_of_usage() {
    let bench = Bench::new();
    bench.refuses(&["show", "ports"], 1, &["no switch runs in this network namespace; start one"]);
    bench.refuses(
        &["show", "ports", "--name", "x"],
        1,
        &["no switch called \"x\" runs here (", "name one of these"],
    );
    bench.refuses(&["lab", "down", "no-such-lab"], 1, &["lab no-such-lab: does not run; ", " up"]);
    bench.refuses(&["lab", "exec", "no-such-lab", "a", "true"], 1, &["lab no-such-lab: does not run; "]);
    let record = ["run", "--port", "p0", "--port", "p1", "--record", "/no/such/folder/r.csv"];
    bench.refuses(
        &record,
        2,
        &["record /no/such/folder/r.csv: create: ", "name a file in a folder you may write"],
    );
    // Before anything is built or simulated.
    for lab in [["lab", "run"], ["sim", "--quiet"]] {
        let record = [&lab[..], &["idle", "--record", "/no/such/folder/r.pcapng"]].concat();
        bench.refuses(&record, 2, &["record /no/such/folder/r.pcapng: create: ", "name a file in a folder"]);
    }
    bench.refuses(&["clock", "--role", "client", "--interface", "nosuch"], 1, &["nosuch"]);
}

#[test]
fn what_only_the_simulator_follows_is_refused_by_labs_and_simulated() {
    let bench = Bench::new();
    let net = "duration = \"200ms\"\nwarmup = \"50ms\"\n[switch.s1]\n[host.a]\n[host.b]\n[[link]]\n\
               between = [\"a\", \"s1\"]\nrate = \"1gbit\"\n[[link]]\nbetween = [\"b\", \"s1\"]\nrate = \"1gbit\"\n\
               [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\npaper = \"SF\"\nuncapped = true\n\
               [[clock]]\nserver = \"a\"\nclient = \"b\"\ntransport = \"ntp4\"\n";
    let path = bench.scratch.write("net.toml", net);
    let path = path.to_str().unwrap();
    let parts =
        ["net.toml: flow f: frames beyond the MTU exist in `plimsoll sim` only; leave uncapped out, or run"];
    bench.refuses(&["lab", "run", "--quiet", path], 2, &parts);
    bench.refuses(&["lab", "up", path], 2, &parts);
    bench.refuses(&["sim", path, "--repeat", "2", "--record", "x.csv"], 2, &["--record", "--repeat"]);
    bench.refuses(&["sim", "nosuch"], 2, &["nosuch: no lab of this name is built in; there are one-hop, "]);
    let told = run(&mut plimsoll(&bench.net.switch, &["sim", "--json", path]), SOON);
    assert_eq!(told.code(), Some(0), "{told:#?}");
    let outcome: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&outcome["clocks"][0]["transport"], &outcome["pinning"]), (&"ntp4".into(), &().into()));
    // What it cost goes to standard error.
    assert!(told.stderr.contains(" times real time\n"), "{told:#?}");
}

/// The writing end of a pipe that nobody reads.
fn unread() -> std::io::PipeWriter {
    let (_, writer) = std::io::pipe().unwrap();
    writer
}

#[test]
fn output_that_nobody_reads_ends_nothing_and_a_full_disk_is_told() {
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(arguments).stdin(Stdio::null());
        command
    };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["lab", "cat", "one-hop"][..], &["sim", "idle", "--duration", "1s", "--quiet"]] {
        let seen = command(arguments).stdout(unread()).output().unwrap();
        assert_eq!((seen.status.code(), &*seen.stderr), (Some(0), &b""[..]), "{arguments:?}");
        let lost = command(arguments).stdout(full()).output().unwrap();
        let told = String::from_utf8(lost.stderr).unwrap();
        assert_eq!(lost.status.code(), Some(1), "{told}");
        assert!(told.starts_with("plimsoll: standard output: ") && told.lines().count() == 1, "{told}");
    }
    let mute = command(&["sim", "idle", "--duration", "1s", "--json"]).stderr(unread()).output().unwrap();
    assert_eq!(mute.status.code(), Some(0));
    assert!(serde_json::from_slice::<serde_json::Value>(&mute.stdout).is_ok());
}

/// Whoever reads the log may go (`plimsoll run .. 2>&1 | head -1`): the switch stays.
#[test]
fn a_switch_whose_log_nobody_reads_goes_on() {
    let net = Net::new(2, Stack::Silent);
    let mut command = plimsoll(&net.switch, &["run", "--port", "p0", "--port", "p1"]);
    let mut child = command.stdin(Stdio::null()).stderr(unread()).spawn().unwrap();
    let index = || {
        let shown = run(&mut plimsoll(&net.switch, &["show", "ports", "--json"]), SOON);
        (shown.code() == Some(0)).then(|| shown.json()["ports"][1]["description"]["index"].as_u64())?
    };
    let first = wait_for("the switch", SOON, index);
    // Both are lines in its log.
    net.part(1);
    net.join(1);
    wait_for("the new p1 to be open", SOON, || index().filter(|now| *now != first));
    assert!(child.try_wait().unwrap().is_none(), "it has ended");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
