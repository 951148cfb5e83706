//! The built-in clock over a real cable: each transport, what tshark says of its messages, and its marks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::{Bare, Cable, ONE, TWO, message};
use etherparse::PacketBuilder;
use plimsoll_core::wire::word::Word;
use plimsoll_lab::clock::{
    Client, ClientConfig, ClockReport, DelayMechanism, MarkScale, NtpClient, NtpServer, Recording,
    Saturation, Server, ServerConfig, ServerReport, Transport,
    message::{Body, Message, PortIdentity, flags},
    ntp,
};
use plimsoll_port::{netlink::Netlink, packet};
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    net::IpAddr,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const SCALE: MarkScale = MarkScale { delta_ps: 10_000_000, saturated_at: Saturation::both(128) };

fn run(cable: &Cable, transport: Transport, time: Duration) -> (ServerReport, Recording) {
    run_by(cable, transport, DelayMechanism::E2e, time)
}

fn run_by(
    cable: &Cable,
    transport: Transport,
    delay: DelayMechanism,
    time: Duration,
) -> (ServerReport, Recording) {
    let (mut server, mut client) = ptp_ends(cable, transport, delay);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| server.run(&stop).unwrap());
        let client = scope.spawn(|| client.run(&stop).unwrap());
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        (server.join().unwrap(), client.join().unwrap())
    })
}

fn ptp_ends(cable: &Cable, transport: Transport, delay: DelayMechanism) -> (Server, Client) {
    let server = cable.one.run_in(|| Server::open(ServerConfig::new(ONE, transport)).unwrap()).unwrap();
    let config = ClientConfig { delay, ..ClientConfig::new(TWO, transport) };
    (server, cable.two.run_in(|| Client::open(config).unwrap()).unwrap())
}

fn ntp_server(cable: &Cable, transport: Transport) -> NtpServer {
    cable.one.run_in(|| NtpServer::open(ServerConfig::new(ONE, transport)).unwrap()).unwrap()
}

fn ntp_client(cable: &Cable, transport: Transport, server: IpAddr) -> NtpClient {
    cable.two.run_in(|| NtpClient::open(ClientConfig::new(TWO, transport), server).unwrap()).unwrap()
}

fn ntp_ends(cable: &Cable, transport: Transport, server: &str) -> (NtpServer, NtpClient) {
    (ntp_server(cable, transport), ntp_client(cable, transport, server.parse().unwrap()))
}

#[test]
fn over_a_cable_each_transport_measures_the_true_offset() {
    for transport in Transport::PTP {
        let cable = Cable::new();
        let (server, recording) = run(&cable, transport, Duration::from_secs(2));
        let samples = recording.samples(SCALE);
        let report = ClockReport::new("cable", "plimsoll", transport, &samples);
        println!("{transport}: {server:?} {:?} {report:?}", recording.counters);
        // 128 each were due; half is left for a busy machine.
        assert!(report.samples >= 64, "{report:?}");
        assert!(recording.syncs.len() as u64 <= server.syncs);
        assert!(recording.delays.len() as u64 <= server.delay_requests);
        assert!(report.raw_rms_ns < 100_000.0, "{report:?}");
        assert_eq!(report.raw, report.compensated, "nobody marks on a cable");
        assert!(samples.iter().all(|s| s.correction_sync_ns == 0.0 && s.correction_delay_ns == 0.0));
        assert!(samples.iter().all(|s| s.t1 < s.t2 && s.t3 < s.t4), "stamps of both ends, in their order");
        assert_eq!((recording.counters.invalid_words, server.invalid_words), (0, 0));
    }
}

