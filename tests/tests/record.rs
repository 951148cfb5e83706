//! The record as a capture: the frames that left, octet by octet, with comments that tshark reads.
#![allow(clippy::unwrap_used)]

use pcap_file::pcapng::{Block, PcapNgReader};
use plimsoll_tests::Scratch;
use plimsoll_tests::frames::{Carrier, Message, bulk, hello, read};
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::run;
use plimsoll_tests::switch::Switch;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Octets kept of a frame that is no time message.
const HEADERS: usize = 128;
const SYNCS: u16 = 40;

/// tshark's fields of all frames of a capture.
fn tshark(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-o", "udp.check_checksum:TRUE", "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = run(&mut command, Duration::from_secs(60)).ok();
    output.stdout.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The value of `key=` in a comment.
fn value<'a>(comment: &'a str, key: &str) -> Option<&'a str> {
    comment.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// (interface, octets) of each frame of a pcapng file.
fn octets(path: &Path) -> Vec<(u32, Vec<u8>)> {
    let mut reader = PcapNgReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push((packet.interface_id, packet.data.to_vec()));
        }
    }
    frames
}

#[test]
fn a_pcapng_record_holds_every_frame_as_it_left_and_says_what_it_met() {
    let net = Net::new(3, Stack::Silent);
    let scratch = Scratch::new();
    let path = scratch.path("truth.pcapng");
    let record = path.to_str().unwrap();
    let arguments = ["--delta", "500us", "--thresholds", "20", "--latency", "100us", "--record", record];
    let ports = ["--port", "p0,rate=1gbit", "--port", "p1,rate=1gbit", "--port", "p2,rate=10mbit"];
    let switch = Switch::start(&net, &[&arguments[..], &ports[..]].concat());
    net.hosts.iter().for_each(|host| assert!(host.injector().send(&hello(host.mac))));
    switch.drained();
    let capture = net.hosts[2].capture();
    let injector = net.hosts[0].injector();
    let frame = bulk(net.hosts[0].mac, net.hosts[2].mac, 1514);
    for sequence in 0..SYNCS {
        // 1.2304 ms each.
        for _ in 0..sequence % 4 {
            assert!(injector.send(&frame));
        }
        let carrier = Carrier::ALL[usize::from(sequence) % Carrier::ALL.len()];
        assert!(injector.send(&Message::sync(sequence).frame(carrier, net.hosts[0].mac)));
        std::thread::sleep(Duration::from_millis(6));
    }
    let seen = capture.until("Syncs", usize::from(SYNCS), |frame| read(frame).is_some());
    let captured = capture.stop();
    let _ = switch.stop().ok();

    // What host 2 got is what the record says has left by p2, octet by octet.
    let recorded = octets(&path);
    let cut = |frame: &[u8]| match read(frame) {
        Some(_) => frame.to_vec(),
        None => frame[..frame.len().min(HEADERS)].to_vec(),
    };
    let left: Vec<_> =
        recorded.iter().filter(|(port, _)| *port == 2).map(|(_, octets)| octets.clone()).collect();
    let got: Vec<_> = captured.frames().iter().map(|frame| cut(frame)).collect();
    assert!(got.len() > usize::from(SYNCS) * 2, "{} frames", got.len());
    let from = left.len() - got.len();
    assert!(left[from..] == got[..], "{} left, {} came", left.len(), got.len());

    // tshark opens it, knows the ports, and reads the word that the comment tells.
    let fields = [
        "frame.interface_name",
        "frame.time_epoch",
        "frame.len",
        "frame.comment",
        "ptp.v2.messagetypespecific",
        "udp.checksum.status",
    ];
    let rows = tshark(&path, &fields);
    assert_eq!(rows.len(), recorded.len());
    let mut last: HashMap<&str, &str> = HashMap::new();
    let (mut marked, mut words) = (0, 0);
    for row in &rows {
        let [port, time, length, comment, word, sum] = &row[..] else { panic!("{row:?}") };
        assert!(["switch:p0", "switch:p1", "switch:p2"].contains(&port.as_str()), "{row:?}");
        // Seconds of ten digits and nine of ns: they sort as text.
        assert_eq!(time.split_once('.').map(|(s, ns)| (s.len(), ns.len())), Some((10, 9)), "{time}");
        assert!(last.insert(port, time).is_none_or(|before| before <= time.as_str()), "{row:?}");
        for key in ["depth", "class", "wait", "late", "ingress", "arrival"] {
            assert!(value(comment, key).is_some_and(|value| !value.is_empty()), "{key} in {comment}");
        }
        if word.is_empty() {
            assert_eq!(value(comment, "ptp"), None, "{row:?}");
            assert!(length == "1514" || value(comment, "mark").is_none(), "{row:?}");
            continue;
        }
        assert_ne!(sum, "0", "a wrong UDP checksum: {row:?}");
        let (before, after) = value(comment, "ptp").unwrap().split_once('>').unwrap();
        assert_eq!(u32::from_str_radix(after, 16).unwrap(), word.parse::<u32>().unwrap(), "{row:?}");
        words += 1;
        let r: u32 = value(comment, "r").unwrap().parse().unwrap();
        if r > 0 {
            assert_eq!(
                (before, u32::from_str_radix(after, 16).unwrap()),
                ("00000000", 0x4000_0000 | r),
                "{row:?}"
            );
            assert_eq!((value(comment, "mark"), port.as_str()), (Some("marked"), "switch:p2"), "{row:?}");
            // r is the number of steps of 625 B (500 us at 10 Mbit/s) that the depth exceeds.
            let depth: u32 = value(comment, "depth").unwrap().trim_end_matches('B').parse().unwrap();
            assert_eq!(r, depth.div_ceil(625) - 1, "{row:?}");
            marked += 1;
        }
    }
    // Multicast leaves by both other ports.
    assert_eq!(words, 2 * usize::from(SYNCS));
    assert!(marked >= 20, "{marked} of {} Syncs marked", seen.len());
}
