//! Flows over a real cable: the rate on the wire as the interface counts it, and losses as the queue that made them
//! counts them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::{Cable, ONE, TWO};
use plimsoll_core::{Rate, config::WIRE_OVERHEAD};
use plimsoll_lab::traffic::{FlowKind, FlowReport, FlowSpec, PaperFlow, Sink, SizeDistribution, Source};
use plimsoll_port::netlink::{Counters, Netlink};
use std::{
    net::SocketAddr,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

fn run(cable: &Cable, spec: FlowSpec, target: &str, time: Duration) -> FlowReport {
    let target: SocketAddr = target.parse().unwrap();
    let name = spec.name.clone();
    let mut sink = cable.two.run_in(|| Sink::open(name, target).unwrap()).unwrap();
    let mut source = cable.one.run_in(|| Source::open(spec, target).unwrap()).unwrap();
    let (stop_source, stop_sink) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let received = scope.spawn(|| sink.run(&stop_sink).unwrap());
        let sent = scope.spawn(|| source.run(&stop_source).unwrap());
        thread::sleep(time);
        stop_source.store(true, Ordering::Relaxed);
        let sent = sent.join().unwrap();
        stop_sink.store(true, Ordering::Relaxed);
        FlowReport::new(&sent, &received.join().unwrap())
    })
}

/// What the source sent while the machine let it: a busy one holds it up, and its schedule moves.
fn scheduled_bps(report: &FlowReport, time: Duration) -> f64 {
    let time_ns = time.as_nanos() as f64;
    report.offered_bps * time_ns / (time_ns - report.stalled_ns as f64)
}

fn counters(cable: &Cable) -> Counters {
    Netlink::open_in(&cable.two).unwrap().link(TWO).unwrap().counters
}

#[test]
fn a_flow_takes_the_wire_that_it_reports_over_both_families() {
    for target in ["10.77.0.2:5001", "[fd00:77::2]:5001"] {
        let cable = Cable::new();
        let mut spec = FlowSpec::paper("cross", PaperFlow::Sm, Rate(40_000_000), 5);
        spec.seed = 11;
        // The neighbour is found before the flow begins, so that the interface counts nothing else.
        run(&cable, spec.clone(), target, Duration::from_millis(100));
        let before = counters(&cable);
        let time = Duration::from_secs(2);
        let report = run(&cable, spec, target, time);
        let after = counters(&cable);
        println!("{report:?}");
        assert_eq!(report.lost_frames, 0);
        assert_eq!((report.reordered_frames, report.duplicate_frames, report.lost_in_sink), (0, 0, 0));
        let frames = after.rx_packets - before.rx_packets;
        // A few frames of ARP, neighbour discovery or MLD may be among them.
        assert!((0..=8).contains(&frames.wrapping_sub(report.received_frames)), "{frames} {report:?}");
        // 2 s of a Poisson flow of 3333 frames a second: five standard errors are 9 %.
        assert!((scheduled_bps(&report, time) / 20e6 - 1.0).abs() < 0.09, "{report:?}");
        assert!((report.delivered_bps / report.offered_bps - 1.0).abs() < 0.02, "{report:?}");
    }
}

#[test]
fn frames_have_the_octets_that_were_asked_for() {
    for (octets, target) in [(60, "10.77.0.2:5001"), (1514, "10.77.0.2:5001"), (512, "[fd00:77::2]:5001")] {
        let cable = Cable::new();
        let spec = FlowSpec {
            name: "fixed".into(),
            kind: FlowKind::Constant,
            rate: Rate(20_000_000),
            size: SizeDistribution::frame(octets),
            seed: 1,
            mtu: 1500,
            dscp: 0,
            cycle: None,
        };
        run(&cable, spec.clone(), target, Duration::from_millis(100));
        let before = counters(&cable);
        let time = Duration::from_secs(1);
        let report = run(&cable, spec, target, time);
        let after = counters(&cable);
        let (frames, bytes) = (after.rx_packets - before.rx_packets, after.rx_bytes - before.rx_bytes);
        let others = frames - report.received_frames;
        assert!(others <= 8, "{frames} {report:?}");
        let own = report.received_frames * u64::from(octets);
        assert!((own..=own + others * 200).contains(&bytes), "{octets}: {bytes} of {frames}, {report:?}");
        let asked = 1e9 * 20e6 / (f64::from(octets + WIRE_OVERHEAD) * 8e9);
        // It never sends more than was asked; fewer only for a flow that the stop cut.
        assert!(report.sent_frames as f64 <= asked * 1.2, "{report:?}");
        // The time that a source ran is known to the sleep from which it looks whether to stop.
        let tolerance = 0.01 + 0.05 * report.stalled_ns as f64 / time.as_nanos() as f64;
        assert!((scheduled_bps(&report, time) / 20e6 - 1.0).abs() < tolerance, "{report:?}");
    }
}

#[test]
fn losses_are_those_of_the_queue_that_made_them() {
    let cable = Cable::new();
    let tc = |args: &[&str]| {
        let mut command = Command::new("tc");
        cable.one.enter_command(&mut command);
        let output = command.args(args).output().expect("tc (Debian package iproute2)");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let spec = FlowSpec {
        name: "over".into(),
        kind: FlowKind::Poisson,
        rate: Rate(20_000_000),
        size: SizeDistribution::frame(1000),
        seed: 1,
        mtu: 1500,
        dscp: 0,
        cycle: None,
    };
    run(&cable, spec.clone(), "10.77.0.2:5001", Duration::from_millis(100));
    tc(&["qdisc", "add", "dev", ONE, "root", "tbf", "rate", "10mbit", "burst", "3000", "limit", "20000"]);
    let report = run(&cable, spec, "10.77.0.2:5001", Duration::from_secs(2));
    let said = tc(&["-s", "qdisc", "show", "dev", ONE]);
    let dropped: u64 = said
        .split_once("(dropped ")
        .and_then(|(_, rest)| rest.split(',').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    println!("{report:?} {said}");
    assert!(dropped > 100, "{said}");
    // A few frames of ARP, neighbour discovery or MLD may be among them.
    assert!((0..=8).contains(&dropped.wrapping_sub(report.lost_frames)), "{report:?} {said}");
    assert_eq!(report.lost_in_sink, 0);
    // The token bucket counts 1000 octets a frame, the wire 1024.
    assert!((report.delivered_bps / 10.24e6 - 1.0).abs() < 0.02, "{report:?}");
    assert!(report.latency.p50_ns > 5_000_000, "a full queue: {report:?}");
}