#[test]
fn over_a_cable_ntp_measures_the_true_offset() {
    for (transport, server) in [(Transport::NtpV4, "10.77.0.1"), (Transport::NtpV6, "fd00:77::1")] {
        let cable = Cable::new();
        let (mut serving, mut client) = ntp_ends(&cable, transport, server);
        let stop = AtomicBool::new(false);
        let (served, seen) = thread::scope(|scope| {
            let server = scope.spawn(|| serving.run(&stop).unwrap());
            let client = scope.spawn(|| client.run(&stop).unwrap());
            thread::sleep(Duration::from_secs(2));
            stop.store(true, Ordering::Relaxed);
            (server.join().unwrap(), client.join().unwrap())
        });
        let samples = seen.samples(SCALE);
        let report = ClockReport::new("cable", "plimsoll", transport, &samples);
        println!("{transport}: {served:?} {:?} {report:?}", seen.counters);
        assert!(report.samples >= 64 && report.samples as u64 <= served.delay_requests, "{report:?}");
        // The median: what a server says of its own departure is late where it loses the CPU.
        assert!(report.raw.abs_median_ns < 100_000.0, "{report:?}");
        assert_eq!(report.raw, report.compensated, "nobody marks on a cable");
        assert!(samples.iter().all(|s| s.t1 < s.t2 && s.t3 < s.t4), "times of both ends, in their order");
        assert_eq!((seen.counters.invalid_words, served.invalid_words), (0, 0));
    }
}

