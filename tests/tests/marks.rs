//! Marks on the wire, read octet by octet: each copy of a flooded message says how deep its own port's queue was.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::capture::Capture;
use plimsoll_tests::frames::{Carrier, Message, Seen, Sum, bulk, hello, read};
use plimsoll_tests::inject::Injector;
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::Process;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::{Scratch, wait_for};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rustix::process::Signal;
use std::collections::HashMap;
use std::time::Duration;

/// What a mark stands for in these tests.
const DELTA: &str = "20ms";
const DELTA_NS: i64 = 20_000_000;
/// The integer word of so many marks.
const INTEGER: u32 = 0x4000_0000;

/// Hosts 1 to 3 say where they are, so that what is for one of them goes to its port alone.
fn introduce(net: &Net, switch: &Switch) {
    for host in &net.hosts {
        host.injector().send(&hello(host.mac));
    }
    wait_for("all hosts in the FDB", Duration::from_secs(5), || {
        (switch.show("fdb")["fdb"].as_array().unwrap().len() == net.hosts.len()).then_some(())
    });
    switch.drained();
}

/// Frames of 1514 octets that wait at the port of each host when the message comes: 12.304 ms each at 1 Mbit/s, so
/// that the message finds 0, 36.9, 98.4 and 160.0 ms of queue, at least 16 ms from any threshold that a slow sender
/// could let it fall below.
const QUEUED: [usize; 4] = [0, 3, 8, 13];
const MARKS: [u32; 4] = [0, 1, 4, 7];

/// Fills the queues, then sends the message to all.
fn burst(net: &Net, injector: &Injector, message: Message, carrier: Carrier) {
    let source = net.hosts[0].mac;
    // On a thread that others do not easily take the CPU from: between the first frame and the message the queues empty.
    let send = || {
        let _ = rustix::process::nice(-15);
        for (host, frames) in net.hosts.iter().zip(QUEUED) {
            let frame = bulk(source, host.mac, 1514);
            for _ in 0..frames {
                assert!(injector.send(&frame));
            }
        }
        assert!(injector.send(&message.frame(carrier, source)));
    };
    std::thread::scope(|scope| scope.spawn(send).join().unwrap());
}

/// The message with this number as it came out.
fn delivered(capture: &Capture, carrier: Carrier, sequence: u16) -> (Vec<u8>, Seen) {
    let wanted = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.sequence == sequence);
    let mut frames = capture.until(&format!("{carrier:?} {sequence}"), 1, wanted);
    let frame = frames.remove(0);
    assert!(frames.is_empty(), "one copy each");
    let seen = read(&frame).unwrap();
    (frame, seen)
}

fn sum(carrier: Carrier) -> Sum {
    match carrier {
        Carrier::Udp4NoSum => Sum::Zero,
        _ if carrier.is_summed() => Sum::Right,
        _ => Sum::None,
    }
}

