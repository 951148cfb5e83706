//! The unmodified ptp4l over a real cable: against itself, against the built-in clock, with corrections and with
//! everything that can go wrong at its start.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::{Bare, Cable, ONE, TWO, message};
use plimsoll_lab::{
    clock::{
        self, ClientConfig, ClockReport, FilterChoice, MarkScale, PortIdentity, Saturation, ServerConfig,
        Transport,
        message::{Body, Message, flags},
    },
    daemon::DaemonError,
    ptp4l::{self, Observation, Settings},
};
use plimsoll_model::Filter;
use plimsoll_port::{namespace::Namespace, netlink::Netlink};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const SCALE: MarkScale = MarkScale { delta_ps: 10_000_000, saturated_at: Saturation::both(128) };
/// ptp4l takes about 1.2 s to find its server.
const LONG_ENOUGH: Duration = Duration::from_millis(4500);

/// Listens with a ptp4l client on the second host for a while.
fn observe(cable: &Cable, settings: &Settings, time: Duration) -> Result<Observation, DaemonError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // The daemon lives as long as the thread that starts it.
        let client = scope.spawn(|| ptp4l::Client::start(&cable.two, TWO, settings)?.run(&stop));
        let deadline = Instant::now() + time;
        while Instant::now() < deadline && !client.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        client.join().unwrap()
    })
}

fn identity(cable: &Cable) -> PortIdentity {
    let link = Netlink::open_in(&cable.two).unwrap().link(TWO).unwrap();
    PortIdentity::from_mac(link.mac.unwrap())
}

#[test]
fn over_a_cable_ptp4l_measures_the_true_offset_on_each_transport() {
    println!("ptp4l {}", ptp4l::version().unwrap());
    for transport in Transport::PTP {
        let cable = Cable::new();
        let settings = Settings::new(transport);
        let mut server = ptp4l::Server::start(&cable.one, ONE, &settings).unwrap();
        let seen = observe(&cable, &settings, LONG_ENOUGH).unwrap();
        server.check().unwrap();
        let samples = seen.recording.samples(SCALE);
        let report = ClockReport::new("cable", "ptp4l", transport, &samples);
        println!("{report:?} {:?}", seen.logged());
        assert!(report.samples > 64, "{report:?}");
        assert!(report.raw_rms_ns < 50_000.0, "{report:?}");
        assert_eq!(report.raw, report.compensated, "nobody marks on a cable");
        assert!(seen.recording.syncs.iter().all(|sync| sync.correction == 0 && sync.t1 < sync.t2));
        assert!(seen.recording.delays.iter().all(|delay| delay.correction == 0 && delay.t3 < delay.t4));
        assert!(seen.recording.delays.iter().all(|delay| delay.source == identity(&cable)));
        assert_eq!(seen.foreign, 0);
        assert!(seen.log.len() >= 2, "{:?}", seen.log);
        assert!(seen.logged().offset_rms_ns < 50_000.0, "{:?}", seen.log);
    }
}

#[test]
fn a_ptp4l_client_follows_the_built_in_server() {
    let cable = Cable::new();
    let open = || clock::Server::open(ServerConfig::new(ONE, Transport::UdpV4)).unwrap();
    let mut server = cable.one.run_in(open).unwrap();
    let stop = AtomicBool::new(false);
    let filter = FilterChoice { filter: Filter::MedianDelay, window: 10 };
    let settings = Settings { filter, ..Settings::new(Transport::UdpV4) };
    let (report, seen) = thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop).unwrap());
        let seen = observe(&cable, &settings, LONG_ENOUGH).unwrap();
        stop.store(true, Ordering::Relaxed);
        (running.join().unwrap(), seen)
    });
    let samples = seen.recording.samples(SCALE);
    assert!(samples.len() > 32, "{report:?} {}", samples.len());
    assert!(ClockReport::new("mixed", "ptp4l", Transport::UdpV4, &samples).raw_rms_ns < 50_000.0);
    assert!(!seen.log.is_empty());
}

