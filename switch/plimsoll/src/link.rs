//! `plimsoll link`: holds the service of a port's emulated link, and lets it serve again.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    args::{Link, Serve},
    control::{Request, ask},
    say::Out,
};

pub(crate) fn link(args: &Link) -> Result<ExitCode> {
    let (request, now) = match args.what {
        Serve::Hold => (Request::Hold(args.port.clone()), "is held: what comes for it is queued"),
        Serve::Release => (Request::Release(args.port.clone()), "serves"),
    };
    ask(args.name.as_deref(), request)?;
    writeln!(Out, "{} {now}", args.port)?;
    Ok(ExitCode::SUCCESS)
}
