//! How true the marks are, judged from outside: at known depths, live on virtual Ethernet under several kinds of load, and
//! under every measure of depth that a switch may have. The paper's Table I, and scatter plots as its Fig. 3b and 5b.

mod held;
mod holds;
mod live;
mod measures;
mod table;

use crate::{facts::Facts, report::Row};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::{fs, path::Path, time::Duration};

const GROUP: &str = "accuracy";

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Known depths: every carrier, counter and number of thresholds.
    Held,
    /// Real traffic over virtual Ethernet.
    Live,
    /// Every measure of depth, at 10 Gbit/s in virtual time.
    Measures,
}

/// Measures these parts, or all, with so many seconds for each live case; plots and captures go to `out`.
pub(crate) fn measure(facts: &Facts, parts: &[Part], span: Duration, out: &Path) -> Result<Vec<Row>> {
    let out = &fs::create_dir_all(out)
        .and_then(|()| out.canonicalize())
        .with_context(|| format!("make the directory {}; name another one by --out", out.display()))?;
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let (mut rows, mut table) = (Vec::new(), table::Table::default());
    if wanted(Part::Measures) {
        rows.extend(facts.unpinned(|| measures::measure(out, &mut table))?);
    }
    if wanted(Part::Held) {
        rows.extend(held::measure(facts, out)?);
    }
    if wanted(Part::Live) {
        rows.extend(live::measure(facts, span, out, &mut table)?);
    }
    rows.extend(table.rows());
    table.write(&out.join("table-1.md"))?;
    Ok(rows)
}
