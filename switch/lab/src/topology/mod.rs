//! Topology files: switches, hosts, links, flows and clocks in TOML, read, checked and made into plans.
//!
//! A file is refused with one line that names the place, the key, what is wrong and what to write instead. What is
//! read here has been checked as a whole: names are unique and fit interfaces, every host can be reached, there is no
//! loop, all marks of the network mean the same time.

mod clocks;
mod compensation;
mod error;
mod file;
mod flows;
mod hosts;
mod keys;
mod labs;
mod marking;
mod network;
mod ports;
mod run;
mod values;

pub(crate) use clocks::message_octets;
pub use clocks::{ClockPlan, Daemon, Hop, SecurityMode};
pub use compensation::{Carrier, Compensation};
pub use error::TopologyError;
pub use flows::FlowPlan;
pub use hosts::{HostPlan, PREFIX_V4, PREFIX_V6};
pub use labs::{BUILT_IN, BuiltIn};
pub(crate) use marking::largest_count;
pub use marking::{CounterKind, ThresholdRule};
pub use network::{Cable, CableEnd, Node};
pub use ports::SwitchPlan;
pub use run::{RunFile, RunPort, RunSwitch};

use crate::record::PortNames;
use crate::text;
use crate::traffic::UNCAPPED;
use error::Source;
use file::File;
use marking::Marks;
use network::Network;
use plimsoll_core::{Depth, EcnConfig, MarkConfig, PortConfig, Span};
use plimsoll_port::{MOST_PORTS, worker::Idle};
use std::path::Path;
use std::time::Duration;

/// Pipeline latency of a lab's switches where the file gives none.
pub const LAB_LATENCY_NS: u64 = 100_000;
/// Longest file, octets: some hundred thousand links.
pub const LONGEST_FILE: u64 = 16_000_000;
/// How long a lab measures where the file does not say.
const DURATION: Duration = Duration::from_secs(20);
/// How long traffic and clocks run before the measurement where the file does not say.
const WARMUP: Duration = Duration::from_secs(2);
/// Difference of a clock's two ways from which on a warning is due.
const ASYMMETRY_NS: f64 = 100.0;

/// What the command line says instead of the file. The first two and `load` are for labs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    /// How long to measure.
    pub duration: Option<Duration>,
    /// Seed of the traffic.
    pub seed: Option<u64>,
    /// The delay that one mark stands for.
    pub delta: Option<Span>,
    /// R.
    pub thresholds: Option<u32>,
    /// Where the thresholds lie.
    pub rule: Option<ThresholdRule>,
    /// N.
    pub counter_max: Option<u32>,
    /// How a count is written.
    pub counter: Option<CounterKind>,
    /// Whether requests and responses have counts of their own.
    pub forward_reverse: Option<bool>,
    /// Where classical ECN begins to mark, as time on the link.
    pub ecn_threshold: Option<Span>,
    /// Share of the slowest link on its way that every flow offers, above 0.
    pub load: Option<f64>,
}

/// A network, checked and ready to be built.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Its name: the file's key, else the file's stem.
    pub name: String,
    /// What it shows, in one line.
    pub description: Option<String>,
    /// How long to measure.
    pub duration: Duration,
    /// How long traffic and clocks run before that.
    pub warmup: Duration,
    /// Seed of the traffic.
    pub seed: u64,
    /// The counters of all ports that have any; where `ecn = false` is said of a port, its own lack that carrier.
    pub marking: Option<MarkConfig>,
    /// Classical ECN of all ports that mark.
    pub ecn: Option<EcnConfig>,
    /// What the thresholds of both are compared with.
    pub depth: Depth,
    /// CPU of the worker; `None`: the last one.
    pub cpu: Option<usize>,
    /// What the worker does when there is nothing to do.
    pub idle: Idle,
    /// The switches.
    pub switches: Vec<SwitchPlan>,
    /// Linux bridges, by name.
    pub bridges: Vec<String>,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// The links, as pairs of interfaces.
    pub cables: Vec<Cable>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// The clock pairs.
    pub clocks: Vec<ClockPlan>,
    /// What works, but not as one might think: one line each.
    pub warnings: Vec<String>,
}

impl Topology {
    /// Loads a built-in lab by its name, or a file by its path. A name with a dot or a slash is a path.
    ///
    /// # Errors
    /// [`TopologyError`]: there is no such lab or file, or no network can be made of it.
    pub fn load(lab: &str, overrides: &Overrides) -> Result<Self, TopologyError> {
        let (label, text) = read(lab)?;
        Self::parse(&label, &text, overrides)
    }

