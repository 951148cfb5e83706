//! Queues of exactly known depth: which frames, in which order, make each time message find one octet less, as much and
//! one octet more than a threshold, and what it must look like behind the switch.

use crate::{
    expect,
    frames::{ETHERTYPE_BULK, sync},
    memory::{RECEIVER, SENDER},
    messages::{Carrier, Message},
};
use anyhow::{Result, ensure};
use plimsoll_core::{
    Carriers, Counter, EcnConfig, EcnScope, MarkConfig, PortConfig, Rate, Rule, SwitchConfig,
    config::wire_octets,
};

/// An octet takes 8 ns.
pub(crate) const RATE: Rate = Rate(1_000_000_000);
/// K: with delta = 8 us at [`RATE`].
const K: u64 = 1000;
const DELTA_PS: u64 = K * 8_000;
/// ECN's own threshold, between two of the marks'.
const ECN_OCTETS: u64 = 2500;
/// Longest and shortest frame on the wire.
const WIRE: [u64; 2] = [1538, 84];
/// Marks that some messages come with.
const BROUGHT: u32 = 3;

pub(crate) const COUNTERS: [Counter; 4] =
    [Counter::Integer, Counter::Shift, Counter::IntegerBoth, Counter::ShiftBoth];
pub(crate) const THRESHOLDS: [u32; 5] = [1, 2, 8, 32, 1000];

/// One way of setting the marking port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) counter: Counter,
    pub(crate) thresholds: u32,
    pub(crate) rule: Rule,
    /// Whether the ECN bits are a counter too (modified ECN), or RFC 3168's.
    pub(crate) counts_ecn: bool,
}

impl Setting {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let every = |counter, rule, counts_ecn| {
            THRESHOLDS.into_iter().map(move |thresholds| Self { counter, thresholds, rule, counts_ecn })
        };
        let edges = move |counts_ecn| {
            COUNTERS.into_iter().flat_map(move |counter| every(counter, Rule::Edge, counts_ecn))
        };
        edges(false).chain(edges(true)).chain(every(Counter::Integer, Rule::Centred, false))
    }

    /// Port 0 brings, port 1 marks.
    pub(crate) fn switch(&self) -> SwitchConfig {
        let mark = MarkConfig {
            counter: self.counter,
            rule: self.rule,
            carriers: Carriers { ptp: true, ntp: true, ecn: self.counts_ecn },
            ..MarkConfig::new(self.thresholds, DELTA_PS)
        };
        let ecn = EcnConfig { threshold_ps: ECN_OCTETS * 8_000, scope: EcnScope::Sync };
        let port = |number: usize| PortConfig {
            rate: Some(RATE),
            // Counts that messages bring are part of what is judged.
            trust: true,
            queue_bytes: Some(4_000_000),
            ..PortConfig::new(format!("p{number}"))
        };
        let marking = PortConfig { mark: Some(mark), ecn: (!self.counts_ecn).then_some(ecn), ..port(1) };
        SwitchConfig { name: "s".into(), ports: vec![port(0), marking], ..SwitchConfig::default() }
    }

    /// The thresholds of this setting for these i, and ECN's, in octets and in order.
    fn thresholds_at(&self, at: &[u64]) -> Vec<u64> {
        let mut octets: Vec<u64> = at.iter().map(|i| expect::threshold(self.rule, *i, K)).collect();
        if !self.counts_ecn {
            octets.push(ECN_OCTETS);
        }
        octets.sort_unstable();
        octets.dedup();
        octets
    }

    /// Which i a real switch is tried at: the first, some, and those around R.
    pub(crate) fn some_at(&self) -> Vec<u64> {
        let r = u64::from(self.thresholds);
        let mut at: Vec<u64> = [1, 2, 3, 8, 16, 100, 500].into_iter().filter(|&i| i < r).collect();
        at.extend([r.saturating_sub(1).max(1), r, r + 1]);
        at.sort_unstable();
        at.dedup();
        at
    }

    /// All i, and one beyond R.
    pub(crate) fn every_at(&self) -> Vec<u64> {
        (1..=u64::from(self.thresholds) + 1).collect()
    }
}

/// The messages that are tried: every carrier, untagged and tagged, requests and responses.
pub(crate) fn kinds() -> Vec<Message> {
    let mut kinds = Vec::new();
    for carrier in Carrier::ALL {
        for (tagged, request) in [(false, false), (false, true), (true, false), (true, true)] {
            kinds.push(Message { tagged, request, ..Message::sync(carrier, 0) });
        }
    }
    kinds
}

/// A frame of a hold.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) octets: Vec<u8>,
    /// Of a time message: what it finds, and how it must arrive.
    pub(crate) judged: Option<Judged>,
}

/// A message and what it must become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// Octets on the wire before it.
    pub(crate) depth: u64,
    pub(crate) sent: Message,
    pub(crate) arrives: Message,
}

