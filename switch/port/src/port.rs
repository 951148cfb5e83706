//! One port: an interface that the switch owns, from attach to detach.
//!
//! The order of its life is the order of the file: [`Port::open`], then every round [`Port::refresh`],
//! [`Port::head`]/[`Port::take`], [`Port::transmit`], [`Port::kick`], [`Port::reap`], [`Port::refill`]; at last
//! [`Port::close`]. The port owns its interface wholly: nothing reaches the host's own stack.
//!
//! What it needs of the kernel: Linux 5.18 (`bpf_xdp_load_bytes`; links for XDP came with 5.9), CAP_NET_ADMIN,
//! CAP_NET_RAW and CAP_BPF, and CAP_IPC_LOCK or a limit of locked memory that holds the frame memory once for each RX
//! queue. Partial checksums by TX metadata: Linux 6.11 or a stable kernel with `XDP_UMEM_TX_METADATA_LEN`; without it
//! in software. Zero copy is coded to the kernel's interface and has not run on hardware yet.

mod kernel;
mod open;

pub use open::Prepared;
pub(crate) use {kernel::Reading, open::rx_queues};

use crate::{
    Mode, PortCounters, PortDescription, PortError, PortOptions, Umem, program::Program, rx::Queue,
    tx::TxRing, umem::AccountId,
};
use kernel::Kernel;
use plimsoll_classify::Class;
use plimsoll_core::{FrameId, Nanos};
use std::{
    cell::Cell,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// A frame taken from an RX ring; its owner is now the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The frame.
    pub frame: FrameId,
    /// What the classifier found.
    pub class: Class,
    /// Its arrival: CLOCK_MONOTONIC at XDP.
    pub stamp: Nanos,
}

/// The TX ring is full; the frame is still the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TX ring is full")]
pub struct Full;

/// What a kick achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// The kernel has taken every descriptor.
    Idle,
    /// Some are left: reap and kick again.
    Pending,
    /// The interface is down or gone. What was on the ring is lost with the next [`Port::reap`].
    Down,
}

/// One open port. Dropping it detaches and closes, but only [`Port::close`] gives its chunks back.
///
/// The [`Umem`] of all calls is the one it was opened with.
#[derive(Debug)]
pub struct Port {
    program: Program,
    queues: Vec<Queue>,
    tx: TxRing,
    account: AccountId,
    now: Nanos,
    counters: PortCounters,
    description: PortDescription,
    gone: Cell<bool>,
    kernel: Arc<Kernel>,
    _promiscuous: Option<OwnedFd>,
}

/// What the kernel still holds of a port that was abandoned; dropping it gives that back.
#[derive(Debug)]
pub(crate) struct Remains(#[expect(dead_code, reason = "held to be dropped")] Port);

/// Where a port's chunks are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    pub(crate) fill: u64,
    pub(crate) kernel: u64,
    pub(crate) rx: u64,
    pub(crate) tx: u64,
    pub(crate) completion: u64,
}

/// How long closing waits for frames on their way out, and for whoever reads the counters.
const DRAIN: Duration = Duration::from_millis(50);

impl Port {
    /// Opens `interface`, in the calling thread's network namespace, with its frames in `umem`.
    ///
    /// Attaches the classifier, binds a bulk and an express socket to each RX queue, takes [`PortOptions::chunks`] chunks
    /// and posts them, and only then lets frames in.
    ///
    /// # Errors
    /// [`PortError`] names interface, queue, call, errno and remedy. Nothing is left behind.
    pub fn open(umem: &mut Umem, interface: &str, options: &PortOptions) -> Result<Self, PortError> {
        Prepared::new(umem.memory(), interface, options)?.finish(umem)
    }

    /// RX rings, two per RX queue: 2*queue is its express ring, 2*queue + 1 its bulk ring.
    pub fn rings(&self) -> usize {
        2 * self.queues.len()
    }

    /// Reads all RX producers once. `now` (CLOCK_MONOTONIC, read before) is the arrival of frames without metadata.
    #[inline]
    pub fn refresh(&mut self, now: Nanos) {
        self.now = now;
        for queue in &mut self.queues {
            queue.refresh();
        }
    }

    /// The arrival of the ring's first frame, as of the last refresh.
    ///
    /// # Panics
    /// When there is no such ring.
    #[inline]
    pub fn head(&mut self, ring: usize, umem: &mut Umem) -> Option<Nanos> {
        let queue = &mut self.queues[ring / 2];
        queue.head(ring.is_multiple_of(2), self.now, self.account, umem, &mut self.counters)
    }

    /// Takes the ring's first frame.
    ///
    /// # Panics
    /// When there is no such ring.
    #[inline]
    pub fn take(&mut self, ring: usize, umem: &mut Umem) -> Option<Received> {
        self.head(ring, umem)?;
        let queue = &mut self.queues[ring / 2];
        queue.take(ring.is_multiple_of(2), self.account, umem, &mut self.counters)
    }

    /// Gives taken entries back to the kernel and posts free chunks up to the target. Once a round, in the round in
    /// which frames were taken: late posts lose frames.
    #[inline]
    pub fn refill(&mut self, umem: &mut Umem) {
        for queue in &mut self.queues {
            queue.refill(self.account, umem);
        }
    }

