//! NTP through a switch with every carrier on: unmodified chronyd synchronises, what it authenticates passes as it is
//! but for ECN, and our extension field counts.
#![allow(clippy::unwrap_used)]

use plimsoll_lab::chronyd::{Association, Certificate, Client, Security, Server, Settings};
use plimsoll_tests::Scratch;
use plimsoll_tests::capture::Capture;
use plimsoll_tests::congested::Congested;
use plimsoll_tests::frames::{bulk, hello};
use plimsoll_tests::net::{Host, Net, Stack};
use plimsoll_tests::ntp::{Packet, Tail};
use plimsoll_tests::switch::Switch;
use plimsoll_tests::wait_for;
use std::net::IpAddr;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const NTP: &str = "udp port 123";

/// What the client has of its server once that many of its answers were valid and it follows it.
fn synchronised(client: &mut Client, answers: u64) -> Association {
    wait_for("chronyd to synchronise", LONG, || {
        std::thread::sleep(Duration::from_millis(50));
        let seen = client.association().unwrap().filter(|seen| seen.valid >= answers);
        let tracking = client.tracking().unwrap()?;
        // Far more than what waits of 3.1 ms at most leave, filtered.
        (tracking.synchronised && tracking.offset_s.abs() < 0.005).then_some(seen?)
    })
}

/// An IP packet over Ethernet, with its ECN bits apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passed {
    ecn: u8,
    /// Its network header without ECN bits and checksum.
    header: Vec<u8>,
    ports: Vec<u8>,
    payload: Vec<u8>,
}

/// The NTP packets that `from` sent, in a capture.
fn sent_by(from: &Host, frames: &[Vec<u8>]) -> Vec<Passed> {
    let sent = frames.iter().filter(|frame| frame[6..12] == from.mac);
    sent.map(|frame| {
        assert_eq!((&frame[12..15], frame[23]), (&[8, 0, 0x45][..], 17), "IPv4 without options, UDP");
        let mut header = frame[14..34].to_vec();
        let ecn = header[1] & 3;
        header[1] &= !3;
        header[10..12].fill(0);
        let length = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
        let datagram = &frame[34..34 + length];
        Passed { ecn, header, ports: datagram[..4].to_vec(), payload: datagram[8..].to_vec() }
    })
    .collect()
}

/// All NTP packets from one host to another came in order and as they were but for ECN; how many of them are CE now.
fn pass_as_they_are(from: &Host, sent: &[Vec<u8>], received: &[Vec<u8>]) -> usize {
    let (sent, received) = (sent_by(from, sent), sent_by(from, received));
    assert_eq!(sent.len(), received.len());
    assert!(sent.len() >= 20, "{}", sent.len());
    for (sent, received) in sent.iter().zip(&received) {
        assert_eq!(sent.ecn, 0, "chronyd sets no ECN");
        // The switch makes it ECT(0); a queue makes that CE.
        assert!(matches!(received.ecn, 2 | 3), "{received:?}");
        assert_eq!(received, &Passed { ecn: received.ecn, ..sent.clone() });
    }
    received.iter().filter(|packet| packet.ecn == 3).count()
}

fn chronyd_synchronises(security: Security) {
    let lab = Congested::start("counter = \"integer\"");
    let captures = [lab.server().capture_of(NTP), lab.client().capture_of(NTP)];
    let settings = Settings::new(security);
    let mut server = Server::start(&lab.server().namespace, "server", &settings).unwrap();
    let address = IpAddr::from(lab.server().v4);
    let mut client = Client::start(&lab.client().namespace, "client", address, &settings).unwrap();
    let seen = synchronised(&mut client, 25);
    assert_eq!(seen.authenticated, settings.security != Security::None, "{seen:?}");
    // None was refused: a packet changed on its way would fail its authentication.
    assert_eq!(seen.valid, seen.received, "{seen:?}");
    server.check().unwrap();
    drop((client, server));
    for port in ["p0", "p1"] {
        let shown = lab.switch.marks(port);
        assert!(shown["ecn"]["marked"].as_u64() > Some(100), "{shown}");
        // Nothing counts in packets without our field. With a key of so many bits chronyd speaks version 3.
        let outcomes = &shown["outcomes"];
        let skipped =
            ["skip_no_field", "skip_ntp_version"].iter().filter_map(|skip| outcomes[*skip].as_u64());
        assert!(skipped.sum::<u64>() >= 25 && outcomes["marked"] == 0, "{shown}");
    }
    // What is still in the queues comes within milliseconds.
    std::thread::sleep(Duration::from_millis(200));
    let captured = captures.map(Capture::stop);
    let frames = captured.each_ref().map(|captured| captured.frames());
    let asked = pass_as_they_are(lab.client(), &frames[1], &frames[0]);
    let answered = pass_as_they_are(lab.server(), &frames[0], &frames[1]);
    assert!(asked > 0 && answered > 0, "CE: {asked} requests, {answered} answers");
    for (captured, from) in captured.iter().zip([lab.client(), lab.server()]) {
        let sum = |status: &str| {
            let filter = format!("ip.src == {} && ntp && udp.checksum.status == \"{status}\"", from.v4);
            captured.tshark(&filter, &["frame.number"]).len()
        };
        assert!(sum("Bad") == 0 && sum("Good") >= 20, "{} bad, {} good", sum("Bad"), sum("Good"));
    }
    let _ = lab.switch.stop().ok();
}

