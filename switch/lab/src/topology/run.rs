//! A file for `plimsoll run`: one switch a name, its ports the interfaces of this machine.

use super::error::{Source, TopologyError};
use super::file::{File, Lateness, Port, PortMode};
use super::keys::{Place, PortKeys};
use super::marking::{Marks, Step};
use super::network::{check_label, check_name};
use super::ports::{fixed, release_at};
use super::{Overrides, check_instance, check_overrides};
use plimsoll_core::{MarkConfig, Nanos, SwitchConfig};
use plimsoll_port::Mode;
use plimsoll_port::worker::{Idle, ReleaseAt, Stall};
use std::path::Path;

/// What `plimsoll run FILE` runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The file's key `name`, where it is given.
    pub name: Option<String>,
    /// The counters of all ports that have any.
    pub marking: Option<MarkConfig>,
    /// CPU of the worker; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// What the worker does when there is nothing to do.
    pub idle: Idle,
    /// The switches.
    pub switches: Vec<RunSwitch>,
    /// What works, but not as one might think: one line each.
    pub warnings: Vec<String>,
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
        Self::parse(&label, &text, &Overrides::default())
    }

    /// Reads a file from its text; `file` is its name in messages.
    ///
    /// # Errors
    /// [`TopologyError`] where no switch can be made of it.
    pub fn parse(file: &str, text: &str, overrides: &Overrides) -> Result<Self, TopologyError> {
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
        if let Some(name) = &raw.name {
            check_instance(&source, Some(name.span()), "switch", name.get_ref())?;
        }
        let mut marks = Marks::read(&source, &raw, overrides)?;
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
                step.agree(&mut marks.counters, &mut implied, port.name.get_ref())?;
            }
        }
        marks.check_delta(&source)?;
        let switches = switches(&source, &raw, &marks)?;
        check_overrides(&source, overrides, switches.iter().flat_map(|switch| &switch.config.ports))?;
        let mut warnings: Vec<String> = marks.warning().into_iter().collect();
        for switch in &switches {
            warnings.extend(marks.warnings(&switch.config));
        }
        Ok(Self {
            name: raw.name.as_ref().map(|name| name.get_ref().clone()),
            marking: marks.counters,
            cpu: raw.worker.cpu,
            idle: raw.worker.idle.unwrap_or_default(),
            switches,
            warnings,
        })
    }
}

fn switches(source: &Source<'_>, raw: &File, marks: &Marks) -> Result<Vec<RunSwitch>, TopologyError> {
    let mut names: Vec<_> = raw.switch.keys().collect();
    names.sort_by_key(|name| name.span().start);
    for name in &names {
        check_label(source, &name.span(), "switch", name.get_ref())?;
    }
    let mut names: Vec<String> = names.into_iter().map(|name| name.get_ref().clone()).collect();
    if names.is_empty() {
        names.push("switch".to_owned());
    }
    let mut switches: Vec<RunSwitch> = names.iter().map(|name| bare(raw, name)).collect();
    let mut taken: Vec<&str> = Vec::new();
    // The numbers in the file of each switch's ports.
    let mut numbers = vec![Vec::new(); switches.len()];
    for (number, written) in raw.port.iter().enumerate() {
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
        let place = Place { source, table: "port", number };
        switches[at].config.ports.push(keys(port).port(name, marks, place)?);
        numbers[at].push(number);
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
    for (switch, numbers) in switches.iter_mut().zip(numbers) {
        switch.config.delta_ps = marks.counters.map(|mark| mark.delta_ps);
        let ports: Vec<_> = switch.config.ports.iter().map(|port| port.name.as_str()).collect();
        switch.config.fdb_fixed = fixed(source, raw, &switch.config.name, &ports)?;
        switch.config.check().map_err(|e| source.refused(e, |port| ("port", numbers[port.index()])))?;
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

fn keys(written: &Port) -> PortKeys<'_> {
    PortKeys {
        rate: written.rate.as_ref().and_then(|rate| rate.get_ref().0),
        delay: written.delay,
        quanta: written.quanta.clone(),
        queue: written.queue,
        queue_frames: written.queue_frames,
        mark: written.mark,
        ecn: written.ecn,
        transparent_clock: written.transparent_clock,
        edge: written.edge,
        remark: written.remark,
        trust: written.trust.unwrap_or(false),
        vlan: written.vlan.as_ref(),
        storm: written.storm,
        class: written.class,
        sync_class: written.sync_class,
        pass: &written.pass,
    }
}
