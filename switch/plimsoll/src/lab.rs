//! `plimsoll lab`: networks of namespaces with real frames.

use std::{ffi::OsString, path::Path, process::ExitCode, time::Duration};

use anyhow::Result;
use plimsoll_core::Span;
use plimsoll_lab::{
    lab::{self, HostAddresses, Lab as Running, Progress, RunOptions, Silent, StateFile, Stderr, Traffic},
    results::{Outcome, Table, octets, prepare_exchanges},
    topology::{BUILT_IN, ClockPlan, CounterKind, Hop, Overrides, ThresholdRule, Topology},
};
use serde_json::json;

use crate::{
    Usage,
    args::{CounterArg, Lab, LabRun, LabUp, Marking, Overriding, RuleArg},
    control::Server,
    interrupt,
    run::recordable,
    say::{self, Note, Out},
    serve,
};

pub(crate) fn lab(command: &Lab) -> Result<ExitCode> {
    match command {
        Lab::Run(args) => run(args),
        Lab::Up(args) if args.foreground => stay(args),
        Lab::Up(args) => up(args),
        Lab::Down { name } => {
            lab::down(name)?;
            writeln!(Out, "lab {name} has ended")?;
            Ok(ExitCode::SUCCESS)
        }
        Lab::Exec { name, host, command } => {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            Err(lab::exec(name, host, &command, |warning| writeln!(Note, "warning: {warning}")).into())
        }
        Lab::List { json } => list(*json),
        Lab::Cat { name } => cat(name),
        Lab::Clean => {
            let removed = lab::clean()?;
            match removed.as_slice() {
                [] => writeln!(Out, "nothing to clean")?,
                names => writeln!(Out, "removed what was left of {}", names.join(", "))?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What the command line says instead of the file.
pub(crate) fn overrides(given: &Overriding) -> Result<Overrides> {
    let duration = given.duration.map(|span: Span| Duration::from_nanos(span.nanos()));
    if duration.is_some_and(|d| d.is_zero()) {
        return Err(Usage("--duration 0: nothing could be measured; write e.g. 20s".into()).into());
    }
    Ok(Overrides { duration, seed: given.seed, load: given.load, ..given.marking.into() })
}

/// The network of a built-in lab or a file, where this machine has the memory for it.
pub(crate) fn load(lab: &str, overrides: &Overrides) -> Result<Topology> {
    let topology = Topology::load(lab, overrides).map_err(|e| Usage(e.to_string()))?;
    let machine = rustix::system::sysinfo();
    let (needed, there) = (topology.memory(), u64::from(machine.mem_unit) * machine.totalram);
    if needed > there {
        let problem = format!(
            "{} switches reserve {} for queues and FDBs, and this machine has {}",
            topology.switches.len(),
            octets(needed),
            octets(there)
        );
        let remedy = "leave some out, or write smaller ones: queue-frames at links, fdb-capacity at switches";
        return Err(Usage(format!("{lab}: {problem}; {remedy}")).into());
    }
    Ok(topology)
}

/// The same for namespaces: what only the simulator follows is a mistake of the file too.
fn load_real(lab: &str, overrides: &Overrides) -> Result<Topology> {
    let topology = load(lab, overrides)?;
    match topology.simulated_only() {
        Some([place, problem, remedy]) => Err(Usage(format!("{lab}: {place}: {problem}; {remedy}")).into()),
        None => Ok(topology),
    }
}

fn run(args: &LabRun) -> Result<ExitCode> {
    let topology = load_real(&args.lab, &overrides(&args.overriding)?)?;
    recordable(args.record.as_ref())?;
    keepable(args.clocks.as_deref())?;
    let stop = interrupt::flag()?;
    let (loud, silent) = (Stderr::new(), Silent);
    let progress: &dyn Progress = if args.quiet { &silent } else { &loud };
    let options = RunOptions { record: args.record.clone(), publish: true };
    let mut outcome = lab::run(topology, &options, progress, &stop)?;
    keep(&mut outcome, args.clocks.as_deref());
    say::result(&outcome, args.json)?;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Whether exchanges can be written there, asked before they are measured.
///
/// # Errors
/// [`Usage`] where they cannot.
pub(crate) fn keepable(clocks: Option<&Path>) -> Result<()> {
    clocks.map_or(Ok(()), prepare_exchanges).map_err(|e| Usage(e.to_string()).into())
}

/// Writes the clocks' exchanges. What was measured is shown where they cannot be written too.
pub(crate) fn keep(outcome: &mut Outcome, clocks: Option<&Path>) {
    let written = clocks.map_or(Ok(()), |directory| outcome.write_exchanges(directory));
    outcome.failed.extend(written.err().map(|e| e.to_string()));
}

impl From<Marking> for Overrides {
    fn from(marking: Marking) -> Self {
        Self {
            delta: marking.delta,
            thresholds: marking.thresholds,
            rule: marking.rule.map(|rule| match rule {
                RuleArg::Edge => ThresholdRule::Edge,
                RuleArg::Centred => ThresholdRule::Centred,
            }),
            counter_max: marking.counter_max,
            counter: marking.counter.map(|counter| match counter {
                CounterArg::Integer => CounterKind::Integer,
                CounterArg::BitShift => CounterKind::BitShift,
            }),
            forward_reverse: marking.forward_reverse,
            ecn_threshold: marking.ecn_threshold,
            ..Self::default()
        }
    }
}

/// Starts this program once more, in the background, to hold the lab.
fn up(args: &LabUp) -> Result<ExitCode> {
    let topology = load_real(&args.lab, &Overrides::default())?;
    // The background process gets an absolute path: it is the same file wherever it looks from.
    let lab = match std::fs::canonicalize(&args.lab) {
        Ok(path) if !BUILT_IN.iter().any(|b| b.name == args.lab) => path.into_os_string(),
        _ => OsString::from(&args.lab),
    };
    let mut arguments = vec!["lab".into(), "up".into(), "--foreground".into()];
    arguments.extend(args.traffic.then(|| OsString::from("--traffic")));
    arguments.push(lab);
    let state = lab::up(&topology.name, &std::env::current_exe()?, &arguments)?;
    let (name, nodes) = (&state.name, state.nodes.keys().cloned().collect::<Vec<_>>());
    writeln!(Out, "lab {name} stands (pid {}): {}", state.pid, nodes.join(", "))?;
    let mut table = Table::new(&["host", "IPv4", "IPv6", "MAC"]);
    for (host, HostAddresses { v4, v6, mac }) in &state.hosts {
        table.row(vec![host.clone(), v4.to_string(), v6.to_string(), mac.clone()]);
    }
    write!(Out, "{table}")?;
    if let [host, others @ ..] = topology.hosts.as_slice() {
        let other = others.first().unwrap_or(host);
        writeln!(Out, "enter a host:  plimsoll lab exec {name} {} -- ping {}", host.name, other.name)?;
    }
    writeln!(Out, "watch it:      plimsoll show ports --name {name}")?;
    writeln!(Out, "end it:        plimsoll lab down {name}")?;
    Ok(ExitCode::SUCCESS)
}

/// Holds the lab until a signal.
fn stay(args: &LabUp) -> Result<ExitCode> {
    let topology = load_real(&args.lab, &Overrides::default())?;
    let mut file = StateFile::claim(&topology.name)?;
    let mut server = Server::start(&topology.name)?;
    let running = Running::start(topology, None)?;
    let traffic = if args.traffic { Some(Traffic::start(&running)?) } else { None };
    file.publish(&running)?;
    writeln!(Note, "lab {} stands; SIGINT ends it", running.topology().name);
    let held = serve::hold(&mut server, running.worker(), &clocks(running.topology()));
    if let Some(traffic) = traffic {
        traffic.stop(&running);
    }
    let last = running.stop()?;
    drop(file);
    held?;
    if last.frames.is_whole() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(Note, "plimsoll: frames are missing at the end: {:?}; please report this", last.frames);
    Ok(ExitCode::FAILURE)
}

/// The ports by which messages of each clock leave, as `plan --running` reads them.
fn clocks(topology: &Topology) -> serde_json::Value {
    let names = topology.port_names();
    let way = |hops: &[Hop]| -> Vec<String> {
        let name = |hop: &Hop| {
            let (switch, ports) = &names[usize::from(hop.switch)];
            format!("{switch}/{}", ports[usize::from(hop.port)])
        };
        hops.iter().map(name).collect()
    };
    let of = |plan: &ClockPlan| json!({ "name": plan.name, "forward": way(&plan.to_server), "reverse": way(&plan.to_client) });
    topology.clocks.iter().map(of).collect()
}

fn list(as_json: bool) -> Result<ExitCode> {
    let running = lab::list()?;
    if as_json {
        let built_in: Vec<_> =
            BUILT_IN.iter().map(|b| json!({ "name": b.name, "about": about(b.text) })).collect();
        writeln!(
            Out,
            "{}",
            serde_json::to_string_pretty(&json!({ "built_in": built_in, "running": running }))?
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["built-in lab", "what it shows"]);
    for lab in BUILT_IN {
        table.row(vec![lab.name.into(), about(lab.text)]);
    }
    write!(Out, "{table}")?;
    if !running.is_empty() {
        let mut table = Table::new(&["\nlab", "state", "pid", "nodes"]);
        for lab in running {
            let (pid, nodes) = lab.state.map_or_else(Default::default, |s| {
                (s.pid.to_string(), s.nodes.into_keys().collect::<Vec<_>>().join(", "))
            });
            let state = if lab.running { "runs" } else { "was killed (plimsoll lab clean)" };
            table.row(vec![lab.name, state.into(), pid, nodes]);
        }
        write!(Out, "{table}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file's own description.
fn about(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("description = "));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn cat(name: &str) -> Result<ExitCode> {
    match BUILT_IN.iter().find(|lab| lab.name == name) {
        Some(lab) => {
            write!(Out, "{}", lab.text)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let names: Vec<_> = BUILT_IN.iter().map(|lab| lab.name).collect();
            Err(Usage(format!("there is no built-in lab {name:?}; there are {}", names.join(", "))).into())
        }
    }
}
