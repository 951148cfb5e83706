//! Which labs run: one file a lab under /run, locked by the process that holds the lab, so that a file whose holder
//! was killed is told from one whose holder lives.

use super::{Lab, LabError};
use plimsoll_core::wire::ethernet::Mac;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the files are.
pub(super) const DIRECTORY: &str = "/run/plimsoll/labs";

/// What a running lab says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub name: String,
    /// The process that holds it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot (proc(5), stat field 22): a pid alone comes again.
    pub started: u64,
    /// Nodes and the paths of their namespaces, `/proc/PID/fd/N`.
    pub nodes: BTreeMap<String, String>,
    /// Hosts and their addresses.
    pub hosts: BTreeMap<String, HostAddresses>,
    /// CPUs that its hosts, and what is run on them, keep to: the worker has its own.
    pub cpus: Vec<usize>,
}

/// How a host is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAddresses {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
    /// Its hardware address, six pairs of hex digits with colons between them.
    pub mac: String,
}

/// A lab that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The lab's name.
    pub name: String,
    /// Whether it runs; a file that was left behind is removed by [`clean`].
    pub running: bool,
    /// What it says of itself; `None` where the file cannot be read.
    pub state: Option<State>,
}

/// The file of a lab that this process holds. It goes with this value.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl StateFile {
    /// Takes a lab's name, so that no second one has it. [`StateFile::publish`] follows once the lab stands.
    ///
    /// # Errors
    /// A lab of this name runs, or /run cannot be written.
    pub fn claim(name: &str) -> Result<Self, LabError> {
        Self::claim_in(Path::new(DIRECTORY), name)
    }

    fn claim_in(directory: &Path, name: &str) -> Result<Self, LabError> {
        let fail = |call, remedy: &'static str| {
            move |e: io::Error| LabError::call(directory.display().to_string(), call, e, remedy)
        };
        fs::create_dir_all(directory).map_err(fail("mkdir", "run as root"))?;
        let path = directory.join(format!("{name}.json"));
        // A file that its holder removes between our open and our lock is not the one that others will see.
        for _ in 0..50 {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(fail("open", "run as root"))?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                if same_file(&file, &path) {
                    return Ok(Self { path, file });
                }
                continue;
            }
            if let Some(state) = read(&path).filter(|state| start_time(state.pid) == Some(state.started)) {
                let problem = format!("a lab of this name runs already (pid {})", state.pid);
                return Err(LabError::state(
                    format!("lab {name}"),
                    problem,
                    format!("`plimsoll lab down {name}`"),
                ));
            }
            // Someone looks at the file, or has just claimed it.
            std::thread::sleep(Duration::from_millis(20));
        }
        let remedy = "wait until it stands, or end the process that starts it";
        Err(LabError::state(format!("lab {name}"), "a lab of this name is starting", remedy))
    }

    /// Says where the lab's nodes are.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&mut self, lab: &Lab) -> Result<State, LabError> {
        let pid = std::process::id();
        let nodes = lab
            .namespaces()
            .map(|(name, namespace)| (name.to_owned(), format!("/proc/{pid}/fd/{}", namespace.as_raw_fd())));
        let hosts = lab.topology().hosts.iter().map(|host| {
            let (v4, v6, mac) = (host.v4, host.v6, Mac(host.mac).to_string());
            (host.name.clone(), HostAddresses { v4, v6, mac })
        });
        let state = State {
            name: lab.topology().name.clone(),
            pid,
            started: start_time(pid).unwrap_or(0),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            cpus: lab.pinning().other_cpus.clone(),
        };
        self.write(&state)?;
        Ok(state)
    }

    fn write(&mut self, state: &State) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(state).unwrap_or_default();
        let written =
            self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(&text));
        let place = self.path.display().to_string();
        written.map_err(|e| LabError::call(place, "write", e, "free some room in /run"))
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        // While the lock is still held, so that nobody's new file is removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// All labs that have a file, by name.
///
/// # Errors
/// The directory is there and cannot be read.
pub fn list() -> Result<Vec<Listed>, LabError> {
    list_in(Path::new(DIRECTORY))
}

fn list_in(directory: &Path) -> Result<Vec<Listed>, LabError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(LabError::call(directory.display().to_string(), "readdir", e, "run as root"));
        }
    };
    let mut labs = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        labs.push(Listed { name, running: is_held(&path), state: read(&path) });
    }
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// Removes the files that killed labs left, logs of labs that are not there included. Returns their names. There is
/// nothing else that they could leave.
///
/// # Errors
/// A file cannot be removed.
pub fn clean() -> Result<Vec<String>, LabError> {
    clean_in(Path::new(DIRECTORY))
}

fn clean_in(directory: &Path) -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for name in left_in(directory)? {
        let path = directory.join(format!("{name}.json"));
        if !path.exists() {
            if remove_log(directory, &name)? {
                removed.push(name);
            }
            continue;
        }
        // Locked while it goes: a lab that starts now waits, and makes its own.
        let Ok(file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !same_file(&file, &path) {
            continue;
        }
        let place = path.display().to_string();
        fs::remove_file(&path).map_err(|e| LabError::call(place, "unlink", e, "run as root"))?;
        let _ = fs::remove_file(path.with_extension("log"));
        removed.push(name);
    }
    Ok(removed)
}

