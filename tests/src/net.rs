//! A switch's namespace with ports `p0`, `p1`, ..., and a host behind each: a namespace of its own with one interface.

use crate::capture::Capture;
use crate::inject::Injector;
use crate::process::{Output, run};
use crate::wait_for;
use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::{Counters, Link, Netlink, VethEnd};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// A host's interface.
pub const INTERFACE: &str = "eth0";

/// Whether hosts have addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// None, and no IPv6: nothing is on the links but what the test sends.
    Silent,
    /// 10.88.0.N/24 and fd88::N/64, with ARP and neighbour discovery.
    Addressed,
}

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where it is.
    pub namespace: Namespace,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its IPv4 address, where it has one.
    pub v4: Ipv4Addr,
    /// Its IPv6 address, where it has one.
    pub v6: Ipv6Addr,
}

/// Hosts and ports.
#[derive(Debug)]
pub struct Net {
    /// The namespace with the ports.
    pub switch: Namespace,
    /// The hosts, host N behind port `pN`.
    pub hosts: Vec<Host>,
    stack: Stack,
}

/// The name of the port to a host.
pub fn port(host: usize) -> String {
    format!("p{host}")
}

impl Net {
    /// So many hosts.
    ///
    /// # Panics
    /// Without root's capabilities.
    pub fn new(hosts: usize, stack: Stack) -> Self {
        let root = rustix::process::geteuid().is_root();
        assert!(root, "these tests make namespaces: run them as root or by the runner scripts/as-root");
        let switch = Namespace::new().unwrap();
        switch.set_sysctl("ipv6/conf/default/disable_ipv6", "1").unwrap();
        let mut net = Self { switch, hosts: Vec::new(), stack };
        for number in 0..hosts {
            let namespace = Namespace::new().unwrap();
            let quiet = if stack == Stack::Silent { "1" } else { "0" };
            namespace.set_sysctl("ipv6/conf/default/disable_ipv6", quiet).unwrap();
            for key in ["accept_dad", "router_solicitations", "accept_ra"] {
                namespace.set_sysctl(&format!("ipv6/conf/default/{key}"), "0").unwrap();
            }
            let id = number as u8 + 1;
            net.hosts.push(Host {
                namespace,
                mac: [2, 0, 0, 0xE2, 0xE0, id],
                v4: Ipv4Addr::new(10, 88, 0, id),
                v6: Ipv6Addr::new(0xFD88, 0, 0, 0, 0, 0, 0, id.into()),
            });
            net.join(number);
        }
        net
    }

    /// Makes the link between a host and its port, at first or again.
    ///
    /// # Panics
    /// When it is there.
    pub fn join(&self, number: usize) {
        let host = &self.hosts[number];
        let port = port(number);
        let mut netlink = Netlink::open_in(&self.switch).unwrap();
        let end = VethEnd { mac: Some(host.mac), ..VethEnd::new(INTERFACE, &host.namespace) };
        netlink.create_veth(&VethEnd::new(&port, &self.switch), &end).unwrap();
        let mut inside = Netlink::open_in(&host.namespace).unwrap();
        let link = inside.link(INTERFACE).unwrap();
        inside.set_up(&link, true).unwrap();
        if self.stack == Stack::Addressed {
            inside.add_address(&link, host.v4.into(), 24).unwrap();
            inside.add_address(&link, host.v6.into(), 64).unwrap();
        }
        let link = netlink.link(&port).unwrap();
        netlink.set_up(&link, true).unwrap();
        // Carrier, and with it the routes, come a moment later.
        wait_for("carrier", Duration::from_secs(5), || host.link().is_running().then_some(()));
    }

