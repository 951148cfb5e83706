//! What reached a host, taken by dumpcap and dissected by tshark: somebody else's reading of every field.

use crate::{stage::Host, tools};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command},
    thread,
    time::Duration,
};

/// Octets taken of each frame: more than any time message has.
const SNAPLEN: u32 = 192;

/// After this dumpcap has all that came: the kernel hands it over in blocks.
const BLOCKS: Duration = Duration::from_millis(500);

/// A capture that runs.
pub(crate) struct Capture {
    child: Child,
    said: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Capture {
    /// Starts it on the host's interface, and returns once frames are taken.
    pub(crate) fn start(host: &Host, file: PathBuf) -> Result<Self> {
        let arguments = format!("-q -P -B 64 -s {SNAPLEN} -i {} -w {}", host.interface, file.display());
        let mut child = tools::spawn(&host.namespace, "dumpcap", &arguments)?;
        let mut said = BufReader::new(child.stderr.take().context("dumpcap's messages")?);
        let mut text = String::new();
        while said.read_line(&mut text).context("dumpcap's messages")? > 0 {
            if text.lines().last().is_some_and(|line| line.starts_with("File: ")) {
                return Ok(Self { child, said, file });
            }
        }
        bail!("dumpcap {arguments}: {}", text.trim())
    }

    /// Ends it.
    pub(crate) fn stop(mut self) -> Result<Captured> {
        thread::sleep(BLOCKS);
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).context("stop dumpcap")?;
        let mut text = String::new();
        self.said.read_to_string(&mut text).context("dumpcap's messages")?;
        let status = self.child.wait().context("dumpcap")?;
        // "Packets received/dropped on interface 'eth0': 5/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)"
        let whole = text.lines().any(|line| line.contains("/0 (pcap:0/dumpcap:0"));
        ensure!(status.success() && whole, "the capture is not whole: {}", text.trim());
        Ok(Captured { file: self.file })
    }
}

/// A capture that has ended.
pub(crate) struct Captured {
    file: PathBuf,
}

impl Captured {
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// What tshark says of the frames that `filter` lets through, in order of arrival: the first value of each of these
    /// fields, empty where a frame has none. Checksums are verified.
    pub(crate) fn dissect(&self, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>> {
        let mut command = Command::new("tshark");
        command.arg("-n").arg("-r").arg(&self.file);
        for check in ["udp.check_checksum", "ip.check_checksum"] {
            command.args(["-o", &format!("{check}:TRUE")]);
        }
        command.args(["-Y", filter, "-T", "fields", "-E", "occurrence=f"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().context("start tshark: install the Debian package tshark")?;
        if !output.status.success() {
            bail!("tshark: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8(output.stdout).context("tshark's output")?;
        Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }
}
