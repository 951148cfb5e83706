//! Paths from a recording: which queues the messages of two clocks met, hop by hop.
//!
//! A recording is the CSV of `plimsoll lab run --record`: one line a frame and egress port, with the depth that it found
//! as picoseconds of its link. Of these, Sync and Delay_Req count. Between a server (who sends Sync) and a client (who
//! sends Delay_Req), a message's path is told from copies that were flooded elsewhere by the other one: at each switch
//! a Sync is on its way to the client where it leaves by the port that the client's Delay_Req come in by, and the other
//! way round. Laws are the recorded delays; hops are taken as independent.

use std::collections::HashMap;

use crate::{Law, ModelError, Pair};

const COLUMNS: [&str; 6] = ["switch", "ingress", "egress", "depth_ps", "message_type", "source_port"];

/// A recording, read line by line.
#[derive(Debug)]
pub struct Recording {
    columns: [usize; 6],
    line: usize,
    names: HashMap<String, usize>,
    /// Delays in ns by who sent, and where.
    delays: HashMap<(Source, Hop), Vec<f64>>,
    /// Sources and hops in the order seen, so that results do not depend on hashing.
    sources: Vec<Source>,
    hops: Vec<Hop>,
}

/// Who sends what: 0 Sync, 1 Delay_Req (IEEE 1588-2019 table 36), and the sender's port identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source {
    delay_req: bool,
    port: usize,
}

/// A switch, with the ports that a message came and left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hop {
    switch: usize,
    ingress: usize,
    egress: usize,
}

/// A pair of clocks that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedPair {
    /// Port identity of the server, hexadecimal.
    pub server: String,
    /// Port identity of the client.
    pub client: String,
    /// Switch and egress port of each forward hop (requests), then of each reverse hop, in the order of `pair`.
    pub hops: [Vec<String>; 2],
    /// Messages of each hop, in the same order.
    pub messages: [Vec<usize>; 2],
    /// Their delays: requests forward, Sync in reverse.
    pub pair: Pair,
}

fn wrong(text: &str, problem: String, remedy: &str) -> ModelError {
    ModelError::text("recording", text, problem, remedy)
}

impl Recording {
    /// Begins with the first line, which names the columns.
    ///
    /// # Errors
    /// [`ModelError::Text`] where a column that is needed is missing.
    pub fn new(header: &str) -> Result<Self, ModelError> {
        let mut columns = [0; 6];
        for (at, name) in columns.iter_mut().zip(COLUMNS) {
            *at = header.trim().split(',').position(|column| column.trim() == name).ok_or_else(|| {
                wrong(header, format!("has no column {name}"), "give what `plimsoll lab run --record` wrote")
            })?;
        }
        Ok(Self {
            columns,
            line: 1,
            names: HashMap::new(),
            delays: HashMap::new(),
            sources: vec![],
            hops: vec![],
        })
    }

    /// Takes the next line.
    ///
    /// # Errors
    /// [`ModelError::Text`] with the line's number where it has fewer columns than the first, or a depth that is no
    /// number.
    pub fn push(&mut self, line: &str) -> Result<(), ModelError> {
        self.line += 1;
        let last = self.columns.iter().max().copied().unwrap_or(0);
        let mut found = [""; 6];
        let mut width = 0;
        for (i, value) in line.trim_end().split(',').enumerate().take(last + 1) {
            width = i + 1;
            if let Some(at) = self.columns.iter().position(|&column| column == i) {
                found[at] = value;
            }
        }
        if width <= last {
            return Err(wrong(
                line,
                format!("in line {} has too few columns", self.line),
                "was the recording cut off?",
            ));
        }
        let [switch, ingress, egress, depth_ps, message_type, source_port] = found;
        let delay_req = match message_type {
            "0" => false,
            "1" => true,
            _ => return Ok(()),
        };
        // Of a message that was dropped no depth is known, nor does a clock ever see it.
        if depth_ps.is_empty() {
            return Ok(());
        }
        let depth_ps: f64 = depth_ps.parse().map_err(|_| {
            wrong(depth_ps, format!("in line {} is no depth_ps", self.line), "was the recording cut off?")
        })?;
        let source = Source { delay_req, port: self.id(source_port) };
        let hop = Hop { switch: self.id(switch), ingress: self.id(ingress), egress: self.id(egress) };
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
        if !self.hops.contains(&hop) {
            self.hops.push(hop);
        }
        self.delays.entry((source, hop)).or_default().push(depth_ps / 1e3);
        Ok(())
    }

    fn id(&mut self, name: &str) -> usize {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.names.len();
        self.names.insert(name.into(), id);
        id
    }

