//! Unmodified ptp4l and chronyd profit from marks by the shims of `plimsoll host`: what the daemons themselves measured,
//! message by message, against what the switch recorded and what passed on the wire.
#![allow(clippy::unwrap_used)]

use plimsoll_core::Ect;
use plimsoll_lab::chronyd::{self, Certificate, Exchange, Measurement, Security, Tap};
use plimsoll_lab::clock::Transport;
use plimsoll_lab::ptp4l::{Client, DelayMechanism, Observation, Profile, Server, Settings};
use plimsoll_port::host::{self, HostOptions, HostReport};
use plimsoll_tests::congested::Congested;
use plimsoll_tests::net::{Host, INTERFACE};
use plimsoll_tests::truth::{DELAY_REQ, Met, SYNC, Truth};
use plimsoll_tests::wait_for;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
/// Of the congested switch.
const DELTA: &str = "100us";
const DELTA_NS: f64 = 100_000.0;
/// Delay of one CE, for NTP that may not be given a field: the ECN threshold of the congested switch.
const CE: &str = "500us";
const CE_NS: f64 = 500_000.0;
/// Less than this is not judged: what a busy machine adds to a stamp is seldom as much.
const JUDGED_NS: f64 = 500_000.0;

fn options(change: impl FnOnce(&mut HostOptions)) -> HostOptions {
    let mut options = HostOptions::new(DELTA.parse().unwrap());
    change(&mut options);
    options
}

/// Attaches to server and client.
fn attach(lab: &Congested, options: &HostOptions) {
    for host in [lab.server(), lab.client()] {
        let _ = host.namespace.run_in(|| host::attach(INTERFACE, options).unwrap()).unwrap();
    }
}

fn report(host: &Host) -> HostReport {
    host.namespace.run_in(|| host::show(Some(INTERFACE)).unwrap().remove(0)).unwrap()
}

/// A counter of one program.
fn counted(host: &Host, program: &str, counter: &str) -> u64 {
    report(host).program(program).unwrap_or_else(|| panic!("{program} of {host:?}")).counter(counter)
}

/// N of a bit-shift counter; nothing here comes near that of an integer.
const LARGEST: u64 = 29;

/// What the switch counted into the messages that left by a port; none brought any, and none holds more than `largest`.
fn marked(lab: &Congested, port: &str, largest: u64) -> u64 {
    let shown = lab.switch.marks(port);
    let marks = shown["marks"].as_object().unwrap().iter();
    marks.map(|(r, messages)| r.parse::<u64>().unwrap().min(largest) * messages.as_u64().unwrap()).sum()
}

/// Waits until the shim has met every mark that the switch counted, neither more nor fewer: what left the switch may not
/// have passed the host's softirq yet.
fn all_marks_met(lab: &Congested, host: &Host, program: &str, port: &str, largest: u64) {
    wait_for("all marks at the host", SOON, || {
        (counted(host, program, "marks") == marked(lab, port, largest)).then_some(())
    });
}

/// The same where marks wait for follow-ups: every message that the switch marked has been met. Of gPTP's all are two-step
/// but its requests.
fn all_set_aside(lab: &Congested, host: &Host, port: &str) {
    wait_for("all marked messages at the host", SOON, || {
        let shown = lab.switch.marks(port);
        let marked = shown["marks"].as_object().unwrap().iter().filter(|(r, _)| *r != "0");
        let marked: u64 = marked.map(|(_, messages)| messages.as_u64().unwrap()).sum();
        let met = ["set_aside", "compensated"].map(|counter| counted(host, "correction", counter));
        (met.iter().sum::<u64>() == marked).then_some(())
    });
}

fn synchronise(lab: &Congested, settings: &Settings, syncs: usize) -> Observation {
    let mut server = Server::start(&lab.server().namespace, INTERFACE, settings).unwrap();
    let client = Client::start(&lab.client().namespace, INTERFACE, settings).unwrap();
    let until = Instant::now() + SOON;
    let enough =
        |seen: &Observation| seen.recording.syncs.len() >= syncs && seen.recording.delays.len() >= 40;
    let seen = client.run_until(|seen| enough(seen) || Instant::now() > until).unwrap();
    assert!(enough(&seen), "{} Syncs, {:?}", seen.recording.syncs.len(), seen.log);
    server.check().unwrap();
    drop(server);
    lab.switch.drained();
    seen
}

