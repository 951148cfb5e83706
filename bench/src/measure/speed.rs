//! Frames a second through one worker: the switch beside a bare AF_XDP forwarder and a Linux bridge.
//!
//! The source sends from inside the kernel on the hosts' CPU, more than any of them forwards; the sink counts and drops
//! before the receiving host's stack. What is left is the worker: frames per second that it had its CPU. A Linux bridge
//! has no worker: it forwards on the source's CPU, within the time that the source leaves it, so its figure is per
//! second.

use crate::{
    cpu_time::ThreadTime,
    facts::{Facts, pin},
    forwarder::{self, Outcome},
    frames::{ETHERTYPE_PTP, LONGEST, SHORTEST, sync},
    kernel::{Emitted, Emitter, Sink, Sunk},
    report::{Asked, Row},
    stage::{Setup, Stack, Stage, port_name},
};
use anyhow::Result;
use plimsoll_core::{MarkConfig, PortConfig, Rate, config::wire_octets};
use plimsoll_port::{PortCounters, PortOptions, worker::Worker};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Scope, ScopedJoinHandle},
    time::Duration,
};

const GROUP: &str = "speed";
/// Name of the forwarder's thread.
const FORWARDER: &str = "forwarder";
/// Time before the measurement: caches, page pools, queues.
const WARM_UP: Duration = Duration::from_millis(300);
/// Wire time of a frame on the emulated link, ns: below what the machine forwards (1.6 Mpps), so that nothing is shaped
/// away, and above the distance of frames within one batch, so that frames wait and are marked.
const WIRE_NS: u64 = 620;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// AF_XDP, RX to TX, nothing else.
    Forwarder,
    /// No rate, no marks.
    Plain,
    /// Rate and marks on both ports.
    AllOn,
    /// The same without marks.
    Shaped,
    /// A Linux bridge.
    Bridge,
}

/// What is in the middle, and whether all frames are Sync messages.
const CASES: [(Middle, bool, &str); 6] = [
    (Middle::Forwarder, false, "bare AF_XDP forwarder"),
    (Middle::Plain, false, "switch, no rate"),
    (Middle::AllOn, false, "switch, all on, no frame markable"),
    (Middle::AllOn, true, "switch, all on, every frame a Sync and marked"),
    (Middle::Shaped, true, "switch, shaped, every frame a Sync, marks off"),
    (Middle::Bridge, false, "Linux bridge (on the source's CPU)"),
];

/// What one round gave.
struct Round {
    /// Frames per second of the worker's CPU; of the bridge, per second.
    per_second: f64,
    /// Share of received frames with a marking word.
    marked: f64,
    note: String,
}

pub(crate) fn measure(facts: &Facts, rounds: usize, span: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for len in [SHORTEST, LONGEST] {
        rows.extend(measure_len(facts, rounds, span, len)?);
    }
    Ok(rows)
}

fn measure_len(facts: &Facts, rounds: usize, span: Duration, len: u32) -> Result<Vec<Row>> {
    let mut speeds = vec![Vec::new(); CASES.len()];
    let mut marked = 1.0_f64;
    let mut notes = vec![String::new(); CASES.len()];
    for _ in 0..rounds {
        for (number, &(middle, all_sync, _)) in CASES.iter().enumerate() {
            let round = run(facts, middle, all_sync, len, span)?;
            speeds[number].push(round.per_second / 1000.0);
            notes[number] = round.note;
            if all_sync && middle == Middle::AllOn {
                marked = marked.min(round.marked);
            }
        }
    }
    let ratio = |over: usize, under: usize| -> Vec<f64> {
        speeds[over].iter().zip(&speeds[under]).map(|(a, b)| a / b).collect()
    };
    let row = |what: &str, asked, rounds| Row::new(GROUP, format!("{len} B: {what}"), "", asked, rounds);
    let few = marked < 0.5;
    let mut rows = vec![
        row("switch without rate / forwarder", Asked::AtLeast(0.9), ratio(1, 0)),
        row("switch with all on / forwarder", Asked::AtLeast(0.9), ratio(2, 0)),
        row("every frame marked / all on, unmarked", Asked::AtLeast(0.95), ratio(3, 2))
            .note(format!("{:.0} % of them with r > 0", marked * 100.0))
            .void_if(few, "too few frames were marked"),
        row("every frame marked / the same frames, marks off", Asked::Nothing, ratio(3, 4)),
        row("switch without rate / Linux bridge", Asked::Nothing, ratio(1, 5)),
    ];
    for (number, (.., name)) in CASES.iter().enumerate() {
        let what = format!("{len} B: {name}");
        let row = Row::new(GROUP, what, "kpps", Asked::Nothing, speeds[number].clone());
        rows.push(row.note(notes[number].as_str()));
    }
    Ok(rows)
}

/// What is running in the middle.
enum Running<'scope> {
    Forwarder { thread: ScopedJoinHandle<'scope, Result<Outcome>>, stop: Arc<AtomicBool> },
    Switch(Worker),
    Bridge,
}

