//! The paper's tables and figures from our own code: numbers as CSV, plots, the paper's numbers beside ours, and a sentence
//! where they differ.
//!
//! Mathematics is the model's; what the paper measured in its hardware lab or simulated comes from the simulator of labs,
//! which runs the same core as the switch. Seeds are fixed: numbers repeat to the last digit.
//!
//! | file | shows |
//! |---|---|
//! | `network.rs`, `runs.rs`, `studio.rs` | the paper's networks, simulated, and what was seen on them |
//! | `testbed.rs` | one port at 10 Gbit/s, for the data sets that were not published |
//! | `exhibit.rs` | what a figure shows, beside the paper |
//! | the others | a figure each |

mod exhibit;
mod fig10;
mod fig11;
mod fig13;
mod fig14;
mod fig4;
mod fig7;
mod fig8;
mod fig9;
mod network;
mod r2r3;
mod runs;
mod studio;
mod table3;
mod testbed;

pub(crate) use exhibit::Exhibit;

use crate::facts::Facts;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::{fs, path::Path};
use studio::Studio;

/// Which command measures it.
const GROUP: &str = "paper";
/// Share of the time that a quick look simulates.
const QUICK: f64 = 0.125;

/// A table, figure or result of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Motivating example: a short flow, a median filter, marks.
    Fig4,
    /// Four flows: expected and observed load and wait.
    Table3,
    /// Tails, and headroom of conditions C1 to C3.
    Fig7,
    /// Region of improvement and variance over R.
    Fig8,
    /// Laws of delay add up over hops.
    Fig9,
    /// How exponential the waits are.
    Fig10,
    /// Thresholds from M/M/1 and from what was seen.
    Fig11,
    /// Optimal threshold and MSE over R, three hops.
    Fig13,
    /// Pragmatic settings on three hops, simulated.
    Fig14,
    /// Results R2 and R3: one of many hops; more hops.
    R2r3,
    /// All of them.
    All,
}

impl Figure {
    const EACH: [Self; 10] = [
        Self::Table3,
        Self::Fig4,
        Self::Fig7,
        Self::Fig8,
        Self::Fig9,
        Self::Fig10,
        Self::Fig11,
        Self::Fig13,
        Self::Fig14,
        Self::R2r3,
    ];

    fn exhibit(self, studio: &Studio, out: &Path) -> Result<Exhibit> {
        match self {
            Self::Fig4 => fig4::exhibit(studio, out),
            Self::Table3 => table3::exhibit(studio, out),
            Self::Fig7 => fig7::exhibit(studio, out),
            Self::Fig8 => fig8::exhibit(studio, out),
            Self::Fig9 => fig9::exhibit(studio, out),
            Self::Fig10 => fig10::exhibit(studio, out),
            Self::Fig11 => fig11::exhibit(studio, out),
            Self::Fig13 => fig13::exhibit(studio, out),
            Self::Fig14 => fig14::exhibit(studio, out),
            Self::R2r3 | Self::All => r2r3::exhibit(studio, out),
        }
    }
}

/// Makes these figures, or all where none is named; `quick` simulates an eighth of the time.
pub(crate) fn measure(facts: &Facts, figures: &[Figure], quick: bool, out: &Path) -> Result<Vec<Exhibit>> {
    fs::create_dir_all(out)
        .with_context(|| format!("make the directory {}; name another one by --out", out.display()))?;
    let wanted = |figure| figures.is_empty() || figures.contains(&Figure::All) || figures.contains(&figure);
    facts.unpinned(|| {
        let studio = Studio::new(if quick { QUICK } else { 1.0 });
        let mut exhibits = Vec::new();
        for figure in Figure::EACH.into_iter().filter(|figure| wanted(*figure)) {
            eprintln!("plimsoll-bench: paper {figure:?}");
            exhibits.push(figure.exhibit(&studio, out)?);
        }
        let text: Vec<_> = exhibits.iter().map(Exhibit::to_string).collect();
        let file = out.join("paper.txt");
        fs::write(&file, text.join("\n")).with_context(|| file.display().to_string())?;
        Ok(exhibits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Asked;

    /// Each figure that is asked for, from a small part of its simulations: the whole way from lab file to table and files.
    #[test]
    fn cheap_figures_come_out_with_their_files() {
        let out = std::env::temp_dir().join(format!("plimsoll-bench-paper-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        let studio = Studio::new(0.05);
        let made = |figure: Figure| figure.exhibit(&studio, &out).unwrap();

        let table = made(Figure::Table3);
        let asked: Vec<_> = table.rows.iter().filter(|row| row.pass.is_some()).collect();
        assert_eq!(asked.len(), 12, "rho_o and lambda_o of three flows, by model and simulator");
        for row in asked {
            let Asked::Within(low, high) = row.asked else { panic!("{row:?}") };
            // A twentieth of the time: three times the room.
            let middle = 0.5 * (low + high);
            assert!((row.measured / middle - 1.0).abs() < 0.09, "{row:?}");
        }
        let text = table.to_string();
        assert!(text.contains("SF rho_o") && text.contains("no set-up shows both"), "{text}");

        let kolmogorov = made(Figure::Fig10);
        assert!(kolmogorov.rows.is_empty());
        let below = kolmogorov.lines.iter().find(|line| line.what == "tests below 0.05").unwrap();
        assert_eq!(below.ours, "0 of 8", "{kolmogorov}");
        for exhibit in [table, kolmogorov] {
            for file in exhibit.files {
                let text = fs::read_to_string(&file).unwrap();
                assert!(text.lines().count() >= 5 && !text.contains("NaN"), "{}", file.display());
            }
        }
        fs::remove_dir_all(&out).unwrap();
    }
}
