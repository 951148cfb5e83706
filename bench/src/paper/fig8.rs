//! Fig. 8: the region of improvement and the variance over R, one hop at 10 Gbit/s.

use super::{
    exhibit::{Exhibit, percent},
    fig7::{begins, said},
    studio::Studio,
    testbed::RATES,
};
use crate::plot::{Axis, Lines, Series, Stroke};
use anyhow::Result;
use plimsoll_model::{Interval, Pair, Rule, Setting, evaluate, variance_region};
use std::path::Path;

const MOST: u32 = 8;

/// Percentages at R = 1 and at R = 8.
struct Ends {
    /// Share of the range where C1 holds.
    c1: (f64, f64),
    /// Where the variance falls in truth.
    truth: (f64, f64),
    /// How much of it goes.
    gone: (f64, f64),
}

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let testbed = studio.testbed()?;
    let mut exhibit = Exhibit::new("fig8", "Fig. 8, improvement with R over one hop", said(&testbed));
    let (mut regions, mut falls, mut csv) = (Vec::new(), Vec::new(), Vec::new());
    let mut ends: Vec<Ends> = Vec::new();
    for (colour, ((_, name), (law, range))) in
        RATES.into_iter().zip(testbed.laws.iter().zip(testbed.range_ns)).enumerate()
    {
        let (mut tail, mut truth, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for r in 1..=MOST {
            let x = f64::from(r);
            tail.push((x, 100.0 * (1.0 - begins(law, r, range)? / range)));
            let span = Interval { from_ns: range / 1e4, to_ns: range };
            let exact = variance_region(law, r, Rule::Edge, span, 2000)?;
            let size: f64 = exact.iter().map(|region| region.to_ns - region.from_ns).sum();
            truth.push((x, 100.0 * size / range));
            let setting = Setting::new(range / (x + 1.0), r, r, Rule::Edge)?;
            let pair = Pair { forward: vec![law.clone()], reverse: vec![] };
            let way = evaluate(&pair, &setting).forward;
            gone.push((x, 100.0 * (1.0 - way.error_var_ns2 / way.delay_var_ns2)));
            csv.push(vec![
                name.into(),
                r.to_string(),
                tail[tail.len() - 1].1.to_string(),
                truth[truth.len() - 1].1.to_string(),
                gone[gone.len() - 1].1.to_string(),
            ]);
        }
        let both = |points: &[(f64, f64)]| (points[0].1, points[points.len() - 1].1);
        ends.push(Ends { c1: both(&tail), truth: both(&truth), gone: both(&gone) });
        regions.push(Series::new(format!("{name}, C1"), Stroke::Line, colour, tail));
        regions.push(Series::new(format!("{name}, variance falls"), Stroke::Dashed, colour, truth));
        falls.push(Series::new(name, Stroke::Line, colour, gone));
    }
    let list = |of: &dyn Fn(&Ends) -> f64| {
        ends.iter().map(|end| format!("{:.0}", of(end))).collect::<Vec<_>>().join(", ") + " %"
    };
    exhibit.line("C1's share of the range at R = 1, by rate", "95, 81, 78, 65 %", list(&|end| end.c1.0));
    exhibit.differs(
        "the same at R = 8",
        "increases with R",
        list(&|end| end.c1.1),
        "C1 asks 2E[Q]/(1 + (2R - 1)P(Q > R delta)): R delta leaves the tail sooner than 2R - 1 grows, so where R matters its \
         region begins later, not earlier",
    );
    exhibit.line(
        "share of the range where the variance falls in truth, R = 1",
        "-",
        list(&|end| end.truth.0),
    );
    exhibit.line("the same at R = 8", "-", list(&|end| end.truth.1));
    let span = |of: &dyn Fn(&Ends) -> f64| {
        let values = ends.iter().map(of);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        format!("{} to {}", percent(low / 100.0), percent(high / 100.0))
    };
    exhibit.differs(
        "variance that goes, threshold at range/(R + 1), R = 1",
        "18 to 62 %",
        span(&|end| end.gone.0),
        "the paper's \"R divided by the range\" is range/(R + 1), and the range is the longest wait seen: the longer one looks, \
         the farther out is the one threshold. Bursts that a queue or a window ends have shorter tails",
    );
    exhibit.line("the same at R = 8", "80 to 95 %", span(&|end| end.gone.1));
    exhibit.csv(
        out,
        "fig8",
        &["rate", "r", "c1_percent", "variance_falls_percent", "variance_gone_percent"],
        &csv,
    )?;
    let plot = Lines {
        title: "Fig. 8a: share of the range in which C1 holds, and in which the variance falls",
        x: Axis::linear("R"),
        y: Axis::linear("share of the range, %"),
        series: regions,
    };
    exhibit.plot(out, "fig8a", &plot)?;
    let plot = Lines {
        title: "Fig. 8b: variance that goes with thresholds at range/(R + 1)",
        x: Axis::linear("R"),
        y: Axis::linear("reduction of variance, %"),
        series: falls,
    };
    exhibit.plot(out, "fig8b", &plot)?;
    Ok(exhibit)
}
