//! Random and damaged frames into a running switch: it survives, changes none, and accounts for every one.
#![allow(clippy::unwrap_used)]

use etherparse::PacketBuilder;
use plimsoll_tests::frames::{BROADCAST, Carrier, Message, bulk, ether, hello, tagged};
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::switch::{Loss, Switch};
use plimsoll_tests::wait_for;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use std::collections::HashMap;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
/// Longest frame of an MTU of 1500, and with a tag.
const LONGEST: usize = 1514;
const LONGEST_TAGGED: usize = 1518;

/// Frames as they should be, of every kind that the classifier knows.
fn whole(source: [u8; 6], random: &mut StdRng) -> Vec<u8> {
    let (v4, other_v4) = ([10, 88, 0, 9], [10, 88, 0, 10]);
    let (v6, other_v6) = ([0xFD; 16], [0xFC; 16]);
    let ip = |version: u8, packet: &[u8]| {
        ether([2, 0, 0, 0, 0, 0x77], source, if version == 4 { 0x0800 } else { 0x86DD }, packet)
    };
    let payload: Vec<u8> = (0..random.random_range(0..1400)).map(|_| random.random()).collect();
    let port = *[123, 319, 320, 53, 4789].choose(random).unwrap();
    let mut packet = Vec::new();
    let frame = match random.random_range(0..8) {
        0 | 1 => {
            let kind = *[0, 1, 2, 3, 8, 9, 0xB, 0xC].choose(random).unwrap();
            let (word, correction) = (random.random(), random.random());
            let carrier = *Carrier::ALL.choose(random).unwrap();
            Message { kind, domain: random.random(), sequence: random.random(), word, correction }
                .frame(carrier, source)
        }
        2 => {
            let mut ntp = vec![0; 48];
            ntp[0] = 4 << 3 | random.random_range(1..8);
            let builder = PacketBuilder::ipv4(v4, other_v4, 64).udp(123, 123);
            builder.write(&mut packet, &ntp).unwrap();
            ip(4, &packet)
        }
        3 => {
            let builder = PacketBuilder::ipv4(v4, other_v4, 64).udp(port, port);
            builder.write(&mut packet, &payload).unwrap();
            ip(4, &packet)
        }
        4 => {
            let builder = PacketBuilder::ipv6(v6, other_v6, 64).udp(port, port);
            builder.write(&mut packet, &payload).unwrap();
            ip(6, &packet)
        }
        5 => {
            let builder = PacketBuilder::ipv4(v4, other_v4, 64).tcp(port, 80, 1, 1000);
            builder.write(&mut packet, &payload).unwrap();
            ip(4, &packet)
        }
        6 => {
            let builder = PacketBuilder::ipv6(v6, other_v6, 64).icmpv6_echo_request(1, 2);
            builder.write(&mut packet, &payload).unwrap();
            ip(6, &packet)
        }
        _ => ether(BROADCAST, source, 0x0806, &[0; 28]),
    };
    match random.random_range(0..10) {
        0 => tagged(&frame, 0x8100, random.random_range(0..4096), random.random_range(0..8)),
        1 => tagged(&tagged(&frame, 0x8100, 5, 0), 0x88A8, 6, random.random_range(0..8)),
        _ => frame,
    }
}

/// Frames with something wrong with them, and some with nothing.
fn next(stations: &[[u8; 6]], random: &mut StdRng) -> Vec<u8> {
    let source = *stations.choose(random).unwrap();
    let mut frame = if random.random_bool(0.15) {
        let mut frame = vec![0; random.random_range(14..=LONGEST)];
        random.fill(&mut frame[..]);
        frame
    } else {
        whole(source, random)
    };
    if random.random_bool(0.6) {
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..frame.len().min(90));
            frame[at] = random.random();
        }
    }
    match random.random_range(0..10) {
        0 | 1 => frame.truncate(random.random_range(14..=frame.len())),
        2 => frame.resize(random.random_range(frame.len()..=frame.len().max(LONGEST)), random.random()),
        _ => {}
    }
    // Where it goes, more often than chance would have it.
    match random.random_range(0..20) {
        0 => frame[..6].copy_from_slice(&BROADCAST),
        1 => frame[..6].copy_from_slice(&[0x01, 0x80, 0xC2, 0, 0, random.random_range(0..20)]),
        2 => frame[..6].copy_from_slice(stations.choose(random).unwrap()),
        3 => frame[6] |= 1,
        _ => {}
    }
    let longest = if frame[12..14] == [0x81, 0x00] { LONGEST_TAGGED } else { LONGEST };
    frame.truncate(longest);
    frame
}

/// The losses of a port, by whether they happen as a frame comes in.
struct Losses {
    at_ingress: u64,
    at_egress: u64,
    machine: u64,
}

fn losses(drops: &[Loss], port: &str) -> Losses {
    let sum = |wanted: &dyn Fn(&Loss) -> bool| {
        drops.iter().filter(|loss| loss.port == port && wanted(loss)).map(|loss| loss.frames).sum()
    };
    let egress = ["queue_bytes", "queue_frames", "no_buffer", "port_down"];
    let of_egress = |loss: &Loss| egress.contains(&loss.reason.as_str());
    Losses {
        at_ingress: sum(&|loss| loss.place == "switch" && !of_egress(loss)),
        at_egress: sum(&|loss| loss.place == "switch" && of_egress(loss)),
        machine: sum(&|loss| loss.place == "machine"),
    }
}

