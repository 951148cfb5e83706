//! Records as CSV, one line a frame and egress port.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use plimsoll_core::PortId;
use plimsoll_port::worker::{Fate, Record};

use super::Sink;

/// The first line. Times are CLOCK_MONOTONIC in ns; depth is what was ahead of the frame when it was enqueued, itself
/// not counted, in wire octets and as picoseconds of this link; words are PTP octets 16..19, hexadecimal.
pub const CSV_HEADER: &str = "switch,ingress,egress,len,stamp_ns,arrival_ns,class,depth_bytes,depth_ps,outcome,r,word_before,\
     word_after,converted_ns,ideal_start_ns,ideal_end_ns,release_ns,lateness_ns,message_type,sequence_id,source_port,drop";

/// Port names by switch, for the lines.
type Names = Vec<(String, Vec<String>)>;

/// A CSV file being written.
#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    out: BufWriter<File>,
    names: Names,
}

impl CsvFile {
    /// Creates the file; `names` are switch names with their ports' names, in the worker's order.
    ///
    /// # Errors
    /// One line with path, errno and remedy.
    pub fn create(path: &Path, names: Names) -> Result<Self, String> {
        let file = File::create(path).map_err(|e| {
            format!("record {}: create: {e}; name a file in a folder you may write", path.display())
        })?;
        let mut csv = Self { path: path.into(), out: BufWriter::with_capacity(1 << 20, file), names };
        writeln!(csv.out, "{CSV_HEADER}").map_err(|e| csv.failure(&e))?;
        Ok(csv)
    }

    fn failure(&self, e: &std::io::Error) -> String {
        format!("record {}: write: {e}; free some disk, or record to another one", self.path.display())
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
            Some(m) => write!(out, "{},{},{},", m.message_type, m.sequence_id, hex(&m.source_port_identity))?,
            None => write!(out, ",,,")?,
        }
        match &r.fate {
            Fate::Dropped(reason) => writeln!(out, "{}", reason.name()),
            Fate::Sent(_) => writeln!(out),
        }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|o| format!("{o:02x}")).collect()
}

impl Sink for CsvFile {
    fn take(&mut self, record: &Record) -> Result<(), String> {
        self.write(record).map_err(|e| self.failure(&e))
    }

    fn finish(&mut self) -> Result<(), String> {
        self.out.flush().map_err(|e| self.failure(&e))
    }
}
