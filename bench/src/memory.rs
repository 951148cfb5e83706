//! The core driven in memory: a pool of chunks, departures kept until a burst is over, and a stream of like frames.

use crate::frames::{ETHERTYPE_BULK, SHORTEST, sync};
use anyhow::{Result, ensure};
use plimsoll_classify::{Class, WINDOW, classify};
use plimsoll_core::{
    Departure, EcnOutcome, Egress, FrameId, MarkOutcome, Nanos, Pool, PortId, Switch, SwitchConfig,
    config::wire_octets, lateness, wire::ethernet::TAG_LEN,
};

/// Chunks of the pool: 4 MiB, so that frames are not all in the first-level cache, as in the switch.
const CHUNKS: u32 = 2048;
const CHUNK: usize = 2048;
/// Frames of the standing queue, and between two runs of the links at most: the worker's burst.
pub(crate) const BURST: u64 = 32;
/// Rate of the links that a stream is made for: an octet takes 8 ns.
const NS_PER_OCTET: u64 = 8;
/// Where the sender and the receiver of a stream are.
pub(crate) const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Frames in plain memory.
pub(crate) struct Memory {
    chunks: Vec<[u8; CHUNK]>,
    lens: Vec<u32>,
    free: Vec<FrameId>,
}

impl Memory {
    /// Room for so many frames.
    pub(crate) fn new(chunks: u32) -> Self {
        Self {
            chunks: vec![[0; CHUNK]; chunks as usize],
            lens: vec![0; chunks as usize],
            free: (0..chunks).rev().map(FrameId).collect(),
        }
    }

    /// A frame with these octets; `None` where there is no room.
    pub(crate) fn put(&mut self, octets: &[u8]) -> Option<FrameId> {
        let id = self.take(octets.len() as u32)?;
        // What the kernel's copy does.
        self.bytes_mut(id).copy_from_slice(octets);
        Some(id)
    }

    fn take(&mut self, len: u32) -> Option<FrameId> {
        let id = self.free.pop()?;
        self.lens[id.0 as usize] = len;
        Some(id)
    }
}

impl Pool for Memory {
    fn bytes(&self, frame: FrameId) -> &[u8] {
        &self.chunks[frame.0 as usize][..self.lens[frame.0 as usize] as usize]
    }

    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8] {
        &mut self.chunks[frame.0 as usize][..self.lens[frame.0 as usize] as usize]
    }

    fn copy(&mut self, frame: FrameId) -> Option<FrameId> {
        let len = self.lens[frame.0 as usize];
        let id = self.take(len)?;
        let octets = self.chunks[frame.0 as usize];
        self.chunks[id.0 as usize][..len as usize].copy_from_slice(&octets[..len as usize]);
        Some(id)
    }

    fn grow(&mut self, frame: FrameId) -> bool {
        let (chunk, len) = (&mut self.chunks[frame.0 as usize], &mut self.lens[frame.0 as usize]);
        let old = *len as usize;
        if old + TAG_LEN > CHUNK {
            return false;
        }
        chunk.copy_within(..old, TAG_LEN);
        *len += TAG_LEN as u32;
        true
    }

    fn shrink(&mut self, frame: FrameId) {
        let (chunk, len) = (&mut self.chunks[frame.0 as usize], &mut self.lens[frame.0 as usize]);
        chunk.copy_within(TAG_LEN..*len as usize, 0);
        *len -= TAG_LEN as u32;
    }

    fn free(&mut self, frame: FrameId) {
        self.free.push(frame);
    }
}

/// Where departures go: as the worker does, they are kept until the burst is over.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) departed: Vec<Departure>,
}

impl Egress for Line {
    fn depart(&mut self, departure: &Departure) {
        self.departed.push(*departure);
    }
}

/// What the classifier says of a frame.
pub(crate) fn class_of(octets: &[u8]) -> Class {
    let mut window = [0; WINDOW];
    let seen = octets.len().min(WINDOW);
    window[..seen].copy_from_slice(&octets[..seen]);
    classify(&window, octets.len() as u32)
}

