//! Links as the ports of switches: what each direction of a link means to the switch that sends into it.

use super::error::{Source, TopologyError};
use super::file::{File, Lateness, Link, Release, Station};
use super::network::{Network, Node};
use super::values::Each;
use plimsoll_core::{FixedEntry, MarkConfig, Nanos, PortConfig, PortId, Rate, Span, SwitchConfig};
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
    link: &'a Link,
    mtu: u32,
}

/// The switches, and the network's marking with the delta that its ports imply where the file gives none.
pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    marking: Option<MarkConfig>,
    edges: &HashSet<(usize, usize)>,
) -> Result<(Vec<SwitchPlan>, Option<MarkConfig>), TopologyError> {
    let mut directions = Vec::new();
    for (link, &(ends, mtu)) in raw.link.iter().zip(&network.links) {
        let link = link.get_ref();
        check_directions(source, network, link, ends)?;
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Node::Switch(switch) = from {
                directions.push(Direction { switch, peer: to, peer_name: network.name(to), link, mtu });
            }
        }
    }
    let marking = derive_delta(source, marking, &directions)?;
    let mut switches = Vec::new();
    for (index, name) in network.switches.iter().enumerate() {
        let mut plan = bare(source, raw, name)?;
        plan.config.delta_ps = marking.map(|mark| mark.delta_ps);
        for direction in directions.iter().filter(|d| d.switch == index) {
            let edge = matches!(direction.peer, Node::Host(host) if edges.contains(&(index, host)));
            plan.config.ports.push(port(source, direction, marking, edge)?);
            plan.peers.push(direction.peer);
            plan.mtu.push(direction.mtu);
        }
        let ports: Vec<_> = plan.config.ports.iter().map(|port| port.name.as_str()).collect();
        plan.config.fdb_fixed = fixed(source, raw, name, &ports)?;
        plan.config.check().map_err(|e| source.error(None, e.place, e.problem, e.remedy))?;
        switches.push(plan);
    }
    Ok((switches, marking))
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
    let is_switch = |node: Node| matches!(node, Node::Switch(_));
    let keys = [
        ("rate", directions_of(link.rate.as_ref())),
        ("delay", directions_of(link.delay.as_ref())),
        ("queue", directions_of(link.queue.as_ref())),
        ("step", directions_of(link.step.as_ref())),
        ("mark", directions_of(link.mark.as_ref())),
        ("edge", directions_of(link.edge.as_ref())),
    ];
    for (key, (span, named)) in keys {
        let (Some(span), key) = (span, format!("link.{key}")) else { continue };
        if !ends.iter().any(|end| is_switch(*end)) {
            let remedy = "leave it out, or put a [switch.NAME] at one end: only switches shape";
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
    marking: Option<MarkConfig>,
    directions: &[Direction<'_>],
) -> Result<Option<MarkConfig>, TopologyError> {
    let mut marking = marking;
    let mut implied: Option<(u64, Rate, &str)> = None;
    for direction in directions {
        let Some(step) = &direction.link.step else { continue };
        let Some(octets) = step.get_ref().to(direction.peer_name) else { continue };
        let steps =
            Step { source, span: step.span(), key: "link.step", octets: octets.0, rate: direction.rate() };
        steps.agree(&mut marking, &mut implied, direction.peer_name)?;
    }
    match marking {
        Some(MarkConfig { delta_ps: 0, .. }) => Err(source.error(
            None,
            "marking.delta",
            "is not given, and no port's step implies it",
            "write delta = \"60us\": about a tenth of the waits to be removed, R times it their longest",
        )),
        other => Ok(other),
    }
}

/// K as written at one port.
pub(super) struct Step<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) span: std::ops::Range<usize>,
    pub(super) key: &'a str,
    pub(super) octets: u64,
    pub(super) rate: Option<Rate>,
}

