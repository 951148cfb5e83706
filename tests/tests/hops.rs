//! Three switches in a row: marks of all hops add up, and where one hop does not mark, those of the others remain.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::frames::{Carrier, Message, bulk, hello, read};
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::switch::Switch;
use plimsoll_tests::{Scratch, wait_for};
use std::time::Duration;

/// The integer word of so many marks.
const INTEGER: u32 = 0x4000_0000;
/// Frames of 1514 octets in each hop's queue when the message sets out: 12.304 ms each at 1 Mbit/s, and it takes 0.7 ms
/// itself. It finds 36.9 ms at the first hop; at the second what is then left of 110.7 ms, 73.2 ms; at the third what is
/// left of 184.6 ms, 73.2 ms.
const QUEUED: [usize; 3] = [3, 9, 15];
/// Thresholds of 20 ms that they exceed, by 13 ms or more: time that a slow sender may lose.
const MARKS: [u32; 3] = [1, 3, 3];

/// Hosts 0 and 1 are at the first two switches, 2 and 3 at the third; the link to host 3 is the third hop.
fn network() -> Net {
    let net = Net::new(4, Stack::Silent);
    net.cable(["c1", "d1"]);
    net.cable(["c2", "d2"]);
    net
}

/// Three switches in one process; `middle` are further keys of the second one's port to the third.
fn switches(net: &Net, middle: &str) -> (Switch, Scratch) {
    let mut file = "[marking]\ndelta = \"20ms\"\nthresholds = 64\n".to_owned();
    for name in ["s1", "s2", "s3"] {
        file += &format!("[switch.{name}]\nlatency = \"100us\"\n");
    }
    let mut port = |switch: &str, name: &str, rate: &str, more: &str| {
        file += &format!("[[port]]\nname = \"{name}\"\nswitch = \"{switch}\"\nrate = \"{rate}\"\n{more}\n");
    };
    port("s1", "p0", "1gbit", "");
    port("s1", "c1", "1mbit", "trust = true");
    port("s2", "d1", "1gbit", "trust = true");
    port("s2", "p1", "1gbit", "");
    port("s2", "c2", "1mbit", &format!("trust = true\n{middle}"));
    port("s3", "d2", "1gbit", "trust = true");
    port("s3", "p2", "1gbit", "");
    port("s3", "p3", "1mbit", "");
    let scratch = Scratch::new();
    let file = scratch.write("switches.toml", &file);
    (Switch::start(net, &[file.to_str().unwrap()]), scratch)
}

/// What a message carries that went through all three queues, over each carrier.
fn through(middle: &str, expected: u32) {
    let net = network();
    let (switch, _scratch) = switches(&net, middle);
    for host in &net.hosts {
        host.injector().send(&hello(host.mac));
    }
    wait_for("all hosts in all FDBs", Duration::from_secs(5), || {
        (switch.show("fdb")["fdb"].as_array().unwrap().len() == 3 * net.hosts.len()).then_some(())
    });
    switch.drained();
    let capture = net.hosts[3].capture();
    let injectors: Vec<_> = net.hosts.iter().map(plimsoll_tests::net::Host::injector).collect();
    let source = net.hosts[0].mac;
    for (sequence, carrier) in (0..).zip(Carrier::ALL) {
        // Each fills one hop: host 0 sends to 1 over the first link, 1 to 2 over the second, 2 to 3 over the third.
        let fill = || {
            let _ = rustix::process::nice(-15);
            for (hop, frames) in QUEUED.into_iter().enumerate().rev() {
                let frame = bulk(net.hosts[hop].mac, net.hosts[hop + 1].mac, 1514);
                for _ in 0..frames {
                    assert!(injectors[hop].send(&frame));
                }
            }
            assert!(injectors[0].send(&Message::sync(sequence).frame(carrier, source)));
        };
        std::thread::scope(|scope| scope.spawn(fill).join().unwrap());
        let wanted = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.sequence == sequence);
        let frames = capture.until(&format!("{carrier:?}"), 1, wanted);
        let message = Message { word: INTEGER | expected, ..Message::sync(sequence) };
        // The frame as it would have been made with these marks: checksum included, and nothing else touched.
        assert_eq!(frames, [message.frame(carrier, source)], "{carrier:?}: {:?}", read(&frames[0]));
        switch.drained();
    }
    let outcomes = switch.marks("c2")["outcomes"].clone();
    let (marked, off) = if middle.is_empty() { (Carrier::ALL.len(), 0) } else { (0, Carrier::ALL.len()) };
    assert_eq!((&outcomes["marked"], &outcomes["off"]), (&marked.into(), &off.into()), "{outcomes}");
    let _ = switch.stop().ok();
}

#[test]
fn marks_of_three_hops_add_up() {
    through("", MARKS.iter().sum());
}

#[test]
fn where_the_middle_hop_does_not_mark_the_others_still_do() {
    through("mark = false", MARKS[0] + MARKS[2]);
}