/// Names that have a state file which nobody holds, or a log and no state file.
fn left_in(directory: &Path) -> Result<BTreeSet<String>, LabError> {
    let labs = list_in(directory)?;
    let mut names: BTreeSet<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    for lab in labs {
        if lab.running {
            names.remove(&lab.name);
        } else {
            names.insert(lab.name);
        }
    }
    Ok(names)
}

/// Removes a log that no lab writes to: [`super::up`] locks it before the lab has a state file.
fn remove_log(directory: &Path, name: &str) -> Result<bool, LabError> {
    let path = directory.join(format!("{name}.log"));
    let Ok(log) = File::open(&path) else { return Ok(false) };
    if flock(&log, FlockOperation::NonBlockingLockExclusive).is_err() || !same_file(&log, &path) {
        return Ok(false);
    }
    let place = path.display().to_string();
    fs::remove_file(&path).map_err(|e| LabError::call(place, "unlink", e, "run as root"))?;
    Ok(true)
}

/// The state of a lab that runs.
pub(super) fn find(name: &str) -> Result<State, LabError> {
    let labs = list()?;
    let running = || {
        let names: Vec<_> = labs.iter().filter(|l| l.running).map(|l| l.name.as_str()).collect();
        match names.as_slice() {
            _ if labs.iter().any(|lab| lab.name == name && !lab.running) => {
                "it was killed: `plimsoll lab clean` removes what is left".to_owned()
            }
            [] => "no lab is up, as `plimsoll lab list` says; `plimsoll lab up` starts one".to_owned(),
            names => format!("those up are {}", names.join(", ")),
        }
    };
    let state = labs.iter().find(|lab| lab.name == name && lab.running).and_then(|lab| lab.state.clone());
    match state {
        Some(state) if start_time(state.pid) == Some(state.started) => Ok(state),
        _ => Err(LabError::state(format!("lab {name}"), "does not run", running())),
    }
}

pub(super) fn log_path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.log"))
}

/// Whether somebody holds the file's lock.
fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn read(path: &Path) -> Option<State> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether the path still leads to the open file.
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// When a process started, in clock ticks since boot; `None` where there is none.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command, in parentheses, may hold blanks and parentheses of its own; field 3 follows the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn state(name: &str) -> State {
        let pid = std::process::id();
        State {
            name: name.into(),
            pid,
            started: start_time(pid).unwrap(),
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            cpus: vec![0],
        }
    }

    #[test]
    fn a_name_is_held_once_and_free_again_after() {
        let directory = directory("held");
        let mut held = StateFile::claim_in(&directory, "net").unwrap();
        held.write(&state("net")).unwrap();
        let error = StateFile::claim_in(&directory, "net").unwrap_err().to_string();
        assert!(error.contains("runs already (pid "), "{error}");
        StateFile::claim_in(&directory, "other").unwrap();
        let listed = list_in(&directory).unwrap();
        assert_eq!(listed, [Listed { name: "net".into(), running: true, state: Some(state("net")) }]);
        drop(held);
        assert_eq!(list_in(&directory).unwrap(), []);
        drop(StateFile::claim_in(&directory, "net").unwrap());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_a_killed_lab_left_is_told_from_what_runs_and_cleaned() {
        let directory = directory("stale");
        let running = StateFile::claim_in(&directory, "running").unwrap();
        // As a killed process leaves it: the file, and no lock.
        fs::write(directory.join("stale.json"), serde_json::to_vec(&state("stale")).unwrap()).unwrap();
        fs::write(directory.join("broken.json"), "{").unwrap();
        fs::write(directory.join("stale.log"), "").unwrap();
        // Of a lab that ended before it had a state file, of one that starts, and of one that runs.
        for name in ["orphan", "starting", "running"] {
            fs::write(directory.join(format!("{name}.log")), "").unwrap();
        }
        let starting = File::open(directory.join("starting.log")).unwrap();
        flock(&starting, FlockOperation::LockExclusive).unwrap();
        let listed: Vec<_> = list_in(&directory).unwrap().into_iter().map(|l| (l.name, l.running)).collect();
        assert_eq!(listed, [("broken".into(), false), ("running".into(), true), ("stale".into(), false)]);
        assert_eq!(clean_in(&directory).unwrap(), ["broken", "orphan", "stale"]);
        let there = |name: &str| directory.join(format!("{name}.log")).exists();
        assert_eq!(["stale", "orphan", "starting", "running"].map(there), [false, false, true, true]);
        assert_eq!(list_in(&directory).unwrap().len(), 1);
        // A stale file is no obstacle either.
        fs::write(directory.join("again.json"), serde_json::to_vec(&state("again")).unwrap()).unwrap();
        StateFile::claim_in(&directory, "again").unwrap();
        drop(running);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn start_times_tell_processes_apart() {
        let mine = start_time(std::process::id()).unwrap();
        assert!(mine > 0 && mine >= start_time(1).unwrap());
        assert_eq!(start_time(u32::MAX), None);
    }
}
