//! Rows of the CSV that `plimsoll lab run --record` and `sim --record` write.

use super::{MessageKind, Row, wrong};
use crate::ModelError;

const COLUMNS: [&str; 9] = [
    "switch",
    "ingress",
    "egress",
    "depth_ps",
    "message_type",
    "sequence_id",
    "source_port",
    "stamp_ns",
    "release_ns",
];
/// 1 in rows of the measurement, 0 in those from before and after it; files without this column have only the first.
const COUNTED: &str = "counted";
/// domainNumber of PTP messages; in files without this column all are of one domain.
const DOMAIN: &str = "domain";

/// Where columns are, and in which line the reader is.
#[derive(Clone, Debug)]
pub struct CsvColumns {
    at: [usize; COLUMNS.len()],
    counted: Option<usize>,
    domain: Option<usize>,
    line: usize,
}

impl CsvColumns {
    /// From the first line, which names them.
    ///
    /// # Errors
    /// [`ModelError::Text`] where one that is needed is missing.
    pub fn new(header: &str) -> Result<Self, ModelError> {
        let find = |name| header.trim().split(',').position(|column| column.trim() == name);
        let mut at = [0; COLUMNS.len()];
        for (at, name) in at.iter_mut().zip(COLUMNS) {
            *at = find(name).ok_or_else(|| {
                wrong(header, format!("has no column {name}"), "give what `plimsoll lab run --record` wrote")
            })?;
        }
        Ok(Self { at, counted: find(COUNTED), domain: find(DOMAIN), line: 1 })
    }

    /// The next line's row; `None` of a frame that is no time message, or was dropped: of that no delay is known, nor
    /// does a clock ever see it.
    ///
    /// # Errors
    /// [`ModelError::Text`] with the line's number where it has fewer columns than the first, or a value that is no
    /// number.
    pub fn row<'a>(&mut self, line: &'a str) -> Result<Option<Row<'a>>, ModelError> {
        self.line += 1;
        let last = self.at.iter().chain(&self.counted).chain(&self.domain).max().copied().unwrap_or(0);
        let mut found = [""; COLUMNS.len()];
        let (mut counted, mut domain, mut width) = ("1", "", 0);
        for (i, value) in line.trim_end_matches(['\r', '\n']).split(',').enumerate().take(last + 1) {
            width = i + 1;
            if let Some(at) = self.at.iter().position(|&column| column == i) {
                found[at] = value;
            }
            if self.counted == Some(i) {
                counted = value;
            }
            if self.domain == Some(i) {
                domain = value;
            }
        }
        if width <= last {
            let problem = format!("in line {} has too few columns", self.line);
            return Err(wrong(line, problem, "was the recording cut off?"));
        }
        let [switch, ingress, egress, depth, kind, number, source, stamp, release] = found;
        let kind = match kind {
            "0" => MessageKind::Sync,
            "1" => MessageKind::DelayReq,
            "2" => MessageKind::PdelayReq,
            "3" => MessageKind::PdelayResp,
            "ntp-request" => MessageKind::NtpRequest,
            "ntp-response" => MessageKind::NtpResponse,
            _ => return Ok(None),
        };
        if depth.is_empty() {
            return Ok(None);
        }
        let number = match kind {
            MessageKind::NtpRequest | MessageKind::NtpResponse => u64::from_str_radix(number, 16).ok(),
            _ => number.parse().ok(),
        };
        let number = number.ok_or_else(|| self.no_number(found[5], "sequence_id"))?;
        let domain = match domain {
            "" => 0,
            text => text.parse().map_err(|_| self.no_number(text, DOMAIN))?,
        };
        let ns = |text: &str, name| text.parse::<u64>().map_err(|_| self.no_number(text, name));
        Ok(Some(Row {
            switch,
            ingress,
            egress,
            kind,
            source,
            domain,
            number,
            delay_ns: ns(depth, "depth_ps")? as f64 / 1e3,
            arrived_ns: ns(stamp, "stamp_ns")?,
            released_ns: ns(release, "release_ns")?,
            counted: counted != "0",
        }))
    }

    fn no_number(&self, text: &str, column: &str) -> ModelError {
        wrong(text, format!("in line {} is no {column}", self.line), "was the recording cut off?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "switch,ingress,egress,len,stamp_ns,depth_ps,release_ns,message_type,sequence_id,source_port,drop,counted,domain";

    fn row(line: &str) -> Result<Option<Row<'_>>, ModelError> {
        CsvColumns::new(HEADER)?.row(line)
    }

    #[test]
    fn a_row_of_each_protocol() {
        let sync = row("s1,a,b,60,100,2500,107,0,7,aabb,,1,5\n").unwrap().unwrap();
        assert_eq!((sync.switch, sync.ingress, sync.egress, sync.source), ("s1", "a", "b", "aabb"));
        assert_eq!((sync.kind, sync.number, sync.delay_ns), (MessageKind::Sync, 7, 2.5));
        assert_eq!(sync.domain, 5);
        assert_eq!((sync.arrived_ns, sync.released_ns, sync.counted), (100, 107, true));
        let ntp = row("s1,a,b,90,1,0,2,ntp-response,00000000000000ff,10.0.0.1,,0,").unwrap().unwrap();
        assert_eq!(
            (ntp.kind, ntp.number, ntp.counted, ntp.domain),
            (MessageKind::NtpResponse, 255, false, 0)
        );
        assert_eq!(row("s1,a,b,60,1,,,0,7,aa,tail-drop,1,0").unwrap(), None, "dropped");
        assert_eq!(row("s1,a,b,60,1,0,2,,,,,1,").unwrap(), None, "no message");
        let old = HEADER.trim_end_matches(",counted,domain");
        let old = CsvColumns::new(old).unwrap().row("s1,a,b,60,1,0,2,1,7,aa,").unwrap().unwrap();
        assert_eq!((old.counted, old.domain), (true, 0));
    }

    #[test]
    fn what_is_no_recording_is_named() {
        let error = CsvColumns::new("a,b").unwrap_err().to_string();
        assert!(error.starts_with("recording \"a,b\" has no column switch; give what"), "{error}");
        let said = |line| row(line).unwrap_err().to_string();
        assert!(said("s1,a").contains("in line 2 has too few columns"));
        assert!(said("s1,a,b,60,1,x,2,0,1,aa,,1,0").contains("\"x\" in line 2 is no depth_ps"));
        assert!(said("s1,a,b,60,1,5,-2,0,1,aa,,1,0").contains("\"-2\" in line 2 is no release_ns"));
        assert!(said("s1,a,b,60,1,5,2,0,x,aa,,1,0").contains("is no sequence_id"));
        assert!(said("s1,a,b,60,1,5,2,0,1,aa,,1,256").contains("\"256\" in line 2 is no domain"));
    }
}
