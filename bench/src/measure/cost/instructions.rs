//! The core in memory: instructions a frame, counted by callgrind, and nanoseconds.

use super::{
    GROUP,
    cases::{Case, Frame, Port},
};
use crate::{
    cpu_time::own_ns,
    report::{Asked, Row},
};
use anyhow::{Context, Result, bail, ensure};
use plimsoll_core::Counter;
use std::{collections::HashMap, process::Command};

/// Frames of the shorter of two runs; the other has twice as many, and what is different is theirs.
const FRAMES: u64 = 20_000;
/// Frames of a round that is timed.
const TIMED: u64 = 400_000;
/// The targets.
const MARKED: f64 = 120.0;
const OTHERS: f64 = 10.0;
/// Name of the command by which a process of its own runs one case.
pub(crate) const COMMAND: &str = "cost-case";

/// Runs one case, for whoever counts its instructions from outside.
pub(crate) fn run_case(number: usize, frames: u64) -> Result<()> {
    let case = *Case::all().get(number).context("there is no such case")?;
    // No clock: callgrind's machine has no vDSO.
    let streamed = case.run(frames, || 0)?;
    ensure!(case.done(&streamed, frames), "{case:?}: {streamed:?}");
    Ok(())
}

pub(super) fn measure(rounds: usize) -> Result<Vec<Row>> {
    let mut rows = count().unwrap_or_else(|error| {
        let what = "instructions a frame";
        vec![Row::new(GROUP, what, "", Asked::AtLeast(1.0), Vec::new()).note(format!("{error:#}"))]
    });
    let cases = Case::all();
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, times) in cases.iter().zip(&mut times) {
            times.push(case.run(TIMED, own_ns)?.spent_ns as f64 / TIMED as f64);
        }
    }
    for (case, times) in cases.iter().zip(times) {
        let what = format!("{}, {}: the core", case.frame.name(), case.port.name());
        rows.push(Row::new(GROUP, what, "ns", Asked::Nothing, times));
    }
    Ok(rows)
}

/// Our Table II.
fn count() -> Result<Vec<Row>> {
    let mut counted: HashMap<(&str, &str), f64> = HashMap::new();
    let mut rows = Vec::new();
    for case in Case::all() {
        let (frame, port) = (case.frame.name(), case.port.name());
        let instructions = instructions(case)?;
        counted.insert((frame, port), instructions);
        let what = format!("{frame}, {port}: instructions");
        let off = counted[&(frame, Port::Off.name())];
        let row = Row::new(GROUP, what, "", Asked::Nothing, vec![instructions]);
        rows.push(row.note(format!("{:+.0} over marks off", instructions - off)));
    }
    let over = |frame: Frame, port: Port, under: Port| {
        let of = |port: Port| counted.get(&(frame.name(), port.name())).copied();
        Some(of(port)? - of(under)?)
    };
    let mut asked = Vec::new();
    for frame in Frame::ALL {
        let ports = Port::ALL
            .into_iter()
            .filter(|port| !matches!(port, Port::Off | Port::Unmarked | Port::Transparent));
        for port in ports {
            let Some(more) = over(frame, port, Port::Off) else { continue };
            let limit = if frame == Frame::Bulk { OTHERS } else { MARKED };
            let what = format!("{}, {}: instructions over marks off", frame.name(), port.name());
            asked.push(Row::new(GROUP, what, "", Asked::AtMost(limit), vec![more]));
        }
        if let Some(more) = over(frame, Port::Transparent, Port::Marks(Counter::Integer)) {
            let what = format!("{}, transparent clock: instructions over marked, integer", frame.name());
            asked.push(Row::new(GROUP, what, "", Asked::AtLeast(0.0), vec![more]));
        }
    }
    asked.extend(rows);
    Ok(asked)
}

/// Instructions that one frame of the case costs.
fn instructions(case: Case) -> Result<f64> {
    let [short, long] = [FRAMES, 2 * FRAMES].map(|frames| callgrind(case, frames));
    Ok((long? - short?) as f64 / FRAMES as f64)
}

fn callgrind(case: Case, frames: u64) -> Result<u64> {
    let program = std::env::current_exe().context("this program")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([COMMAND, &case.number().to_string(), &frames.to_string()])
        .output()
        .context("start valgrind: install the Debian package valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind of {case:?}: {}: {}", output.status, said.trim());
    }
    collected(&said).with_context(|| format!("valgrind of {case:?} said: {}", said.trim()))
}

/// "==17== Collected : 123456"
fn collected(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_sum_is_read() {
        let said =
            "==9== Events    : Ir\n==9== Collected : 12345678\n==9== \n==9== I   refs:      12,345,678\n";
        assert_eq!(collected(said), Some(12_345_678));
        assert_eq!(collected("==9== nothing"), None);
    }
}