/// A stream of like frames that come in by port 0, as fast as a link of 1 Gbit/s takes them.
pub(crate) struct Stream<'f> {
    pub(crate) config: &'f SwitchConfig,
    /// From [`SENDER`]; to [`RECEIVER`], behind port 1, or to a group.
    pub(crate) frame: &'f [u8],
    /// Frames that depart for each that is received.
    pub(crate) copies: u64,
    /// Whether it finds a standing queue of [`BURST`] frames: something to mark.
    pub(crate) standing: bool,
    /// Frames between two runs of the links, 1..=[`BURST`].
    pub(crate) burst: u64,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streamed {
    /// Time that went into it, by the clock given.
    pub(crate) spent_ns: u64,
    /// Departures whose word or ECN bits were marked, or would have been were they not full.
    pub(crate) marked: u64,
    /// Departures that a transparent clock corrected.
    pub(crate) corrected: u64,
}

impl Stream<'_> {
    /// Sends `frames` of them through a new switch. `clock_ns` says how long that takes.
    pub(crate) fn run(&self, frames: u64, clock_ns: fn() -> u64) -> Result<Streamed> {
        let mut switch = Switch::new(self.config.clone())?;
        let (mut pool, mut line) = (Memory::new(CHUNKS), Line::default());
        let info = class_of(self.frame);
        let wire_ns = u64::from(wire_octets(self.frame.len() as u32)) * NS_PER_OCTET;

        // The switch learns the receiver, in the VLAN of the stream.
        let mut hello = sync([0xFF; 6], RECEIVER, ETHERTYPE_BULK, SHORTEST, 0);
        if self.frame[12..14] == [0x81, 0] {
            hello.splice(12..12, self.frame[12..16].iter().copied());
        }
        let mut now = Nanos(1_000_000);
        if let Some(frame) = pool.put(&hello) {
            switch.receive(PortId(1), frame, &class_of(&hello), now, &mut pool, &mut line);
        }
        now = now + BURST * wire_ns;
        switch.advance(now, &mut line);
        for _ in 0..if self.standing { BURST } else { 0 } {
            if let Some(frame) = pool.put(self.frame) {
                switch.receive(PortId(0), frame, &info, now, &mut pool, &mut line);
            }
        }
        for departure in line.departed.drain(..) {
            pool.free(departure.frame);
        }

        let (mut departed, mut done) = (0, Streamed::default());
        let start = clock_ns();
        for number in 0..frames {
            now = now + wire_ns;
            let Some(frame) = pool.put(self.frame) else { break };
            switch.receive(PortId(0), frame, &info, now, &mut pool, &mut line);
            if number % self.burst == self.burst - 1 {
                switch.advance(now, &mut line);
                departed += line.departed.len() as u64;
                for departure in line.departed.drain(..) {
                    done.marked += u64::from(
                        matches!(departure.mark.outcome, MarkOutcome::Marked | MarkOutcome::Saturated)
                            || matches!(departure.mark.ecn, EcnOutcome::Marked | EcnOutcome::Saturated),
                    );
                    if departure.transparent {
                        // What the worker does when it releases the frame.
                        let residence = departure.end.since(departure.stamp);
                        let bytes = pool.bytes_mut(departure.frame);
                        let corrected = lateness::correct(bytes, &departure.info, residence as i64);
                        done.corrected += u64::from(corrected.is_ok());
                    }
                    pool.free(departure.frame);
                }
            }
        }
        done.spent_ns = clock_ns() - start;
        let lost: u64 = switch.stats().ports.iter().map(|port| port.drops.total()).sum();
        let least = frames.saturating_sub(4 * BURST) * self.copies;
        ensure!(lost == 0 && departed >= least, "frames were lost: {departed} of {frames} departed");
        Ok(done)
    }
}
