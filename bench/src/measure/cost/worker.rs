//! The paper's Fig. 2 of this switch: how long a Sync stays in it, and what CPU its worker takes, with marks off, with
//! marks, and as a transparent clock. The worker sleeps when there is nothing to do, so that its CPU says something.

use super::GROUP;
use crate::{
    cpu_time::ThreadTime,
    facts::Facts,
    frames::{ETHERTYPE_PTP, SHORTEST, sync},
    kernel::{Emitter, clock_ns},
    report::{Asked, Row},
    stage::{Setup, Stack, Stage, port_name},
    statistics::Percentiles,
};
use anyhow::Result;
use plimsoll_core::{MarkConfig, MarkOutcome, PortConfig, Rate};
use plimsoll_port::worker::{Fate, RecordWhat, Records};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const RATE: Rate = Rate(1_000_000_000);
/// Sync messages a second: every frame is one.
const PER_SECOND: f64 = 20_000.0;
/// Less than a message waits for the one that came with it.
const MARK: MarkConfig = MarkConfig::new(32, 100_000);
/// Before the measurement, and how often records are read.
const WARM_UP: Duration = Duration::from_millis(300);
const DRAIN: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    Marks,
    Transparent,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Off, Self::Marks, Self::Transparent];

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "marks off",
            Self::Marks => "marks on",
            Self::Transparent => "transparent clock",
        }
    }
}

/// What a round gave.
struct Round {
    residence: Percentiles,
    /// Share of the worker's CPU.
    cpu: f64,
    /// Share of messages with r > 0.
    marked: f64,
}

pub(super) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut done = Mode::ALL.map(|mode| (mode, Vec::new()));
    for _ in 0..rounds {
        for (mode, rounds) in &mut done {
            rounds.push(run(facts, *mode, span)?);
        }
    }
    let mut rows = Vec::new();
    for (mode, rounds) in done {
        let row = |what: &str, unit, pick: &dyn Fn(&Round) -> f64| {
            let what = format!("switch at {:.0} kpps of Sync, {}: {what}", PER_SECOND / 1000.0, mode.name());
            Row::new(GROUP, what, unit, Asked::Nothing, rounds.iter().map(pick).collect())
        };
        let last = rounds.last().map_or(String::new(), |round| {
            format!("{}; {:.0} % with r > 0", round.residence, round.marked * 100.0)
        });
        rows.push(row("residence, p50", "us", &|round| round.residence.p50_ns as f64 / 1000.0).note(last));
        rows.push(row("worker's CPU", "%", &|round| round.cpu * 100.0));
    }
    Ok(rows)
}

fn run(facts: &Facts, mode: Mode, span: Duration) -> Result<Round> {
    let stage = Stage::new(2, Stack::Silent)?;
    let [sender, receiver] = &stage.hosts[..] else { unreachable!("two hosts") };
    let port = |number| PortConfig {
        rate: Some(RATE),
        mark: (mode == Mode::Marks).then_some(MARK),
        transparent_clock: mode == Mode::Transparent,
        ..PortConfig::new(port_name(number))
    };
    let records = Records::new(1 << 16, RecordWhat::Sync);
    let setup = Setup { records: Some(records.clone()), adaptive: true, ..Setup::default() };
    let worker = stage.switch(facts.worker_cpu, vec![port(0), port(1)], &setup)?;
    stage.announce(1)?;
    let time = ThreadTime::of("plimsoll-worker")?;
    let frame = sync(receiver.mac, sender.mac, ETHERTYPE_PTP, SHORTEST, 0);
    let mut emitter = Emitter::new(sender, frame, 1)?;
    let stop = AtomicBool::new(false);
    let (mut residence, mut marked) = (Vec::new(), 0_u64);
    let cpu = thread::scope(|scope| {
        let source = scope.spawn(|| sender.namespace.run_in(|| emitter.pace(&stop, PER_SECOND))?);
        thread::sleep(WARM_UP);
        while records.pop().is_some() {}
        let (spent, from) = (time.read_ns()?, clock_ns());
        let until = Instant::now() + span;
        while Instant::now() < until {
            thread::sleep(DRAIN);
            while let Some(record) = records.pop() {
                if let Fate::Sent(sent) = record.fate {
                    residence.push(sent.released.since(record.stamp));
                    marked += u64::from(sent.mark.outcome == MarkOutcome::Marked);
                }
            }
        }
        let cpu = (time.read_ns()? - spent) as f64 / (clock_ns() - from) as f64;
        stop.store(true, Ordering::Relaxed);
        source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        anyhow::Ok(cpu)
    })?;
    worker.stop()?;
    let marked = marked as f64 / residence.len().max(1) as f64;
    Ok(Round { residence: Percentiles::of(residence), cpu, marked })
}
