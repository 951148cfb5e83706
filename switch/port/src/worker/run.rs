//! The loop itself.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender};
use plimsoll_core::{FdbEntry, Nanos, PortId};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

use super::{Idle, Snapshot, node::Running, snapshot::Draft};
use crate::{Memory, Port, PortError, Prepared, Umem};

/// How long an adaptive worker spins after the last frame.
const SPIN_NS: u64 = 100_000;
/// A sleeping worker looks at its commands at least this often.
const NAP: Duration = Duration::from_millis(20);
/// Rounds between two looks at whether an interface has gone.
const LIVENESS_NS: u64 = 200_000_000;

/// What the handle asks of the loop.
pub(super) enum Command {
    Snapshot(Sender<Draft>),
    Fdb(Sender<Vec<Vec<FdbEntry>>>),
    FlushFdb(Sender<u64>),
    /// Holds a link, or lets it serve from now on.
    Serve {
        node: usize,
        port: PortId,
        serve: bool,
        reply: Sender<()>,
    },
    /// Takes a port out, for its interface to be opened again.
    Vacate {
        node: usize,
        port: usize,
        reply: Sender<Memory>,
    },
    /// Puts the opened one in.
    Attach {
        node: usize,
        port: usize,
        prepared: Box<Prepared>,
        reply: Sender<Result<(), PortError>>,
    },
    Stop(Sender<Snapshot>),
}

/// What the thread owns.
pub(super) struct Loop {
    pub(super) nodes: Vec<Running>,
    pub(super) umem: Umem,
    pub(super) idle: Idle,
    pub(super) inbox: Receiver<Command>,
    pub(super) attention: Arc<AtomicBool>,
    /// Memory of [`Loop::sleep`], empty while awake.
    pub(super) asleep: Vec<PollFd<'static>>,
}

/// CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns`.
fn clock() -> Nanos {
    let t = clock_gettime(ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// The thread's main function: pins, tells how that went, runs until told to stop.
pub(super) fn main(mut engine: Loop, cpu: Option<usize>, started: &Sender<io::Result<()>>) {
    let pinned = cpu.map_or(Ok(()), pin);
    let failed = pinned.is_err();
    let _ = started.send(pinned);
    if failed {
        engine.close();
        return;
    }
    engine.run();
}

fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

impl Loop {
    fn run(&mut self) {
        let mut last_busy = clock();
        self.nodes.iter_mut().for_each(|node| node.begin(last_busy));
        let mut last_liveness = last_busy;
        loop {
            let mut busy = false;
            for node in &mut self.nodes {
                busy |= node.round(&mut self.umem, clock);
            }
            if self.attention.load(Ordering::Relaxed) {
                self.attention.store(false, Ordering::Release);
                if self.obey() {
                    return;
                }
            }
            let now = clock();
            if now.since(last_liveness) > LIVENESS_NS {
                last_liveness = now;
                for node in &mut self.nodes {
                    node.mind_interfaces(&mut self.umem);
                }
            }
            if busy {
                last_busy = now;
            } else if self.idle == Idle::Sleep
                || (self.idle == Idle::Adaptive && now.since(last_busy) > SPIN_NS)
            {
                self.sleep(now);
                let now = clock();
                self.nodes.iter_mut().for_each(|node| node.woke(now));
            }
        }
    }

    /// Carries out what was asked. Returns whether to stop.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Snapshot(reply) => {
                    let _ = reply.send(Draft::take(&self.nodes, &self.umem));
                }
                Command::FlushFdb(reply) => {
                    let _ = reply.send(self.nodes.iter_mut().map(|n| n.core.flush_fdb()).sum());
                }
                Command::Fdb(reply) => {
                    let _ = reply.send(self.nodes.iter().map(|n| n.core.fdb_entries()).collect());
                }
                Command::Serve { node, port, serve, reply } => {
                    let core = &mut self.nodes[node].core;
                    if serve {
                        core.resume(port, clock());
                    } else {
                        core.hold(port);
                    }
                    let _ = reply.send(());
                }
                Command::Vacate { node, port, reply } => {
                    self.nodes[node].detach(port, &mut self.umem);
                    let _ = reply.send(self.umem.memory());
                }
                Command::Attach { node, port, prepared, reply } => {
                    let opened = prepared
                        .finish(&mut self.umem)
                        .map(|new| self.nodes[node].attach(port, new, &mut self.umem));
                    let _ = reply.send(opened);
                }
                Command::Stop(reply) => {
                    // Nobody's frames wait any more, and soon there is nothing to read.
                    let mut last = Draft::take(&self.nodes, &self.umem).complete();
                    self.close();
                    last.frames = self.umem.tally(std::iter::empty());
                    let _ = reply.send(last);
                    return true;
                }
            }
        }
        false
    }

    fn close(&mut self) {
        for node in &mut self.nodes {
            node.stop(&mut self.umem);
        }
    }

    /// Waits for a frame, for what is due, or for a nap's length.
    fn sleep(&mut self, now: Nanos) {
        let due = self.nodes.iter().filter_map(Running::next_event).min();
        let wait = due.map_or(NAP, |at| Duration::from_nanos(at.since(now)).min(NAP));
        if wait < Duration::from_micros(60) {
            return; // a sleep takes longer to wake from than it is worth
        }
        let mut fds = std::mem::take(&mut self.asleep);
        let sockets = self.nodes.iter().flat_map(|n| n.ports.iter().flatten()).flat_map(Port::sockets);
        fds.extend(sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = Timespec::try_from(wait).ok();
        // EINTR and the like only end the wait early.
        let _ = poll(&mut fds, timeout.as_ref());
        self.asleep = emptied(fds);
    }
}

/// The memory of descriptors that are no longer borrowed, for the next ones: collecting an empty vector into one of the
/// same layout keeps its memory.
fn emptied(mut fds: Vec<PollFd<'_>>) -> Vec<PollFd<'static>> {
    fds.clear();
    fds.into_iter().map_while(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_memory_of_a_sleep_is_kept() {
        let stdin = std::io::stdin();
        let fds: Vec<_> = (0..9).map(|_| PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)).collect();
        let (at, capacity) = (fds.as_ptr().addr(), fds.capacity());
        let kept = emptied(fds);
        assert_eq!((kept.as_ptr().addr(), kept.capacity(), kept.len()), (at, capacity, 0));
    }
}