#[test]
fn an_ntp_server_that_has_answered_sleeps_until_it_is_asked_again() {
    let cable = Cable::new();
    let (mut serving, mut client) = ntp_ends(&cable, Transport::NtpV4, "10.77.0.1");
    let (asked, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (seen, busy) = thread::scope(|scope| {
        let server = scope.spawn(|| {
            let served = serving.run(&stop).unwrap();
            let busy = clock_gettime(ClockId::ThreadCPUTime);
            assert!(served.delay_requests > 4, "{served:?}");
            Duration::new(busy.tv_sec as u64, busy.tv_nsec as u32)
        });
        let client = scope.spawn(|| client.run(&asked).unwrap());
        thread::sleep(Duration::from_millis(500));
        asked.store(true, Ordering::Relaxed);
        let seen = client.join().unwrap();
        thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        (seen, server.join().unwrap())
    });
    assert!(!seen.exchanges.is_empty());
    println!("{busy:?} of CPU time");
    assert!(busy < Duration::from_millis(500), "{busy:?} of CPU time, of 2.5 s");
}

#[test]
fn an_ntp_server_answers_from_the_address_that_was_asked() {
    for (transport, second, prefix) in
        [(Transport::NtpV4, "10.77.0.9", 24), (Transport::NtpV6, "fd00:77::9", 64)]
    {
        let cable = Cable::new();
        let second: IpAddr = second.parse().unwrap();
        let mut netlink = Netlink::open_in(&cable.one).unwrap();
        let link = netlink.link(ONE).unwrap();
        netlink.add_address(&link, second, prefix).unwrap();
        let first: IpAddr = if second.is_ipv4() { "10.77.0.1" } else { "fd00:77::1" }.parse().unwrap();
        let mut serving = ntp_server(&cable, transport);
        let stop = AtomicBool::new(false);
        let exchanges = thread::scope(|scope| {
            scope.spawn(|| serving.run(&stop).unwrap());
            let exchanges = [first, second].map(|server| {
                let mut client = ntp_client(&cable, transport, server);
                let enough = AtomicBool::new(false);
                thread::scope(|scope| {
                    let client = scope.spawn(|| client.run(&enough).unwrap());
                    thread::sleep(Duration::from_millis(500));
                    enough.store(true, Ordering::Relaxed);
                    client.join().unwrap().exchanges.len()
                })
            });
            stop.store(true, Ordering::Relaxed);
            exchanges
        });
        assert!(exchanges.iter().all(|&count| count > 4), "{transport}: {exchanges:?}");
    }
}

#[test]
fn a_request_that_cannot_be_answered_ends_no_ntp_server() {
    let cable = Cable::new();
    let (mut serving, mut client) = ntp_ends(&cable, Transport::NtpV4, "10.77.0.1");
    let mac = |namespace, name: &str| Netlink::open_in(namespace).unwrap().link(name).unwrap().mac.unwrap();
    let mut request = Vec::new();
    PacketBuilder::ethernet2(mac(&cable.two, TWO), mac(&cable.one, ONE))
        .ipv4([10, 77, 0, 2], [10, 77, 0, 1], 64)
        .udp(0, ntp::PORT)
        .write(&mut request, &ntp_request())
        .unwrap();
    let index = Netlink::open_in(&cable.two).unwrap().link(TWO).unwrap().index;
    let raw = cable.two.run_in(|| packet::open(index, None, &[]).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    let (served, seen) = thread::scope(|scope| {
        let server = scope.spawn(|| serving.run(&stop).unwrap());
        rustix::net::send(&raw, &request, rustix::net::SendFlags::empty()).unwrap();
        thread::sleep(Duration::from_millis(200));
        let client = scope.spawn(|| client.run(&stop).unwrap());
        thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        (server.join().unwrap(), client.join().unwrap())
    });
    assert_eq!(served.answers_refused, 1, "from port 0: {served:?}");
    assert!(!seen.exchanges.is_empty() && served.delay_requests >= seen.exchanges.len() as u64);
}

/// A request of the built-in client's form.
fn ntp_request() -> Vec<u8> {
    let word = Word::IntegerBoth { forward: 0, reverse: 0 }.encode();
    let mode = ntp::Mode::Client;
    let packet = ntp::Packet { mode, origin_ns: 0, receive_ns: 0, transmit_ns: 1, poll: 0, word };
    packet.encode().to_vec()
}

#[test]
fn over_a_cable_peers_measure_the_true_offset() {
    for transport in Transport::PTP {
        let cable = Cable::new();
        let (server, recording) = run_by(&cable, transport, DelayMechanism::P2p, Duration::from_secs(2));
        let samples = recording.samples(SCALE);
        let report = ClockReport::new("cable", "plimsoll", transport, &samples);
        println!("{transport}: {server:?} {:?} {report:?}", recording.counters);
        assert!(report.samples >= 64 && recording.peer_delays.len() >= 64, "{report:?}");
        assert!(recording.delays.is_empty());
        assert!(report.raw_rms_ns < 200_000.0, "{report:?}");
        assert!(recording.peer_delays.iter().all(|x| x.t1 < x.t2 && x.t2 < x.t3 && x.t3 < x.t4));
    }
}

#[test]
fn tshark_finds_nothing_malformed_in_any_message() {
    for (transport, mechanism, types) in Transport::PTP.into_iter().flat_map(|transport| {
        [
            (transport, DelayMechanism::E2e, [0x0, 0x1, 0x8, 0x9, 0xB].as_slice()),
            (transport, DelayMechanism::P2p, &[0x0, 0x2, 0x3, 0x8, 0xA, 0xB]),
        ]
    }) {
        let cable = Cable::new();
        let mut command = Command::new("tshark");
        cable.two.enter_command(&mut command);
        let mut tshark = command
            .args([
                "-l",
                "-n",
                "-i",
                TWO,
                "-f",
                "ether proto 0x88f7 or udp portrange 319-320",
                "-T",
                "fields",
            ])
            .args(["-e", "_ws.malformed", "-e", "ptp.v2.messagetype", "-e", "ptp.v2.messagelength"])
            .args(["-e", "ptp.v2.versionptp", "-e", "_ws.expert.message"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("tshark (Debian package tshark)");
        let (pid, stdout) = (rustix::process::Pid::from_child(&tshark), tshark.stdout.take().unwrap());
        let (mut server, mut client) = ptp_ends(&cable, transport, mechanism);
        let kind = |line: &str| {
            let kind = line.split('\t').nth(1).unwrap_or_default();
            usize::from_str_radix(kind.trim_start_matches("0x"), 16).unwrap_or(15)
        };
        let (stop, mut lines, mut seen) = (AtomicBool::new(false), Vec::new(), BTreeSet::new());
        thread::scope(|scope| {
            let _ = scope.spawn(|| server.run(&stop).unwrap());
            let _ = scope.spawn(|| client.run(&stop).unwrap());
            // The clocks run for as long as tshark takes to begin and to see them all. Its end ends the lines.
            scope.spawn(|| {
                let since = Instant::now();
                while !stop.load(Ordering::Relaxed) && since.elapsed() < Duration::from_secs(30) {
                    thread::sleep(Duration::from_millis(20));
                }
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
            });
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                seen.insert(kind(&line));
                lines.push(line);
                stop.fetch_or(types.iter().all(|kind| seen.contains(kind)), Ordering::Relaxed);
            }
            stop.store(true, Ordering::Relaxed);
        });
        tshark.wait().unwrap();
        for line in &lines {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!((fields[0], fields[3], fields[4]), ("", "2", ""), "{transport}: {line}");
            let length = [44, 44, 54, 54, 0, 0, 0, 0, 44, 54, 54, 64, 0, 0, 0, 0][kind(line)];
            assert_eq!(fields[2], length.to_string(), "{transport}: {line}");
        }
        assert_eq!(seen.iter().copied().collect::<Vec<_>>(), types, "{transport}: {lines:?}");
    }
}

#[test]
fn a_server_sends_the_mark_of_a_request_back_and_compensates_where_told() {
    for compensate_ps in [None, Some(10_000_000)] {
        let cable = Cable::new();
        let config = ServerConfig { compensate_ps, ..ServerConfig::new(ONE, Transport::L2) };
        let mut server = cable.one.run_in(|| Server::open(config).unwrap()).unwrap();
        let mut bare = Bare::open(&cable.two, TWO);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let server = scope.spawn(|| server.run(&stop).unwrap());
            let source = PortIdentity([9; 10]);
            let request = Message {
                word: 0x4000_0003,
                correction: 1_500 << 16,
                ..message(source, 77, Body::DelayReq { origin_ns: 0 })
            };
            bare.send(&request);
            let answer = bare.receive(|m| matches!(m.body, Body::DelayResp { .. }).then_some(*m));
            let Body::DelayResp { requesting, receive_ns } = answer.body else { unreachable!() };
            assert_eq!((requesting, answer.sequence, answer.word), (source, 77, 0x4000_0003));
            assert!(receive_ns > 0);
            let (correction, flag) = match compensate_ps {
                None => (1_500 << 16, 0),
                Some(_) => (31_500 << 16, flags::COMPENSATED),
            };
            assert_eq!((answer.correction, answer.flags), (correction, flag));
            // Another domain gets no answer.
            bare.send(&Message { domain: 1, ..request });
            bare.send(&Message { sequence: 78, word: 0xC000_0002, ..request });
            let next = bare.receive(|m| matches!(m.body, Body::DelayResp { .. }).then_some(*m));
            assert_eq!((next.sequence, next.word), (78, 0xC000_0002), "an invalid word comes back as it is");
            assert_eq!(next.correction, 1_500 << 16, "and counts nothing");
            stop.store(true, Ordering::Relaxed);
            let report = server.join().unwrap();
            assert_eq!((report.delay_requests, report.invalid_words, report.ignored), (2, 1, 1));
        });
    }
}

#[test]
fn a_client_reads_marks_of_both_directions_and_tells_raw_from_compensated() {
    for compensated in [false, true] {
        let cable = Cable::new();
        let mut client = {
            let config = ClientConfig::new(TWO, Transport::L2);
            cable.two.run_in(|| Client::open(config).unwrap()).unwrap()
        };
        let mut bare = Bare::open(&cable.one, ONE);
        let stop = AtomicBool::new(false);
        let recording = thread::scope(|scope| {
            let running = scope.spawn(|| client.run(&stop).unwrap());
            let server = PortIdentity([1; 10]);
            let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
            // 30 us before it is sent, and three marks of 10 us; its Follow_Up overtakes it.
            let t1 = now() - 30_000;
            bare.send(&message(server, 5, Body::FollowUp { origin_ns: t1 }));
            let sync = message(server, 5, Body::Sync { origin_ns: 0 });
            bare.send(&Message { flags: flags::TWO_STEP, word: 0x4000_0003, ..sync });
            // Another server is not listened to.
            bare.send(&message(PortIdentity([2; 10]), 6, Body::Sync { origin_ns: t1 }));
            let (requesting, sequence) =
                bare.receive(|m| matches!(m.body, Body::DelayReq { .. }).then_some((m.source, m.sequence)));
            let body = Body::DelayResp { receive_ns: now() + 20_000, requesting };
            let (flags, correction) = if compensated { (flags::COMPENSATED, 20_000 << 16) } else { (0, 0) };
            let answer = message(server, sequence, body);
            bare.send(&Message { flags, correction, word: 0x4000_0002, ..answer });
            // Twice, and for somebody else: neither is a second exchange.
            bare.send(&Message { flags, correction, word: 0x4000_0002, ..answer });
            let other = PortIdentity([3; 10]);
            bare.send(&Message { body: Body::DelayResp { receive_ns: 1, requesting: other }, ..answer });
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap()
        });
        assert_eq!((recording.syncs.len(), recording.delays.len()), (1, 1), "{recording:?}");
        assert_eq!(recording.counters.ignored, 3, "{recording:?}");
        let sample = recording.samples(SCALE)[0];
        assert_eq!((sample.n_sync, sample.n_delay), (3, 2));
        assert_eq!((sample.correction_sync_ns, sample.correction_delay_ns), (0.0, 0.0));
        let [t1, t2, t3, t4] = [sample.t1, sample.t2, sample.t3, sample.t4].map(|t| t as i64);
        assert_eq!(sample.raw_ns, ((t2 - t1) - (t4 - t3)) as f64 / 2.0);
        assert_eq!(sample.compensated_ns, sample.raw_ns - 5_000.0);
    }
}

#[test]
fn what_cannot_be_opened_is_told_in_one_line() {
    let cable = Cable::new();
    let open = |name: &'static str| {
        let open = move || Server::open(ServerConfig::new(name, Transport::UdpV4)).map(|_| ());
        cable.one.run_in(open).unwrap().map_err(|error| error.to_string())
    };
    let error = open("nosuch0").unwrap_err();
    assert!(error.contains("nosuch0") && !error.contains('\n'), "{error}");
    let occupied = cable.one.run_in(|| std::net::UdpSocket::bind("0.0.0.0:319").unwrap()).unwrap();
    let error = open(ONE).unwrap_err();
    assert!(error.starts_with("clock on one0: UDP socket: "), "{error}");
    assert!(error.contains("end other PTP daemons"), "{error}");
    drop(occupied);
    assert_eq!(open(ONE), Ok(()));
}

