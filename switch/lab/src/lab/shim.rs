//! What helps a host's daemons: its shim takes n*delta from the times that they see.

use super::{Lab, LabError};
use crate::topology::{ClockPlan, Compensation, Topology};

/// A shim on a host's interface, gone with this value.
#[derive(Debug)]
pub(super) struct Shim;

/// Whether this clock's hosts can have what it asks for.
pub(super) fn check(_topology: &Topology, clock: &ClockPlan) -> Result<(), LabError> {
    if clock.compensation == Compensation::Host {
        let place = format!("clock {}", clock.name);
        let problem = "compensation = \"host\" is simulated only";
        return Err(LabError::state(
            place,
            problem,
            "write \"none\" (of PTP also \"edge\"), or run `plimsoll sim`",
        ));
    }
    Ok(())
}

/// Attaches those that this clock asks for, at both of its hosts.
pub(super) fn attach(_lab: &Lab, _clock: &ClockPlan) -> Result<Vec<Shim>, LabError> {
    Ok(Vec::new())
}
