//! Fig. 13: Algorithm 1 over three hops: optimal threshold, MSE and improvement over R, by what was seen at each link.

use super::{
    GROUP,
    exhibit::{Exhibit, PICTURE, percent, us},
    network::Mix,
    runs::{Seen, Way},
    studio::Studio,
    table3::mm1,
};
use crate::{
    plot::{Axis, Lines, Series, Stroke},
    report::{Asked, Row},
};
use anyhow::Result;
use plimsoll_lab::traffic::PaperFlow;
use plimsoll_model::{Law, Objective, Pair, Plan, Rule, Space, search};
use std::path::Path;

pub(super) const HOPS: usize = 3;
const MOST: u32 = 16;
/// The paper's optimal deltas at R = 1 in us, by VI-C2, and how near ours are to be.
const PRINTED: [(PaperFlow, f64); 2] = [(PaperFlow::Sf, 24.0), (PaperFlow::Ss, 12.0)];
const NEAR: f64 = 0.10;

/// The laws of the packets that waited, at each link: what makes the paper's lambda_o and its thresholds come out.
pub(super) fn waited(seen: &Seen) -> Result<[Pair; 1]> {
    laws(seen, |wait| wait > 0.0)
}

fn laws(seen: &Seen, keep: impl Fn(f64) -> bool) -> Result<[Pair; 1]> {
    let way = |way: &Way| {
        let law = |waits: &Vec<f64>| Law::samples(waits.iter().copied().filter(|wait| keep(*wait)).collect());
        way.packets.iter().map(law).collect::<Result<Vec<_>, _>>()
    };
    Ok([Pair { forward: way(&seen.ways[0])?, reverse: way(&seen.ways[1])? }])
}

/// The best delta of each of these R.
pub(super) fn best(pairs: &[Pair; 1], thresholds: Vec<u32>, counter_max: u32) -> Result<Plan> {
    Ok(search(pairs, &Space::around(pairs, thresholds, counter_max, Rule::Edge)?, &Objective::Mean)?)
}

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let mut exhibit = Exhibit::new(
        "fig13",
        "Fig. 13, Algorithm 1 over three hops",
        format!("Algorithm 1 on the waits above 0 of up to 600,000 packets a link: {}", studio.said(HOPS)),
    );
    let mut csv = Vec::new();
    let (mut deltas, mut errors, mut gains, mut wider) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (colour, mix) in Mix::ALL.into_iter().enumerate() {
        let seen = studio.network(mix, HOPS)?;
        let pairs = waited(&seen)?;
        let plan = best(&pairs, (1..=MOST).collect(), 16)?;
        let more = best(&pairs, (1..=2 * MOST).collect(), 32)?;
        let points = |plan: &Plan, of: &dyn Fn(&plimsoll_model::Choice) -> f64| -> Vec<(f64, f64)> {
            plan.by_thresholds
                .iter()
                .map(|choice| (f64::from(choice.setting.thresholds()), of(choice)))
                .collect()
        };
        for (n, plan) in [(16, &plan), (32, &more)] {
            csv.extend(plan.by_thresholds.iter().map(|choice| {
                vec![
                    mix.name().into(),
                    n.to_string(),
                    choice.setting.thresholds().to_string(),
                    (choice.setting.delta_ns() / 1e3).to_string(),
                    (choice.value / 1e6).to_string(),
                    choice.improvement[0].to_string(),
                ]
            }));
        }
        let name = mix.name();
        deltas.push(Series::new(name, Stroke::Line, colour, points(&plan, &|c| c.setting.delta_ns() / 1e3)));
        errors.push(Series::new(name, Stroke::Line, colour, points(&plan, &|c| c.value / 1e6)));
        gains.push(Series::new(name, Stroke::Line, colour, points(&plan, &|c| c.improvement[0])));
        if let Mix::Of(flow @ (PaperFlow::Sf | PaperFlow::Ss)) = mix {
            let value = |c: &plimsoll_model::Choice| c.value / 1e6;
            wider.push(Series::new(format!("{name}, N = 16"), Stroke::Dashed, colour, points(&plan, &value)));
            wider.push(Series::new(format!("{name}, N = 32"), Stroke::Line, colour, points(&more, &value)));
            first(&mut exhibit, &seen, flow, &plan)?;
        }
        later(&mut exhibit, name, &plan, &more);
    }
    let head = ["mix", "n", "r", "delta_us", "mse_us2", "improvement"];
    exhibit.csv(out, "fig13", &head, &csv)?;
    for (file, title, y, series) in [
        ("fig13a", "Fig. 13a: optimal threshold, N = 16", Axis::linear("delta, us"), deltas),
        ("fig13b", "Fig. 13b: MSE at the optimal threshold, N = 16", Axis::log("MSE, us^2"), errors),
        ("fig13c", "Fig. 13c: MSE at the optimal threshold", Axis::log("MSE, us^2"), wider),
        ("fig13d", "Fig. 13d: improvement at the optimal threshold, N = 16", Axis::linear("I"), gains),
    ] {
        exhibit.plot(out, file, &Lines { title, x: Axis::linear("R"), y, series })?;
    }
    Ok(exhibit)
}