#[test]
fn the_built_in_client_follows_a_ptp4l_server() {
    let cable = Cable::new();
    let mut server = ptp4l::Server::start(&cable.one, ONE, &Settings::new(Transport::UdpV6)).unwrap();
    let open = || clock::Client::open(ClientConfig::new(TWO, Transport::UdpV6)).unwrap();
    let mut client = cable.two.run_in(open).unwrap();
    let stop = AtomicBool::new(false);
    let recording = thread::scope(|scope| {
        let running = scope.spawn(|| client.run(&stop).unwrap());
        thread::sleep(LONG_ENOUGH);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    server.check().unwrap();
    let samples = recording.samples(SCALE);
    assert!(samples.len() > 64, "{} {:?}", samples.len(), recording.counters);
    assert!(ClockReport::new("mixed", "plimsoll", Transport::UdpV6, &samples).raw_rms_ns < 100_000.0);
}

/// The records' corrections, their signs and the keys for the join, against a server that adds known ones: what a
/// switch's edge does to a Sync, and what the master copies from a converted Delay_Req.
#[test]
fn ptp4l_s_records_hold_the_corrections_of_both_directions_and_join_with_the_switch_s() {
    const SYNC_CORRECTION: i64 = 70_000 << 16;
    const DELAY_CORRECTION: i64 = 40_000 << 16;
    let cable = Cable::new();
    let mut bare = Bare::open(&cable.one, ONE);
    let server = PortIdentity::from_mac(bare.mac);
    let stop = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            let mut sequence = 0;
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    next += Duration::from_millis(15);
                    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
                    if sequence % 16 == 0 {
                        let announce = message(server, sequence / 16, Body::Announce { priority: 1 });
                        bare.send(&Message { log_interval: -2, ..announce });
                    }
                    let sync = message(server, sequence, Body::Sync { origin_ns: 0 });
                    let flags = flags::TWO_STEP;
                    bare.send(&Message { correction: SYNC_CORRECTION, flags, log_interval: -6, ..sync });
                    // It arrives 70 us late, by what the Sync's correction says.
                    let follow_up = message(server, sequence, Body::FollowUp { origin_ns: now - 70_000 });
                    bare.send(&Message { log_interval: -6, ..follow_up });
                    sequence = sequence.wrapping_add(1);
                }
                while let Some(request) = bare.try_receive() {
                    let Body::DelayReq { .. } = request.body else { continue };
                    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
                    let body = Body::DelayResp { receive_ns: now + 40_000, requesting: request.source };
                    let answer = message(server, request.sequence, body);
                    bare.send(&Message { correction: DELAY_CORRECTION, log_interval: -6, ..answer });
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let seen = observe(&cable, &Settings::new(Transport::L2), LONG_ENOUGH);
        stop.store(true, Ordering::Relaxed);
        seen.unwrap()
    });
    let mut recording = seen.recording;
    assert!(recording.syncs.len() > 32 && recording.delays.len() > 32, "{recording:?}");
    assert!(recording.syncs.iter().all(|s| s.correction == SYNC_CORRECTION && s.source == server));
    let client = identity(&cable);
    assert!(recording.delays.iter().all(|d| d.correction == DELAY_CORRECTION && d.source == client));
    // Without the switch's records all of it is taken for corrected lateness.
    let before = ClockReport::new("known", "ptp4l", Transport::L2, &recording.samples(SCALE));
    assert_eq!(before.raw, before.compensated);
    recording.join(|id, _| match (id.message_type, id.source_port_identity) {
        (0, source) if source == server.0 => Some(70_000),
        (1, source) if source == client.0 => Some(40_000),
        _ => None,
    });
    let samples = recording.samples(SCALE);
    assert!(samples.iter().all(|s| (s.n_sync, s.n_delay) == (7, 4)));
    assert!(samples.iter().all(|s| (s.raw_ns - s.compensated_ns - 15_000.0).abs() < 1e-6));
    assert_eq!(ClockReport::new("known", "ptp4l", Transport::L2, &samples).compensated, before.compensated);
    // Its own log agrees with the compensated figure, not with the raw one: it subtracts what it is told.
    println!("{:?} {before:?}", seen.log);
}

#[test]
fn a_daemon_that_cannot_start_is_told_in_one_line_with_its_own_words() {
    let cable = Cable::new();
    let stop = AtomicBool::new(false);
    let client = ptp4l::Client::start(&cable.two, "nosuch0", &Settings::new(Transport::L2)).unwrap();
    let error = client.run(&stop).unwrap_err();
    assert!(matches!(&error, DaemonError::Ended { place, .. } if place == "nosuch0"), "{error}");
    let line = error.to_string();
    assert!(line.starts_with("ptp4l on nosuch0 ended with exit status: ") && !line.contains('\n'), "{line}");
}

/// How many ptp4l run in a namespace.
fn daemons(namespace: &Namespace) -> usize {
    let (device, inode) = namespace.id().unwrap();
    let there = |process: &Path| {
        let name = fs::read_to_string(process.join("comm")).ok()?;
        let space = fs::metadata(process.join("ns/net")).ok()?;
        Some(name == "ptp4l\n" && (space.dev(), space.ino()) == (device, inode))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter(|entry| there(&entry.as_ref().unwrap().path()) == Some(true))
        .count()
}

#[test]
fn a_daemon_ends_with_its_value_and_with_the_thread_that_started_it() {
    let cable = Cable::new();
    let settings = Settings::new(Transport::L2);
    let server = ptp4l::Server::start(&cable.one, ONE, &settings).unwrap();
    assert_eq!(daemons(&cable.one), 1);
    drop(server);
    assert_eq!(daemons(&cable.one), 0);
    thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(ptp4l::Server::start(&cable.one, ONE, &settings).unwrap()));
    });
    let deadline = Instant::now() + Duration::from_secs(5);
    while daemons(&cable.one) > 0 {
        assert!(Instant::now() < deadline, "it outlives its thread");
        thread::sleep(Duration::from_millis(10));
    }
}
