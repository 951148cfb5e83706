//! What ptp4l says of its own offset, once a second or as a summary.

use serde::Serialize;

/// One line about the offset.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogEntry {
    /// The daemon's own clock, CLOCK_MONOTONIC in seconds.
    pub at_s: f64,
    /// Its offset from its master; in a summary the root mean square.
    pub offset_ns: f64,
    /// Its mean path delay; `None` in a summary before the first one.
    pub delay_ns: Option<f64>,
}

impl LogEntry {
    /// `ptp4l[12.345]: master offset  -1 s0 freq +0 path delay  2`, or `ptp4l[12.345]: rms 1 max 2 freq .. delay 3 ..`.
    /// Other lines are none.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (clock, said) = line.strip_prefix("ptp4l[")?.split_once("]: ")?;
        let mut words = said.split_whitespace();
        let mut after =
            |word: &str| words.find(|&found| found == word).and_then(|_| words.next()?.parse().ok());
        let key = if said.starts_with("rms ") { "rms" } else { "offset" };
        if key == "offset" && !said.starts_with("master offset ") {
            return None;
        }
        Some(Self { at_s: clock.parse().ok()?, offset_ns: after(key)?, delay_ns: after("delay") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_linuxptp_3_1_1_are_read_and_others_are_not() {
        let line = "ptp4l[1824.709]: master offset       -134 s0 freq    -392 path delay      2077";
        assert_eq!(
            LogEntry::parse(line),
            Some(LogEntry { at_s: 1824.709, offset_ns: -134.0, delay_ns: Some(2077.0) })
        );
        let line = "ptp4l[5.000]: rms  567 max  890 freq   +123 +/-  45 delay  1999 +/-  12";
        assert_eq!(
            LogEntry::parse(line),
            Some(LogEntry { at_s: 5.0, offset_ns: 567.0, delay_ns: Some(1999.0) })
        );
        let line = "ptp4l[5.000]: rms  567 max  890 freq   +123 +/-  45";
        assert_eq!(LogEntry::parse(line), Some(LogEntry { at_s: 5.0, offset_ns: 567.0, delay_ns: None }));
        for line in [
            "ptp4l[1815.680]: selected best master clock 02aabb.fffe.000001",
            "ptp4l[1815.680]: port 1: LISTENING to UNCALIBRATED on RS_SLAVE",
            "ptp4l[x]: master offset 1 s0 freq 1 path delay 1",
            "ptp4l[1.0]: master offset one",
            "master offset 1",
            "",
        ] {
            assert_eq!(LogEntry::parse(line), None, "{line}");
        }
    }
}
