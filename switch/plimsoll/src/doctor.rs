//! `plimsoll doctor`.
use crate::args::Doctor;
use std::process::ExitCode;
pub(crate) fn doctor(_args: &Doctor) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
