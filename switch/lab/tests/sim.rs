//! The simulator against theory and against itself, in virtual time only.
#![allow(clippy::unwrap_used)]

use plimsoll_core::{Nanos, PortId, wire::identity::TimeMessage};
use plimsoll_lab::lab::Silent;
use plimsoll_lab::record::Sink;
use plimsoll_lab::results::Outcome;
use plimsoll_lab::sim::{SimOptions, repeat, run};
use plimsoll_lab::topology::{Overrides, Topology};
use plimsoll_port::worker::{Fate, Record};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Port of s1 to `b`, behind which everything waits.
const TO_B: PortId = PortId(1);

/// Hosts `a`, `b` and `c` at one switch; only the link to `b` has a rate.
fn network(duration: u32, more: &str) -> Topology {
    Topology::parse("net.toml", &text(duration, more), &Overrides::default()).unwrap()
}

fn text(duration: u32, more: &str) -> String {
    format!(
        r#"duration = "{duration}s"
warmup = "1s"
[switch.s1]
[host.a]
[host.b]
[host.c]
[[link]]
between = ["a", "s1"]
[[link]]
between = ["b", "s1"]
rate = "100mbit"
queue = "20MB"
[[link]]
between = ["c", "s1"]
{more}"#
    )
}

fn simulate(topology: &Topology, sinks: Vec<&mut dyn Sink>) -> Outcome {
    let options = SimOptions { sinks, ..SimOptions::default() };
    let outcome = run(topology, options, &Silent, &AtomicBool::new(false)).unwrap().outcome;
    assert_eq!(outcome.failed, Vec::<String>::new());
    assert!(outcome.frames_conserved);
    outcome
}

/// Waits of frames at the port to `b`, in microseconds, by traffic class.
#[derive(Default)]
struct Waits([Vec<f64>; 8]);

impl Sink for Waits {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        if let Fate::Sent(sent) = &record.fate
            && record.egress == Some(TO_B)
            && record.arrived > Nanos(1_000_000_000)
        {
            let wait = sent.start.since(record.arrived);
            // The depth at enqueue is the wait, to the nanosecond to which starts are rounded, where nothing overtakes.
            if sent.class > 1 || self.0[5].is_empty() {
                assert!(wait.abs_diff(sent.depth_ps.div_ceil(1000)) <= 1, "{record:?}");
            }
            self.0[usize::from(sent.class)].push(wait as f64 / 1e3);
        }
        Ok(())
    }
}

/// Mean and its standard error by batch means: neighbours are correlated, batches of many relaxation times hardly are.
fn batch_means(values: &[f64]) -> (f64, f64) {
    const BATCHES: usize = 40;
    let means: Vec<f64> = values
        .chunks_exact(values.len() / BATCHES)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Within three standard errors, which must be small enough to say something.
fn agrees(what: &str, values: &[f64], expected: f64) {
    let (mean, error) = batch_means(values);
    assert!(error < 0.03 * expected, "{what}: {mean} +- {error} us says little of {expected}");
    assert!((mean - expected).abs() < 3.0 * error, "{what}: {mean} +- {error} us, expected {expected}");
}

#[test]
fn m_m_1_waits_are_those_of_theory() {
    // 5000 octets on the wire in the mean, 400 us: what no frame can be (below 84, beyond 65,535) changes the mean wait
    // by 0.02 %.
    let flow = r#"[[flow]]
from = "a"
to = "b"
load = 0.8
size = "4962B"
sizes = "exponential"
uncapped = true"#;
    let mut waits = Waits::default();
    simulate(&network(600, flow), vec![&mut waits]);
    let waits = &waits.0[1];
    agrees("M/M/1 mean wait", waits, 0.8 / 0.2 * 400.0);
    // The whole law: P(W > t) = rho e^(-(1 - rho) t / E[S]), with an atom at 0.
    for (t, share) in [(0.0, 0.8), (2000.0, 0.8 * (-1.0f64).exp()), (6000.0, 0.8 * (-3.0f64).exp())] {
        let beyond: Vec<f64> = waits.iter().map(|wait| f64::from(u8::from(*wait > t))).collect();
        agrees(&format!("M/M/1 share beyond {t} us"), &beyond, share);
    }
}

#[test]
fn m_d_1_waits_are_pollaczek_s_and_khinchine_s() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nload = 0.8\nsize = \"1500B\"";
    let mut waits = Waits::default();
    simulate(&network(100, flow), vec![&mut waits]);
    // 1538 octets on the wire: 123.04 us.
    agrees("M/D/1 mean wait", &waits.0[1], 0.8 * 123.04 / (2.0 * 0.2));
}

