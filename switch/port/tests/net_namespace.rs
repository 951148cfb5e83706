//! Namespaces, veth pairs, addresses and the link monitor on the running kernel. Needs root.
#![allow(clippy::unwrap_used)]

use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::{Ethtool, LinkEvent, LinkMonitor, Netlink, OperState, VethEnd};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn pair(one: &Namespace, other: &Namespace) -> (Netlink, Netlink) {
    let mut left = Netlink::open_in(one).unwrap();
    left.create_veth(&VethEnd::new("left", one), &VethEnd::new("right", other)).unwrap();
    (left, Netlink::open_in(other).unwrap())
}

#[test]
fn a_new_namespace_has_lo_up_and_nothing_else_and_the_caller_stays_outside() {
    let before = Namespace::current().unwrap().id().unwrap();
    let namespace = Namespace::new().unwrap();
    assert_eq!(Namespace::current().unwrap().id().unwrap(), before);
    assert_ne!(namespace.id().unwrap(), before);
    let links = Netlink::open_in(&namespace).unwrap().links().unwrap();
    assert_eq!(links.iter().map(|l| (l.name.as_str(), l.is_up())).collect::<Vec<_>>(), [("lo", true)]);
    let inside = namespace.run_in(|| Namespace::current().unwrap().id().unwrap()).unwrap();
    assert_eq!(inside, namespace.id().unwrap());
}

#[test]
fn one_request_makes_both_ends_with_all_that_was_asked() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let mut left = Netlink::open_in(&one).unwrap();
    let end = VethEnd {
        mac: Some([2, 0, 0, 0, 0, 1]),
        mtu: Some(3000),
        queues: (2, 4),
        ..VethEnd::new("left", &one)
    };
    let peer = VethEnd {
        mac: Some([2, 0, 0, 0, 0, 2]),
        mtu: Some(1400),
        queues: (1, 2),
        ..VethEnd::new("right", &other)
    };
    left.create_veth(&end, &peer).unwrap();
    let mut right = Netlink::open_in(&other).unwrap();
    let (l, r) = (left.link("left").unwrap(), right.link("right").unwrap());
    assert_eq!((l.mac, l.mtu, l.tx_queues, l.rx_queues), (end.mac, 3000, 2, 4));
    assert_eq!((r.mac, r.mtu, r.tx_queues, r.rx_queues), (peer.mac, 1400, 1, 2));
    assert_eq!((l.kind.as_deref(), l.lower, r.lower), (Some("veth"), Some(r.index), Some(l.index)));
    assert_eq!((l.xdp, l.is_up()), (None, false));
    assert_eq!(left.link_at(l.index).unwrap(), l);
    // Nothing of it is left in the namespace that asked.
    let here = Netlink::open().unwrap().links().unwrap();
    assert!(here.iter().all(|link| link.name != "left" && link.name != "right"));
}

#[test]
fn a_name_that_is_taken_leaves_nothing_and_says_which() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let (mut left, mut right) = pair(&one, &other);
    let error = left.create_veth(&VethEnd::new("new", &one), &VethEnd::new("right", &other)).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::EEXIST));
    assert!(error.to_string().contains("new and right"), "{error}");
    assert!(left.link("new").unwrap_err().is_absent());
    assert_eq!(right.links().unwrap().len(), 2);
}

#[test]
fn errors_name_the_interface_and_what_the_kernel_said() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let (mut left, _) = pair(&one, &other);
    let link = left.link("left").unwrap();
    let error = left.set_mtu(&link, 100_000).unwrap_err();
    assert!(error.to_string().contains("interface left"), "{error}");
    assert!(error.kernel.as_deref().is_some_and(|k| k.contains("mtu")), "{error}");
    left.delete_link(&link).unwrap();
    assert!(left.set_up(&link, true).unwrap_err().is_absent());
    // The handle is still good after refusals.
    assert_eq!(left.links().unwrap().len(), 1);
}

#[test]
fn datagrams_pass_over_both_families_at_once() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let (mut left, mut right) = pair(&one, &other);
    for (netlink, name, n) in [(&mut left, "left", 1), (&mut right, "right", 2)] {
        let link = netlink.link(name).unwrap();
        netlink.set_up(&link, true).unwrap();
        netlink.add_address(&link, format!("10.77.0.{n}").parse().unwrap(), 16).unwrap();
        netlink.add_address(&link, format!("fd77::{n}").parse().unwrap(), 64).unwrap();
    }
    let (l, r) = (left.link("left").unwrap(), right.link("right").unwrap());
    assert_eq!((l.oper_state, l.is_running()), (OperState::Up, true));
    for (from, to) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        left.add_neighbour(&l, to, r.mac.unwrap()).unwrap();
        right.add_neighbour(&r, from, l.mac.unwrap()).unwrap();
        let sink = other.run_in(|| UdpSocket::bind((to, 0)).unwrap()).unwrap();
        sink.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let source = one.run_in(|| UdpSocket::bind((from, 0)).unwrap()).unwrap();
        let mut buffer = [0; 64];
        // An interface says that it is up some moments before its queue takes frames.
        let received = (0..50).find_map(|_| {
            source.send_to(b"plimsoll", sink.local_addr().unwrap()).unwrap();
            sink.recv_from(&mut buffer).ok()
        });
        let (length, address) = received.unwrap();
        assert_eq!((&buffer[..length], address.ip()), (&b"plimsoll"[..], from));
    }
    left.add_route(&l, "192.0.2.0".parse().unwrap(), 24, Some("10.77.0.2".parse().unwrap())).unwrap();
    let again = left.add_route(&l, "192.0.2.0".parse().unwrap(), 24, Some("10.77.0.2".parse().unwrap()));
    assert_eq!(again.unwrap_err().source.raw_os_error(), Some(libc::EEXIST));
    assert!(left.link("left").unwrap().counters.tx_packets >= 2);
}

