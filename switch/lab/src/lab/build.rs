//! From a plan to namespaces, interfaces, addresses and open ports.

use super::LabError;
use crate::topology::{Cable, Node as Place, PREFIX_V4, PREFIX_V6, SwitchPlan, Topology, random_seed};
use plimsoll_core::SwitchConfig;
use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::{Link, Netlink, VethEnd};
use plimsoll_port::worker::Node;
use plimsoll_port::{Port, PortOptions, Umem, UmemOptions};

/// The bridge's own interface in its namespace.
const BRIDGE: &str = "bridge";

/// The namespaces of a lab, by the order of the plan.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) hosts: Vec<Namespace>,
    pub(super) switches: Vec<Namespace>,
    pub(super) bridges: Vec<Namespace>,
}

impl Namespaces {
    pub(super) fn of(&self, place: Place) -> &Namespace {
        match place {
            Place::Host(i) => &self.hosts[i],
            Place::Switch(i) => &self.switches[i],
            Place::Bridge(i) => &self.bridges[i],
        }
    }
}

/// Makes the namespaces and joins them.
pub(super) fn build(topology: &Topology) -> Result<Namespaces, LabError> {
    let make = |name: &str, sysctls: &[(&str, &str)]| {
        let namespace = Namespace::new().map_err(LabError::namespace(name))?;
        for (key, value) in sysctls {
            namespace.set_sysctl(key, value).map_err(LabError::namespace(name))?;
        }
        Ok(namespace)
    };
    // What the kernel would say by itself (router solicitations, duplicate address detection, multicast listener
    // reports of a port) does not belong into a measured network.
    let quiet = [
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/default/router_solicitations", "0"),
        ("ipv6/conf/default/accept_ra", "0"),
    ];
    let mute = [("ipv6/conf/default/disable_ipv6", "1")];
    let namespaces = Namespaces {
        hosts: topology.hosts.iter().map(|h| make(&h.name, &quiet)).collect::<Result<_, LabError>>()?,
        switches: topology.switches.iter().map(|s| make(&s.name, &mute)).collect::<Result<_, LabError>>()?,
        bridges: topology.bridges.iter().map(|b| make(b, &mute)).collect::<Result<_, LabError>>()?,
    };
    for (name, namespace) in topology.bridges.iter().zip(&namespaces.bridges) {
        let fail = || LabError::netlink(name);
        let mut netlink = Netlink::open_in(namespace).map_err(fail())?;
        netlink.create_bridge(BRIDGE).map_err(fail())?;
        let bridge = netlink.link(BRIDGE).map_err(fail())?;
        netlink.set_up(&bridge, true).map_err(fail())?;
    }
    for cable in &topology.cables {
        lay(topology, &namespaces, cable)?;
    }
    Ok(namespaces)
}

/// One link: both ends made at once, then settled one by one.
fn lay(topology: &Topology, namespaces: &Namespaces, cable: &Cable) -> Result<(), LabError> {
    let end = |i: usize| VethEnd {
        mac: match cable.ends[i].node {
            Place::Host(host) => Some(topology.hosts[host].mac),
            Place::Switch(_) | Place::Bridge(_) => None,
        },
        mtu: Some(cable.mtu),
        ..VethEnd::new(&cable.ends[i].interface, namespaces.of(cable.ends[i].node))
    };
    let name = node_name(topology, cable.ends[0].node);
    let mut netlink = Netlink::open_in(namespaces.of(cable.ends[0].node)).map_err(LabError::netlink(name))?;
    netlink.create_veth(&end(0), &end(1)).map_err(LabError::netlink(name))?;
    for end in &cable.ends {
        let name = node_name(topology, end.node);
        settle(topology, end.node, &end.interface, namespaces.of(end.node))
            .map_err(LabError::netlink(name))?;
    }
    Ok(())
}

fn settle(
    topology: &Topology,
    place: Place,
    interface: &str,
    namespace: &Namespace,
) -> Result<Link, plimsoll_port::netlink::NetlinkError> {
    let mut netlink = Netlink::open_in(namespace)?;
    let link = netlink.link(interface)?;
    if let Place::Bridge(_) = place {
        let bridge = netlink.link(BRIDGE)?;
        netlink.set_master(&link, &bridge)?;
    }
    netlink.set_up(&link, true)?;
    if let Place::Host(host) = place {
        let host = &topology.hosts[host];
        netlink.add_address(&link, host.v4.into(), PREFIX_V4)?;
        match netlink.add_address(&link, host.v6.into(), PREFIX_V6) {
            // A kernel without IPv6, or with ipv6.disable=1; a flow or clock over it will say so.
            Err(e) if matches!(e.source.raw_os_error(), Some(libc::EACCES | libc::EOPNOTSUPP)) => {}
            added => added?,
        }
        // PTP's multicast groups, over the one interface there is.
        netlink.add_route(&link, std::net::Ipv4Addr::new(224, 0, 0, 0).into(), 4, None)?;
    }
    Ok(link)
}

fn node_name(topology: &Topology, place: Place) -> &str {
    match place {
        Place::Host(i) => &topology.hosts[i].name,
        Place::Switch(i) => &topology.switches[i].name,
        Place::Bridge(i) => &topology.bridges[i],
    }
}

/// Opens all ports of all switches in one frame memory.
pub(super) fn open(topology: &Topology, namespaces: &Namespaces) -> Result<(Vec<Node>, Umem), LabError> {
    let most = topology.switches.iter().map(|switch| switch.config.ports.len()).max().unwrap_or(0);
    let options = PortOptions { ports: (most as u32).max(2), ..PortOptions::default() };
    let mtus = topology.switches.iter().flat_map(|switch| &switch.mtu);
    let largest = mtus.clone().max().copied().unwrap_or(0);
    let mut umem = Umem::new(UmemOptions {
        chunks: mtus.count() as u32 * options.chunks(1),
        chunk_size: UmemOptions::chunk_size_for(largest),
    })
    .map_err(LabError::port(&topology.name))?;
    let mut nodes = Vec::new();
    for (plan, namespace) in topology.switches.iter().zip(&namespaces.switches) {
        let ports = namespace
            .run_in(|| open_ports(plan, &mut umem, &options))
            .map_err(LabError::namespace(&plan.name))?
            .map_err(LabError::port(&plan.name))?;
        nodes.push(Node {
            switch: SwitchConfig { fdb_seed: random_seed(), ..plan.config.clone() },
            release: vec![plan.release; ports.len()],
            ports,
            latency: plan.latency_ns,
            stall: plan.stall,
            correct_lateness: plan.correct_lateness,
        });
    }
    Ok((nodes, umem))
}

fn open_ports(
    plan: &SwitchPlan,
    umem: &mut Umem,
    options: &PortOptions,
) -> Result<Vec<Option<Port>>, plimsoll_port::PortError> {
    plan.config.ports.iter().map(|port| Port::open(umem, &port.name, options).map(Some)).collect()
}
