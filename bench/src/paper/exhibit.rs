//! What a figure shows: the paper's numbers beside ours, a sentence where they differ, the numbers as CSV, and plots.

use crate::{plot::Lines, report::Row};
use anyhow::{Context, Result, ensure};
use plimsoll_lab::results::Table;
use serde::Serialize;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// What the paper says where its text has no number and its picture alone would.
pub(super) const PICTURE: &str = "not in the text";

/// One figure or table of the paper beside ours.
#[derive(Debug, Serialize)]
pub(crate) struct Exhibit {
    /// As the command line names it.
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    /// Where our numbers come from.
    pub(crate) source: String,
    pub(crate) lines: Vec<Line>,
    /// CSV and SVG.
    pub(crate) files: Vec<PathBuf>,
    /// Figures that something was asked of.
    #[serde(skip)]
    pub(crate) rows: Vec<Row>,
}

/// One number or claim.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) paper: String,
    pub(crate) ours: String,
    /// Where and why they differ, or what they need to agree; empty where there is nothing to say.
    pub(crate) why: String,
}

impl Exhibit {
    pub(super) fn new(figure: &'static str, title: &'static str, source: impl Into<String>) -> Self {
        let source = source.into();
        Self { figure, title, source, lines: Vec::new(), files: Vec::new(), rows: Vec::new() }
    }

    /// Sets a number or claim of the paper beside ours.
    pub(super) fn line(
        &mut self,
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
    ) {
        let line = Line { what: what.into(), paper: paper.into(), ours: ours.into(), why: String::new() };
        self.lines.push(line);
    }

    /// The same, with the sentence that explains the difference.
    pub(super) fn differs(
        &mut self,
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        why: impl Into<String>,
    ) {
        self.line(what, paper, ours);
        if let Some(line) = self.lines.last_mut() {
            line.why = why.into();
        }
    }

    /// Writes a CSV of this name; fails where a row is not as wide as the head.
    pub(super) fn csv(&mut self, out: &Path, name: &str, head: &[&str], rows: &[Vec<String>]) -> Result<()> {
        for row in rows {
            ensure!(
                row.len() == head.len(),
                "{name}.csv: {} values under {} names: {row:?}",
                row.len(),
                head.len()
            );
        }
        let mut text = head.join(",") + "\n";
        rows.iter().for_each(|row| text.push_str(&(row.join(",") + "\n")));
        let file = out.join(format!("{name}.csv"));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        self.files.push(file);
        Ok(())
    }

    /// Draws a plot of this name.
    pub(super) fn plot(&mut self, out: &Path, name: &str, lines: &Lines<'_>) -> Result<()> {
        let file = out.join(format!("{name}.svg"));
        lines.draw(&file)?;
        self.files.push(file);
        Ok(())
    }
}

impl fmt::Display for Exhibit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\nours: {}", self.figure, self.title, self.source)?;
        let mut table = Table::new(&["", "paper", "ours"]);
        for Line { what, paper, ours, .. } in &self.lines {
            table.row(vec![what.clone(), paper.clone(), ours.clone()]);
        }
        write!(f, "{table}")?;
        for line in self.lines.iter().filter(|line| !line.why.is_empty()) {
            writeln!(f, "* {}: {}", line.what, line.why)?;
        }
        let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
        writeln!(f, "written: {}", files.join(" "))
    }
}

/// A number with two digits behind the point.
pub(super) fn two(value: f64) -> String {
    format!("{value:.2}")
}

/// A time in ns as us.
pub(super) fn us(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

/// A share.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhibit_shows_both_sides_says_why_and_writes_its_numbers() {
        let out = std::env::temp_dir().join(format!("plimsoll-bench-exhibit-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        let mut exhibit = Exhibit::new("fig0", "a title", "the model");
        exhibit.line("agrees", "1", "1.01");
        exhibit.differs("differs", "63", "421", "it cannot be");
        exhibit.csv(&out, "fig0", &["a", "b"], &[vec!["1".into(), "2".into()]]).unwrap();
        assert_eq!(fs::read_to_string(out.join("fig0.csv")).unwrap(), "a,b\n1,2\n");
        let wide = exhibit.csv(&out, "wide", &["a"], &[vec!["1".into(), "2".into()]]).unwrap_err();
        assert!(wide.to_string().starts_with("wide.csv: 2 values under 1 names"), "{wide}");
        fs::remove_dir_all(&out).unwrap();
        let text = exhibit.to_string();
        assert!(text.starts_with("fig0: a title\nours: the model\n"), "{text}");
        assert!(text.contains("* differs: it cannot be\nwritten: ") && !text.contains("* agrees"), "{text}");
    }
}
