//! Are the marks right? One hop at 100 Mbit/s, Poisson cross traffic from one host and Sync messages from another, both
//! to a third. Every Sync's r is computed again twice, by a naive FIFO: from the stamps of the ports' own XDP programs
//! (which proves the switch's arithmetic), and from taps on the hosts' own ends (which proves the whole).

use crate::{
    facts::Facts,
    fifo::{self, Arrival},
    frames::{self, ETHERTYPE_PTP, SHORTEST, sync},
    generator,
    kernel::clock_ns,
    report::{Asked, Row},
    stage::{Setup, Stack, Stage, port_name},
    statistics::Percentiles,
    taps::Taps,
};
use anyhow::{Context, Result, ensure};
use plimsoll_classify::{TapPoint, TapRecord};
use plimsoll_core::{MarkConfig, PortConfig, Rate};
use plimsoll_lab::traffic::{FlowKind, FlowSpec, SizeDistribution, Source};
use plimsoll_port::worker::{Fate, Lateness, Record, RecordWhat, Records, Sent};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use rand_distr::Exp1;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const GROUP: &str = "marks";
const RATE: Rate = Rate(100_000_000);
/// Pipeline latency L of the labs.
const LATENCY_NS: u64 = 100_000;
/// The delay of one mark: a full frame's wire time, rounded.
const DELTA_PS: u64 = 120_000_000;
const THRESHOLDS: u32 = 128;
/// Share of the link that cross traffic takes.
const LOADS: [f64; 2] = [0.7, 0.9];
/// Sync messages a second, with gaps of exponential law: arrivals that see the queue as it is on average.
const SYNC_PER_SECOND: f64 = 1500.0;
/// Cross traffic of full frames, octets on the wire.
const CROSS_WIRE: u32 = 1538;
/// A mark this close to a threshold may differ between the host's stamp and the port's.
const ZONE_PS: u64 = 5_000_000;
/// How often taps and records are emptied.
const DRAIN: Duration = Duration::from_millis(5);
/// What is on its way at the end arrives within this.
const REST: Duration = Duration::from_millis(300);

const SERVER: usize = 0;
const LOAD: usize = 1;
const CLIENT: usize = 2;

/// Marks that are not what they should be.
#[derive(Clone, Copy, Debug, Default)]
struct Wrong {
    checked: u64,
    wrong: u64,
    /// Of them: by more than one.
    far: u64,
    /// Of them: farther than [`ZONE_PS`] from a threshold.
    outside: u64,
}

impl Wrong {
    fn count(&mut self, expected: u32, found: u32, wait_ps: u128) {
        self.checked += 1;
        let off = expected.abs_diff(found);
        if off > 0 {
            self.wrong += 1;
            self.far += u64::from(off > 1);
            let rest = wait_ps % u128::from(DELTA_PS);
            let distance = rest.min(u128::from(DELTA_PS) - rest);
            self.outside += u64::from(distance > u128::from(ZONE_PS));
        }
    }

    fn share(&self, part: u64) -> f64 {
        if self.checked == 0 { f64::NAN } else { part as f64 / self.checked as f64 }
    }
}

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
    let sum = |pick: fn(&Round) -> Wrong| {
        rounds.iter().map(pick).fold(Wrong::default(), |a, b| Wrong {
            checked: a.checked + b.checked,
            wrong: a.wrong + b.wrong,
            far: a.far + b.far,
            outside: a.outside + b.outside,
        })
    };
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

/// All that was seen in a round.
struct Seen {
    records: Vec<Record>,
    taps: Vec<TapRecord>,
    late: Lateness,
    inversions: u64,
    server: [u8; 6],
}

fn run(facts: &Facts, load: f64, span: Duration, seed: u64) -> Result<Round> {
    let seen = watch(facts, load, span, seed)?;
    Ok(Round {
        by_ports: by_ports(&seen.records),
        by_taps: by_taps(&seen)?,
        delivered: delivered(&seen),
        late: seen.late,
        inversions: seen.inversions,
    })
}

