//! VLANs on the wire, octet by octet: access ports without tags, trunks with them, nothing across, and marks on both.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::capture::Capture;
use plimsoll_tests::frames::{BROADCAST, Carrier, Message, bulk, hello, read, tagged};
use plimsoll_tests::net::{Host, Net, Stack};
use plimsoll_tests::process::run;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::{Scratch, wait_for};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);
const VLAN: u16 = 0x8100;
/// The integer word of so many marks.
const INTEGER: u32 = 0x4000_0000;

/// Hosts 0 and 1 in VLAN 10, host 2 in VLAN 20, host 3 at a trunk, host 4 at one whose native VLAN is 20.
const PORTS: [&str; 10] = [
    "--port",
    "p0,rate=1gbit,vlan=access:10",
    "--port",
    "p1,rate=100mbit,vlan=access:10",
    "--port",
    "p2,rate=100mbit,vlan=access:20",
    "--port",
    "p3,rate=100mbit,vlan=trunk:10+20-29",
    "--port",
    "p4,rate=100mbit,vlan=trunk:10,native=20",
];

/// One such frame comes.
fn arrives(capture: &Capture, what: &str, frame: &[u8]) {
    assert_eq!(capture.until(what, 1, |seen| seen == frame).len(), 1, "{what}");
}