/// R = 1: the thresholds that the text has, and other readings of the law.
fn first(exhibit: &mut Exhibit, seen: &Seen, flow: PaperFlow, plan: &Plan) -> Result<()> {
    let found = plan.by_thresholds[0].setting.delta_ns() / 1e3;
    let paper = PRINTED.iter().find(|(name, _)| *name == flow).map_or(f64::NAN, |(_, us)| *us);
    let law = mm1(flow)?;
    let strict = [Pair { forward: vec![law.clone(); HOPS], reverse: vec![law; HOPS] }];
    let strict = best(&strict, vec![1], 16)?.best.setting.delta_ns();
    let all = best(&laws(seen, |_| true)?, vec![1], 16)?.best.setting.delta_ns();
    let met = best(&[seen.exchanges(None).pair()?], vec![1], 16)?.best.setting.delta_ns();
    exhibit.differs(
        format!("{flow}: optimal delta at R = 1"),
        format!("{paper} us"),
        format!("{found:.1} us"),
        format!(
            "so by the waits of packets that did wait; of all packets it is {}, of what Syncs and Delay_Reqs met {}, by \
             M/M/1 {}",
            us(all),
            us(met),
            us(strict)
        ),
    );
    let asked = Asked::Within(paper * (1.0 - NEAR), paper * (1.0 + NEAR));
    let row = Row::new(GROUP, format!("Fig. 13a, {flow}, optimal delta at R = 1"), "us", asked, vec![found]);
    exhibit.rows.push(row.note(format!("paper {paper} us; M/M/1 {}", us(strict))));
    let row =
        Row::new(GROUP, format!("Fig. 13a, {flow}, by M/M/1"), "us", Asked::Nothing, vec![strict / 1e3]);
    exhibit.rows.push(row);
    Ok(())
}

/// What the text says of larger R and N.
fn later(exhibit: &mut Exhibit, name: &str, plan: &Plan, more: &Plan) {
    let of = |plan: &Plan, r: usize| {
        (plan.by_thresholds[r - 1].value / 1e6, plan.by_thresholds[r - 1].improvement[0])
    };
    let [one, eight, most] = [1, 8, 16].map(|r| of(plan, r));
    let raw = one.0 / ((1.0 - one.1) * (1.0 - one.1));
    let what = format!("{name}: MSE in us^2 without marks, at R = 1, 8, 16 (N = 16)");
    exhibit.line(what, PICTURE, format!("{raw:.0}, {:.1}, {:.2}, {:.2}", one.0, eight.0, most.0));
    let what = format!("{name}: I at R = 1, 8, 16 (N = 16)");
    let ours = format!("{}, {}, {}", percent(one.1), percent(eight.1), percent(most.1));
    exhibit.line(what, "over 80 %; no gain beyond R = 8", ours);
    let parts = (1..=16).find(|&r| of(more, r).0 < of(plan, r).0 * 0.99);
    let ours = format!(
        "{}; I at R = 16 and 32 with N = 32: {}, {}",
        parts.map_or("they do not part".into(), |r| format!("R = {r}")),
        percent(of(more, 16).1),
        percent(of(more, 32).1)
    );
    exhibit.line(
        format!("{name}: N = 32 parts from N = 16 (by 1 %) at"),
        "R = 8; N may end from R = 6 on",
        ours,
    );
}
