//! Sync messages among bulk traffic that is many times what the port can send: none that reached XDP may be lost.

use crate::{
    facts::Facts,
    frames::{ETHERTYPE_PTP, LONGEST, SHORTEST, sync},
    kernel::{Emitted, Emitter, Sink, Sunk},
    report::{Asked, Row},
    stage::{Host, Setup, Stack, Stage, port_name},
};
use anyhow::{Result, ensure};
use plimsoll_core::{PortConfig, Rate, config::wire_octets};
use plimsoll_port::worker::Snapshot;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

const GROUP: &str = "overload";
const RATE: Rate = Rate(100_000_000);
/// Bulk offered, as a multiple of the rate.
const TIMES: f64 = 5.0;
const SYNC_PER_SECOND: f64 = 1000.0;
/// What is queued at the end leaves within this.
const DRAIN: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Five times the rate.
    Paced,
    /// As much as the source can.
    Flood,
}

struct Case {
    what: &'static str,
    rate: Option<Rate>,
    load: Load,
    len: u32,
}

const CASES: [Case; 3] = [
    Case { what: "five times 100 Mbit/s, 1514 B", rate: Some(RATE), load: Load::Paced, len: LONGEST },
    Case { what: "flood, 100 Mbit/s, 60 B", rate: Some(RATE), load: Load::Flood, len: SHORTEST },
    Case { what: "flood, no rate, 60 B", rate: None, load: Load::Flood, len: SHORTEST },
];

pub(crate) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in &CASES {
        let (mut lost, mut before, mut notes) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..rounds {
            let round = run(facts, case, span)?;
            lost.push(round.lost_after_xdp() as f64);
            before.push((round.emitted.sync - round.at_xdp()) as f64);
            notes = round.note(case);
        }
        // Not one in any round: the largest counts, not the median.
        let worst = lost.iter().fold(0.0, |a: f64, &b| a.max(b));
        let what = format!("{}: Sync lost after XDP, worst round", case.what);
        rows.push(Row::new(GROUP, what, "", Asked::AtMost(0.0), vec![worst]).note(notes));
        let what = format!("{}: Sync lost before XDP (counted)", case.what);
        rows.push(Row::new(GROUP, what, "", Asked::Nothing, before));
    }
    Ok(rows)
}

struct Round {
    emitted: Emitted,
    snapshot: Snapshot,
    sunk: Sunk,
    span: Duration,
}

impl Round {
    fn at_xdp(&self) -> u64 {
        self.snapshot.switches[0].ports[0].counters.map_or(0, |c| c.xdp_express)
    }

    fn lost_after_xdp(&self) -> u64 {
        self.at_xdp().saturating_sub(self.sunk.unmarked + self.sunk.marked)
    }

    fn note(&self, case: &Case) -> String {
        let node = &self.snapshot.switches[0];
        let [ingress, egress] = [0, 1].map(|port| node.ports[port].counters.unwrap_or_default());
        let capacity = match case.rate {
            Some(rate) => rate.0 as f64 / 8.0 / f64::from(wire_octets(case.len)) * self.span.as_secs_f64(),
            None => self.sunk.frames() as f64,
        };
        let drops: Vec<String> = node
            .stats
            .ports
            .iter()
            .flat_map(|port| port.drops.iter().filter(|(_, n)| *n > 0))
            .map(|(reason, n)| format!("{reason} {n}"))
            .collect();
        format!(
            "bulk at XDP {:.1} times capacity; Sync: {} sent, {} at XDP, {} taken, {} received; express ring full {}, fill \
             ring empty {}, bulk ring full {}, over quota {}, tx refused {}, core drops: {}",
            ingress.xdp_bulk as f64 / capacity,
            self.emitted.sync,
            ingress.xdp_express,
            ingress.rx_express,
            self.sunk.unmarked + self.sunk.marked,
            ingress.express_ring_full,
            ingress.fill_ring_empty,
            ingress.bulk_ring_full,
            ingress.over_quota,
            egress.tx_refused,
            if drops.is_empty() { "none".into() } else { drops.join(", ") },
        )
    }
}

fn run(facts: &Facts, case: &Case, span: Duration) -> Result<Round> {
    let stage = Stage::new(2, Stack::Silent)?;
    let [sender, receiver] = &stage.hosts[..] else { unreachable!("two hosts") };
    let port =
        |number| PortConfig { rate: case.rate, sync_class: Some(7), ..PortConfig::new(port_name(number)) };
    let worker = stage.switch(facts.worker_cpu, vec![port(0), port(1)], &Setup::default())?;
    let sink = Sink::new(receiver)?;
    stage.announce(1)?;
    let frame = sync(receiver.mac, sender.mac, ETHERTYPE_PTP, case.len, 0);
    let bulk_per_second = match case.load {
        Load::Paced => TIMES * RATE.0 as f64 / 8.0 / f64::from(wire_octets(case.len)),
        Load::Flood => {
            let mut trial = Emitter::new(sender, frame.clone(), 0)?;
            let spent = Duration::from_millis(500);
            emit(&mut trial, sender, spent, |emitter, stop| emitter.flood(stop))?;
            trial.emitted()?.bulk as f64 / spent.as_secs_f64()
        }
    };
    let before = worker.snapshot()?;
    let sunk_before = sink.read()?;
    let sync_every = (bulk_per_second / SYNC_PER_SECOND).round().max(2.0);
    let mut emitter = Emitter::new(sender, frame, sync_every as u32)?;
    emit(&mut emitter, sender, span, |emitter, stop| match case.load {
        Load::Paced => emitter.pace(stop, bulk_per_second + SYNC_PER_SECOND),
        Load::Flood => emitter.flood(stop),
    })?;
    thread::sleep(DRAIN);
    let sunk = sink.read()?;
    let express = |snapshot: &Snapshot| snapshot.switches[0].ports[0].counters.map_or(0, |c| c.xdp_express);
    ensure!(express(&before) == 0 && sunk_before.marked + sunk_before.unmarked == 0, "Sync before the start");
    let emitted = emitter.emitted()?;
    ensure!(emitted.sync > 0, "no Sync was sent");
    Ok(Round { emitted, snapshot: worker.stop()?, sunk, span })
}

/// Lets a source work for `span`.
fn emit(
    emitter: &mut Emitter,
    host: &Host,
    span: Duration,
    work: impl FnOnce(&mut Emitter, &AtomicBool) -> Result<()> + Send,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let source = scope.spawn(|| host.namespace.run_in(|| work(emitter, &stop))?);
        thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
        source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