#[test]
fn two_classes_wait_as_cobham_says() {
    let flow = |name: &str, from: &str, load: f64, size: u32, dscp: u8| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"b\"\nload = {load}\nsize = \"{size}B\"\ndscp = {dscp}\n"
        )
    };
    let flows = flow("high", "a", 0.3, 500, 46) + &flow("low", "c", 0.45, 1500, 0);
    let mut waits = Waits::default();
    simulate(&network(150, &flows), vec![&mut waits]);
    // 538 and 1538 octets on the wire. What is in service: half a frame each, with its probability.
    let (high, low) = (43.04, 123.04);
    let rest = 0.3 * high / 2.0 + 0.45 * low / 2.0;
    agrees("higher class", &waits.0[5], rest / (1.0 - 0.3));
    agrees("lower class", &waits.0[1], rest / ((1.0 - 0.3) * (1.0 - 0.75)));
}

/// A flow that runs for a part of the time: both rates are of that part.
#[test]
fn what_a_flow_offers_and_what_is_delivered_are_of_its_own_time() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nload = 0.6\nsize = \"1500B\"\n\
                cycle = { start = \"3s\", on = \"4s\", off = \"60s\" }";
    let outcome = simulate(&network(20, flow), Vec::new());
    let flow = &outcome.flows[0];
    assert!((flow.offered_bps / 60e6 - 1.0).abs() < 0.03, "{flow:?}");
    assert!((flow.delivered_bps / flow.offered_bps - 1.0).abs() < 0.001, "{flow:?}");
}

#[test]
fn an_overloaded_port_loses_what_its_queue_cannot_hold() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nload = 1.5\nsize = \"1500B\"";
    let mut topology = network(5, flow);
    topology.switches[0].config.ports[1].queue_bytes = Some(15_380);
    let mut dropped = Dropped::default();
    let outcome = simulate(&topology, vec![&mut dropped]);
    let (flow, port) = (&outcome.flows[0], &outcome.ports[1]);
    assert_eq!(flow.received_frames + flow.lost_frames, flow.sent_frames);
    assert_eq!(flow.lost_frames, dropped.0, "every loss has its record");
    assert!((flow.lost_frames as f64 / flow.sent_frames as f64 - 1.0 / 3.0).abs() < 0.02, "{flow:?}");
    assert!((flow.delivered_bps / 100e6 - 1.0).abs() < 0.01, "{flow:?}");
    // Ten in the queue and one in service.
    assert!(port.depth_bytes.max <= 11 * 1538 && port.dropped > 0, "{port:?}");
}

#[test]
fn overloading_flows_share_a_link_in_proportion_to_their_quanta() {
    let flow = |name: &str, from: &str, load: f64, size: u32, dscp: u8| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"b\"\nload = {load}\nsize = \"{size}B\"\ndscp = {dscp}\n"
        )
    };
    // Classes 1 and 2 by quanta of 1:3, with frames of other sizes; class 5 above them.
    let flows = flow("one", "a", 0.9, 1500, 0)
        + &flow("three", "c", 0.9, 300, 16)
        + &flow("strict", "a", 0.2, 500, 46);
    let quanta = "queue = \"200kB\"\nquanta = [\"1kB\", \"1kB\", \"3kB\"]";
    let text = text(5, &flows).replace("queue = \"20MB\"", quanta);
    let topology = Topology::parse("net.toml", &text, &Overrides::default()).unwrap();
    let outcome = simulate(&topology, Vec::new());
    for (flow, expected) in outcome.flows.iter().zip([20e6, 60e6, 20e6]) {
        assert!((flow.delivered_bps / expected - 1.0).abs() < 0.02, "{flow:?}");
    }
    assert_eq!(outcome.flows[2].lost_frames, 0, "bulk takes no room of a strict class");
}

