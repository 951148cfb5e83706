//! `plimsoll sim`: a lab in virtual time.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use plimsoll_lab::{
    lab::{Progress, Silent, Stderr},
    sim::{SimOptions, Simulated, repeat, run},
};

use crate::{
    args::Sim,
    interrupt,
    lab::{keep, keepable, load, overrides},
    run::recordable,
    say::{self, Note},
};

pub(crate) fn sim(args: &Sim) -> Result<ExitCode> {
    let topology = load(&args.run.lab, &overrides(&args.run.overriding)?)?;
    recordable(args.run.record.as_ref())?;
    keepable(args.run.clocks.as_deref())?;
    let stop = interrupt::flag()?;
    let (loud, silent) = (Stderr::new(), Silent);
    let progress: &dyn Progress = if args.run.quiet { &silent } else { &loud };
    let since = Instant::now();
    let code = match args.repeat {
        Some(runs) => {
            let (repeated, cost) = repeat(&topology, runs as usize, &stop)?;
            say::result(&repeated, args.run.json)?;
            tell(args, &cost, since);
            repeated.exit_code()
        }
        None => {
            let options = SimOptions { record: args.run.record.clone(), ..SimOptions::default() };
            let mut simulated = run(&topology, options, progress, &stop)?;
            keep(&mut simulated.outcome, args.run.clocks.as_deref());
            say::result(&simulated.outcome, args.run.json)?;
            tell(args, std::slice::from_ref(&simulated), since);
            simulated.outcome.exit_code()
        }
    };
    Ok(ExitCode::from(code))
}

/// What it cost: on standard error, since it differs from run to run while the result does not.
fn tell(args: &Sim, runs: &[Simulated], since: Instant) {
    if args.run.quiet {
        return;
    }
    let took = since.elapsed().as_secs_f64();
    let events: u64 = runs.iter().map(|run| run.events).sum();
    let simulated: f64 = runs.iter().map(|run| run.simulated.as_secs_f64()).sum();
    writeln!(
        Note,
        "{events} events in {took:.2} s: {:.2} million a second, {:.1} times real time",
        events as f64 / took / 1e6,
        simulated / took
    );
}