#[test]
fn a_bridge_takes_ports_and_says_what_it_is() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let (mut left, _right) = pair(&one, &other);
    left.create_bridge("br0").unwrap();
    let (bridge, port) = (left.link("br0").unwrap(), left.link("left").unwrap());
    assert_eq!(bridge.kind.as_deref(), Some("bridge"));
    assert_eq!(port.master, None);
    left.set_master(&port, &bridge).unwrap();
    assert_eq!(left.link("left").unwrap().master, Some(bridge.index));
    let error = left.set_master(&bridge, &bridge).unwrap_err();
    assert!(error.kernel.is_some() || error.source.raw_os_error() == Some(libc::ELOOP), "{error}");
}

#[test]
fn a_port_that_vanishes_and_returns_is_told_with_its_new_index() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let mut monitor = LinkMonitor::open_in(&one).unwrap();
    assert_eq!(monitor.next_event().unwrap(), None);
    let (mut left, _right) = pair(&one, &other);
    let first = left.link("left").unwrap();
    left.delete_link(&first).unwrap();
    left.create_veth(&VethEnd::new("left", &one), &VethEnd::new("right", &other)).unwrap();
    let second = left.link("left").unwrap();
    assert_ne!(first.index, second.index);
    let (mut told, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(5));
    while told.last() != Some(&(true, second.index)) && Instant::now() < deadline {
        match monitor.next_event().unwrap() {
            Some(LinkEvent::Changed(link)) if link.name == "left" => told.push((true, link.index)),
            Some(LinkEvent::Removed(link)) if link.name == "left" => told.push((false, link.index)),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    told.dedup();
    assert_eq!(told, [(true, first.index), (false, first.index), (true, second.index)]);
}

#[test]
fn drivers_tell_name_queues_and_offloads() {
    let (one, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let _pair = pair(&one, &other);
    let ethtool = Ethtool::open_in(&one).unwrap();
    assert_eq!(ethtool.driver("left").unwrap().name, "veth");
    let channels = ethtool.channels("left").unwrap();
    assert_eq!((channels.rx, channels.tx), (1, 1));
    let offloads = ethtool.offloads("left").unwrap();
    assert!(offloads.tx_checksum && offloads.tso && offloads.gso, "{offloads:?}");
    assert!(!offloads.lro, "{offloads:?}");
    assert!(ethtool.driver("absent").unwrap_err().is_absent());
    assert!(ethtool.driver("a-name-that-is-too-long").unwrap_err().is_absent());
}

#[test]
fn sysctls_are_those_of_the_namespace() {
    let namespace = Namespace::new().unwrap();
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    let (inside, outside) = (namespace.run_in(read).unwrap(), read());
    let other = if inside.trim() == "1" { "0" } else { "1" };
    assert!(namespace.set_sysctl("ipv4/ip_forward", other).unwrap());
    assert_eq!(namespace.run_in(read).unwrap().trim(), other);
    assert_eq!(read(), outside);
    assert!(!namespace.set_sysctl("ipv4/no_such_key", "1").unwrap());
}

#[test]
fn a_child_enters_and_another_process_reaches_the_namespace_by_its_descriptor() {
    let namespace = Namespace::new().unwrap();
    let mut command = Command::new("readlink");
    command.arg("/proc/self/ns/net");
    let output = namespace.enter_command(&mut command).output().unwrap();
    assert!(output.status.success());
    let inside = String::from_utf8(output.stdout).unwrap();
    assert_eq!(inside.trim(), format!("net:[{}]", namespace.id().unwrap().1));
    let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&namespace));
    assert_eq!(Namespace::from_path(path).unwrap().id().unwrap(), namespace.id().unwrap());
    let error = Namespace::from_path("/proc/self/status").unwrap().run_in(|| ()).unwrap_err();
    assert!(error.to_string().contains("setns"), "{error}");
}

#[test]
fn a_child_dies_with_the_thread_that_started_it() {
    let namespace = Namespace::new().unwrap();
    let mut child = std::thread::spawn(move || {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::null());
        namespace.enter_command(&mut command).spawn().unwrap()
    })
    .join()
    .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the child outlived its parent's thread");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
}
