//! Ports come and go and leave nothing behind. Needs root.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, round, small, umem, wait_for};
use plimsoll_port::netlink::Netlink;
use plimsoll_port::{Kick, Mode, Port, PortErrorKind, PortOptions};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

#[test]
fn a_dropped_port_detaches_too() {
    let bench = Bench::new();
    let options = small();
    let mut umem = umem(&options, 1, 2);
    drop(bench.open(&mut umem, "pa", &options).unwrap());
    assert_eq!(Netlink::open_in(&bench.switch).unwrap().link("pa").unwrap().xdp, None);
    bench.open(&mut umem, "pa", &options).unwrap().close(&mut umem);
}

/// Not a test of its own: the process that the next one kills.
#[test]
#[ignore = "started by the test of kill -9"]
fn child_that_holds_a_port() {
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let _port = Port::open(&mut umem, "pa", &options).unwrap();
    println!("child: open");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn after_kill_9_the_port_opens_at_once() {
    let bench = Bench::new();
    let options = small();
    for _ in 0..3 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_that_holds_a_port", "--ignored", "--nocapture"]);
        let mut child = bench.switch.enter_command(&mut command).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("child: open")));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut umem = umem(&options, 1, 1);
        let port = bench.open(&mut umem, "pa", &options).unwrap();
        assert_eq!(port.describe().mode, Mode::Native);
        port.close(&mut umem);
    }
}

