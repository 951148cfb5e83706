//! What a switch or a shim could leave behind: XDP and tc programs, promiscuous interfaces, sockets, mounts, pins and files.

use aya::programs::{SchedClassifier, tc::TcAttachType};
use plimsoll_port::namespace::Namespace;
use plimsoll_port::netlink::Netlink;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// The state of a namespace and of the places where things outlive a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Interfaces: name, flags without those of the other end, MTU, promiscuity, XDP program.
    links: Vec<(String, bool, u32, u32, Option<u32>)>,
    /// tc programs (TCX) by interface, ingress first.
    tcx: Vec<(String, [Vec<u32>; 2])>,
    /// Abstract sockets of switches in the namespace.
    sockets: BTreeSet<String>,
    /// Mounted namespaces and BPF file systems.
    mounts: BTreeSet<String>,
    /// Named namespaces and pinned BPF objects.
    files: BTreeSet<String>,
}

impl Remains {
    /// As of now.
    ///
    /// # Panics
    /// When the kernel does not say.
    pub fn of(namespace: &Namespace) -> Self {
        let mut links: Vec<_> = Netlink::open_in(namespace)
            .unwrap()
            .links()
            .unwrap()
            .into_iter()
            .map(|link| {
                let up = link.is_up();
                (link.name, up, link.mtu, link.promiscuity, link.xdp.map(|xdp| xdp.program))
            })
            .collect();
        links.sort();
        let names: Vec<String> = links.iter().map(|(name, ..)| name.clone()).collect();
        let tcx = namespace
            .run_in(|| names.into_iter().map(|name| (name.clone(), tcx_programs(&name))).collect())
            .unwrap();
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let kept = |line: &&str| line.contains(" - nsfs ") || line.contains(" - bpf ");
        let mut files = BTreeSet::new();
        for place in ["/run/netns", "/var/run/netns", "/sys/fs/bpf"] {
            list(Path::new(place), &mut files);
        }
        Self {
            links,
            tcx,
            sockets: sockets(namespace),
            mounts: table.lines().filter(kept).map(str::to_owned).collect(),
            files,
        }
    }
}

/// The ids of an interface's tc programs, ingress and egress, in the thread's namespace.
fn tcx_programs(interface: &str) -> [Vec<u32>; 2] {
    [TcAttachType::Ingress, TcAttachType::Egress].map(|place| {
        let (_, programs) = SchedClassifier::query_tcx(interface, place).unwrap();
        programs.iter().map(aya::programs::ProgramInfo::id).collect()
    })
}

/// The abstract sockets of switches in a namespace.
///
/// # Panics
/// When /proc is not mounted.
pub fn sockets(namespace: &Namespace) -> BTreeSet<String> {
    // /proc/net is the main thread's.
    let table = namespace.run_in(|| std::fs::read_to_string("/proc/thread-self/net/unix").unwrap()).unwrap();
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with("@plimsoll/")).map(str::to_owned).collect()
}

/// Whether the kernel still has a BPF program of this id.
///
/// # Panics
/// Without bpftool.
pub fn program_exists(id: u64) -> bool {
    let mut command = Command::new("bpftool");
    command.args(["prog", "show", "id", &id.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

fn list(place: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, into);
        }
        into.insert(path.display().to_string());
    }
}
