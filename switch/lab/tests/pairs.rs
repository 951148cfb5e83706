//! Clock pairs of labs with real frames: chronyd and ptp4l behind host shims, NTP and peer delay of the built-in clock, and
//! counts that a host forges.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bare, message};
use plimsoll_lab::clock::{
    Client, ClientConfig, MarkScale, PortIdentity, Saturation, Transport, message::Body,
};
use plimsoll_lab::clock::{ClockSample, Recording, message::Message, message::flags};
use plimsoll_lab::lab::{self, Lab, RunOptions, Silent};
use plimsoll_lab::results::{ClockOutcome, Outcome};
use plimsoll_lab::topology::{Overrides, Topology};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Servers on one side of a congested trunk, clients on the other; `link` are keys of every host's link.
fn trunk(pairs: &[&str], link: &str, clocks: &str) -> String {
    let mut text = "duration = \"4s\"\n[marking]\ndelta = \"20us\"\nthresholds = 128\necn-threshold = \"290us\"\n[switch.s1]\n\
                    [switch.s2]\n[host.load]\n[host.sink]\n[[link]]\nbetween = [\"s1\", \"s2\"]\nrate = \"100mbit\"\n"
        .to_owned()
        // Hosts' own packets are remarked where they come in.
        + if link.starts_with("remark") { "" } else { link }
        + "[[link]]\nbetween = [\"load\", \"s1\"]\n[[link]]\nbetween = [\"sink\", \"s2\"]\n[[flow]]\nfrom = \"load\"\n\
           to = \"sink\"\nload = 0.8\n";
    for pair in pairs {
        text += &format!("[host.{pair}-a]\n[host.{pair}-b]\n");
    }
    for pair in pairs {
        text += &format!(
            "[[link]]\nbetween = [\"{pair}-a\", \"s1\"]\n{link}[[link]]\nbetween = [\"{pair}-b\", \"s2\"]\n{link}"
        );
    }
    text + clocks
}

fn pair(name: &str, keys: &str) -> String {
    format!("[[clock]]\nname = \"{name}\"\nserver = \"{name}-a\"\nclient = \"{name}-b\"\n{keys}\n")
}

/// Runs a lab. NTP's times are as late as the machine is, so that what is asked of them is not how small they are.
fn measured(name: &str, text: &str) -> Outcome {
    let topology = Topology::parse(&format!("{name}.toml"), text, &Overrides::default()).unwrap();
    let outcome = lab::run(topology, &RunOptions::default(), &Silent, &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.failed, Vec::<String>::new(), "{outcome}");
    outcome
}

/// How much smaller the median of the absolute error became: of PTP, whose messages tell how late the machine let them go.
fn gained(clock: &ClockOutcome) -> f64 {
    1.0 - clock.report.compensated.abs_median_ns / clock.report.raw.abs_median_ns
}

/// Median of how far a clock's own measurements are from what its marks, seen by the taps, make of the taps' times.
fn apart_ns(clock: &ClockOutcome, delta_ns: f64) -> f64 {
    let apart = |sample: &ClockSample| {
        let marks = (f64::from(sample.n_sync) - f64::from(sample.n_delay)) * delta_ns / 2.0;
        (sample.raw_ns - marks - sample.compensated_ns).abs()
    };
    let mut apart: Vec<f64> = clock.samples.iter().map(apart).collect();
    apart.sort_by(f64::total_cmp);
    apart[apart.len() / 2]
}

#[test]
fn chronyd_behind_shims_measures_by_the_marks_in_every_mode_and_says_where_its_clock_is() {
    let clocks = pair("plain", "daemon = \"chronyd\"")
        + &pair("xleave", "daemon = \"chronyd\"\ninterleaved = true\ntransport = \"ntp6\"")
        + &pair("keyed", "daemon = \"chronyd\"\nsecurity = \"key\"")
        + &pair("nts", "daemon = \"chronyd\"\nsecurity = \"nts\"")
        + &pair("bare", "daemon = \"chronyd\"\ncompensation = \"none\"");
    let text = trunk(&["plain", "xleave", "keyed", "nts", "bare"], "remark = \"ect0\"\n", &clocks);
    let outcome = measured("shims", &text);
    for clock in &outcome.clocks {
        let name = clock.report.name.as_str();
        // One request a second where answers take long.
        assert!(clock.report.samples > 20, "{outcome}");
        assert!(clock.logged.as_ref().is_some_and(|logged| logged.lines > 3), "{outcome}");
        assert_eq!(clock.report.raw == clock.report.compensated, name == "bare", "{name}: {outcome}");
        let marked = clock.samples.iter().filter(|sample| sample.n_sync > 0).count();
        // The field is there with help only. CE is of all, for what hosts send becomes ECN-capable on its way.
        assert_eq!(marked > 0, name != "bare", "{name}: {marked} marked; {outcome}");
        // Of interleaved mode a measurement is made of times of two exchanges.
        let delta_ns = if matches!(name, "keyed" | "nts") { 290_000.0 } else { 20_000.0 };
        if !matches!(name, "bare" | "xleave") {
            assert!(
                apart_ns(clock, delta_ns) < 15_000.0,
                "{name}: {} ns; {outcome}",
                apart_ns(clock, delta_ns)
            );
        }
    }
    assert_eq!(outcome.clocks[1].report.transport, Transport::NtpV6);
    let told = outcome.to_string();
    assert!(told.contains("nts: chronyd's own tracking was off by "), "{told}");
}

