//! The benchmark's BPF ends (`ebpf/programs/src/bench.rs`): a source that sends from inside the kernel, many times as
//! fast as any socket, and a sink that counts and drops, so that neither end is what is measured.

use crate::stage::Host;
use anyhow::{Context, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader,
    maps::PerCpuArray,
    programs::{TestRun as _, TestRunAttrs, TestRunOptions, Xdp, XdpMode},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

static OBJECT: &[u8] = aya::include_bytes_aligned!("../../ebpf/prebuilt/bench.o");

/// Frames of one batch: half of what a veth takes (its ring of 256 frames) before its peer must have looked.
const BATCH: u32 = 64;
/// How long one run of the source shall last: it looks at its stop flag between two.
const RUN_SECONDS: f64 = 0.05;
/// Between two bursts of an even pace.
const BURST_GAP: Duration = Duration::from_micros(250);

/// CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns`.
pub(crate) fn clock_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn slots<const N: usize>(ebpf: &Ebpf, map: &str) -> Result<[u64; N]> {
    let map = ebpf.map(map).with_context(|| format!("map {map} in bench.o"))?;
    let array: PerCpuArray<_, u64> = map.try_into()?;
    let mut sums = [0; N];
    for (slot, sum) in sums.iter_mut().enumerate() {
        *sum = array.get(&(slot as u32), 0)?.iter().sum();
    }
    Ok(sums)
}

fn xdp<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp> {
    let program = ebpf.program_mut(name).with_context(|| format!("program {name} in bench.o"))?;
    Ok(program.try_into()?)
}

/// Frames that a source sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Emitted {
    pub(crate) bulk: u64,
    pub(crate) sync: u64,
}

/// A source in a host.
pub(crate) struct Emitter {
    ebpf: Ebpf,
    frame: Vec<u8>,
}

impl Emitter {
    /// Frames like `frame` out of the host's interface; every `sync_every`-th a Sync, the others bulk (0: all bulk).
    /// The port behind the interface must poll (NAPI): an XDP program there or `gro on`.
    pub(crate) fn new(host: &Host, frame: Vec<u8>, sync_every: u32) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .override_global("EMIT_IFINDEX", &host.index, true)
            .override_global("EMIT_SYNC_EVERY", &sync_every, true)
            .load(OBJECT)
            .context("load bench.o")?;
        let program = xdp(&mut ebpf, "plimsoll_emit")?;
        program.load().context("load plimsoll_emit")?;
        // A program that is attached anywhere starts a run a thousand times faster; no frame reaches it there.
        host.namespace
            .run_in(|| program.attach("lo", XdpMode::Skb))?
            .context("attach plimsoll_emit to lo")?;
        Ok(Self { ebpf, frame })
    }

    /// Sends `frames`. The calling thread must be in the host's namespace.
    pub(crate) fn send(&mut self, frames: u32) -> Result<()> {
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            repeat: frames,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH.min(frames)),
            ..TestRunOptions::new()
        };
        xdp(&mut self.ebpf, "plimsoll_emit")?.test_run(options).context("BPF_PROG_RUN of plimsoll_emit")?;
        Ok(())
    }

    /// Sends as fast as the CPU can until `stop`. The calling thread must be in the host's namespace.
    pub(crate) fn flood(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut frames = 4096.0;
        while !stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            self.send(frames as u32)?;
            let rate = frames / start.elapsed().as_secs_f64();
            frames = (rate * RUN_SECONDS).clamp(1024.0, 4e6);
        }
        Ok(())
    }

    /// Sends `per_second` frames a second until `stop`, in small bursts. The calling thread must be in the host's
    /// namespace.
    pub(crate) fn pace(&mut self, stop: &AtomicBool, per_second: f64) -> Result<()> {
        let start = Instant::now();
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * per_second) as u64;
            if due > sent {
                // After a stall not everything at once: the port's ring holds 256 frames.
                self.send((due - sent).min(128) as u32)?;
                sent = due;
            }
            thread::sleep(BURST_GAP);
        }
        Ok(())
    }

    /// What was sent so far.
    pub(crate) fn emitted(&self) -> Result<Emitted> {
        let [bulk, sync] = slots(&self.ebpf, "EMITTED")?;
        Ok(Emitted { bulk, sync })
    }
}

/// What a sink received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sunk {
    /// CLOCK_MONOTONIC of the reading.
    pub(crate) at_ns: u64,
    pub(crate) bulk: u64,
    /// Sync messages whose marking word is 0.
    pub(crate) unmarked: u64,
    /// The others.
    pub(crate) marked: u64,
    pub(crate) octets: u64,
}

impl Sunk {
    pub(crate) fn frames(&self) -> u64 {
        self.bulk + self.unmarked + self.marked
    }
}

/// A sink on a host's interface, before its stack.
pub(crate) struct Sink {
    ebpf: Ebpf,
}

impl Sink {
    pub(crate) fn new(host: &Host) -> Result<Self> {
        let mut ebpf = EbpfLoader::new().load(OBJECT).context("load bench.o")?;
        let program = xdp(&mut ebpf, "plimsoll_sink")?;
        program.load().context("load plimsoll_sink")?;
        host.namespace
            .run_in(|| program.attach(host.interface, XdpMode::Driver))?
            .with_context(|| format!("attach plimsoll_sink to {}", host.interface))?;
        Ok(Self { ebpf })
    }

    /// Counters and the instant they are of, within 50 us.
    pub(crate) fn read(&self) -> Result<Sunk> {
        for _ in 0..1000 {
            let before = clock_ns();
            let [bulk, unmarked, marked, octets] = slots(&self.ebpf, "SUNK")?;
            if clock_ns() - before < 50_000 {
                return Ok(Sunk { at_ns: before, bulk, unmarked, marked, octets });
            }
        }
        Err(anyhow!("the hosts' CPU is too busy to read a counter within 50 us; let nothing else run"))
    }
}
