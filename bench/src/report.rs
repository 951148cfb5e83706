//! What was asked, what was measured, and whether that is enough: one table, or JSON.

use crate::{facts::Facts, paper::Exhibit, statistics::median};
use serde::Serialize;
use std::fmt::Write as _;

/// What a figure must reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    /// Nothing: it stands beside another for comparison.
    Nothing,
    AtMost(f64),
    AtLeast(f64),
    /// From the first to the second.
    Within(f64, f64),
}

impl Asked {
    fn passes(self, measured: f64) -> Option<bool> {
        match self {
            Self::Nothing => None,
            Self::AtMost(limit) => Some(measured <= limit),
            Self::AtLeast(limit) => Some(measured >= limit),
            Self::Within(low, high) => Some((low..=high).contains(&measured)),
        }
    }
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Which command measures it.
    pub(crate) group: &'static str,
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) asked: Asked,
    /// Median of the rounds.
    pub(crate) measured: f64,
    /// `None` where nothing was asked.
    pub(crate) pass: Option<bool>,
    pub(crate) rounds: Vec<f64>,
    /// What else to know.
    pub(crate) note: String,
}

impl Row {
    pub(crate) fn new(
        group: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        asked: Asked,
        rounds: Vec<f64>,
    ) -> Self {
        let measured = median(&rounds);
        Self {
            group,
            what: what.into(),
            unit,
            asked,
            measured,
            pass: asked.passes(measured),
            rounds,
            note: String::new(),
        }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Puts what else is to be known before the note.
    pub(crate) fn also(mut self, what: Option<&str>) -> Self {
        if let Some(what) = what {
            self.note = if self.note.is_empty() { what.into() } else { format!("{what}; {}", self.note) };
        }
        self
    }

    /// A figure that means nothing, whatever its value, because the measurement was disturbed.
    pub(crate) fn void_if(mut self, void: bool, why: &str) -> Self {
        if void {
            self.pass = self.pass.map(|_| false);
            return self.also(Some(why));
        }
        self
    }
}

/// All figures of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Facts,
    pub(crate) rows: Vec<Row>,
    /// The paper's figures beside ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exhibits: Vec<Exhibit>,
}

impl Report {
    pub(crate) fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.pass == Some(false)).count()
    }

    /// The table as printed.
    pub(crate) fn table(&self) -> String {
        let head = ["", "asked", "measured", "rounds", "", "note"].map(String::from);
        let mut lines = vec![head];
        for row in &self.rows {
            let asked = match row.asked {
                Asked::Nothing => "-".into(),
                Asked::AtMost(limit) => format!("<= {}", value(limit, row.unit)),
                Asked::AtLeast(limit) => format!(">= {}", value(limit, row.unit)),
                Asked::Within(low, high) => format!("{} .. {}", value(low, ""), value(high, row.unit)),
            };
            let pass = match row.pass {
                None => "",
                Some(true) => "pass",
                Some(false) => "MISS",
            };
            lines.push([
                format!("{}: {}", row.group, row.what),
                asked,
                value(row.measured, row.unit),
                row.rounds.len().to_string(),
                pass.into(),
                row.note.clone(),
            ]);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 5] = std::array::from_fn(width);
        let mut text: String = self.exhibits.iter().map(|exhibit| format!("{exhibit}\n")).collect();
        for [what, asked, measured, rounds, pass, note] in &lines {
            let [w0, w1, w2, w3, w4] = widths;
            let line =
                format!("{what:<w0$}  {asked:>w1$}  {measured:>w2$}  {rounds:>w3$}  {pass:<w4$}  {note}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let asked = self.rows.iter().filter(|row| row.pass.is_some()).count();
        let _ = writeln!(
            text,
            "{} of {asked} figures asked for are reached; {}",
            asked - self.missed(),
            self.machine
        );
        text
    }
}

/// A number with as many digits as say something, and its unit.
fn value(number: f64, unit: &str) -> String {
    let digits = match number.abs() {
        n if n == 0.0 || n >= 1000.0 => 0,
        n if n >= 100.0 => 1,
        n if n >= 10.0 => 2,
        n if n >= 0.1 => 3,
        _ => 5,
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if unit.is_empty() { text.into() } else { format!("{text} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_passes_by_its_median_and_fails_when_void() {
        let row = Row::new("core", "x", "ns", Asked::AtMost(80.0), vec![90.0, 70.0, 75.0]);
        assert_eq!((row.measured, row.pass), (75.0, Some(true)));
        assert_eq!(row.void_if(true, "disturbed").pass, Some(false));
        let within = |measured| Row::new("core", "x", "%", Asked::Within(0.9, 1.1), vec![measured]).pass;
        assert_eq!([0.8, 0.9, 1.1, 1.2, f64::NAN].map(within), [false, true, true, false, false].map(Some));
        let row = Row::new("core", "x", "ns", Asked::Nothing, vec![1.0]);
        assert_eq!(row.void_if(true, "disturbed").pass, None);
        assert_eq!(Row::new("a", "nothing measured", "", Asked::AtMost(1.0), vec![]).pass, Some(false));
    }

    #[test]
    fn numbers_keep_what_says_something() {
        let shown = [0.0, 0.00012, 0.95, 80.0, 123.456, 974_123.0].map(|n| value(n, ""));
        assert_eq!(shown, ["0", "0.00012", "0.95", "80", "123.5", "974123"]);
        assert_eq!(value(80.0, "ns"), "80 ns");
    }
}
