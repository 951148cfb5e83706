//! Interfaces that come and go, names that are taken, ports that are another's.
#![allow(clippy::unwrap_used)]

use aya::programs::links::FdLink;
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use plimsoll_classify::PROGRAM_TAP;
use plimsoll_tests::frames::bulk;
use plimsoll_tests::inject::Flood;
use plimsoll_tests::net::{Net, Stack};
use plimsoll_tests::process::{Output, run};
use plimsoll_tests::remains::Remains;
use plimsoll_tests::switch::{Switch, plimsoll};
use plimsoll_tests::wait_for;
use std::time::Duration;

static TAP: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/tap.o");

const SOON: Duration = Duration::from_secs(10);
const PORTS: [&str; 6] = ["--port", "p0", "--port", "p1", "--port", "p2"];

fn is_absent(switch: &Switch, port: &str) -> bool {
    switch.port(port)["description"].is_null()
}

/// A start that must be refused.
fn refused(net: &Net, arguments: &[&str], code: i32) -> Output {
    let all: Vec<&str> = ["run"].iter().chain(arguments).copied().collect();
    let output = run(&mut plimsoll(&net.switch, &all), SOON);
    assert_eq!(output.code(), Some(code), "{output:#?}");
    assert!(output.stderr.starts_with("plimsoll: "), "{output:#?}");
    output
}

#[test]
fn an_interface_that_goes_leaves_the_others_at_work_and_comes_back_by_its_name() {
    let net = Net::new(3, Stack::Addressed);
    let switch = Switch::start(&net, &PORTS);
    net.exchange(0, 1);
    net.exchange(0, 2);
    // Frames for the port all the while.
    let (from, to) = (&net.hosts[0], &net.hosts[2]);
    let flood = Flood::start(
        from.injector(),
        vec![bulk(from.mac, to.mac, 200), bulk(from.mac, [0xFF; 6], 100)],
        Duration::from_millis(1),
    );
    let first = switch.port("p2")["description"]["index"].as_u64().unwrap();
    net.part(2);
    wait_for("p2 to be absent", SOON, || is_absent(&switch, "p2").then_some(()));
    net.exchange(0, 1);
    net.exchange(1, 0);
    assert!(!is_absent(&switch, "p0") && !is_absent(&switch, "p1"));
    net.join(2);
    wait_for("p2 to be back", SOON, || (!is_absent(&switch, "p2")).then_some(()));
    assert_ne!(switch.port("p2")["description"]["index"].as_u64(), Some(first), "another interface");
    net.exchange(0, 2);
    net.exchange(2, 1);
    // Gone and back again before anybody looked.
    for _ in 0..3 {
        let index = switch.port("p2")["description"]["index"].as_u64();
        net.part(2);
        net.join(2);
        wait_for("p2 to be the new one", SOON, || {
            let now = switch.port("p2")["description"]["index"].as_u64();
            (now.is_some() && now != index).then_some(())
        });
        net.exchange(0, 2);
    }
    drop(flood);
    let shown = switch.show("ports");
    assert_eq!(shown["frames_conserved"], true, "{}", shown["frames"]);
    let output = switch.stop().ok();
    assert!(output.stderr.matches("p2: is back").count() >= 4, "{output:#?}");
}

#[test]
fn an_interface_that_is_set_down_and_up_forwards_again() {
    let net = Net::new(3, Stack::Addressed);
    let switch = Switch::start(&net, &PORTS);
    net.exchange(0, 2);
    let ip = |state: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["link", "set", "p2", state]);
        let _ = run(net.switch.enter_command(&mut command), SOON).ok();
    };
    ip("down");
    net.exchange(0, 1);
    ip("up");
    net.exchange(0, 2);
    net.exchange(1, 2);
    assert!(!is_absent(&switch, "p2"));
    let _ = switch.stop().ok();
}

#[test]
fn a_second_switch_of_the_same_name_or_on_the_same_ports_changes_nothing() {
    let net = Net::new(4, Stack::Addressed);
    let switch = Switch::start(&net, &["--name", "mine", "--port", "p0", "--port", "p1"]);
    let (programs, before) = (switch.programs(), Remains::of(&net.switch));
    // The name, with other ports.
    let output = refused(&net, &["--name", "mine", "--port", "p2", "--port", "p3"], 1);
    assert!(
        output.stderr.contains("a switch called \"mine\" runs already; choose another --name"),
        "{output:#?}"
    );
    assert_eq!(Remains::of(&net.switch), before);
    // A port, with another name. The one before it was free, and is free again.
    let output = refused(&net, &["--name", "other", "--port", "p2", "--port", "p1"], 1);
    let id = programs[1];
    for part in ["port p1: ", "(EBUSY)", "plimsoll_classi", &format!("(id {id})"), "bpftool link"] {
        assert!(output.stderr.contains(part), "{part} in {output:#?}");
    }
    assert_eq!(Remains::of(&net.switch), before);
    assert_eq!(switch.programs(), programs);
    net.exchange(0, 1);
    // Side by side they run.
    let other = Switch::start(&net, &["--name", "other", "--port", "p2", "--port", "p3"]);
    net.exchange(2, 3);
    net.exchange(0, 1);
    let show = |arguments: &[&str]| run(&mut plimsoll(&net.switch, arguments), SOON);
    let several = show(&["show", "ports"]);
    assert_eq!(several.code(), Some(1), "{several:#?}");
    assert!(
        several.stderr.contains("several switches run: mine, other; choose one with --name"),
        "{several:#?}"
    );
    let one = show(&["show", "ports", "--json", "--name", "other"]).ok().json();
    assert_eq!(one["ports"][0]["port"], "p2", "{one}");
    let _ = (other.stop().ok(), switch.stop().ok());
}

/// Somebody else's XDP program on a port.
fn foreign(net: &Net, port: &str, mode: XdpMode) -> (Ebpf, FdLink) {
    let mut ebpf = EbpfLoader::new().load(TAP).unwrap();
    let link = net
        .switch
        .run_in(|| {
            let program: &mut Xdp = ebpf.program_mut(PROGRAM_TAP).unwrap().try_into().unwrap();
            program.load().unwrap();
            let id = program.attach(port, mode).unwrap();
            FdLink::try_from(program.take_link(id).unwrap()).unwrap()
        })
        .unwrap();
    (ebpf, link)
}

#[test]
fn a_foreign_xdp_program_is_refused_by_name_and_left_in_place() {
    let net = Net::new(2, Stack::Addressed);
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let owner = foreign(&net, "p1", mode);
        let before = Remains::of(&net.switch);
        let id = net.port(1).xdp.unwrap().program;
        for wanted in ["auto", "native", "generic"] {
            let output = refused(&net, &["--port", "p0", "--port", &format!("p1,mode={wanted}")], 1);
            let name: String = PROGRAM_TAP.chars().take(15).collect();
            for part in ["port p1: ", &format!("XDP program {name} (id {id}) is attached"), "stop its owner"]
            {
                assert!(output.stderr.contains(part), "{part} in {output:#?}");
            }
            assert_eq!(output.stderr.lines().filter(|line| line.starts_with("plimsoll: ")).count(), 1);
            assert_eq!(Remains::of(&net.switch), before, "{wanted}");
        }
        drop(owner);
    }
    let switch = Switch::start(&net, &["--port", "p0", "--port", "p1"]);
    net.exchange(0, 1);
    let _ = switch.stop().ok();
}
