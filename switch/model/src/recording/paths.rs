//! From messages to exchanges: who is on which path, and which messages belong together.

use super::{Hop, Message, MessageKind, RecordedPair, Recording, Source};
use crate::{Exchanges, ModelError};

/// A message that went all the way.
#[derive(Clone, Debug)]
struct Travelled {
    sent_ns: u64,
    came_ns: u64,
    delays_ns: Vec<f64>,
}

/// Those that went one way, in the order in which they came.
#[derive(Debug)]
struct Way {
    hops: Vec<Hop>,
    all: Vec<Travelled>,
}

impl Way {
    /// The newest that had come by then.
    fn newest(&self, at_ns: u64) -> Option<&Travelled> {
        self.all[..self.all.partition_point(|message| message.came_ns <= at_ns)].last()
    }
}

/// Delays of the messages of one leg, exchange by exchange.
#[derive(Debug, Default)]
struct Leg(Vec<f64>);

impl Leg {
    fn push(&mut self, message: &Travelled) {
        self.0.extend_from_slice(&message.delays_ns);
    }
}

impl Recording {
    /// The exchanges of these two; `None` where there are none.
    pub(super) fn pair(&self, client: Source, server: Source) -> Result<Option<RecordedPair>, ModelError> {
        let forward = self.way(client, server);
        let reverse = self.way(server, client);
        if forward.hops.is_empty() || reverse.hops.is_empty() {
            return Ok(None);
        }
        let (there, back) = (forward.hops.len(), reverse.hops.len());
        let (protocol, legs) = match client.kind {
            MessageKind::PdelayReq => {
                let answers = self.way(Source { kind: MessageKind::PdelayResp, ..server }, client);
                let [requests, responses, syncs] = peer_delay(&forward, &answers, &reverse);
                let legs =
                    vec![(-0.5, there, requests), (-0.5, answers.hops.len(), responses), (1.0, back, syncs)];
                ("PTP P2P", legs)
            }
            MessageKind::NtpRequest => {
                let [requests, responses] = answered(&forward, &reverse);
                ("NTP", vec![(-0.5, there, requests), (0.5, back, responses)])
            }
            _ => {
                let [requests, syncs] = end_to_end(&forward, &reverse);
                ("PTP E2E", vec![(-0.5, there, requests), (0.5, back, syncs)])
            }
        };
        if legs.iter().any(|(_, _, delays)| delays.is_empty()) {
            return Ok(None);
        }
        let names = |hops: &[Hop]| hops.iter().map(|hop| self.hop_name(hop)).collect();
        let ends = [self.beside(client, &forward.hops), self.beside(server, &reverse.hops)];
        Ok(Some(RecordedPair {
            name: format!("{} to {}{}", ends[0], ends[1], self.domain_name(server)),
            protocol,
            server: self.name(server.name).into(),
            client: self.name(client.name).into(),
            hops: [names(&forward.hops), names(&reverse.hops)],
            exchanges: Exchanges::new(legs)?,
        }))
    }

    /// The messages of `from` that passed all hops at which they left by the port that those of `to` come in by.
    fn way(&self, from: Source, to: Source) -> Way {
        let count = |source: Source, hop: &Hop| self.counts.get(&(source, *hop)).copied().unwrap_or(0);
        let comes_in = |switch: usize| {
            let of = self.hops.iter().filter(|hop| hop.switch == switch && count(to, hop) > 0);
            of.max_by_key(|hop| count(to, hop)).map(|hop| hop.ingress)
        };
        let hops = self.hops.iter().filter(|hop| count(from, hop) > 0);
        let hops: Vec<Hop> = hops.filter(|hop| comes_in(hop.switch) == Some(hop.egress)).copied().collect();
        let messages = self.messages.iter().filter(|message| message.source == from);
        let mut all: Vec<_> = messages.filter_map(|message| travelled(message, &hops)).collect();
        all.sort_by_key(|message| message.came_ns);
        Way { hops, all }
    }

