//! Known depths: a held link is filled with frames of chosen lengths, so that every message's depth is known to the octet.
//! Every carrier, counter and R is tried one octet below, at and above its thresholds: in the core in memory at all of
//! them, where each frame must come out as etherparse makes it; and in the real switch at some, where tshark reads what
//! reached the receiving host.

use super::{
    GROUP,
    holds::{self, Judged, Queued, Setting},
};
use crate::{
    capture::Capture,
    facts::Facts,
    generator,
    kernel::clock_ns,
    memory::{Line, Memory, RECEIVER, SENDER, class_of},
    messages::VLAN,
    report::{Asked, Row},
    stage::{Setup, Stack, Stage},
};
use anyhow::{Context, Result, bail, ensure};
use plimsoll_classify::{Class, Flags};
use plimsoll_core::{FixedEntry, Nanos, Pool as _, PortId, PortStats, Switch, wire::ethernet::Mac};
use plimsoll_port::worker::Worker;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

/// Frames of the largest hold in memory, and more.
const CHUNKS: u32 = 8192;
/// Between two frames of a hold: the port's ring never fills.
const GAP_NS: u64 = 10_000;
/// Between two holds in memory: all frames have left.
const HOLD_NS: u64 = 1_000_000_000;
/// How long frames may take to the queue, and out of it.
const PATIENCE: Duration = Duration::from_secs(5);
const MARKING: usize = 1;

/// Marks that were read, by what carries them.
#[derive(Default)]
struct Tallies(BTreeMap<String, Tally>);

#[derive(Default)]
struct Tally {
    read: u64,
    wrong: u64,
    first: Option<String>,
}

impl Tallies {
    fn count(&mut self, what: &str, right: bool, describe: impl FnOnce() -> String) {
        let tally = self.0.entry(what.into()).or_default();
        tally.read += 1;
        if !right {
            tally.wrong += 1;
            tally.first.get_or_insert_with(describe);
        }
    }

    fn rows(self, how: &str) -> Vec<Row> {
        let row = |(what, tally): (String, Tally)| {
            let Tally { read, wrong, first } = tally;
            let note = format!(
                "{wrong} of {read} wrong{}",
                first.map_or(String::new(), |first| format!("; {first}"))
            );
            let rounds = if read == 0 { Vec::new() } else { vec![wrong as f64] };
            Row::new(GROUP, format!("held, {how}: {what}, wrong"), "", Asked::AtMost(0.0), rounds).note(note)
        };
        self.0.into_iter().map(row).collect()
    }
}

pub(super) fn measure(facts: &Facts, out: &Path) -> Result<Vec<Row>> {
    let mut rows = in_memory()?;
    rows.extend(on_veth(facts, out)?);
    Ok(rows)
}

/// Whether a frame came out as it must, octet by octet.
fn in_memory() -> Result<Vec<Row>> {
    let (mut tallies, kinds) = (Tallies::default(), holds::kinds());
    let mut pool = Memory::new(CHUNKS);
    for setting in Setting::all() {
        let mut config = setting.switch();
        for vlan in [0, VLAN] {
            config.fdb_fixed.push(FixedEntry { vlan, mac: Mac(RECEIVER), port: PortId(MARKING as u16) });
        }
        let (mut switch, mut line) = (Switch::new(config)?, Line::default());
        let (at, mut id, mut now) = (setting.every_at(), 0, Nanos(0));
        for number in 0..holds::holds(&kinds) {
            let frames = holds::hold(&setting, &at, &kinds, number, &mut id)?;
            // Frames of one instant hold the link as well as anything: each waits for all before it.
            now = now + HOLD_NS;
            for frame in &frames {
                let id = pool.put(&frame.octets).context("the pool is empty")?;
                switch.receive(PortId(0), id, &class_of(&frame.octets), now, &mut pool, &mut line);
            }
            switch.advance(now + HOLD_NS, &mut line);
            ensure!(line.departed.len() == frames.len(), "frames were lost");
            for (departure, queued) in line.departed.drain(..).zip(&frames) {
                if let Some(judged) = &queued.judged {
                    let octets = pool.bytes(departure.frame);
                    let mut wanted = judged.arrives.frame(RECEIVER, SENDER)?;
                    // One sum in 65,536 is the one that a sender leaves to its NIC (of the pseudo-header alone). The core
                    // cannot know, and leaves it to the port, which completes it.
                    let Class { flags, l4, .. } = departure.info;
                    if flags.has(Flags::PARTIAL_CHECKSUM) {
                        let sum = usize::from(l4) + 6..usize::from(l4) + 8;
                        wanted[sum.clone()].copy_from_slice(&queued.octets[sum]);
                    }
                    let right = octets == wanted;
                    let Judged { depth, sent, .. } = judged;
                    tallies.count(sent.carrier.name(), right, || {
                        format!("{setting:?}: {sent:?} at {depth} B became {octets:02x?}")
                    });
                }
                pool.free(departure.frame);
            }
        }
    }
    Ok(tallies.rows("core in memory, every octet"))
}

