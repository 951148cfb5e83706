//! Curves and dots by name: figures that compare.

use super::{SIZE, told};
use anyhow::Result;
use plotters::prelude::*;
use std::{ops::Range, path::Path};

/// Colours of series, in their order, then round again.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(90, 90, 90),
];

/// What is drawn.
pub(crate) struct Lines<'t> {
    pub(crate) title: &'t str,
    pub(crate) x: Axis<'t>,
    pub(crate) y: Axis<'t>,
    pub(crate) series: Vec<Series>,
}

/// One axis.
pub(crate) struct Axis<'t> {
    text: &'t str,
    kind: Kind<'t>,
}

enum Kind<'t> {
    Linear,
    Log,
    Names(&'t [&'t str]),
}

impl<'t> Axis<'t> {
    /// From 0, or below it where values are.
    pub(crate) const fn linear(text: &'t str) -> Self {
        Self { text, kind: Kind::Linear }
    }

    /// By decades; what is not above 0 is left out.
    pub(crate) const fn log(text: &'t str) -> Self {
        Self { text, kind: Kind::Log }
    }

    /// A name at each of 0, 1, 2, ..
    pub(crate) const fn names(text: &'t str, names: &'t [&'t str]) -> Self {
        Self { text, kind: Kind::Names(names) }
    }

    fn at(&self, value: f64) -> f64 {
        if matches!(self.kind, Kind::Log) { value.log10() } else { value }
    }

    fn span(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        if let Kind::Names(names) = self.kind {
            return -0.5..names.len() as f64 - 0.5;
        }
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if !low.is_finite() {
            return 0.0..1.0;
        }
        let low = if matches!(self.kind, Kind::Linear) { low.min(0.0) } else { low };
        let room = 0.05 * (high - low).max(1e-9);
        if low == 0.0 { low..high + room } else { low - room..high + room }
    }

    fn label(&self, at: f64) -> String {
        match self.kind {
            Kind::Linear => short(at),
            Kind::Log => short(10f64.powf(at)),
            Kind::Names(names) => {
                let near = at.round();
                let name = names.get(near as usize).filter(|_| near >= 0.0 && (at - near).abs() < 1e-6);
                name.map_or(String::new(), |name| (*name).into())
            }
        }
    }
}

/// Three digits that matter.
fn short(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    };
    let plain = text.contains('.') && !text.contains('e');
    if plain { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    Line,
    Dashed,
    Dots,
}

/// Points with a name.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) stroke: Stroke,
    /// Which colour; series of one thing share it.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(
        name: impl Into<String>,
        stroke: Stroke,
        colour: usize,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Self { name: name.into(), stroke, colour, points }
    }
}

impl Lines<'_> {
    /// Draws it as SVG.
    pub(crate) fn draw(&self, file: &Path) -> Result<()> {
        told(self.try_draw(file), file)
    }

    /// Points as they lie on the axes, without those that do not.
    fn placed(&self, series: &Series) -> Vec<(f64, f64)> {
        let at = series.points.iter().map(|&(x, y)| (self.x.at(x), self.y.at(y)));
        at.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    }

    fn try_draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let placed: Vec<_> = self.series.iter().map(|series| self.placed(series)).collect();
        let all = || placed.iter().flatten();
        let (x, y) = (self.x.span(all().map(|p| p.0)), self.y.span(all().map(|p| p.1)));
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        let names = (60 + 8 * longest as u32).min(SIZE.0 / 3);
        let (left, right) = area.split_horizontally(SIZE.0 - names);
        let mut chart = ChartBuilder::on(&left)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|at| self.x.label(*at))
            .y_label_formatter(&|at| self.y.label(*at))
            .x_desc(self.x.text)
            .y_desc(self.y.text)
            .draw()?;
        for (number, (series, points)) in self.series.iter().zip(placed).enumerate() {
            let colour = COLOURS[series.colour % COLOURS.len()];
            // Its name stands at the right.
            let y = 60 + 22 * number as i32;
            let bar = |from: i32, to: i32| Rectangle::new([(from, y - 1), (to, y + 1)], colour.filled());
            match series.stroke {
                Stroke::Line => {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
                    right.draw(&bar(4, 28))?;
                }
                Stroke::Dashed => {
                    chart.draw_series(DashedLineSeries::new(points, 7, 5, colour.stroke_width(2)))?;
                    right.draw(&bar(4, 13))?;
                    right.draw(&bar(19, 28))?;
                }
                Stroke::Dots => {
                    chart.draw_series(points.iter().map(|&at| Circle::new(at, 4, colour.filled())))?;
                    right.draw(&Rectangle::new([(13, y - 3), (19, y + 3)], colour.filled()))?;
                }
            }
            right.draw(&Text::new(series.name.as_str(), (36, y - 7), ("sans-serif", 15)))?;
        }
        area.present()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_drawn_and_named_and_what_has_no_place_is_left_out() {
        let file = std::env::temp_dir().join(format!("plimsoll-bench-lines-{}.svg", std::process::id()));
        let series = vec![
            Series::new("a curve", Stroke::Line, 0, vec![(0.0, 1.0), (1.0, 100.0), (2.0, 0.0)]),
            Series::new("some dots", Stroke::Dots, 1, vec![(0.0, 5.0), (1.0, f64::NAN), (2.0, 7.0)]),
        ];
        let names = ["SF", "LM", "SM"];
        let plot =
            Lines { title: "a title", x: Axis::names("flow", &names), y: Axis::log("MSE, us^2"), series };
        plot.draw(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        for part in ["a title", "a curve", "some dots", "flow", "MSE, us^2", "SF", "LM", "SM"] {
            assert!(text.contains(part), "{part}");
        }
        assert_eq!(text.matches("<circle").count(), 2);
        let curve = plot.placed(&plot.series[0]);
        assert_eq!(curve, [(0.0, 0.0), (1.0, 2.0)]);
    }

    #[test]
    fn labels_are_short() {
        let shown = [0.0, 12_345.0, 12.5, 4.32109, 0.25, 0.00002].map(short);
        assert_eq!(shown, ["0", "12345", "12.5", "4.32", "0.25", "2.0e-5"]);
    }
}