    /// All pairs of a server and a client with messages between them both ways.
    ///
    /// # Errors
    /// [`ModelError::Text`] without any; [`ModelError::Range`] on depths below 0.
    pub fn pairs(&self) -> Result<Vec<RecordedPair>, ModelError> {
        let of = |delay_req| self.sources.iter().filter(move |source| source.delay_req == delay_req);
        let mut pairs = vec![];
        for &server in of(false) {
            for &client in of(true).filter(|client| client.port != server.port) {
                let forward = self.path(client, server);
                let reverse = self.path(server, client);
                if forward.is_empty() || reverse.is_empty() {
                    continue;
                }
                let law = |source, hop: &Hop| Law::samples(self.delays[&(source, *hop)].clone());
                let laws = |source, path: &[Hop]| {
                    path.iter().map(|hop| law(source, hop)).collect::<Result<Vec<_>, _>>()
                };
                let names = |path: &[Hop]| path.iter().map(|hop| self.hop_name(hop)).collect();
                let counts = |source, path: &[Hop]| {
                    path.iter().map(|hop| self.delays[&(source, *hop)].len()).collect()
                };
                pairs.push(RecordedPair {
                    server: self.name(server.port).into(),
                    client: self.name(client.port).into(),
                    hops: [names(&forward), names(&reverse)],
                    messages: [counts(client, &forward), counts(server, &reverse)],
                    pair: Pair { forward: laws(client, &forward)?, reverse: laws(server, &reverse)? },
                });
            }
        }
        if pairs.is_empty() {
            return Err(wrong(
                "",
                "has no Sync and Delay_Req between a server and a client".into(),
                "record a lab with a clock whose delay mechanism is E2E",
            ));
        }
        Ok(pairs)
    }

    /// The hops at which messages of `from` left by the port that those of `to` come in by.
    fn path(&self, from: Source, to: Source) -> Vec<Hop> {
        let comes_in = |hop: &Hop| {
            let of = |other: &&Hop| other.switch == hop.switch && self.delays.contains_key(&(to, **other));
            let count = |other: &&Hop| self.delays[&(to, **other)].len();
            self.hops.iter().filter(of).max_by_key(count).map(|other| other.ingress)
        };
        let hops = self.hops.iter().filter(|hop| self.delays.contains_key(&(from, **hop)));
        hops.filter(|hop| comes_in(hop) == Some(hop.egress)).copied().collect()
    }

    fn name(&self, id: usize) -> &str {
        self.names.iter().find(|(_, other)| **other == id).map_or("", |(name, _)| name)
    }

    fn hop_name(&self, hop: &Hop) -> String {
        format!("{} to {}", self.name(hop.switch), self.name(hop.egress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "switch,ingress,egress,len,depth_ps,message_type,sequence_id,source_port,drop";

    fn read(lines: &[&str]) -> Result<Vec<RecordedPair>, ModelError> {
        let mut recording = Recording::new(HEADER)?;
        for line in lines {
            recording.push(line)?;
        }
        recording.pairs()
    }

    /// server - s1 - s2 - client, and on both switches a host whose port gets copies.
    #[test]
    fn paths_are_told_from_flooded_copies() {
        let pairs = read(&[
            "s1,server,trunk,60,1000,0,1,aa,",
            "s1,server,load,60,9000,0,1,aa,",
            "s2,trunk,client,60,3000,0,1,aa,",
            "s2,trunk,load,60,9000,0,1,aa,",
            "s2,client,trunk,60,5000,1,1,bb,",
            "s2,client,load,60,9000,1,1,bb,",
            "s1,trunk,server,60,7000,1,1,bb,",
            "s1,trunk,load,60,9000,1,1,bb,",
            "s1,server,trunk,60,2000,0,2,aa,",
            "s2,trunk,client,60,,0,2,aa,tail-drop",
            "s1,load,trunk,1500,8000,,,,",
            "s1,server,trunk,60,100,11,2,aa,",
        ])
        .unwrap();
        assert_eq!(pairs.len(), 1);
        let found = &pairs[0];
        assert_eq!((found.server.as_str(), found.client.as_str()), ("aa", "bb"));
        assert_eq!(found.hops[0], ["s2 to trunk", "s1 to server"]);
        assert_eq!(found.hops[1], ["s1 to trunk", "s2 to client"]);
        assert_eq!(found.messages, [vec![1, 1], vec![2, 1]]);
        let constant = |ns| Law::constant(ns).unwrap();
        assert_eq!(found.pair.forward, [constant(5.0), constant(7.0)]);
        assert_eq!(found.pair.reverse, [Law::samples(vec![1.0, 2.0]).unwrap(), constant(3.0)]);
    }

    /// Two clients of one server on one switch: each has its own way back.
    #[test]
    fn several_pairs() {
        let pairs = read(&[
            "s1,server,c1,60,1000,0,1,aa,",
            "s1,server,c2,60,2000,0,1,aa,",
            "s1,c1,server,60,3000,1,1,b1,",
            "s1,c2,server,60,4000,1,1,b2,",
        ])
        .unwrap();
        assert_eq!(pairs.iter().map(|p| p.client.as_str()).collect::<Vec<_>>(), ["b1", "b2"]);
        assert_eq!(pairs[1].pair.reverse, [Law::constant(2.0).unwrap()]);
        assert_eq!(pairs[1].pair.forward, [Law::constant(4.0).unwrap()]);
    }

    #[test]
    fn what_is_no_recording_is_named() {
        let error = Recording::new("a,b").unwrap_err().to_string();
        assert!(error.starts_with("recording \"a,b\" has no column switch; give what"), "{error}");
        assert!(read(&["s1,a"]).unwrap_err().to_string().contains("in line 2 has too few columns"));
        assert!(
            read(&["s1,a,b,60,x,0,1,aa,"])
                .unwrap_err()
                .to_string()
                .contains("\"x\" in line 2 is no depth_ps")
        );
        assert!(read(&["s1,a,b,60,1,0,1,aa,"]).unwrap_err().to_string().contains("no Sync and Delay_Req"));
    }
}