#[test]
fn chronyd_synchronises_without_authentication() {
    chronyd_synchronises(Security::None);
}

#[test]
fn chronyd_synchronises_with_a_key() {
    chronyd_synchronises(Security::Key([0xC5; 32]));
}

#[test]
fn chronyd_synchronises_with_network_time_security() {
    // The address that hosts of this harness have.
    let server = IpAddr::from([10, 88, 0, 1]);
    chronyd_synchronises(Security::Nts(Certificate::for_server(server).unwrap()));
}

/// Frames of 1514 octets before each packet: 36.9 ms at 1 Mbit/s, at least 16 ms from the next threshold.
const QUEUED: usize = 3;
/// Thresholds of 20 ms that they exceed.
const MARKS: u32 = 1;

/// What stands behind a header when it comes, and when it leaves: `fresh` is what a word without a mark becomes.
fn cases(fresh: u32) -> Vec<(Tail, Tail)> {
    let count = |before: u32, after: u32| (Tail::Field(before), Tail::Field(after));
    let stays = |tail: Tail| (tail, tail);
    vec![
        count(0, fresh),
        // Of another hop, which counts in its own way: added to in that.
        count(0x4000_0005, 0x4000_0005 + MARKS),
        count(0xC000_0007, 0xC000_000F),
        // No valid word.
        stays(Tail::Field(0xC000_0002)),
        stays(Tail::Plain),
        stays(Tail::Mac),
        stays(Tail::FieldThenMac(0x4000_0005)),
        stays(Tail::Other),
        stays(Tail::Foreign(0)),
    ]
}

#[test]
fn our_extension_field_counts_and_everything_else_of_ntp_stays() {
    let net = Net::new(2, Stack::Silent);
    let scratch = Scratch::new();
    let switch = |counter: &str| {
        let file = format!(
            "[marking]\ndelta = \"20ms\"\nthresholds = 64\ncarriers = [\"ptp\", \"ntp\"]\n{counter}\n[switch.s1]\n\
             latency = \"100us\"\n[[port]]\nname = \"p0\"\nrate = \"1gbit\"\ntrust = true\n[[port]]\nname = \
             \"p1\"\nrate = \"1mbit\"\n"
        );
        Switch::start(&net, &[scratch.write("switch.toml", &file).to_str().unwrap()])
    };
    let (from, to) = (&net.hosts[0], &net.hosts[1]);
    let injector = from.injector();
    // What a word becomes in a request and in an answer.
    let integer = (0x4000_0000 | MARKS, 0x4000_0000 | MARKS);
    for (counter, fresh) in [
        ("counter = \"integer\"", integer),
        ("counter = \"bit-shift\"", (0xC000_0001, 0xC000_0001)),
        ("counter = \"integer\"\nforward-reverse = true", (0x8000_8000, 0x8000_0001)),
        ("counter = \"bit-shift\"\nforward-reverse = true", (0xE000_4000, 0xE000_0001)),
    ] {
        let switch = switch(counter);
        to.injector().send(&hello(to.mac));
        wait_for("the receiver in the FDB", Duration::from_secs(5), || {
            (switch.show("fdb")["fdb"].as_array().unwrap().len() == 1).then_some(())
        });
        let capture = to.capture_of(NTP);
        let mut expected = Vec::new();
        for (mode, fresh) in [(3, fresh.0), (4, fresh.1)] {
            for family in 0..2 {
                let ends = [from, to].map(|host| (host.mac, [host.v4.into(), host.v6.into()][family]));
                for (before, after) in cases(fresh) {
                    let frame = |tail| Packet { mode, tail }.frame(ends[0], ends[1]);
                    for _ in 0..QUEUED {
                        assert!(injector.send(&bulk(from.mac, to.mac, 1514)));
                    }
                    assert!(injector.send(&frame(before)));
                    expected.push((before, frame(after)));
                    switch.drained();
                }
            }
        }
        let received = capture.until(counter, expected.len(), |_| true);
        assert_eq!(received.len(), expected.len());
        for ((before, expected), received) in expected.iter().zip(received) {
            // The frame as it would have been made with the word: checksum included, and nothing else touched.
            assert_eq!(&received, expected, "{counter}, {before:?}");
        }
        let shown = switch.marks("p1");
        // Of two modes and two families.
        let outcomes =
            [("marked", 3), ("skip_invalid_word", 1), ("skip_no_field", 4), ("skip_field_not_last", 1)];
        for (outcome, packets) in outcomes {
            assert_eq!(shown["outcomes"][outcome], 4 * packets, "{shown}");
        }
        let _ = switch.stop().ok();
        let bad = "udp.checksum.status == \"Bad\" || ip.checksum.status == \"Bad\"";
        assert_eq!(capture.stop().tshark(bad, &["frame.number"]), Vec::<String>::new());
    }
}