fn watch(facts: &Facts, load: f64, span: Duration, seed: u64) -> Result<Seen> {
    let stage = Stage::new(3, Stack::Fixed)?;
    let (server, load_host, client) = (&stage.hosts[SERVER], &stage.hosts[LOAD], &stage.hosts[CLIENT]);
    let mark = MarkConfig { counter_max: 1 << 20, ..MarkConfig::new(THRESHOLDS, DELTA_PS) };
    let port = |number| PortConfig {
        rate: Some(RATE),
        mark: Some(mark),
        queue_bytes: Some(4_000_000),
        ..PortConfig::new(port_name(number))
    };
    let records = Records::new(1 << 18, RecordWhat::All);
    let setup = Setup { latency_ns: LATENCY_NS, records: Some(records.clone()), ..Setup::default() };
    let worker = stage.switch(facts.worker_cpu, (0..3).map(port).collect(), &setup)?;
    for host in [SERVER, LOAD, CLIENT] {
        stage.announce(host)?;
    }
    let target = SocketAddr::from((client.ipv4, 9000));
    let spec = FlowSpec {
        name: "cross".into(),
        kind: FlowKind::Poisson,
        rate: Rate((RATE.0 as f64 * load) as u64),
        size: SizeDistribution::Fixed { wire: CROSS_WIRE },
        seed,
        mtu: 1500,
        dscp: 0,
    };
    // Somebody must own the port, or each packet is answered by an ICMP error.
    let _socket = client.namespace.run_in(|| std::net::UdpSocket::bind(target))?.context("bind")?;
    let mut source = load_host.namespace.run_in(|| Source::open(spec, target))??;

    let mut taps = Taps::new()?;
    taps.ingress(client)?;
    taps.egress(server)?;
    taps.egress(load_host)?;
    let stop = AtomicBool::new(false);
    let (mut seen_records, mut seen_taps) = (Vec::new(), Vec::new());
    let mut drain = |taps: &mut Taps| {
        while let Some(record) = records.pop() {
            seen_records.push(record);
        }
        taps.drain(|record| seen_taps.push(record));
    };
    let frame = sync(client.mac, server.mac, ETHERTYPE_PTP, SHORTEST, 0);
    thread::scope(|scope| {
        let cross = scope.spawn(|| load_host.namespace.run_in(|| source.run(&stop)));
        let syncs = scope.spawn(|| poisson_syncs(server, &stop, &frame, seed));
        let until = Instant::now() + span;
        while Instant::now() < until {
            thread::sleep(DRAIN);
            drain(&mut taps);
        }
        stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + REST;
        while Instant::now() < until {
            thread::sleep(DRAIN);
            drain(&mut taps);
        }
        let generated = syncs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let report = cross.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))??;
        ensure!(generated.sent > 100 && report.frames > 100, "the hosts sent next to nothing");
        anyhow::Ok(())
    })?;
    taps.check()?;
    ensure!(records.lost() == 0, "{} records were lost: the ground truth is not whole", records.lost());
    let snapshot = worker.stop()?;
    let node = &snapshot.switches[0];
    let dropped = node.stats.ports[CLIENT].drops.total();
    ensure!(
        dropped == 0,
        "{dropped} frames were dropped at the congested port: the FIFO does not know of them"
    );
    Ok(Seen {
        records: seen_records,
        taps: seen_taps,
        late: node.ports[CLIENT].release_late,
        inversions: node.stats.inversions.count,
        server: server.mac,
    })
}

fn poisson_syncs(
    host: &crate::stage::Host,
    stop: &AtomicBool,
    frame: &[u8],
    seed: u64,
) -> Result<generator::Generated> {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x5EED);
    let mut at = clock_ns() as f64;
    let mut sequence = 0_u16;
    generator::generate(host, stop, |to| {
        to.clear();
        to.extend(frame);
        to[14 + 30..14 + 32].copy_from_slice(&sequence.to_be_bytes());
        sequence = sequence.wrapping_add(1);
        at += random.sample::<f64, _>(Exp1) * 1e9 / SYNC_PER_SECOND;
        Some(at as u64)
    })
}

/// The frames that left by the congested port, in the order of their arrival stamps.
fn through(records: &[Record]) -> Vec<(&Record, &Sent)> {
    let mut frames: Vec<_> = records
        .iter()
        .filter(|record| record.egress.is_some_and(|port| usize::from(port.0) == CLIENT))
        .filter_map(|record| match &record.fate {
            Fate::Sent(sent) => Some((record, sent)),
            Fate::Dropped(_) => None,
        })
        .collect();
    frames.sort_by_key(|(record, _)| record.stamp);
    frames
}