fn run(facts: &Facts, middle: Middle, all_sync: bool, len: u32, span: Duration) -> Result<Round> {
    let stage = Stage::new(2, Stack::Silent)?;
    let [sender, receiver] = &stage.hosts[..] else { unreachable!("two hosts") };
    let sink = Sink::new(receiver)?;
    let frame = sync(receiver.mac, sender.mac, ETHERTYPE_PTP, len, 0);
    let mut emitter = Emitter::new(sender, frame, u32::from(all_sync))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = start(scope, facts, &stage, middle, len)?;
        stage.announce(1)?;
        let source = scope.spawn(|| {
            sender.namespace.run_in(|| {
                emitter.flood(&stop)?;
                emitter.emitted()
            })?
        });
        let readings = watch(&running, &sink, span);
        stop.store(true, Ordering::Relaxed);
        let emitted = source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let note = describe(running, emitted)?;
        let (frames, spent_ns, after) = readings?;
        let received = (after.marked + after.unmarked).max(1);
        let per_second = frames as f64 * 1e9 / spent_ns as f64;
        Ok(Round { per_second, marked: after.marked as f64 / received as f64, note })
    })
}

/// Frames that reached the sink in about `span`, the time that went into them, and the sink's last reading.
fn watch(running: &Running<'_>, sink: &Sink, span: Duration) -> Result<(u64, u64, Sunk)> {
    let time = match running {
        Running::Switch(_) => Some(ThreadTime::of("plimsoll-worker")?),
        Running::Forwarder { .. } => Some(ThreadTime::of(FORWARDER)?),
        Running::Bridge => None,
    };
    let read = || {
        let sunk = sink.read()?;
        anyhow::Ok((sunk, time.as_ref().map_or(Ok(sunk.at_ns), ThreadTime::read_ns)?))
    };
    thread::sleep(WARM_UP);
    let (first, from) = read()?;
    thread::sleep(span);
    let (last, to) = read()?;
    anyhow::ensure!(to > from, "the worker had no CPU time");
    Ok((last.frames() - first.frames(), to - from, last))
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    facts: &Facts,
    stage: &Stage,
    middle: Middle,
    len: u32,
) -> Result<Running<'scope>> {
    let rate = Rate(u64::from(wire_octets(len)) * 8 * 1_000_000_000 / WIRE_NS);
    let mark = MarkConfig { counter_max: 1 << 20, ..MarkConfig::new(128, 10_000) };
    let port = |number| match middle {
        Middle::AllOn => {
            PortConfig { rate: Some(rate), mark: Some(mark), ..PortConfig::new(port_name(number)) }
        }
        Middle::Shaped => PortConfig { rate: Some(rate), ..PortConfig::new(port_name(number)) },
        _ => PortConfig::new(port_name(number)),
    };
    Ok(match middle {
        Middle::Forwarder => {
            let (umem, ports) = stage.open_ports(&PortOptions::default())?;
            let ports: [_; 2] = ports.try_into().map_err(|_| anyhow::anyhow!("two ports"))?;
            let (stop, cpu) = (Arc::new(AtomicBool::new(false)), facts.worker_cpu);
            let asked = Arc::clone(&stop);
            let thread = thread::Builder::new().name(FORWARDER.into()).spawn_scoped(scope, move || {
                pin(cpu)?;
                Ok(forwarder::run(umem, ports, || asked.load(Ordering::Relaxed)))
            })?;
            Running::Forwarder { thread, stop }
        }
        Middle::Plain | Middle::AllOn | Middle::Shaped => {
            Running::Switch(stage.switch(facts.worker_cpu, vec![port(0), port(1)], &Setup::default())?)
        }
        Middle::Bridge => {
            stage.bridge()?;
            stage.poll_port(0)?;
            Running::Bridge
        }
    })
}

/// Where frames were lost, in a few words.
fn describe(running: Running<'_>, emitted: Emitted) -> Result<String> {
    let sent = emitted.bulk + emitted.sync;
    match running {
        Running::Switch(worker) => {
            let last = worker.stop()?;
            anyhow::ensure!(last.frames_conserved, "chunks are not conserved: {:?}", last.frames);
            let node = &last.switches[0];
            let counters = [0, 1].map(|port| node.ports[port].counters.unwrap_or_default());
            let drops: u64 = node.stats.ports.iter().map(|port| port.drops.total()).sum();
            Ok(losses(sent, &counters, drops))
        }
        Running::Forwarder { thread, stop } => {
            stop.store(true, Ordering::Relaxed);
            let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(losses(sent, &outcome.counters, outcome.tx_full))
        }
        Running::Bridge => Ok(format!("sent {:.1} M", sent as f64 / 1e6)),
    }
}

fn losses(sent: u64, [ingress, egress]: &[PortCounters; 2], dropped: u64) -> String {
    let at_xdp = ingress.xdp_bulk + ingress.xdp_express;
    let full = ingress.bulk_ring_full + ingress.express_ring_full + ingress.fill_ring_empty;
    let share = |n: u64| n as f64 * 100.0 / sent.max(1) as f64;
    format!(
        "sent {:.1} M, at XDP {:.0} %, RX ring full {:.0} %, over quota {:.1} %, dropped inside {:.2} %, {:.0} frames a \
         kick",
        sent as f64 / 1e6,
        share(at_xdp),
        share(full),
        share(ingress.over_quota),
        share(dropped),
        egress.tx_frames as f64 / egress.kicks.max(1) as f64
    )
}
