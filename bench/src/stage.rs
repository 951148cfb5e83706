//! The stage of a measurement: hosts in namespaces of their own, and between them the switch, a Linux bridge, or what
//! else is measured. All of it is held by descriptors: it goes with the process, however that ends.

use crate::tools;
use anyhow::{Context, Result};
use plimsoll_core::{PortConfig, SwitchConfig};
use plimsoll_port::{
    Port, PortOptions, Umem, UmemOptions,
    namespace::Namespace,
    netlink::{Netlink, VethEnd},
    worker::{Idle, Node, Records, ReleaseAt, Stall, Worker, WorkerConfig},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The name of every host's interface, in its own namespace.
const INTERFACE: &str = "eth0";

/// Chunks beside those of the ports, for copies of flooded frames.
const COPIES: u32 = 1024;

/// A host.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) interface: &'static str,
    /// Index of the interface in the host's namespace.
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) ipv6: Ipv6Addr,
}

/// Whether hosts have addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// None, and no IPv6: nothing but the measurement's own frames is on the links.
    Silent,
    /// 10.0.0.N/24 with each other's addresses known, no IPv6: IP can be sent, and still nothing else is on the links.
    Fixed,
    /// 10.0.0.N/24 and fd00::N/64.
    Addressed,
}

/// Hosts, each with a link to the namespace in the middle, where host N's port is called `pN`, from 0.
pub(crate) struct Stage {
    pub(crate) hosts: Vec<Host>,
    pub(crate) middle: Namespace,
}

/// The name of host `number`'s port.
pub(crate) fn port_name(number: usize) -> String {
    format!("p{number}")
}

