//! Results R2 and R3: marks at one of many hops, and at more and more of them.

use super::{
    GROUP,
    exhibit::{Exhibit, percent},
    fig13::HOPS,
    network::Mix,
    runs::{left, mse_of},
    studio::Studio,
};
use crate::{
    plot::{Axis, Lines, Series, Stroke},
    report::{Asked, Row},
};
use anyhow::Result;
use plimsoll_lab::traffic::PaperFlow;
use plimsoll_model::{Law, Objective, Pair, Rule, Setting, Space, Spread, evaluate, improvement, search};
use std::path::Path;

/// R of every marking hop; N is large enough for all of them, as R3 asks.
const THRESHOLDS: u32 = 4;
/// Hops of the long path.
const LONG: usize = 7;

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let mut exhibit = Exhibit::new(
        "r2r3",
        "Results R2 and R3, some of many hops mark (R = 4, N large)",
        format!("Algorithm 1 and simulation on the same messages: {}", studio.said(HOPS)),
    );
    let mut csv = Vec::new();
    three(&mut exhibit, studio, &mut csv)?;
    let laws = laws(studio)?;
    long(&mut exhibit, out, &laws, &mut csv)?;
    exhaustive(&mut exhibit, &laws)?;
    exhibit.csv(out, "r2r3", &["mix", "hops", "marking", "n", "i_algorithm1", "i_simulated"], &csv)?;
    Ok(exhibit)
}

fn setting(pairs: &[Pair; 1], counter_max: u32) -> Result<Setting> {
    let space = Space::around(pairs, vec![THRESHOLDS], counter_max, Rule::Edge)?;
    Ok(search(pairs, &space, &Objective::Mean)?.best.setting)
}

/// A hop marked and unmarked.
fn spreads(law: &Law, setting: &Setting) -> [Spread; 2] {
    let way = evaluate(&Pair { forward: vec![law.clone()], reverse: vec![] }, setting).forward;
    [
        Spread { mean_ns: way.error_mean_ns, var_ns2: way.error_var_ns2 },
        Spread { mean_ns: way.delay_mean_ns, var_ns2: way.delay_var_ns2 },
    ]
}

/// Every set of marking switches of three, in each mix.
fn three(exhibit: &mut Exhibit, studio: &Studio, csv: &mut Vec<Vec<String>>) -> Result<()> {
    let (mut worst, mut steps_up, mut steps, mut apart) = (f64::INFINITY, 0, 0, 0.0f64);
    for mix in Mix::ALL {
        let seen = studio.network(mix, HOPS)?;
        let all = seen.exchanges(None);
        let pairs = [all.pair()?];
        let setting = setting(&pairs, u32::from(u16::MAX))?;
        let hops = |laws: &[Law]| laws.iter().map(|law| spreads(law, &setting)).collect::<Vec<_>>();
        let (there, back) = (hops(&pairs[0].forward), hops(&pairs[0].reverse));
        let raw = (mse_of(&unmarked(&there), &unmarked(&back)), all.raw_mse_ns2());
        let mut found = [(0.0, 0.0); 1 << HOPS];
        for (set, found) in found.iter_mut().enumerate().skip(1) {
            // Switch i is hop i there and the last but i back.
            let marks = |switch: usize| set >> switch & 1 == 1;
            let pick = |hops: &[[Spread; 2]], at: &dyn Fn(usize) -> bool| -> Vec<Spread> {
                hops.iter().enumerate().map(|(hop, both)| both[usize::from(!at(hop))]).collect()
            };
            let behind = |hop: usize| marks(HOPS - 1 - hop);
            let expected = improvement(mse_of(&pick(&there, &marks), &pick(&back, &behind)), raw.0);
            let simulated = {
                let there = all.0[0].iter().map(|waits| left(&setting, waits, marks));
                let back = all.0[1].iter().map(|waits| left(&setting, waits, behind));
                let squares: f64 = there.zip(back).map(|(a, b)| 0.25 * (a - b) * (a - b)).sum();
                improvement(squares / all.0[0].len() as f64, raw.1)
            };
            *found = (expected, simulated);
            apart = apart.max((simulated / expected - 1.0).abs());
            let switches: Vec<_> = (0..HOPS).filter(|&s| marks(s)).map(|s| format!("s{}", s + 1)).collect();
            csv.push(vec![
                mix.name().into(),
                HOPS.to_string(),
                switches.join("+"),
                "large".into(),
                expected.to_string(),
                simulated.to_string(),
            ]);
            if set.count_ones() == 1 {
                worst = worst.min(simulated);
            }
        }
        // Each switch more, whichever were there before.
        for set in 0..1 << HOPS {
            for more in (0..HOPS).filter(|more| set >> more & 1 == 0) {
                steps += 1;
                steps_up += usize::from(found[set | 1 << more].1 > found[set].1);
            }
        }
        let one = |switch: usize| percent(found[1 << switch].1);
        let (two, all_three) = (found[0b11].1, found[0b111].1);
        exhibit.line(
            format!("{}: I, s1 / s2 / s3 alone; s1 and s2; all three", mix.name()),
            "improves; more with more hops",
            format!("{} / {} / {}; {}; {}", one(0), one(1), one(2), percent(two), percent(all_three)),
        );
    }
    exhibit.line("least I where one switch of three marks", "above 0", percent(worst));
    exhibit.line("one marking switch more makes I grow", "always", format!("{steps_up} of {steps}"));
    let what = "R2, least I where one switch of three marks";
    exhibit.rows.push(Row::new(GROUP, what, "%", Asked::AtLeast(0.0), vec![100.0 * worst]));
    let what = "R2 and R3, I simulated against Algorithm 1, furthest of 35";
    exhibit.rows.push(Row::new(GROUP, what, "%", Asked::AtMost(5.0), vec![100.0 * apart]));
    Ok(())
}

