//! Every measure of depth that a switch may have, in virtual time at 10 Gbit/s: how often it misleads. A mark is wrong
//! where it is not the number of thresholds that the wait on a naive link exceeds.

use super::{
    GROUP,
    table::{Method, Table},
};
use crate::{
    fifo::{self, Arrival},
    frames::{self, ETHERTYPE_BULK, LONGEST, sync},
    judge::{Scale, Wrong},
    memory::{Line, Memory, RECEIVER, SENDER, class_of},
    messages::{Carrier, Message, read_sync},
    plot::Scatter,
    report::{Asked, Row},
};
use anyhow::{Context, Result, ensure};
use plimsoll_core::{
    Depth, DepthScope, DepthUnit, EcnConfig, EcnScope, FixedEntry, MarkConfig, Nanos, Pool as _, PortConfig,
    PortId, Rate, Switch, SwitchConfig,
    config::{WIRE_OVERHEAD, wire_octets},
    wire::ethernet::Mac,
};
use plimsoll_lab::traffic::{FlowKind, FlowSpec, Schedule, SizeDistribution};
use std::path::Path;

const RATE: Rate = Rate(10_000_000_000);
/// An octet on this link, ps.
const OCTET_PS: u64 = 800;
/// Probes a second: 0.2 % of the link.
const PROBES: u64 = 20_000;
/// Chunks of the pool: more frames than any of the queues here gets.
const CHUNKS: u32 = 16_384;
/// ECT(0).
const ECT: u8 = 2;
const CE: u8 = 3;
/// Where frames come in, and where they leave.
const CROSS: PortId = PortId(0);
const PROBE: PortId = PortId(1);
const OUT: PortId = PortId(2);

/// Traffic, thresholds, and who waits for whom.
struct Scenario {
    name: &'static str,
    plot: &'static str,
    kind: FlowKind,
    /// Bits a second of cross traffic on the wire.
    cross: u64,
    /// Octets of its frames.
    len: u32,
    /// Frames of cross traffic.
    frames: usize,
    /// K in octets.
    k: u64,
    thresholds: u32,
    method: Method,
    /// Probes have a class above the cross traffic.
    above: bool,
    measures: &'static [Measure],
}

/// A way of measuring depth, and what is asked of it.
struct Measure {
    name: &'static str,
    depth: Depth,
    asked: Asked,
    why: &'static str,
    /// Whether it is drawn.
    drawn: bool,
    /// Whether it belongs beside the paper's Table I, and as what.
    table: Option<&'static str>,
}

const fn measure_of(
    name: &'static str,
    scope: DepthScope,
    unit: DepthUnit,
    asked: Asked,
    why: &'static str,
) -> Measure {
    Measure { name, depth: Depth { scope, unit }, asked, why, drawn: false, table: None }
}

const EXACT: Measure = Measure {
    table: Some("simulated, exact octets"),
    ..measure_of(
        "exact octets",
        DepthScope::Ahead,
        DepthUnit::Exact,
        Asked::AtMost(0.0),
        "depth*8/rate is the wait",
    )
};
const WITH: DepthUnit = DepthUnit::Frames { in_service: true };
const WITHOUT: DepthUnit = DepthUnit::Frames { in_service: false };
const CELLS: DepthUnit = DepthUnit::Cells { octets: 80 };
const WITH_WHY: &str = "counts what the frame in service has sent already: marks too early by up to a frame";
const WITHOUT_WHY: &str = "does not count the rest of the frame in service: marks too late by up to a frame";
const CELLS_WHY: &str = "19 cells of 80 B are 1520 B and a full frame is 1538 B on the wire, so that thresholds lie 1.2 % too high in time; \
     the frame in service counts whole, so that marks come up to a frame too early; paper, Table I: 9.8 %, 5.2 %";

/// Fig. 3b: ECN with K = 3600 B among 4 Gbit/s.
const FIG_3B: [Measure; 3] = [
    EXACT,
    Measure {
        drawn: true,
        ..measure_of(
            "whole frames, one in service counted",
            DepthScope::Ahead,
            WITH,
            Asked::Within(0.9, 1.1),
            WITH_WHY,
        )
    },
    measure_of(
        "whole frames, one in service not counted",
        DepthScope::Ahead,
        WITHOUT,
        Asked::Within(0.65, 0.85),
        WITHOUT_WHY,
    ),
];

/// Fig. 5b: 32 thresholds of 80 * 2^9 B on a link that is 94 % full.
const FIG_5B: [Measure; 4] = [
    EXACT,
    measure_of("whole frames, one in service counted", DepthScope::Ahead, WITH, Asked::Nothing, WITH_WHY),
    measure_of(
        "whole frames, one in service not counted",
        DepthScope::Ahead,
        WITHOUT,
        Asked::Nothing,
        WITHOUT_WHY,
    ),
    Measure {
        drawn: true,
        table: Some("simulated, cells of 80 B"),
        ..measure_of("cells of 80 B", DepthScope::Ahead, CELLS, Asked::Nothing, CELLS_WHY)
    },
];

