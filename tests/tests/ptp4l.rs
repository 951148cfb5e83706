//! Unmodified ptp4l at both ends of a switch with every carrier on: each transport and delay mechanism, and gPTP,
//! synchronise while their messages wait and are marked.
#![allow(clippy::unwrap_used)]

use plimsoll_lab::clock::Transport;
use plimsoll_lab::ptp4l::{Client, DelayMechanism, Observation, Profile, Server, Settings};
use plimsoll_tests::congested::Congested;
use plimsoll_tests::frames::{Marks, read};
use plimsoll_tests::net::{Host, INTERFACE};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Sync, Delay_Req, Pdelay_Req, Pdelay_Resp.
const KINDS: [u8; 4] = [0, 1, 2, 3];
/// As long as a client may take, its start included.
const LONG: Duration = Duration::from_secs(20);
/// A client logs its offset and the path's delay once a second.
const LOGGED_NS: u64 = 2_500_000_000;

/// All pairs that there are, each in the domain of its index.
fn pairs() -> Vec<Settings> {
    let mut all = Vec::new();
    for transport in Transport::PTP {
        for delay in [DelayMechanism::E2e, DelayMechanism::P2p] {
            all.push(Settings { delay, ..Settings::new(transport) });
        }
    }
    let gptp =
        Settings { delay: DelayMechanism::P2p, profile: Profile::Gptp, ..Settings::new(Transport::L2) };
    all.push(gptp);
    for (domain, settings) in (0..).zip(&mut all) {
        (settings.domain, settings.log_interval) = (domain, -4);
    }
    all
}

/// Whether a client has measured for long enough, which it does only once it has selected its server. A gPTP port
/// that is not asCapable sends no Sync, so that its client sees none either.
fn measured(seen: &Observation) -> bool {
    let syncs = &seen.recording.syncs;
    let (Some(first), Some(last)) = (syncs.first(), syncs.last()) else { return false };
    syncs.len() >= 30 && last.t2 - first.t2 >= LOGGED_NS
}

