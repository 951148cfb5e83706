//! One daemon in its namespace: started, watched, stopped.

use super::{DaemonError, Scratch};
use plimsoll_port::namespace::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long a daemon may take to end when it is asked to.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LOG: &str = "log";

/// A daemon's program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// The Debian package that brings it.
    pub(crate) package: &'static str,
    /// What to do where it ends by itself.
    pub(crate) remedy: &'static str,
}

/// How one daemon is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    /// Where.
    pub(crate) namespace: &'a Namespace,
    /// The same for messages: its interface, or its host.
    pub(crate) place: &'a str,
    /// Arguments; its working directory is its scratch.
    pub(crate) arguments: &'a [&'a str],
    /// Files in its scratch: name and content.
    pub(crate) files: &'a [(&'a str, &'a str)],
}

/// A running daemon; it ends with this value, and with the thread that started it.
#[derive(Debug)]
pub(crate) struct Daemon {
    program: Program,
    place: String,
    scratch: Scratch,
    child: Child,
}

impl Program {
    /// What it prints of itself when started with this argument.
    pub(crate) fn version(&self, argument: &str) -> Result<String, DaemonError> {
        let output = self.run("-", &[argument])?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs it to its end; `place` is for messages.
    pub(crate) fn run(&self, place: &str, arguments: &[&str]) -> Result<Output, DaemonError> {
        let mut command = Command::new(self.find()?);
        command.args(arguments).stdin(Stdio::null());
        command.output().map_err(self.failed(place, "start it", "install its package again"))
    }

    /// Where it is; /usr/sbin is not in every PATH.
    fn find(&self) -> Result<PathBuf, DaemonError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        self.find_in(std::env::split_paths(&path).chain(more))
    }

    fn find_in(&self, mut directories: impl Iterator<Item = PathBuf>) -> Result<PathBuf, DaemonError> {
        directories
            .find_map(|directory| Some(directory.join(self.name)).filter(|program| program.is_file()))
            .ok_or(DaemonError::Missing { daemon: self.name, package: self.package })
    }

    pub(crate) fn failed(
        &self,
        place: &str,
        call: &'static str,
        remedy: &'static str,
    ) -> impl FnOnce(io::Error) -> DaemonError + use<> {
        let (daemon, place) = (self.name, place.to_owned());
        move |source| DaemonError::Call { daemon, place, call, remedy, source }
    }
}

/// A directory for one daemon, which only root may enter.
pub(crate) fn scratch(program: Program, place: &str) -> Result<Scratch, DaemonError> {
    let make = || {
        let scratch = Scratch::new()?;
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o700))?;
        Ok(scratch)
    };
    let remedy = "run as root, or with CAP_SYS_ADMIN, on Linux 5.2 or later";
    make().map_err(program.failed(place, "fsmount tmpfs", remedy))
}

impl Daemon {
    pub(crate) fn start(program: Program, scratch: Scratch, start: &Start<'_>) -> Result<Self, DaemonError> {
        let found = program.find()?;
        let fail = |call, remedy| program.failed(start.place, call, remedy);
        let no_room = "free some memory";
        for (name, content) in start.files {
            let path = scratch.path().join(name);
            let write = || {
                fs::write(&path, content)?;
                fs::set_permissions(&path, Permissions::from_mode(0o600))
            };
            write().map_err(fail("write its files", no_room))?;
        }
        let log = || File::options().create(true).append(true).open(scratch.path().join(LOG));
        let log = || log().map_err(fail("create its log", no_room));
        let mut command = Command::new(found);
        command
            .args(start.arguments)
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?);
        let child = start
            .namespace
            .enter_command(&mut command)
            .spawn()
            .map_err(fail("start it", "check that /proc is mounted and the namespace still exists"))?;
        Ok(Self { program, place: start.place.into(), scratch, child })
    }

    pub(crate) fn check(&mut self) -> Result<(), DaemonError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(DaemonError::Ended {
                daemon: self.program.name,
                place: self.place.clone(),
                status: status.to_string(),
                said: self.log().lines().last().unwrap_or("nothing").to_owned(),
                remedy: match status.signal() {
                    Some(signal) => killed_by(signal),
                    None => self.program.remedy,
                },
            }),
            Err(source) => Err(self.failed("waitpid", "start it again")(source)),
        }
    }

    /// Asks it to end, and waits; kills it where that takes too long.
    pub(crate) fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + LAST_WORDS;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it said so far.
    pub(crate) fn log(&self) -> String {
        self.read(LOG)
    }

    /// What one of its files holds; nothing where there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read(self.path(name)).map(|file| String::from_utf8_lossy(&file).into_owned()).unwrap_or_default()
    }

    /// Runs another program in its directory to the end: one that asks it something.
    pub(crate) fn ask(&self, program: Program, arguments: &[&str]) -> Result<Output, DaemonError> {
        let mut command = Command::new(program.find()?);
        command.args(arguments).current_dir(self.scratch.path()).stdin(Stdio::null());
        command.output().map_err(program.failed(&self.place, "start it", "check that /proc is mounted"))
    }

    pub(crate) fn failed(
        &self,
        call: &'static str,
        remedy: &'static str,
    ) -> impl FnOnce(io::Error) -> DaemonError + use<> {
        self.program.failed(&self.place, call, remedy)
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// What to do where a signal ended it.
fn killed_by(signal: i32) -> &'static str {
    match Signal::from_named_raw(signal) {
        Some(Signal::KILL) => {
            "see who killed it: somebody's `kill`, or the kernel for want of memory (dmesg)"
        }
        Some(Signal::TERM | Signal::INT | Signal::HUP) => "see who ended it: somebody's `kill` or `pkill`",
        _ => "it crashed: see dmesg, and report it to its package",
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_daemon_is_told_with_its_package() {
        let program = Program { name: "ptp4l", package: "linuxptp", remedy: "" };
        let error =
            program.find_in(["/nowhere", "/"].map(PathBuf::from).into_iter()).unwrap_err().to_string();
        assert_eq!(error, "ptp4l: not found in PATH or /usr/sbin; install the Debian package `linuxptp`");
    }
}
