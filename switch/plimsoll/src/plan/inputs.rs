//! Paths to plan for: laws written on the command line, or a recording.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result};
use plimsoll_core::wire::identity::TimeMessage;
use plimsoll_lab::record::{CapturedMessage, read_pcapng};
use plimsoll_lab::text;
use plimsoll_model::{CsvColumns, Law, MessageKind, Pair, Paths, RecordedPair, Recording, Row};

use super::usage;
use crate::Usage;

/// Longest file of samples, octets: some ten million of them.
const LONGEST_SAMPLES: u64 = 256_000_000;
/// Longest line of a recording, octets: hundreds of times what one takes.
const LONGEST_LINE: u64 = 65_536;

/// What a pcapng file begins with: the block type of a section header.
const PCAPNG: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];

/// A pair with what it is called.
pub(super) struct Named {
    pub(super) name: String,
    /// What the clocks speak, where it is known.
    pub(super) protocol: Option<&'static str>,
    /// Hops forward and back, where they have names.
    pub(super) hops: [Vec<String>; 2],
    /// Exchanges recorded, or messages at the hop with the fewest; `None` where laws were given.
    pub(super) samples: Option<u64>,
    pub(super) paths: Paths,
}

/// Laws of one option's value; files are read relative to the working directory.
pub(super) fn laws(text: &str) -> Result<Vec<Law>> {
    let mut read = |name: &str| text::read(Path::new(name), LONGEST_SAMPLES).map_err(|e| e.to_string());
    Law::parse_list(text, &mut read).map_err(usage)
}

/// The i-th --forward with the i-th --reverse; a path not given has no queues.
pub(super) fn pairs(forward: &[String], reverse: &[String]) -> Result<Vec<Named>> {
    if reverse.len() > forward.len() {
        let message = format!(
            "{} --reverse for {} --forward: give one --forward for each pair (\"\" has no queues)",
            reverse.len(),
            forward.len()
        );
        return Err(Usage(message).into());
    }
    let reverse = reverse.iter().map(String::as_str).chain(std::iter::repeat(""));
    let pair = |(i, (forward, reverse)): (usize, (&String, &str))| {
        let pair = Pair { forward: laws(forward)?, reverse: laws(reverse)? };
        let (name, hops) = (format!("pair {}", i + 1), [vec![], vec![]]);
        Ok(Named { name, protocol: None, hops, samples: None, paths: Paths::Laws(pair) })
    };
    forward.iter().zip(reverse).enumerate().map(pair).collect()
}

/// All pairs of clocks in a recording, a CSV or a pcapng file.
pub(super) fn recorded(path: &Path) -> Result<Vec<Named>> {
    let place = || format!("recording {}", path.display());
    let open =
        File::open(path).map_err(|e| Usage(format!("{}: {e}; name a file that you may read", place())))?;
    let mut recording = Recording::default();
    let mut file = BufReader::new(open);
    if file.fill_buf().with_context(place)?.starts_with(&PCAPNG) {
        read_pcapng(file, |message| take(&mut recording, message))
            .map_err(|problem| Usage(format!("{}: it {problem}", place())))?;
    } else {
        let mut lines = Lines { file, number: 0, octets: Vec::new() };
        let header = lines.next().with_context(place)?.unwrap_or_default();
        let mut columns = CsvColumns::new(header).map_err(usage).with_context(place)?;
        while let Some(line) = lines.next().with_context(place)? {
            if let Some(row) = columns.row(line).map_err(usage).with_context(place)? {
                recording.take(&row);
            }
        }
    }
    let pairs = recording.pairs().map_err(usage).with_context(place)?;
    let named = |found: RecordedPair| Named {
        name: found.name,
        protocol: Some(found.protocol),
        hops: found.hops,
        samples: Some(found.exchanges.len() as u64),
        paths: Paths::Recorded(found.exchanges),
    };
    Ok(pairs.into_iter().map(named).collect())
}

