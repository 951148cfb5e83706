//! Links as the ports of switches: what each direction of a link means to the switch that sends into it.

use super::error::{Source, TopologyError};
use super::file::{File, Lateness, Link, Release, Station};
use super::keys::{Place, PortKeys};
use super::marking::{Marks, Step};
use super::network::{Network, Node};
use super::values::Each;
use plimsoll_core::{FixedEntry, Nanos, PortConfig, PortId, Rate, SwitchConfig};
use plimsoll_port::worker::{ReleaseAt, Stall};
use std::collections::HashSet;
use toml::Spanned;

/// One switch: a namespace with a port to each neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchPlan {
    /// Its name.
    pub name: String,
    /// What the core is told; ports are named after the neighbours.
    pub config: SwitchConfig,
    /// Pipeline latency L in nanoseconds.
    pub latency_ns: u64,
    /// Whether PTP event messages carry the machine's own lateness in correctionField.
    pub correct_lateness: bool,
    /// What a stall of the worker does to the links.
    pub stall: Stall,
    /// When frames leave the machine.
    pub release: ReleaseAt,
    /// The neighbour at each port.
    pub peers: Vec<Node>,
    /// MTU of each port.
    pub mtu: Vec<u32>,
}

/// One direction of a link, seen from the switch that sends.
struct Direction<'a> {
    switch: usize,
    peer: Node,
    peer_name: &'a str,
    /// The link's number in the file.
    number: usize,
    link: &'a Link,
    mtu: u32,
}

/// The switches; `marks` gets the delta that their ports imply where the file gives none.
pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    marks: &mut Marks,
    edges: &HashSet<(usize, usize)>,
) -> Result<Vec<SwitchPlan>, TopologyError> {
    let mut directions = Vec::new();
    for (number, (link, &(ends, mtu))) in raw.link.iter().zip(&network.links).enumerate() {
        let link = link.get_ref();
        check_directions(source, network, link, ends)?;
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Node::Switch(switch) = from {
                let peer_name = network.name(to);
                directions.push(Direction { switch, peer: to, peer_name, number, link, mtu });
            }
        }
    }
    derive_delta(source, marks, &directions)?;
    let mut switches = Vec::new();
    for (index, name) in network.switches.iter().enumerate() {
        let mut plan = bare(source, raw, name)?;
        plan.config.delta_ps = marks.counters.map(|mark| mark.delta_ps);
        let mut links = Vec::new();
        for direction in directions.iter().filter(|d| d.switch == index) {
            let edge = matches!(direction.peer, Node::Host(host) if edges.contains(&(index, host)));
            plan.config.ports.push(port(source, direction, marks, edge)?);
            links.push(direction.number);
            plan.peers.push(direction.peer);
            plan.mtu.push(direction.mtu);
        }
        let ports: Vec<_> = plan.config.ports.iter().map(|port| port.name.as_str()).collect();
        plan.config.fdb_fixed = fixed(source, raw, name, &ports)?;
        plan.config.check().map_err(|e| source.refused(e, |port| ("link", links[port.index()])))?;
        switches.push(plan);
    }
    Ok(switches)
}

/// A switch without ports.
fn bare(source: &Source<'_>, raw: &File, name: &str) -> Result<SwitchPlan, TopologyError> {
    let mut plan = SwitchPlan {
        name: name.to_owned(),
        config: SwitchConfig { name: name.to_owned(), ..SwitchConfig::default() },
        latency_ns: super::LAB_LATENCY_NS,
        correct_lateness: true,
        stall: Stall::CatchUp,
        release: ReleaseAt::End,
        peers: Vec::new(),
        mtu: Vec::new(),
    };
    let Some((key, written)) = raw.switch.get_key_value(name) else { return Ok(plan) };
    if let Some(latency) = written.latency {
        if latency.ps > 1_000_000_000_000 {
            let key_name = format!("switch.{name}.latency");
            return Err(source.error(
                Some(key.span()),
                key_name,
                format!("is {latency}"),
                "write 1s at most",
            ));
        }
        plan.latency_ns = latency.nanos();
    }
    plan.correct_lateness = written.lateness.unwrap_or(Lateness::Correct) == Lateness::Correct;
    plan.stall = written.stall.unwrap_or_default();
    plan.release = release_at(written.release.unwrap_or(Release::End));
    plan.config.fdb_capacity = written.fdb_capacity.unwrap_or(plan.config.fdb_capacity);
    plan.config.fdb_age = written.fdb_age.map_or(plan.config.fdb_age, |age| Nanos(age.nanos()));
    Ok(plan)
}