#[test]
fn a_foreign_program_is_refused_by_name_and_stays() {
    let bench = Bench::new();
    let options = PortOptions { patience: Duration::from_millis(20), ..small() };
    let mut umem = umem(&options, 1, 3);
    for (theirs, ours) in [
        (Mode::Native, Mode::Auto),
        (Mode::Native, Mode::Generic),
        (Mode::Generic, Mode::Native),
        (Mode::Generic, Mode::Generic),
    ] {
        let owner = bench.open(&mut umem, "pa", &PortOptions { mode: theirs, ..options.clone() }).unwrap();
        let free = umem.tally([&owner]).free;
        let started = Instant::now();
        let error = bench.open(&mut umem, "pa", &PortOptions { mode: ours, ..options.clone() }).unwrap_err();
        assert!(started.elapsed() >= options.patience, "gave up before it was patient");
        assert_eq!(error.kind, PortErrorKind::Busy, "{error}");
        let text = error.to_string();
        let id = owner.describe().program_id;
        assert!(text.contains("plimsoll_classi"), "{text}");
        assert!(text.contains(&format!("(id {id})")) && text.contains("bpftool link"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(umem.tally([&owner]).free, free, "the refused port kept chunks");
        let xdp = Netlink::open_in(&bench.switch).unwrap().link("pa").unwrap().xdp.unwrap();
        assert_eq!(xdp.program, id);
        owner.close(&mut umem);
    }
}

#[test]
fn a_queue_that_another_socket_has_is_refused_with_its_number() {
    let bench = Bench::new();
    let options = PortOptions { patience: Duration::from_millis(20), ..small() };
    let mut umem = umem(&options, 1, 2);
    let owner = bench.open(&mut umem, "pa", &options).unwrap();
    // The program goes, the sockets stay: what a half-stopped predecessor looks like.
    let link = format!("{}", owner.describe().program_id);
    let id = link_of(&link);
    assert!(Command::new("bpftool").args(["link", "detach", "id", &id]).status().unwrap().success());
    let error = bench.open(&mut umem, "pa", &options).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Busy, "{error}");
    assert_eq!(error.queue, Some(0));
    assert!(
        error.to_string().starts_with("port pa queue 0: bind: Device or resource busy (EBUSY); "),
        "{error}"
    );
    assert_eq!(Netlink::open_in(&bench.switch).unwrap().link("pa").unwrap().xdp, None, "half applied");
    owner.close(&mut umem);
    bench.open(&mut umem, "pa", &options).unwrap().close(&mut umem);
}

/// The id of the link that holds this program.
fn link_of(program: &str) -> String {
    let output = Command::new("bpftool").args(["-j", "link", "show"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let at = text.find(&format!("\"prog_id\":{program}")).unwrap();
    let id = text[..at].rfind("\"id\":").unwrap();
    text[id + 5..].chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn an_absent_interface_is_absent() {
    let bench = Bench::new();
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let error = bench.open(&mut umem, "px", &options).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Absent, "{error}");
    assert!(error.to_string().contains("port px") && error.to_string().contains("ENODEV"), "{error}");
    assert_eq!(umem.tally([]).free, u64::from(umem.chunks()));
}

#[test]
fn an_interface_that_vanishes_is_told_and_closes_whole_and_comes_back() {
    let bench = Bench::new();
    let options = small();
    let mut umem = umem(&options, 1, 3);
    let mut a = bench.open(&mut umem, "pa", &options).unwrap();
    let mut b = bench.open(&mut umem, "pb", &options).unwrap();
    assert!(a.is_alive() && b.is_alive());
    let frame = umem.insert(&[2; 60]).unwrap();
    let mut netlink = Netlink::open_in(&bench.switch).unwrap();
    let link = netlink.link("pa").unwrap();
    netlink.delete_link(&link).unwrap();
    wait_for("gone", || !a.is_alive());
    assert!(!a.is_alive() && b.is_alive(), "and it stays gone");
    // Nothing that a worker does with it meanwhile breaks.
    a.transmit(&mut umem, frame, &plimsoll_classify::Class::OTHER).unwrap();
    round(&mut b, &mut a, &mut umem, |class| class);
    round(&mut a, &mut b, &mut umem, |class| class);
    assert!(umem.tally([&a, &b]).is_whole());
    let counters = a.close(&mut umem);
    // And what the host's own IPv6 had to say.
    assert!(counters.tx_down >= 1);
    assert!(umem.tally([&b]).is_whole());
    let error = bench.open(&mut umem, "pa", &options).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Absent);
    let end = plimsoll_port::netlink::VethEnd::new;
    netlink.create_veth(&end("pa", &bench.switch), &end("again", &bench.a)).unwrap();
    a = bench.open(&mut umem, "pa", &options).unwrap();
    assert!(a.is_alive());
    a.close(&mut umem);
    b.close(&mut umem);
    let tally = umem.tally([]);
    assert_eq!(tally.free + tally.withdrawn, tally.total);
    assert_eq!(tally.withdrawn, 0, "copy mode holds nothing back");
}

#[test]
fn a_port_that_is_down_opens_and_works_once_it_is_up() {
    let bench = Bench::new();
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let mut netlink = Netlink::open_in(&bench.switch).unwrap();
    let link = netlink.link("pa").unwrap();
    netlink.set_up(&link, false).unwrap();
    let mut port = bench.open(&mut umem, "pa", &options).unwrap();
    assert!(port.is_alive());
    let send = |port: &mut Port, umem: &mut plimsoll_port::Umem| {
        let frame = umem.insert(&[0xFF; 60]).unwrap();
        port.transmit(umem, frame, &plimsoll_classify::Class::OTHER).unwrap();
        let kick = port.kick();
        port.reap(umem);
        kick
    };
    assert_eq!(send(&mut port, &mut umem), Kick::Down);
    assert_eq!((port.counters().tx_down, port.tx_outstanding()), (1, 0));
    assert!(!port.probe(), "the interface is down, and nothing is on the ring");
    netlink.set_up(&link, true).unwrap();
    assert!(port.probe());
    let host = || Netlink::open_in(&bench.a).unwrap().link("eth0").unwrap();
    wait_for("carrier", || host().is_running());
    let before = host().counters.rx_packets;
    assert_eq!(send(&mut port, &mut umem), Kick::Idle);
    wait_for("the frame at the host", || host().counters.rx_packets > before);
    port.close(&mut umem);
    assert_eq!(umem.tally([]).free, u64::from(umem.chunks()));
}

#[test]
fn a_missing_capability_is_named() {
    let bench = Bench::new();
    let options = small();
    for (capability, name) in [
        (CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN, "CAP_BPF"),
    ] {
        let mut umem = umem(&options, 1, 1);
        let error = bench
            .switch
            .run_in(|| {
                // Of this thread alone.
                let mut sets = capabilities(None).unwrap();
                sets.effective.remove(capability);
                set_capabilities(None, sets).unwrap();
                Port::open(&mut umem, "pa", &options).unwrap_err()
            })
            .unwrap();
        assert_eq!(error.kind, PortErrorKind::Permission, "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert_eq!(Netlink::open_in(&bench.switch).unwrap().link("pa").unwrap().xdp, None);
        assert_eq!(umem.tally([]).free, u64::from(umem.chunks()));
    }
}

#[test]
fn options_without_sense_are_refused_before_anything_is_done() {
    let bench = Bench::new();
    let mut umem = umem(&small(), 1, 1);
    for options in [
        PortOptions { bulk_ring: 1000, ..small() },
        PortOptions { express_ring: 0, ..small() },
        PortOptions { tx_ring: 1 << 21, ..small() },
        PortOptions { express_priority: 9, ..small() },
    ] {
        let error = bench.open(&mut umem, "pa", &options).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Option, "{error}");
    }
    let greedy = PortOptions { held: 1 << 20, ..small() };
    let error = bench.open(&mut umem, "pa", &greedy).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Memory, "{error}");
    let needed = format!("{} chunks are needed", greedy.chunks(1));
    assert!(error.to_string().contains(&needed), "{error}");
}

#[test]
fn an_mtu_beyond_a_chunk_or_the_driver_is_refused_with_the_limit() {
    for (mtu, chunk_size, limit) in
        [(3000, 2048, Some("1770")), (9000, 4096, Some("3818")), (3600, 4096, None)]
    {
        let bench = Bench::with(1, Some(mtu));
        let options = small();
        let mut umem =
            plimsoll_port::Umem::new(plimsoll_port::UmemOptions { chunks: options.chunks(1), chunk_size })
                .unwrap();
        let error = bench.open(&mut umem, "pa", &options).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Mtu, "{error}");
        let text = error.to_string();
        match limit {
            Some(limit) => assert!(text.contains(limit) && text.contains("mtu"), "{text}"),
            // The chunk would do, the driver says no.
            None => assert!(text.contains("ERANGE") && text.contains("mtu"), "{text}"),
        }
        assert_eq!(umem.tally([]).free, u64::from(umem.chunks()));
    }
}

