//! A packet in memory, for the shims as user space runs them.

use plimsoll_classify::checksum::{mended_ipv4, mended_u16, mended_u32};
use plimsoll_classify::{WINDOW, classify};
use plimsoll_shim::{
    Aside, Buffer, Count, Kept, Key, Packet, Program, Settings, correction, egress, timestamp,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// What a run of a program gives: the frame, its timestamp, and what was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) frame: Vec<u8>,
    pub(crate) stamp: u64,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// A frame with a timestamp; `TC`: as tc programs have it.
struct Octets<const TC: bool> {
    frame: Vec<u8>,
    stamp: u64,
}

impl<const TC: bool> Octets<TC> {
    fn mend(&mut self, at: u32, mended: impl FnOnce(u16) -> u16) {
        let sum = u16::from_be_bytes(self.load(at).expect("a sum"));
        self.store(at, mended(sum).to_be_bytes());
    }
}

impl<const TC: bool> Packet for Octets<TC> {
    const KNOWS_PARTIAL: bool = TC;

    fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        self.frame.get(at as usize..)?.first_chunk().copied()
    }

    fn store<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool {
        let place = self.frame.get_mut(at as usize..).and_then(<[u8]>::first_chunk_mut);
        place.map(|place| *place = octets).is_some()
    }

    fn mend_udp(&mut self, at: u32, old: u32, new: u32) {
        self.mend(at, |sum| mended_u32(sum, old, new));
    }
}

impl<const TC: bool> Buffer for Octets<TC> {
    fn store_uncovered<const N: usize>(&mut self, at: u32, octets: [u8; N]) -> bool {
        self.store(at, octets)
    }

    fn stamp(&self) -> u64 {
        self.stamp
    }

    fn set_stamp(&mut self, ns: u64) {
        self.stamp = ns;
    }

    fn mend_ipv4(&mut self, at: u32, old: u16, new: u16) {
        self.mend(at, |sum| mended_ipv4(sum, old, new));
    }

    fn mend_udp_length(&mut self, at: u32, old: u16, new: u16) {
        self.mend(at, |sum| mended_u16(mended_u16(sum, old, new), old, new));
    }

    fn grow(&mut self, len: u32) -> bool {
        self.frame.resize(len as usize, 0xEE);
        true
    }
}

struct Pending {
    kept: HashMap<Key, Kept>,
    began: Instant,
}

impl Aside for Pending {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn put(&mut self, key: &Key, kept: Kept) -> bool {
        self.kept.insert(*key, kept);
        true
    }

    fn take(&mut self, key: &Key) -> Option<Kept> {
        self.kept.remove(key)
    }
}

/// A program in user space.
pub(crate) struct Native {
    program: Program,
    settings: Settings,
    pending: Pending,
}

impl Native {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        Self { program, settings, pending: Pending { kept: HashMap::new(), began: Instant::now() } }
    }

    pub(crate) fn run(&mut self, frame: &[u8], stamp: u64) -> Ran {
        let mut window = [0; WINDOW];
        let seen = frame.len().min(WINDOW);
        window[..seen].copy_from_slice(&frame[..seen]);
        let len = frame.len() as u32;
        let class = classify(&window, len);
        let mut counts = BTreeMap::new();
        let mut count = |count: Count, add: u64| *counts.entry(count.name()).or_default() += add;
        let settings = &self.settings;
        let (frame, stamp) = match self.program {
            Program::Correction => {
                let mut packet = Octets::<false> { frame: frame.to_vec(), stamp };
                let done = correction(&mut packet, &class, len, settings, &mut self.pending);
                count(done.count, 1);
                if done.marks > 0 {
                    count(Count::Marks, done.marks.into());
                    count(Count::Nanoseconds, done.ns);
                }
                (packet.frame, packet.stamp)
            }
            Program::Timestamp => {
                let mut packet = Octets::<true> { frame: frame.to_vec(), stamp };
                let done = timestamp(&mut packet, &class, len, settings);
                count(done.count, 1);
                if done.marks > 0 {
                    count(Count::Marks, done.marks.into());
                    count(Count::Nanoseconds, done.ns);
                }
                (packet.frame, packet.stamp)
            }
            Program::Egress => {
                let mut packet = Octets::<true> { frame: frame.to_vec(), stamp };
                let sent = egress(&mut packet, &class, len, settings);
                for outcome in [sent.ect, sent.field].into_iter().flatten() {
                    count(outcome, 1);
                }
                (packet.frame, packet.stamp)
            }
        };
        counts.retain(|_, count| *count > 0);
        Ran { frame, stamp, counts }
    }
}
