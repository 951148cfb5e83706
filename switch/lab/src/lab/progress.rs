//! What happens while a lab runs, for whoever waits.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Is told of each step.
pub trait Progress: Sync {
    /// A step begins.
    fn step(&self, text: &str);
    /// The measurement goes on: this much of so much.
    fn measuring(&self, elapsed: Duration, total: Duration);
    /// The measurement is over.
    fn measured(&self) {}
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _: &str) {}
    fn measuring(&self, _: Duration, _: Duration) {}
}

/// Lines on standard error: one that is rewritten on a terminal, one each quarter of the time elsewhere.
#[derive(Debug)]
pub struct Stderr {
    terminal: bool,
    /// Quarters of the measurement that were announced.
    quarters: Mutex<u32>,
}

impl Stderr {
    /// For this process's standard error.
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), quarters: Mutex::new(0) }
    }
}

impl Default for Stderr {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for Stderr {
    fn step(&self, text: &str) {
        tell(format_args!("{text}\n"));
    }

    fn measuring(&self, elapsed: Duration, total: Duration) {
        let (done, whole) = (elapsed.min(total).as_secs_f64(), total.as_secs_f64());
        if self.terminal {
            const WIDTH: usize = 30;
            let filled = (done / whole.max(f64::MIN_POSITIVE) * WIDTH as f64) as usize;
            tell(format_args!(
                "\rmeasuring [{:<WIDTH$}] {done:.0} of {whole:.0} s ",
                "#".repeat(filled.min(WIDTH))
            ));
            return;
        }
        let quarter = (done / whole.max(f64::MIN_POSITIVE) * 4.0) as u32;
        if let Ok(mut announced) = self.quarters.lock()
            && quarter > *announced
            && quarter < 4
        {
            *announced = quarter;
            tell(format_args!("measuring: {done:.0} of {whole:.0} s\n"));
        }
    }

    fn measured(&self) {
        if self.terminal {
            // Takes the line away again: it has served.
            tell(format_args!("\r\x1b[K"));
        }
    }
}

/// Writes to standard error. One that is closed ends no lab: the text is lost.
fn tell(text: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}