#[derive(Default)]
struct Dropped(u64);

impl Sink for Dropped {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        self.0 += u64::from(matches!(record.fate, Fate::Dropped(_)));
        Ok(())
    }
}

#[test]
fn an_uplink_is_a_queue_before_the_switch() {
    // The paper's flow crosses its host's own link first: frames that come out of it are spaced by that, so that at the
    // switch's link of the same rate they wait for the slower frame before them only.
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nload = 0.8\nsize = \"1500B\"";
    let mut topology = network(20, flow);
    topology.hosts[0].uplink = Some("100mbit".parse().unwrap());
    let mut waits = Waits::default();
    let outcome = simulate(&topology, vec![&mut waits]);
    // Equal frames never wait behind a link as fast as the one that they come by.
    assert!(waits.0[1].iter().all(|wait| *wait == 0.0));
    // They wait at the uplink instead: M/D/1, and 123.04 us on each link, with 100 us of pipeline latency.
    let latency = outcome.flows[0].latency.mean_ns / 1e3;
    let expected = 0.8 * 123.04 / (2.0 * 0.2) + 2.0 * 123.04 + 100.0;
    assert!((latency / expected - 1.0).abs() < 0.03, "{latency} us, expected {expected}");
    // A queue that overflows is the host's own loss.
    topology.flows[0].spec.rate = "300mbit".parse().unwrap();
    let outcome = simulate(&topology, Vec::new());
    assert!(outcome.hosts[0].tx_dropped > 0);
    assert_eq!(outcome.hosts[0].tx_dropped, outcome.flows[0].lost_frames);
}

#[test]
fn the_papers_flows_show_what_the_paper_observed() {
    // Table III's lambda_o, times ten at a tenth of the rate: the mean wait of the packets that waited, where sizes are
    // those of the payload, not cut at the MTU, and cross the host's own link first. Where mu is all that the link carries,
    // 66 octets are missing around each: 1.6 to 3.5 % less.
    for (name, rho, lambda_us) in [("LM", 0.70, 204.0), ("SM", 0.54, 125.0), ("SS", 0.37, 86.0)] {
        let flow = format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\npaper = \"{name}\"\nuncapped = true\npayload = true"
        );
        let mut topology = network(200, &flow);
        topology.hosts[0].uplink = Some("100mbit".parse().unwrap());
        let mut waits = Waits::default();
        let outcome = simulate(&topology, vec![&mut waits]);
        let waited: Vec<f64> = waits.0[1].iter().copied().filter(|wait| *wait > 0.002).collect();
        let mean = waited.iter().sum::<f64>() / waited.len() as f64;
        assert!((mean / lambda_us - 1.0).abs() < 0.03, "{name}: {mean} us, the paper has {lambda_us}");
        // rho_o does not count the gap of 12 octets between packets; what a flow sent includes 1 s of settling.
        let flow = &outcome.flows[0];
        let load = flow.offered_bps / 1e8 - flow.sent_frames as f64 * 96.0 / 201.0 / 1e8;
        assert!((load / rho - 1.0).abs() < 0.03, "{name}: {load}, the paper has {rho}");
    }
}

fn clock(transport: &str) -> String {
    format!("[[clock]]\nserver = \"a\"\nclient = \"b\"\ntransport = \"{transport}\"\n")
}