#[test]
fn ptp4l_behind_shims_profits_by_timestamps_and_by_corrections() {
    let clocks = pair("udp", "daemon = \"ptp4l\"\ntransport = \"udp4\"\ncompensation = \"host\"")
        + &pair("l2", "daemon = \"ptp4l\"\ntransport = \"l2\"\ncompensation = \"host\"");
    let outcome = measured("ptp4l-shims", &trunk(&["udp", "l2"], "", &clocks));
    for clock in &outcome.clocks {
        assert!(clock.report.samples > 60 && gained(clock) > 0.5, "{outcome}");
    }
}

#[test]
fn the_built_in_clock_reads_marks_by_ntp_and_by_peer_delay() {
    let clocks = pair("ntp4", "transport = \"ntp4\"")
        + &pair("ntp6", "transport = \"ntp6\"")
        + &pair("peers", "transport = \"l2\"\ndelay-mechanism = \"p2p\"")
        + &pair("peers6", "transport = \"udp6\"\ndelay-mechanism = \"p2p\"");
    let text = trunk(&["ntp4", "ntp6", "peers", "peers6"], "pass = [\"0e\"]\n", &clocks);
    let both = text.replace("thresholds = 128", "thresholds = 128\nforward-reverse = true");
    for text in [text, both] {
        let outcome = measured("built-in", &text);
        for clock in &outcome.clocks {
            assert!(clock.report.samples > 60, "{outcome}");
            let marked = clock.samples.iter().filter(|sample| sample.n_sync > 0).count();
            assert!(marked * 5 > clock.report.samples, "{marked} marked; {outcome}");
            assert_eq!(clock.counters.invalid_words, 0);
            assert!(clock.report.transport.is_ntp() || gained(clock) > 0.5, "{outcome}");
        }
    }
}

/// Marks in a word that no switch wrote.
const FORGED: u32 = 1_000_000;

/// A server that forges counts speaks for two seconds through one switch; what the client saw.
fn forged(name: &str, trust: bool, edge: bool) -> Recording {
    let text = format!(
        "[marking]\ndelta = \"10us\"\nthresholds = 128\n[switch.s1]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s1\"]\n\
         rate = \"100mbit\"\ntrust = {trust}\n[[link]]\nbetween = [\"b\", \"s1\"]\nrate = \"100mbit\"\nedge = {edge}\n"
    );
    let topology = Topology::parse(&format!("{name}.toml"), &text, &Overrides::default()).unwrap();
    thread::scope(|scope| {
        scope
            .spawn(|| {
                let lab = Lab::start(topology, None).unwrap();
                let mut bare = Bare::open(lab.namespace("a").unwrap(), "net0");
                let open = || Client::open(ClientConfig::new("net0", Transport::L2)).unwrap();
                let mut client = lab.namespace("b").unwrap().run_in(open).unwrap();
                let stop = AtomicBool::new(false);
                let seen = thread::scope(|scope| {
                    let client = scope.spawn(|| client.run(&stop).unwrap());
                    let source = PortIdentity::from_mac(bare.mac);
                    let deadline = Instant::now() + Duration::from_secs(2);
                    for sequence in 0.. {
                        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
                        let sync = message(source, sequence, Body::Sync { origin_ns: now });
                        bare.send(&Message { word: 0x4000_0000 | FORGED, flags: flags::TWO_STEP, ..sync });
                        bare.send(&message(source, sequence, Body::FollowUp { origin_ns: now }));
                        while let Some(request) = bare.try_receive() {
                            let Body::DelayReq { .. } = request.body else { continue };
                            let receive_ns = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
                            let body = Body::DelayResp { receive_ns, requesting: request.source };
                            let answer = message(source, request.sequence, body);
                            bare.send(&Message { word: 0x4000_0000 | FORGED, ..answer });
                        }
                        if Instant::now() > deadline {
                            break;
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                    stop.store(true, Ordering::Relaxed);
                    client.join().unwrap()
                });
                lab.stop().unwrap();
                seen
            })
            .join()
            .unwrap()
    })
}

#[test]
fn counts_that_a_host_forges_move_nobody_beyond_what_the_way_can_say() {
    // What R = 128 on one hop can say.
    let scale = MarkScale { delta_ps: 10_000_000, saturated_at: Saturation::both(128) };
    let most = 128.0 * 10_000.0;
    for (trust, edge) in [(false, false), (false, true), (true, false), (true, true)] {
        let seen = forged("forged", trust, edge);
        assert!(seen.syncs.len() > 50 && seen.delays.len() > 50, "{trust} {edge}: {:?}", seen.counters);
        for sync in &seen.syncs {
            // The machine's lateness is in a correction too, and is part of the time that the message took.
            let (correction, took) = (sync.correction >> 16, (sync.t2 - sync.t1) as i64);
            match (trust, edge) {
                // A port to a host clears them: no mark, and nothing for an edge to convert.
                (false, _) => assert!(sync.count < 128 && correction <= took, "{sync:?}"),
                (true, false) => assert!((FORGED..FORGED + 128).contains(&sync.count), "{sync:?}"),
                // An edge believes 1 s at most.
                (true, true) => {
                    assert_eq!(sync.count, 0, "{sync:?}");
                    assert!((1_000_000_000..=1_000_000_000 + took).contains(&correction), "{sync:?}");
                }
            }
        }
        // A general message is marked by nobody, so that the forged answer comes as it is: the clock's own bound holds.
        for sample in seen.samples(scale) {
            assert!(
                (sample.compensated_ns - sample.raw_ns).abs() <= most / 2.0,
                "{trust} {edge}: {sample:?}"
            );
        }
    }
}