#[test]
fn each_copy_of_a_flooded_sync_carries_its_own_ports_count() {
    let net = Net::new(5, Stack::Silent);
    // Port 4 has no queue at all; 3 turns its marks into a correction.
    let switch = Switch::start(
        &net,
        &[
            "--delta",
            DELTA,
            "--thresholds",
            "64",
            "--latency",
            "100us",
            "--port",
            "p0,rate=1gbit",
            "--port",
            "p1,rate=1mbit",
            "--port",
            "p2,rate=1mbit",
            "--port",
            "p3,rate=1mbit,edge",
            "--port",
            "p4,rate=1gbit",
        ],
    );
    introduce(&net, &switch);
    let captures: Vec<Capture> = net.hosts[1..].iter().map(plimsoll_tests::net::Host::capture).collect();
    let injector = net.hosts[0].injector();
    let mut sent = 0;
    // As a clock sends it, and with marks and a correction that a host must not bring, or may.
    for (number, carrier) in (0..).zip(Carrier::ALL) {
        for (half, (word, correction)) in [(0, 0), (INTEGER | 9, 5 << 16)].into_iter().enumerate() {
            let sequence = 10 * number + half as u16;
            let message = Message { word, correction, ..Message::sync(sequence) };
            burst(&net, &injector, message, carrier);
            sent += 1;
            // A word that was counted into keeps its mode when its count is cleared.
            let mode = if word == 0 { 0 } else { INTEGER };
            for (port, capture) in (1..).zip(&captures) {
                let marks = MARKS.get(port).copied().unwrap_or(0);
                let (frame, seen) = delivered(capture, carrier, sequence);
                let expected = match (port, marks) {
                    (3, _) => Message {
                        word: 0,
                        correction: correction + ((DELTA_NS * i64::from(marks)) << 16),
                        ..message
                    },
                    (_, 0) => Message { word: mode, ..message },
                    _ => Message { word: INTEGER | marks, ..message },
                };
                let expected = Seen { message: expected, sum: sum(carrier), vlan: carrier.vlan() };
                assert_eq!(seen, expected, "port {port}, {carrier:?}, word {word:#x}");
                // Nothing else was touched: the same message built anew is the same frame.
                assert_eq!(
                    frame,
                    expected.message.frame(carrier, net.hosts[0].mac),
                    "port {port}, {carrier:?}"
                );
            }
            switch.drained();
        }
    }
    let shown = switch.show("marks");
    let ports = shown["marks"].as_array().unwrap();
    for (port, marks) in [(1, "1"), (2, "4"), (3, "7"), (4, "0")] {
        assert_eq!(ports[port]["marks"][marks], sent, "{}", ports[port]);
    }
    assert_eq!(ports[3]["edge"]["converted"], sent, "{}", ports[3]);
    assert_eq!(ports[0]["counts_cleared"], sent / 2, "{}", ports[0]);
    let _ = switch.stop().ok();
    // tshark's eyes: no bad sum, the good ones are there, and it reads the correction as we do.
    for (port, capture) in (1..).zip(captures) {
        let captured = capture.stop();
        let bad = captured
            .tshark("udp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"", &["frame.number"]);
        assert_eq!(bad, Vec::<String>::new(), "port {port}");
        let good = captured.tshark("ptp && udp.checksum.status == \"Good\"", &["frame.number"]);
        assert_eq!(good.len(), 8, "port {port}");
        let corrections = captured.tshark("ptp.v2.messagetype == 0", &["ptp.v2.correction.ns"]);
        let converted = if port == 3 { DELTA_NS * 7 } else { 0 };
        let expected: Vec<String> =
            (0..sent).map(|n| (converted + if n % 2 == 0 { 0 } else { 5 }).to_string()).collect();
        assert_eq!(corrections, expected, "port {port}");
    }
}

#[test]
fn a_trusted_port_keeps_the_counts_that_come_in_and_its_own_are_added() {
    let net = Net::new(3, Stack::Silent);
    let switch = Switch::start(
        &net,
        &[
            "--delta",
            DELTA,
            "--thresholds",
            "12",
            "--latency",
            "100us",
            "--counter-max",
            "12",
            "--port",
            "p0,rate=1gbit,trust=true",
            "--port",
            "p1,rate=1mbit",
            "--port",
            "p2,rate=1mbit,edge",
        ],
    );
    introduce(&net, &switch);
    let captures = [net.hosts[1].capture(), net.hosts[2].capture()];
    let injector = net.hosts[0].injector();
    // Counts that come in, and what one more mark (port 1) and four more (port 2) make of them: N is 12.
    for (sequence, (word, at_1, at_2)) in (0..).zip([
        (0, INTEGER | 1, 4),
        (INTEGER | 3, INTEGER | 4, 7),
        // Saturated at N.
        (INTEGER | 11, INTEGER | 12, 12),
        (INTEGER | 12, INTEGER | 12, 12),
        // A thermometer of 2.
        (0xC000_0003, 0xC000_0007, 6),
        // Two directions, 5 forward and 1 reverse: a Sync goes reverse. An edge leaves them for their endpoint.
        (0x8002_8001, 0x8002_8002, 0),
        // No valid word: left alone.
        (0xC000_0002, 0xC000_0002, 0),
    ]) {
        let message = Message { word, ..Message::sync(sequence) };
        burst(&net, &injector, message, Carrier::Udp6);
        let (_, seen) = delivered(&captures[0], Carrier::Udp6, sequence);
        assert_eq!(seen.message, Message { word: at_1, ..message }, "{word:#x}");
        assert_eq!(seen.sum, Sum::Right);
        let (_, seen) = delivered(&captures[1], Carrier::Udp6, sequence);
        let (word_2, correction) = match word {
            0x8002_8001 => (0x8002_8005, 0),
            0xC000_0002 => (word, 0),
            _ => (0, (DELTA_NS * at_2) << 16),
        };
        assert_eq!(seen.message, Message { word: word_2, correction, ..message }, "{word:#x} at the edge");
        assert_eq!(seen.sum, Sum::Right);
        switch.drained();
    }
    assert_eq!(switch.show("marks")["marks"][0]["counts_cleared"], 0);
    let _ = switch.stop().ok();
}

/// Arrivals in one queue as a FIFO of 10 Mbit/s would serve them, in nanoseconds: when the link is free.
struct Fifo {
    free: u64,
}

impl Fifo {
    /// How long a frame waits that comes now, and puts it into the queue.
    fn wait(&mut self, now: u64, octets: u64) -> u64 {
        let start = self.free.max(now);
        // 8 bits at 10 Mbit/s are 800 ns; preamble, FCS and gap are 24 octets, and no frame is shorter than 60.
        self.free = start + (octets.max(60) + 24) * 800;
        start - now
    }
}

#[test]
fn random_traffic_is_marked_as_a_naive_queue_says() {
    const THRESHOLDS: u64 = 20;
    const STEP_NS: u64 = 500_000;
    let net = Net::new(3, Stack::Silent);
    let scratch = Scratch::new();
    let record = scratch.path("record.csv");
    let switch = Switch::start(
        &net,
        &[
            "--delta",
            "500us",
            "--thresholds",
            "20",
            "--latency",
            "100us",
            "--record",
            record.to_str().unwrap(),
            "--port",
            "p0,rate=1gbit",
            "--port",
            "p1,rate=1gbit",
            "--port",
            "p2,rate=10mbit",
        ],
    );
    introduce(&net, &switch);
    let capture = net.hosts[2].capture();
    let mut random = StdRng::seed_from_u64(0x9051);
    let injectors = [net.hosts[0].injector(), net.hosts[1].injector()];
    let mut syncs = 0;
    for _ in 0..150 {
        for _ in 0..random.random_range(0..8) {
            let from = random.random_range(0..2);
            let length = *[60, 200, 700, 1514].get(random.random_range(0..4)).unwrap();
            assert!(injectors[from].send(&bulk(net.hosts[from].mac, net.hosts[2].mac, length)));
        }
        if random.random_bool(0.7) {
            let carrier = Carrier::ALL[random.random_range(0..Carrier::ALL.len())];
            assert!(injectors[0].send(&Message::sync(syncs).frame(carrier, net.hosts[0].mac)));
            syncs += 1;
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..6000)));
    }
    let frames = capture.until("Syncs", usize::from(syncs), |frame| read(frame).is_some());
    let _ = switch.stop().ok();
    let carried: HashMap<u16, u32> = frames
        .iter()
        .map(|frame| read(frame).unwrap())
        .map(|seen| {
            assert_ne!(seen.sum, Sum::Wrong);
            let count = match seen.message.word {
                0 => 0,
                word => word - INTEGER,
            };
            (seen.message.sequence, count)
        })
        .collect();
    assert_eq!(carried.len(), usize::from(syncs));

    // Every frame to port 2 by its arrival, as the kernel stamped it.
    let text = std::fs::read_to_string(&record).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (egress, len, stamp, used) =
        (column("egress"), column("len"), column("stamp_ns"), column("arrival_ns"));
    let (kind, sequence, drop) = (column("message_type"), column("sequence_id"), column("drop"));
    let mut arrivals: Vec<(u64, u64, Option<u16>)> = Vec::new();
    let mut moved = 0;
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[drop], "", "{line}");
        if cells[egress] != "p2" {
            continue;
        }
        moved += usize::from(cells[stamp] != cells[used]);
        let message = if cells[kind] == "0" { Some(cells[sequence].parse().unwrap()) } else { None };
        arrivals.push((cells[used].parse().unwrap(), cells[len].parse().unwrap(), message));
    }
    // The switch takes a frame later than stamped only where the machine showed it a later one first.
    assert!(moved * 20 <= arrivals.len(), "{moved} of {} arrivals moved", arrivals.len());
    // Stable: of frames at one instant, the one recorded first left first.
    arrivals.sort_by_key(|(at, ..)| *at);
    let mut fifo = Fifo { free: 0 };
    let mut marked = 0;
    for (at, octets, message) in arrivals {
        let wait = fifo.wait(at, octets);
        if let Some(sequence) = message {
            let count = (1..=THRESHOLDS).filter(|i| wait > i * STEP_NS).count() as u32;
            assert_eq!(carried[&sequence], count, "Sync {sequence} waited {wait} ns");
            marked += u32::from(count > 0);
        }
    }
    assert!(marked > 20, "only {marked} of {syncs} marked: the traffic was too light to tell");
}