/// What tshark reads.
fn on_veth(facts: &Facts, out: &Path) -> Result<Vec<Row>> {
    let stage = Stage::new(2, Stack::Silent)?;
    let capture = Capture::start(&stage.hosts[MARKING], out.join("held.pcap"))?;
    let (mut sent, kinds, mut id) = (Vec::new(), holds::kinds(), 0);
    for setting in Setting::all() {
        let worker = stage.switch(facts.worker_cpu, setting.switch().ports, &Setup::default())?;
        stage.announce(MARKING)?;
        let mut passed = 0;
        for number in 0..holds::holds(&kinds) {
            let frames = holds::hold(&setting, &setting.some_at(), &kinds, number, &mut id)?;
            hold(&stage, &worker, &frames, &mut passed)
                .with_context(|| format!("{setting:?}, hold {number}"))?;
            sent.extend(frames.iter().filter_map(|frame| frame.judged).map(|judged| (setting, judged)));
        }
        let last = worker.stop()?;
        ensure!(last.frames_conserved, "chunks are not conserved: {:?}", last.frames);
    }
    let captured = capture.stop()?;
    let file = captured.file().display();
    let read = captured.dissect("ptp or ntp", &FIELDS)?;
    let mut found = HashMap::new();
    for fields in &read {
        let message = Dissected::read(fields).with_context(|| format!("tshark's fields {fields:?}"))?;
        let id = message.id;
        ensure!(found.insert(id, message).is_none(), "message {id} is twice in {file}");
    }
    ensure!(sent.len() <= usize::from(u16::MAX), "numbers of messages are used twice");
    let mut tallies = Tallies::default();
    for (setting, judged) in &sent {
        // A host that gets no time loses frames before its capture, and says so nowhere.
        if let Some(found) = found.get(&judged.sent.id) {
            judge(setting, judged, found, &mut tallies);
        }
    }
    let mut rows = tallies.rows("switch on veth, by tshark");
    let share = found.len() as f64 * 100.0 / sent.len() as f64;
    rows.push(
        Row::new(
            GROUP,
            "held, switch on veth: messages in the capture",
            "%",
            Asked::AtLeast(99.0),
            vec![share],
        )
        .note(format!("{} of {}, {file}", found.len(), sent.len())),
    );
    Ok(rows)
}

/// Holds the marking port's link while the frames queue, and lets them go.
fn hold(stage: &Stage, worker: &Worker, frames: &[Queued], passed: &mut u64) -> Result<()> {
    worker.hold(0, MARKING)?;
    let mut next = frames.iter();
    let mut at = clock_ns();
    let stop = AtomicBool::new(false);
    let sent = generator::generate(&stage.hosts[0], &stop, |to| {
        let frame = next.next()?;
        to.clear();
        to.extend(&frame.octets);
        at += GAP_NS;
        Some(at)
    })?;
    let count = frames.len() as u64;
    ensure!(sent.sent == count, "the port took {} of {count} frames", sent.sent);
    wait(
        "in the queue",
        worker,
        |port| port.queues.iter().map(|queue| u64::from(queue.frames)).sum(),
        count,
    )?;
    worker.resume(0, MARKING)?;
    *passed += count;
    wait("through the port", worker, |port| port.tx.frames, *passed)
}

