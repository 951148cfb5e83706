//! Flows: who sends how much to whom, in wire octets of the slowest link on the way.

use super::error::{Source, TopologyError};
use super::file::{Family, File, Flow, Kind, Sizes};
use super::hosts::HostPlan;
use super::network::{Network, Node, check_label};
use super::ports::SwitchPlan;
use crate::traffic::{FlowKind, FlowSpec, SizeBounds, SizeDistribution, TrafficError, UNCAPPED};
use plimsoll_core::{ByteCount, Rate, config::WIRE_OVERHEAD};
use std::collections::HashMap;
use std::net::SocketAddr;
use toml::Spanned;

/// First UDP port of the sinks.
const PORT: u16 = 7700;
/// Octets of UDP payload that every packet carries.
const PAYLOAD_MIN: u32 = 16;
/// Octets of an Ethernet header.
const ETHERNET: u32 = 14;
/// Largest load: more only measures the sender, or is a percentage by mistake.
const LOAD_MAX: f64 = 20.0;

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// Its name.
    pub name: String,
    /// The host that sends.
    pub from: usize,
    /// The host that receives.
    pub to: usize,
    /// Where it receives.
    pub target: SocketAddr,
    /// When, how long, how fast.
    pub spec: FlowSpec,
    /// The slowest link on its way; `None` where none has a rate.
    pub bottleneck: Option<Rate>,
}

/// What flows run over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    pub(super) network: &'a Network,
    pub(super) hosts: &'a [HostPlan],
    pub(super) switches: &'a [SwitchPlan],
}

pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    ground: &Ground<'_>,
    seed: u64,
    load: Option<f64>,
    warnings: &mut Vec<String>,
) -> Result<Vec<FlowPlan>, TopologyError> {
    let mut flows: Vec<FlowPlan> = Vec::new();
    let mut offered: HashMap<(usize, usize), (f64, Rate)> = HashMap::new();
    for (index, written) in raw.flow.iter().enumerate() {
        let flow = written.get_ref();
        let name = flow.name.as_ref().map_or_else(|| format!("flow{index}"), |n| n.get_ref().clone());
        let span = flow.name.as_ref().map_or(written.span(), Spanned::span);
        check_label(source, &span, "flow.name", &name)?;
        if flows.iter().any(|other| other.name == name) {
            let problem = format!("there is a flow {name:?} already");
            return Err(source.error(Some(span), "flow.name", problem, "give every flow a name of its own"));
        }
        let Some(port) = u16::try_from(index).ok().and_then(|i| PORT.checked_add(i)) else {
            return Err(source.error(Some(span), "flow", "there are too many", "write fewer flows"));
        };
        let [from, to] = ground.network.pair(source, (&flow.from, "flow.from"), (&flow.to, "flow.to"))?;
        let way = ground.network.way(Node::Host(from), Node::Host(to)).unwrap_or_default();
        let rates = ground.rates(&way);
        let bottleneck = rates.iter().map(|(_, rate)| *rate).min();
        let target = match flow.family {
            Family::Ipv4 => SocketAddr::from((ground.hosts[to].v4, port)),
            Family::Ipv6 => SocketAddr::from((ground.hosts[to].v6, port)),
        };
        let reader = Reader { source, flow, whole: span, bottleneck, load };
        let spec = FlowSpec {
            name: name.clone(),
            kind: reader.kind()?,
            rate: Rate(0),
            size: reader.size()?,
            seed: stream(seed, index),
            mtu: if reader.uncapped()? { UNCAPPED } else { ground.network.mtu(&way) },
            dscp: flow.dscp.as_ref().map_or(0, |dscp| *dscp.get_ref()),
            cycle: flow.cycle.map(Into::into),
        };
        let spec = reader.rate(spec, target)?;
        reader.check(&spec, target)?;
        for (port, rate) in rates {
            let sum = offered.entry(port).or_insert((0.0, rate));
            sum.0 += spec.rate.0 as f64;
        }
        flows.push(FlowPlan { name, from, to, target, spec, bottleneck });
    }
    let mut over: Vec<_> = offered.into_iter().filter(|(_, (sum, rate))| *sum >= rate.0 as f64).collect();
    over.sort_by_key(|(port, _)| *port);
    for ((switch, port), (sum, rate)) in over {
        let config = &ground.switches[switch].config;
        warnings.push(format!(
            "switch {}, port {}: flows offer {:.0} % of {rate}; its queue stays full and drops",
            config.name,
            config.ports[port].name,
            sum / rate.0 as f64 * 100.0,
        ));
    }
    Ok(flows)
}

