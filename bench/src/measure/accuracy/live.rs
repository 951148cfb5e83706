//! Real traffic over virtual Ethernet: Sync messages over UDPv4, ECN-capable, among Poisson traffic, bursts and TCP. Every
//! mark is judged four times: by a naive FIFO over the stamps of the ports' XDP programs, by the same over taps on the
//! hosts' own ends, by what the switch itself recorded, and as the receiving host sees it: its delay less the least one.

use super::{
    GROUP,
    table::{Method, Table},
};
use crate::{
    facts::Facts,
    frames,
    hop::{Cross, Hop, Seen, Watched, watched},
    judge::{Scale, Wrong},
    messages::{Carrier, Message},
    plot::Scatter,
    report::{Asked, Row},
    statistics::Percentiles,
};
use anyhow::Result;
use plimsoll_core::{EcnConfig, EcnScope, MarkConfig, Rate};
use plimsoll_lab::traffic::FlowKind;
use std::{path::Path, time::Duration};

/// Enough that 40,000 are judged in 17 s.
const SYNC_PER_SECOND: f64 = 2500.0;
const LEAST: u64 = 40_000;
const LOADS: [f64; 2] = [0.4, 0.94];
/// R*delta: beyond it a mark says no more.
const RANGE_PS: u64 = 15_360_000_000;
/// The delta at which the hosts' own stamps are judged.
const COARSE_PS: u64 = 120_000_000;
/// ECT(0).
const ECT: u8 = 2;
const CE: u8 = 3;

const BY_PORTS: &str = "live, by the ports' stamps";
const BY_HOST: &str = "live at 100 Mbit/s, as the receiving host sees it";

/// The links: rate, and delta as a full frame's time on it, rounded.
const LINKS: [(Rate, u64, &str); 2] =
    [(Rate(100_000_000), 120_000_000, "100 Mbit/s"), (Rate(1_000_000_000), 12_000_000, "1 Gbit/s")];

/// Kinds of cross traffic.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Poisson,
    Bursts,
    Tcp,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Poisson, Self::Bursts, Self::Tcp];

    const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "UDP Poisson",
            Self::Bursts => "UDP bursts",
            Self::Tcp => "TCP",
        }
    }

    /// Bursts of five delta at twice the link's rate.
    fn cross(self, load: f64, delta_ps: u64) -> Cross {
        let on_ns = delta_ps / 1000 * 5;
        match self {
            Self::Poisson => Cross::Udp(FlowKind::Poisson),
            Self::Bursts => {
                Cross::Udp(FlowKind::OnOff { on_ns, off_ns: (on_ns as f64 * (2.0 / load - 1.0)) as u64 })
            }
            Self::Tcp => Cross::Tcp,
        }
    }
}

/// One case.
struct Case {
    name: String,
    hop: Hop,
    scale: Scale,
}

pub(super) fn measure(facts: &Facts, span: Duration, out: &Path, table: &mut Table) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (number, case) in cases(span).into_iter().enumerate() {
        eprintln!("plimsoll-bench: {}", case.name);
        // A machine that stood still for a moment gets a second chance, and all rows of the case say so.
        match watched(|| case.hop.watch(facts)) {
            Ok((seen, first)) => {
                rows.extend(case.judge(&seen, table).into_iter().map(|row| row.also(first.as_deref())));
                case.draw(&seen, &out.join(format!("live-{:02}.svg", number + 1)))?;
            }
            Err(error) => {
                let what = format!("{}: measured", case.name);
                rows.push(
                    Row::new(GROUP, what, "", Asked::AtLeast(1.0), vec![0.0]).note(format!("{error:#}")),
                );
            }
        }
    }
    Ok(rows)
}