fn unmarked(hops: &[[Spread; 2]]) -> Vec<Spread> {
    hops.iter().map(|both| both[1]).collect()
}

/// What messages met at one hop of each flow.
fn laws(studio: &Studio) -> Result<Vec<(PaperFlow, Law)>> {
    let law = |flow: PaperFlow| {
        let seen = studio.network(Mix::Of(flow), HOPS)?;
        let waits = seen.exchanges(None).0[0].iter().map(|waits| waits[0]).collect();
        Ok((flow, Law::samples(waits)?))
    };
    PaperFlow::ALL.into_iter().map(law).collect()
}

/// Seven hops of one flow, one to all of them marking: with all the counter that they need, and with N = 16.
fn long(
    exhibit: &mut Exhibit,
    out: &Path,
    laws: &[(PaperFlow, Law)],
    csv: &mut Vec<Vec<String>>,
) -> Result<()> {
    let mut series = Vec::new();
    for (colour, (flow, law)) in laws.iter().enumerate() {
        let one = [Pair { forward: vec![law.clone()], reverse: vec![law.clone()] }];
        let setting = setting(&one, THRESHOLDS)?;
        let mut ends = Vec::new();
        for (n, stroke) in [(THRESHOLDS * LONG as u32, Stroke::Line), (16, Stroke::Dashed)] {
            let mut points = Vec::new();
            for marking in 0..=LONG {
                let setting = Setting::new(setting.delta_ns(), THRESHOLDS, n, Rule::Edge)?;
                let way = evaluate(&Pair { forward: vec![law.clone(); marking], reverse: vec![] }, &setting)
                    .forward;
                let marked = Spread { mean_ns: way.error_mean_ns, var_ns2: way.error_var_ns2 };
                let [_, plain] = spreads(law, &setting);
                let path: Vec<_> = std::iter::once(marked).chain(vec![plain; LONG - marking]).collect();
                let raw = vec![plain; LONG];
                let gain = improvement(mse_of(&path, &path), mse_of(&raw, &raw));
                points.push((marking as f64, gain));
                csv.push(vec![
                    flow.name().into(),
                    LONG.to_string(),
                    marking.to_string(),
                    n.to_string(),
                    gain.to_string(),
                    String::new(),
                ]);
            }
            let grows = points.windows(2).all(|pair| pair[1].1 > pair[0].1);
            ends.push((n, grows, points[LONG].1));
            let name = if n == 16 { format!("{flow}, N = 16") } else { format!("{flow}, N for all") };
            series.push(Series::new(name, stroke, colour, points));
        }
        let said = |(n, grows, last): &(u32, bool, f64)| {
            format!(
                "N = {n}: {}, {} with all 7",
                if *grows { "grows" } else { "does not always grow" },
                percent(*last)
            )
        };
        exhibit.line(
            format!("{flow}: I from 0 to 7 of 7 hops marking"),
            "grows, if all R are always available",
            ends.iter().map(said).collect::<Vec<_>>().join("; "),
        );
    }
    let plot = Lines {
        title: "R3: improvement with the number of marking hops of 7 (R = 4)",
        x: Axis::linear("hops that mark"),
        y: Axis::linear("I"),
        series,
    };
    exhibit.plot(out, "r2r3", &plot)
}

/// R2 says "in most cases": all paths of three hops with any of the four flows at each, either way, one switch marking.
fn exhaustive(exhibit: &mut Exhibit, laws: &[(PaperFlow, Law)]) -> Result<()> {
    let one = laws.iter().map(|(_, law)| law.clone()).collect::<Vec<_>>();
    let pairs = [Pair { forward: one.clone(), reverse: one.clone() }];
    let setting = setting(&pairs, u32::from(u16::MAX))?;
    let hops: Vec<_> = one.iter().map(|law| spreads(law, &setting)).collect();
    let (mut cases, mut better, mut worst) = (0u32, 0u32, (0.0f64, String::new()));
    for number in 0..4usize.pow(2 * HOPS as u32) {
        let digit = |place: usize| number / 4usize.pow(place as u32) % 4;
        let path = |from: usize, marked: usize| -> Vec<Spread> {
            (0..HOPS).map(|hop| hops[digit(from + hop)][usize::from(hop != marked)]).collect()
        };
        let raw = mse_of(&path(0, HOPS), &path(HOPS, HOPS));
        for switch in 0..HOPS {
            let gain = improvement(mse_of(&path(0, switch), &path(HOPS, HOPS - 1 - switch)), raw);
            cases += 1;
            better += u32::from(gain > 0.0);
            if gain < worst.0 {
                let names = |from: usize| {
                    (0..HOPS).map(|hop| laws[digit(from + hop)].0.name()).collect::<Vec<_>>().join(" ")
                };
                worst = (gain, format!("{} forward, {} back, s{} marks", names(0), names(HOPS), switch + 1));
            }
        }
    }
    let ours = format!("{better} of {cases}");
    let what = "paths of three hops with any flows, one switch marking: I above 0";
    if worst.0 < 0.0 {
        exhibit.differs(
            what,
            "in most cases",
            ours,
            format!(
                "worst is {} ({}): the bias that the switch takes away had hidden another's",
                percent(worst.0),
                worst.1
            ),
        );
    } else {
        exhibit.line(what, "in most cases", ours);
    }
    Ok(())
}