/// The switch's fixed FDB entries, by the names of its ports.
pub(super) fn fixed(
    source: &Source<'_>,
    raw: &File,
    switch: &str,
    ports: &[&str],
) -> Result<Vec<FixedEntry>, TopologyError> {
    let written = raw.switch.get(switch).map_or(&[][..], |written| &written.fdb);
    let entry = |written: &Station| {
        let Some(port) = ports.iter().position(|port| port == written.port.get_ref()) else {
            let problem = format!("{switch} has no port {:?}", written.port.get_ref());
            let remedy = format!("its ports are {}", ports.join(", "));
            return Err(source.error(Some(written.port.span()), "switch.fdb.port", problem, remedy));
        };
        Ok(FixedEntry { vlan: written.vlan, mac: written.mac.0, port: PortId(port as u16) })
    };
    written.iter().map(entry).collect()
}

pub(super) fn release_at(release: Release) -> ReleaseAt {
    match release {
        Release::Start => ReleaseAt::Start,
        Release::End => ReleaseAt::End,
    }
}

/// Keys by direction name a node of the link, and only what a switch sends can be shaped.
fn check_directions(
    source: &Source<'_>,
    network: &Network,
    link: &Link,
    ends: [Node; 2],
) -> Result<(), TopologyError> {
    let keys = [
        ("rate", directions_of(link.rate.as_ref())),
        ("delay", directions_of(link.delay.as_ref())),
        ("quanta", directions_of(link.quanta.as_ref())),
        ("queue", directions_of(link.queue.as_ref())),
        ("queue-frames", directions_of(link.queue_frames.as_ref())),
        ("step", directions_of(link.step.as_ref())),
        ("mark", directions_of(link.mark.as_ref())),
        ("ecn", directions_of(link.ecn.as_ref())),
        ("transparent-clock", directions_of(link.transparent_clock.as_ref())),
        ("edge", directions_of(link.edge.as_ref())),
        ("remark", (link.remark.as_ref().map(Spanned::span), Vec::new())),
        ("vlan", (link.vlan.as_ref().map(Spanned::span), Vec::new())),
    ];
    for (key, (span, named)) in keys {
        let (Some(span), key) = (span, format!("link.{key}")) else { continue };
        if !ends.iter().any(|end| is_switch(*end)) {
            let remedy = "leave it out, or put a [switch.NAME] at one end: only switches shape and tag";
            return Err(source.error(Some(span), key, "no end of this link is a switch", remedy));
        }
        for to in named {
            let Some(at) = ends.iter().position(|end| network.name(*end) == to) else {
                let problem = format!("to-{to}: {to} is not at this link");
                let remedy = format!("write to-{} or to-{}", network.name(ends[0]), network.name(ends[1]));
                return Err(source.error(Some(span), key, problem, remedy));
            };
            let from = ends[1 - at];
            if !is_switch(from) {
                let problem = format!("to-{to}: {} is no switch, and sends unshaped", network.name(from));
                let remedy = format!(
                    "leave to-{to} out: only what switches send can be shaped; a host's own link has its rate by \
                     uplink at [host.NAME], in `plimsoll sim`"
                );
                return Err(source.error(Some(span), key, problem, remedy));
            }
        }
    }
    if let Some(remark) = &link.remark
        && ends.iter().all(|end| is_switch(*end))
    {
        let problem = "is of packets that hosts send, and both ends of this link are switches";
        let remedy = "write it at the links of the hosts";
        return Err(source.error(Some(remark.span()), "link.remark", problem, remedy));
    }
    // A delay that only one direction gets would shift every clock by half of it.
    if let Some(delay) = &link.delay
        && let Each::Both(value) = delay.get_ref()
        && value.ps > 0
        && !ends.iter().all(|end| is_switch(*end))
    {
        let problem = "would delay one direction only: what hosts send is not delayed";
        let remedy = "put the delay on a link between two switches, or write delay = { to-HOST = ... }";
        return Err(source.error(Some(delay.span()), "link.delay", problem, remedy));
    }
    Ok(())
}

