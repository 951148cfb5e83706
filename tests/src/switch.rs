//! The real command as a daemon in the switch's namespace.

use crate::net::Net;
use crate::process::{Output, Process, run};
use crate::{program, wait_for};
use plimsoll_port::namespace::Namespace;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

/// `plimsoll` with these arguments, in a namespace.
pub fn plimsoll(namespace: &Namespace, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("RUST_LOG");
    namespace.enter_command(&mut command);
    command
}

/// A `plimsoll run` that runs.
#[derive(Debug)]
pub struct Switch {
    /// The process.
    pub process: Process,
    namespace: Namespace,
}

impl Switch {
    /// Starts `plimsoll run` with these arguments, and returns once it forwards.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn start(net: &Net, arguments: &[&str]) -> Self {
        let all: Vec<&str> = ["run"].iter().chain(arguments).copied().collect();
        let mut process = Process::start(&mut plimsoll(&net.switch, &all));
        process.says("runs; `plimsoll show ports` shows it", LONG);
        Self { process, namespace: net.switch.clone() }
    }

    /// `plimsoll show WHAT --json`.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn show(&self, what: &str) -> Value {
        run(&mut plimsoll(&self.namespace, &["show", what, "--json"]), LONG).ok().json()
    }

    /// One port's part of `show ports`.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn port(&self, name: &str) -> Value {
        let all = self.show("ports");
        let ports = all["ports"].as_array().unwrap();
        ports.iter().find(|port| port["port"] == name).unwrap_or_else(|| panic!("{name} in {all}")).clone()
    }

    /// One port's part of `show marks`.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn marks(&self, name: &str) -> Value {
        let all = self.show("marks");
        let ports = all["marks"].as_array().unwrap();
        ports.iter().find(|port| port["port"] == name).unwrap_or_else(|| panic!("{name} in {all}")).clone()
    }

    /// The kernel's ids of the XDP programs of all ports that are open.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn programs(&self) -> Vec<u64> {
        let all = self.show("ports");
        let ports = all["ports"].as_array().unwrap();
        ports.iter().filter_map(|port| port["description"]["program_id"].as_u64()).collect()
    }

    /// All named losses that are not 0: port, place, reason, frames.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn drops(&self) -> Vec<Loss> {
        let all = self.show("drops");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = all["drops"].as_array().unwrap().iter();
        rows.map(|row| Loss {
            port: text(&row["port"]),
            place: text(&row["where"]),
            reason: text(&row["reason"]),
            frames: row["frames"].as_u64().unwrap(),
        })
        .filter(|loss| loss.frames > 0)
        .collect()
    }

    /// Waits until no frame is in the switch or on its rings.
    ///
    /// # Panics
    /// When frames stay.
    pub fn drained(&self) {
        wait_for("an empty switch", LONG, || {
            let frames = &self.show("ports")["frames"];
            let busy = ["held", "rx", "tx"].iter().filter_map(|place| frames[*place].as_u64()).sum::<u64>();
            (busy == 0).then_some(())
        });
    }

    /// SIGTERM, and its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(self) -> Output {
        self.process.signal(Signal::TERM);
        self.process.end(LONG)
    }

    /// SIGKILL. Returns when the process is gone; what the kernel takes down after it may take some milliseconds more.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill(self) {
        self.process.signal(Signal::KILL);
        assert_eq!(self.process.end(LONG).signal(), Some(Signal::KILL.as_raw()));
    }
}

/// One named loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The port.
    pub port: String,
    /// `machine` or `switch`.
    pub place: String,
    /// Its name.
    pub reason: String,
    /// How many.
    pub frames: u64,
}
