//! Standard output and standard error, which may be closed or full at any time: that ends no switch and no lab.
//!
//! `writeln!(Out, ..)?` and `writeln!(Note, ..)` in place of `println!` and `eprintln!`, which panic there.

use std::{
    fmt::{Arguments, Display},
    io::{self, ErrorKind, Write},
};

use anyhow::{Context, Result};
use serde::Serialize;

/// Standard output: what was asked for.
pub(crate) struct Out;

impl Out {
    /// For `write!` and `writeln!`. A reader that has seen enough (`| head -1`) is no failure.
    ///
    /// # Errors
    /// The text could not be written, for instance to a full disk.
    pub(crate) fn write_fmt(&self, text: Arguments<'_>) -> Result<()> {
        let mut out = io::stdout().lock();
        match out.write_fmt(text).and_then(|()| out.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other.context("standard output: nothing more can be written; see where it goes"),
        }
    }
}

/// Standard error: what happens. Where nobody can read it, it is lost.
pub(crate) struct Note;

impl Note {
    /// For `write!` and `writeln!`.
    pub(crate) fn write_fmt(&self, text: Arguments<'_>) {
        let _ = io::stderr().lock().write_fmt(text);
    }
}

/// A result on standard output, as its tables or as JSON.
///
/// # Errors
/// As [`Out::write_fmt`].
pub(crate) fn result<T: Serialize + Display>(result: &T, json: bool) -> Result<()> {
    if json { writeln!(Out, "{}", serde_json::to_string_pretty(result)?) } else { write!(Out, "{result}") }
}
