//! Exchanges from a recording: what the messages of two clocks met, message by message and hop by hop.
//!
//! A recording has one row for each time message and egress port, with the delay that it found there. Between a server
//! and a client, a message's path is told from copies that were flooded elsewhere by the other one's messages: at each
//! switch a message is on its way to the client where it leaves by the port that the client's messages come in by, and
//! the other way round. Exchanges are put together as clocks do it:
//!
//! | clock | legs of an exchange | which messages |
//! |---|---|---|
//! | PTP, E2E | Delay_Req -1/2, Sync +1/2 | each Delay_Req, with the newest Sync that had come when it was sent |
//! | PTP, P2P | Pdelay_Req -1/2, Pdelay_Resp -1/2, Sync +1 | each Sync, with the newest Pdelay_Resp that had come |
//! | NTP | request -1/2, response +1/2 | each response, with the newest request that had come |
//!
//! Messages that were dropped on the way, or not recorded at each hop, are in no exchange; nor are those that were on
//! their way while the lab settled. `csv.rs` reads rows of a CSV file.

mod csv;
mod paths;

use std::collections::HashMap;

use crate::{Exchanges, ModelError};

pub use csv::CsvColumns;

/// What a message is to clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// PTP, messageType 0 (IEEE 1588-2019 table 36).
    Sync,
    /// PTP, messageType 1.
    DelayReq,
    /// PTP, messageType 2.
    PdelayReq,
    /// PTP, messageType 3.
    PdelayResp,
    /// NTP, modes 1 and 3.
    NtpRequest,
    /// NTP, modes 2, 4 and 5.
    NtpResponse,
}

/// One message at one egress port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// The switch.
    pub switch: &'a str,
    /// The port that it came in by.
    pub ingress: &'a str,
    /// The port that it left by.
    pub egress: &'a str,
    /// What it is.
    pub kind: MessageKind,
    /// Who sent it: a PTP port identity, an IP address.
    pub source: &'a str,
    /// PTP's domainNumber: clocks of several domains may share an identity. 0 of NTP, and where it is not known.
    pub domain: u8,
    /// Which of the sender's it is: sequenceId, or NTP's transmit timestamp.
    pub number: u64,
    /// The queueing delay that it found, ns.
    pub delay_ns: f64,
    /// When it came, ns; on one clock with `released_ns`, and with other switches of the recording.
    pub arrived_ns: u64,
    /// When it left.
    pub released_ns: u64,
    /// Whether it belongs to the measurement, not to the time that the lab settled.
    pub counted: bool,
}

/// A recording, read row by row.
#[derive(Debug, Default)]
pub struct Recording {
    names: HashMap<String, usize>,
    messages: Vec<Message>,
    /// The newest message of each source and number: sequenceIds come again.
    newest: HashMap<(Source, u64), usize>,
    /// Messages by who sent them and where they passed.
    counts: HashMap<(Source, Hop), usize>,
    /// Sources and hops in the order seen, so that results do not depend on hashing.
    sources: Vec<Source>,
    hops: Vec<Hop>,
}

/// Who sends what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source {
    kind: MessageKind,
    name: usize,
    domain: u8,
}

/// A switch, with the ports that a message came and left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hop {
    switch: usize,
    ingress: usize,
    egress: usize,
}

/// One message, with all copies of it.
#[derive(Debug)]
struct Message {
    source: Source,
    passed: Vec<Passed>,
}

/// A message at a hop.
#[derive(Clone, Copy, Debug)]
struct Passed {
    hop: Hop,
    delay_ns: f64,
    arrived_ns: u64,
    released_ns: u64,
    counted: bool,
}

/// A number of the same source that comes again after this is another message's: 65,536 of them take 2 minutes at 500 a
/// second.
const AGAIN_NS: u64 = 10_000_000_000;

/// A pair of clocks that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedPair {
    /// `CLIENT to SERVER`, by the ports that their messages come in by; where PTP of several domains was recorded, also
    /// `, domain N`.
    pub name: String,
    /// What they speak: `PTP E2E`, `PTP P2P`, `NTP`.
    pub protocol: &'static str,
    /// Port identity, hexadecimal, or address of the server.
    pub server: String,
    /// The same of the client.
    pub client: String,
    /// Switch and egress port of each forward hop (requests), then of each reverse hop, in the order that they were seen
    /// in.
    pub hops: [Vec<String>; 2],
    /// What they met.
    pub exchanges: Exchanges,
}

