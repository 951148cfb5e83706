//! A clock pair's line.

use crate::clock::{ClientCounters, ClockReport, ClockSample};
use crate::daemon::Logged;
use crate::topology::{ClockPlan, Compensation};
use serde::Serialize;

/// One clock pair.
///
/// Behind an edge (`compensation` is `edge`) the clock sees corrected messages only: `compensated` is what it measured,
/// and `raw` is that with the switch's own record of its conversions taken out. So there `raw` and `improvement` rest on
/// what the switch says of itself, `compensated` does not.
///
/// Of chronyd `compensated` is what it measured itself; `raw` is, where a shim helps its host, the same exchanges by the
/// times of taps on both hosts' interfaces, which the shim does not change, and else what it measured too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockOutcome {
    /// The figures.
    #[serde(flatten)]
    pub report: ClockReport,
    /// Who took the marks into account.
    pub compensation: Compensation,
    /// What the daemon said of its own offset, corrections included: ptp4l's log, where chronyd's clock was by its
    /// tracking; `null` for the built-in clock.
    pub logged: Option<Logged>,
    /// What came to nothing at the client, settling included.
    pub counters: ClientCounters,
    /// Whether `raw` is known. Where not (ptp4l by peer delay), it is `compensated`, what was measured.
    pub raw_known: bool,
    /// Each exchange.
    #[serde(skip)]
    pub samples: Vec<ClockSample>,
}

impl ClockOutcome {
    pub(crate) fn new(
        plan: &ClockPlan,
        samples: Vec<ClockSample>,
        counters: ClientCounters,
        logged: Option<Logged>,
    ) -> Self {
        Self {
            report: ClockReport::new(&plan.name, plan.daemon.name(), plan.transport, &samples)
                .filtered(plan.filter, &samples),
            compensation: plan.compensation,
            raw_known: plan.tells_raw() || plan.compensation == Compensation::None,
            logged,
            counters,
            samples,
        }
    }
}