fn fast(transport: Transport) -> Settings {
    Settings { log_interval: -4, ..Settings::new(transport) }
}

/// Judges how much of each message's delay its clock was spared: (what its marks come to, what the clock has less than
/// the wire), in ns. A shim that only counts would take nothing off, two of them twice as much. One in two may be off by
/// what a busy machine adds to a stamp.
fn spared(about: &str, least: usize, messages: impl Iterator<Item = (f64, f64)>) {
    let mut shares: Vec<_> =
        messages.filter(|(worth, _)| *worth >= JUDGED_NS).map(|(worth, less)| less / worth).collect();
    assert!(shares.len() >= least, "{about}: {} messages met enough", shares.len());
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    println!("{about}: {:.0} % of the marks' worth taken off {} messages", median * 100.0, shares.len());
    assert!((0.6..1.4).contains(&median), "{about}: {median} of the marks' worth was taken off: {shares:?}");
}

/// Messages that are judged at least, of 40 or more: every third finds its way so busy.
const LEAST: usize = 3;

/// What the marks of a message come to.
fn worth(met: Met) -> f64 {
    f64::from(met.marks) * DELTA_NS
}

/// Syncs and Delay_Reqs as ptp4l measured them, against what the switch recorded: all hosts have one clock, so that a
/// message's way is what it spent inside the switch, and a little.
fn ptp4l_was_spared(about: &str, seen: &Observation, truth: &Truth) {
    let less = |met: Met, way: i64, correction: i64| {
        (worth(met), met.inside_ns as f64 - (way as f64 - correction as f64 / 65_536.0))
    };
    let syncs = seen.recording.syncs.iter().filter_map(|sync| {
        let met = truth.of("p1", SYNC, sync.source, sync.sequence)?;
        Some(less(met, sync.t2.wrapping_sub(sync.t1).cast_signed(), sync.correction))
    });
    spared(&format!("{about}, Sync"), LEAST, syncs);
    let delays = seen.recording.delays.iter().filter_map(|delay| {
        let met = truth.of("p0", DELAY_REQ, delay.source, delay.sequence)?;
        Some(less(met, delay.t4.wrapping_sub(delay.t3).cast_signed(), delay.correction))
    });
    spared(&format!("{about}, Delay_Req"), LEAST, delays);
}

#[test]
fn ptp4l_over_udp_profits_by_its_timestamps() {
    for transport in [Transport::UdpV4, Transport::UdpV6] {
        let lab = Congested::start("counter = \"integer\"");
        attach(&lab, &options(|_| {}));
        let seen = synchronise(&lab, &fast(transport), 60);
        for (host, port) in [(lab.server(), "p0"), (lab.client(), "p1")] {
            // Every mark that the switch counted was used, and only those.
            all_marks_met(&lab, host, "timestamp", port, u64::MAX);
            let told = report(host);
            assert!(counted(host, "timestamp", "compensated") >= 10, "{told:?}");
            let marks = counted(host, "timestamp", "marks");
            assert_eq!(counted(host, "timestamp", "compensated_ns"), 100_000 * marks, "{told:?}");
            for bad in ["capped", "invalid_word", "no_timestamp", "failed", "length"] {
                assert_eq!(counted(host, "timestamp", bad), 0, "{told:?}");
            }
        }
        ptp4l_was_spared(&transport.to_string(), &seen, &lab.stop());
    }
}

/// Each correction that ptp4l read is what the marks of its message come to, to the last bit; `seldom`: or nothing,
/// where a follow-up overtook. How many were more than nothing.
fn exact(corrections: impl Iterator<Item = (Option<Met>, i64)>, seldom: bool) -> usize {
    let mut more = 0;
    for (met, correction) in corrections {
        let Some(met) = met else { continue };
        let marks = u64::from(met.marks).min(LARGEST);
        let whole = (marks * 100_000) as i64 * 65_536;
        assert!(correction == whole || seldom && correction == 0, "{correction} of {whole}: {met:?}");
        more += usize::from(correction > 0);
    }
    more
}