/// Probes above the cross traffic wait for the frame in service and for each other.
const ABOVE: [Measure; 3] = [
    measure_of(
        "what is ahead",
        DepthScope::Ahead,
        DepthUnit::Exact,
        Asked::AtMost(0.0),
        "what leaves before it",
    ),
    measure_of(
        "its own queue",
        DepthScope::Queue,
        DepthUnit::Exact,
        Asked::Nothing,
        "does not count the frame of another class in service",
    ),
    measure_of(
        "the whole port",
        DepthScope::Port,
        DepthUnit::Exact,
        Asked::Nothing,
        "counts what the probe overtakes",
    ),
];

fn scenarios() -> [Scenario; 4] {
    let busy = |name, plot, kind| Scenario {
        name,
        plot,
        kind,
        cross: 9_400_000_000,
        len: LONGEST,
        frames: 4_000_000,
        k: 80 << 9,
        thresholds: 32,
        method: Method::Cmc,
        above: false,
        measures: &FIG_5B,
    };
    // Twice the link's rate within a burst.
    let bursts = FlowKind::OnOff { on_ns: 40_000, off_ns: (40_000.0 * (2.0 / 0.94 - 1.0)) as u64 };
    [
        Scenario {
            name: "4 Gbit/s Poisson of 1500 B on the wire, K 3600 B",
            plot: "fig-3b",
            kind: FlowKind::Poisson,
            cross: 4_000_000_000,
            len: 1500 - WIRE_OVERHEAD,
            frames: 8_000_000,
            k: 3600,
            thresholds: 1,
            method: Method::Ecn,
            above: false,
            measures: &FIG_3B,
        },
        busy("9.4 Gbit/s Poisson, K 40960 B, R 32", "fig-5b-poisson", FlowKind::Poisson),
        busy("9.4 Gbit/s bursts, K 40960 B, R 32", "fig-5b-bursts", bursts),
        Scenario {
            name: "9.4 Gbit/s Poisson, probes above it, K 800 B, R 32",
            plot: "above",
            kind: FlowKind::Poisson,
            cross: 9_400_000_000,
            len: LONGEST,
            frames: 1_000_000,
            k: 800,
            thresholds: 32,
            method: Method::Cmc,
            above: true,
            measures: &ABOVE,
        },
    ]
}

pub(super) fn measure(out: &Path, table: &mut Table) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for scenario in scenarios() {
        let arrivals = scenario.arrivals();
        let waits = scenario.waits(&arrivals);
        for measure in scenario.measures {
            let marks = scenario.run(measure, &arrivals)?;
            ensure!(marks.len() == waits.len(), "{} of {} probes left", marks.len(), waits.len());
            let scale = scenario.scale();
            let mut wrong = Wrong::default();
            waits.iter().zip(&marks).for_each(|(wait, mark)| wrong.count(scale, *wait, *mark));
            if let Some(judge) = measure.table {
                table.add(scenario.method, judge, scenario.name, &wrong);
            }
            if measure.drawn {
                scenario.draw(measure, &waits, &marks, out)?;
            }
            let marked = marks.iter().filter(|mark| **mark > 0).count() as f64 * 100.0 / marks.len() as f64;
            let what = format!("10 Gbit/s, {}: {}, misclassified", scenario.name, measure.name);
            rows.push(
                Row::new(GROUP, what, "%", measure.asked, vec![wrong.share(wrong.wrong) * 100.0]).note(
                    format!(
                        "{} of {} probes, {marked:.1} % marked; {}; {}",
                        wrong.wrong,
                        wrong.checked,
                        wrong.worst(),
                        measure.why
                    ),
                ),
            );
        }
    }
    Ok(rows)
}

/// What comes to the port, in order.
struct Arrivals {
    frames: Vec<Arrival>,
    /// Which of them are probes.
    probes: Vec<bool>,
    /// The probe.
    probe: Vec<u8>,
}

impl Scenario {
    const fn scale(&self) -> Scale {
        Scale { delta_ps: self.k * OCTET_PS, thresholds: self.thresholds }
    }