    /// Reads a topology from its text; `file` is its name in messages.
    ///
    /// # Errors
    /// [`TopologyError`] where no network can be made of it.
    pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Self, TopologyError> {
        let source = Source { file, text };
        let raw: File = toml::from_str(text).map_err(|e| source.parse_error(&e))?;
        if raw.link.is_empty() {
            return Err(if raw.port.is_empty() {
                source.error(
                    None,
                    "link",
                    "there is no link, so no network",
                    "write [[link]] with between = [\"HOST\", \"SWITCH\"]",
                )
            } else {
                source.error(
                    None,
                    "port",
                    "its ports are interfaces of this machine",
                    "start it with `plimsoll run`, or write [[link]] for a lab",
                )
            });
        }
        let mut marks = Marks::read(&source, &raw, overrides)?;
        let network = Network::new(&source, &raw)?;
        let hosts = hosts::plan(&source, &raw, &network)?;
        let edges = compensation::edges(&source, &raw, &network, &marks)?;
        let switches = ports::plan(&source, &raw, &network, &mut marks, &edges)?;
        check_overrides(&source, overrides, switches.iter().flat_map(|switch| &switch.config.ports))?;
        let seed = overrides.seed.or(raw.seed).unwrap_or(1);
        let mut warnings: Vec<String> = marks.warning().into_iter().collect();
        let flows = flows::plan(
            &source,
            &raw,
            &flows::Ground { network: &network, hosts: &hosts, switches: &switches },
            seed,
            overrides.load,
            &mut warnings,
        )?;
        let clocks = clocks::plan(&source, &raw, &network, &switches, &marks, seed)?;
        for switch in &switches {
            warnings.extend(marks.warnings(&switch.config));
        }
        for clock in &clocks {
            let ns = clocks::asymmetry_ns(&switches, clock);
            if ns.abs() >= ASYMMETRY_NS {
                warnings.push(format!(
                    "clock {}: by rates and delays its messages take {:.1} us {} to the client than back, a constant \
                     error of half of that; give both directions the same",
                    clock.name,
                    ns.abs() / 1e3,
                    if ns > 0.0 { "longer" } else { "less" }
                ));
            }
        }
        let duration = match (overrides.duration, &raw.duration) {
            (Some(duration), _) => duration,
            (None, Some(span)) if span.get_ref().ps == 0 => {
                let remedy = "write how long to measure, as \"20s\"";
                return Err(source.error(Some(span.span()), "duration", "is 0", remedy));
            }
            (None, Some(span)) => Duration::from_nanos(span.get_ref().nanos()),
            (None, None) => DURATION,
        };
        Ok(Self {
            name: topology_name(&source, raw.name.as_ref())?,
            description: raw.description,
            duration,
            warmup: raw.warmup.map_or(WARMUP, |span| Duration::from_nanos(span.nanos())),
            seed,
            marking: marks.counters,
            ecn: marks.ecn,
            depth: marks.depth,
            cpu: raw.worker.cpu,
            idle: raw.worker.idle.unwrap_or(Idle::Spin),
            switches,
            bridges: network.bridges.clone(),
            hosts,
            cables: network.cables(),
            flows,
            clocks,
            warnings,
        })
    }

    /// The same network with other traffic.
    pub fn with_seed(&self, seed: u64) -> Self {
        let mut other = Self { seed, ..self.clone() };
        for (index, flow) in other.flows.iter_mut().enumerate() {
            flow.spec.seed = flows::stream(seed, index);
        }
        for (index, clock) in other.clocks.iter_mut().enumerate() {
            clock.seed = flows::stream(seed, index);
        }
        other
    }

    /// What of this network exists in the simulator only: the place, why, and what to write for a lab.
    pub fn simulated_only(&self) -> Option<[String; 3]> {
        let uncapped = || {
            let flow = self.flows.iter().find(|flow| flow.spec.mtu == UNCAPPED)?;
            Some([
                format!("flow {}", flow.name),
                "frames beyond the MTU exist in `plimsoll sim` only".into(),
                "leave uncapped out, or run `plimsoll sim`".into(),
            ])
        };
        let crowded = || {
            let ports: usize = self.switches.iter().map(|switch| switch.config.ports.len()).sum();
            (ports > MOST_PORTS).then(|| {
                [
                    format!("its switches have {ports} ports"),
                    format!("more than {MOST_PORTS} exist in `plimsoll sim` only"),
                    "leave some out, or run `plimsoll sim`".into(),
                ]
            })
        };
        uncapped().or_else(crowded)
    }

