//! Fig. 9: laws of single hops add up to the law of the path, and what marks make of it.

use super::{
    exhibit::{Exhibit, PICTURE, us},
    network::Mix,
    studio::Studio,
};
use crate::plot::{Axis, Lines, Series, Stroke};
use anyhow::Result;
use plimsoll_model::{
    Distribution, Objective, Pair, Rule, Space, delay_distribution, error_distribution, search,
};
use std::path::Path;

const STEP_NS: f64 = 250.0;
/// Width of a bar of the density, steps.
const BAR: usize = 4;
/// R and N of what is left.
const MARKS: (u32, u32) = (5, 32);

/// Density by us, in bars.
fn density(law: &Distribution) -> Vec<(f64, f64)> {
    let nodes: Vec<_> = law.nodes().collect();
    let width_us = BAR as f64 * law.step_ns() / 1e3;
    let bars = nodes.chunks(BAR).map(|bar| {
        let mass: f64 = bar.iter().map(|node| node.1).sum();
        (bar[0].0 / 1e3 + 0.5 * width_us, mass / width_us)
    });
    bars.filter(|(x, _)| *x < 150.0).collect()
}

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let source = format!("the model on the laws that Syncs met in MI: {}", studio.said(3));
    let mut exhibit = Exhibit::new("fig9", "Fig. 9, delays of hops add up to that of the path", source);
    let seen = studio.network(Mix::Mi, 3)?;
    // Laws from one half of the seeds, what they are held against from the other.
    let pair = seen.exchanges(Some(0)).pair()?;
    let other = seen.exchanges(Some(1));
    let (mut series, mut csv) = (Vec::new(), Vec::new());
    for hops in 1..=3 {
        let law = delay_distribution(&pair.forward[..hops], STEP_NS)?;
        let mut sums: Vec<f64> = other.0[0].iter().map(|waits| waits[..hops].iter().sum()).collect();
        sums.sort_by(f64::total_cmp);
        let mean = sums.iter().sum::<f64>() / sums.len() as f64;
        let var = sums.iter().map(|sum| (sum - mean) * (sum - mean)).sum::<f64>() / sums.len() as f64;
        let share = |x: f64| sums.partition_point(|sum| *sum <= x) as f64 / sums.len() as f64;
        // From 1 us on: on the grid, what lies between 0 and its first node counts half as 0.
        let mut cdf = 0.0;
        let mut distance: f64 = 0.0;
        for (x, p) in law.nodes() {
            cdf += p;
            if x >= 1e3 {
                distance = distance.max((cdf - 0.5 * p - share(x)).abs());
            }
        }
        let what = format!("after hop {hops}: mean and deviation");
        let ours = format!(
            "{} and {} (simulated: {} and {}), distance of the laws {distance:.3}",
            us(law.mean_ns()),
            us(law.var_ns2().sqrt()),
            us(mean),
            us(var.sqrt())
        );
        exhibit.line(what, PICTURE, ours);
        let points = density(&law);
        let name = format!("{hops} hop{}", if hops == 1 { "" } else { "s" });
        csv.extend(points.iter().map(|(x, y)| vec![name.clone(), x.to_string(), y.to_string()]));
        series.push(Series::new(name, Stroke::Line, hops, points));
    }
    let forward = [Pair { forward: pair.forward.clone(), reverse: pair.reverse }];
    let space = Space::around(&forward, vec![MARKS.0], MARKS.1, Rule::Edge)?;
    let setting = search(&forward, &space, &Objective::Mean)?.best.setting;
    let law = error_distribution(&forward[0].forward, &setting, STEP_NS)?;
    let name = format!("3 hops, marked, R = {}, delta {}", MARKS.0, us(setting.delta_ns()));
    exhibit.line(&name, PICTURE, format!("{} and {}", us(law.mean_ns()), us(law.var_ns2().sqrt())));
    let points = density(&law);
    csv.extend(points.iter().map(|(x, y)| vec!["marked".into(), x.to_string(), y.to_string()]));
    series.push(Series::new(name, Stroke::Dashed, 0, points));
    exhibit.csv(out, "fig9", &["law", "x_us", "density_per_us"], &csv)?;
    let plot = Lines {
        title: "Fig. 9: delay after one, two and three hops (MI), and what marks leave",
        x: Axis::linear("delay, us"),
        y: Axis::log("density, 1/us"),
        series,
    };
    exhibit.plot(out, "fig9", &plot)?;
    Ok(exhibit)
}