#[test]
fn ptp4l_over_ethernet_profits_by_its_corrections() {
    for follow_up in [false, true] {
        let lab = Congested::start("counter = \"bit-shift\"");
        attach(&lab, &options(|o| (o.timestamp, o.correction, o.follow_up) = (false, true, follow_up)));
        let seen = if follow_up {
            let delay = DelayMechanism::P2p;
            let settings = Settings { delay, profile: Profile::Gptp, ..fast(Transport::L2) };
            let mut server = Server::start(&lab.server().namespace, INTERFACE, &settings).unwrap();
            let client = Client::start(&lab.client().namespace, INTERFACE, &settings).unwrap();
            let until = Instant::now() + SOON;
            let seen =
                client.run_until(|seen| seen.recording.syncs.len() >= 40 || Instant::now() > until).unwrap();
            server.check().unwrap();
            seen
        } else {
            synchronise(&lab, &fast(Transport::L2), 40)
        };
        lab.switch.drained();
        let client = lab.client();
        if follow_up {
            all_set_aside(&lab, client, "p1");
        } else {
            all_marks_met(&lab, client, "correction", "p1", LARGEST);
        }
        let told = report(client);
        let marks = counted(client, "correction", "marks");
        assert!(marks > 10, "{told:?}");
        if follow_up {
            let (aside, followed) =
                (counted(client, "correction", "set_aside"), counted(client, "correction", "followed_up"));
            assert!(aside >= 5 && followed >= aside / 2 && followed <= aside, "{told:?}");
        } else {
            assert!(counted(client, "correction", "compensated") >= 10, "{told:?}");
        }
        let truth = lab.stop();
        let (syncs, delays) = (&seen.recording.syncs, &seen.recording.delays);
        let syncs =
            syncs.iter().map(|sync| (truth.of("p1", SYNC, sync.source, sync.sequence), sync.correction));
        let delays = delays
            .iter()
            .map(|delay| (truth.of("p0", DELAY_REQ, delay.source, delay.sequence), delay.correction));
        let corrected = (exact(syncs, follow_up), exact(delays, false));
        println!("follow-ups {follow_up}: {corrected:?} Syncs and Delay_Reqs corrected");
        assert!(corrected.0 >= LEAST && (follow_up || corrected.1 >= LEAST), "{corrected:?}");
    }
}

#[test]
fn an_edge_and_the_shims_behind_it_act_once() {
    let lab = Congested::with("counter = \"integer\"", "edge = true");
    attach(&lab, &options(|o| o.ect = Some(Ect::Zero)));
    let seen = synchronise(&lab, &fast(Transport::UdpV4), 40);
    for (host, port) in [(lab.server(), "p0"), (lab.client(), "p1")] {
        let (told, shown) = (report(host), lab.switch.marks(port));
        assert!(shown["edge"]["converted"].as_u64() >= Some(5), "{shown}");
        assert!(counted(host, "timestamp", "empty") >= 20, "{told:?}");
        for used in ["compensated", "capped", "compensated_ce", "marks", "compensated_ns"] {
            assert_eq!(counted(host, "timestamp", used), 0, "{used}: {told:?}");
        }
    }
    // By what the edge wrote into correctionField; the shims moved no stamp on top of it.
    ptp4l_was_spared("edge", &seen, &lab.stop());
}