    /// Octets of memory that its switches reserve.
    pub fn memory(&self) -> u64 {
        self.switches.iter().map(|switch| switch.config.memory()).sum()
    }

    /// The switches' names, each with its ports' names.
    pub fn port_names(&self) -> PortNames {
        let ports = |plan: &SwitchPlan| plan.config.ports.iter().map(|port| port.name.clone()).collect();
        self.switches.iter().map(|plan| (plan.name.clone(), ports(plan))).collect()
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }
}

/// A number that no sender knows, for the hash of a switch's FDB: of the keys that the standard library draws from the
/// system.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8)
}

/// Marking that the command line asks for must be some port's.
fn check_overrides<'p>(
    source: &Source<'_>,
    overrides: &Overrides,
    ports: impl Iterator<Item = &'p PortConfig>,
) -> Result<(), TopologyError> {
    let [mut marks, mut uses_delta, mut ecn] = [false; 3];
    for port in ports {
        marks |= port.mark.is_some();
        uses_delta |= port.edge;
        ecn |= port.ecn.is_some();
    }
    let key = match overrides {
        Overrides { thresholds: Some(_), .. } if !marks => "--thresholds",
        Overrides { rule: Some(_), .. } if !marks => "--rule",
        Overrides { counter_max: Some(_), .. } if !marks => "--counter-max",
        Overrides { counter: Some(_), .. } if !marks => "--counter",
        Overrides { forward_reverse: Some(_), .. } if !marks => "--forward-reverse",
        Overrides { delta: Some(_), .. } if !marks && !uses_delta => "--delta",
        Overrides { ecn_threshold: Some(_), .. } if !ecn => "--ecn-threshold",
        _ => return Ok(()),
    };
    let remedy = match key {
        "--ecn-threshold" => "leave it out, or write rate where ECN shall mark",
        _ => "leave it out, or write rate where ports shall mark, and delta by [marking] or --delta",
    };
    Err(source.error(None, key, "is given, but no port here marks", remedy))
}

/// The text of a built-in lab or of a file, and what to call it in messages.
pub(crate) fn read(lab: &str) -> Result<(String, String), TopologyError> {
    if let Some(built_in) = BUILT_IN.iter().find(|b| b.name == lab) {
        return Ok((built_in.name.to_owned(), built_in.text.to_owned()));
    }
    let error = |problem: String, remedy: String| TopologyError {
        file: lab.to_owned(),
        at: None,
        key: String::new(),
        problem,
        remedy,
    };
    text::read(Path::new(lab), LONGEST_FILE).map(|text| (lab.to_owned(), text)).map_err(|e| {
        if e.absent && !lab.contains(['.', '/']) {
            let names: Vec<_> = BUILT_IN.iter().map(|b| b.name).collect();
            let remedy = format!("there are {}; a file of your own needs its path", names.join(", "));
            error("no lab of this name is built in".into(), remedy)
        } else {
            error(e.problem, e.remedy.into())
        }
    })
}

/// The network's name, which is also a file name under /run.
fn topology_name(
    source: &Source<'_>,
    given: Option<&toml::Spanned<String>>,
) -> Result<String, TopologyError> {
    let stem = Path::new(source.file).file_stem().map(|s| s.to_string_lossy().into_owned());
    let (name, span) = match given {
        Some(name) => (name.get_ref().clone(), Some(name.span())),
        None => (stem.unwrap_or_default(), None),
    };
    check_instance(source, span, "lab", &name)?;
    Ok(name)
}

/// Whether a lab or a running switch can have this name: it is found by it, among others in /proc/net/unix.
fn check_instance(
    source: &Source<'_>,
    span: Option<std::ops::Range<usize>>,
    what: &str,
    name: &str,
) -> Result<(), TopologyError> {
    if is_instance_name(name) {
        return Ok(());
    }
    let remedy = "write name = ... with 1 to 64 letters, digits, - and _";
    Err(source.error(span, "name", format!("{name:?} is no name for a {what}"), remedy))
}

/// Whether it is a name for a lab or a running switch: 1 to 64 letters, digits, `-` and `_`.
pub fn is_instance_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

#[cfg(test)]
mod tests;
