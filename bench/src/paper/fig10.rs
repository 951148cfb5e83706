//! Fig. 10: how far the waits are from an exponential law, with the mean observed and with that of M/M/1.

use super::{
    exhibit::{Exhibit, PICTURE},
    network::Mix,
    studio::Studio,
    table3::{PRINTED, mean_of_waiting, mm1},
};
use crate::{
    plot::{Axis, Lines, Series, Stroke},
    statistics::ks_distance_to,
};
use anyhow::Result;
use std::path::Path;

/// What the paper takes as acceptable.
const ACCEPTED: f64 = 0.05;

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let mut exhibit = Exhibit::new(
        "fig10",
        "Fig. 10, KS statistic of the waits against exponential laws",
        format!("{}; waits above 0, and of all packets", studio.said(1)),
    );
    let (mut csv, mut sample, mut theory) = (Vec::new(), Vec::new(), Vec::new());
    for (name, _) in PRINTED {
        let seen = studio.network(Mix::Of(name), 1)?;
        let mut waits = seen.ways[0].packets[0].clone();
        waits.sort_by(f64::total_cmp);
        let waited = &waits[waits.partition_point(|wait| *wait <= 0.0)..];
        let exponential = |mean: f64| move |x: f64| 1.0 - (-x / mean).exp();
        let law = mm1(name)?;
        let (own, expected) = (mean_of_waiting(waited), law.mean_ns());
        let all_mean = waits.iter().sum::<f64>() / waits.len() as f64;
        let by = [
            ks_distance_to(waited, exponential(own)),
            ks_distance_to(waited, exponential(expected)),
            ks_distance_to(&waits, exponential(all_mean)),
            ks_distance_to(&waits, |x| 1.0 - law.ccdf(x)),
        ];
        let [own, expected, ..] = by;
        let n = waited.len() as f64;
        let mean = mean_of_waiting(waited);
        let spread = (waited.iter().map(|w| (w - mean) * (w - mean)).sum::<f64>() / n).sqrt() / mean;
        exhibit.line(format!("{name}: with the observed mean"), PICTURE, format!("{own:.3}"));
        exhibit.line(format!("{name}: with the mean of M/M/1"), PICTURE, format!("{expected:.3}"));
        sample.push(own);
        theory.push(expected);
        let mut row = vec![name.name().to_owned()];
        row.extend(by.map(|distance| distance.to_string()));
        row.push(spread.to_string());
        exhibit.line(format!("{name}: deviation by mean (exponential: 1)"), PICTURE, format!("{spread:.2}"));
        csv.push(row);
    }
    let below = sample.iter().chain(&theory).filter(|distance| **distance < ACCEPTED).count();
    exhibit.line("tests below 0.05", "none of 8", format!("{below} of 8"));
    let ordered = |values: &[f64], falls: bool| {
        values.windows(2).all(|pair| if falls { pair[0] >= pair[1] } else { pair[0] <= pair[1] })
    };
    let said = |yes: bool| if yes { "yes" } else { "no" };
    exhibit.line(
        "observed mean: the lower the load, the nearer to exponential",
        "yes",
        said(ordered(&sample, true)),
    );
    exhibit.line("mean of M/M/1: the higher the load, the nearer", "yes", said(ordered(&theory, false)));
    let better = sample.iter().zip(&theory).all(|(own, expected)| own < expected);
    let what = "the observed mean is nearer for every flow";
    if better {
        exhibit.line(what, "yes", "yes");
    } else {
        exhibit.differs(
            what,
            "yes",
            "no",
            "waits behind a link that has spaced the packets have fewer short and fewer long ones than an exponential has, so \
             at a high load the longer mean of M/M/1 fits the short ones as well as their own mean does",
        );
    }
    let head = [
        "flow",
        "waiting_observed_mean",
        "waiting_mm1_mean",
        "all_observed_mean",
        "all_against_mm1_with_its_atom",
        "waiting_deviation_by_mean",
    ];
    exhibit.csv(out, "fig10", &head, &csv)?;
    let names = PRINTED.map(|(name, _)| name.name());
    let points = |values: &[f64]| values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
    let plot = Lines {
        title: "Fig. 10: KS statistic against exponential laws",
        x: Axis::names("flow", &names),
        y: Axis::linear("KS statistic"),
        series: vec![
            Series::new("observed mean", Stroke::Dots, 3, points(&sample)),
            Series::new("mean of M/M/1", Stroke::Dots, 0, points(&theory)),
            Series::new("0.05", Stroke::Dashed, 7, vec![(-0.5, ACCEPTED), (3.5, ACCEPTED)]),
        ],
    };
    exhibit.plot(out, "fig10", &plot)?;
    Ok(exhibit)
}