/// Requests and answers as chronyd measured them, against what passed on the wire: of an offset and a delay it is told
/// apart what was taken off the request and off the answer.
fn chronyd_was_spared(about: &str, is_plain: bool, passed: &[(Exchange, Measurement)]) {
    let ns = |later: u64, earlier: u64| later.wrapping_sub(earlier).cast_signed() as f64;
    let both = passed.iter().map(|(wire, measured)| {
        let (there, back) = (ns(wire.received.0, wire.asked), ns(wire.returned.0, wire.answered));
        // The server's clock less the client's; the wire has one clock.
        let (delay, offset) =
            (there + back - measured.delay_s * 1e9, (there - back) / 2.0 - measured.offset_s * 1e9);
        let worth = [wire.received.1, wire.returned.1].map(|marks| match marks.count {
            0 => f64::from(u8::from(marks.congested)) * CE_NS,
            count if is_plain => f64::from(count) * DELTA_NS,
            count => panic!("{count} marks in {wire:?}"),
        });
        [(worth[0], delay / 2.0 + offset), (worth[1], delay / 2.0 - offset)]
    });
    let both: Vec<_> = both.collect();
    spared(&format!("{about}, request"), LEAST, both.iter().map(|both| both[0]));
    spared(&format!("{about}, answer"), LEAST, both.iter().map(|both| both[1]));
}

#[test]
fn chronyd_profits_by_the_field_or_by_ce_and_stays_authenticated() {
    let lab = Congested::start("counter = \"integer\"");
    attach(
        &lab,
        &options(|o| {
            (o.ntp_field, o.ect, o.ce) = (true, Some(Ect::Zero), CE.parse().unwrap());
            // PTP would be its business, NTP is not.
            o.correction = true;
        }),
    );
    let server_address = lab.server().v4.into();
    let nts = Security::Nts(Certificate::for_server(server_address).unwrap());
    for security in [Security::None, Security::Key([0x5A; 32]), nts] {
        let settings = chronyd::Settings { poll: -6, ..chronyd::Settings::new(security) };
        let is_plain = settings.security == Security::None;
        let used = if is_plain { "compensated" } else { "compensated_ce" };
        let before = [lab.server(), lab.client()].map(|host| counted(host, "timestamp", used));
        let fields = counted(lab.client(), "egress", "field_added");
        let (here, there) = (&lab.client().namespace, &lab.server().namespace);
        let mut tap = Tap::open((here, INTERFACE), (there, INTERFACE)).unwrap();
        let mut server = chronyd::Server::start(there, "server", &settings).unwrap();
        let mut client = chronyd::Client::start(here, "client", server_address, &settings).unwrap();
        let mut meter = chronyd::Meter::start(here, "client", server_address, &settings).unwrap();
        // An answer follows a request that waited for the load, so that it seldom meets any itself.
        let seen = wait_for("valid answers, some of them compensated at each end", LONG, || {
            tap.take(Duration::from_millis(50)).unwrap();
            let seen = client.association().unwrap().filter(|seen| seen.valid >= 20)?;
            let now = [lab.server(), lab.client()].map(|host| counted(host, "timestamp", used));
            let enough = now.iter().zip(&before).all(|(now, before)| now - before >= 60);
            (enough && meter.measurements().len() >= 100).then_some(seen)
        });
        assert_eq!(seen.authenticated, !is_plain, "{seen:?}");
        server.check().unwrap();
        meter.check().unwrap();
        let measured = meter.stop();
        let exchanges = tap.finish().unwrap();
        // By their order; the last ones may be missing on either side.
        assert!(exchanges.len().abs_diff(measured.len()) <= 2, "{} {}", exchanges.len(), measured.len());
        let passed: Vec<_> = exchanges
            .into_iter()
            .zip(measured)
            .filter_map(|(exchange, measured)| Some((exchange?, measured)))
            .collect();
        chronyd_was_spared(if is_plain { "field" } else { "CE" }, is_plain, &passed);
        let added = counted(lab.client(), "egress", "field_added") - fields;
        assert_eq!(added > 0, is_plain, "{added} fields: {:?}", report(lab.client()));
    }
    for host in [lab.server(), lab.client()] {
        for bad in ["capped", "invalid_word", "no_timestamp", "failed", "length"] {
            assert_eq!(counted(host, "timestamp", bad), 0, "{:?}", report(host));
        }
        assert!(counted(host, "egress", "ect_set") > 0);
    }
    let _ = lab.switch.stop().ok();
}
