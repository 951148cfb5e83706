//! Topology files: switches, hosts, links, flows and clocks in TOML, read, checked and made into plans.
//!
//! A file is refused with one line that names the place, the key, what is wrong and what to write instead. What is
//! read here has been checked as a whole: names are unique and fit interfaces, every host can be reached, there is no
//! loop, all marks of the network mean the same time.

mod clocks;
mod error;
mod file;
mod flows;
mod hosts;
mod labs;
mod network;
mod ports;
mod run;
mod values;

pub use clocks::{ClockPlan, Compensation, Daemon, Hop};
pub use error::TopologyError;
pub use flows::FlowPlan;
pub use hosts::{HostPlan, PREFIX_V4, PREFIX_V6};
pub use labs::{BUILT_IN, BuiltIn};
pub use network::{Cable, CableEnd, Node};
pub use ports::SwitchPlan;
pub use run::{RunFile, RunPort, RunSwitch};

use crate::traffic::UNCAPPED;
use error::Source;
use file::File;
use network::Network;
use plimsoll_core::{MarkConfig, Span};
use plimsoll_port::worker::Idle;
use std::path::Path;
use std::time::Duration;

/// Pipeline latency of a lab's switches where the file gives none.
pub const LAB_LATENCY_NS: u64 = 100_000;
/// How long a lab measures where the file does not say.
const DURATION: Duration = Duration::from_secs(20);
/// How long traffic and clocks run before the measurement where the file does not say.
const WARMUP: Duration = Duration::from_secs(2);
/// Difference of a clock's two ways from which on a warning is due.
const ASYMMETRY_NS: f64 = 100.0;
/// Thresholds of a hop where the file gives none.
const THRESHOLDS: u32 = 32;

/// What the command line says instead of the file.
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
    /// R, N and delta of all ports that mark.
    pub marking: Option<MarkConfig>,
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
        let marking = marking(&source, &raw, overrides)?;
        let network = Network::new(&source, &raw)?;
        let hosts = hosts::plan(&source, &raw, &network)?;
        let edges = clocks::edges(&source, &raw, &network, marking.is_some())?;
        let (switches, marking) = ports::plan(&source, &raw, &network, marking, &edges)?;
        check_overrides(&source, overrides, &switches)?;
        let seed = overrides.seed.or(raw.seed).unwrap_or(1);
        let mut warnings = Vec::new();
        let flows = flows::plan(
            &source,
            &raw,
            &flows::Ground { network: &network, hosts: &hosts, switches: &switches },
            seed,
            overrides.load,
            &mut warnings,
        )?;
        let clocks = clocks::plan(&source, &raw, &network, &switches, marking.is_some(), seed)?;
        for switch in &switches {
            warnings.extend(switch.config.warnings().iter().map(ToString::to_string));
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
            marking,
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
        let ntp = self.clocks.iter().find(|clock| clock.transport.is_ntp()).map(|clock| {
            [
                format!("clock {}", clock.name),
                format!("{} exists in `plimsoll sim` only", clock.transport),
                "write transport = \"udp4\", or run `plimsoll sim`".into(),
            ]
        });
        let uncapped = || {
            let flow = self.flows.iter().find(|flow| flow.spec.mtu == UNCAPPED)?;
            Some([
                format!("flow {}", flow.name),
                "frames beyond the MTU exist in `plimsoll sim` only".into(),
                "leave uncapped out, or run `plimsoll sim`".into(),
            ])
        };
        ntp.or_else(uncapped)
    }

    /// The switches' names, each with its ports' names.
    pub(crate) fn port_names(&self) -> Vec<(String, Vec<String>)> {
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
fn check_overrides(
    source: &Source<'_>,
    overrides: &Overrides,
    switches: &[SwitchPlan],
) -> Result<(), TopologyError> {
    let mut ports = switches.iter().flat_map(|switch| &switch.config.ports);
    let (marks, uses_delta) = (ports.clone().any(|port| port.mark.is_some()), ports.any(|port| port.edge));
    let key = match overrides {
        Overrides { thresholds: Some(_), .. } if !marks => "--thresholds",
        Overrides { delta: Some(_), .. } if !marks && !uses_delta => "--delta",
        _ => return Ok(()),
    };
    let remedy =
        "leave it out, or write rate at the links that shall mark, and delta by [marking] or --delta";
    Err(source.error(None, key, "is given, but no port of this lab marks", remedy))
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
    std::fs::read_to_string(lab).map(|text| (lab.to_owned(), text)).map_err(|e| {
        let names: Vec<_> = BUILT_IN.iter().map(|b| b.name).collect();
        if e.kind() == std::io::ErrorKind::NotFound && !lab.contains(['.', '/']) {
            let remedy = format!("there are {}; a file of your own needs its path", names.join(", "));
            error("no lab of this name is built in".into(), remedy)
        } else {
            error(format!("cannot be read: {e}"), "check the path and who may read it".into())
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
    let fits = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if fits {
        return Ok(name);
    }
    let remedy = "write name = ... with 1 to 64 letters, digits, - and _";
    Err(source.error(span, "name", format!("{name:?} is no name for a lab"), remedy))
}

/// The network's marking as `[marking]` and the command line give it; a delta of 0 where ports have to imply it.
fn marking(
    source: &Source<'_>,
    raw: &File,
    overrides: &Overrides,
) -> Result<Option<MarkConfig>, TopologyError> {
    let span = raw.marking.as_ref().map(toml::Spanned::span);
    let marking = raw.marking.as_ref().map(toml::Spanned::get_ref);
    if marking.is_none() && overrides.delta.is_none() {
        return Ok(None);
    }
    let fail = |key: &str, problem: String, remedy: &str| {
        Err(source.error(span.clone(), format!("marking.{key}"), problem, remedy))
    };
    let counter_max = marking.and_then(|m| m.counter_max).unwrap_or(plimsoll_core::config::MAX_COUNT);
    if !(1..=plimsoll_core::config::MAX_COUNT).contains(&counter_max) {
        return fail("counter-max", format!("N is {counter_max}"), "write 1 to 1073741823 (2^30 - 1)");
    }
    let thresholds = overrides
        .thresholds
        .or_else(|| marking.and_then(|m| m.thresholds))
        .unwrap_or(THRESHOLDS.min(counter_max));
    if !(1..=counter_max).contains(&thresholds) {
        let remedy = "write R from 1 to N, the largest value of the counter";
        return fail("thresholds", format!("R is {thresholds} with N = {counter_max}"), remedy);
    }
    let delta_ps = overrides.delta.or_else(|| marking.and_then(|m| m.delta)).map_or(0, |d| d.ps);
    let given = overrides.delta.is_some() || marking.is_some_and(|m| m.delta.is_some());
    if given && !(1..=1_000_000_000_000).contains(&delta_ps) {
        let delta = Span { ps: delta_ps };
        return fail("delta", format!("is {delta}"), "write a time above 0 and up to 1s, as \"60us\"");
    }
    Ok(Some(MarkConfig { counter_max, ..MarkConfig::new(thresholds, delta_ps) }))
}

#[cfg(test)]
mod tests;
