//! A lab that stays: started in the background, entered, ended.

use super::state::{self, State};
use super::{LabError, names, pin};
use plimsoll_port::namespace::Namespace;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a lab may take to stand.
const START: Duration = Duration::from_secs(30);
/// How long a lab may take to end.
const END: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Starts a lab in the background and returns once it stands: `command` (this program with the arguments that keep a
/// lab in the foreground) runs on, apart from the terminal, and writes to a log beside the state file.
///
/// # Errors
/// The lab runs already, or did not come to stand: the last line that it wrote says why.
pub fn up(name: &str, program: &Path, arguments: &[OsString]) -> Result<State, LabError> {
    if let Ok(state) = state::find(name) {
        let problem = format!("runs already (pid {})", state.pid);
        return Err(LabError::state(format!("lab {name}"), problem, format!("`plimsoll lab down {name}`")));
    }
    let log_path = state::log_path(name);
    let fail = |call, e| LabError::call(log_path.display().to_string(), call, e, "run as root");
    if let Some(directory) = log_path.parent() {
        fs::create_dir_all(directory).map_err(|e| fail("mkdir", e))?;
    }
    let log = File::create(&log_path).map_err(|e| fail("create", e))?;
    // Tells `lab clean` that somebody writes to it: the lock is of the open file, which the child inherits.
    let _ = flock(&log, FlockOperation::NonBlockingLockExclusive);
    let output = log.try_clone().map_err(|e| fail("dup", e))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(log)
        // What the terminal sends to its foreground (Ctrl-C) is not for it.
        .process_group(0)
        .spawn()
        .map_err(|e| LabError::call(program.display().to_string(), "spawn", e, "check that it is there"))?;
    let since = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let text = fs::read_to_string(&log_path).unwrap_or_default();
            let last = text.lines().last().unwrap_or("it wrote nothing");
            let last = last.strip_prefix("plimsoll: ").unwrap_or(last).to_owned();
            let _ = fs::remove_file(&log_path);
            let place = format!("lab {name} ended at once ({status})");
            return Err(LabError::state(place, last, "mend that, then start it again"));
        }
        if let Ok(state) = state::find(name)
            && state.pid == child.id()
        {
            return Ok(state);
        }
        if since.elapsed() > START {
            let _ = child.kill();
            let _ = child.wait();
            let problem = format!("did not stand after {} s, and was ended", START.as_secs());
            let remedy = format!("see {}", log_path.display());
            return Err(LabError::state(format!("lab {name}"), problem, remedy));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends a lab that runs, and waits until it has.
///
/// # Errors
/// There is none of this name, it may not be signalled, or it does not end.
pub fn down(name: &str) -> Result<(), LabError> {
    let found = state::find(name)?;
    let place = || format!("lab {name} (pid {})", found.pid);
    let pid = i32::try_from(found.pid).ok().and_then(Pid::from_raw);
    let pid =
        pid.ok_or_else(|| LabError::state(place(), "its file names no process", "`plimsoll lab clean`"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|e| LabError::call(place(), "pidfd_open", e, "it may have ended: `plimsoll lab list`"))?;
    // The handle stays with one process: if that is the one that started then, no other is hit.
    if state::start_time(found.pid) != Some(found.started) {
        return Err(LabError::state(place(), "has ended", "`plimsoll lab clean`"));
    }
    pidfd_send_signal(&handle, Signal::TERM)
        .map_err(|e| LabError::call(place(), "pidfd_send_signal", e, "run as the user who started it"))?;
    let mut wait = [PollFd::new(&handle, PollFlags::IN)];
    let deadline = Instant::now() + Duration::from_secs(END.tv_sec.unsigned_abs());
    loop {
        match poll(&mut wait, Some(&END)) {
            Ok(0) => break,
            Ok(_) => {
                let _ = fs::remove_file(state::log_path(name));
                return Ok(());
            }
            Err(rustix::io::Errno::INTR) if Instant::now() < deadline => {}
            Err(e) => return Err(LabError::call(place(), "poll", e, "try again")),
        }
    }
    let remedy = format!("kill -9 {}: nothing but its file is left then", found.pid);
    Err(LabError::state(place(), "does not end on SIGTERM", remedy))
}

/// Becomes `command` on a node of a running lab, with the names of its hosts resolving. Returns only where that fails.
/// `warn` is told in one line where the command runs without the names.
pub fn exec(name: &str, node: &str, command: &[OsString], warn: impl FnOnce(&str)) -> LabError {
    match enter(name, node, command, warn) {
        Ok(mut command) => {
            let error = command.exec();
            let program = command.get_program().to_string_lossy().into_owned();
            LabError::call(program, "exec", error, "check its name, and that it is installed")
        }
        Err(error) => error,
    }
}

fn enter(name: &str, node: &str, command: &[OsString], warn: impl FnOnce(&str)) -> Result<Command, LabError> {
    let found = state::find(name)?;
    let Some(path) = found.nodes.get(node) else {
        let nodes: Vec<_> = found.nodes.keys().map(String::as_str).collect();
        let problem = format!("has no node {node:?}");
        return Err(LabError::state(
            format!("lab {name}"),
            problem,
            format!("its nodes are {}", nodes.join(", ")),
        ));
    };
    let Some((program, arguments)) = command.split_first() else {
        let remedy = "name a program, as `ip address`";
        return Err(LabError::state(format!("lab {name}, {node}"), "there is no command", remedy));
    };
    let namespace = Namespace::from_path(path).map_err(LabError::namespace(node))?;
    // Between these two the lab may have ended and its pid come again.
    if state::start_time(found.pid) != Some(found.started) {
        return Err(LabError::state(format!("lab {name}"), "has ended", "start it again"));
    }
    namespace.enter().map_err(LabError::namespace(node))?;
    pin::confine(&found.cpus)?;
    // A machine that allows no mounts is none without labs.
    if let Err(e) = names::resolve(&found.hosts, Path::new(state::DIRECTORY)) {
        warn(&format!("lab {name}, {node}: names of hosts do not resolve: {e}; use addresses"));
    }
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}
