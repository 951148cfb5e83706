//! Columns for a terminal: text to the left, numbers to the right.

/// A table with a head.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether there is nothing but the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows[0].len();
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
        let numeric = |c: usize| {
            let mut cells = self.rows.iter().skip(1).filter_map(|r| r.get(c)).filter(|s| !s.is_empty());
            cells.all(|s| s == "-" || s.starts_with(|first: char| first.is_ascii_digit()))
        };
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let width = width(c).unwrap_or(0);
                let gap = if c + 1 == columns { "" } else { "  " };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_and_numbers_are_right() {
        let mut table = Table::new(&["port", "frames"]);
        table.row(vec!["eth1".into(), "7".into()]);
        table.row(vec!["e".into(), "1000".into()]);
        assert_eq!(table.to_string(), "port  frames\neth1       7\ne       1000\n");
    }
}