#[test]
fn pairs_of_several_domains_share_their_hosts() {
    for transport in Transport::PTP {
        let cable = Cable::new();
        let stop = AtomicBool::new(false);
        let domains = [0u8, 1];
        let recordings = thread::scope(|scope| {
            let clients = domains.map(|domain| {
                let config = ServerConfig { domain, ..ServerConfig::new(ONE, transport) };
                let mut server = cable.one.run_in(|| Server::open(config).unwrap()).unwrap();
                let config = ClientConfig { domain, ..ClientConfig::new(TWO, transport) };
                let mut client = cable.two.run_in(|| Client::open(config).unwrap()).unwrap();
                let stop = &stop;
                scope.spawn(move || server.run(stop).unwrap());
                scope.spawn(move || client.run(stop).unwrap())
            });
            thread::sleep(Duration::from_secs(1));
            stop.store(true, Ordering::Relaxed);
            clients.map(|client| client.join().unwrap())
        });
        for (domain, recording) in domains.into_iter().zip(recordings) {
            assert_eq!(recording.domain, domain);
            let samples = recording.samples(SCALE);
            assert!(samples.len() >= 32, "{transport} {domain}: {:?}", recording.counters);
            assert!(recording.counters.ignored > 0, "it heard the other domain");
        }
    }
}
