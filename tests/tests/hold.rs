//! `plimsoll link hold` builds a queue of exactly known depth: marks just below, at and above a threshold.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::frames::{Carrier, Message, bulk, hello, read};
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::run;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::wait_for;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_held_port_marks_by_the_octet_and_forwards_when_released() {
    let net = Net::new(2, Stack::Silent);
    // K is 1000 octets.
    let ports = ["--port", "p0,rate=1gbit", "--port", "p1,rate=100mbit"];
    let marks = ["--delta", "80us", "--thresholds", "4", "--latency", "100us"];
    let switch = Switch::start(&net, &[&ports[..], &marks[..]].concat());
    let link = |arguments: &[&str]| run(&mut plimsoll(&net.switch, &[&["link"], arguments].concat()), SOON);
    net.hosts[1].injector().send(&hello(net.hosts[1].mac));
    wait_for("its address", SOON, || (switch.show("fdb")["fdb"].as_array()?.len() == 1).then_some(()));
    switch.drained();
    let (capture, injector) = (net.hosts[1].capture(), net.hosts[0].injector());
    let mut sequence = 0;
    for (octets, marks) in [(999, 0), (1000, 0), (1001, 1), (1999, 1), (2000, 1), (2001, 2)] {
        assert_eq!(link(&["hold", "p1"]).ok().stdout, "p1 is held: what comes for it is queued\n");
        assert_eq!(switch.port("p1")["held"], true);
        // Two frames that are so long on the wire.
        for wire in [octets / 2, octets - octets / 2] {
            assert!(injector.send(&bulk(net.hosts[0].mac, net.hosts[1].mac, wire - 24)));
        }
        sequence += 1;
        assert!(injector.send(&Message::sync(sequence).frame(Carrier::L2, net.hosts[0].mac)));
        wait_for("all three in the queue", SOON, || {
            let queues = switch.show("queues")["queues"][1]["queues"].clone();
            (queues.as_array()?.iter().map(|q| q["frames"].as_u64().unwrap()).sum::<u64>() == 3).then_some(())
        });
        assert_eq!(capture.frames().len(), 3 * (usize::from(sequence) - 1), "nothing leaves a held port");
        assert_eq!(link(&["release", "p1"]).ok().stdout, "p1 serves\n");
        assert_eq!(switch.port("p1")["held"], false);
        let wanted = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.sequence == sequence);
        let frame = capture.until("the message", 1, wanted).remove(0);
        let word = if marks == 0 { 0 } else { 0x4000_0000 | marks };
        assert_eq!(read(&frame).unwrap().message.word, word, "behind {octets} octets");
    }
    // A plan from what messages found: all six at p1, and one the other way, through an idle link.
    let plan = |arguments: &[&str]| {
        run(&mut plimsoll(&net.switch, &[&["plan", "--running", "--json"], arguments].concat()), SOON)
    };
    let refused = plan(&["--forward", "p0", "--reverse", "p1"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("no message of a clock has left by port switch/p0 yet"), "{refused:?}");
    let back = net.hosts[0].capture();
    assert!(net.hosts[1].injector().send(&Message::sync(77).frame(Carrier::L2, net.hosts[1].mac)));
    let _ = back.until("the message", 1, |frame| read(frame).is_some_and(|seen| seen.message.sequence == 77));
    let plan: serde_json::Value = serde_json::from_str(&plan(&[]).ok().stdout).unwrap();
    assert_eq!(
        (plan["pairs"][0]["name"].as_str(), plan["pairs"][0]["samples"].as_u64()),
        (Some("p0 to p1"), Some(1))
    );
    let met =
        [999.0, 1000.0, 1001.0, 1999.0, 2000.0, 2001.0].map(|octets: f64| (80.0 * octets).powi(2) / 4.0);
    let (found, true_one) =
        (plan["pairs"][0]["baseline_mse_ns2"].as_f64().unwrap(), met.iter().sum::<f64>() / 6.0);
    assert!((found / true_one - 1.0).abs() < 2.0 / 32.0, "{found} {true_one}");
    let queues = switch.show("queues");
    let counted: u64 = queues["queues"][1]["sync_depth_bytes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket[2].as_u64().unwrap())
        .sum();
    assert_eq!(counted, 6, "{queues}");
    let wrong = link(&["hold", "p9"]);
    assert_eq!(wrong.code(), Some(1));
    assert_eq!(wrong.stderr, "plimsoll: there is no port \"p9\"; write one of switch/p0, switch/p1\n");
    let _ = switch.stop().ok();
}
