//! Is the rate on the emulated wire the one that was asked for, and are departures evenly spaced? Judged by a tap on
//! the receiving host; beside it HTB on a Linux bridge, the way to limit a rate that Linux has.

use crate::{
    facts::Facts,
    frames::{ETHERTYPE_BULK, LONGEST, SHORTEST, sync},
    kernel::Emitter,
    report::{Asked, Row},
    stage::{Setup, Stack, Stage, port_name},
    statistics::Percentiles,
    taps::Taps,
};
use anyhow::{Result, ensure};
use plimsoll_core::{PortConfig, Rate, config::wire_octets};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const GROUP: &str = "rate";
/// The target.
const ERROR: f64 = 0.001;
/// How much more than the rate is offered.
const OVERLOAD: f64 = 1.25;
/// Octets without FCS of the frame that is 512 octets long with it.
const MEDIUM: u32 = 508;
const WARM_UP: Duration = Duration::from_millis(400);
/// How often the tap is emptied.
const DRAIN: Duration = Duration::from_millis(2);

/// Rates in bit/s on the wire, and frame lengths at each.
const CASES: [(u64, &[u32]); 3] = [
    (10_000_000, &[SHORTEST, MEDIUM, LONGEST]),
    (100_000_000, &[SHORTEST, MEDIUM, LONGEST]),
    (1_000_000_000, &[MEDIUM, LONGEST]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Middle {
    Switch,
    Htb,
}

/// One of the percentiles.
type Pick = fn(&Percentiles) -> u64;

/// What one round gave.
struct Round {
    /// Measured over asked, less 1.
    error: f64,
    spacing: Percentiles,
    /// Offered over what the rate takes: if not above 1, the port was not overloaded.
    offered: f64,
}

pub(crate) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (rate, lens) in CASES {
        for &len in lens {
            rows.extend(measure_case(facts, rounds, span, rate, len)?);
        }
    }
    Ok(rows)
}

fn measure_case(facts: &Facts, rounds: usize, span: Duration, rate: u64, len: u32) -> Result<Vec<Row>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(run(facts, Middle::Switch, rate, len, span)?);
        theirs.push(run(facts, Middle::Htb, rate, len, span)?);
    }
    let wire_us = wire_ns(rate, len) / 1000.0;
    let name = format!("{} Mbit/s, {len} B", rate / 1_000_000);
    let errors = |of: &[Round]| of.iter().map(|round| round.error.abs() * 100.0).collect();
    let spacing = |of: &[Round], pick: Pick| {
        of.iter().map(|round| pick(&round.spacing) as f64 / 1000.0).collect::<Vec<_>>()
    };
    let idle = ours.iter().any(|round| round.offered < 1.05);
    let mut rows = vec![
        Row::new(GROUP, format!("{name}: error"), "%", Asked::AtMost(ERROR * 100.0), errors(&ours))
            .void_if(idle, "the port was not overloaded: let nothing else run"),
        Row::new(GROUP, format!("{name}: error, HTB"), "%", Asked::Nothing, errors(&theirs)),
    ];
    let picks: [(&str, Pick); 3] = [("p50", |p| p.p50_ns), ("p90", |p| p.p90_ns), ("p99", |p| p.p99_ns)];
    for (label, pick) in picks {
        let htb = crate::statistics::median(&spacing(&theirs, pick));
        rows.push(
            Row::new(
                GROUP,
                format!("{name}: spacing off by, {label}"),
                "us",
                Asked::Nothing,
                spacing(&ours, pick),
            )
            .note(format!("HTB {htb:.2} us; ideal spacing {wire_us:.2} us")),
        );
    }
    Ok(rows)
}

/// Wire time of a frame, ns.
fn wire_ns(rate: u64, len: u32) -> f64 {
    f64::from(wire_octets(len)) * 8e9 / rate as f64
}

fn run(facts: &Facts, middle: Middle, rate: u64, len: u32, span: Duration) -> Result<Round> {
    let stage = Stage::new(2, Stack::Silent)?;
    let [sender, receiver] = &stage.hosts[..] else { unreachable!("two hosts") };
    let worker = match middle {
        Middle::Switch => {
            let port = |number| PortConfig { rate: Some(Rate(rate)), ..PortConfig::new(port_name(number)) };
            Some(stage.switch(facts.worker_cpu, vec![port(0), port(1)], &Setup::default())?)
        }
        Middle::Htb => {
            stage.bridge()?;
            stage.htb(1, rate)?;
            stage.poll_port(0)?;
            None
        }
    };
    stage.announce(1)?;
    let mut taps = Taps::new()?;
    taps.ingress(receiver)?;
    let frame = sync(receiver.mac, sender.mac, ETHERTYPE_BULK, len, 0);
    let per_second = OVERLOAD * 1e9 / wire_ns(rate, len);
    let mut emitter = Emitter::new(sender, frame, 0)?;
    let stop = AtomicBool::new(false);
    let (times, sent_per_second) = thread::scope(|scope| {
        let source = scope.spawn(|| {
            sender.namespace.run_in(|| {
                let start = Instant::now();
                emitter.pace(&stop, per_second)?;
                anyhow::Ok(emitter.emitted()?.bulk as f64 / start.elapsed().as_secs_f64())
            })?
        });
        let times = collect(&mut taps, len, span);
        stop.store(true, Ordering::Relaxed);
        let sent = source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        anyhow::Ok((times, sent))
    })?;
    taps.check()?;
    ensure!(times.len() > 2, "no frames arrived");
    if let Some(worker) = worker {
        worker.stop()?;
    }
    let offered = sent_per_second * wire_ns(rate, len) / 1e9;
    Ok(Round { offered, ..judge(&times, rate, len) })
}

/// Arrival times in ns during `span`.
fn collect(taps: &mut Taps, len: u32, span: Duration) -> Vec<u64> {
    let mut times = Vec::new();
    thread::sleep(WARM_UP);
    taps.drain(|_| ());
    let until = Instant::now() + span;
    while Instant::now() < until {
        thread::sleep(DRAIN);
        taps.drain(|record| {
            if record.len == len {
                times.push(record.time);
            }
        });
    }
    times.sort_unstable();
    times
}

fn judge(times: &[u64], rate: u64, len: u32) -> Round {
    let ideal = wire_ns(rate, len);
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
    let spacing = gaps.map(|gap| (gap - ideal).abs() as u64).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let measured = (times.len() - 1) as f64 * f64::from(wire_octets(len)) * 8e9 / (last - first) as f64;
    Round { error: measured / rate as f64 - 1.0, spacing: Percentiles::of(spacing), offered: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_departures_have_no_error_and_uneven_ones_are_seen() {
        // 1514 B at 100 Mbit/s: 123.04 us.
        let even: Vec<u64> = (0..1000).map(|n| n * 123_040).collect();
        let round = judge(&even, 100_000_000, 1514);
        assert!(round.error.abs() < 1e-9, "{}", round.error);
        assert_eq!(round.spacing.max_ns, 0);
        let fast: Vec<u64> = (0..1000).map(|n| n * 123_000 + (n % 2) * 10_000).collect();
        let round = judge(&fast, 100_000_000, 1514);
        assert!(round.error > 0.0002, "{}", round.error);
        assert!(round.spacing.p50_ns > 9_000, "{:?}", round.spacing);
    }
}
