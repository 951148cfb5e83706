//! `plimsoll clock`: one end of a PTP exchange, as an instrument. No clock is ever set.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use plimsoll_core::Span;
use plimsoll_lab::clock::{Client, ClientConfig, ClockReport, MarkScale, Server, ServerConfig};
use serde_json::json;

use crate::{
    args::{Clock, Role},
    interrupt,
    say::{Note, Out},
};

pub(crate) fn clock(args: &Clock) -> Result<ExitCode> {
    let stop = interrupt::flag()?;
    if let Some(duration) = args.duration {
        stop_after(duration, &stop);
    }
    match args.role {
        Role::Server => server(args, &stop),
        Role::Client => client(args, &stop),
    }
}

/// Raises the flag when the time is over. The thread ends with the process.
fn stop_after(duration: Span, stop: &Arc<AtomicBool>) {
    let (stop, end) = (Arc::clone(stop), Instant::now() + Duration::from_nanos(duration.nanos()));
    thread::spawn(move || {
        thread::sleep(end.saturating_duration_since(Instant::now()));
        stop.store(true, Ordering::Relaxed);
    });
}

fn server(args: &Clock, stop: &AtomicBool) -> Result<ExitCode> {
    let mut server = Server::open(ServerConfig {
        domain: args.domain,
        interval: Duration::from_nanos(args.interval.nanos()),
        compensate_ps: args.delta.map(|delta| delta.ps),
        ..ServerConfig::new(&args.interface, args.transport)
    })?;
    writeln!(Note, "PTP server on {}, {}; SIGINT ends it", args.interface, args.transport);
    let report = server.run(stop)?;
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(Out, "{} Syncs sent, {} Delay_Reqs answered", report.syncs, report.delay_requests)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn client(args: &Clock, stop: &AtomicBool) -> Result<ExitCode> {
    let mut client = Client::open(ClientConfig {
        domain: args.domain,
        interval: Duration::from_nanos(args.interval.nanos()),
        ..ClientConfig::new(&args.interface, args.transport)
    })?;
    writeln!(Note, "PTP client on {}, {}, free running; SIGINT ends it", args.interface, args.transport);
    let recording = client.run(stop)?;
    // Without delta a mark counts for nothing.
    let scale = MarkScale { delta_ps: args.delta.map_or(0, |delta| delta.ps), saturated_at: u32::MAX };
    let samples = recording.samples(scale);
    if samples.is_empty() {
        let c = recording.counters;
        bail!(
            "{}: no exchange was complete ({} Syncs incomplete, {} requests unanswered, {} frames without a stamp, {} \
             messages ignored); start `plimsoll clock --role server` on the other host, with the same transport and domain",
            args.interface,
            c.incomplete_syncs,
            c.unanswered_requests,
            c.syncs_without_stamp + c.requests_without_stamp,
            c.ignored
        );
    }
    let report = ClockReport::new(&args.interface, "plimsoll", args.transport, &samples);
    if args.json {
        let all = json!({ "report": report, "counters": recording.counters, "samples": samples });
        writeln!(Out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        writeln!(Out, "{} exchanges", report.samples)?;
        writeln!(
            Out,
            "offset, raw          rms {:>10.1} us  median {:>10.1} us",
            us(report.raw.rms_ns),
            us(report.raw.median_ns)
        )?;
        if args.delta.is_some() {
            let (c, i) = (&report.compensated, 100.0 * report.improvement);
            writeln!(
                Out,
                "offset, compensated  rms {:>10.1} us  median {:>10.1} us",
                us(c.rms_ns),
                us(c.median_ns)
            )?;
            writeln!(Out, "improvement          {i:.1} %")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}
