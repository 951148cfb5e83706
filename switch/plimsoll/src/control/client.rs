//! Asking a running switch.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
};
use serde_json::Value;

use super::{PREFIX, Request, full_name};

/// For the whole question.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of an answer at most: more than the largest FDB comes to.
const LONGEST_ANSWER: usize = 256 << 20;

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
pub(crate) fn ask(name: Option<&str>, request: Request) -> Result<Value> {
    let names = running();
    let name = match (name, names.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, []) => bail!(
            "no switch runs in this network namespace; start one with `plimsoll run` or `plimsoll lab up`"
        ),
        (None, several) => bail!("several switches run: {}; choose one with --name", several.join(", ")),
    };
    let deadline = Instant::now() + PATIENCE;
    let stream = match connect(&name)? {
        Err(Errno::CONNREFUSED) => bail!(
            "no switch called {name:?} runs here (running: {}); name one of these, or start it with `plimsoll run` or \
             `plimsoll lab up`",
            listed(&names)
        ),
        Err(Errno::AGAIN) => bail!(silent(&name)),
        stream => stream.with_context(|| format!("switch {name:?}: connect"))?,
    };
    // Anybody in the network namespace can take an abstract name.
    let owner = socket_peercred(&stream)?.uid;
    if !owner.is_root() && owner != rustix::process::geteuid() {
        bail!(
            "the name {name:?} was taken by user {owner}, who is neither root nor you: it is not asked; ask as that user, or \
             choose another switch with --name"
        );
    }
    let mut line = serde_json::to_string(&request)?;
    line.push('\n');
    // The switch closes the connection of a user whom it does not answer, perhaps before the question is there.
    let answer = match exchange(&stream, line.as_bytes(), deadline) {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => bail!(silent(&name)),
        Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Vec::new(),
        answer => answer.with_context(|| format!("switch {name:?}"))?,
    };
    if answer.is_empty() {
        bail!("the switch {name:?} does not answer this user; ask as root or as the user that started it");
    }
    let value: Value = serde_json::from_slice(&answer).unwrap_or_default();
    if let Some(error) = value.get("error").and_then(|e| e.as_str()) {
        bail!("{error}");
    }
    if !answer.ends_with(b"\n") || !fits(&request, &value) {
        bail!("{name:?} gave no answer of a switch; ask with the `plimsoll` that started it");
    }
    Ok(value)
}

/// Connects within [`PATIENCE`]: a switch whose queue of clients is full lets one wait.
fn connect(name: &str) -> Result<rustix::io::Result<UnixStream>> {
    let address = SocketAddrUnix::new_abstract_name(full_name(name)?.as_bytes())?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    Ok(rustix::net::connect(&socket, &address).map(|()| socket.into()))
}

/// Sends the question, and reads one line or up to the end.
fn exchange(mut stream: &UnixStream, question: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    stream.write_all(question)?;
    let (mut answer, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while !answer.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if answer.len() > LONGEST_ANSWER {
            return Err(io::Error::other("its answer has no end; is it a switch?"));
        }
    }
    Ok(answer)
}

/// Whether this is what a switch answers to that.
fn fits(request: &Request, answer: &Value) -> bool {
    match request {
        Request::Snapshot => answer["switches"].is_array(),
        Request::Fdb => answer.as_array().is_some_and(|switches| switches.iter().all(Value::is_array)),
        Request::FlushFdb => answer.is_u64(),
        Request::Hold(_) | Request::Release(_) => answer.is_null(),
    }
}

fn silent(name: &str) -> String {
    format!("the switch {name:?} did not answer within 5 s; it may be starting or stopping: try again")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    };

    #[test]
    fn an_answer_without_what_was_asked_for_is_none() {
        let held = Request::Hold("eth1".into());
        for (request, right) in [
            (Request::Snapshot, json!({ "switches": [] })),
            (Request::Fdb, json!([[]])),
            (Request::FlushFdb, json!(3)),
            (held, json!(null)),
        ] {
            assert!(fits(&request, &right), "{right}");
            for wrong in [json!([1, 2, 3]), json!({}), json!("x"), json!(-1)] {
                assert!(!fits(&request, &wrong), "{request:?}: {wrong}");
            }
        }
    }

    #[test]
    fn a_server_that_is_no_switch_is_left_after_a_while() {
        let serve = |name: &str, said: &'static [u8]| {
            let address = SocketAddr::from_abstract_name(full_name(name).unwrap()).unwrap();
            let listener = UnixListener::bind_addr(&address).unwrap();
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let since = Instant::now();
                // Slow or fast, for ever.
                while since.elapsed() < 2 * PATIENCE && stream.write_all(said).is_ok() {
                    if said.len() == 1 {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            });
        };
        let told = |name: &str| ask(Some(name), Request::Snapshot).unwrap_err().to_string();
        let (slow, wrong) = (format!("slow-{}", std::process::id()), format!("wrong-{}", std::process::id()));
        serve(&slow, b" ");
        let since = Instant::now();
        assert!(told(&slow).contains("did not answer within 5 s"));
        assert!(since.elapsed() < PATIENCE + Duration::from_secs(3));
        serve(&wrong, b"{}\n");
        assert!(told(&wrong).contains("no answer of a switch"));
    }

    #[test]
    fn a_name_that_no_socket_can_have_is_refused() {
        let told = ask(Some(&"x".repeat(300)), Request::Snapshot).unwrap_err();
        assert!(told.is::<crate::Usage>(), "{told}");
        assert_eq!(told.to_string(), "--name has 300 octets; a switch's name has 98 at most");
    }
}