fn vids(switch: &Switch) -> Vec<(u64, String)> {
    let fdb = switch.show("fdb");
    let entries = fdb["fdb"].as_array().unwrap().iter();
    entries.map(|e| (e["vlan"].as_u64().unwrap(), e["port"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn each_port_has_its_own_vlans_frames_in_its_own_form() {
    let net = Net::new(5, Stack::Silent);
    let switch = Switch::start(&net, &PORTS);
    let captures: Vec<Capture> = net.hosts.iter().map(Host::capture).collect();
    let injectors: Vec<_> = net.hosts.iter().map(Host::injector).collect();
    let frame = |number: u8| {
        let mut frame = bulk(net.hosts[usize::from(number)].mac, BROADCAST, 100);
        frame[20] = number;
        frame
    };

    // From an access port: priority 0, for the frame says nothing of it.
    assert!(injectors[0].send(&frame(0)));
    arrives(&captures[1], "of host 0, at host 1", &frame(0));
    arrives(&captures[3], "of host 0, at host 3", &tagged(&frame(0), VLAN, 10, 0));
    arrives(&captures[4], "of host 0, at host 4", &tagged(&frame(0), VLAN, 10, 0));
    // From a trunk, with priority 5.
    assert!(injectors[3].send(&tagged(&frame(3), VLAN, 20, 5)));
    arrives(&captures[2], "of host 3, at host 2", &frame(3));
    arrives(&captures[4], "of host 3, at host 4", &frame(3));
    // A native VLAN comes without a tag, or with one for priority alone.
    assert!(injectors[4].send(&tagged(&frame(4), VLAN, 0, 6)));
    arrives(&captures[2], "of host 4, at host 2", &frame(4));
    arrives(&captures[3], "of host 4, at host 3", &tagged(&frame(4), VLAN, 20, 6));
    assert_eq!(vids(&switch), [(10, "p0".to_owned()), (20, "p3".to_owned()), (20, "p4".to_owned())]);

    // What has no way: a VLAN that the port is not in, and none where there is no native one.
    assert!(injectors[0].send(&tagged(&frame(0), VLAN, 20, 0)));
    assert!(injectors[3].send(&tagged(&frame(3), VLAN, 30, 0)));
    assert!(injectors[3].send(&frame(3)));
    // The longest frame: a tag is not of the MTU.
    let long = tagged(&bulk(net.hosts[0].mac, BROADCAST, 1514), VLAN, 10, 0);
    assert!(injectors[0].send(&long));
    arrives(&captures[1], "the longest, at host 1", &bulk(net.hosts[0].mac, BROADCAST, 1514));
    arrives(&captures[3], "the longest, at host 3", &long);
    let losses: Vec<_> = wait_for("losses", SOON, || {
        let drops = switch.drops();
        let losses: Vec<_> = drops
            .into_iter()
            .filter(|loss| loss.reason.starts_with("vlan"))
            .map(|loss| (loss.port, loss.reason, loss.frames))
            .collect();
        (losses.len() == 3).then_some(losses)
    });
    let loss = |port: &str, reason: &str| (port.to_owned(), reason.to_owned(), 1);
    assert_eq!(
        losses,
        [loss("p0", "vlan_filtered"), loss("p3", "vlan_filtered"), loss("p3", "vlan_untagged")]
    );

    // Nothing else came to anybody.
    for (host, (capture, expected)) in captures.into_iter().zip([0, 2, 2, 3, 3]).enumerate() {
        let frames = capture.stop().frames();
        // Its own are among what a host's interface shows.
        let others = frames.iter().filter(|frame| frame[6..12] != net.hosts[host].mac).count();
        assert_eq!(others, expected, "host {host}");
    }
    let shown = switch.port("p4")["vlan"].clone();
    let allowed = serde_json::json!([{ "first": 10, "last": 10 }]);
    assert_eq!(shown, serde_json::json!({ "mode": "trunk", "allowed": allowed, "native": 20 }));
    let _ = switch.stop().ok();
}

/// K is 7700 octets: ten frames of 1538 octets on the wire of an access port exceed it once, and on a trunk, where they
/// have 1542, twice.
#[test]
fn a_sync_is_marked_by_the_frames_as_each_link_has_them() {
    let net = Net::new(5, Stack::Silent);
    let marks = ["--delta", "616us", "--thresholds", "8", "--latency", "100us"];
    let switch = Switch::start(&net, &[&PORTS[..], &marks[..]].concat());
    let link = |what: &str, port: &str| {
        let _ = run(&mut plimsoll(&net.switch, &["link", what, port]), SOON).ok();
    };
    let [access, trunk] = [1, 3].map(|host: usize| net.hosts[host].capture());
    let (injector, source) = (net.hosts[0].injector(), net.hosts[0].mac);
    for (sequence, carrier) in (0..).zip([Carrier::L2, Carrier::Udp4, Carrier::Udp4NoSum, Carrier::Udp6]) {
        ["p1", "p3", "p4"].into_iter().for_each(|port| link("hold", port));
        for _ in 0..10 {
            assert!(injector.send(&bulk(source, BROADCAST, 1514)));
        }
        let message = Message::sync(sequence);
        assert!(injector.send(&message.frame(carrier, source)));
        wait_for("all in the queues", SOON, || {
            let queues = switch.show("queues")["queues"].clone();
            let queued = |port: usize| {
                queues[port]["queues"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|q| q["frames"].as_u64().unwrap())
                    .sum::<u64>()
            };
            (queued(1) == 11 && queued(3) == 11).then_some(())
        });
        ["p1", "p3", "p4"].into_iter().for_each(|port| link("release", port));
        let marked = |marks: u32| Message { word: INTEGER | marks, ..message }.frame(carrier, source);
        let wanted = |frame: &[u8]| read(frame).is_some_and(|seen| seen.message.sequence == sequence);
        // Each as it would have been made with these marks: checksums included.
        assert_eq!(access.until("the message", 1, wanted), [marked(1)], "{carrier:?}");
        assert_eq!(trunk.until("the message", 1, wanted), [tagged(&marked(2), VLAN, 10, 0)], "{carrier:?}");
        switch.drained();
    }
    let _ = switch.stop().ok();
}

/// Hosts 0 and 1 in VLAN 10, 2 and 3 in VLAN 20; 0 and 2 at one switch, 1 and 3 at the other, a trunk between.
#[test]
fn hosts_of_one_vlan_reach_each_other_over_a_trunk_and_nobody_else() {
    let net = Net::new(4, Stack::Addressed);
    net.cable(["t1", "t2"]);
    let mut file = "[switch.s1]\n[switch.s2]\n".to_owned();
    for (switch, port, vlan) in [
        ("s1", "p0", "{ access = 10 }"),
        ("s1", "p2", "{ access = 20 }"),
        ("s1", "t1", "{ trunk = [10, \"20-29\"] }"),
        ("s2", "t2", "{ trunk = [\"1-4094\"] }"),
        ("s2", "p1", "{ access = 10 }"),
        ("s2", "p3", "{ access = 20 }"),
    ] {
        file += &format!(
            "[[port]]\nname = \"{port}\"\nswitch = \"{switch}\"\nrate = \"100mbit\"\nvlan = {vlan}\n"
        );
    }
    let scratch = Scratch::new();
    let path = scratch.write("vlans.toml", &file);
    let switch = Switch::start(&net, &[path.to_str().unwrap()]);
    for (from, to) in [(0, 1), (2, 3)] {
        // UDP with partial checksums, and the longest packets both ways.
        net.exchange(from, to);
        for target in [net.hosts[to].v4.to_string(), net.hosts[to].v6.to_string()] {
            let size = if target.contains(':') { "1452" } else { "1472" };
            let output = net.hosts[from]
                .run("ping", &["-n", "-c", "3", "-i", "0.1", "-W", "5", "-M", "do", "-s", size, &target]);
            assert!(output.stdout.contains(" 0% packet loss"), "{output:#?}");
        }
        tcp(&net.hosts[from], &net.hosts[to]);
    }
    for (from, to) in [(0, 2), (0, 3), (1, 2)] {
        let mut ping = net.hosts[from].command("ping");
        ping.args(["-n", "-c", "3", "-i", "0.1", "-W", "1", &net.hosts[to].v4.to_string()]);
        let output = run(&mut ping, SOON);
        assert!(output.code() == Some(1) && output.stdout.contains("100% packet loss"), "{output:#?}");
    }
    let learnt = vids(&switch);
    assert!(learnt.iter().all(|(vlan, _)| [10, 20].contains(vlan)), "{learnt:?}");
    assert!(switch.drops().iter().all(|loss| loss.reason != "vlan_filtered"), "{:?}", switch.drops());
    let _ = switch.stop().ok();
}

/// A megabyte by TCP, whose checksums are left to be completed.
fn tcp(from: &Host, to: &Host) {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    let listener = to.namespace.run_in(|| TcpListener::bind((to.v4, 0)).unwrap()).unwrap();
    let target = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 251) as u8).collect();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut octets = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut octets).unwrap();
            octets
        });
        let mut stream =
            from.namespace.run_in(|| TcpStream::connect_timeout(&target, SOON).unwrap()).unwrap();
        stream.write_all(&sent).unwrap();
        drop(stream);
        receiver.join().unwrap()
    });
    assert!(received == sent, "{} octets came", received.len());
}

