//! What a daemon says of its own offset.

use serde::Serialize;

/// One saying.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogLine {
    /// When: CLOCK_REALTIME in nanoseconds.
    pub at: u64,
    /// Its offset.
    pub offset_ns: f64,
    /// Its mean path delay, where it tells one.
    pub delay_ns: Option<f64>,
}

/// What a daemon said of its own offset, with whatever help it had.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Logged {
    /// How many times.
    pub lines: usize,
    /// Root mean square of the offsets; 0 where there are none.
    pub offset_rms_ns: f64,
    /// Greatest absolute offset.
    pub offset_abs_max_ns: f64,
    /// Mean of the path delays.
    pub delay_mean_ns: f64,
    /// Each of them.
    #[serde(skip)]
    pub said: Vec<LogLine>,
}

impl Logged {
    /// Leaves out what was said before `from` or after `until`.
    pub(crate) fn cut(&mut self, from: u64, until: u64) {
        let mut said = std::mem::take(&mut self.said);
        said.retain(|line| (from..=until).contains(&line.at));
        *self = Self::of(said);
    }

    /// These sayings.
    pub(crate) fn of(said: Vec<LogLine>) -> Self {
        let mean = |values: Vec<f64>| match values.len() {
            0 => 0.0,
            count => values.iter().sum::<f64>() / count as f64,
        };
        Self {
            lines: said.len(),
            offset_rms_ns: mean(said.iter().map(|line| line.offset_ns.powi(2)).collect()).sqrt(),
            offset_abs_max_ns: said.iter().fold(0.0, |most, line| most.max(line.offset_ns.abs())),
            delay_mean_ns: mean(said.iter().filter_map(|line| line.delay_ns).collect()),
            said,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_within_the_measurement_counts() {
        let line = |at, offset_ns| LogLine { at, offset_ns, delay_ns: Some(offset_ns * 2.0) };
        let mut logged = Logged::of(vec![line(5, 90.0), line(10, 3.0), line(20, -4.0), line(21, 70.0)]);
        assert_eq!((logged.lines, logged.offset_abs_max_ns), (4, 90.0));
        logged.cut(10, 20);
        assert_eq!((logged.lines, logged.offset_abs_max_ns, logged.delay_mean_ns), (2, 4.0, -1.0));
        assert!((logged.offset_rms_ns - 12.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(Logged::of(Vec::new()), Logged::default());
    }
}