    /// The port that messages of `source` come in by first: where nobody else on the way sends from.
    fn beside(&self, source: Source, hops: &[Hop]) -> &str {
        let message = self.messages.iter().find(|m| m.source == source && travelled(m, hops).is_some());
        let first = message.and_then(|message| {
            let on_the_way = message.passed.iter().filter(|passed| hops.contains(&passed.hop));
            on_the_way.min_by_key(|passed| passed.arrived_ns)
        });
        first.map_or("", |passed| self.name(passed.hop.ingress))
    }
}

/// `None` for a message that did not pass all hops, or did so before the measurement.
fn travelled(message: &Message, hops: &[Hop]) -> Option<Travelled> {
    let mut found = Travelled { sent_ns: u64::MAX, came_ns: 0, delays_ns: Vec::with_capacity(hops.len()) };
    for hop in hops {
        let passed = message.passed.iter().find(|passed| passed.hop == *hop && passed.counted)?;
        found.sent_ns = found.sent_ns.min(passed.arrived_ns);
        found.came_ns = found.came_ns.max(passed.released_ns);
        found.delays_ns.push(passed.delay_ns);
    }
    Some(found)
}

/// Each Delay_Req with the newest Sync that had come when it was sent.
fn end_to_end(requests: &Way, syncs: &Way) -> [Vec<f64>; 2] {
    let [mut there, mut back] = [Leg::default(), Leg::default()];
    for request in &requests.all {
        if let Some(sync) = syncs.newest(request.sent_ns) {
            there.push(request);
            back.push(sync);
        }
    }
    [there.0, back.0]
}

/// Each response with the newest request that had come.
fn answered(requests: &Way, responses: &Way) -> [Vec<f64>; 2] {
    let [mut there, mut back] = [Leg::default(), Leg::default()];
    for response in &responses.all {
        if let Some(request) = requests.newest(response.sent_ns) {
            there.push(request);
            back.push(response);
        }
    }
    [there.0, back.0]
}

/// Each Sync with the newest Pdelay_Resp that had come before it, and the Pdelay_Req that this answered.
fn peer_delay(requests: &Way, responses: &Way, syncs: &Way) -> [Vec<f64>; 3] {
    let [mut there, mut back, mut at_last] = [Leg::default(), Leg::default(), Leg::default()];
    for sync in &syncs.all {
        if let Some(response) = responses.newest(sync.came_ns)
            && let Some(request) = requests.newest(response.sent_ns)
        {
            there.push(request);
            back.push(response);
            at_last.push(sync);
        }
    }
    [there.0, back.0, at_last.0]
}

#[cfg(test)]
mod tests {
    use super::super::{MessageKind::*, Row};
    use super::*;

