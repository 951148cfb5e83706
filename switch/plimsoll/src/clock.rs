//! `plimsoll clock`: one end of a PTP or NTP exchange, as an instrument. No clock is ever set.

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
use plimsoll_core::{Span, config::MAX_COUNT};
use plimsoll_lab::clock::{
    Client, ClientConfig, ClientCounters, ClockReport, ClockSample, DEFAULT_INTERVAL, DEFAULT_WINDOW,
    DelayMechanism, FilterChoice, MarkScale, NtpClient, NtpServer, OffsetStatistics, Saturation, Server,
    ServerConfig, Stamps, Transport,
};
use plimsoll_model::Filter;
use serde_json::json;

use crate::{
    Usage,
    args::{Clock, FilterArg, Role},
    interrupt,
    say::{Note, Out},
};

pub(crate) fn clock(args: &Clock) -> Result<ExitCode> {
    check(args)?;
    let stop = interrupt::flag()?;
    if let Some(duration) = args.duration {
        stop_after(duration, &stop);
    }
    match args.role {
        Role::Server => server(args, &stop),
        Role::Client => client(args, &stop),
    }
}

/// Refuses what does not go together, before anything is opened.
fn check(args: &Clock) -> Result<()> {
    let refuse = |text: &str| Err(Usage(text.into()).into());
    let ntp = args.transport.is_ntp();
    match (args.role, args.server) {
        (Role::Client, None) if ntp => {
            return refuse("--server: an NTP client needs one to ask; write its address");
        }
        (Role::Client, Some(server)) if ntp && server.is_ipv4() != (args.transport == Transport::NtpV4) => {
            return refuse(
                "--server: its address is not of the transport's family; write ntp4 or ntp6 accordingly",
            );
        }
        (_, Some(_)) if !ntp || args.role == Role::Server => {
            return refuse(
                "--server: is of an NTP client; PTP clients find theirs by multicast. Leave it out",
            );
        }
        _ => {}
    }
    let server = args.role == Role::Server;
    for (given, option, whose) in [
        (ntp && args.delay_mechanism.is_some(), "--delay-mechanism", "is of PTP alone"),
        (ntp && args.domain.is_some(), "--domain", "is of PTP alone"),
        (server && ntp && args.delta.is_some(), "--delta", "an NTP server sends marks back as they came"),
        (server && ntp && args.interval.is_some(), "--interval", "an NTP server speaks when it is asked"),
        (
            server && args.delay_mechanism.is_some(),
            "--delay-mechanism",
            "is of a client; a server answers both",
        ),
        (server && args.counter_max.is_some(), "--counter-max", "is of a client"),
        (server && args.filter.is_some(), "--filter", "is of a client"),
    ] {
        if given {
            return refuse(&format!("{option}: {whose}; leave it out"));
        }
    }
    if ntp && args.timestamps == Stamps::Hardware {
        return refuse("--timestamps: an NTP packet says by the system's clock when it leaves; leave it out");
    }
    Ok(())
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
    let config = ServerConfig {
        domain: args.domain.unwrap_or(0),
        stamps: args.timestamps,
        interval: interval(args),
        compensate_ps: args.delta.map(|delta| delta.ps),
        ..ServerConfig::new(&args.interface, args.transport)
    };
    let (protocol, transport) = (protocol(args), args.transport);
    let told = || {
        writeln!(Note, "{protocol} server on {}, {transport}; SIGINT ends it", args.interface);
    };
    let report = if transport.is_ntp() {
        let mut server = NtpServer::open(config)?;
        told();
        server.run(stop)?
    } else {
        let mut server = Server::open(config)?;
        told();
        server.run(stop)?
    };
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else if transport.is_ntp() {
        writeln!(Out, "{} requests answered", report.delay_requests)?;
    } else {
        writeln!(Out, "{} Syncs sent, {} requests answered", report.syncs, report.delay_requests)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn protocol(args: &Clock) -> &'static str {
    if args.transport.is_ntp() { "NTP" } else { "PTP" }
}

fn interval(args: &Clock) -> Duration {
    args.interval.map_or(DEFAULT_INTERVAL, |interval| Duration::from_nanos(interval.nanos()))
}

/// What a mark means. Without delta it counts for nothing.
fn scale(args: &Clock) -> MarkScale {
    MarkScale {
        delta_ps: args.delta.map_or(0, |delta| delta.ps),
        saturated_at: Saturation::both(args.counter_max.unwrap_or(MAX_COUNT)),
    }
}

/// Measures until the end; the exchanges, and what came to nothing.
fn measure(args: &Clock, stop: &AtomicBool) -> Result<(Vec<ClockSample>, ClientCounters)> {
    let config = ClientConfig {
        domain: args.domain.unwrap_or(0),
        stamps: args.timestamps,
        delay: args.delay_mechanism.unwrap_or(DelayMechanism::E2e),
        interval: interval(args),
        ..ClientConfig::new(&args.interface, args.transport)
    };
    let scale = scale(args);
    let (protocol, transport) = (protocol(args), args.transport);
    let told = || {
        writeln!(Note, "{protocol} client on {}, {transport}, free running; SIGINT ends it", args.interface);
    };
    Ok(match args.server {
        Some(server) => {
            let mut client = NtpClient::open(config, server)?;
            told();
            let seen = client.run(stop)?;
            (seen.samples(scale), seen.counters)
        }
        None => {
            let mut client = Client::open(config)?;
            told();
            let seen = client.run(stop)?;
            (seen.samples(scale), seen.counters)
        }
    })
}

fn client(args: &Clock, stop: &AtomicBool) -> Result<ExitCode> {
    let (samples, counters) = measure(args, stop)?;
    if samples.is_empty() {
        let c = counters;
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
    let filter = args.filter.unwrap_or(FilterArg::None);
    let choice = FilterChoice { filter: filter.into(), window: args.window.unwrap_or(DEFAULT_WINDOW) };
    let report =
        ClockReport::new(&args.interface, "plimsoll", args.transport, &samples).filtered(choice, &samples);
    if args.json {
        let all = json!({ "report": report, "counters": counters, "samples": samples });
        writeln!(Out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(Out, "{} exchanges", report.samples)?;
    let marks = args.delta.is_some();
    figures("", marks, &report.raw, &report.compensated, report.improvement)?;
    if let Some(filtered) = &report.filtered {
        writeln!(Out, "{} of the last {}", choice.filter.name(), choice.window)?;
        figures("filtered, ", marks, &filtered.raw, &filtered.compensated, filtered.improvement)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn figures(
    what: &str,
    marks: bool,
    raw: &OffsetStatistics,
    compensated: &OffsetStatistics,
    improvement: f64,
) -> Result<()> {
    let line = |kind: &str, s: &OffsetStatistics| {
        writeln!(
            Out,
            "{:<29}rms {:>9.1} us  median {:>9.1} us  p99 of |offset| {:>9.1} us",
            format!("offset, {what}{kind}"),
            us(s.rms_ns),
            us(s.median_ns),
            us(s.abs_p99_ns)
        )
    };
    line("raw", raw)?;
    if marks {
        line("compensated", compensated)?;
        writeln!(Out, "{:<29}{:.1} %", "improvement", 100.0 * improvement)?;
    }
    Ok(())
}

impl From<FilterArg> for Filter {
    fn from(arg: FilterArg) -> Self {
        match arg {
            FilterArg::None => Self::None,
            FilterArg::MedianDelay => Self::MedianDelay,
            FilterArg::MeanDelay => Self::MeanDelay,
            FilterArg::MedianOffset => Self::MedianOffset,
            FilterArg::MeanOffset => Self::MeanOffset,
            FilterArg::MinRtt => Self::MinRtt,
        }
    }
}

fn us(ns: f64) -> f64 {
    ns / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn read(rest: &str) -> Result<Clock, String> {
        let all = format!("plimsoll clock --interface a {rest}");
        let args = Args::try_parse_from(all.split_whitespace()).map_err(|error| error.to_string())?;
        match args.command {
            Command::Clock(clock) => Ok(clock),
            _ => Err("another command".into()),
        }
    }

    #[test]
    fn a_client_believes_no_more_than_it_is_told() {
        let of = |rest: &str| read(&format!("--role client {rest}")).map(|clock| scale(&clock).saturated_at);
        assert_eq!(of("--delta 10us --counter-max 128"), Ok(Saturation::both(128)));
        assert_eq!(of("--delta 10us"), Ok(Saturation::both((1 << 30) - 1)));
        for (rest, told) in [
            ("--delta 10us --counter-max 0", "write 1 to 1073741823"),
            ("--delta 10us --counter-max 1073741824", "write 1 to 1073741823"),
            ("--counter-max 5", "--delta"),
        ] {
            assert!(of(rest).is_err_and(|error| error.contains(told)), "{rest}");
        }
    }

    #[test]
    fn intervals_are_those_of_labs() {
        for (text, taken) in
            [("0us", false), ("400ps", false), ("999us", false), ("1ms", true), ("10s", true), ("11s", false)]
        {
            let read = read(&format!("--role server --interval {text}"));
            assert_eq!(read.is_ok(), taken, "{text}");
            assert!(read.map_or_else(|error| error.contains("write 1ms to 10s"), |_| true), "{text}");
        }
        assert!(read("--role server --interval 15").is_err_and(|error| error.contains("unit")));
    }

    #[test]
    fn what_means_nothing_to_a_role_is_refused_in_one_line() {
        let told = |rest: &str| {
            let checked = read(rest).and_then(|clock| check(&clock).map_err(|error| error.to_string()));
            checked.err().unwrap_or_default()
        };
        for (rest, expected) in [
            (
                "--role server --transport ntp4 --delta 10us",
                "--delta: an NTP server sends marks back as they came",
            ),
            (
                "--role server --transport ntp4 --interval 1s",
                "--interval: an NTP server speaks when it is asked",
            ),
            ("--role server --transport ntp6 --domain 0", "--domain: is of PTP alone"),
            ("--role client --transport ntp4 --server 10.0.0.1 --domain 1", "--domain: is of PTP alone"),
            (
                "--role client --transport ntp4 --server 10.0.0.1 --delay-mechanism e2e",
                "--delay-mechanism: is of PTP",
            ),
            (
                "--role server --delay-mechanism p2p",
                "--delay-mechanism: is of a client; a server answers both",
            ),
            ("--role server --filter min-rtt", "--filter: is of a client"),
            ("--role server --delta 10us --counter-max 9", "--counter-max: is of a client"),
        ] {
            let told = told(rest);
            assert!(told.starts_with(expected) && told.ends_with("; leave it out"), "{rest}: {told}");
        }
        assert!(told("--role client --window 8").contains("--filter"));
        for rest in [
            "--role server --delta 10us --interval 1s --domain 3",
            "--role server --transport ntp4",
            "--role client --filter min-rtt --window 8 --delay-mechanism p2p",
            "--role client --transport ntp4 --server 10.0.0.1 --interval 1s --delta 10us",
        ] {
            assert_eq!(told(rest), "", "{rest}");
        }
    }
}
