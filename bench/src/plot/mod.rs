//! Plots as SVG.

mod lines;
mod scatter;

pub(crate) use lines::{Axis, Lines, Series, Stroke};
pub(crate) use scatter::Scatter;

use anyhow::{Result, anyhow};
use std::path::Path;

const SIZE: (u32, u32) = (960, 600);

/// Tells which file could not be drawn. Plotters' errors hold references to the drawing.
fn told(drawn: Result<(), Box<dyn std::error::Error + '_>>, file: &Path) -> Result<()> {
    drawn.map_err(|error| anyhow!("draw {}: {error}", file.display()))
}
