//! A file for `plimsoll run`: one switch a name, its ports the interfaces of this machine.

use super::error::{Source, TopologyError};
use super::file::{File, Lateness, Port, PortMode};
use super::network::check_name;
use super::ports::{Step, fixed, release_at};
use plimsoll_core::{MarkConfig, Nanos, PortConfig, SwitchConfig};
use plimsoll_port::Mode;
use plimsoll_port::worker::{Idle, ReleaseAt, Stall};
use std::path::Path;
use toml::Spanned;

/// What `plimsoll run FILE` runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The file's key `name`, where it is given.
    pub name: Option<String>,
    /// R, N and delta of all ports that mark.
    pub marking: Option<MarkConfig>,
    /// CPU of the worker; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// What the worker does when there is nothing to do.
    pub idle: Idle,
    /// The switches.
    pub switches: Vec<RunSwitch>,
}

/// One switch on interfaces of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSwitch {
    /// What the core is told; ports are named after their interfaces.
    pub config: SwitchConfig,
    /// Pipeline latency L in nanoseconds.
    pub latency_ns: u64,
    /// Whether PTP event messages carry the machine's own lateness in correctionField.
    pub correct_lateness: bool,
    /// What a stall of the worker does to the links.
    pub stall: Stall,
    /// What the machine is told of each port, in the order of `config.ports`.
    pub ports: Vec<RunPort>,
}

/// One interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPort {
    /// How it receives.
    pub mode: Mode,
    /// When frames leave; `None`: `end` on veth, `start` on a NIC, which serialises again.
    pub release: Option<ReleaseAt>,
}

impl RunFile {
    /// Loads a file by its path.
    ///
    /// # Errors
    /// [`TopologyError`]: it cannot be read, or no switch can be made of it.
    pub fn load(path: &Path) -> Result<Self, TopologyError> {
        let (label, text) = super::read(&path.to_string_lossy())?;
        Self::parse(&label, &text)
    }

    /// Reads a file from its text; `file` is its name in messages.
    ///
    /// # Errors
    /// [`TopologyError`] where no switch can be made of it.
    pub fn parse(file: &str, text: &str) -> Result<Self, TopologyError> {
        let source = Source { file, text };
        let raw: File = toml::from_str(text).map_err(|e| source.parse_error(&e))?;
        if raw.port.is_empty() {
            let (problem, remedy) = if raw.link.is_empty() {
                ("there is no port", "write [[port]] with name = \"INTERFACE\", at least two")
            } else {
                ("is a lab's file: it has links and no [[port]]", "start it with `plimsoll lab run`")
            };
            return Err(source.error(None, "port", problem, remedy));
        }
        let mut marking = super::marking(&source, &raw, &super::Overrides::default())?;
        let mut implied = None;
        for port in &raw.port {
            let port = port.get_ref();
            if let Some(step) = &port.step {
                let step = Step {
                    source: &source,
                    span: step.span(),
                    key: "port.step",
                    octets: step.get_ref().0,
                    rate: port.rate.as_ref().and_then(|rate| rate.get_ref().0),
                };
                step.agree(&mut marking, &mut implied, port.name.get_ref())?;
            }
        }
        if marking.is_some_and(|mark| mark.delta_ps == 0) {
            let remedy = "write delta = \"60us\", one value for the whole network";
            return Err(source.error(None, "marking.delta", "is not given", remedy));
        }
        Ok(Self {
            name: raw.name.as_ref().map(|name| name.get_ref().clone()),
            marking,
            cpu: raw.worker.cpu,
            idle: raw.worker.idle.unwrap_or_default(),
            switches: switches(&source, &raw, marking)?,
        })
    }
}

