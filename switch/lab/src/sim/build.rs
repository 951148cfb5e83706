//! From a plan to a network in memory: nodes, lines between them, flows and clocks, each with its number among the
//! sources of events.

use super::{
    SimError,
    agenda::Agenda,
    flow::Flow,
    frames::Frames,
    line::{End, Line, Uplink},
    net::{Net, Station},
    node::{Node, Out},
    ntp::NtpPair,
    ptp::PtpPair,
    world::{Clock, Source, World},
};
use crate::topology::{Node as Place, Topology};
use plimsoll_core::{
    FixedEntry, PortConfig, PortId, Switch, SwitchConfig, Vlan, config::WIRE_OVERHEAD, wire::ethernet::Mac,
};
use plimsoll_port::worker::ReleaseAt;
use std::collections::{BTreeSet, VecDeque};

/// The neighbours of every node, in the order of its ports, with the line towards each.
struct Plan<'t> {
    topology: &'t Topology,
    /// Switches, then bridges.
    ports: Vec<Vec<(Place, u32)>>,
    hosts: Vec<(Place, u32)>,
}

impl<'t> Plan<'t> {
    fn new(topology: &'t Topology) -> Self {
        let mut ports: Vec<Vec<(Place, u32)>> = Vec::new();
        // A switch's ports have their order from the file, a bridge's from its links.
        for switch in &topology.switches {
            ports.push(switch.peers.iter().map(|peer| (*peer, 0)).collect());
        }
        ports.resize_with(topology.switches.len() + topology.bridges.len(), Vec::new);
        let mut plan = Self { topology, ports, hosts: vec![(Place::Host(0), 0); topology.hosts.len()] };
        for (cable, ends) in topology.cables.iter().map(|cable| &cable.ends).enumerate() {
            for (end, (from, to)) in
                [(ends[0].node, ends[1].node), (ends[1].node, ends[0].node)].iter().enumerate()
            {
                plan.join(*from, *to, (2 * cable + end) as u32);
            }
        }
        plan
    }

    fn join(&mut self, from: Place, to: Place, line: u32) {
        match from {
            Place::Host(host) => self.hosts[host] = (to, line),
            Place::Switch(switch) => {
                for port in self.ports[switch].iter_mut().filter(|(peer, _)| *peer == to) {
                    port.1 = line;
                }
            }
            Place::Bridge(bridge) => self.ports[self.topology.switches.len() + bridge].push((to, line)),
        }
    }

    fn node(&self, place: Place) -> Option<usize> {
        match place {
            Place::Host(_) => None,
            Place::Switch(switch) => Some(switch),
            Place::Bridge(bridge) => Some(self.topology.switches.len() + bridge),
        }
    }

    /// What a line from `from` leads to.
    fn end(&self, from: Place, to: Place) -> End {
        match (to, self.node(to)) {
            (Place::Host(host), _) => End::Host(host as u32),
            (_, node) => {
                let node = node.unwrap_or_default();
                let port = self.ports[node].iter().position(|(peer, _)| *peer == from).unwrap_or_default();
                End::Switch(node as u32, PortId(port as u16))
            }
        }
    }

    /// The port of every node that a host is behind, in its VLAN there. On veth the switches know from ARP, which goes on
    /// all the time.
    fn stations(&self) -> Vec<Vec<FixedEntry>> {
        let mut entries = vec![Vec::new(); self.ports.len()];
        for (number, host) in self.topology.hosts.iter().enumerate() {
            // With the identifier in the tag of what the host sends, where it comes in.
            let mut next = VecDeque::from([(Place::Host(number), self.hosts[number].0, 0)]);
            while let Some((before, place, vid)) = next.pop_front() {
                let Some(node) = self.node(place) else { continue };
                let Some(port) = self.ports[node].iter().position(|(peer, _)| *peer == before) else {
                    continue;
                };
                let Some(vlan) = self.vlan(node, port).receives(vid) else { continue };
                entries[node].push(FixedEntry { vlan, mac: Mac(host.mac), port: PortId(port as u16) });
                for (other, &(peer, _)) in self.ports[node].iter().enumerate() {
                    if other != port
                        && let Some(vid) = self.vlan(node, other).sends(vlan)
                    {
                        next.push_back((place, peer, vid));
                    }
                }
            }
        }
        entries
    }

    /// The VLANs of a node's port; a Linux bridge's are transparent.
    fn vlan(&self, node: usize, port: usize) -> &Vlan {
        self.topology.switches.get(node).map_or(&Vlan::Transparent, |plan| &plan.config.ports[port].vlan)
    }

    /// What the core is told of a node.
    fn config(&self, node: usize, stations: Vec<FixedEntry>, warnings: &mut Vec<String>) -> SwitchConfig {
        let mut config = match self.topology.switches.get(node) {
            Some(plan) => plan.config.clone(),
            None => SwitchConfig {
                name: self.topology.bridges[node - self.topology.switches.len()].clone(),
                ports: self.ports[node]
                    .iter()
                    .map(|(_, line)| PortConfig { trust: true, ..PortConfig::new(format!("line{line}")) })
                    .collect(),
                ..SwitchConfig::default()
            },
        };
        let given: BTreeSet<_> = config.fdb_fixed.iter().map(|entry| (entry.vlan, entry.mac)).collect();
        let known = stations.into_iter().filter(|entry| !given.contains(&(entry.vlan, entry.mac)));
        config.fdb_fixed.extend(known);
        // Half of the table is for what is learnt.
        let room = config.fdb_capacity / 2;
        if config.fdb_fixed.len() > room {
            warnings.push(format!(
                "switch {}: of {} stations its FDB of {} knows {room} from the start; frames to the others are flooded \
                 until it has learnt them",
                config.name,
                config.fdb_fixed.len(),
                config.fdb_capacity
            ));
            config.fdb_fixed.truncate(room.max(given.len()));
        }
        config
    }
}