/// Waits until a counter of the marking port is `wanted`.
fn wait(what: &str, worker: &Worker, read: impl Fn(&PortStats) -> u64, wanted: u64) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = read(&worker.snapshot()?.switches[0].stats.ports[MARKING]);
        if found == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{found} of {wanted} frames are {what}");
        thread::sleep(Duration::from_micros(500));
    }
}

/// What is read of each message.
const FIELDS: [&str; 9] = [
    "ptp.v2.sequenceid",
    "ptp.v2.messagetypespecific",
    "ntp.refid",
    "ntp.ext.value",
    "ip.dsfield.ecn",
    "ipv6.tclass.ecn",
    "udp.checksum.status",
    "ip.checksum.status",
    "vlan.id",
];

/// A message as tshark prints it.
#[derive(Debug, PartialEq, Eq)]
struct Dissected {
    id: u16,
    word: u32,
    ecn: u8,
    /// Whether every checksum that the frame has is right.
    sums: bool,
    vlan: Option<u16>,
}

impl Dissected {
    fn read(fields: &[String]) -> Result<Self> {
        let [sequence, word, refid, extension, ecn4, ecn6, udp, ip, vlan] = fields else {
            bail!("{} fields", fields.len())
        };
        let (id, word) = match sequence.as_str() {
            "" => {
                let (refid, extension) = (octets(refid)?, octets(extension)?);
                let [_, _, high, low] = refid[..] else { bail!("reference identifier {refid:02x?}") };
                // Behind type and length: the magic, the word, zeros.
                ensure!(
                    extension.len() == 24 && extension.starts_with(b"CMC1"),
                    "extension {extension:02x?}"
                );
                (u16::from_be_bytes([high, low]), u32::from_be_bytes(extension[4..8].try_into()?))
            }
            _ => (number(sequence)? as u16, number(word)?),
        };
        let ecn = match (ecn4.as_str(), ecn6.as_str()) {
            ("", "") => 0,
            ("", bits) | (bits, _) => number(bits)? as u8,
        };
        let vlan = if vlan.is_empty() { None } else { Some(number(vlan)? as u16) };
        // 1 is "Good".
        let sums = [udp, ip].iter().all(|status| matches!(status.as_str(), "" | "1"));
        Ok(Self { id, word, ecn, sums, vlan })
    }
}

fn number(text: &str) -> Result<u32> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("number {text:?}"))
}

/// Octets as hexadecimal digits, with or without colons.
fn octets(text: &str) -> Result<Vec<u8>> {
    let digits: String = text.chars().filter(|&c| c != ':').collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

fn judge(setting: &Setting, judged: &Judged, found: &Dissected, tallies: &mut Tallies) {
    let Judged { depth, sent, arrives } = judged;
    let describe = || format!("{setting:?}: {sent:?} at {depth} B became {found:?}, not {arrives:?}");
    let vlan = sent.tagged.then_some(VLAN);
    let whole = (found.id, found.vlan, found.sums) == (arrives.id, vlan, true);
    tallies.count(sent.carrier.name(), whole && found.word == arrives.word, describe);
    if sent.carrier.is_ip() {
        let what = if setting.counts_ecn { "ECN as a counter" } else { "ECN (RFC 3168)" };
        tallies.count(what, found.ecn == arrives.ecn, describe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsharks_fields_are_read() {
        let fields = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let ptp = fields("4660|1073741829|||1||1|1|5");
        let found = Dissected { id: 0x1234, word: 0x4000_0005, ecn: 1, sums: true, vlan: Some(5) };
        assert_eq!(Dissected::read(&ptp).unwrap(), found);
        let ntp = fields("||00001234|434d433140000005|||0||");
        assert!(Dissected::read(&ntp).is_err(), "the extension is cut");
        let ntp = format!("||00:00:12:34|434d433140000005{}||3|0||", "0".repeat(32));
        let found = Dissected { id: 0x1234, word: 0x4000_0005, ecn: 3, sums: false, vlan: None };
        assert_eq!(Dissected::read(&fields(&ntp)).unwrap(), found);
    }
}