/// Judges every Sync's r, and the word it left with, by the XDP stamps of all frames.
fn by_ports(records: &[Record]) -> Wrong {
    let frames = through(records);
    let arrivals: Vec<_> =
        frames.iter().map(|(record, _)| Arrival { at_ns: record.stamp.0, len: record.len }).collect();
    let waits = fifo::waits_ps(&arrivals, RATE.0);
    let mut wrong = Wrong::default();
    for ((record, sent), wait) in frames.iter().zip(waits) {
        if record.message.is_some() {
            let left_with = frames::count(sent.mark.after).unwrap_or(u32::MAX);
            let found = if left_with == sent.mark.r { sent.mark.r } else { u32::MAX };
            wrong.count(fifo::exceeded(wait, DELTA_PS, THRESHOLDS), found, wait);
        }
    }
    wrong
}

/// Judges the word that each Sync arrived with by when the hosts sent their frames.
fn by_taps(seen: &Seen) -> Result<Wrong> {
    let mut sent: Vec<_> = seen.taps.iter().filter(|r| r.point == TapPoint::Egress as u8).collect();
    sent.sort_by_key(|record| record.time);
    ensure!(sent.iter().all(|record| record.segments <= 1), "a host sent super-frames past its tap");
    let arrived = seen.taps.iter().filter(|r| r.point == TapPoint::Ingress as u8);
    let mut words = HashMap::new();
    let mut received = 0;
    // sequenceId wraps: the n-th time that it is seen is the n-th time that it was sent.
    let mut times_seen: HashMap<u16, u32> = HashMap::new();
    for record in arrived {
        received += 1;
        if let Some(sync) = frames::read_sync(record.head()).filter(|sync| sync.source == seen.server) {
            let nth = times_seen.entry(sync.sequence).or_default();
            words.insert((sync.sequence, *nth), sync.word);
            *nth += 1;
        }
    }
    ensure!(
        received == sent.len(),
        "the hosts sent {} frames and {received} arrived: the FIFO does not know of the lost ones",
        sent.len()
    );
    let arrivals: Vec<_> =
        sent.iter().map(|record| Arrival { at_ns: record.time, len: record.len }).collect();
    let waits = fifo::waits_ps(&arrivals, RATE.0);
    let mut wrong = Wrong::default();
    times_seen.clear();
    for (record, wait) in sent.iter().zip(waits) {
        if let Some(sync) = frames::read_sync(record.head()) {
            let nth = times_seen.entry(sync.sequence).or_default();
            let word = words.get(&(sync.sequence, *nth)).context("a Sync that never arrived")?;
            *nth += 1;
            let found = frames::count(*word).unwrap_or(u32::MAX);
            wrong.count(fifo::exceeded(wait, DELTA_PS, THRESHOLDS), found, wait);
        }
    }
    Ok(wrong)
}

/// How long after ideal end + L each Sync reached the receiver's tap.
fn delivered(seen: &Seen) -> Percentiles {
    let mut due: HashMap<(u16, u32), u64> = HashMap::new();
    let mut times_seen: HashMap<u16, u32> = HashMap::new();
    for (record, sent) in through(&seen.records) {
        if let Some(message) = &record.message {
            let nth = times_seen.entry(message.sequence_id).or_default();
            due.insert((message.sequence_id, *nth), sent.end.0 + LATENCY_NS);
            *nth += 1;
        }
    }
    times_seen.clear();
    let arrived = seen.taps.iter().filter(|r| r.point == TapPoint::Ingress as u8);
    let late = arrived.filter_map(|record| {
        let sync = frames::read_sync(record.head())?;
        let nth = times_seen.entry(sync.sequence).or_default();
        let due = due.get(&(sync.sequence, *nth))?;
        *nth += 1;
        Some(record.time.saturating_sub(*due))
    });
    Percentiles::of(late.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_marks_are_told_apart_by_how_wrong_they_are() {
        let mut wrong = Wrong::default();
        wrong.count(3, 3, u128::from(DELTA_PS) * 3 + 1);
        wrong.count(3, 2, u128::from(DELTA_PS) * 3 + 1); // right at the threshold
        wrong.count(3, 2, u128::from(DELTA_PS) * 3 + 6_000_000);
        wrong.count(3, 2, u128::from(DELTA_PS) * 4 - 1);
        wrong.count(3, 5, u128::from(DELTA_PS) * 4 - 1);
        assert_eq!((wrong.checked, wrong.wrong, wrong.far, wrong.outside), (5, 4, 1, 1));
    }
}
