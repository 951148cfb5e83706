//! Ports as transparent clocks: what a message waited stands in its correctionField, judged by stamps at both hosts.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::capture::{Capture, Captured};
use plimsoll_tests::frames::{Carrier, Message, Sum, bulk, hello, read};
use plimsoll_tests::net::{Host, Net, Stack};
use plimsoll_tests::switch::Switch;
use plimsoll_tests::{Scratch, wait_for};
use std::collections::HashMap;
use std::time::Duration;

/// Frames of 1514 octets before the message: 98.4 ms at 1 Mbit/s.
const QUEUED: usize = 8;
const WAIT_S: f64 = QUEUED as f64 * 1538.0 * 8.0 / 1e6;
/// A correction that the messages bring along, which stays in the sum.
const BEFORE_NS: i64 = 7_000;
/// Between a host's stamp and the switch's, machine's stalls included.
const SLACK_S: f64 = 2e-3;

const SWITCH: &str = "[switch.s1]\nlatency = \"100us\"\n[[port]]\nname = \"p0\"\nrate = \"1gbit\"\n\
                      [[port]]\nname = \"p1\"\nrate = \"1mbit\"\ntransparent-clock = true\n\
                      [[port]]\nname = \"p2\"\nrate = \"1mbit\"\n";

/// sequenceId of each event message, with when the host saw it and its correction in nanoseconds, as tshark reads them.
fn stamps(captured: &Captured) -> HashMap<u16, (f64, f64)> {
    let fields = ["frame.time_epoch", "ptp.v2.sequenceid", "ptp.v2.correction.ns"];
    let row = |line: String| {
        let cells: Vec<&str> = line.split('\t').collect();
        (cells[1].parse().unwrap(), (cells[0].parse().unwrap(), cells[2].parse().unwrap()))
    };
    captured.tshark("ptp.v2.messagetype == 0", &fields).into_iter().map(row).collect()
}

#[test]
fn the_correction_is_what_the_message_spent_in_the_switch() {
    let net = Net::new(3, Stack::Silent);
    let scratch = Scratch::new();
    let switch = Switch::start(&net, &[scratch.write("switch.toml", SWITCH).to_str().unwrap()]);
    for host in &net.hosts {
        host.injector().send(&hello(host.mac));
    }
    wait_for("all hosts in the FDB", Duration::from_secs(5), || {
        (switch.show("fdb")["fdb"].as_array().unwrap().len() == net.hosts.len()).then_some(())
    });
    switch.drained();
    let captures: Vec<Capture> = net.hosts.iter().map(Host::capture).collect();
    let source = net.hosts[0].mac;
    let injector = net.hosts[0].injector();
    let message = |sequence| Message { correction: BEFORE_NS << 16, ..Message::sync(sequence) };
    for (sequence, carrier) in (0..).zip(Carrier::ALL) {
        for host in &net.hosts[1..] {
            for _ in 0..QUEUED {
                assert!(injector.send(&bulk(source, host.mac, 1514)));
            }
        }
        let sent = message(sequence).frame(carrier, source);
        assert!(injector.send(&sent));
        let wanted = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.sequence == sequence);
        let corrected = captures[1].until(&format!("{carrier:?}"), 1, wanted).remove(0);
        let seen = read(&corrected).unwrap();
        assert_ne!(seen.sum, Sum::Wrong, "{carrier:?}");
        // All but the correction, and the checksum over it, is as it was sent.
        let expected = Message { correction: seen.message.correction, ..message(sequence) };
        assert_eq!(corrected, expected.frame(carrier, source), "{carrier:?}");
        // The other port is none.
        assert_eq!(captures[2].until(&format!("{carrier:?}"), 1, wanted), [sent], "{carrier:?}");
        switch.drained();
    }
    let _ = switch.stop().ok();
    let stamps: Vec<_> = captures.into_iter().map(|capture| stamps(&capture.stop())).collect();
    for (sequence, carrier) in (0..).zip(Carrier::ALL) {
        let (sent, before) = stamps[0][&sequence];
        let (came, after) = stamps[1][&sequence];
        assert_eq!(before, BEFORE_NS as f64);
        let (residence, correction) = (came - sent, (after - before) / 1e9);
        assert!((residence - correction).abs() < SLACK_S, "{carrier:?}: {residence} s, {correction} s");
        assert!((correction - WAIT_S).abs() < 5.0 * SLACK_S, "{carrier:?}: {WAIT_S} s, {correction} s");
    }
}
