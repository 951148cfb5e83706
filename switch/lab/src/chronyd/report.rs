//! What chronyc prints for programs (`-c`): one line of values, the first commas' meaning as in chronyc(1); and the lines
//! of measurements.log (chrony.conf(5), `log rawmeasurements`).

/// Where a daemon's clock is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracking {
    /// Its own, one more than its server's; 0 without one.
    pub stratum: u8,
    /// Whether it follows a server.
    pub synchronised: bool,
    /// Its clock less the machine's, in seconds: with `-x` what it would correct.
    pub offset_s: f64,
    /// Delay to the primary reference and back, in seconds.
    pub root_delay_s: f64,
}

/// What came from a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Association {
    /// Whether the last answer was authenticated.
    pub authenticated: bool,
    /// Offset by the last valid answer, in seconds.
    pub offset_s: f64,
    /// Delay there and back of the same, in seconds.
    pub delay_s: f64,
    /// Requests sent.
    pub sent: u64,
    /// Answers received.
    pub received: u64,
    /// Those that passed the tests of RFC 5905 section 8, authentication among them.
    pub valid: u64,
}

/// One answer, as chronyd measured by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The server's clock less this one's, in seconds: positive where this one is slow. Four digits.
    pub offset_s: f64,
    /// Delay there and back, in seconds.
    pub delay_s: f64,
    /// Whether it passed the tests of RFC 5905 section 8 (1 to 3 and 5 to 7). chronyd's own tests of its quality (A to D),
    /// by which it leaves measurements out, are not in this.
    pub valid: bool,
    /// Whether it was made of the times of an interleaved answer.
    pub interleaved: bool,
}

impl Measurement {
    /// `DATE TIME ADDRESS LEAP STRATUM TESTS TESTS TESTS POLL POLL SCORE OFFSET DELAY DISPERSION DELAY DISPERSION ID MODE TX
    /// RX`; other lines are none.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, _, _, _, _, first, second, _, _, _, _, offset, delay, _, _, _, _, mode, ..] = words[..]
        else {
            return None;
        };
        let all = |tests: &str| tests.len() == 3 && tests.bytes().all(|test| test == b'1');
        Some(Self {
            offset_s: offset.parse().ok()?,
            delay_s: delay.parse().ok()?,
            valid: all(first) && all(second),
            interleaved: mode.ends_with('I'),
        })
    }
}

impl Tracking {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let values: Vec<_> = line.trim().split(',').collect();
        Some(Self {
            stratum: values.get(2)?.parse().ok()?,
            synchronised: *values.get(13)? != "Not synchronised",
            offset_s: values.get(4)?.parse().ok()?,
            root_delay_s: values.get(10)?.parse().ok()?,
        })
    }
}

impl Association {
    pub(super) fn parse(lines: &str) -> Option<Self> {
        let values: Vec<_> = lines.lines().next()?.split(',').collect();
        Some(Self {
            authenticated: *values.get(27)? == "Yes",
            offset_s: values.get(18)?.parse().ok()?,
            delay_s: values.get(19)?.parse().ok()?,
            sent: values.get(30)?.parse().ok()?,
            received: values.get(31)?.parse().ok()?,
            valid: values.get(32)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_chronyc_4_3_are_read_and_others_are_not() {
        let line = "0A090901,10.9.9.1,2,1796067441.611699116,-0.000003761,-0.000000012,0.000000173,0.083,-0.001,0.267,\
                    0.000011444,0.000001249,0.1,Normal\n";
        let read = Tracking::parse(line).unwrap();
        assert_eq!((read.stratum, read.synchronised), (2, true));
        assert_eq!((read.offset_s, read.root_delay_s), (-0.000_003_761, 0.000_011_444));
        let line = "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,\
                    0.0,Not synchronised\n";
        assert!(!Tracking::parse(line).unwrap().synchronised);
        let line = "10.9.9.1,0A090901,123,10.9.9.2,0A090902,Normal,4,Server,1,-4,0,-26,0.000000015,0.000000,0.000000,\
                    7F7F0101,,1796067438.040869395,-0.000000651,0.000013076,0.000000035,0.000053452,0.46,111,111,1111,\
                    No,Yes,Kernel,Kernel,44,43,42,36\n";
        let read = Association::parse(line).unwrap();
        assert_eq!((read.authenticated, read.sent, read.received, read.valid), (true, 44, 43, 42));
        assert_eq!((read.offset_s, read.delay_s), (-0.000_000_651, 0.000_013_076));
        for line in ["", "506 Cannot talk to daemon\n", "10.9.9.1,0A090901,123\n"] {
            assert_eq!((Tracking::parse(line), Association::parse(line)), (None, None), "{line}");
        }
    }
}
