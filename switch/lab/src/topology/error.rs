//! A file that no network can be made of: where, which key, what is wrong, what to write instead.

use plimsoll_core::{ConfigError, PortId};
use std::fmt;
use std::ops::Range;
use toml::de::DeTable;

/// Why a file was refused, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TopologyError {
    /// The file, or the name of a built-in lab.
    pub file: String,
    /// Line and column of the place, from 1; `None` where it is the file as a whole.
    pub at: Option<(usize, usize)>,
    /// The key, as a dotted path; empty where it is no key's.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}; {}", self.problem, self.remedy)
    }
}

/// The text of a file, to say where something stands in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error at a place of the text.
    pub(super) fn error(
        &self,
        span: Option<Range<usize>>,
        key: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> TopologyError {
        TopologyError {
            file: self.file.to_owned(),
            at: span.map(|s| self.position(s.start)),
            key: key.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// Where the value of a key stands: in `[table]`, or in the table of this number among `[[table]]`. The table itself
    /// for no key. Of a key that is not written it is `None`.
    pub(super) fn find(&self, table: &str, number: Option<usize>, key: &str) -> Option<Range<usize>> {
        let document = DeTable::parse(self.text).ok()?;
        let mut value = document.get_ref().get(table)?;
        if let Some(number) = number {
            value = value.get_ref().get(number)?;
        }
        for part in key.split('.').filter(|part| !part.is_empty()) {
            value = value.get_ref().get(part)?;
        }
        Some(value.span())
    }

    /// What the core refused, where the file says it. `table` gives the place of a port.
    pub(super) fn refused(
        &self,
        error: ConfigError,
        table: impl FnOnce(PortId) -> (&'static str, usize),
    ) -> TopologyError {
        let ConfigError { place, port, key, problem, remedy } = error;
        let who = place.strip_suffix(&format!(", {key}")).unwrap_or(&place);
        let problem = format!("{who}: {problem}");
        let table = port.map(table);
        let (at, key) = match (table, file_key(key)) {
            (_, Key::Marking(key)) => {
                let at = self.find("marking", None, &key).or_else(|| self.find("marking", None, ""));
                (at, format!("marking.{key}"))
            }
            (Some((table, number)), Key::Port(key)) => {
                let at = self.find(table, Some(number), &key).or_else(|| self.find(table, Some(number), ""));
                (at, format!("{table}.{key}"))
            }
            (None, Key::Port(key)) => (self.find("switch", None, ""), format!("switch.{key}")),
        };
        self.error(at, key, problem, remedy)
    }

    /// What the TOML reader refused, in our form.
    pub(super) fn parse_error(&self, error: &toml::de::Error) -> TopologyError {
        let span = error.span();
        let key = span.as_ref().map(|s| self.key_at(s.start)).unwrap_or_default();
        let (problem, remedy) = rephrase(error.message());
        self.error(span, key, problem, remedy)
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text[..offset.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        (line, column)
    }

    /// The dotted path of the key around `offset`: the last table header before it, and the key of its line.
    fn key_at(&self, offset: usize) -> String {
        let offset = offset.min(self.text.len());
        let start = self.text[..offset].rfind('\n').map_or(0, |i| i + 1);
        let line = self.text[start..].lines().next().unwrap_or("").trim();
        let header = |l: &str| l.trim().trim_matches(['[', ']']).to_owned();
        if line.starts_with('[') {
            return header(line.split('#').next().unwrap_or(line));
        }
        let table = self.text[..start].lines().rev().find(|l| l.trim_start().starts_with('['));
        let key = line.split('=').next().unwrap_or("").trim();
        match table {
            Some(table) => format!("{}.{key}", header(table.split('#').next().unwrap_or(table))),
            None => key.to_owned(),
        }
    }
}

/// A key as files name it.
enum Key {
    Port(String),
    Marking(String),
}

/// The file's name of a key of the core.
fn file_key(core: &str) -> Key {
    // What follows is a unit or a symbol.
    let core = core.split(' ').next().unwrap_or(core);
    match core {
        "queue_bytes" => Key::Port("queue".into()),
        "default_priority" => Key::Port("class".into()),
        "pass_reserved" => Key::Port("pass".into()),
        "fdb_fixed" => Key::Port("fdb".into()),
        "depth.cells" => Key::Marking("cell".into()),
        "ecn.threshold" => Key::Marking("ecn-threshold".into()),
        _ => match core.strip_prefix("mark.") {
            Some(key) => Key::Marking(key.replace('_', "-")),
            None => Key::Port(core.replace('_', "-")),
        },
    }
}

/// The reader's message as a problem and a remedy.
fn rephrase(message: &str) -> (String, String) {
    const EXAMPLE: &str = "see `plimsoll lab cat one-hop` for a whole file";
    let message = message.trim().replace('\n', " ");
    let quoted = |text: &str| text.replace('`', "");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (field, expected) = rest.split_once(", expected ").unwrap_or((rest, ""));
        let expected = quoted(expected.strip_prefix("one of ").unwrap_or(expected));
        let remedy = if expected.is_empty() || expected == "there are no fields" {
            "leave it out".to_owned()
        } else {
            format!("the keys here are {expected}")
        };
        return (format!("unknown key {}", quoted(field)), remedy);
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (variant, expected) = rest.split_once(", expected ").unwrap_or((rest, ""));
        return (format!("unknown value {:?}", quoted(variant)), format!("write {}", quoted(expected)));
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        let field = quoted(field);
        return (format!("has no {field}"), format!("write {field} = ..., {EXAMPLE}"));
    }
    if message.starts_with("duplicate key") {
        return ("stands here twice".into(), "keep one of them, names are given once".into());
    }
    match message.split_once("; ") {
        Some((problem, remedy)) => (problem.to_owned(), remedy.to_owned()),
        None => (message, EXAMPLE.to_owned()),
    }
}
