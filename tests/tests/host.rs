//! `plimsoll host`: what it attaches stays and goes as told, and messages of sockets leave as it says.
#![allow(clippy::unwrap_used)]

use aya::programs::{SchedClassifier, TcAttachType, Xdp, XdpMode, links::LinkOrder, tc::TcAttachOptions};
use aya::{Ebpf, EbpfLoader};
use plimsoll_classify::{MAP_TAP_RECORDS, PROGRAM_TAP, PROGRAM_TAP_INGRESS};
use plimsoll_tests::net::{Host, INTERFACE, Net, Stack};
use plimsoll_tests::ntp::{Packet as Ntp, Tail};
use plimsoll_tests::process::{Output, Process, run};
use plimsoll_tests::remains::{Remains, program_exists};
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::wait_for;
use rustix::process::Signal;
use serde_json::Value;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

static TAP: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/tap.o");

const SOON: Duration = Duration::from_secs(20);
/// Of the congested switch.
const DELTA: &str = "100us";
const ALL: [&str; 6] = ["--delta", DELTA, "--timestamp", "--correction", "--ect", "0"];

/// `plimsoll host WHAT eth0 ..` on a host.
fn command(host: &Host, what: &str, more: &[&str]) -> Output {
    run(&mut plimsoll(&host.namespace, &[&["host", what, INTERFACE], more].concat()), SOON)
}

fn shown(host: &Host) -> Value {
    command(host, "show", &["--json"]).ok().json()["hosts"][0]["programs"].clone()
}

fn ids(programs: &Value) -> Vec<u64> {
    programs.as_array().unwrap().iter().map(|program| program["id"].as_u64().unwrap()).collect()
}

/// Program and point of each.
fn places(programs: &Value) -> Vec<(&str, &str)> {
    let programs = programs.as_array().unwrap().iter();
    programs
        .map(|program| (program["program"].as_str().unwrap(), program["point"].as_str().unwrap()))
        .collect()
}

/// Programs vanish some milliseconds after nobody holds them.
fn gone(programs: &[u64]) {
    wait_for("the programs' end", SOON, || programs.iter().all(|id| !program_exists(*id)).then_some(()));
}

#[test]
fn attach_is_idempotent_and_detach_restores_the_interface() {
    let net = Net::new(1, Stack::Silent);
    let host = &net.hosts[0];
    let before = Remains::of(&host.namespace);
    assert_eq!(command(host, "show", &[]).ok().stdout.lines().count(), 1);
    let _ = command(host, "attach", &[&ALL[..], &["--ntp-field"]].concat()).ok();
    let first = shown(host);
    let three = [("correction", "xdp-generic"), ("timestamp", "tcx-ingress"), ("egress", "tcx-egress")];
    assert_eq!(places(&first), three);
    // Who makes this a port of a switch is told how to get rid of them.
    let doctor = run(&mut plimsoll(&host.namespace, &["doctor", INTERFACE]), SOON);
    assert!(doctor.stdout.contains(&format!("plimsoll host detach {INTERFACE}")), "{doctor:#?}");
    let settings = &first[1]["settings"];
    assert_eq!((&settings["delta_ns"], &settings["ect"]), (&100_000.0.into(), &0.into()), "{settings}");
    // Again: other programs in the place of the first ones, no more than before.
    let _ = command(host, "attach", &ALL).ok();
    let second = shown(host);
    assert_eq!(places(&second), three);
    gone(&ids(&first));
    // What is not asked for any more goes; another mode of XDP is another place.
    let _ = command(host, "attach", &["--delta", "1us", "--correction", "--xdp", "native"]).ok();
    let third = shown(host);
    assert_eq!(places(&third), [("correction", "xdp-native")]);
    gone(&ids(&second));
    let detached = command(host, "detach", &[]).ok();
    assert_eq!(detached.stdout, "eth0: detached correction\n");
    assert_eq!(Remains::of(&host.namespace), before);
    gone(&ids(&third));
    assert!(command(host, "detach", &[]).ok().stdout.contains("nothing"));
    assert_eq!(Remains::of(&host.namespace), before);
}

#[test]
fn mistakes_change_nothing_and_are_told_in_one_line() {
    let net = Net::new(1, Stack::Silent);
    let host = &net.hosts[0];
    let before = Remains::of(&host.namespace);
    for (arguments, code, part) in [
        (&["--delta", "60"][..], 2, "60us"),
        (&["--delta", "2s"], 2, "1ps to 1s"),
        (&["--delta", "60us", "--follow-up"], 2, "add correction"),
        (&["--delta", "60us", "--xdp", "native"], 2, "add correction"),
        (&["--delta", "60us", "--correction", "--ce", "290us"], 2, "add --timestamp"),
        (&["--delta", "60us", "--ect", "2"], 2, "--ect"),
        (&["--delta", "60us", "--counter-max", "0"], 2, "largest count"),
    ] {
        let output = command(host, "attach", arguments);
        assert_eq!((output.code(), output.stderr.lines().count()), (Some(code), 1), "{output:#?}");
        assert!(output.stderr.contains(part), "{part} in {output:#?}");
        assert_eq!(Remains::of(&host.namespace), before);
    }
    let absent = run(&mut plimsoll(&host.namespace, &["host", "attach", "nope", "--delta", "1us"]), SOON);
    assert_eq!(absent.code(), Some(1), "{absent:#?}");
    assert!(absent.stderr.contains("nope") && absent.stderr.contains("ENODEV"), "{absent:#?}");
}

