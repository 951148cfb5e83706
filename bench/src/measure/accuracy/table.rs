//! The paper's Table I, and beside it what this switch reached in its worst cases.

use super::GROUP;
use crate::{
    judge::Wrong,
    report::{Asked, Row},
};
use anyhow::{Context, Result};
use std::{fmt::Write as _, fs, path::Path};

/// What says that a message waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// One threshold.
    Ecn,
    /// Many.
    Cmc,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Ecn => "ECN",
            Self::Cmc => "CMC",
        }
    }

    /// What the paper's Table I says.
    const fn paper(self) -> &'static str {
        match self {
            Self::Ecn => "paper: Tofino 2.6 %, 1497 ns, 2.2 %; EdgeCore 8.5 %, 3951 ns, 5.8 %",
            Self::Cmc => "paper: Tofino, R = 32: 9.8 %, 11952 ns, 5.2 %",
        }
    }
}

/// The worst of all cases, by method and judge.
#[derive(Debug)]
struct Entry {
    method: Method,
    judge: &'static str,
    /// Share misclassified, and in which case.
    share: f64,
    case: String,
    worst_ps: u128,
    worst_share: f64,
    checked: u64,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
}

impl Table {
    /// Takes in one case.
    pub(super) fn add(&mut self, method: Method, judge: &'static str, case: &str, wrong: &Wrong) {
        let share = wrong.share(wrong.wrong);
        let known = self.entries.iter_mut().find(|entry| entry.method == method && entry.judge == judge);
        let Some(entry) = known else {
            self.entries.push(Entry {
                method,
                judge,
                share,
                case: case.into(),
                worst_ps: wrong.worst_ps,
                worst_share: wrong.worst_share,
                checked: wrong.checked,
            });
            return;
        };
        if share > entry.share {
            (entry.share, entry.case) = (share, case.into());
        }
        entry.worst_ps = entry.worst_ps.max(wrong.worst_ps);
        entry.worst_share = entry.worst_share.max(wrong.worst_share);
        entry.checked += wrong.checked;
    }

    /// The share misclassified, the rest in the note.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |entry: &Entry| {
            let Entry { method, judge, share, case, worst_ps, worst_share, checked } = entry;
            let what = format!("Table I, {} {judge}: misclassified, worst case", method.name());
            Row::new(GROUP, what, "%", Asked::Nothing, vec![share * 100.0]).note(format!(
                "{case}; of all {checked}: at most {:.0} ns and {:.2} % of a threshold; {}",
                *worst_ps as f64 / 1000.0,
                worst_share * 100.0,
                method.paper()
            ))
        };
        self.entries.iter().map(row).collect()
    }

    /// The same as a table of Markdown.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let mut text = String::from(
            "| | judged by | misclassified, worst case | max error, ns | max error, % of its threshold |\n|---|---|---|---|---|\n\
             | ECN | paper, Tofino | 2.6 % | 1497 | 2.2 |\n\
             | ECN | paper, EdgeCore | 8.5 % | 3951 | 5.8 |\n\
             | CMC | paper, Tofino, R = 32 | 9.8 % | 11952 | 5.2 |\n",
        );
        for entry in &self.entries {
            let Entry { method, judge, share, case, worst_ps, worst_share, .. } = entry;
            let _ = writeln!(
                text,
                "| {} | {judge} | {:.3} % ({case}) | {:.0} | {:.2} |",
                method.name(),
                share * 100.0,
                *worst_ps as f64 / 1000.0,
                worst_share * 100.0
            );
        }
        fs::write(file, text).with_context(|| file.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_stands() {
        let mut table = Table::default();
        let wrong = |checked, wrong, worst_ps| Wrong { checked, wrong, worst_ps, ..Wrong::default() };
        table.add(Method::Cmc, "live", "calm", &wrong(100, 1, 5_000));
        table.add(Method::Cmc, "live", "wild", &wrong(100, 9, 3_000));
        table.add(Method::Cmc, "live", "mild", &wrong(100, 2, 1_000));
        table.add(Method::Ecn, "live", "wild", &wrong(100, 0, 0));
        let rows = table.rows();
        assert_eq!(rows.len(), 2);
        assert!((rows[0].measured - 9.0).abs() < 1e-9);
        assert!(rows[0].note.starts_with("wild; of all 300: at most 5 ns"), "{}", rows[0].note);
    }
}
