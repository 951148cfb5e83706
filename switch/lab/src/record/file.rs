//! The file that records go to, and how it is written: by its suffix.

use super::csv::CsvFile;
use super::pcapng::PcapngFile;
use super::{PortNames, Sink, Window};
use plimsoll_port::worker::{RecordWhat, Records};
use rustix::fs::{Access, access};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Records between two visits of their reader: more than a tenth of a second at a million frames a second.
const RECORDS: usize = 1 << 17;
/// The same with octets, a KiB each: a third of that time, 32 MiB.
const WITH_OCTETS: usize = 1 << 15;
/// Octets written at once.
const BUFFER: usize = 1 << 20;

/// Where ground truth goes: `.csv`, a line a frame, or `.pcapng`, the frames themselves with a comment each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Pcapng,
}

/// Whose time records tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordClock {
    /// CLOCK_MONOTONIC: a capture tells it as CLOCK_REALTIME, as other captures of this machine do.
    Monotonic,
    /// A simulator's, from 0 on: a capture begins in 1970, and is the same each time.
    Virtual,
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("record {path}: {call}: {source}; {remedy}")]
pub struct RecordError {
    /// The file.
    pub path: String,
    /// What failed.
    pub call: &'static str,
    /// Its errno.
    pub source: std::io::Error,
    /// What to do instead.
    pub remedy: &'static str,
}

impl RecordError {
    /// What could not be written.
    pub(super) fn write(path: &Path, source: std::io::Error) -> Self {
        let (path, remedy) = (path.display().to_string(), "free some disk, or record to another one");
        Self { path, call: "write", source, remedy }
    }
}

impl RecordFile {
    /// The file of this path, written as its suffix says. Nothing is created yet.
    ///
    /// # Errors
    /// The suffix is another one.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let format = match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("csv") => Format::Csv,
            Some("pcapng") => Format::Pcapng,
            _ => return Err("no format has this suffix; name it NAME.csv or NAME.pcapng".into()),
        };
        Ok(Self { path, format })
    }

    /// Whether it can be created, as far as can be told without changing anything: an older file stays as it is.
    ///
    /// # Errors
    /// There is no such folder, it may not be written to, or the path is a folder itself.
    pub fn check(&self) -> Result<(), RecordError> {
        let checked = match fs::metadata(&self.path) {
            // Opening a pipe would wait for its reader.
            Ok(found) if found.is_file() || found.is_dir() => {
                File::options().write(true).open(&self.path).map(drop)
            }
            Ok(_) => Ok(()),
            Err(_) => {
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
            }
        };
        checked.map_err(|source| self.refused(source))
    }

    fn refused(&self, source: io::Error) -> RecordError {
        RecordError {
            path: self.path.display().to_string(),
            call: "create",
            source,
            remedy: "name a file in a folder you may write",
        }
    }

    /// Creates it; an older file of this name is gone then. Each record says whether `window` holds it.
    ///
    /// # Errors
    /// It cannot be created, or not be written to.
    pub fn create(
        &self,
        names: PortNames,
        clock: RecordClock,
        window: Arc<Window>,
    ) -> Result<Box<dyn Sink>, RecordError> {
        let file = File::create(&self.path).map_err(|source| self.refused(source))?;
        let (path, file) = (self.path.clone(), BufWriter::with_capacity(BUFFER, file));
        Ok(match self.format {
            Format::Csv => Box::new(CsvFile::start(path, file, names, window)?),
            Format::Pcapng => Box::new(PcapngFile::start(path, file, names, clock, window)?),
        })
    }
}

/// The queue of records between the worker and its reader: with frames' octets where the file holds them.
pub fn queue(file: Option<&RecordFile>) -> Records {
    match file.map(|file| file.format) {
        Some(Format::Pcapng) => Records::with_octets(WITH_OCTETS, RecordWhat::All),
        Some(Format::Csv) | None => Records::new(RECORDS, RecordWhat::All),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_created_is_told_before_and_nothing_is_changed() {
        let folder = std::env::temp_dir().join(format!("plimsoll-record-{}", std::process::id()));
        fs::create_dir_all(folder.join("folder.csv")).unwrap();
        let check =
            |name: &str| RecordFile::new(folder.join(name)).unwrap().check().map_err(|e| e.to_string());
        assert_eq!(check("new.csv"), Ok(()));
        assert!(!folder.join("new.csv").exists());
        fs::write(folder.join("old.csv"), "kept").unwrap();
        assert_eq!(check("old.csv"), Ok(()));
        assert_eq!(fs::read_to_string(folder.join("old.csv")).unwrap(), "kept");
        for (name, words) in [
            ("none/a.csv", "No such file"),
            ("old.csv/a.csv", "Not a directory"),
            ("folder.csv", "Is a directory"),
        ] {
            let told = check(name).unwrap_err();
            assert!(
                told.contains(words) && told.ends_with("name a file in a folder you may write"),
                "{told}"
            );
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_suffix_says_how() {
        let format = |path: &str| RecordFile::new(path.into()).map(|file| file.format);
        assert_eq!(format("a/b.csv"), Ok(Format::Csv));
        assert_eq!(format("b.x.pcapng"), Ok(Format::Pcapng));
        for wrong in ["a.pcap", "csv", "a.CSV", "."] {
            let told = format(wrong);
            assert_eq!(
                told.unwrap_err(),
                "no format has this suffix; name it NAME.csv or NAME.pcapng",
                "{wrong}"
            );
        }
    }
}
