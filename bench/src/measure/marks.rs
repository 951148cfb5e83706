//! Are the marks right? One hop at 100 Mbit/s, Poisson cross traffic from one host and Sync messages from another, both
//! to a third. Every Sync's r is computed again twice, by a naive FIFO: from the stamps of the ports' own XDP programs
//! (which proves the switch's arithmetic), and from taps on the hosts' own ends (which proves the whole).

use crate::{
    facts::Facts,
    frames,
    hop::{Cross, Hop, Watched},
    judge::{Scale, Wrong},
    messages::{Carrier, Message},
    report::{Asked, Row},
    statistics::Percentiles,
};
use anyhow::{Result, ensure};
use plimsoll_core::{MarkConfig, Rate};
use plimsoll_lab::traffic::FlowKind;
use plimsoll_port::worker::Lateness;
use std::time::Duration;

const GROUP: &str = "marks";
/// The delay of one mark: a full frame's wire time, rounded.
const SCALE: Scale = Scale { delta_ps: 120_000_000, thresholds: 128 };
/// Share of the link that cross traffic takes.
const LOADS: [f64; 2] = [0.7, 0.9];

/// What one round gave.
struct Round {
    by_ports: Wrong,
    by_taps: Wrong,
    late: Lateness,
    /// How long after its ideal end + L a frame reached the receiver's tap.
    delivered: Percentiles,
    inversions: u64,
}

pub(crate) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for load in LOADS {
        let mut done = Vec::new();
        for round in 0..rounds {
            done.push(run(facts, load, span, round as u64)?);
        }
        rows.extend(describe(load, &done));
    }
    Ok(rows)
}

fn describe(load: f64, rounds: &[Round]) -> Vec<Row> {
    let name = format!("load {:.0} %", load * 100.0);
    // Rare events: all rounds together, not their median.
    let sum = |pick: fn(&Round) -> Wrong| rounds.iter().map(pick).fold(Wrong::default(), Wrong::and);
    let (ports, taps) = (sum(|r| r.by_ports), sum(|r| r.by_taps));
    let inversions: u64 = rounds.iter().map(|r| r.inversions).sum();
    let row =
        |what: &str, unit, asked, rounds| Row::new(GROUP, format!("{name}: {what}"), unit, asked, rounds);
    let late =
        |pick: fn(&Lateness) -> u64| rounds.iter().map(|r| pick(&r.late) as f64 / 1000.0).collect::<Vec<_>>();
    vec![
        row(
            "wrong by the ports' stamps, per 10,000",
            "",
            Asked::AtMost(1.0),
            vec![ports.share(ports.wrong) * 1e4],
        )
        .note(format!(
            "{} of {} wrong, {} by more than one; inversions {inversions}",
            ports.wrong, ports.checked, ports.far
        )),
        row("wrong by the hosts' taps", "%", Asked::AtMost(2.0), vec![taps.share(taps.wrong) * 100.0])
            .note(format!("{} of {}", taps.wrong, taps.checked)),
        row("of all: wrong by more than one", "%", Asked::AtMost(0.0), vec![taps.share(taps.far) * 100.0])
            .note(format!("{} of {}", taps.far, taps.checked)),
        row(
            "of all: wrong, over 5 us from a threshold",
            "%",
            Asked::AtMost(0.5),
            vec![taps.share(taps.outside) * 100.0],
        )
        .note(format!("{} of {}", taps.outside, taps.checked)),
        row(
            "released within 1 us",
            "%",
            Asked::AtLeast(97.5),
            rounds.iter().map(|r| r.late.within_1us * 100.0).collect(),
        )
        .note("of ideal + L, all frames of the congested port"),
        row("release late, p50", "us", Asked::Nothing, late(|l| l.p50_ns)),
        row("release late, p99", "us", Asked::Nothing, late(|l| l.p99_ns)),
        row("release late, p99.9", "us", Asked::Nothing, late(|l| l.p999_ns)),
        row("release late, max", "us", Asked::Nothing, late(|l| l.max_ns)),
        row(
            "at the receiver's tap after ideal + L, p50",
            "us",
            Asked::Nothing,
            rounds.iter().map(|r| r.delivered.p50_ns as f64 / 1000.0).collect(),
        )
        .note(rounds.last().map_or(String::new(), |r| r.delivered.to_string())),
    ]
}

fn run(facts: &Facts, load: f64, span: Duration, seed: u64) -> Result<Round> {
    let hop = Hop {
        rate: Rate(100_000_000),
        load,
        cross: Cross::Udp(FlowKind::Poisson),
        mark: MarkConfig::new(SCALE.thresholds, SCALE.delta_ps),
        ecn: None,
        correct_lateness: false,
        sync: Message::sync(Carrier::Ptp, 0),
        sync_per_second: 1500.0,
        span,
        seed,
    };
    let seen = hop.watch(facts)?;
    ensure!(
        seen.lost_before == 0,
        "{} frames were lost before the switch: the FIFO does not know which",
        seen.lost_before
    );
    let judged = |wait: fn(&Watched) -> u128, found: fn(&Watched) -> Option<u32>| {
        let mut wrong = Wrong::default();
        for sync in &seen.syncs {
            wrong.count(SCALE, wait(sync), found(sync).unwrap_or(u32::MAX));
        }
        wrong
    };
    // What the switch says it found must be what the message left with.
    let by_switch = |sync: &Watched| frames::count(sync.left_with).filter(|left| *left == sync.r);
    Ok(Round {
        by_ports: judged(|sync| sync.wait_by_ports, by_switch),
        by_taps: judged(|sync| sync.wait_by_taps, |sync| frames::count(sync.arrived.word)),
        delivered: Percentiles::of(seen.syncs.iter().map(|sync| sync.late_ns).collect()),
        late: seen.late,
        inversions: seen.inversions,
    })
}