#[test]
fn sums_that_hosts_leave_partial_are_right_behind_the_switch() {
    let net = Net::new(3, Stack::Addressed);
    // veth hands partial sums on; without this offload of the port they are completed where the frame leaves it.
    net.ethtool_port(1, &["tx", "off"]);
    let switch = Switch::start(
        &net,
        &[
            "--delta",
            "1ms",
            "--thresholds",
            "1000",
            "--port",
            "p0,rate=1gbit",
            "--port",
            "p1,rate=1mbit",
            "--port",
            "p2,rate=1gbit",
        ],
    );
    introduce_addressed(&net, &switch);
    for transport in ["UDPv4", "UDPv6"] {
        let capture = net.hosts[1].capture();
        let clock = ["clock", "--role", "server", "--interface", "eth0", "--transport", transport];
        let mut server = Process::start(&mut plimsoll(&net.hosts[0].namespace, &clock));
        server.says("PTP server on eth0", Duration::from_secs(10));
        // A queue of 0.4 s for the Syncs to wait behind.
        let injector = net.hosts[2].injector();
        let frame = bulk(net.hosts[2].mac, net.hosts[1].mac, 1514);
        for _ in 0..32 {
            assert!(injector.send(&frame));
        }
        let marked = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.word > INTEGER);
        let frames = capture.until(&format!("marked Syncs over {transport}"), 10, marked);
        assert!(frames.iter().all(|frame| read(frame).unwrap().sum == Sum::Right), "{transport}");
        server.signal(Signal::INT);
        let _ = server.end(Duration::from_secs(10)).ok();
        switch.drained();
        let captured = capture.stop();
        let status = |status: &str| {
            captured.tshark(&format!("ptp && udp.checksum.status == \"{status}\""), &["frame.number"]).len()
        };
        assert_eq!((status("Bad"), status("Unverified")), (0, 0), "{transport}");
        // Syncs, Follow_Ups and Announces.
        assert!(status("Good") > frames.len(), "{transport}");
    }
    let counters = &switch.port("p1")["counters"];
    let partial =
        counters["checksum_metadata"].as_u64().unwrap() + counters["checksum_software"].as_u64().unwrap();
    assert!(partial > 20, "the host sent no partial sums: {counters}");
    let _ = switch.stop().ok();
}

/// As [`introduce`], where hosts talk by themselves.
fn introduce_addressed(net: &Net, switch: &Switch) {
    for host in &net.hosts {
        host.injector().send(&hello(host.mac));
    }
    wait_for("all hosts in the FDB", Duration::from_secs(5), || {
        (switch.show("fdb")["fdb"].as_array().unwrap().len() >= net.hosts.len()).then_some(())
    });
}