#[test]
fn a_host_is_learnt_in_its_vlan_and_an_unknown_one_is_sought_there_alone() {
    let net = Net::new(5, Stack::Silent);
    let switch = Switch::start(&net, &PORTS);
    net.hosts[1].injector().send(&hello(net.hosts[1].mac));
    wait_for("its address", SOON, || (vids(&switch) == [(10, "p1".to_owned())]).then_some(()));
    let captures: Vec<Capture> = net.hosts.iter().map(Host::capture).collect();
    // From the trunk: in VLAN 10 to host 1 alone, in VLAN 20 to all who might be it.
    let frame = bulk(net.hosts[3].mac, net.hosts[1].mac, 100);
    let injector = net.hosts[3].injector();
    assert!(injector.send(&tagged(&frame, VLAN, 10, 0)));
    arrives(&captures[1], "in VLAN 10", &frame);
    assert!(injector.send(&tagged(&frame, VLAN, 20, 0)));
    arrives(&captures[2], "in VLAN 20", &frame);
    arrives(&captures[4], "in VLAN 20", &frame);
    for (host, (capture, expected)) in captures.into_iter().zip([0, 1, 1, 2, 1]).enumerate() {
        assert_eq!(capture.stop().frames().len(), expected, "host {host}");
    }
    let _ = switch.stop().ok();
}
