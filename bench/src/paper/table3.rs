//! Table III: load and wait of the four flows, expected of M/M/1 and observed at the switch.

use super::{
    GROUP,
    exhibit::{Exhibit, two},
    network::Mix,
    studio::Studio,
};
use crate::report::{Asked, Row};
use anyhow::{Context, Result};
use plimsoll_core::Rate;
use plimsoll_lab::traffic::PaperFlow;
use plimsoll_model::{
    Law,
    tandem::{FLOWS, Flow, Framing, Observed, observe},
};
use std::path::Path;

pub(super) const GBIT: Rate = Rate(1_000_000_000);
/// How far from the paper's observed columns we may be.
const WITHIN: f64 = 0.03;
/// rho, lambda* in us, rho_o, lambda_o in us, as printed.
pub(super) const PRINTED: [(PaperFlow, [f64; 4]); 4] = [
    (PaperFlow::Sf, [0.85, 38.5, 0.86, 26.7]),
    (PaperFlow::Lm, [0.66, 16.0, 0.70, 20.4]),
    (PaperFlow::Sm, [0.50, 6.0, 0.54, 12.5]),
    (PaperFlow::Ss, [0.34, 2.50, 0.37, 8.6]),
];

/// The flow of the model.
pub(super) fn flow(name: PaperFlow) -> Result<&'static Flow> {
    FLOWS.iter().find(|flow| flow.name == name.name()).context("a flow of Table III")
}

/// Its wait by M/M/1.
pub(super) fn mm1(name: PaperFlow) -> Result<Law> {
    let flow = flow(name)?;
    Ok(Law::mm1(flow.size_octets, flow.gap_ns, GBIT)?)
}

/// Mean of what is above 0, ns.
pub(super) fn mean_of_waiting(waits: &[f64]) -> f64 {
    let (count, sum) = waits.iter().filter(|wait| **wait > 0.0).fold((0u64, 0.0), |(n, s), w| (n + 1, s + w));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn tandem(studio: &Studio, name: PaperFlow, framing: Framing, host_link: bool) -> Result<Observed> {
    let packets = studio.seconds(4e6) as usize;
    Ok(observe(flow(name)?, GBIT, framing, host_link, packets, 3)?)
}

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let source = format!("the model (two FIFOs in tandem), and the {}", studio.said(1));
    let mut exhibit = Exhibit::new("table3", "Table III, load and mean wait of the four flows", source);
    let mut csv = Vec::new();
    for (name, printed) in PRINTED {
        let [rho, lambda, rho_o, lambda_o] = printed;
        let law = mm1(name)?;
        let seen = tandem(studio, name, Framing::UDP, true)?;
        let alone = tandem(studio, name, Framing::UDP, false)?;
        let lab = studio.network(Mix::Of(name), 1)?;
        let way = &lab.ways[0];
        let lab_us = mean_of_waiting(&way.packets[0]) / 1e3;
        let model_us = seen.mean_of_waiting_ns() / 1e3;
        exhibit.line(format!("{name} rho"), two(rho), format!("{:.3}", law.ccdf(0.0)));
        exhibit.line(format!("{name} lambda*, us"), format!("{lambda}"), two(law.mean_ns() / 1e3));
        let ours = format!("{:.3} model, {:.3} simulator", seen.load, way.load[0]);
        let what = format!("{name} rho_o");
        if name == PaperFlow::Sf {
            exhibit.differs(
                what,
                two(rho_o),
                ours,
                "the 54 octets of headers and 12 of gap that make the other three come out give SF 0.90, as 850 + 54 octets \
                 each 8 us must",
            );
        } else {
            exhibit.line(what, two(rho_o), ours);
        }
        let ours = format!("{model_us:.2} model, {lab_us:.2} simulator");
        let what = format!("{name} lambda_o, us");
        if name == PaperFlow::Sf {
            let ten = Framing { headers: 0, least: 0, ethernet: 10, gap: 0 };
            let ten = tandem(studio, name, ten, true)?;
            exhibit.differs(
                what,
                format!("{lambda_o}"),
                ours,
                format!(
                    "near, at the load of 0.90 only; 10 octets around each packet would give the printed rho_o ({:.3}), but \
                     then lambda_o is {:.1} us: no set-up shows both. Nothing was dropped here ({} frames)",
                    ten.load,
                    ten.mean_of_waiting_ns() / 1e3,
                    lab.dropped
                ),
            );
        } else {
            exhibit.line(what, format!("{lambda_o}"), ours);
        }
        for (by, load, wait) in [("model", seen.load, model_us), ("simulator", way.load[0], lab_us)] {
            for (column, found, paper, unit) in
                [("rho_o", load, rho_o, ""), ("lambda_o", wait, lambda_o, "us")]
            {
                let asked = match name {
                    PaperFlow::Sf => Asked::Nothing,
                    _ => Asked::Within(paper * (1.0 - WITHIN), paper * (1.0 + WITHIN)),
                };
                let what = format!("Table III, {name}, {column}, {by}");
                exhibit
                    .rows
                    .push(Row::new(GROUP, what, unit, asked, vec![found]).note(format!("paper {paper}")));
            }
        }
        csv.push(vec![
            name.name().into(),
            rho.to_string(),
            law.ccdf(0.0).to_string(),
            lambda.to_string(),
            (law.mean_ns() / 1e3).to_string(),
            rho_o.to_string(),
            seen.load.to_string(),
            way.load[0].to_string(),
            lambda_o.to_string(),
            model_us.to_string(),
            lab_us.to_string(),
            (seen.mean_ns() / 1e3).to_string(),
            (alone.mean_of_waiting_ns() / 1e3).to_string(),
            (alone.mean_ns() / 1e3).to_string(),
        ]);
    }
    let head = [
        "flow",
        "rho_paper",
        "rho",
        "lambda_star_us_paper",
        "lambda_star_us",
        "rho_o_paper",
        "rho_o_model",
        "rho_o_simulator",
        "lambda_o_us_paper",
        "lambda_o_us_model",
        "lambda_o_us_simulator",
        "mean_of_all_us_model",
        "mean_of_waiting_us_without_host_link",
        "mean_of_all_us_without_host_link",
    ];
    exhibit.csv(out, "table3", &head, &csv)?;
    Ok(exhibit)
}