/// How often the link must be held until every message of [`kinds`] has met every threshold from below, at it and from
/// above.
pub(crate) fn holds(kinds: &[Message]) -> usize {
    kinds.len() * 3
}

/// The frames of hold number `hold`, for an idle link; `id` numbers the messages.
pub(crate) fn hold(
    setting: &Setting,
    at: &[u64],
    kinds: &[Message],
    hold: usize,
    id: &mut u16,
) -> Result<Vec<Queued>> {
    let mut frames = Vec::new();
    let mut depth = 0;
    for (number, threshold) in setting.thresholds_at(at).into_iter().enumerate() {
        let target = threshold + ((number + hold / kinds.len()) % 3) as u64 - 1;
        for wire in filler(target - depth)? {
            let octets = sync(RECEIVER, SENDER, ETHERTYPE_BULK, wire as u32 - 24, 0);
            frames.push(Queued { octets, judged: None });
        }
        let kind = kinds[(number + hold) % kinds.len()];
        let sent = dressed(setting, kind, number + hold / 2, *id);
        let octets = sent.frame(RECEIVER, SENDER)?;
        depth = target + u64::from(wire_octets(octets.len() as u32));
        let arrives = expected(setting, &sent, target);
        frames.push(Queued { octets, judged: Some(Judged { depth: target, sent, arrives }) });
        *id = id.wrapping_add(1);
    }
    Ok(frames)
}

/// The message with an identifier, ECN bits and marks that it brings: all combinations in turn.
fn dressed(setting: &Setting, kind: Message, turn: usize, id: u16) -> Message {
    let word = if turn / 4 % 2 == 1 { expect::word(setting.counter, BROUGHT, kind.request) } else { 0 };
    let ecn = if kind.carrier.is_ip() { (turn % 4) as u8 } else { 0 };
    Message { id, word, ecn, ..kind }
}

fn expected(setting: &Setting, sent: &Message, depth: u64) -> Message {
    let r = expect::exceeded(setting.rule, depth, K, setting.thresholds);
    let brought = if sent.word == 0 { 0 } else { BROUGHT };
    let word = match (brought, r) {
        (_, 0) => sent.word,
        _ => expect::marked_word(setting.counter, brought, r, sent.request),
    };
    let ecn = match (sent.carrier.is_ip(), setting.counts_ecn) {
        (false, _) => 0,
        (true, true) => expect::counted_ecn(setting.counter, sent.ecn, r, sent.request),
        (true, false) => expect::classical_ecn(sent.ecn, depth > ECN_OCTETS),
    };
    Message { word, ecn, ..*sent }
}

/// Frames that take so many octets on the wire together.
fn filler(octets: u64) -> Result<Vec<u64>> {
    let [longest, shortest] = WIRE;
    ensure!(octets == 0 || octets >= shortest, "no frame takes {octets} octets");
    let mut frames = Vec::new();
    let mut left = octets;
    while left > 0 {
        // What is left after a frame must be nothing, or a frame too.
        let frame = match left {
            all if all <= longest => all,
            more if more - longest < shortest => more - shortest,
            _ => longest,
        };
        frames.push(frame);
        left -= frame;
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fillers_add_up_and_are_frames() {
        for octets in (84..5000).chain([1_000_001]) {
            let frames = filler(octets).unwrap();
            assert_eq!(frames.iter().sum::<u64>(), octets);
            assert!(frames.iter().all(|frame| (84..=1538).contains(frame)), "{octets}: {frames:?}");
        }
        assert!(filler(83).is_err());
        assert_eq!(filler(0).unwrap(), [0; 0]);
    }

    #[test]
    fn every_message_meets_every_threshold_from_all_sides() {
        let setting =
            Setting { counter: Counter::Integer, thresholds: 8, rule: Rule::Edge, counts_ecn: false };
        let (kinds, at, mut id) = (kinds(), setting.some_at(), 0);
        let mut met = HashSet::new();
        for number in 0..holds(&kinds) {
            let mut depth = 0;
            for frame in hold(&setting, &at, &kinds, number, &mut id).unwrap() {
                if let Some(judged) = frame.judged {
                    assert_eq!(judged.depth, depth, "what is queued is what is said");
                    let Message { carrier, tagged, request, .. } = judged.sent;
                    met.insert((depth, carrier, tagged, request));
                }
                depth += u64::from(wire_octets(frame.octets.len() as u32));
            }
        }
        assert_eq!(met.len(), (at.len() + 1) * 3 * kinds.len());
        for depth in [999, 1000, 1001, 2499, 2500, 2501, 7999, 8000, 8001, 9001] {
            assert!(kinds.iter().all(|kind| met.contains(&(depth, kind.carrier, kind.tagged, kind.request))));
        }
    }
}
