//! One port: an interface that the switch owns, from attach to detach.

use crate::{PortCounters, PortDescription, PortError, PortOptions, Umem};
use plimsoll_classify::Class;
use plimsoll_core::{FrameId, Nanos};
use std::os::fd::BorrowedFd;

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
    /// The interface is down or gone.
    Down,
}

/// One open port. Dropping it detaches and closes, but only [`Port::close`] gives its chunks back.
#[derive(Debug)]
pub struct Port;

impl Port {
    /// Opens `interface`, in the calling thread's network namespace, with its frames in `umem`.
    ///
    /// # Errors
    /// [`PortError`]; nothing is left behind.
    pub fn open(_umem: &mut Umem, _interface: &str, _options: &PortOptions) -> Result<Self, PortError> {
        unimplemented!()
    }
    /// RX rings, two per RX queue: 2*queue is its express ring, 2*queue + 1 its bulk ring.
    pub fn rings(&self) -> usize {
        unimplemented!()
    }
    /// Reads all RX producers once. `now` (CLOCK_MONOTONIC, read before) is the arrival of frames without metadata.
    pub fn refresh(&mut self, _now: Nanos) {}
    /// The arrival of the ring's first frame, as of the last refresh.
    pub fn head(&mut self, _ring: usize, _umem: &mut Umem) -> Option<Nanos> {
        unimplemented!()
    }
    /// Takes the ring's first frame.
    pub fn take(&mut self, _ring: usize, _umem: &mut Umem) -> Option<Received> {
        unimplemented!()
    }
    /// Gives taken entries back to the kernel and posts free chunks up to the quota. Once a round.
    pub fn refill(&mut self, _umem: &mut Umem) {}
    /// Puts a frame on the TX ring and completes its checksum if it is partial; its owner is now the port.
    ///
    /// # Errors
    /// [`Full`]: the frame is still the caller's.
    pub fn transmit(&mut self, _umem: &mut Umem, _frame: FrameId, _class: &Class) -> Result<(), Full> {
        unimplemented!()
    }
    /// Makes the kernel send what is on the TX ring.
    pub fn kick(&mut self) -> Kick {
        unimplemented!()
    }
    /// Gives sent chunks back to the pool.
    pub fn reap(&mut self, _umem: &mut Umem) {}
    /// Frames put on the TX ring and not yet completed.
    pub fn tx_outstanding(&self) -> u32 {
        unimplemented!()
    }
    /// Their octets, without FCS.
    pub fn tx_outstanding_bytes(&self) -> u64 {
        unimplemented!()
    }
    /// Whether the TX ring takes another frame.
    pub fn has_room(&self) -> bool {
        unimplemented!()
    }
    /// Whether the interface is still there (one system call).
    pub fn is_alive(&self) -> bool {
        unimplemented!()
    }
    /// The sockets, to sleep on: readable when a frame is in an RX ring.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::empty()
    }
    /// The counters, the kernel's included (some system calls: not for the hot path).
    pub fn counters(&self) -> PortCounters {
        unimplemented!()
    }
    /// What became of the options.
    pub fn describe(&self) -> &PortDescription {
        unimplemented!()
    }
    /// Stops in the order that loses no chunk: XSKMAP cleared, program detached, rings drained, sockets closed. Frames
    /// that the caller still holds stay his.
    pub fn close(self, _umem: &mut Umem) -> PortCounters {
        unimplemented!()
    }
}
