//! `plimsoll doctor`: what this machine, or an interface, can do, and what stands in the way.

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_port::VETH_MTU_MAX;
use plimsoll_port::netlink::{Ethtool, Link, Netlink};
use serde::Serialize;

use crate::{args::Doctor, say::Out};

/// How a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Ok,
    /// Works, with a limit to know of.
    Note,
    /// Does not work until something is changed.
    Bad,
}

/// One finding: what was looked at, what was found, what to do.
#[derive(Debug, Serialize)]
struct Finding {
    about: String,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

/// Largest MTU that a frame memory of 4096-octet chunks takes, with two tags.
const MTU_CHUNK: u32 = 3840 - 22;

pub(crate) fn doctor(args: &Doctor) -> Result<ExitCode> {
    let mut findings = machine();
    if !args.interfaces.is_empty() {
        let mut netlink = Netlink::open()?;
        let ethtool = Ethtool::open()?;
        for name in &args.interfaces {
            match netlink.link(name) {
                Ok(link) => findings.extend(interface(&link, &ethtool)),
                Err(e) if e.is_absent() => {
                    findings.push(bad(
                        name,
                        "there is no such interface here",
                        "see `ip link` for those there are",
                    ));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        for f in &findings {
            let sign = match f.verdict {
                Verdict::Ok => "ok  ",
                Verdict::Note => "note",
                Verdict::Bad => "BAD ",
            };
            let remedy = if f.remedy.is_empty() { String::new() } else { format!("; {}", f.remedy) };
            writeln!(Out, "{sign}  {:<18} {}{remedy}", f.about, f.found)?;
        }
    }
    let failed = findings.iter().any(|f| f.verdict == Verdict::Bad);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn ok(about: &str, found: impl Into<String>) -> Finding {
    Finding { about: about.into(), verdict: Verdict::Ok, found: found.into(), remedy: String::new() }
}

fn note(about: &str, found: impl Into<String>, remedy: &str) -> Finding {
    Finding { about: about.into(), verdict: Verdict::Note, found: found.into(), remedy: remedy.into() }
}

fn bad(about: &str, found: impl Into<String>, remedy: &str) -> Finding {
    Finding { about: about.into(), verdict: Verdict::Bad, found: found.into(), remedy: remedy.into() }
}

fn machine() -> Vec<Finding> {
    let mut findings = vec![kernel(), capabilities(), af_xdp()];
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    findings.push(if cpus > 1 {
        ok("CPUs", format!("{cpus}: the worker on the last, everything else of a lab on the others"))
    } else {
        note(
            "CPUs",
            "1: worker and hosts share it",
            "times of labs are those of the scheduler; use two or more",
        )
    });
    findings.extend(daemons());
    findings
}

fn kernel() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (5, 18) {
        bad("kernel", format!("Linux {release}"), "5.18 or newer is needed (bpf_xdp_load_bytes)")
    } else if version < (6, 11) {
        note(
            "kernel",
            format!("Linux {release}: perhaps no TX metadata (6.11)"),
            "partial checksums of local senders are then completed in software",
        )
    } else {
        ok("kernel", format!("Linux {release}"))
    }
}

fn capabilities() -> Finding {
    use rustix::thread::{CapabilitySet, capabilities};
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (CapabilitySet::BPF, "CAP_BPF"),
    ];
    let have = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let missing: Vec<&str> =
        needed.iter().filter(|(cap, _)| !have.contains(*cap)).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        ok("capabilities", "NET_ADMIN, NET_RAW, SYS_ADMIN (namespaces of labs), BPF")
    } else {
        bad(
            "capabilities",
            format!("missing: {}", missing.join(", ")),
            "run as root (docker: --cap-add NET_ADMIN,NET_RAW,SYS_ADMIN,BPF --ulimit memlock=-1)",
        )
    }
}

fn af_xdp() -> Finding {
    use rustix::net::{AddressFamily, SocketType, socket};
    match socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => ok("AF_XDP", "sockets can be made"),
        Err(rustix::io::Errno::AFNOSUPPORT) => {
            bad("AF_XDP", "the kernel has none", "use a kernel with CONFIG_XDP_SOCKETS=y")
        }
        Err(e) => bad("AF_XDP", format!("socket: {e}"), "run as root, or with CAP_NET_RAW"),
    }
}

/// Programs that labs can use, where they are installed.
fn daemons() -> Vec<Finding> {
    [
        ("ptp4l", "linuxptp"),
        ("chronyd", "chrony"),
        ("openssl", "openssl"),
        ("iperf3", "iperf3"),
        ("tshark", "tshark"),
    ]
    .into_iter()
    .map(|(program, package)| match find(program) {
        Some(path) => ok(program, path),
        None => note(
            program,
            "not installed; labs with the built-in clock do without",
            &format!("apt-get install {package}"),
        ),
    })
    .collect()
}

fn find(program: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"])
        .map(|folder| format!("{folder}/{program}"))
        .find(|file| std::path::Path::new(file).is_file())
}

fn interface(link: &Link, ethtool: &Ethtool) -> Vec<Finding> {
    let name = link.name.as_str();
    let driver = ethtool.driver(name).map(|d| d.name).unwrap_or_default();
    let mut findings = vec![if link.is_running() {
        ok(name, format!("{driver}, up, MTU {}", link.mtu))
    } else {
        bad(
            name,
            format!("{driver}, down or without carrier"),
            &format!("ip link set {name} up, and its other end"),
        )
    }];
    match &link.xdp {
        // A correction shim of ours, and perhaps other programs beside it.
        Some(xdp) if is_shim(name, xdp.program) => findings.push(bad(
            name,
            format!("a shim of this host's clocks is attached (XDP program {})", xdp.program),
            &format!("a port and a shim share no interface: plimsoll host detach {name}"),
        )),
        Some(xdp) => findings.push(bad(
            name,
            format!("XDP program {} ({:?}) is attached", xdp.program, xdp.mode),
            &format!("a switch never takes another's port; if it is a leftover: ip link set {name} xdp off"),
        )),
        None => findings.push(ok(name, "no XDP program")),
    }
    let largest = if driver == "veth" { VETH_MTU_MAX } else { MTU_CHUNK };
    if link.mtu > largest {
        findings.push(bad(
            name,
            format!("MTU {}", link.mtu),
            &format!("ip link set {name} mtu {largest} or less, both ends"),
        ));
    }
    if let Some(master) = link.master {
        findings.push(note(
            name,
            format!("belongs to a bridge or bond (index {master})"),
            "the switch takes its frames first",
        ));
    }
    findings.extend(queues(name, ethtool));
    findings.extend(offloads(name, &driver, ethtool));
    findings.push(note(
        name,
        "a switch owns its ports whole: what this host itself does by this interface stops",
        "leave it no address of the host's",
    ));
    if driver == "veth" {
        findings.push(note(
            name,
            "veth sends at once: with rate = \"none\" no queue can build and nothing is marked",
            "give the port a rate",
        ));
    }
    findings
}

/// Whether this XDP program is what `plimsoll host attach` put there.
fn is_shim(name: &str, program: u32) -> bool {
    let hosts = plimsoll_port::host::show(Some(name)).unwrap_or_default();
    hosts.iter().flat_map(|host| &host.programs).any(|own| own.id == program)
}

fn queues(name: &str, ethtool: &Ethtool) -> Option<Finding> {
    let channels = ethtool.channels(name).ok()?;
    Some(ok(name, format!("{} RX queue(s), each with a bulk and an express ring", channels.rx)))
}

fn offloads(name: &str, driver: &str, ethtool: &Ethtool) -> Vec<Finding> {
    let Ok(offloads) = ethtool.offloads(name) else { return Vec::new() };
    let mut findings = Vec::new();
    if offloads.lro {
        let remedy = format!("ethtool -K {name} lro off");
        findings.push(bad(name, "LRO makes frames above the MTU, which are lost", &remedy));
    }
    if offloads.rx_vlan && driver != "veth" {
        let remedy = format!("ethtool -K {name} rxvlan off");
        findings.push(note(name, "rxvlan takes VLAN tags out before XDP sees them", &remedy));
    }
    if driver == "veth" {
        findings.push(note(
            name,
            "tags that a host's VLAN device leaves to txvlan are not in the frame",
            "ethtool -K HOST-END txvlan off, where hosts use VLAN devices",
        ));
    }
    findings
}