#[test]
fn on_idle_links_every_transport_measures_exactly_nothing() {
    for transport in ["l2", "udp4", "udp6", "ntp4", "ntp6"] {
        let mut topology = network(5, &clock(transport));
        // Both directions alike.
        for port in &mut topology.switches[0].config.ports {
            port.rate = Some("100mbit".parse().unwrap());
        }
        let outcome = simulate(&topology, Vec::new());
        let report = &outcome.clocks[0].report;
        assert!((310..=330).contains(&report.samples), "{transport}: {report:?}");
        // A Sync that meets a Delay_Resp, or the reverse, waits for it: PTP's own messages are the only traffic.
        let error =
            if transport.starts_with("ntp") { report.raw.abs_max_ns } else { report.raw.abs_median_ns };
        assert_eq!(error, 0.0, "{transport}: {report:?}");
        let counters = outcome.clocks[0].counters;
        assert_eq!((counters.invalid_words, counters.ignored), (0, 0), "{transport}");
    }
}

#[test]
fn peers_measure_exactly_nothing_on_idle_links_and_one_delta_of_each_wait_on_others() {
    let load =
        "[marking]\ndelta = \"10us\"\nthresholds = 1000\n[[flow]]\nfrom = \"c\"\nto = \"b\"\nload = 0.8\n";
    for (transport, compensation) in [("l2", "clock"), ("udp4", "clock"), ("udp6", "clock"), ("l2", "edge")] {
        let keys = format!("{}delay-mechanism = \"p2p\"\n", clock(transport));
        let passing = |text: &str| {
            let text = text.replace("\"s1\"]\n", "\"s1\"]\npass = [\"0e\"]\n");
            Topology::parse("net.toml", &text, &Overrides::default()).unwrap()
        };
        let mut idle = passing(&text(5, &keys));
        for port in &mut idle.switches[0].config.ports {
            port.rate = Some("100mbit".parse().unwrap());
        }
        let report = simulate(&idle, Vec::new()).clocks[0].report.clone();
        // A Sync is shorter than the messages of peer delay by 10 octets, 800 ns on the one link each way that has a rate, where it is not
        // padded; over Ethernet both are 60 and 68 octets long.
        let shorter = if transport == "l2" { 8.0 } else { 10.0 } * 80.0;
        assert!(report.samples > 300, "{transport}: {report:?}");
        assert!((report.raw.median_ns + shorter).abs() <= 1.0, "{transport}: {report:?}");
        let keys = format!("{keys}compensation = \"{compensation}\"\n");
        let report =
            simulate(&passing(&text(20, &format!("{load}{keys}"))), Vec::new()).clocks[0].report.clone();
        // A Sync's wait enters in full, less half of an answer's: each to one delta.
        assert!(report.raw_rms_ns > 200_000.0, "{transport}: {report:?}");
        assert!(report.compensated.deviation_ns < 5_000.0, "{transport}, {compensation}: {report:?}");
    }
}

#[test]
fn what_is_authenticated_profits_by_one_threshold_of_ecn() {
    // The best single threshold of an exponential law is at 1.41 means, and takes 36 % of an rms.
    let load = "[marking]\necn-threshold = \"470us\"\n[[flow]]\nfrom = \"c\"\nto = \"b\"\nload = 0.8\n";
    let keys = "daemon = \"chronyd\"\nsecurity = \"nts\"\n";
    let text = text(60, &format!("{load}{}{keys}", clock("ntp4")))
        .replace("\"s1\"]\n", "\"s1\"]\nremark = \"ect0\"\n");
    let topology = Topology::parse("net.toml", &text, &Overrides::default()).unwrap();
    let report = simulate(&topology, Vec::new()).clocks[0].report.clone();
    assert!((0.3..0.42).contains(&report.improvement), "{report:?}");
    assert!(report.saturated > 0, "{report:?}");
}

