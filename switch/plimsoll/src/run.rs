//! `plimsoll run`: a switch on interfaces of this machine, until SIGINT or SIGTERM.

use std::{
    os::fd::{AsFd, AsRawFd},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Result;
use plimsoll_core::SwitchConfig;
use plimsoll_lab::{
    record::{self, Collector, PortNames, RecordClock, RecordFile, Window},
    text,
    topology::{LONGEST_FILE, RunFile, RunSwitch, is_instance_name},
};
use plimsoll_port::{
    Mode, Port, PortOptions, Umem, UmemOptions,
    netlink::{Link, LinkMonitor, Netlink},
    worker::{Idle, Node, ReleaseAt, Worker, WorkerConfig},
};

use crate::{
    Usage,
    args::{IdleArg, Run},
    control::Server,
    say::Note,
    serve,
};

/// Where arguments stand, in messages.
const COMMAND_LINE: &str = "command line";
/// Longest pipeline latency, as in files.
const LONGEST_LATENCY_NS: u64 = 1_000_000_000;

pub(crate) fn run(args: &Run) -> Result<ExitCode> {
    let file = plan(args)?;
    recordable(args.record.as_ref())?;
    let name = args.name.clone().or_else(|| file.name.clone()).unwrap_or_else(|| "run".into());
    // The name first: a second start of the same switch must change nothing.
    let mut server = Server::start(&name)?;
    let mut monitor = LinkMonitor::open()?;
    server.watch(monitor.as_fd().as_raw_fd())?;

    let links = look_up(&file)?;
    for warning in &file.warnings {
        writeln!(Note, "warning: {warning}");
    }
    for Link { name, .. } in links.iter().filter(|link| !link.is_running()) {
        writeln!(
            Note,
            "warning: {name}: down or without carrier, so nothing passes; ip link set {name} up, and its other end"
        );
    }
    let mut umem = Umem::new(memory(&links, &file)?)?;
    let nodes = file.switches.iter().map(|switch| open(switch, &mut umem)).collect::<Result<Vec<_>>>()?;
    // Once the ports are ours: a start that is refused leaves an older record as it is.
    let (records, collector) = match &args.record {
        Some(record) => {
            // Nothing settles here: all of it counts.
            let window = Arc::new(Window::always());
            let sink = record.create(names(&file), RecordClock::Monotonic, window)?;
            let records = record::queue(Some(record));
            (Some(records.clone()), Some(Collector::start(records, vec![sink])))
        }
        None => (None, None),
    };
    let opened: Vec<_> = nodes.iter().flat_map(|n| n.ports.iter().flatten()).map(told).collect();
    let idle = match args.idle {
        Some(IdleArg::Spin) => Idle::Spin,
        Some(IdleArg::Adaptive) => Idle::Adaptive,
        Some(IdleArg::Sleep) => Idle::Sleep,
        None => file.idle,
    };
    let worker = Worker::spawn(WorkerConfig { nodes, umem, cpu: args.cpu.or(file.cpu), idle, records })?;
    opened.iter().for_each(|port| write!(Note, "{port}"));
    writeln!(Note, "switch {name:?} runs; `plimsoll show ports` shows it, SIGINT ends it");
    let served = serve::serve(&mut server, &mut monitor, &worker, &file);

    let last = worker.stop();
    // The record first, whatever else went wrong.
    let mut failures = collector.map_or_else(Vec::new, Collector::finish);
    served?;
    let last = last?;
    if !last.frames.is_whole() {
        failures.push(format!("frames are missing at the end: {:?}; please report this", last.frames));
    }
    for failure in &failures {
        writeln!(Note, "plimsoll: {failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the record can be written, as far as it can be told before there is anything to record.
///
/// # Errors
/// [`Usage`] where it cannot.
pub(crate) fn recordable(record: Option<&RecordFile>) -> Result<()> {
    record.map_or(Ok(()), RecordFile::check).map_err(|e| Usage(e.to_string()).into())
}

/// How a port was opened, a line or more.
fn told(port: &Port) -> String {
    let d = port.describe();
    let checksums = if d.tx_metadata { "by TX metadata" } else { "in software" };
    let copy = if d.mode == Mode::ZeroCopy { "" } else { " copy" };
    let mut lines = format!(
        "{}: {} {}{copy} mode, {} queue(s), MTU {}, partial checksums {checksums}\n",
        d.interface,
        d.driver,
        d.mode.name(),
        d.queues,
        d.mtu
    );
    for fallback in &d.fallbacks {
        lines.push_str(&format!("{}: {fallback}\n", d.interface));
    }
    lines
}

/// What is to run: the file, with what the command line adds.
fn plan(args: &Run) -> Result<RunFile> {
    let (label, mut text) = match &args.file {
        Some(path) => {
            let text =
                text::read(path, LONGEST_FILE).map_err(|e| Usage(format!("{}: {e}", path.display())))?;
            (path.display().to_string(), text)
        }
        None if args.ports.is_empty() => {
            return Err(Usage(
                "no ports; name a file, or interfaces with --port NAME (twice or more), see `plimsoll run --help`".into(),
            )
            .into());
        }
        None => (COMMAND_LINE.into(), String::new()),
    };
    for port in &args.ports {
        text.push_str(&port_table(port)?);
    }
    let overrides = args.marking.into();
    let mut file =
        RunFile::parse(&label, &text, &overrides).map_err(|e| Usage(without_place(&e.to_string())))?;
    if let Some(name) = args.name.as_deref().filter(|name| !is_instance_name(name)) {
        let remedy = "write 1 to 64 letters, digits, - and _";
        return Err(Usage(format!("--name {name:?}: is no name for a switch; {remedy}")).into());
    }
    if let Some(cpu) = args.cpu.or(file.cpu)
        && !may_use(cpu)
    {
        return Err(
            Usage(format!("CPU {cpu} is not there, or not for this process; name one of `nproc`")).into()
        );
    }
    if let Some(latency) = args.latency {
        if latency.nanos() > LONGEST_LATENCY_NS {
            return Err(Usage(format!("--latency {latency}: more than 1 s; 100us makes marks exact")).into());
        }
        for switch in &mut file.switches {
            switch.latency_ns = latency.nanos();
        }
    }
    Ok(file)
}

/// Whether this process may run on this CPU.
fn may_use(cpu: usize) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity};
    cpu < CpuSet::MAX_CPU && sched_getaffinity(None).is_ok_and(|set| set.is_set(cpu))
}

/// The message without the line and column of a text that nobody wrote.
fn without_place(message: &str) -> String {
    match message.strip_prefix(COMMAND_LINE) {
        Some(rest) => {
            let rest = rest.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
            format!("{COMMAND_LINE}:{rest}")
        }
        None => message.to_owned(),
    }
}

/// One `--port` as a `[[port]]` table: a key without a value is true.
fn port_table(port: &str) -> Result<String> {
    let mut parts = port.split(',');
    let name = parts.next().unwrap_or_default();
    let mut table = format!("\n[[port]]\nname = {}\n", serde_json::to_string(name)?);
    let mut vlan = Vec::new();
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, "true"));
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
            return Err(
                Usage(format!("--port {port}: {part:?} is no KEY=VALUE; write e.g. rate=100mbit")).into()
            );
        }
        // Whole numbers and booleans are themselves, everything else is text.
        let number = value.parse::<u32>().is_ok() && matches!(key, "class" | "sync-class" | "queue-frames");
        let value = match key {
            "pass" | "quanta" => serde_json::to_string(&value.split('+').collect::<Vec<_>>())?,
            "storm" => storm(port, value)?,
            "native" => {
                vlan.push(format!("native = {}", number_or_text(value)?));
                continue;
            }
            "vlan" if value != "transparent" => {
                vlan.push(vlans(port, value)?);
                continue;
            }
            _ if number || value == "true" || value == "false" => value.to_owned(),
            _ => serde_json::to_string(value)?,
        };
        table.push_str(&format!("{key} = {value}\n"));
    }
    if !vlan.is_empty() {
        table.push_str(&format!("vlan = {{ {} }}\n", vlan.join(", ")));
    }
    Ok(table)
}

