//! The switch's end of the control socket, on mio's event loop together with signals and link changes.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    os::{
        fd::RawFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream as StdStream},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use mio::{
    Events, Interest, Poll, Token,
    net::{UnixListener, UnixStream},
    unix::SourceFd,
};
use rustix::net::sockopt::socket_peercred;

use super::{Request, full_name};

/// Why [`Server::wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGINT or SIGTERM.
    Stop,
    /// The watched descriptor is readable.
    Watched,
    /// The time is over.
    Timeout,
}

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const WATCHED: Token = Token(2);
const FIRST_CLIENT: usize = 3;
/// A request is one word, perhaps with a name; a client that sends more than this is cut off.
const LONGEST_REQUEST: usize = 256;
/// A client that asks again while more octets than this wait for it to read them is cut off. One answer may be longer.
const MOST_UNREAD: usize = 1 << 20;
/// Clients served at one time.
const MOST_CLIENTS: usize = 64;
/// What one more is told.
const CROWDED: &[u8] = b"{\"error\":\"64 clients are served already; try again when some have ended\"}\n";

/// Listens, and answers.
pub(crate) struct Server {
    poll: Poll,
    events: Events,
    listener: UnixListener,
    signals: UnixStream,
    clients: HashMap<Token, Client>,
    next: usize,
}

struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Server {
    /// Takes the abstract name of `name`, and SIGINT and SIGTERM of the process.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let address = SocketAddr::from_abstract_name(full_name(name)?)?;
        let mut listener = UnixListener::bind_addr(&address)
            .with_context(|| format!("a switch called {name:?} runs already; choose another --name"))?;
        let (reader, writer) = StdStream::pair()?;
        reader.set_nonblocking(true)?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        let mut signals = UnixStream::from_std(reader);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(64),
            listener,
            signals,
            clients: HashMap::new(),
            next: FIRST_CLIENT,
        })
    }

    /// Also wakes up when `fd` is readable. It must stay open as long as the server.
    pub(crate) fn watch(&self, fd: RawFd) -> Result<()> {
        Ok(self.poll.registry().register(&mut SourceFd(&fd), WATCHED, Interest::READABLE)?)
    }

    /// Serves clients until something else happens.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut answer: impl FnMut(Request) -> Result<serde_json::Value>,
    ) -> Result<Event> {
        loop {
            match self.poll.poll(&mut self.events, timeout) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            if self.events.is_empty() {
                return Ok(Event::Timeout);
            }
            let tokens: Vec<Token> = self.events.iter().map(|e| e.token()).collect();
            let mut outcome = None;
            for token in tokens {
                match token {
                    SIGNALS => {
                        let mut drained = [0; 16];
                        let _ = self.signals.read(&mut drained);
                        outcome = Some(Event::Stop);
                    }
                    WATCHED => outcome = outcome.or(Some(Event::Watched)),
                    LISTENER => self.accept(),
                    client => self.serve(client, &mut answer),
                }
            }
            if let Some(event) = outcome {
                return Ok(event);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let own = rustix::process::geteuid();
            let trusted = socket_peercred(&stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own);
            if !trusted {
                continue; // closed unanswered
            }
            if self.clients.len() >= MOST_CLIENTS {
                let _ = stream.write(CROWDED);
                continue;
            }
            let token = Token(self.next);
            self.next = self.next.checked_add(1).unwrap_or(FIRST_CLIENT);
            if self
                .poll
                .registry()
                .register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)
                .is_ok()
            {
                self.clients.insert(token, Client { stream, request: Vec::new(), answer: Vec::new() });
            }
        }
    }

    fn serve(&mut self, token: Token, answer: &mut impl FnMut(Request) -> Result<serde_json::Value>) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        if client.turn(answer).is_err() {
            let _ = self.poll.registry().deregister(&mut client.stream);
            self.clients.remove(&token);
        }
    }
}