/// Runs all pairs until all clients have measured.
fn synchronise(lab: &Congested, pairs: &[Settings]) -> Vec<Observation> {
    let mut servers: Vec<_> = pairs
        .iter()
        .map(|settings| Server::start(&lab.server().namespace, INTERFACE, settings).unwrap())
        .collect();
    let until = Instant::now() + LONG;
    let seen = thread::scope(|scope| {
        let clients: Vec<_> = pairs
            .iter()
            .map(|settings| {
                scope.spawn(move || {
                    // Its daemon lives as long as this thread.
                    let client = Client::start(&lab.client().namespace, INTERFACE, settings).unwrap();
                    client.run_until(|seen| measured(seen) || Instant::now() > until).unwrap()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    servers.iter_mut().for_each(|server| server.check().unwrap());
    seen
}

/// Messages that came to a host, by domain and kind: how many, and how many of them marked.
type Seen = BTreeMap<(u8, u8), (u32, u32)>;

/// What came to a host; `marks` says how many marks a word has where it is of the right mode for a message of this kind.
fn arrived(host: &Host, frames: &[Vec<u8>], marks: fn(u8, Marks) -> Option<u32>) -> Seen {
    let mut seen = Seen::new();
    let to_host = frames.iter().filter(|frame| frame[6..12] != host.mac);
    for message in to_host.filter_map(|frame| read(frame)).map(|seen| seen.message) {
        let found = Marks::of(message.word);
        let count = match found {
            Marks::None => 0,
            _ => marks(message.kind, found).unwrap_or_else(|| panic!("{found:?} in {message:?}")),
        };
        let (all, marked) = seen.entry((message.domain, message.kind)).or_default();
        *all += 1;
        *marked += u32::from(count > 0);
    }
    seen
}

/// Every peer synchronises while the switch counts in this way, and each kind of message carries marks both ways.
fn every_peer_synchronises(counter: &str, marks: fn(u8, Marks) -> Option<u32>) {
    let pairs = pairs();
    let lab = Congested::start(counter);
    // PTP over Ethernet and IP, fragments and the load left out.
    let captures = [lab.server(), lab.client()]
        .map(|host| host.capture_of("ether proto 0x88f7 or udp portrange 319-320"));
    let seen = synchronise(&lab, &pairs);
    for (settings, seen) in pairs.iter().zip(&seen) {
        assert!(
            measured(seen),
            "{settings:?} in {LONG:?}: {} Syncs, {:?}",
            seen.recording.syncs.len(),
            seen.log
        );
        // Ways of 1.8 and 3.1 ms at most; a stall of the machine may make one of the few lines worse.
        let good = |offset: f64, delay: f64| offset.abs() < 5e6 && delay > 0.0 && delay < 5e6;
        let lines =
            seen.log.iter().filter(|line| line.delay_ns.is_some_and(|delay| good(line.offset_ns, delay)));
        assert!(lines.count() > 0, "{settings:?}: {:?}", seen.log);
        if settings.delay == DelayMechanism::E2e {
            assert!(seen.recording.delays.len() >= 10, "{settings:?}: {}", seen.recording.delays.len());
        }
    }
    for port in ["p0", "p1"] {
        let shown = lab.switch.marks(port);
        assert!(shown["outcomes"]["marked"].as_u64() > Some(100), "{shown}");
        assert!(shown["ecn"]["marked"].as_u64() > Some(100), "{shown}");
        for skip in ["skip_length", "skip_invalid_word", "skip_version", "skip_zero_checksum"] {
            assert_eq!(shown["outcomes"][skip], 0, "{shown}");
        }
    }
    for (host, capture, kinds) in [(0, &captures[0], [1, 2, 3]), (1, &captures[1], [0, 2, 3])] {
        let seen = arrived(&lab.net.hosts[host], &capture.frames(), marks);
        for settings in &pairs {
            let has = |kind: u8| match settings.delay {
                DelayMechanism::E2e => kind < 2,
                DelayMechanism::P2p => kind != 1,
            };
            for kind in kinds.into_iter().filter(|kind| has(*kind)) {
                let counts = seen.get(&(settings.domain, kind));
                assert!(
                    counts.is_some_and(|(all, marked)| *all >= 10 && *marked > 0),
                    "{settings:?}, messageType {kind}, (all, marked) = {counts:?} at host {host}"
                );
            }
        }
        assert!(seen.keys().all(|(_, kind)| KINDS.contains(kind)));
    }
    for (host, capture) in lab.net.hosts.iter().zip(captures) {
        let mac = host.mac.map(|octet| format!("{octet:02x}")).join(":");
        let captured = capture.stop();
        // What a host itself sends has sums that its interface would complete.
        let found = |filter: &str, fields: &[&str]| {
            captured.tshark(&format!("eth.src != {mac} && ({filter})"), fields)
        };
        let count = |filter: &str| found(filter, &["frame.number"]).len();
        let bad = found(
            "udp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"",
            &["_ws.col.Info", "ip.src", "ipv6.src", "ip.dsfield.ecn", "ipv6.tclass.ecn", "udp.checksum"],
        );
        assert_eq!(bad, Vec::<String>::new(), "{} at {host:?}", bad.len());
        for (family, ce) in [("ip", "ip.dsfield.ecn == 3"), ("ipv6", "ipv6.tclass.ecn == 3")] {
            assert!(
                count(&format!("{family} && udp.checksum.status == \"Good\"")) > 100,
                "{family} at {host:?}"
            );
            assert!(count(&format!("{ce} && udp.dstport == 319")) > 0, "{family} at {host:?}");
        }
    }
    let _ = lab.switch.stop().ok();
}

/// Whether a message of this kind is counted as a request (Delay_Req, Pdelay_Req).
fn is_request(kind: u8) -> bool {
    matches!(kind, 1 | 2)
}

/// The count of its own direction, where the other one is empty.
fn own(kind: u8, forward: u32, reverse: u32) -> Option<u32> {
    match (is_request(kind), forward, reverse) {
        (true, count, 0) | (false, 0, count) => Some(count),
        _ => None,
    }
}

#[test]
fn all_synchronise_under_integer_counts() {
    every_peer_synchronises("counter = \"integer\"", |_, marks| match marks {
        Marks::Integer(count) => Some(count),
        _ => None,
    });
}

#[test]
fn all_synchronise_under_thermometers() {
    every_peer_synchronises("counter = \"bit-shift\"", |_, marks| match marks {
        Marks::Shift(count) => Some(count),
        _ => None,
    });
}

#[test]
fn all_synchronise_under_counts_of_both_directions() {
    every_peer_synchronises("counter = \"integer\"\nforward-reverse = true", |kind, marks| match marks {
        Marks::IntegerBoth(forward, reverse) => own(kind, forward, reverse),
        _ => None,
    });
}

#[test]
fn all_synchronise_under_thermometers_of_both_directions() {
    every_peer_synchronises("counter = \"bit-shift\"\nforward-reverse = true", |kind, marks| match marks {
        Marks::ShiftBoth(forward, reverse) => own(kind, forward, reverse),
        _ => None,
    });
}