    fn arrivals(&self) -> Arrivals {
        let probe = Message { ecn: ECT, ..Message::sync(Carrier::PtpUdp4, 0) };
        // A message of this carrier always fits.
        let probe = probe.frame(RECEIVER, SENDER).unwrap_or_default();
        let flow = |kind, bits, len, seed| {
            let size = SizeDistribution::frame(len);
            let spec = FlowSpec {
                name: "flow".into(),
                kind,
                rate: Rate(bits),
                size,
                seed,
                mtu: 1500,
                dscp: 0,
                cycle: None,
            };
            let bounds = plimsoll_lab::traffic::SizeBounds::new(([10, 0, 0, 2], 9000).into(), 1500);
            Schedule::new(&spec, bounds)
        };
        let mut cross = flow(self.kind, self.cross, self.len, 1);
        let len = probe.len() as u32;
        let mut probes = flow(FlowKind::Poisson, PROBES * 8 * u64::from(wire_octets(len)), len, 2);
        let mut arrivals = Arrivals { frames: Vec::new(), probes: Vec::new(), probe };
        let mut next = probes.next_due().at_ns;
        for _ in 0..self.frames {
            let at = cross.next_due().at_ns;
            while next < at {
                arrivals.push(Arrival { at_ns: next, len }, true);
                next = probes.next_due().at_ns;
            }
            arrivals.push(Arrival { at_ns: at, len: self.len }, false);
        }
        arrivals
    }

    /// The wait of every probe.
    fn waits(&self, arrivals: &Arrivals) -> Vec<u128> {
        let Arrivals { frames, probes, .. } = arrivals;
        if self.above {
            return fifo::waits_above_ps(frames, probes, RATE.0);
        }
        let waits = fifo::waits_ps(frames, RATE.0).into_iter().zip(probes);
        waits.filter_map(|(wait, probe)| probe.then_some(wait)).collect()
    }

    /// The mark of every probe.
    fn run(&self, measure: &Measure, arrivals: &Arrivals) -> Result<Vec<u32>> {
        let Scale { delta_ps, thresholds } = self.scale();
        let port = |number: usize| PortConfig::new(format!("p{number}"));
        let marking = PortConfig {
            rate: Some(RATE),
            mark: Some(MarkConfig::new(thresholds, delta_ps)),
            ecn: Some(EcnConfig { threshold_ps: delta_ps, scope: EcnScope::Sync }),
            depth: measure.depth,
            sync_class: self.above.then_some(7),
            queue_bytes: Some(20_000_000),
            ..port(2)
        };
        let mut switch = Switch::new(SwitchConfig {
            ports: vec![port(0), port(1), marking],
            fdb_fixed: vec![FixedEntry { vlan: 0, mac: Mac(RECEIVER), port: OUT }],
            ..SwitchConfig::default()
        })?;
        let (mut pool, mut line) = (Memory::new(CHUNKS), Line::default());
        let cross = sync(RECEIVER, SENDER, ETHERTYPE_BULK, self.len, 0);
        let classes = [class_of(&cross), class_of(&arrivals.probe)];
        let mut marks = Vec::new();
        let mut leave = |pool: &mut Memory, line: &mut Line| {
            for departure in line.departed.drain(..) {
                if departure.ingress == PROBE {
                    marks.push(self.read(pool.bytes(departure.frame)));
                }
                pool.free(departure.frame);
            }
        };
        for (arrival, &probe) in arrivals.frames.iter().zip(&arrivals.probes) {
            let octets = if probe { &arrivals.probe } else { &cross };
            let frame = pool.put(octets).context("the pool is empty")?;
            let (port, class) = (if probe { PROBE } else { CROSS }, &classes[usize::from(probe)]);
            switch.receive(port, frame, class, Nanos(arrival.at_ns), &mut pool, &mut line);
            leave(&mut pool, &mut line);
        }
        let end = arrivals.frames.last().map_or(0, |frame| frame.at_ns) + 10_000_000_000;
        switch.advance(Nanos(end), &mut line);
        leave(&mut pool, &mut line);
        let lost: u64 = switch.stats().ports.iter().map(|port| port.drops.total()).sum();
        ensure!(lost == 0, "{lost} frames were lost");
        Ok(marks)
    }

    /// What a probe tells its receiver.
    fn read(&self, octets: &[u8]) -> u32 {
        let seen = read_sync(octets);
        match self.method {
            Method::Ecn => seen.map_or(u32::MAX, |seen| u32::from(seen.ecn == CE)),
            Method::Cmc => seen.and_then(|seen| frames::count(seen.word)).unwrap_or(u32::MAX),
        }
    }

    fn draw(&self, measure: &Measure, waits: &[u128], marks: &[u32], out: &Path) -> Result<()> {
        let step = (self.k * OCTET_PS) as f64 / 1e6;
        let dots = waits.iter().zip(marks).enumerate();
        Scatter {
            title: &format!("10 Gbit/s, {}: {}", self.name, measure.name),
            x: "probe",
            y: "wait, us",
            dots: dots.map(|(n, (wait, mark))| (n as f64, *wait as f64 / 1e6, *mark)).collect(),
            thresholds: (1..=self.thresholds).map(|i| f64::from(i) * step).collect(),
        }
        .draw(&out.join(format!("{}.svg", self.plot)))
    }
}

impl Arrivals {
    fn push(&mut self, arrival: Arrival, probe: bool) {
        self.frames.push(arrival);
        self.probes.push(probe);
    }
}