/// The value of vlan=access:VLAN or vlan=trunk:VLAN+VLAN-VLAN as a key of the table that files have there.
fn vlans(port: &str, value: &str) -> Result<String> {
    match value.split_once(':') {
        Some(("access", vlan)) => Ok(format!("access = {}", number_or_text(vlan)?)),
        Some(("trunk", vlans)) => {
            Ok(format!("trunk = {}", serde_json::to_string(&vlans.split('+').collect::<Vec<_>>())?))
        }
        _ => {
            let remedy = "write vlan=transparent, vlan=access:10, or vlan=trunk:10+20-29 and native=1";
            Err(Usage(format!("--port {port}: vlan={value} is no kind of port; {remedy}")).into())
        }
    }
}

/// A whole number as itself, what is none as text, which the file's reader refuses.
fn number_or_text(value: &str) -> Result<String> {
    if value.parse::<u32>().is_ok() { Ok(value.to_owned()) } else { Ok(serde_json::to_string(value)?) }
}

/// The value of storm=FRAMES-PER-SECOND+BURST as the table that files have there.
fn storm(port: &str, value: &str) -> Result<String> {
    let numbers = value.split_once('+').map(|(rate, burst)| (rate.parse::<u32>(), burst.parse::<u32>()));
    let Some((Ok(rate), Ok(burst))) = numbers else {
        let remedy = "write frames per second and burst, as storm=1000+100";
        return Err(Usage(format!("--port {port}: storm={value} is no limit; {remedy}")).into());
    };
    Ok(format!("{{ frames-per-second = {rate}, burst = {burst} }}"))
}