impl Client {
    /// Reads and writes what goes without blocking. An error ends the client.
    fn turn(&mut self, answer: &mut impl FnMut(Request) -> Result<serde_json::Value>) -> io::Result<()> {
        let mut part = [0; LONGEST_REQUEST];
        // A client that has shut its end down after the question still gets the answer.
        let mut ended = false;
        while !ended {
            match self.stream.read(&mut part) {
                Ok(0) => ended = true,
                Ok(n) => self.request.extend_from_slice(&part[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
            if self.request.len() > LONGEST_REQUEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        while let Some(end) = self.request.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.request.drain(..=end).collect();
            if self.answer.len() > MOST_UNREAD {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let value = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => {
                    answer(request).unwrap_or_else(|e| serde_json::json!({ "error": format!("{e:#}") }))
                }
                Err(_) => serde_json::json!({
                    "error": "unknown request; ask \"snapshot\", \"fdb\", \"flush-fdb\", {\"hold\": PORT} or {\"release\": PORT} as one line of JSON"
                }),
            };
            self.answer.extend_from_slice(value.to_string().as_bytes());
            self.answer.push(b'\n');
        }
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(n) => drop(self.answer.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if ended && self.answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ask, client::running};

    #[test]
    fn a_client_is_answered_and_the_name_goes_with_the_server() {
        let name = format!("test-{}", std::process::id());
        let mut server = Server::start(&name).unwrap();
        assert!(running().contains(&name));
        assert!(Server::start(&name).is_err(), "the name is taken");
        let asked = name.clone();
        let client = std::thread::spawn(move || ask(Some(&asked), Request::Snapshot));
        while !client.is_finished() {
            let event = server.wait(Some(Duration::from_millis(20)), |request| {
                assert_eq!(request, Request::Snapshot);
                Ok(serde_json::json!({ "switches": [], "frames": 7 }))
            });
            assert_eq!(event.unwrap(), Event::Timeout);
        }
        assert_eq!(client.join().unwrap().unwrap()["frames"], 7);

        let serve = |server: &mut Server| {
            server.wait(Some(Duration::from_millis(20)), |_| Ok(serde_json::json!(7))).unwrap();
        };
        let connect = || {
            let address = SocketAddr::from_abstract_name(full_name(&name).unwrap()).unwrap();
            let stream = StdStream::connect_addr(&address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            stream
        };
        let answer = |mut stream: &StdStream| {
            let mut text = [0; 256];
            let length = stream.read(&mut text).unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        // A question and no more: the client's end is shut down, as `socat` does it.
        let asked = connect();
        (&asked).write_all(b"\"snapshot\"\n").unwrap();
        asked.shutdown(std::net::Shutdown::Write).unwrap();
        serve(&mut server);
        assert_eq!(answer(&asked), "7\n");
        drop(asked);
        // A client that asks and never reads is cut off before it costs much memory.
        let deaf = connect();
        deaf.set_nonblocking(true).unwrap();
        let long = "x".repeat(MOST_UNREAD / 4);
        let asked = (0..64).take_while(|_| {
            let sent = (&deaf).write_all(b"\"snapshot\"\n").is_ok();
            server.wait(Some(Duration::from_millis(20)), |_| Ok(serde_json::json!(long))).unwrap();
            let most = server.clients.values().map(|client| client.answer.len()).max();
            assert!(most.unwrap_or(0) < 2 * MOST_UNREAD, "{most:?}");
            sent
        });
        assert!((4..32).contains(&asked.count()));
        assert!(server.clients.is_empty());
        // Clients that say nothing do not make the next one look like a stranger.
        let idle: Vec<_> = (0..MOST_CLIENTS).map(|_| connect()).collect();
        serve(&mut server);
        let one_more = connect();
        serve(&mut server);
        assert!(answer(&one_more).contains("64 clients are served already"));
        drop((idle, one_more));
        drop(server);
        assert!(!running().contains(&name));
    }
}
