//! A clock pair's line.

use crate::clock::{ClientCounters, ClockReport, ClockSample, Recording};
use crate::ptp4l::LogSummary;
use crate::topology::{ClockPlan, Compensation};
use serde::Serialize;

/// sequenceId has 16 bits: after so many messages they come again.
const SEQUENCE: u64 = 1 << 16;

/// One clock pair.
///
/// Behind an edge (`compensation` is `edge`) the clock sees corrected messages only: `compensated` is what it measured,
/// and `raw` is that with the switch's own record of its conversions taken out. So there `raw` and `improvement` rest on
/// what the switch says of itself, `compensated` does not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockOutcome {
    /// The figures.
    #[serde(flatten)]
    pub report: ClockReport,
    /// Who took the marks into account.
    pub compensation: Compensation,
    /// What ptp4l logged of its own offset, corrections included; `null` for the built-in clock.
    pub logged: Option<LogSummary>,
    /// What came to nothing at the client, settling included.
    pub counters: ClientCounters,
    /// More messages than sequenceId tells apart.
    pub sequence_repeats: bool,
}

impl ClockOutcome {
    pub(crate) fn new(
        plan: &ClockPlan,
        samples: &[ClockSample],
        recording: &Recording,
        logged: Option<LogSummary>,
        duration_s: f64,
    ) -> Self {
        let repeats = (duration_s * 1e9) as u64 / plan.interval_ns.max(1) > SEQUENCE;
        Self {
            report: ClockReport::new(&plan.name, plan.daemon.name(), plan.transport, samples),
            compensation: plan.compensation,
            logged,
            counters: recording.counters,
            sequence_repeats: repeats
                && matches!(plan.compensation, Compensation::Edge | Compensation::TransparentClock),
        }
    }
}