    /// Kind, source, number, switch with ingress and egress, delay, arrival and release in ns.
    type Line<'a> = (MessageKind, &'a str, u64, [&'a str; 3], f64, u64, u64);

    fn read(rows: &[Line<'_>]) -> Recording {
        let mut recording = Recording::default();
        take(&mut recording, 0, rows);
        recording
    }

    fn take(recording: &mut Recording, domain: u8, rows: &[Line<'_>]) {
        for &(kind, source, number, [switch, ingress, egress], delay_ns, arrived_ns, released_ns) in rows {
            let counted = released_ns >= 1000;
            recording.take(&Row {
                switch,
                ingress,
                egress,
                kind,
                source,
                domain,
                number,
                delay_ns,
                arrived_ns,
                released_ns,
                counted,
            });
        }
    }

    fn raw(pair: &RecordedPair) -> Vec<f64> {
        let mut errors = vec![];
        pair.exchanges.errors(None, &mut errors);
        errors
    }

    /// server - s1 - s2 - client, and on both switches a host whose port gets copies.
    #[test]
    fn paths_are_told_from_flooded_copies() {
        let pairs = read(&[
            (Sync, "aa", 1, ["s1", "server", "trunk"], 1.0, 1000, 1010),
            (Sync, "aa", 1, ["s1", "server", "load"], 9.0, 1000, 1090),
            (Sync, "aa", 1, ["s2", "trunk", "client"], 3.0, 1020, 1030),
            (Sync, "aa", 1, ["s2", "trunk", "load"], 9.0, 1020, 1090),
            (DelayReq, "bb", 1, ["s2", "client", "trunk"], 5.0, 1100, 1110),
            (DelayReq, "bb", 1, ["s2", "client", "load"], 9.0, 1100, 1190),
            (DelayReq, "bb", 1, ["s1", "trunk", "server"], 7.0, 1120, 1130),
            (DelayReq, "bb", 1, ["s1", "trunk", "load"], 9.0, 1120, 1190),
            // Lost at s2.
            (Sync, "aa", 2, ["s1", "server", "trunk"], 2.0, 1200, 1210),
            (DelayReq, "bb", 2, ["s1", "trunk", "server"], 1.0, 1320, 1330),
            (DelayReq, "bb", 2, ["s2", "client", "trunk"], 1.0, 1300, 1310),
        ])
        .pairs()
        .unwrap();
        assert_eq!(pairs.len(), 1);
        let found = &pairs[0];
        assert_eq!((found.name.as_str(), found.protocol), ("client to server", "PTP E2E"));
        assert_eq!((found.server.as_str(), found.client.as_str()), ("aa", "bb"));
        assert_eq!(found.hops[0], ["s2/trunk", "s1/server"]);
        assert_eq!(found.hops[1], ["s1/trunk", "s2/client"]);
        assert_eq!(raw(found), [(4.0 - 12.0) / 2.0, (4.0 - 2.0) / 2.0]);
    }

    #[test]
    fn what_passed_while_the_lab_settled_is_left_out_and_numbers_come_again() {
        let recording = read(&[
            (Sync, "aa", 1, ["s1", "server", "client"], 100.0, 900, 910),
            (DelayReq, "bb", 1, ["s1", "client", "server"], 100.0, 920, 930),
            (Sync, "aa", 2, ["s1", "server", "client"], 1.0, 1000, 1010),
            (DelayReq, "bb", 2, ["s1", "client", "server"], 5.0, 1020, 1030),
            // The same sequenceIds later.
            (Sync, "aa", 2, ["s1", "server", "client"], 3.0, 2000, 2010),
            (DelayReq, "bb", 2, ["s1", "client", "server"], 5.0, 2020, 2030),
        ]);
        assert_eq!(raw(&recording.pairs().unwrap()[0]), [-2.0, -1.0]);
        let settling = read(&[
            (Sync, "aa", 1, ["s1", "server", "client"], 100.0, 900, 910),
            (DelayReq, "bb", 1, ["s1", "client", "server"], 100.0, 920, 930),
        ]);
        assert!(settling.pairs().unwrap_err().to_string().contains("ends before the lab has settled"));
    }

    /// Two clients of one server on one switch: each has its own way back.
    #[test]
    fn several_pairs() {
        let pairs = read(&[
            (Sync, "aa", 1, ["s1", "server", "c1"], 1.0, 1000, 1010),
            (Sync, "aa", 1, ["s1", "server", "c2"], 2.0, 1000, 1010),
            (DelayReq, "b1", 1, ["s1", "c1", "server"], 3.0, 1100, 1110),
            (DelayReq, "b2", 1, ["s1", "c2", "server"], 4.0, 1100, 1110),
        ])
        .pairs()
        .unwrap();
        assert_eq!(
            pairs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["c1 to server", "c2 to server"]
        );
        assert_eq!([raw(&pairs[0]), raw(&pairs[1])], [[-1.0], [-1.0]]);
    }

    /// Two pairs on the same hosts, as `clocks-three-hop` has them: one identity each, and the same numbers.
    #[test]
    fn clocks_of_several_domains_share_identities_and_numbers() {
        let exchange = |waits: [f64; 4], at: u64| {
            [
                (Sync, "aa", 1, ["s1", "server", "trunk"], waits[0], at, at + 10),
                (Sync, "aa", 1, ["s2", "trunk", "client"], waits[1], at + 20, at + 30),
                (DelayReq, "bb", 1, ["s2", "client", "trunk"], waits[2], at + 100, at + 110),
                (DelayReq, "bb", 1, ["s1", "trunk", "server"], waits[3], at + 120, at + 130),
            ]
        };
        let (one, other) = (exchange([1.0, 3.0, 5.0, 7.0], 1000), exchange([2.0, 2.0, 9.0, 9.0], 1005));
        let mut recording = Recording::default();
        take(&mut recording, 0, &one[..1]);
        take(&mut recording, 1, &other[1..2]);
        take(&mut recording, 0, &one[1..]);
        take(&mut recording, 1, &other[..1]);
        take(&mut recording, 1, &other[2..]);
        let pairs = recording.pairs().unwrap();
        let names: Vec<_> = pairs.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["client to server, domain 0", "client to server, domain 1"]);
        assert_eq!([raw(&pairs[0]), raw(&pairs[1])], [[(4.0 - 12.0) / 2.0], [(4.0 - 18.0) / 2.0]]);
        let mut apart = Recording::default();
        take(&mut apart, 0, &one[..2]);
        take(&mut apart, 1, &other[2..]);
        assert!(apart.pairs().unwrap_err().to_string().contains("no exchange of a server and a client"));
    }

    #[test]
    fn peer_delay_halves_what_its_two_messages_waited_and_takes_all_of_the_sync() {
        let recording = read(&[
            (PdelayReq, "bb", 7, ["s1", "client", "server"], 10.0, 1000, 1010),
            (PdelayResp, "aa", 7, ["s1", "server", "client"], 4.0, 1020, 1030),
            // The server's own, in the other direction.
            (PdelayReq, "aa", 1, ["s1", "server", "client"], 90.0, 1040, 1050),
            (PdelayResp, "bb", 1, ["s1", "client", "server"], 90.0, 1060, 1070),
            (Sync, "aa", 1, ["s1", "server", "client"], 20.0, 1100, 1120),
            (Sync, "aa", 2, ["s1", "server", "client"], 0.0, 1200, 1220),
        ]);
        let pairs = recording.pairs().unwrap();
        assert_eq!((pairs.len(), pairs[0].protocol), (1, "PTP P2P"));
        assert_eq!(raw(&pairs[0]), [20.0 - 7.0, -7.0]);
    }

    #[test]
    fn ntp_responses_belong_to_the_request_before_them() {
        let recording = read(&[
            (NtpRequest, "10.0.0.2", 11, ["s1", "client", "server"], 10.0, 1000, 1010),
            (NtpResponse, "10.0.0.1", 12, ["s1", "server", "client"], 4.0, 1020, 1030),
            (NtpRequest, "10.0.0.2", 13, ["s1", "client", "server"], 2.0, 2000, 2010),
            (NtpResponse, "10.0.0.1", 14, ["s1", "server", "client"], 8.0, 2020, 2030),
            // Another client's, beside PTP.
            (NtpRequest, "10.0.0.3", 15, ["s1", "other", "server"], 1.0, 3000, 3010),
            (NtpResponse, "10.0.0.1", 16, ["s1", "server", "other"], 1.0, 3020, 3030),
            (Sync, "aa", 1, ["s1", "server", "client"], 1.0, 1000, 1010),
        ]);
        let pairs = recording.pairs().unwrap();
        assert_eq!(pairs.len(), 2);
        assert_eq!(
            [pairs[0].name.as_str(), pairs[0].protocol, &pairs[1].client],
            ["client to server", "NTP", "10.0.0.3"]
        );
        assert_eq!([raw(&pairs[0]), raw(&pairs[1])], [vec![-3.0, 3.0], vec![0.0]]);
    }

    #[test]
    fn what_has_no_exchange_is_named() {
        let said = |recording: Recording| recording.pairs().unwrap_err().to_string();
        assert!(said(Recording::default()).contains("has no PTP event message and no NTP message"));
        let one_way = read(&[(Sync, "aa", 1, ["s1", "server", "client"], 1.0, 1000, 1010)]);
        assert!(said(one_way).contains("no exchange of a server and a client"));
    }
}