fn cases(span: Duration) -> Vec<Case> {
    let mut cases = Vec::new();
    for (rate, delta_ps, link) in LINKS {
        let scale = Scale { delta_ps, thresholds: (RANGE_PS / delta_ps) as u32 };
        for kind in Kind::ALL {
            for load in LOADS {
                let hop = Hop {
                    rate,
                    load,
                    cross: kind.cross(load, delta_ps),
                    mark: MarkConfig::new(scale.thresholds, delta_ps),
                    ecn: Some(EcnConfig { threshold_ps: delta_ps, scope: EcnScope::Sync }),
                    correct_lateness: true,
                    sync: Message { ecn: ECT, ..Message::sync(Carrier::PtpUdp4, 0) },
                    sync_per_second: SYNC_PER_SECOND,
                    span,
                    seed: cases.len() as u64,
                };
                cases.push(Case {
                    name: format!("{link}, {}, {:.0} %", kind.name(), load * 100.0),
                    hop,
                    scale,
                });
            }
        }
    }
    cases
}

impl Case {
    fn judge(&self, seen: &Seen, table: &mut Table) -> Vec<Row> {
        let syncs = &seen.syncs;
        let scale = self.scale;
        let few = (syncs.len() as u64) < LEAST;
        let row = |what: String, unit, asked, value: f64| {
            Row::new(GROUP, format!("{}: {what}", self.name), unit, asked, vec![value])
                .void_if(few, &format!("only {} Sync messages", syncs.len()))
        };
        let marks = |sync: &Watched| frames::count(sync.arrived.word).unwrap_or(u32::MAX);
        let all = |scale: Scale, wait: &dyn Fn(&Watched) -> u128, found: &dyn Fn(&Watched) -> u32| {
            let mut wrong = Wrong::default();
            syncs.iter().for_each(|sync| wrong.count(scale, wait(sync), found(sync)));
            wrong
        };

        let ports = all(scale, &|s| s.wait_by_ports, &marks);
        let once = Scale { thresholds: 1, ..scale };
        let ecn = all(once, &|s| s.wait_by_ports, &|s| u32::from(s.arrived.ecn == CE));
        let own = syncs.iter().filter(|sync| !agrees(sync, scale)).count();
        // Every tenth threshold at 12 us is one at 120 us: r there is a tenth of r here.
        let tenth = COARSE_PS / scale.delta_ps;
        let coarse = Scale { delta_ps: COARSE_PS, thresholds: (RANGE_PS / COARSE_PS) as u32 };
        let taps = all(coarse, &|s| s.wait_by_taps, &|s| marks(s) / tenth as u32);

        let host = Host::of(syncs);
        let host_wrong = all(scale, &|s| host.wait_ps(s), &marks);
        let host_ecn = all(once, &|s| host.wait_ps(s), &|s| u32::from(s.arrived.ecn == CE));
        table.add(Method::Ecn, BY_PORTS, &self.name, &ecn);
        table.add(Method::Cmc, BY_PORTS, &self.name, &ports);
        if scale.delta_ps == COARSE_PS {
            // A finer delta is about as large as the noise of these stamps.
            table.add(Method::Ecn, BY_HOST, &self.name, &host_ecn);
            table.add(Method::Cmc, BY_HOST, &self.name, &host_wrong);
        }

        let k = scale.delta_ps * self.hop.rate.0 / 8_000_000_000_000;
        let marked = syncs.iter().filter(|sync| sync.r > 0).count() as f64 / syncs.len().max(1) as f64;
        let lost = format!("{} frames were lost before the switch", seen.lost_before);
        let per_10_000 = |wrong: &Wrong| wrong.share(wrong.wrong) * 1e4;
        let mut rows = vec![
            row("wrong by the ports' stamps, per 10,000".into(), "", Asked::AtMost(1.0), per_10_000(&ports))
                .note(format!(
                    "{} of {}, K {k} B, R {}; {}; {:.0} % marked, link used {:.1} %, inversions {}, {} lost behind the switch",
                    ports.wrong,
                    ports.checked,
                    scale.thresholds,
                    ports.worst(),
                    marked * 100.0,
                    seen.used * 100.0,
                    seen.inversions,
                    seen.lost_behind
                )),
            row("CE wrong by the ports' stamps, per 10,000".into(), "", Asked::AtMost(1.0), per_10_000(&ecn))
                .note(format!("{} of {}, threshold {k} B; {}", ecn.wrong, ecn.checked, ecn.worst())),
            row("against the switch's own record, wrong".into(), "", Asked::AtMost(0.0), own as f64),
            row(
                "wrong by the hosts' taps, delta 120 us".into(),
                "%",
                Asked::AtMost(2.0),
                taps.share(taps.wrong) * 100.0,
            )
            .note(format!("{} of {}; {}", taps.wrong, taps.checked, taps.worst()))
            .void_if(seen.lost_before > 0, &lost),
            row("of these by more than one".into(), "", Asked::AtMost(0.0), taps.far as f64)
                .void_if(seen.lost_before > 0, &lost),
        ];
        if tenth > 1 {
            let fine = all(scale, &|s| s.wait_by_taps, &marks);
            rows.push(
                row(
                    format!("wrong by the hosts' taps, delta {} us", scale.delta_ps / 1_000_000),
                    "%",
                    Asked::Nothing,
                    fine.share(fine.wrong) * 100.0,
                )
                .note(format!("{} by more than one; {}", fine.far, fine.worst())),
            );
        }
        rows.push(
            row(
                "wrong as the receiving host sees it".into(),
                "%",
                Asked::Nothing,
                host_wrong.share(host_wrong.wrong) * 100.0,
            )
            .note(format!("K {k} B; its noise: {}; {}", host.noise, host_wrong.worst())),
        );
        rows
    }