/// Sends `count` frames into port 0 of a switch with two more: one as fast as the machine, one slow, marking and with
/// a short queue.
fn survives(mode: &str, seed: u64, count: u64) {
    let net = Net::new(3, Stack::Silent);
    let ports = [
        &format!("p0,trust=true,mode={mode}"),
        &format!("p1,mode={mode}"),
        &format!("p2,rate=30mbit,edge,queue=20kB,mode={mode}"),
    ];
    let mut arguments = vec!["--delta", "1ms", "--thresholds", "16"];
    ports.iter().for_each(|port| arguments.extend(["--port", port.as_str()]));
    let switch = Switch::start(&net, &arguments);
    let capture = net.hosts[1].capture();
    let before: Vec<_> = net.hosts.iter().map(|host| host.counters()).collect();
    let mut random = StdRng::seed_from_u64(seed);
    // Stations behind port 0 only: whatever is not for one of them is flooded.
    let stations: Vec<[u8; 6]> = (0..6).map(|last| [2, 0, 0, 0, 0xC0, last]).collect();
    let injector = net.hosts[0].injector();
    let mut sent: HashMap<Vec<u8>, i64> = HashMap::new();
    let mut refused = 0;
    for number in 0..count {
        let frame = next(&stations, &mut random);
        if injector.send(&frame) {
            *sent.entry(frame).or_default() += 1;
        } else {
            refused += 1;
        }
        if number % 16 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    // What the kernel still has between the interfaces.
    wait_for("all frames to be counted", SOON, || {
        let seen = switch.port("p0")["rx"]["frames"].as_u64().unwrap();
        (seen + losses(&switch.drops(), "p0").machine >= count).then_some(())
    });
    switch.drained();

    let (shown, drops) = (switch.show("ports"), switch.drops());
    assert_eq!(shown["frames_conserved"], true, "{}", shown["frames"]);
    let number = |port: usize, way: &str| shown["ports"][port][way]["frames"].as_u64().unwrap();
    let [p0, p1, p2] = ["p0", "p1", "p2"].map(|port| losses(&drops, port));
    let received = number(0, "rx");
    // Injected = what the switch got, and what was lost before it.
    assert_eq!(received + p0.machine, count, "{drops:?}");
    let dropped_before = net.hosts[0].counters().tx_dropped - before[0].tx_dropped;
    assert!(refused <= dropped_before && dropped_before * 5 < count, "{refused} {dropped_before}");
    // Nothing is behind the other ports that the switch knows of: what is not dropped goes to both.
    let flooded = received - p0.at_ingress;
    for (port, lost) in [(1, &p1), (2, &p2)] {
        let (taken, left) = (number(port, "tx"), number(port, "tx") - lost.machine);
        assert_eq!(taken + lost.at_egress, flooded, "port {port}: {drops:?}");
        let host = net.hosts[port].counters().rx_packets - before[port].rx_packets;
        assert_eq!(host, left, "port {port}: {drops:?}");
    }
    // The test itself: all kinds of losses were provoked, and most frames passed.
    for reason in ["reserved_address", "source_group", "same_port", "queue_bytes"] {
        assert!(drops.iter().any(|loss| loss.reason == reason), "no {reason} in {drops:?}");
    }
    assert!(flooded * 10 > count * 7, "{flooded} of {count}");

    // It still is a switch.
    let last = bulk(net.hosts[0].mac, net.hosts[1].mac, 77);
    net.hosts[1].injector().send(&hello(net.hosts[1].mac));
    injector.send(&last);
    capture.until("the last frame", 1, |frame| frame == last);

    // Host 1 got what was sent, octet by octet. Only a sum that looked partial may have been completed on the way. What
    // its own kernel drops before any capture is a tag that the frame's end cuts.
    let mut frames = capture.frames();
    frames.retain(|frame| *frame != last && *frame != hello(net.hosts[1].mac));
    let cut = |frame: &Vec<u8>| frame.len() < 20 && matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xA8]);
    let cut: i64 = sent.iter().filter(|(frame, _)| cut(frame)).map(|(_, copies)| copies).sum();
    let left = (number(1, "tx") - p1.machine) as i64;
    let found = frames.len() as i64;
    assert!((left - cut..=left).contains(&found) && cut < 100, "{found} of {left} captured, {cut} cut");
    let mut strange = 0;
    for frame in &frames {
        match sent.get_mut(frame) {
            Some(copies) => *copies -= 1,
            None => strange += 1,
        }
    }
    let counters = &shown["ports"][1]["counters"];
    let completed =
        counters["checksum_metadata"].as_u64().unwrap() + counters["checksum_software"].as_u64().unwrap();
    assert!(strange <= completed, "{strange} frames were changed, {completed} sums completed");
    assert!(completed < 10, "{completed} sums of random frames look partial");
    assert!(sent.values().all(|copies| *copies >= 0), "a frame came twice");

    let output = switch.stop().ok();
    assert!(!output.stderr.contains("plimsoll: "), "{output:#?}");
}

#[test]
fn ten_thousand_random_and_damaged_frames_are_all_accounted_for() {
    survives("native", 0xC0FFEE, 10_000);
}

#[test]
fn the_same_in_generic_mode() {
    survives("generic", 0xBEEF, 3_000);
}