impl Step<'_> {
    /// Checks this K against delta and the Ks before it (`implied`), or takes delta from it.
    pub(super) fn agree<'a>(
        &self,
        marking: &mut Option<MarkConfig>,
        implied: &mut Option<(u64, Rate, &'a str)>,
        port: &'a str,
    ) -> Result<(), TopologyError> {
        let fail = |problem: String, remedy: &str| {
            Err(self.source.error(Some(self.span.clone()), self.key, problem, remedy))
        };
        let Some(mark) = marking else {
            return fail("there is no [marking]".into(), "write [marking] with delta and thresholds");
        };
        let Some(rate) = self.rate else {
            return fail("K octets are a time only at a rate".into(), "write rate beside it, as \"100mbit\"");
        };
        if self.octets == 0 {
            return fail("K is 0".into(), "write octets above 0, as \"750B\"");
        }
        let Some(exact) = rate.ps_for(self.octets).and_then(|ps| u64::try_from(ps).ok()) else {
            return fail("K is too large".into(), "write less");
        };
        let one = "write one delta in [marking] and leave step out: each port derives K = delta*rate/8";
        if let Some((octets, other, name)) = *implied
            && u128::from(octets) * u128::from(rate.0) != u128::from(self.octets) * u128::from(other.0)
        {
            let before = Span { ps: other.ps_for(octets).unwrap_or(0) as u64 };
            let problem = format!(
                "K = {} B at {rate} implies delta = {}, the port to {name} implies {before}",
                self.octets,
                Span { ps: exact }
            );
            return fail(problem, one);
        }
        if implied.is_none() {
            if mark.delta_ps == 0 {
                mark.delta_ps = exact;
            } else if mark.k_octets(rate).abs_diff(u128::from(self.octets)) > 1 {
                let problem = format!(
                    "K = {} B at {rate} implies delta = {}, [marking] says {}",
                    self.octets,
                    Span { ps: exact },
                    Span { ps: mark.delta_ps }
                );
                return fail(problem, one);
            }
            *implied = Some((self.octets, rate, port));
        }
        Ok(())
    }
}

fn port(
    source: &Source<'_>,
    direction: &Direction<'_>,
    marking: Option<MarkConfig>,
    edge: bool,
) -> Result<PortConfig, TopologyError> {
    let Direction { link, peer_name: to, .. } = direction;
    let mut port = PortConfig::new(*to);
    port.rate = direction.rate();
    port.delay = Nanos(each(link.delay.as_ref(), to).map_or(0, |delay| delay.nanos()));
    port.queue_bytes = each(link.queue.as_ref(), to).map(|queue| queue.0);
    port.trust = match &link.trust {
        Some(trust) => *trust.get_ref(),
        None => matches!(direction.peer, Node::Switch(_)),
    };
    port.storm = link.storm.map(Into::into);
    port.default_priority = link.class.as_ref().map_or(0, |class| *class.get_ref());
    port.sync_class = link.sync_class.as_ref().map(|class| *class.get_ref());
    port.pass_reserved = link.pass.iter().map(|octet| octet.0).collect();
    let asked = each(link.mark.as_ref(), to);
    let span = link.mark.as_ref().map(Spanned::span);
    port.mark = match (asked, marking) {
        (Some(true), None) => {
            let remedy = "write [marking] with delta and thresholds";
            return Err(source.error(span, "link.mark", "there is no [marking]", remedy));
        }
        (Some(true), Some(_)) if port.rate.is_none() => {
            let problem = format!("the port to {to} has no rate, so that no depth is a time");
            return Err(source.error(span, "link.mark", problem, "write rate beside it, as \"100mbit\""));
        }
        (Some(true) | None, Some(mark)) if port.rate.is_some() => Some(mark),
        _ => None,
    };
    port.edge = each(link.edge.as_ref(), to).unwrap_or(edge);
    if port.edge && marking.is_none() {
        let span = link.edge.as_ref().map(Spanned::span);
        let remedy = "write [marking] with delta and thresholds, or leave edge out";
        return Err(source.error(span, "link.edge", "there is no [marking], so no delta", remedy));
    }
    Ok(port)
}

fn each<T: Copy>(value: Option<&Spanned<Each<T>>>, to: &str) -> Option<T> {
    value.and_then(|value| value.get_ref().to(to))
}
