//! Deficit round robin on real links: the order of a held queue frame by frame, shares of overloading flows, and what is
//! shown of them.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::frames::{bulk, tagged};
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::run;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::{Scratch, program, unique, wait_for};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);
const VLAN: u16 = 0x8100;

/// Class 0 has a quantum of one of its frames, class 1 of two of its and a seventh, class 2 goes first.
#[test]
fn a_held_queue_leaves_in_the_order_of_its_rounds() {
    let net = Net::new(2, Stack::Silent);
    let ports = ["--port", "p0", "--port", "p1,rate=100mbit,quanta=1000B+3kB"];
    let switch = Switch::start(&net, &ports);
    let link = |what: &str| run(&mut plimsoll(&net.switch, &["link", what, "p1"]), SOON).ok();
    let _ = link("hold");
    let (injector, capture) = (net.hosts[0].injector(), net.hosts[1].capture());
    // Priorities 1, 0 and 2 are classes 0, 1 and 2; 1000, 1400 and 1000 octets on the wire.
    let mut number = 0;
    let mut send = |priority: u16, length: usize| {
        let mut frame = bulk(net.hosts[0].mac, net.hosts[1].mac, length - 28);
        frame[20] = number;
        number += 1;
        assert!(injector.send(&tagged(&frame, VLAN, 0, priority)));
    };
    for _ in 0..6 {
        send(1, 1000);
    }
    for _ in 0..15 {
        send(0, 1400);
    }
    for _ in 0..2 {
        send(2, 1000);
    }
    let queues = wait_for("all in the queues", SOON, || {
        let queues = switch.show("queues")["queues"][1].clone();
        let frames: Vec<u64> =
            queues["queues"].as_array()?.iter().map(|queue| queue["frames"].as_u64().unwrap()).collect();
        (frames == [6, 15, 2, 0, 0, 0, 0, 0]).then_some(queues)
    });
    assert_eq!(queues["quanta"], json!([1000, 3000]));
    let table = run(&mut plimsoll(&net.switch, &["show", "queues"]), SOON).ok().stdout;
    let row = |class: &str, scheduling: &str| {
        let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let start = format!("switch p1 {class} {scheduling} ");
        assert!(table.lines().any(|line| cells(line).starts_with(&start)), "{start}: {table}");
    };
    row("0", "quantum 1kB");
    row("1", "quantum 3kB");
    row("2", "strict");
    let _ = link("release");
    let left = capture.until("all", 23, |frame| frame[12..14] == VLAN.to_be_bytes());
    let order: Vec<(u8, u8)> = left.iter().map(|frame| (frame[14] >> 5, frame[24])).collect();
    // 3000 octets are two frames and 200 beside; after six rounds 1200 are left, which make a third.
    let rounds = |round: u8| [(1, round), (0, 6 + 2 * round), (0, 7 + 2 * round)];
    let expected = [(2, 21), (2, 22)].into_iter().chain((0..6).flat_map(rounds));
    assert_eq!(order, expected.chain([(0, 18), (0, 19), (0, 20)]).collect::<Vec<_>>());
    let _ = switch.stop().ok();
}

/// Two flows that each offer 90 % of a link, at quanta of 1:3, beside one above them.
#[test]
fn overloading_flows_share_a_veth_link_in_proportion_to_their_quanta() {
    let mut file = "[switch.s1]\n[host.a]\n[host.b]\n[host.c]\n".to_owned();
    for (host, keys) in [
        ("a", ""),
        ("b", "rate = \"20mbit\"\nqueue = \"100kB\"\nquanta = [\"1kB\", \"1kB\", \"3kB\"]"),
        ("c", ""),
    ] {
        file += &format!("[[link]]\nbetween = [\"{host}\", \"s1\"]\n{keys}\n");
    }
    for (name, from, load, size, dscp) in
        [("one", "a", 0.9, 1400, 0), ("three", "c", 0.9, 600, 16), ("strict", "a", 0.2, 500, 46)]
    {
        file += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"b\"\nload = {load}\nsize = \"{size}B\"\ndscp = {dscp}\n"
        );
    }
    let scratch = Scratch::new();
    let path = scratch.write(&format!("{}.toml", unique("rounds")), &file);
    let mut shares = Vec::new();
    // Where something else took the CPUs, the senders stood still: once more.
    for _ in 0..3 {
        let mut command = Command::new(program());
        command.args(["lab", "run", path.to_str().unwrap(), "--duration", "3s", "--json", "--quiet"]);
        let result = run(command.env_remove("RUST_LOG"), 3 * SOON).json();
        let flow = |number: usize, key: &str| result["flows"][number][key].as_f64().unwrap();
        shares = [0, 1, 2].map(|number| flow(number, "delivered_bps") / 20e6).to_vec();
        let fits =
            shares.iter().zip([0.2, 0.6, 0.2]).all(|(share, expected)| (share / expected - 1.0).abs() < 0.04);
        let stands = |value: &Value| value["stalls"].as_u64() != Some(0);
        if fits && flow(2, "lost_frames") == 0.0 {
            return;
        }
        let stood = result["flows"].as_array().unwrap().iter().any(stands);
        assert!(stood || result["degraded"] == true, "{shares:?}: {result:#}");
    }
    panic!("{shares:?}");
}