#[test]
fn marks_tell_each_wait_to_one_delta_over_every_transport_and_by_an_edge() {
    let load =
        "[marking]\ndelta = \"10us\"\nthresholds = 1000\n[[flow]]\nfrom = \"c\"\nto = \"b\"\nload = 0.8\n";
    let ways = [
        ("l2", "clock", 84),
        ("udp4", "clock", 110),
        ("udp6", "clock", 132),
        ("ntp4", "clock", 142),
        ("ntp6", "clock", 162),
        ("udp4", "edge", 110),
    ];
    for (transport, compensation, wire) in ways {
        let clock = format!("{}compensation = \"{compensation}\"\n", clock(transport));
        let outcome = simulate(&network(20, &format!("{load}{clock}")), Vec::new());
        let report = &outcome.clocks[0].report;
        assert_eq!(report.saturated, 0);
        // Waits of 246 us in the mean, one way only, half of each an error. Its mark leaves what lies between two
        // thresholds, 10 us of even law (5 us after halving, 1.44 us of deviation), and nothing of a wait that is 0.
        assert!(report.raw_rms_ns > 100_000.0, "{transport}: {report:?}");
        let spread = report.compensated.deviation_ns;
        assert!((1_300.0..2_100.0).contains(&spread), "{transport}, {compensation}: {report:?}");
        // Beside half a delta at most there is half the time on the one link with a rate: constant, not the marks' to
        // remove.
        let constant = f64::from(wire) * 80.0 / 2.0;
        let marks = report.compensated.abs_max_ns - constant;
        assert!((4_500.0..=5_000.0).contains(&marks), "{transport}, {compensation}: {report:?}");
    }
}

#[test]
fn a_transparent_clock_leaves_nothing_at_all() {
    let load = "[[flow]]\nfrom = \"c\"\nto = \"b\"\nload = 0.8\n";
    for transport in ["l2", "udp4", "udp6"] {
        let mut topology = network(10, &format!("{load}{}", clock(transport)));
        for port in &mut topology.switches[0].config.ports {
            port.transparent_clock = true;
        }
        let mut told = Told::default();
        let report = simulate(&topology, vec![&mut told]).clocks[0].report.clone();
        assert_eq!(report.compensated.abs_max_ns, 0.0, "{transport}: {report:?}");
        assert!(told.0 > 2 * report.samples as u64 && told.1 == 0, "{told:?}");
    }
}

/// Event messages with their residence in correctionField, and those without.
#[derive(Debug, Default)]
struct Told(u64, u64);

impl Sink for Told {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        if let (Fate::Sent(sent), Some(TimeMessage::Ptp(_))) = (&record.fate, record.message) {
            let whole = sent.released.since(record.stamp) as i64;
            let told = sent.corrected && sent.residence_ns == Some(whole);
            *(if told { &mut self.0 } else { &mut self.1 }) += 1;
        }
        Ok(())
    }
}

#[test]
fn a_seed_repeats_to_the_last_digit_alone_or_beside_others() {
    let topology = Topology::load(
        "three-hop",
        &Overrides { duration: Some(Duration::from_secs(1)), ..Overrides::default() },
    );
    let topology = topology.unwrap();
    let text = |outcome: &Outcome| serde_json::to_string(outcome).unwrap();
    let alone: Vec<_> = (1..=3).map(|seed| text(&simulate(&topology.with_seed(seed), Vec::new()))).collect();
    let (beside, _) = repeat(&topology, 3, &AtomicBool::new(false)).unwrap();
    let beside: Vec<_> = beside.runs.iter().map(text).collect();
    assert_eq!(alone, beside);
    assert_ne!(alone[0].replace("\"seed\":1", ""), alone[1].replace("\"seed\":2", ""));
}

#[test]
fn an_interrupted_repetition_begins_no_further_run() {
    let topology = Topology::load("idle", &Overrides::default()).unwrap();
    let (repeated, _) = repeat(&topology, u32::MAX as usize, &AtomicBool::new(true)).unwrap();
    assert_eq!((repeated.runs.len(), repeated.exit_code()), (0, 1));
    assert!(repeated.to_string().contains("failed: interrupted after 0 of 4294967295 runs"));
}

