//! Frames on a host's interface, read by dumpcap: whole, and with the VLAN tags that the kernel takes out.

use crate::net::{Host, INTERFACE};
use crate::process::{Output, Process, run};
use crate::{Scratch, wait_for};
use pcap_file::pcap::PcapReader;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A capture that runs.
#[derive(Debug)]
pub struct Capture {
    folder: Scratch,
    process: Process,
}

/// A capture that has ended.
#[derive(Debug)]
pub struct Captured {
    folder: Scratch,
}

const FILE: &str = "capture.pcap";
const LONG: Duration = Duration::from_secs(20);

impl Capture {
    /// Starts it, and returns once frames are taken: those that `filter` (pcap-filter(7)) lets pass.
    pub(crate) fn start(host: &Host, filter: &str) -> Self {
        let folder = Scratch::new();
        let mut command = host.command("dumpcap");
        command.args(["-q", "-P", "-i", INTERFACE, "-f", filter, "-w"]).arg(folder.path(FILE));
        let mut process = Process::start(&mut command);
        process.says("File: ", LONG);
        Self { folder, process }
    }

    /// The frames taken so far, oldest first; the last ones may be missing for a tenth of a second.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        read(self.folder.path(FILE))
    }

    /// Waits until so many of the frames taken are `wanted`, and returns all of them that are.
    ///
    /// # Panics
    /// When they do not come.
    pub fn until(&self, what: &str, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let mut last = 0;
        let what = format!("{count} frames in a capture ({what})");
        wait_for(&what, LONG, || {
            std::thread::sleep(Duration::from_millis(50));
            let found: Vec<_> = self.frames().into_iter().filter(|frame| wanted(frame)).collect();
            if found.len() != last {
                last = found.len();
                eprintln!("{last} of {what}");
            }
            (found.len() >= count).then_some(found)
        })
    }

    /// Ends it.
    ///
    /// # Panics
    /// When dumpcap fails, or has lost frames.
    pub fn stop(self) -> Captured {
        self.process.signal(Signal::INT);
        let output = self.process.end(LONG).ok();
        let lost = output.stderr.lines().find(|line| line.contains("dropped on interface"));
        let lost = lost.and_then(|line| line.split_once(": ")).map(|(_, counts)| counts.trim().to_owned());
        if let Some(counts) = lost {
            // "received/dropped on interface 'eth0': 5/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)"
            assert!(counts.contains("/0 (pcap:0/dumpcap:0"), "the capture is not whole: {counts}");
        }
        Captured { folder: self.folder }
    }
}

impl Captured {
    /// The frames, oldest first.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        read(self.folder.path(FILE))
    }

    /// Lines that tshark prints of this capture, with checksums verified.
    ///
    /// # Panics
    /// When tshark fails.
    pub fn tshark(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let mut command = Command::new("tshark");
        command.args(["-n", "-r"]).arg(self.folder.path(FILE));
        for check in ["udp.check_checksum", "tcp.check_checksum", "ip.check_checksum"] {
            command.args(["-o", &format!("{check}:TRUE")]);
        }
        command.args(["-Y", filter, "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output: Output = run(&mut command, Duration::from_secs(60)).ok();
        output.stdout.lines().map(str::to_owned).collect()
    }
}

/// All whole frames of a file that may still be written to.
fn read(path: PathBuf) -> Vec<Vec<u8>> {
    let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
    let Ok(mut reader) = PcapReader::new(file) else { return Vec::new() };
    let mut frames = Vec::new();
    while let Some(Ok(packet)) = reader.next_packet() {
        assert_eq!(packet.data.len(), packet.orig_len as usize, "the capture cuts frames");
        frames.push(packet.data.into_owned());
    }
    frames
}
