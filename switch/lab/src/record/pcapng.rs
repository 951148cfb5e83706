//! Frames as the switch released them, as a capture that Wireshark opens, with what is known of each as its comment.
//!
//! Times are those of the release, in ns of CLOCK_REALTIME as it stood beside the worker's CLOCK_MONOTONIC when the file
//! was created: a step of the clock later leaves them as they are. Frames that were dropped are not in it.

use super::{PortNames, RecordClock, RecordError, Sink, Window};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use plimsoll_core::{EcnOutcome, Field, MarkOutcome};
use plimsoll_port::worker::{Fate, MESSAGE_OCTETS, Record, Sent};
use rustix::time::{ClockId, clock_gettime};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What goes before the nanoseconds between times of frames and those in comments.
pub(super) const EARLIER: &str = "the arrival in a comment is told ";

/// if_tsresol: timestamps count 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A capture being written. Each port is an interface, named `SWITCH:PORT`.
pub(super) struct PcapngFile {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
    names: PortNames,
    window: Arc<Window>,
    /// The number of each switch's first interface.
    first: Vec<u32>,
    /// What is added to the records' time.
    epoch: Duration,
    comment: String,
}

impl PcapngFile {
    /// Writes the section's head and its interfaces.
    pub(super) fn start(
        path: PathBuf,
        out: BufWriter<File>,
        names: PortNames,
        clock: RecordClock,
        window: Arc<Window>,
    ) -> Result<Self, RecordError> {
        let epoch = match clock {
            RecordClock::Monotonic => realtime_ahead(),
            RecordClock::Virtual => Duration::ZERO,
        };
        let about = format!(
            "frames as Plimsoll {} released them; {EARLIER}{} ns earlier",
            env!("CARGO_PKG_VERSION"),
            epoch.as_nanos()
        );
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::Comment(about.into())],
            ..SectionHeaderBlock::default()
        };
        let begun = PcapNgWriter::with_section_header(out, section).and_then(|mut writer| {
            for (switch, ports) in &names {
                for port in ports {
                    writer.write_pcapng_block(interface(format!("{switch}:{port}")))?;
                }
            }
            Ok(writer)
        });
        let writer = begun.map_err(|e| RecordError::write(&path, errno(e)))?;
        let mut first = Vec::with_capacity(names.len());
        let mut next = 0;
        for (_, ports) in &names {
            first.push(next);
            next += ports.len() as u32;
        }
        Ok(Self { path, writer, names, window, first, epoch, comment: String::new() })
    }

    fn write(&mut self, record: &Record, sent: &Sent, octets: &[u8]) -> Result<(), PcapError> {
        let switch = usize::from(record.switch);
        let (Some(egress), Some(first)) = (record.egress, self.first.get(switch)) else { return Ok(()) };
        let ports = &self.names[switch].1;
        let ingress = ports.get(record.ingress.index()).map_or("", String::as_str);
        self.comment.clear();
        comment(&mut self.comment, record, sent, ingress);
        if !self.window.holds(sent.released.0) {
            self.comment.push_str(SETTLING);
        }
        let frame = EnhancedPacketBlock {
            interface_id: first + u32::from(egress.0),
            timestamp: self.epoch + Duration::from_nanos(sent.released.0),
            original_len: record.len,
            data: Cow::Borrowed(octets),
            options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(&self.comment))],
        };
        self.writer.write_pcapng_block(frame).map(drop)
    }
}

impl Sink for PcapngFile {
    fn take(&mut self, record: &Record, octets: &[u8]) -> Result<(), String> {
        let Fate::Sent(sent) = &record.fate else { return Ok(()) };
        self.write(record, sent, octets).map_err(|e| RecordError::write(&self.path, errno(e)).to_string())
    }

    fn finish(&mut self) -> Result<(), String> {
        self.writer.get_mut().flush().map_err(|e| RecordError::write(&self.path, e).to_string())
    }
}

fn interface(name: String) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: MESSAGE_OCTETS as u32,
        options: vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    }
}

/// In comments of frames that were released before the measurement or after it.
pub(super) const SETTLING: &str = " settling";

/// What is known of a frame: `depth=3076B r=2 ...`, words in hexadecimal.
fn comment(out: &mut String, record: &Record, sent: &Sent, ingress: &str) {
    let mark = &sent.mark;
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "depth={}B ahead={}ps class={} wait={}ns late={}ns ingress={ingress} arrival={}ns",
        sent.depth_bytes,
        sent.depth_ps,
        sent.class,
        sent.start.since(record.arrived),
        sent.lateness_ns,
        record.arrived.0
    );
    if sent.measured != sent.depth_bytes {
        let _ = write!(out, " measured={}", sent.measured);
    }
    if mark.outcome != MarkOutcome::NotSync {
        let _ = write!(out, " mark={} r={}", mark.outcome.name(), mark.r);
    }
    if mark.field != Field::None {
        let _ = write!(out, " {}={:08x}>{:08x}", mark.field.name(), mark.before, mark.after);
    }
    if mark.converted_ns > 0 {
        let _ = write!(out, " converted={}ns", mark.converted_ns);
    }
    if mark.ecn != EcnOutcome::Off || mark.ecn_before != mark.ecn_after {
        let _ = write!(out, " ecn={}>{} {}", mark.ecn_before, mark.ecn_after, mark.ecn.name());
    }
    if let Some(ns) = sent.residence_ns {
        let _ = write!(out, " residence={ns}ns");
    }
}

/// CLOCK_REALTIME - CLOCK_MONOTONIC, which nothing on a machine of today makes negative.
fn realtime_ahead() -> Duration {
    let now = |clock| {
        let t = clock_gettime(clock);
        Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
    };
    now(ClockId::Realtime).saturating_sub(now(ClockId::Monotonic))
}

fn errno(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(e) => e,
        other => io::Error::other(other),
    }
}