fn wrong(text: &str, problem: impl ToString, remedy: &str) -> ModelError {
    ModelError::text("recording", text, problem, remedy)
}

impl Recording {
    /// Takes the next row.
    pub fn take(&mut self, row: &Row<'_>) {
        let source = Source { kind: row.kind, name: self.id(row.source), domain: row.domain };
        let hop =
            Hop { switch: self.id(row.switch), ingress: self.id(row.ingress), egress: self.id(row.egress) };
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
        if !self.hops.contains(&hop) {
            self.hops.push(hop);
        }
        *self.counts.entry((source, hop)).or_default() += 1;
        let passed = Passed {
            hop,
            delay_ns: row.delay_ns,
            arrived_ns: row.arrived_ns,
            released_ns: row.released_ns,
            counted: row.counted,
        };
        let known = self.newest.get(&(source, row.number)).copied().filter(|&at| {
            let others = &self.messages[at].passed;
            others
                .iter()
                .all(|other| other.hop != hop && other.arrived_ns.abs_diff(row.arrived_ns) < AGAIN_NS)
        });
        if let Some(at) = known {
            self.messages[at].passed.push(passed);
        } else {
            self.newest.insert((source, row.number), self.messages.len());
            self.messages.push(Message { source, passed: vec![passed] });
        }
    }

    fn id(&mut self, name: &str) -> usize {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.names.len();
        self.names.insert(name.into(), id);
        id
    }

    /// All pairs of a server and a client with exchanges between them.
    ///
    /// # Errors
    /// [`ModelError::Text`] without any, which says what there is instead.
    pub fn pairs(&self) -> Result<Vec<RecordedPair>, ModelError> {
        use MessageKind::{DelayReq, NtpRequest, NtpResponse, PdelayReq, Sync};
        let of = |kind| self.sources.iter().copied().filter(move |source| source.kind == kind);
        let mut pairs = vec![];
        for server in of(Sync).chain(of(NtpResponse)) {
            for client in of(DelayReq).chain(of(PdelayReq)).chain(of(NtpRequest)) {
                let one_protocol = (server.kind == NtpResponse) == (client.kind == NtpRequest);
                if client.name != server.name && client.domain == server.domain && one_protocol {
                    pairs.extend(self.pair(client, server)?);
                }
            }
        }
        match pairs.is_empty() {
            true => Err(self.without_pairs()),
            false => Ok(pairs),
        }
    }

    fn without_pairs(&self) -> ModelError {
        if self.messages.is_empty() {
            let remedy = "record while a clock runs, with a rate on the links that it crosses";
            return wrong("", "has no PTP event message and no NTP message that left by a port", remedy);
        }
        if !self.messages.iter().any(|message| message.passed.iter().all(|passed| passed.counted)) {
            return wrong("", "ends before the lab has settled", "let the lab run for its whole duration");
        }
        let remedy = "record both ends of a clock pair: Sync and Delay_Req or Pdelay messages, or NTP";
        wrong("", "has time messages, but no exchange of a server and a client", remedy)
    }

    /// What tells the pair of this domain from those of others; nothing where there are no others.
    fn domain_name(&self, source: Source) -> String {
        let ntp = |kind| matches!(kind, MessageKind::NtpRequest | MessageKind::NtpResponse);
        let mut ptp = self.sources.iter().filter(|other| !ntp(other.kind));
        if ntp(source.kind) || ptp.all(|other| other.domain == source.domain) {
            return String::new();
        }
        format!(", domain {}", source.domain)
    }

    fn name(&self, id: usize) -> &str {
        self.names.iter().find(|(_, other)| **other == id).map_or("", |(name, _)| name)
    }

    fn hop_name(&self, hop: &Hop) -> String {
        format!("{}/{}", self.name(hop.switch), self.name(hop.egress))
    }
}
