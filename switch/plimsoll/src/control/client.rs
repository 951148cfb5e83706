//! Asking a running switch.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{PREFIX, Request};

/// Names of the switches that run in this network namespace.
pub(crate) fn running() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut names: Vec<String> = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7))
        .filter_map(|path| path.strip_prefix('@')?.strip_prefix(PREFIX))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Asks the switch called `name`, or the only one that runs.
pub(crate) fn ask(name: Option<&str>, request: Request) -> Result<serde_json::Value> {
    let names = running();
    let name = match (name, names.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, []) => bail!(
            "no switch runs in this network namespace; start one with `plimsoll run` or `plimsoll lab up`"
        ),
        (None, several) => bail!("several switches run: {}; choose one with --name", several.join(", ")),
    };
    let address = SocketAddr::from_abstract_name(format!("{PREFIX}{name}"))?;
    let stream = match UnixStream::connect_addr(&address) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => bail!(
            "no switch called {name:?} runs here (running: {}); name one of these, or start it with `plimsoll run` or \
             `plimsoll lab up`",
            listed(&names)
        ),
        stream => stream.with_context(|| format!("switch {name:?}: connect"))?,
    };
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = serde_json::to_string(&request)?;
    line.push('\n');
    let mut answer = String::new();
    // The switch closes the connection of a user whom it does not answer, perhaps before the question is there.
    let asked =
        (&stream).write_all(line.as_bytes()).and_then(|()| BufReader::new(&stream).read_line(&mut answer));
    match asked {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            bail!("the switch {name:?} did not answer within 5 s; it may be starting or stopping: try again")
        }
        Err(e) if !matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Err(e.into());
        }
        _ if answer.is_empty() => {
            bail!("the switch {name:?} does not answer this user; ask as root or as the user that started it")
        }
        _ => {}
    }
    let value: serde_json::Value = serde_json::from_str(&answer).context("the switch's answer is no JSON")?;
    if let Some(error) = value.get("error").and_then(|e| e.as_str()) {
        bail!("{error}");
    }
    Ok(value)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