fn switches(
    source: &Source<'_>,
    raw: &File,
    marking: Option<MarkConfig>,
) -> Result<Vec<RunSwitch>, TopologyError> {
    let mut names: Vec<_> = raw.switch.keys().collect();
    names.sort_by_key(|name| name.span().start);
    let mut names: Vec<String> = names.into_iter().map(|name| name.get_ref().clone()).collect();
    if names.is_empty() {
        names.push("switch".to_owned());
    }
    let mut switches: Vec<RunSwitch> = names.iter().map(|name| bare(raw, name)).collect();
    let mut taken: Vec<&str> = Vec::new();
    for written in &raw.port {
        let port = written.get_ref();
        let name = port.name.get_ref();
        check_name(source, &port.name.span(), "port.name", name)?;
        if taken.contains(&name.as_str()) {
            let problem = format!("{name} is a port already");
            let remedy = "name each interface once: a switch owns it whole";
            return Err(source.error(Some(port.name.span()), "port.name", problem, remedy));
        }
        taken.push(name);
        let at = match &port.switch {
            None if names.len() == 1 => 0,
            None => {
                let remedy = format!("write switch = one of {}", names.join(", "));
                let span = Some(port.name.span());
                return Err(source.error(span, "port.switch", "is not given, and there are several", remedy));
            }
            Some(switch) => match names.iter().position(|n| n == switch.get_ref()) {
                Some(at) => at,
                None => {
                    let problem = format!("there is no switch {:?}", switch.get_ref());
                    let remedy = format!("the switches are {}", names.join(", "));
                    return Err(source.error(Some(switch.span()), "port.switch", problem, remedy));
                }
            },
        };
        switches[at].config.ports.push(port_config(source, port, marking)?);
        switches[at].ports.push(RunPort {
            mode: match port.mode {
                None | Some(PortMode::Auto) => Mode::Auto,
                Some(PortMode::ZeroCopy) => Mode::ZeroCopy,
                Some(PortMode::Native) => Mode::Native,
                Some(PortMode::Generic) => Mode::Generic,
            },
            release: port.release.map(release_at),
        });
    }
    for switch in &mut switches {
        switch.config.delta_ps = marking.map(|mark| mark.delta_ps);
        let ports: Vec<_> = switch.config.ports.iter().map(|port| port.name.as_str()).collect();
        switch.config.fdb_fixed = fixed(source, raw, &switch.config.name, &ports)?;
        switch.config.check().map_err(|e| source.error(None, e.place, e.problem, e.remedy))?;
    }
    Ok(switches)
}

fn bare(raw: &File, name: &str) -> RunSwitch {
    let fdb_seed = super::random_seed();
    let mut config = SwitchConfig { name: name.to_owned(), fdb_seed, ..SwitchConfig::default() };
    let written = raw.switch.get(name);
    config.fdb_capacity = written.and_then(|w| w.fdb_capacity).unwrap_or(config.fdb_capacity);
    config.fdb_age = written.and_then(|w| w.fdb_age).map_or(config.fdb_age, |age| Nanos(age.nanos()));
    RunSwitch {
        config,
        latency_ns: written.and_then(|w| w.latency).map_or(0, |latency| latency.nanos()),
        correct_lateness: written.and_then(|w| w.lateness) == Some(Lateness::Correct),
        stall: written.and_then(|w| w.stall).unwrap_or_default(),
        ports: Vec::new(),
    }
}

fn port_config(
    source: &Source<'_>,
    written: &Port,
    marking: Option<MarkConfig>,
) -> Result<PortConfig, TopologyError> {
    let mut port = PortConfig::new(written.name.get_ref().as_str());
    port.rate = written.rate.as_ref().and_then(|rate| rate.get_ref().0);
    port.delay = Nanos(written.delay.map_or(0, |delay| delay.nanos()));
    port.queue_bytes = written.queue.map(|queue| queue.0);
    port.edge = written.edge.unwrap_or(false);
    port.trust = written.trust.unwrap_or(false);
    port.storm = written.storm.map(Into::into);
    port.default_priority = written.class.unwrap_or(0);
    port.sync_class = written.sync_class;
    port.pass_reserved = written.pass.iter().map(|octet| octet.0).collect();
    let asked = written.mark.as_ref().map(|mark| *mark.get_ref());
    if asked == Some(true) && marking.is_none() {
        let span = written.mark.as_ref().map(Spanned::span);
        let remedy = "write [marking] with delta and thresholds";
        return Err(source.error(span, "port.mark", "there is no [marking]", remedy));
    }
    // A port told to mark without a rate is refused by the core's own check.
    port.mark = marking.filter(|_| asked.unwrap_or(port.rate.is_some()));
    Ok(port)
}