    fn draw(&self, seen: &Seen, file: &Path) -> Result<()> {
        let host = Host::of(&seen.syncs);
        let us = |ps: u128| ps as f64 / 1e6;
        let start = seen.syncs.first().map_or(0, |sync| sync.sent_ns);
        let at = |sync: &Watched| (sync.sent_ns - start) as f64 / 1e9;
        let mark = |sync: &Watched| frames::count(sync.arrived.word).unwrap_or(0);
        let dots = seen.syncs.iter().map(|sync| (at(sync), us(host.wait_ps(sync)), mark(sync)));
        let step = us(self.scale.delta_ps.into());
        let title = format!("{}: delta {step} us, colour is the mark", self.name);
        Scatter {
            title: &title,
            x: "sent, s",
            y: "one-way delay less the least, us",
            dots: dots.collect(),
            thresholds: (1..=self.scale.thresholds).map(|i| f64::from(i) * step).collect(),
        }
        .draw(file)
    }
}

/// Whether what the switch says of a message agrees: with the depth that it found, with the wait that it gave, and with
/// what arrived.
fn agrees(sync: &Watched, scale: Scale) -> bool {
    let r = |ps: u64| crate::fifo::exceeded(ps.into(), scale.delta_ps, scale.thresholds);
    let found = [r(sync.depth_ps), r(sync.wait_ns * 1000)];
    found == [sync.r; 2]
        && frames::count(sync.left_with) == Some(sync.r)
        && sync.arrived.word == sync.left_with
}

/// The receiving host's view.
struct Host {
    /// The least delay, ns.
    least: i64,
    /// How far its delay less the least is from the wait.
    noise: Percentiles,
}

impl Host {
    fn of(syncs: &[Watched]) -> Self {
        let least = syncs.iter().map(|sync| sync.delay_ns).min().unwrap_or(0);
        let host = Self { least, noise: Percentiles::default() };
        let off = |sync: &Watched| (host.wait_ps(sync).abs_diff(sync.wait_by_ports) / 1000) as u64;
        Self { least, noise: Percentiles::of(syncs.iter().map(off).collect()) }
    }

    fn wait_ps(&self, sync: &Watched) -> u128 {
        (sync.delay_ns - self.least) as u128 * 1000
    }
}