/// Others' programs: the tap at XDP and at tc ingress.
fn taps(host: &Host) -> Ebpf {
    let run = || {
        let mut ebpf = EbpfLoader::new().map_max_entries(MAP_TAP_RECORDS, 1 << 16).load(TAP).unwrap();
        let xdp: &mut Xdp = ebpf.program_mut(PROGRAM_TAP).unwrap().try_into().unwrap();
        xdp.load().unwrap();
        xdp.attach(INTERFACE, XdpMode::Skb).unwrap();
        let tc: &mut SchedClassifier = ebpf.program_mut(PROGRAM_TAP_INGRESS).unwrap().try_into().unwrap();
        tc.load().unwrap();
        let last = TcAttachOptions::TcxOrder(LinkOrder::last());
        tc.attach_with_options(INTERFACE, TcAttachType::Ingress, last).unwrap();
        ebpf
    };
    host.namespace.run_in(run).unwrap()
}

#[test]
fn programs_of_others_stay_and_are_named() {
    let net = Net::new(1, Stack::Silent);
    let host = &net.hosts[0];
    let empty = Remains::of(&host.namespace);
    let taps = taps(host);
    let before = Remains::of(&host.namespace);
    let refused = command(host, "attach", &ALL);
    assert_eq!(refused.code(), Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("XDP program plimsoll_tap (id "), "{refused:#?}");
    assert_eq!(Remains::of(&host.namespace), before, "half of it was attached");
    let _ = command(host, "attach", &["--delta", DELTA]).ok();
    assert_eq!(places(&shown(host)), [("timestamp", "tcx-ingress")]);
    let _ = command(host, "detach", &[]).ok();
    assert_eq!(Remains::of(&host.namespace), before);
    drop(taps);
    wait_for("the taps' end", SOON, || (Remains::of(&host.namespace) == empty).then_some(()));
}

#[test]
fn a_killed_attach_leaves_what_detach_removes_and_attach_completes() {
    let net = Net::new(1, Stack::Silent);
    let host = &net.hosts[0];
    let before = Remains::of(&host.namespace);
    let began = Instant::now();
    let _ = command(host, "attach", &ALL).ok();
    let whole = began.elapsed();
    let _ = command(host, "detach", &[]).ok();
    let rounds = 24;
    for round in 0..rounds {
        let mut attach = plimsoll(&host.namespace, &[&["host", "attach", INTERFACE], &ALL[..]].concat());
        let process = Process::start(&mut attach);
        std::thread::sleep(whole.mul_f64(f64::from(round) / f64::from(rounds)));
        process.signal(Signal::KILL);
        let _ = process.end(SOON);
        if round % 2 == 0 {
            let _ = command(host, "attach", &ALL).ok();
            assert_eq!(ids(&shown(host)).len(), 3, "round {round}");
        }
        let _ = command(host, "detach", &[]).ok();
        assert_eq!(Remains::of(&host.namespace), before, "round {round}");
    }
}

#[test]
fn shims_end_with_their_interface() {
    let net = Net::new(1, Stack::Silent);
    let host = &net.hosts[0];
    let _ = command(host, "attach", &ALL).ok();
    let programs = ids(&shown(host));
    net.part(0);
    gone(&programs);
}

/// Sends an NTP request from one host to another by sockets of theirs; what came.
fn ask(from: &Host, to: &Host, addresses: [IpAddr; 2], request: &[u8]) -> Vec<u8> {
    let socket = |host: &Host, address: IpAddr| {
        let socket = host.namespace.run_in(|| UdpSocket::bind((address, 123)).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    };
    let (here, there) = (socket(from, addresses[0]), socket(to, addresses[1]));
    let mut buffer = [0; 256];
    let length = wait_for("the request", SOON, || {
        here.send_to(request, (addresses[1], 123)).unwrap();
        there.recv(&mut buffer).ok()
    });
    buffer[..length].to_vec()
}

#[test]
fn requests_of_sockets_get_the_field_whatever_the_offloads() {
    let net = Net::new(2, Stack::Addressed);
    // veth hands partial sums on; without this offload of the port they are completed where a frame leaves it.
    net.ethtool_port(1, &["tx", "off"]);
    let switch = Switch::start(&net, &["--port", "p0", "--port", "p1"]);
    let (a, b) = (&net.hosts[0], &net.hosts[1]);
    let _ = command(a, "attach", &["--delta", DELTA, "--ntp-field", "--ect", "1"]).ok();
    let bare = Ntp { mode: 3, tail: Tail::Plain }.octets();
    let keyed = Ntp { mode: 3, tail: Tail::Mac }.octets();
    let capture = b.capture_of("udp port 123");
    for offload in ["on", "off"] {
        a.run("ethtool", &["-K", INTERFACE, "tx", offload]);
        for addresses in [[a.v4.into(), b.v4.into()], [a.v6.into(), b.v6.into()]] {
            // The receiving host drops what has a wrong sum.
            let came = ask(a, b, addresses, &bare);
            assert_eq!(came, Ntp { mode: 3, tail: Tail::Field(0) }.octets(), "{addresses:?}, tx {offload}");
            assert_eq!(ask(a, b, addresses, &keyed), keyed, "{addresses:?}, tx {offload}");
        }
    }
    capture.until("requests", 8, |_| true);
    let captured = capture.stop();
    let bad =
        captured.tshark("udp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"", &["frame.number"]);
    assert_eq!(bad, Vec::<String>::new());
    let ect = captured.tshark("ip.dsfield.ecn == 1 || ipv6.tclass.ecn == 1", &["frame.number"]);
    assert!(ect.len() >= 8, "{ect:?}");
    assert_eq!(captured.tshark("ip.dsfield.ecn == 0 || ipv6.tclass.ecn == 0", &["frame.number"]), ect[..0]);
    let _ = switch.stop().ok();
}