/// The interfaces as they are now, before anything is changed.
fn look_up(file: &RunFile) -> Result<Vec<Link>> {
    let mut netlink = Netlink::open()?;
    let mut links = Vec::new();
    for port in file.switches.iter().flat_map(|s| &s.config.ports) {
        let link = netlink.link(&port.name).map_err(|e| {
            if e.is_absent() {
                anyhow::Error::new(Usage(format!(
                    "{}: there is no such interface here; see `ip link` for those there are",
                    port.name
                )))
            } else {
                e.into()
            }
        })?;
        links.push(link);
    }
    Ok(links)
}

/// Frame memory for all ports, with chunks that hold the largest MTU.
fn memory(links: &[Link], file: &RunFile) -> Result<UmemOptions> {
    let mut chunks = 0;
    for switch in &file.switches {
        for (number, port) in switch.config.ports.iter().enumerate() {
            chunks += options(switch, number).chunks_for(&port.name)?;
        }
    }
    let mtu = links.iter().map(|link| link.mtu).max().unwrap_or(0);
    Ok(UmemOptions { chunks, chunk_size: UmemOptions::chunk_size_for(mtu) })
}

/// How a port of the switch is opened.
pub(crate) fn options(switch: &RunSwitch, port: usize) -> PortOptions {
    let ports = (switch.ports.len() as u32).max(2);
    PortOptions { mode: switch.ports[port].mode, ports, ..PortOptions::default() }
}

fn open(switch: &RunSwitch, umem: &mut Umem) -> Result<Node> {
    let mut ports = Vec::new();
    let mut release = Vec::new();
    let mut config = switch.config.clone();
    for (number, of_port) in config.ports.iter_mut().enumerate() {
        let port = Port::open(umem, &of_port.name, &options(switch, number))?;
        of_port.mtu = Some(port.describe().mtu);
        // veth delivers a frame whole, a NIC serialises it once more.
        let by_driver = if port.describe().driver == "veth" { ReleaseAt::End } else { ReleaseAt::Start };
        release.push(switch.ports[number].release.unwrap_or(by_driver));
        ports.push(Some(port));
    }
    Ok(Node {
        switch: config,
        ports,
        release,
        latency: switch.latency_ns,
        stall: switch.stall,
        correct_lateness: switch.correct_lateness,
    })
}

fn names(file: &RunFile) -> PortNames {
    let ports = |c: &SwitchConfig| c.ports.iter().map(|p| p.name.clone()).collect();
    file.switches.iter().map(|s| (s.config.name.clone(), ports(&s.config))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_argument_is_a_port_table() {
        let table = port_table("eth1,rate=100mbit,edge,sync-class=5,pass=0e+00").unwrap();
        assert_eq!(
            table,
            "\n[[port]]\nname = \"eth1\"\nrate = \"100mbit\"\nedge = true\nsync-class = 5\npass = [\"0e\",\"00\"]\n"
        );
        assert!(port_table("eth1,=5").is_err());
        let table = port_table("p0,storm=1000+100,queue-frames=70000,remark=ect0,transparent-clock").unwrap();
        assert_eq!(
            table,
            "\n[[port]]\nname = \"p0\"\nstorm = { frames-per-second = 1000, burst = 100 }\nqueue-frames = 70000\n\
             remark = \"ect0\"\ntransparent-clock = true\n"
        );
        let table = port_table("p0,vlan=trunk:10+20-29,native=1").unwrap();
        assert_eq!(table, "\n[[port]]\nname = \"p0\"\nvlan = { trunk = [\"10\",\"20-29\"], native = 1 }\n");
        let table = port_table("p0,quanta=1500B+3000B+9kB").unwrap();
        assert_eq!(table, "\n[[port]]\nname = \"p0\"\nquanta = [\"1500B\",\"3000B\",\"9kB\"]\n");
        let table = port_table("p0,vlan=access:10").unwrap();
        assert_eq!(table, "\n[[port]]\nname = \"p0\"\nvlan = { access = 10 }\n");
        let table = port_table("p0,vlan=transparent").unwrap();
        assert_eq!(table, "\n[[port]]\nname = \"p0\"\nvlan = \"transparent\"\n");
        let told = port_table("p0,vlan=10").unwrap_err().to_string();
        assert!(
            told.starts_with("--port p0,vlan=10: vlan=10 is no kind of port; write vlan=transparent"),
            "{told}"
        );
        let told = port_table("p0,storm=1000").unwrap_err().to_string();
        assert_eq!(
            told,
            "--port p0,storm=1000: storm=1000 is no limit; write frames per second and burst, as storm=1000+100"
        );
    }

    #[test]
    fn a_message_of_arguments_names_no_line() {
        let message = "command line:4:8: port.rate: \"100\" has no unit; write 100mbit";
        assert_eq!(without_place(message), "command line: port.rate: \"100\" has no unit; write 100mbit");
        assert_eq!(without_place("a.toml:4:8: port.rate: x"), "a.toml:4:8: port.rate: x");
    }
}