impl Stage {
    pub(crate) fn new(hosts: usize, stack: Stack) -> Result<Self> {
        let middle = namespace(Stack::Silent)?;
        let mut at_middle = Netlink::open_in(&middle)?;
        let hosts = (0..hosts)
            .map(|number| {
                let namespace = namespace(stack)?;
                let id = number as u8 + 1;
                let mac = [0x02, 0, 0, 0, 0, id];
                let port = port_name(number);
                let end = VethEnd { mac: Some(mac), ..VethEnd::new(INTERFACE, &namespace) };
                at_middle.create_veth(&VethEnd::new(&port, &middle), &end)?;
                let mut at_host = Netlink::open_in(&namespace)?;
                let link = at_host.link(INTERFACE)?;
                let (ipv4, ipv6) =
                    (Ipv4Addr::new(10, 0, 0, id), Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, id.into()));
                at_host.set_up(&link, true)?;
                if stack != Stack::Silent {
                    at_host.add_address(&link, IpAddr::V4(ipv4), 24)?;
                }
                if stack == Stack::Addressed {
                    at_host.add_address(&link, IpAddr::V6(ipv6), 64)?;
                }
                let port = at_middle.link(&port)?;
                at_middle.set_up(&port, true)?;
                let index = link.index;
                Ok(Host { namespace, interface: INTERFACE, index, mac, ipv4, ipv6 })
            })
            .collect::<Result<Vec<Host>>>()?;
        if stack == Stack::Fixed {
            for host in &hosts {
                let mut netlink = Netlink::open_in(&host.namespace)?;
                let link = netlink.link(host.interface)?;
                for other in hosts.iter().filter(|other| other.mac != host.mac) {
                    netlink.add_neighbour(&link, IpAddr::V4(other.ipv4), other.mac)?;
                }
            }
        }
        Ok(Self { hosts, middle })
    }

    /// Puts the switch in the middle and starts it on `cpu`; port N of `ports` is host N's.
    pub(crate) fn switch(&self, cpu: usize, ports: Vec<PortConfig>, setup: &Setup) -> Result<Worker> {
        let (umem, open) = self.open_ports(&setup.options)?;
        let node = Node {
            release: vec![ReleaseAt::End; open.len()],
            switch: SwitchConfig { name: "s".into(), ports, ..SwitchConfig::default() },
            ports: open.into_iter().map(Some).collect(),
            latency: setup.latency_ns,
            stall: Stall::CatchUp,
            correct_lateness: setup.correct_lateness,
        };
        let config = WorkerConfig {
            nodes: vec![node],
            umem,
            cpu: Some(cpu),
            idle: if setup.adaptive { Idle::Adaptive } else { Idle::Spin },
            records: setup.records.clone(),
        };
        Ok(Worker::spawn(config)?)
    }

    /// Opens all hosts' ports, in order.
    pub(crate) fn open_ports(&self, options: &PortOptions) -> Result<(Umem, Vec<Port>)> {
        let chunks = self.hosts.len() as u32 * options.chunks(1) + COPIES;
        let mut umem = Umem::new(UmemOptions { chunks, ..UmemOptions::default() })?;
        let ports = self.middle.run_in(|| {
            (0..self.hosts.len())
                .map(|number| Port::open(&mut umem, &port_name(number), options))
                .collect::<Result<Vec<_>, _>>()
        })??;
        Ok((umem, ports))
    }

    /// Puts a Linux bridge in the middle.
    pub(crate) fn bridge(&self) -> Result<()> {
        let mut netlink = Netlink::open_in(&self.middle)?;
        netlink.create_bridge("br0")?;
        let bridge = netlink.link("br0")?;
        for number in 0..self.hosts.len() {
            let port = netlink.link(&port_name(number))?;
            netlink.set_master(&port, &bridge)?;
        }
        Ok(netlink.set_up(&bridge, true)?)
    }

    /// Gives a host's port NAPI, which a source that sends from inside the kernel needs.
    pub(crate) fn poll_port(&self, number: usize) -> Result<()> {
        tools::run(&self.middle, "ethtool", &format!("-K p{number} gro on"))
    }

    /// Limits what leaves by a host's port with HTB to `rate` bit/s on the wire, counted as the switch does.
    pub(crate) fn htb(&self, number: usize, rate: u64) -> Result<()> {
        let tc = |arguments: &str| tools::run(&self.middle, "tc", arguments);
        tc(&format!("qdisc add dev p{number} root handle 1: htb default 1"))?;
        tc(&format!(
            "class add dev p{number} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit overhead 24 mpu 84"
        ))
    }

    /// Lets the middle learn where a host is: one broadcast frame of it.
    pub(crate) fn announce(&self, number: usize) -> Result<()> {
        let host = &self.hosts[number];
        let frame = crate::frames::sync([0xFF; 6], host.mac, crate::frames::ETHERTYPE_BULK, 60, 0);
        host.namespace
            .run_in(|| {
                let socket = plimsoll_port::packet::open(host.index, None, &[])?;
                rustix::net::send(&socket, &frame, rustix::net::SendFlags::empty())?;
                std::io::Result::Ok(())
            })?
            .context("announce a host")
    }
}

/// How the switch is set up, beside its ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Pipeline latency L in ns.
    pub(crate) latency_ns: u64,
    /// Whether PTP messages carry the machine's lateness.
    pub(crate) correct_lateness: bool,
    /// Whether the worker sleeps when there has been nothing to do for a while; else it spins.
    pub(crate) adaptive: bool,
    /// Where ground truth goes.
    pub(crate) records: Option<Records>,
    /// How ports are opened.
    pub(crate) options: PortOptions,
}

fn namespace(stack: Stack) -> Result<Namespace> {
    let namespace = Namespace::new()?;
    let disable = if stack == Stack::Addressed { "0" } else { "1" };
    // Interfaces made later inherit the default.
    namespace.set_sysctl("ipv6/conf/default/disable_ipv6", disable)?;
    namespace.set_sysctl("ipv6/conf/all/disable_ipv6", disable)?;
    namespace.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
    Ok(namespace)
}
