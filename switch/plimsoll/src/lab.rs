//! `plimsoll lab`.
use crate::args::Lab;
use std::process::ExitCode;
pub(crate) fn lab(_args: &Lab) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