/// Every record as one number (FNV-1a over its fields).
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, number: u64) {
        for octet in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

impl Sink for Fingerprint {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        self.add(u64::from(record.switch) << 32 | u64::from(record.len));
        self.add(record.arrived.0);
        if let Fate::Sent(sent) = &record.fate {
            self.add(sent.depth_ps);
            self.add(sent.end.0);
            self.add(u64::from(sent.mark.before) << 32 | u64::from(sent.mark.after));
        }
        Ok(())
    }
}

/// The same figures on every machine, today and next year: a change that moves them says so here.
#[test]
fn figures_are_pinned() {
    let overrides = Overrides { duration: Some(Duration::from_secs(2)), ..Overrides::default() };
    let topology = Topology::load("three-hop", &overrides).unwrap();
    let mut fingerprint = Fingerprint(0xCBF2_9CE4_8422_2325);
    let outcome = simulate(&topology, vec![&mut fingerprint]);
    let report = &outcome.clocks[0].report;
    let sent: Vec<_> = outcome.flows.iter().map(|flow| flow.sent_frames).collect();
    assert_eq!(
        (fingerprint.0, report.raw_rms_ns.to_bits(), report.compensated_rms_ns.to_bits(), sent),
        (
            10_309_707_717_841_664_864,
            4_681_835_578_781_249_358,
            4_661_298_112_425_522_321,
            vec![30590, 37845, 42544, 42440, 37807, 30374]
        )
    );
}

#[test]
fn vlans_part_hosts_and_cross_a_trunk_with_their_marks() {
    let mut text =
        "duration = \"5s\"\nwarmup = \"1s\"\n[marking]\ndelta = \"60us\"\n[switch.s1]\n[switch.s2]\n"
            .to_owned();
    for (host, switch, vlan) in [("a", "s1", 10), ("b", "s1", 20), ("c", "s2", 10), ("d", "s2", 20)] {
        text += &format!(
            "[host.{host}]\n[[link]]\nbetween = [\"{host}\", \"{switch}\"]\nvlan = {{ access = {vlan} }}\n"
        );
    }
    text += "[[link]]\nbetween = [\"s1\", \"s2\"]\nrate = \"100mbit\"\nvlan = { trunk = [10, 20] }\n";
    for (from, to, load) in [("a", "c", 0.4), ("b", "d", 0.3), ("a", "d", 0.1)] {
        text += &format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nload = {load}\nsize = \"1500B\"\n");
    }
    for transport in ["l2", "udp4", "udp6", "ntp4"] {
        text += &format!(
            "[[clock]]\nname = \"{transport}\"\nserver = \"a\"\nclient = \"c\"\ntransport = \"{transport}\"\n"
        );
    }
    let mut longest = Longest::default();
    let topology = Topology::parse("net.toml", &text, &Overrides::default()).unwrap();
    let options = SimOptions { sinks: vec![&mut longest], ..SimOptions::default() };
    let outcome = run(&topology, options, &Silent, &AtomicBool::new(false)).unwrap().outcome;
    assert!(outcome.frames_conserved);
    // What one who mixes VLANs up is told.
    let [failed] = &outcome.failed[..] else { panic!("{:?}", outcome.failed) };
    assert!(failed.starts_with("flow flow2: ") && failed.contains("none received"), "{failed}");
    let [own, other, across] = &outcome.flows[..] else { panic!() };
    assert_eq!((own.lost_frames, other.lost_frames, across.received_frames), (0, 0, 0));
    assert!(own.received_frames > 1000 && other.received_frames > 1000 && across.sent_frames > 300);
    // A tag on the trunk, none behind it.
    assert_eq!(longest.0, [1518, 1514]);
    for clock in &outcome.clocks {
        let report = &clock.report;
        assert!(report.samples > 10 && report.improvement > 0.5, "{report:?}");
    }
}

/// The longest frame that leaves by the link between two switches, and by the other's.
#[derive(Default)]
struct Longest([u32; 2]);

impl Sink for Longest {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        if let Fate::Sent(_) = &record.fate {
            let longest = &mut self.0[usize::from(record.switch)];
            *longest = record.len.max(*longest);
        }
        Ok(())
    }
}