/// Seed of the flow (or clock) of this number: streams of one file differ, and stay as they are when another flow is
/// added behind.
pub(super) const fn stream(seed: u64, index: usize) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64)
}

impl Ground<'_> {
    /// The ports with a rate on a way, as (switch, port).
    fn rates(&self, way: &[Node]) -> Vec<((usize, usize), Rate)> {
        way.windows(2)
            .filter_map(|hop| {
                let Node::Switch(switch) = hop[0] else { return None };
                let plan = &self.switches[switch];
                let port = plan.peers.iter().position(|peer| *peer == hop[1])?;
                plan.config.ports[port].rate.map(|rate| ((switch, port), rate))
            })
            .collect()
    }
}

/// One `[[flow]]` being read.
struct Reader<'a> {
    source: &'a Source<'a>,
    flow: &'a Flow,
    whole: std::ops::Range<usize>,
    bottleneck: Option<Rate>,
    load: Option<f64>,
}

impl Reader<'_> {
    fn fail<T>(
        &self,
        span: Option<std::ops::Range<usize>>,
        key: &str,
        problem: impl Into<String>,
        remedy: &str,
    ) -> Result<T, TopologyError> {
        let span = span.unwrap_or_else(|| self.whole.clone());
        Err(self.source.error(Some(span), format!("flow.{key}"), problem, remedy))
    }

    fn kind(&self) -> Result<FlowKind, TopologyError> {
        let flow = self.flow;
        if flow.paper.is_some() && (flow.kind.is_some() || flow.size.is_some() || flow.sizes.is_some()) {
            let remedy = "leave kind, size and sizes out: the paper's flows have theirs";
            return self.fail(flow.paper.as_ref().map(Spanned::span), "paper", "stands beside them", remedy);
        }
        let kind = flow.kind.unwrap_or(Kind::Poisson);
        let stray = flow.on.as_ref().or(flow.off.as_ref()).filter(|_| kind != Kind::OnOff);
        if let Some(stray) = stray {
            return self.fail(Some(stray.span()), "on", "is for kind = \"on-off\"", "leave it out");
        }
        Ok(match kind {
            Kind::Poisson => FlowKind::Poisson,
            Kind::Constant => FlowKind::Constant,
            Kind::OnOff => {
                let (Some(on), Some(off)) = (&flow.on, &flow.off) else {
                    let remedy = "write on = \"10ms\" and off = \"10ms\", mean lengths of bursts and pauses";
                    return self.fail(None, "on", "an on-off flow needs on and off", remedy);
                };
                FlowKind::OnOff { on_ns: on.get_ref().nanos(), off_ns: off.get_ref().nanos() }
            }
        })
    }

    /// Whether sizes beyond the MTU stay as they were drawn.
    fn uncapped(&self) -> Result<bool, TopologyError> {
        let Some(uncapped) = self.flow.uncapped.as_ref().filter(|uncapped| *uncapped.get_ref()) else {
            return Ok(false);
        };
        if self.flow.paper.is_some() || self.flow.sizes == Some(Sizes::Exponential) {
            return Ok(true);
        }
        let remedy = "leave it out, or write sizes = \"exponential\": fixed sizes are what the file says";
        self.fail(Some(uncapped.span()), "uncapped", "is for sizes of exponential law", remedy)
    }

    /// Whether the paper's sizes are those of the payload.
    fn payload(&self) -> Result<bool, TopologyError> {
        match self.flow.payload.as_ref().filter(|payload| *payload.get_ref()) {
            Some(payload) if self.flow.paper.is_none() => {
                let remedy = "leave it out: size is that of the IP packet";
                self.fail(Some(payload.span()), "payload", "is for the paper's flows", remedy)
            }
            payload => Ok(payload.is_some()),
        }
    }

    fn size(&self) -> Result<SizeDistribution, TopologyError> {
        let payload = self.payload()?;
        if let Some(paper) = &self.flow.paper {
            let mean = paper.get_ref().mean_octets();
            return Ok(if payload {
                SizeDistribution::ExponentialPayload { mean }
            } else {
                SizeDistribution::Exponential { mean_wire: mean }
            });
        }
        let octets = self.flow.size.as_ref().map_or(ByteCount(1500), |size| *size.get_ref()).0;
        let least = PAYLOAD_MIN + if self.flow.family == Family::Ipv4 { 20 + 8 } else { 40 + 8 };
        let Some(octets) = u32::try_from(octets).ok().filter(|octets| (least..=65_535).contains(octets))
        else {
            let span = self.flow.size.as_ref().map(Spanned::span);
            let remedy = format!("write octets of the IP packet, at least {least}B, as \"1500B\"");
            return self.fail(span, "size", format!("no packet has {octets} B"), &remedy);
        };
        Ok(match self.flow.sizes.unwrap_or(Sizes::Fixed) {
            Sizes::Fixed => SizeDistribution::frame(octets + ETHERNET),
            Sizes::Exponential => {
                SizeDistribution::Exponential { mean_wire: f64::from(octets + ETHERNET + WIRE_OVERHEAD) }
            }
        })
    }

    /// The rate: given, a share of the slowest link, or by the paper's gaps.
    fn rate(&self, mut spec: FlowSpec, target: SocketAddr) -> Result<FlowSpec, TopologyError> {
        let flow = self.flow;
        let load = match (self.load, &flow.load) {
            (Some(load), _) => Some((load, None)),
            (None, Some(load)) => Some((*load.get_ref(), Some(load.span()))),
            (None, None) => None,
        };
        if let (Some(rate), Some(load)) = (&flow.rate, &flow.load) {
            let remedy = "keep one of them";
            let later = rate.span().start.max(load.span().start);
            return self.fail(Some(later..later), "rate", "stands beside load", remedy);
        }
        spec.rate = match (load, &flow.rate, &flow.paper) {
            (Some((load, span)), ..) => {
                if !(load > 0.0 && load <= LOAD_MAX) {
                    let remedy = "write the share of the link that it takes, up to 20, as 0.7 for 70 %";
                    return self.fail(span, "load", format!("is {load:?}"), remedy);
                }
                Rate((self.link("load", span)?.0 as f64 * load).round() as u64)
            }
            (None, Some(rate), _) => *rate.get_ref(),
            (None, None, Some(paper)) => {
                let (link, paper) = (self.link("paper", Some(paper.span()))?, paper.get_ref());
                match spec.size {
                    SizeDistribution::ExponentialPayload { .. } => {
                        paper.rate(spec.size.mean(SizeBounds::new(target, spec.mtu)), link)
                    }
                    _ => paper.rate(paper.mean_octets(), link),
                }
            }
            (None, None, None) => {
                let remedy = "write load = 0.7 (of the slowest link on its way) or rate = \"70mbit\"";
                return self.fail(None, "rate", "is not given", remedy);
            }
        };
        Ok(spec)
    }

    fn link(&self, key: &str, span: Option<std::ops::Range<usize>>) -> Result<Rate, TopologyError> {
        match self.bottleneck {
            Some(rate) => Ok(rate),
            None => {
                let remedy = "write rate = \"70mbit\" here, or a rate at a link of a switch on its way";
                self.fail(span, key, "no link on its way has a rate", remedy)
            }
        }
    }

    /// What the traffic source itself would refuse, with the place in the file.
    fn check(&self, spec: &FlowSpec, target: SocketAddr) -> Result<(), TopologyError> {
        match spec.bounds(target) {
            Ok(_) => Ok(()),
            Err(TrafficError::Spec { problem, remedy, .. }) => {
                let key = match spec.kind {
                    _ if spec.dscp > 63 => "dscp",
                    FlowKind::OnOff { on_ns: 0, .. } => "on",
                    _ => "size",
                };
                let span = match key {
                    "dscp" => self.flow.dscp.as_ref().map(Spanned::span),
                    "on" => self.flow.on.as_ref().map(Spanned::span),
                    _ => self.flow.size.as_ref().map(Spanned::span),
                };
                self.fail(span, key, problem, &remedy)
            }
            Err(other) => self.fail(None, "size", other.to_string(), "see the message"),
        }
    }
}
