//! `plimsoll sim`: a lab in virtual time.

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use anyhow::Result;
use plimsoll_lab::{
    lab::{Progress, Silent, Stderr},
    sim::{SimOptions, Simulated, repeat, run},
};

use crate::{
    args::Sim,
    lab::{load, overrides},
    say::{Note, Out},
};

pub(crate) fn sim(args: &Sim) -> Result<ExitCode> {
    let topology = load(&args.lab, &overrides(&args.overriding)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (loud, silent) = (Stderr::new(), Silent);
    let progress: &dyn Progress = if args.quiet { &silent } else { &loud };
    let since = Instant::now();
    let code = match args.repeat {
        Some(runs) => {
            let (repeated, cost) = repeat(&topology, runs as usize, &stop)?;
            print(&repeated, args.json)?;
            tell(args, &cost, since);
            repeated.exit_code()
        }
        None => {
            let options = SimOptions { record: args.record.clone(), ..SimOptions::default() };
            let simulated = run(&topology, options, progress, &stop)?;
            print(&simulated.outcome, args.json)?;
            tell(args, std::slice::from_ref(&simulated), since);
            simulated.outcome.exit_code()
        }
    };
    Ok(ExitCode::from(code))
}

fn print<T: serde::Serialize + std::fmt::Display>(result: &T, json: bool) -> Result<()> {
    if json {
        writeln!(Out, "{}", serde_json::to_string_pretty(result)?)?;
    } else {
        write!(Out, "{result}")?;
    }
    Ok(())
}

/// What it cost: on standard error, since it differs from run to run while the result does not.
fn tell(args: &Sim, runs: &[Simulated], since: Instant) {
    if args.quiet {
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
