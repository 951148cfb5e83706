//! Records as CSV, one line a frame and egress port.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_core::PortId;
use plimsoll_core::wire::identity::TimeMessage;
use plimsoll_port::worker::{Fate, Record};

use super::{PortNames, RecordError, Sink, Window};

/// The first line. Times are CLOCK_MONOTONIC in ns, or a simulator's from 0 on; depth is what was ahead of the frame
/// when it was enqueued, itself not counted, in wire octets and as picoseconds of this link, and `measured_depth` what
/// the thresholds were compared with; words are those of the message's `field`, hexadecimal; ECN bits are 0 to 3; the
/// residence is what a transparent clock added. A PTP event message is told by its messageType 0 to 3, sequenceId and
/// port identity; an NTP message by `ntp-request` or `ntp-response`, its transmit timestamp in hexadecimal and its
/// source address. `counted` is 1 where the frame was released during the measurement (dropped: arrived), 0 while the
/// lab settled before it or ended. `domain` is domainNumber of a PTP message: clocks of several domains may share an
/// identity. New columns come last.
pub const CSV_HEADER: &str = "switch,ingress,egress,len,stamp_ns,arrival_ns,class,depth_bytes,depth_ps,outcome,r,word_before,\
     word_after,converted_ns,ideal_start_ns,ideal_end_ns,release_ns,lateness_ns,message_type,sequence_id,source_port,drop,\
     field,ecn_before,ecn_after,ecn_outcome,measured_depth,residence_ns,counted,domain";

/// A CSV file being written.
#[derive(Debug)]
pub(super) struct CsvFile {
    path: PathBuf,
    out: BufWriter<File>,
    names: PortNames,
    window: Arc<Window>,
}

impl CsvFile {
    /// Writes the first line.
    pub(super) fn start(
        path: PathBuf,
        out: BufWriter<File>,
        names: PortNames,
        window: Arc<Window>,
    ) -> Result<Self, RecordError> {
        let mut csv = Self { path, out, names, window };
        writeln!(csv.out, "{CSV_HEADER}").map_err(|e| RecordError::write(&csv.path, e))?;
        Ok(csv)
    }

    fn write(&mut self, r: &Record) -> std::io::Result<()> {
        let (switch, ports) =
            self.names.get(usize::from(r.switch)).map_or(("", &[][..]), |(s, p)| (s.as_str(), p));
        let name = |p: PortId| ports.get(usize::from(p.0)).map_or("", String::as_str);
        let out = &mut self.out;
        write!(
            out,
            "{switch},{},{},{},{},{},",
            name(r.ingress),
            r.egress.map_or("", name),
            r.len,
            r.stamp.0,
            r.arrived.0
        )?;
        match &r.fate {
            Fate::Sent(s) => write!(
                out,
                "{},{},{},{},{},{:08x},{:08x},{},{},{},{},{},",
                s.class,
                s.depth_bytes,
                s.depth_ps,
                s.mark.outcome.name(),
                s.mark.r,
                s.mark.before,
                s.mark.after,
                s.mark.converted_ns,
                s.start.0,
                s.end.0,
                s.released.0,
                s.lateness_ns
            )?,
            Fate::Dropped(_) => write!(out, ",,,,,,,,,,,,")?,
        }
        match &r.message {
            Some(TimeMessage::Ptp(m)) => {
                write!(out, "{},{},{},", m.message_type, m.sequence_id, hex(&m.source_port_identity))?;
            }
            Some(TimeMessage::Ntp(m)) => {
                let kind = if m.response { "response" } else { "request" };
                write!(out, "ntp-{kind},{:016x},{},", m.transmit, m.source)?;
            }
            None => write!(out, ",,,")?,
        }
        let at = match &r.fate {
            Fate::Sent(sent) => sent.released,
            Fate::Dropped(_) => r.arrived,
        };
        let counted = u8::from(self.window.holds(at.0));
        match &r.fate {
            Fate::Dropped(reason) => write!(out, "{},,,,,,,{counted},", reason.name())?,
            Fate::Sent(s) => {
                let (field, bits) = (s.mark.field.name(), [s.mark.ecn_before, s.mark.ecn_after]);
                write!(out, ",{field},{},{},{},{},", bits[0], bits[1], s.mark.ecn.name(), s.measured)?;
                match s.residence_ns {
                    Some(ns) => write!(out, "{ns},{counted},")?,
                    None => write!(out, ",{counted},")?,
                }
            }
        }
        match r.message.as_ref().and_then(TimeMessage::ptp) {
            Some(id) => writeln!(out, "{}", id.domain),
            None => writeln!(out),
        }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|o| format!("{o:02x}")).collect()
}

impl Sink for CsvFile {
    fn take(&mut self, record: &Record, _octets: &[u8]) -> Result<(), String> {
        self.write(record).map_err(|e| RecordError::write(&self.path, e).to_string())
    }

    fn finish(&mut self) -> Result<(), String> {
        self.out.flush().map_err(|e| RecordError::write(&self.path, e).to_string())
    }
}