#[test]
fn fewer_rx_queues_than_the_peer_has_tx_queues_is_explained() {
    use plimsoll_port::netlink::VethEnd;
    let bench = Bench::new();
    let mut netlink = Netlink::open_in(&bench.switch).unwrap();
    let port = VethEnd { queues: (1, 1), ..VethEnd::new("pq", &bench.switch) };
    let end = VethEnd { queues: (4, 4), ..VethEnd::new("eth1", &bench.a) };
    netlink.create_veth(&port, &end).unwrap();
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let error = bench.open(&mut umem, "pq", &options).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("ENOSPC") && error.to_string().contains("ethtool -L"), "{error}");
    // The way out that the message names.
    let generic = PortOptions { mode: Mode::Generic, ..options };
    bench.open(&mut umem, "pq", &generic).unwrap().close(&mut umem);
}

#[test]
fn zero_copy_that_the_driver_has_not_is_refused_or_done_without() {
    let bench = Bench::new();
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let error =
        bench.open(&mut umem, "pa", &PortOptions { mode: Mode::ZeroCopy, ..options.clone() }).unwrap_err();
    assert_eq!(error.kind, PortErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("EOPNOTSUPP") && error.to_string().contains("mode native"), "{error}");
    let port = bench.open(&mut umem, "pa", &options).unwrap();
    let description = port.describe();
    assert_eq!((description.mode, description.driver.as_str()), (Mode::Native, "veth"));
    // A veth has no zero copy, which is not worth a word.
    assert!(description.fallbacks.is_empty(), "{:?}", description.fallbacks);
    port.close(&mut umem);
    let pinned = bench.open(&mut umem, "pa", &PortOptions { mode: Mode::Native, ..options }).unwrap();
    assert!(pinned.describe().fallbacks.is_empty());
    pinned.close(&mut umem);
}
