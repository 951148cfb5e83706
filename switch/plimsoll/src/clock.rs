//! `plimsoll clock`.
use crate::args::Clock;
use std::process::ExitCode;
pub(crate) fn clock(_args: &Clock) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
