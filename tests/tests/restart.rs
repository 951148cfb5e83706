//! Starting and stopping: again and again, under load, and by force. Nothing may be left, and no frame may be lost
//! without being counted.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::frames::{Carrier, Message, bulk, hello};
use plimsoll_tests::inject::Flood;
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::remains::{Remains, program_exists, sockets};
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::{process, wait_for};
use std::time::Duration;

const PORTS: [&str; 4] = ["--port", "p0", "--port", "p1"];
const SOON: Duration = Duration::from_secs(5);

/// Waits until nothing is left of a switch with these programs.
fn nothing_left(net: &Net, before: &Remains, programs: &[u64]) {
    // The kernel frees programs and sockets a moment after their last user.
    wait_for("the end of the XDP programs", SOON, || {
        (!programs.iter().any(|id| program_exists(*id))).then_some(())
    });
    assert_eq!(&Remains::of(&net.switch), before);
}

/// Both hosts flood each other with frames of all sizes, event messages among them; in bursts, or on two CPUs nothing
/// else would run.
fn floods(net: &Net) -> Vec<Flood> {
    [(0, 1), (1, 0)]
        .map(|(from, to)| {
            let (source, destination) = (net.hosts[from].mac, net.hosts[to].mac);
            let mut frames: Vec<_> =
                [60, 1514, 300, 60, 900].map(|length| bulk(source, destination, length)).into();
            frames.push(Message::sync(1).frame(Carrier::Udp4, source));
            frames.push(Message::sync(2).frame(Carrier::L2, source));
            Flood::start(net.hosts[from].injector(), vec![frames; 8].concat(), Duration::from_micros(100))
        })
        .into()
}

#[test]
fn twenty_restarts_on_the_same_ports_leave_nothing() {
    let net = Net::new(2, Stack::Addressed);
    let before = Remains::of(&net.switch);
    let mut programs = Vec::new();
    for round in 0..20 {
        let switch = Switch::start(&net, &PORTS);
        let ids = switch.programs();
        assert_eq!(ids.len(), 2, "round {round}");
        assert_eq!(sockets(&net.switch).into_iter().collect::<Vec<_>>(), ["@plimsoll/run"]);
        assert_ne!(Remains::of(&net.switch), before, "what runs must show, or this test sees nothing");
        programs.extend(ids);
        net.exchange(0, 1);
        let output = switch.stop().ok();
        assert_eq!(output.stdout, "", "round {round}");
        assert!(!output.stderr.contains("plimsoll: "), "round {round}: {output:#?}");
    }
    nothing_left(&net, &before, &programs);
    let asked = process::run(&mut plimsoll(&net.switch, &["show", "ports"]), SOON);
    assert_eq!(asked.code(), Some(1));
    assert!(asked.stderr.starts_with("plimsoll: no switch runs in this network namespace; "), "{asked:#?}");
}

#[test]
fn sigterm_under_flood_ends_well_and_every_frame_is_accounted_for() {
    let net = Net::new(2, Stack::Silent);
    let before = Remains::of(&net.switch);
    let flooding = floods(&net);
    let mut programs = Vec::new();
    // A queue that is full when the end comes, and one that is empty.
    for ports in [PORTS, ["--port", "p0,rate=1gbit", "--port", "p1,rate=10mbit"]] {
        for _ in 0..2 {
            let switch = Switch::start(&net, &ports);
            programs.extend(switch.programs());
            let mut forwarded = 0;
            for _ in 0..10 {
                let ports = switch.show("ports");
                assert_eq!(ports["frames_conserved"], true, "{}", ports["frames"]);
                forwarded = ports["ports"][1]["tx"]["frames"].as_u64().unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }
            assert!(forwarded > 100, "only {forwarded} frames: that is no flood");
            // Exit code 0 says that every chunk of the frame memory was free at the end.
            let output = switch.stop().ok();
            assert!(!output.stderr.contains("plimsoll: "), "{output:#?}");
        }
    }
    assert!(flooding.iter().all(|flood| flood.sent() > 1000));
    drop(flooding);
    nothing_left(&net, &before, &programs);
}

#[test]
fn after_kill_9_under_flood_it_starts_at_once() {
    let net = Net::new(2, Stack::Silent);
    let before = Remains::of(&net.switch);
    let flooding = floods(&net);
    let mut programs = Vec::new();
    for _ in 0..5 {
        let switch = Switch::start(&net, &PORTS);
        programs.extend(switch.programs());
        switch.kill();
    }
    let switch = Switch::start(&net, &PORTS);
    programs.extend(switch.programs());
    drop(flooding);
    switch.drained();
    // And it forwards.
    let (from, to) = (&net.hosts[0], &net.hosts[1]);
    to.injector().send(&hello(to.mac));
    let seen = to.counters().rx_packets;
    from.injector().send(&bulk(from.mac, to.mac, 60));
    wait_for("the frame at the other host", SOON, || (to.counters().rx_packets > seen).then_some(()));
    switch.kill();
    nothing_left(&net, &before, &programs);
}