/// Where a key stands, and the nodes it names.
fn directions_of<T>(value: Option<&Spanned<Each<T>>>) -> (Option<std::ops::Range<usize>>, Vec<&str>) {
    let Some(value) = value else { return (None, Vec::new()) };
    let named = match value.get_ref() {
        Each::Both(_) => Vec::new(),
        Each::To(map) => map.keys().map(String::as_str).collect(),
    };
    (Some(value.span()), named)
}

impl Direction<'_> {
    fn rate(&self) -> Option<Rate> {
        self.link.rate.as_ref().and_then(|rate| rate.get_ref().to(self.peer_name)).and_then(|rate| rate.0)
    }
}

/// K of a port stands beside delta of the network: both must tell the same time.
fn derive_delta(
    source: &Source<'_>,
    marks: &mut Marks,
    directions: &[Direction<'_>],
) -> Result<(), TopologyError> {
    let mut implied: Option<(u64, Rate, &str)> = None;
    for direction in directions {
        let Some(step) = &direction.link.step else { continue };
        let Some(octets) = step.get_ref().to(direction.peer_name) else { continue };
        let steps =
            Step { source, span: step.span(), key: "link.step", octets: octets.0, rate: direction.rate() };
        steps.agree(&mut marks.counters, &mut implied, direction.peer_name)?;
    }
    marks.check_delta(source)
}

fn port(
    source: &Source<'_>,
    direction: &Direction<'_>,
    marks: &Marks,
    edge: bool,
) -> Result<PortConfig, TopologyError> {
    let Direction { link, peer, peer_name: to, .. } = direction;
    let keys = PortKeys {
        rate: direction.rate(),
        delay: each(link.delay.as_ref(), to),
        quanta: each(link.quanta.as_ref(), to).unwrap_or_default(),
        queue: each(link.queue.as_ref(), to),
        queue_frames: each(link.queue_frames.as_ref(), to),
        mark: each(link.mark.as_ref(), to),
        ecn: each(link.ecn.as_ref(), to),
        transparent_clock: each(link.transparent_clock.as_ref(), to).unwrap_or(false),
        edge: each(link.edge.as_ref(), to).unwrap_or(edge),
        // What hosts send; between switches it has passed such a port already.
        remark: link.remark.as_ref().map(|remark| *remark.get_ref()).filter(|_| !is_switch(*peer)),
        vlan: link.vlan.as_ref().map(Spanned::get_ref),
        trust: link.trust.as_ref().map_or(is_switch(*peer), |trust| *trust.get_ref()),
        storm: link.storm,
        class: link.class,
        sync_class: link.sync_class,
        pass: &link.pass,
    };
    let port = keys.port(to, marks, Place { source, table: "link", number: direction.number })?;
    Ok(PortConfig { mtu: Some(direction.mtu), ..port })
}

fn is_switch(node: Node) -> bool {
    matches!(node, Node::Switch(_))
}

fn each<T: Clone>(value: Option<&Spanned<Each<T>>>, to: &str) -> Option<T> {
    value.and_then(|value| value.get_ref().to(to))
}