/// The lines of a recording, which may be longer than memory; its lines are not.
struct Lines<R> {
    file: R,
    number: u64,
    octets: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&str>> {
        self.octets.clear();
        self.number += 1;
        let read = (&mut self.file).take(LONGEST_LINE).read_until(b'\n', &mut self.octets);
        read.with_context(|| format!("line {}", self.number))?;
        let number = self.number;
        let refuse = |problem: &str| {
            let remedy =
                "recordings are CSV or pcapng, as `plimsoll lab run LAB --record FILE.csv` writes them";
            Usage(format!("line {number} {problem}; {remedy}"))
        };
        // The first octets of pcap files.
        if number == 1 && self.octets.starts_with(&[0xD4, 0xC3, 0xB2, 0xA1]) {
            return Err(refuse("is that of a capture by another program").into());
        }
        if self.octets.len() as u64 == LONGEST_LINE {
            return Err(refuse("does not end").into());
        }
        let text = std::str::from_utf8(&self.octets).map_err(|_| refuse("is no UTF-8 text"))?;
        Ok((!text.is_empty()).then(|| text.trim_end_matches(['\n', '\r'])))
    }
}

/// A message of a capture, as a row.
fn take(recording: &mut Recording, captured: &CapturedMessage<'_>) {
    let (kind, source, domain, number) = match &captured.message {
        TimeMessage::Ptp(id) => {
            let kind = match id.message_type {
                0 => MessageKind::Sync,
                1 => MessageKind::DelayReq,
                2 => MessageKind::PdelayReq,
                3 => MessageKind::PdelayResp,
                _ => return,
            };
            let source = id.source_port_identity.iter().map(|octet| format!("{octet:02x}")).collect();
            (kind, source, id.domain, u64::from(id.sequence_id))
        }
        TimeMessage::Ntp(id) => {
            let kind = if id.response { MessageKind::NtpResponse } else { MessageKind::NtpRequest };
            (kind, id.source.to_string(), 0, id.transmit)
        }
    };
    recording.take(&Row {
        switch: captured.switch,
        ingress: captured.ingress,
        egress: captured.egress,
        kind,
        source: &source,
        domain,
        number,
        delay_ns: captured.delay_ps as f64 / 1e3,
        arrived_ns: captured.arrived_ns,
        released_ns: captured.released_ns,
        counted: captured.counted,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_text_with_lines_that_end() {
        let lines = |octets: &'static [u8]| {
            let mut lines = Lines { file: octets, number: 0, octets: Vec::new() };
            let mut all = Vec::new();
            loop {
                match lines.next() {
                    Ok(Some(line)) => all.push(line.to_owned()),
                    Ok(None) => return Ok(all),
                    Err(e) if e.is::<Usage>() => return Err(e.to_string()),
                    Err(e) => panic!("{e}"),
                }
            }
        };
        assert_eq!(lines(b"a,b\r\n\n1,2"), Ok(vec!["a,b".into(), "".into(), "1,2".into()]));
        for (octets, told) in [
            (
                &b"a\n\xff\n"[..],
                "line 2 is no UTF-8 text; recordings are CSV or pcapng, as `plimsoll lab run",
            ),
            (&[0xD4, 0xC3, 0xB2, 0xA1, b'\n'], "line 1 is that of a capture by another program; recordings"),
            (&[b'0'; 2 * LONGEST_LINE as usize], "line 1 does not end; "),
        ] {
            assert!(lines(octets).unwrap_err().starts_with(told));
        }
    }

    #[test]
    fn a_reverse_path_that_is_not_given_has_no_queues() {
        let texts = |texts: &[&str]| texts.iter().map(|&t| t.to_owned()).collect::<Vec<_>>();
        let found = pairs(&texts(&["exp(7us),exp(8us)", "exp(1us)"]), &texts(&["exp(9us,p=0.5)"])).unwrap();
        assert_eq!(found.len(), 2);
        let hops = |named: &Named| match &named.paths {
            Paths::Laws(pair) => (pair.forward.len(), pair.reverse.len()),
            Paths::Recorded(_) => panic!("nothing was recorded"),
        };
        assert_eq!((hops(&found[0]), hops(&found[1])), ((2, 1), (1, 0)));
        let error = pairs(&texts(&["exp(1us)"]), &texts(&["", ""])).err().unwrap();
        assert!(error.is::<Usage>() && error.to_string().contains("2 --reverse for 1 --forward"));
        assert!(laws("exp(1us").unwrap_err().is::<Usage>());
    }
}