    /// Puts a frame on the TX ring and sees to its checksum if it is partial; its owner is now the port. Nothing
    /// leaves before [`Port::kick`].
    ///
    /// # Errors
    /// [`Full`]: the frame is still the caller's.
    #[inline]
    pub fn transmit(&mut self, umem: &mut Umem, frame: FrameId, class: &Class) -> Result<(), Full> {
        self.tx.transmit(self.account, umem, frame, class, &mut self.counters)
    }

    /// Makes the kernel send what is on the TX ring.
    #[inline]
    pub fn kick(&mut self) -> Kick {
        let kick = self.tx.kick(self.queues[0].bulk_fd(), &mut self.counters);
        if kick == Kick::Pending
            && let Some(error) = self.tx.new_failure()
        {
            tracing::warn!(
                port = self.description.interface,
                "queue 0: sendto: {error}; the frame is dropped, and so is each further one (tx_failed)"
            );
        }
        kick
    }

    /// Whether the interface is up (IFF_UP), by one system call whatever is on the TX ring: how one that a kick found
    /// [`Kick::Down`] is found up again. Without carrier a port is not down: what it sends is lost as
    /// [`PortCounters::tx_refused`].
    pub fn probe(&mut self) -> bool {
        self.tx.probe(self.queues[0].bulk_fd(), &mut self.counters)
    }

    /// Gives sent chunks back to the pool.
    #[inline]
    pub fn reap(&mut self, umem: &mut Umem) {
        self.tx.reap(self.account, umem, &mut self.counters);
    }

    /// Frames put on the TX ring and not yet completed and reaped.
    #[inline]
    pub fn tx_outstanding(&self) -> u32 {
        self.tx.outstanding()
    }

    /// Their octets, without FCS.
    #[inline]
    pub fn tx_outstanding_bytes(&self) -> u64 {
        self.tx.outstanding_bytes()
    }

    /// Whether the TX ring takes another frame.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.tx.has_room()
    }

    /// Whether the interface is still there (one system call).
    pub fn is_alive(&self) -> bool {
        if let Some(queue) = self.queues.first() {
            // The kernel reports once that it unbound the socket.
            let error = rustix::net::sockopt::socket_error(queue.bulk_fd());
            if !matches!(error, Ok(Ok(()))) {
                self.gone.set(true);
            }
        }
        !self.gone.get()
    }

    /// The sockets to sleep on: readable when a frame is in an RX ring.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().flat_map(|queue| [queue.express_fd(), queue.bulk_fd()])
    }

    /// The counters, the kernel's included (some system calls: not for the hot path).
    pub fn counters(&self) -> PortCounters {
        self.reading().complete()
    }

    /// The counters of now, the kernel's to be read by whoever wants them.
    pub(crate) fn reading(&self) -> Reading {
        Reading { own: self.counters, voided: self.tx.voided(), kernel: Arc::clone(&self.kernel) }
    }

    /// What became of the options.
    pub fn describe(&self) -> &PortDescription {
        &self.description
    }

    /// Stops in the order that loses no chunk: XSKMAP cleared, program detached, rings drained, sockets closed. Frames
    /// that the caller still holds stay his. The counters are the port's last: with what was lost in its rings
    /// ([`PortCounters::closed_rx`], [`PortCounters::tx_down`]), read just before the sockets close.
    pub fn close(mut self, umem: &mut Umem) -> PortCounters {
        self.program.disconnect();
        self.program.detach();
        self.empty(umem);
        let counters = self.counters();
        // Whoever reads the counters now still has the sockets, and the kernel might yet know their chunks.
        let until = Instant::now() + DRAIN;
        while Arc::strong_count(&self.kernel) > 1 && Instant::now() < until {
            thread::sleep(Duration::from_micros(100));
        }
        // A driver with zero copy takes its buffers down after the sockets are closed.
        let withdraw = self.description.mode == Mode::ZeroCopy;
        let account = self.account;
        drop(self);
        umem.close_account(account, withdraw);
        counters
    }

    /// The same for a port whose interface is gone ([`Port::is_alive`] says so). The kernel has unbound the sockets, so
    /// that the chunks come back at once; to let go of the rest takes it some milliseconds, on the thread that drops it.
    pub(crate) fn abandon(mut self, umem: &mut Umem) -> (PortCounters, Remains) {
        self.empty(umem);
        let counters = self.reading().complete_without_device();
        umem.close_account(self.account, self.description.mode == Mode::ZeroCopy);
        (counters, Remains(self))
    }

    /// Drops what is in the rings, after a while also what the device does not send.
    fn empty(&mut self, umem: &mut Umem) {
        for queue in &mut self.queues {
            queue.drain(self.account, umem, &mut self.counters);
        }
        let until = Instant::now() + DRAIN;
        while self.tx.outstanding() > 0 && Instant::now() < until {
            let kick = self.kick();
            self.reap(umem);
            if kick == Kick::Down {
                break;
            }
            if self.tx.outstanding() > 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.counters.tx_down += self.tx.drop_unsent(self.account, umem, true);
    }

    pub(crate) fn places(&self) -> Places {
        let mut places = Places::default();
        for queue in &self.queues {
            let of = queue.places();
            places.fill += of.fill;
            places.kernel += of.kernel;
            places.rx += of.rx;
        }
        places.completion = u64::from(self.tx.completed());
        places.tx = u64::from(self.tx.outstanding()) - places.completion;
        places
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Before the sockets: closing them while the program still delivers is what crashed old kernels.
        self.program.disconnect();
        self.program.detach();
    }
}