    /// Joins two ports of switches by a cable.
    ///
    /// # Panics
    /// When there is a port of such a name.
    pub fn cable(&self, ports: [&str; 2]) {
        let mut netlink = Netlink::open_in(&self.switch).unwrap();
        let [one, two] = ports.map(|port| VethEnd::new(port, &self.switch));
        netlink.create_veth(&one, &two).unwrap();
        for port in ports {
            let link = netlink.link(port).unwrap();
            netlink.set_up(&link, true).unwrap();
        }
        wait_for("carrier", Duration::from_secs(5), || {
            ports.iter().all(|port| netlink.link(port).unwrap().is_running()).then_some(())
        });
    }

    /// Deletes the link between a host and its port.
    ///
    /// # Panics
    /// When it is not there.
    pub fn part(&self, number: usize) {
        let mut netlink = Netlink::open_in(&self.switch).unwrap();
        let link = netlink.link(&port(number)).unwrap();
        netlink.delete_link(&link).unwrap();
    }

    /// A host's port as the kernel shows it.
    ///
    /// # Panics
    /// When it is not there.
    pub fn port(&self, number: usize) -> Link {
        Netlink::open_in(&self.switch).unwrap().link(&port(number)).unwrap()
    }

    /// `ethtool -K` at a host's port.
    ///
    /// # Panics
    /// When ethtool fails.
    pub fn ethtool_port(&self, number: usize, arguments: &[&str]) {
        let mut command = Command::new("ethtool");
        command.args(["-K", &port(number)]).args(arguments);
        let _ = run(self.switch.enter_command(&mut command), Duration::from_secs(10)).ok();
    }

    /// Sends datagrams from one host to another until one has come and its answer too.
    ///
    /// # Panics
    /// When none gets through within 10 s.
    pub fn exchange(&self, from: usize, to: usize) {
        let (from, to) = (&self.hosts[from], &self.hosts[to]);
        let there = to.udp(to.v4.into());
        let here = from.udp(from.v4.into());
        let target = there.local_addr().unwrap();
        let mut buffer = [0; 64];
        wait_for("a datagram and its answer", Duration::from_secs(10), || {
            here.send_to(b"there", target).unwrap();
            let (length, back) = received(&there, &mut buffer)?;
            assert_eq!(&buffer[..length], b"there");
            there.send_to(b"back", back).unwrap();
            let (length, _) = received(&here, &mut buffer)?;
            assert_eq!(&buffer[..length], b"back");
            Some(())
        });
    }
}

fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, std::net::SocketAddr)> {
    match socket.recv_from(buffer) {
        Ok(received) => Some(received),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(e) => panic!("recv: {e}"),
    }
}

impl Host {
    /// A program to be run on this host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.namespace.enter_command(&mut command);
        command
    }

    /// Runs a program on this host to its end.
    ///
    /// # Panics
    /// When it fails, or takes longer than half a minute.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        run(self.command(program).args(arguments), Duration::from_secs(30)).ok()
    }

    /// Its interface.
    ///
    /// # Panics
    /// When it is not there.
    pub fn link(&self) -> Link {
        Netlink::open_in(&self.namespace).unwrap().link(INTERFACE).unwrap()
    }

    /// Its interface's counters.
    ///
    /// # Panics
    /// When it is not there.
    pub fn counters(&self) -> Counters {
        self.link().counters
    }

    /// A UDP socket on a free port, with a time limit on receiving of 200 ms.
    ///
    /// # Panics
    /// When the host has no such address.
    pub fn udp(&self, address: IpAddr) -> UdpSocket {
        let socket = self.namespace.run_in(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    }

    /// Sends frames from this host.
    ///
    /// # Panics
    /// When the kernel refuses the socket.
    pub fn injector(&self) -> Injector {
        Injector::open(&self.namespace, self.link().index)
    }

    /// Reads all frames on this host's interface.
    ///
    /// # Panics
    /// When dumpcap does not start.
    pub fn capture(&self) -> Capture {
        self.capture_of("")
    }

    /// Reads the frames on this host's interface that a filter (pcap-filter(7)) lets pass.
    ///
    /// # Panics
    /// When dumpcap does not start.
    pub fn capture_of(&self, filter: &str) -> Capture {
        Capture::start(self, filter)
    }
}
