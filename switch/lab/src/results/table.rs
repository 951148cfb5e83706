//! Columns for a terminal: text to the left, numbers to the right; times and rates as people read them.

use std::fmt;

/// A table with a head.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether there is nothing but the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let cells = |c: usize| self.rows.iter().filter_map(move |row| row.get(c));
        let width = |c: usize| cells(c).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let numeric = |c: usize| {
            let number =
                |s: &str| s == "-" || s.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
            cells(c).skip(1).filter(|cell| !cell.is_empty()).all(|cell| number(cell))
        };
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let (width, gap) = (width(c), if c + 1 == columns { "" } else { "  " });
                if numeric(c) {
                    line.push_str(&format!("{cell:>width$}{gap}"));
                } else {
                    line.push_str(&format!("{cell:<width$}{gap}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time given in nanoseconds, with three digits that matter: `850 ns`, `12.3 us`, `1.23 ms`.
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1.0, " ns"), (1e3, " us"), (1e6, " ms"), (1e9, " s")], 3)
}

/// A rate given in bit/s: `99.98mbit`.
pub(super) fn rate(bps: f64) -> String {
    scaled(bps, &[(1.0, "bit"), (1e3, "kbit"), (1e6, "mbit"), (1e9, "gbit")], 4)
}

/// An amount of octets: `1538 B`, `61.5 kB`.
pub fn octets(n: u64) -> String {
    if n < 10_000 {
        format!("{n} B")
    } else {
        scaled(n as f64, &[(1e3, " kB"), (1e6, " MB"), (1e9, " GB")], 3)
    }
}

/// `value` in the largest of `units` that leaves it 1 or more, with `digits` digits; whole in the smallest.
fn scaled(value: f64, units: &[(f64, &str)], digits: usize) -> String {
    let unit = units.iter().rposition(|(factor, _)| value.abs() >= *factor).unwrap_or(0);
    let (factor, name) = units[unit];
    let shown = value / factor;
    let whole = if shown.abs() < 1.0 { 1 } else { shown.abs().log10() as usize + 1 };
    let decimals = if factor == 1.0 { 0 } else { digits.saturating_sub(whole) };
    format!("{shown:.decimals$}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_and_numbers_are_right() {
        let mut table = Table::new(&["port", "offset"]);
        table.row(vec!["eth1".into(), "-7 ns".into()]);
        table.row(vec!["e".into(), "1000 ns".into()]);
        table.row(vec!["f".into(), "-".into()]);
        assert_eq!(table.to_string(), "port   offset\neth1    -7 ns\ne     1000 ns\nf           -\n");
    }

    #[test]
    fn quantities_have_the_digits_that_matter() {
        let times: Vec<_> = [0.0, 850.4, 12_345.0, 1_234_567.0, -118_250.0, 2e9].map(time).into();
        assert_eq!(times, ["0 ns", "850 ns", "12.3 us", "1.23 ms", "-118 us", "2.00 s"]);
        assert_eq!(
            [99_981_234.0, 1e9, 70e6, 500.0].map(rate),
            ["99.98mbit", "1.000gbit", "70.00mbit", "500bit"]
        );
        assert_eq!([0, 1538, 61_520, 1_000_000].map(octets), ["0 B", "1538 B", "61.5 kB", "1.00 MB"]);
    }
}
