//! Scatter plots: one dot a message, coloured by its mark, and the thresholds as lines.

use super::{SIZE, told};
use anyhow::Result;
use plotters::prelude::*;
use std::{ops::Range, path::Path};

/// Dots of a plot at most: more say no more, and make a file that no browser likes.
const DOTS: usize = 9_000;
/// Lines of thresholds at most.
const LINES: usize = 60;

/// What is drawn.
pub(crate) struct Scatter<'t> {
    pub(crate) title: &'t str,
    pub(crate) x: &'t str,
    pub(crate) y: &'t str,
    /// Position, delay, mark.
    pub(crate) dots: Vec<(f64, f64, u32)>,
    /// Where the mark grows by one, from below.
    pub(crate) thresholds: Vec<f64>,
}

impl Scatter<'_> {
    /// Draws it as SVG.
    pub(crate) fn draw(&self, file: &Path) -> Result<()> {
        told(self.try_draw(file), file)
    }

    fn try_draw(&self, file: &Path) -> Result<(), Box<dyn std::error::Error + '_>> {
        let every = self.dots.len().div_ceil(DOTS).max(1);
        let dots: Vec<_> = self.dots.iter().step_by(every).copied().collect();
        let (x, y) = (span(dots.iter().map(|dot| dot.0)), span(dots.iter().map(|dot| dot.1)));
        let area = SVGBackend::new(file, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .disable_mesh()
            .label_style(("sans-serif", 15))
            .x_desc(self.x)
            .y_desc(self.y)
            .draw()?;
        let shown: Vec<_> = self.thresholds.iter().copied().filter(|at| y.contains(at)).collect();
        for at in shown.iter().step_by(shown.len().div_ceil(LINES).max(1)) {
            let line = [(x.start, *at), (x.end, *at)];
            chart.draw_series(DashedLineSeries::new(line, 6, 4, RED.mix(0.6).stroke_width(1)))?;
        }
        chart.draw_series(dots.iter().map(|&(x, y, mark)| Circle::new((x, y), 1, colour(mark).filled())))?;
        area.present()?;
        Ok(())
    }
}

/// From the least to the greatest, with room above; never empty.
fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let low = if low.is_finite() { low.min(0.0) } else { 0.0 };
    let high = if high.is_finite() { high.max(low + 1e-9) } else { 1.0 };
    low..high + (high - low) * 0.05
}

/// Marks that follow each other look different: 0 blue, 1 orange as in the paper, then round the circle.
fn colour(mark: u32) -> RGBColor {
    match mark {
        0 => RGBColor(31, 119, 180),
        1 => RGBColor(255, 127, 14),
        n => {
            let (r, g, b) = HSLColor(f64::from(n) * 0.381_966 % 1.0, 0.75, 0.42).rgb();
            RGBColor(r, g, b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_dots_lines_and_texts() {
        let dots = (0..20_000).map(|i| (f64::from(i), f64::from(i % 50), i as u32 % 50 / 10)).collect();
        let thresholds = vec![10.0, 20.0, 30.0, 40.0, 1000.0];
        let scatter = Scatter { title: "a title", x: "message", y: "delay, us", dots, thresholds };
        let file = std::env::temp_dir().join(format!("plimsoll-bench-plot-{}.svg", std::process::id()));
        scatter.draw(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(text.matches("<circle").count(), 20_000 / 3 + 1);
        for part in ["a title", "message", "delay, us", "#1F77B4", "#FF7F0E"] {
            assert!(text.contains(part), "{part}");
        }
        // Lines at the four thresholds within the span, dash by dash.
        assert!(text.matches("<polyline").count() > 4);
        let none = Scatter { dots: Vec::new(), thresholds: Vec::new(), ..scatter };
        none.draw(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
}
