//! One ptp4l in its namespace: started, watched, stopped.

use super::{Ptp4lError, Settings, scratch::Scratch};
use plimsoll_port::namespace::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long a daemon may take to end when it is asked to.
const LAST_WORDS: Duration = Duration::from_secs(2);
const CONFIG: &str = "config";
const LOG: &str = "log";

/// A running daemon; it ends with this value, and with the thread that started it.
#[derive(Debug)]
pub(super) struct Daemon {
    interface: String,
    scratch: Scratch,
    child: Child,
}

/// A ptp4l that serves: the master of its domain.
#[derive(Debug)]
pub struct Server(Daemon);

impl Server {
    /// Starts it on `interface` of `namespace`. It takes its role about a second later, and runs until this value is
    /// dropped or the calling thread ends.
    ///
    /// # Errors
    /// [`Ptp4lError::Missing`], or what the system refused. What the daemon itself refuses shows in
    /// [`Server::check`].
    pub fn start(namespace: &Namespace, interface: &str, settings: &Settings) -> Result<Self, Ptp4lError> {
        let scratch = scratch(interface)?;
        Ok(Self(Daemon::start(namespace, interface, scratch, &settings.server(interface))?))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`Ptp4lError::Ended`] with its last words.
    pub fn check(&mut self) -> Result<(), Ptp4lError> {
        self.0.check()
    }
}

/// The installed version, as `ptp4l -v` says it.
///
/// # Errors
/// [`Ptp4lError::Missing`] where it is not installed.
pub fn version() -> Result<String, Ptp4lError> {
    let output = Command::new(program()?).arg("-v").output().map_err(|source| Ptp4lError::Call {
        interface: "-".into(),
        call: "ptp4l -v",
        remedy: "reinstall the Debian package `linuxptp`",
        source,
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Where it is; /usr/sbin is not in every PATH.
fn program() -> Result<PathBuf, Ptp4lError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    find(std::env::split_paths(&path).chain(more))
}

fn find(mut directories: impl Iterator<Item = PathBuf>) -> Result<PathBuf, Ptp4lError> {
    directories
        .find_map(|directory| Some(directory.join("ptp4l")).filter(|program| program.is_file()))
        .ok_or(Ptp4lError::Missing)
}

/// A directory for one daemon.
pub(super) fn scratch(interface: &str) -> Result<Scratch, Ptp4lError> {
    Scratch::new().map_err(|source| Ptp4lError::Call {
        interface: interface.into(),
        call: "fsmount tmpfs",
        remedy: "run as root, or with CAP_SYS_ADMIN, on Linux 5.2 or later",
        source,
    })
}

impl Daemon {
    pub(super) fn start(
        namespace: &Namespace,
        interface: &str,
        scratch: Scratch,
        config: &str,
    ) -> Result<Self, Ptp4lError> {
        let program = program()?;
        let fail = |call, remedy| {
            move |source| Ptp4lError::Call { interface: interface.into(), call, remedy, source }
        };
        let no_room = "free some memory";
        fs::write(scratch.path().join(CONFIG), config).map_err(fail("write its configuration", no_room))?;
        let log = || File::options().create(true).append(true).open(scratch.path().join(LOG));
        let log = || log().map_err(fail("create its log", no_room));
        let mut command = Command::new(program);
        command
            .args(["-f", CONFIG])
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?);
        let child = namespace
            .enter_command(&mut command)
            .spawn()
            .map_err(fail("start it", "check that /proc is mounted and the namespace still exists"))?;
        Ok(Self { interface: interface.into(), scratch, child })
    }

    pub(super) fn check(&mut self) -> Result<(), Ptp4lError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Ptp4lError::Ended {
                interface: self.interface.clone(),
                status: status.to_string(),
                said: self.log().lines().last().unwrap_or("nothing").to_owned(),
            }),
            Err(source) => Err(self.failed("waitpid", "start it again", source)),
        }
    }

    /// Asks it to end, and waits; kills it where that takes too long.
    pub(super) fn stop(&mut self) {
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
    pub(super) fn log(&self) -> String {
        fs::read(self.path(LOG)).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(super) fn failed(&self, call: &'static str, remedy: &'static str, source: io::Error) -> Ptp4lError {
        Ptp4lError::Call { interface: self.interface.clone(), call, remedy, source }
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
        let error = find(["/nowhere", "/"].map(PathBuf::from).into_iter()).unwrap_err().to_string();
        assert_eq!(error, "ptp4l: not found in PATH or /usr/sbin; install the Debian package `linuxptp`");
    }
}
