//! Fig. 4, the motivating example: a short flow in one direction, a median filter, and marks.

use super::{
    exhibit::{Exhibit, percent, us},
    network::{Marks, Mix, Network},
    runs::{Exchanges, left, simulate},
    studio::{MARKS, Studio},
};
use crate::plot::{Axis, Lines, Series, Stroke};
use anyhow::Result;
use plimsoll_lab::traffic::PaperFlow;
use plimsoll_model::{Filter, Objective, Rule, Setting, Space, Window, search};
use std::path::Path;

/// The paper does not say which flow; this one's load is the middle of its four.
const FLOW: PaperFlow = PaperFlow::Lm;
/// Length of the median filter, as in Fig. 14.
const WINDOW: usize = 5;
/// Between exchanges, ms.
const INTERVAL_MS: f64 = 15.625;
/// When the flow begins and ends, and when all ends, s.
const SPAN: (f64, f64, f64) = (3.0, 7.0, 10.0);

fn rms(values: &[f64]) -> f64 {
    (values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64).sqrt()
}

/// Errors behind a filter that is fed with what `keep` leaves of each message's waits.
fn filtered(exchanges: Exchanges<'_>, filter: Filter, keep: impl Fn(&[f64]) -> f64) -> Result<Vec<f64>> {
    let mut window = Window::new(filter, WINDOW)?;
    let both = exchanges.0[0].iter().zip(exchanges.0[1]);
    Ok(both.map(|(there, back)| window.push(keep(there), keep(back))).collect())
}

pub(super) fn exhibit(studio: &Studio, out: &Path) -> Result<Exhibit> {
    let source = format!(
        "simulator, one hop at 1 Gbit/s, {FLOW} towards the client from {} to {} s of {} s, nothing else; an exchange each \
         {INTERVAL_MS} ms; rms of 8 seeds while the flow lasts",
        SPAN.0, SPAN.1, SPAN.2
    );
    let mut exhibit = Exhibit::new("fig4", "Fig. 4, motivating example: a short-lived flow, one way", source);
    let network = |seconds, back, marks| Network {
        mix: Mix::Of(FLOW),
        hops: 1,
        back,
        marks,
        interval_ms: INTERVAL_MS,
        seconds,
    };
    // While the flow lasts, 8 times; without it there is no error at all, which a run without flows tells.
    let seen = simulate(&network(studio.seconds(32.0).max(SPAN.1 - SPAN.0), false, MARKS), 8)?;
    let all = seen.exchanges(None);
    let pair = all.pair()?;
    let raw = rms(&all.errors(|waits| waits.iter().sum()));
    let sum = |waits: &[f64]| waits.iter().sum::<f64>();
    exhibit.differs(
        "raw rms",
        "14.3 us",
        us(raw),
        "the paper does not say which flow it is, nor R and delta: ratios are what can be compared (filtered 0.99, marked 0.31 \
         of the raw error)",
    );
    let median = rms(&filtered(all, Filter::MedianDelay, sum)?);
    exhibit.differs(
        "median delay filter",
        "14.1 us",
        us(median),
        "ptp4l's filter, T2 - T1 less the median of (forward + reverse)/2, halves nothing: it leaves the whole of a wait that \
         only one direction has. A median of offsets, below, takes a third off where waits are independent; the paper's \
         0.99 is between the two, as of a queue that outlasts the window",
    );
    let offsets = rms(&filtered(all, Filter::MedianOffset, sum)?);
    exhibit.line("median of offsets", "14.1 us", us(offsets));
    let pairs = [pair];
    let mut best = None;
    let mut csv = Vec::new();
    for r in [1, 2, 3, 4, 8] {
        let plan = search(&pairs, &Space::around(&pairs, vec![r], r, Rule::Edge)?, &Objective::Mean)?;
        let setting = plan.best.setting;
        let found = rms(&all.errors(|waits| left(&setting, waits, |_| true)));
        let improved = 1.0 - found / raw;
        csv.push(vec![
            r.to_string(),
            (setting.delta_ns() / 1e3).to_string(),
            (found / 1e3).to_string(),
            improved.to_string(),
        ]);
        let what = format!("marked, R = {r}, best delta {}", us(setting.delta_ns()));
        let paper = if r == 4 { "4.5 us, about 70 %" } else { "R and delta not in the text" };
        exhibit.line(what, paper, format!("{}, {}", us(found), percent(improved)));
        if r == 4 {
            best = Some(setting);
        }
    }
    exhibit.csv(out, "fig4", &["r", "delta_us", "rms_us", "improvement"], &csv)?;
    if let Some(setting) = best {
        series(&mut exhibit, out, &network, &setting)?;
    }
    Ok(exhibit)
}

/// The error over time, as the figure draws it.
fn series(
    exhibit: &mut Exhibit,
    out: &Path,
    network: &dyn Fn(f64, bool, Marks) -> Network,
    setting: &Setting,
) -> Result<()> {
    let seen = simulate(&network(SPAN.1 - SPAN.0, false, MARKS), 1)?;
    let all = seen.exchanges(None);
    let sum = |waits: &[f64]| waits.iter().sum::<f64>();
    let mut curves = Vec::new();
    let kinds = [
        ("raw", all.errors(sum)),
        ("median of offsets, M = 5", filtered(all, Filter::MedianOffset, sum)?),
        ("marked, R = 4", all.errors(|waits| left(setting, waits, |_| true))),
    ];
    let mut csv: Vec<Vec<String>> = Vec::new();
    for (colour, (name, errors)) in kinds.into_iter().enumerate() {
        let at = |n: usize| SPAN.0 + n as f64 * INTERVAL_MS / 1e3;
        // Without traffic the error is 0.
        let mut points = vec![(0.0, 0.0), (SPAN.0, 0.0)];
        points.extend(errors.iter().enumerate().map(|(n, error)| (at(n), error / 1e3)));
        points.extend([(SPAN.1, 0.0), (SPAN.2, 0.0)]);
        for (n, error) in errors.iter().enumerate() {
            match csv.get_mut(n) {
                Some(row) => row.push((error / 1e3).to_string()),
                None => csv.push(vec![at(n).to_string(), (error / 1e3).to_string()]),
            }
        }
        curves.push(Series::new(name, Stroke::Line, [0, 3, 2][colour], points));
    }
    exhibit.csv(out, "fig4-series", &["t_s", "raw_us", "filtered_us", "marked_us"], &csv)?;
    let plot = Lines {
        title: "Fig. 4b: offset error while a flow lasts",
        x: Axis::linear("t, s"),
        y: Axis::linear("error, us"),
        series: curves,
    };
    exhibit.plot(out, "fig4", &plot)
}
