//! What marks cost, and what a transparent clock does: our Table II (instructions and time of the core, for each carrier and
//! counter) and Fig. 2 (residence in the real switch, and its CPU); and what a host's shims add to a frame.

mod cases;
mod instructions;
mod shim;
mod worker;

use crate::{facts::Facts, report::Row};
use anyhow::Result;
use std::time::Duration;

pub(crate) use instructions::{COMMAND, run_case};

const GROUP: &str = "cost";

/// Measures the core and the shims on the worker's CPU, then the real worker with rounds of `span`.
pub(crate) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = crate::facts::on_cpu(facts.worker_cpu, || instructions::measure(rounds))?;
    rows.extend(crate::facts::on_cpu(facts.worker_cpu, || shim::measure(rounds))?);
    rows.extend(worker::measure(facts, rounds, span)?);
    Ok(rows)
}