/// Builds the network. What is simulated otherwise than it would run is told in `warnings`.
pub(super) fn build(topology: &Topology, warnings: &mut Vec<String>) -> Result<World, SimError> {
    let plan = Plan::new(topology);
    let mut sources = Vec::new();
    let mut source = |source: Source| {
        sources.push(source);
        (sources.len() - 1) as u32
    };
    let mut lines = Vec::new();
    for cable in &topology.cables {
        let ends = [cable.ends[0].node, cable.ends[1].node];
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let number = source(Source::Line(lines.len() as u32));
            lines.push(Line::new(plan.end(from, to), number));
        }
    }
    let mut nodes = Vec::new();
    for (node, stations) in plan.stations().into_iter().enumerate() {
        let config = plan.config(node, stations, warnings);
        let delays = config.ports.iter().map(|port| port.delay.0);
        let switch = topology.switches.get(node);
        nodes.push(Node {
            ports: plan.ports[node].iter().map(|(_, line)| *line).zip(delays).collect(),
            release: switch.map_or(ReleaseAt::End, |plan| plan.release),
            latency: switch.map_or(0, |plan| plan.latency_ns),
            number: switch.map(|_| node as u16),
            source: source(Source::Node(nodes.len() as u32)),
            core: Switch::new(config)?,
            out: Out::default(),
        });
    }
    let mut flows = Vec::new();
    for plan in &topology.flows {
        flows.push((source(Source::Flow(flows.len() as u32)), Flow::new(plan, &topology.hosts)?));
    }
    let mut clocks = Vec::new();
    for (number, plan) in topology.clocks.iter().enumerate() {
        let clock = if plan.transport.is_ntp() {
            Clock::Ntp(NtpPair::new(number as u32, plan, &topology.hosts).into())
        } else {
            Clock::Ptp(PtpPair::new(number as u32, plan, &topology.hosts).into())
        };
        clocks.push((source(Source::Clock(number as u32)), clock));
    }
    let longest = topology.flows.iter().filter_map(|flow| flow.spec.bounds(flow.target).ok());
    let longest = longest.map(|bounds| bounds.max - WIRE_OVERHEAD).max().unwrap_or(0);
    let stations = topology.hosts.iter().zip(&plan.hosts);
    let net = Net {
        agenda: Agenda::new(sources.len()),
        frames: Frames::new(longest as usize),
        lines,
        stations: stations
            .map(|(host, (_, line))| Station { uplink: Uplink::new(host.uplink), line: *line })
            .collect(),
    };
    let mut listeners = vec![Vec::new(); topology.hosts.len()];
    for (number, clock) in topology.clocks.iter().enumerate() {
        listeners[clock.server].push(number);
        listeners[clock.client].push(number);
    }
    Ok(World::new(net, nodes, flows, clocks, sources, listeners))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Overrides;

    #[test]
    fn lines_lead_where_the_file_says_and_stations_are_known() {
        let topology = Topology::load("three-hop", &Overrides::default()).unwrap();
        let plan = Plan::new(&topology);
        // The first link joins s1 and s2; the third the server and s1.
        assert_eq!(plan.end(Place::Switch(0), Place::Switch(1)), End::Switch(1, PortId(0)));
        assert_eq!(plan.end(Place::Switch(0), Place::Host(0)), End::Host(0));
        assert_eq!((plan.hosts[0], plan.ports[0][1]), ((Place::Switch(0), 4), (Place::Host(0), 5)));
        let stations = plan.stations();
        let client = Mac(topology.hosts[1].mac);
        let ports: Vec<_> = stations
            .iter()
            .map(|entries| entries.iter().find(|entry| entry.mac == client).unwrap().port.0)
            .collect();
        // By s1 to s2, by s2 to s3, by s3 to the client itself.
        assert_eq!(ports, [0, 1, 1]);
        assert!(stations.iter().all(|entries| entries.len() == 5));
    }

    #[test]
    fn stations_that_a_small_fdb_does_not_hold_are_told_and_flooded_to() {
        let mut topology = Topology::load("one-hop", &Overrides::default()).unwrap();
        topology.switches[0].config.fdb_capacity = 1;
        let mut warnings = Vec::new();
        assert!(build(&topology, &mut warnings).is_ok());
        assert!(warnings[0].contains("of 3 stations its FDB of 1 knows 0 from the start"), "{warnings:?}");
    }

    #[test]
    fn a_bridge_is_a_switch_without_rates() {
        let topology = Topology::load("idle", &Overrides::default()).unwrap();
        let plan = Plan::new(&topology);
        let config = plan.config(1, Vec::new(), &mut Vec::new());
        assert_eq!((config.name.as_str(), config.ports.len()), ("br1", 2));
        assert!(config.ports.iter().all(|port| port.rate.is_none() && port.mark.is_none()));
    }
}
