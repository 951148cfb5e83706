//! The TX ring of a port, and its completion ring.

use crate::{
    Full, Kick, PortCounters,
    checksum::Partial,
    ring::{Consumer, Desc, Producer},
    umem::{AccountId, Umem},
};
use plimsoll_classify::Class;
use plimsoll_core::{FrameId, Pool};
use rustix::{
    io::Errno,
    net::{SendFlags, send},
};
use std::os::fd::BorrowedFd;

/// `sendto` calls without progress after which a kick gives up: the device is congested, and only time or a reap helps.
const STALLS: u32 = 4;

/// Our ends of a port's TX and completion rings.
#[derive(Debug)]
pub(crate) struct TxRing {
    ring: Producer<Desc>,
    completion: Consumer<u64>,
    size: u32,
    outstanding: u32,
    bytes: u64,
    /// Whether the kernel or NIC completes checksums.
    metadata: bool,
    zero_copy: bool,
    /// The device took nothing since it is down: what is on the ring is lost.
    down: bool,
}

impl TxRing {
    pub(crate) fn new(
        ring: Producer<Desc>,
        completion: Consumer<u64>,
        size: u32,
        metadata: bool,
        zero_copy: bool,
    ) -> Self {
        Self { ring, completion, size, outstanding: 0, bytes: 0, metadata, zero_copy, down: false }
    }

    pub(crate) fn has_metadata(&self) -> bool {
        self.metadata
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.bytes
    }

    /// Chunks in the completion ring.
    pub(crate) fn completed(&self) -> u32 {
        self.completion.waiting()
    }

    /// Whether another frame fits; never more are on their way than the completion ring holds.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.outstanding < self.size
    }

    #[inline]
    pub(crate) fn transmit(
        &mut self,
        account: AccountId,
        umem: &mut Umem,
        frame: FrameId,
        class: &Class,
        counters: &mut PortCounters,
    ) -> Result<(), Full> {
        if !self.has_room() || !self.ring.has_room() {
            return Err(Full);
        }
        let mut options = 0;
        if let Some(partial) = Partial::of(class, umem.bytes(frame).len()) {
            if self.metadata {
                umem.write_tx_metadata(frame, &partial.metadata());
                options = libc::XDP_TX_METADATA;
                counters.checksum_metadata += 1;
            } else {
                partial.complete(umem.bytes_mut(frame), class);
                counters.checksum_software += 1;
            }
        }
        let (addr, len) = umem.send(account, frame);
        self.ring.push(Desc { addr, len, options });
        self.outstanding += 1;
        self.bytes += u64::from(len);
        counters.tx_frames += 1;
        counters.tx_bytes += u64::from(len);
        Ok(())
    }

    /// Publishes what was put on the ring and calls the kernel until it has taken everything or does not get on.
    pub(crate) fn kick(&mut self, fd: BorrowedFd<'_>, counters: &mut PortCounters) -> Kick {
        self.ring.publish();
        if self.zero_copy && !self.ring.needs_wakeup() {
            // The driver polls the ring by itself.
            return if self.ring.unconsumed() == 0 { Kick::Idle } else { Kick::Pending };
        }
        // In copy mode the kernel always needs the call, and sends at most 32 frames in it.
        let mut stalls = 0;
        let mut left = self.ring.unconsumed();
        while left > 0 {
            counters.kicks += 1;
            match send(fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
                // The device had taken the frame and dropped it.
                Err(Errno::BUSY) => counters.tx_refused += 1,
                Err(_) => {
                    self.down = true;
                    return Kick::Down;
                }
            }
            let now = self.ring.unconsumed();
            stalls = if now == left { stalls + 1 } else { 0 };
            left = now;
            if stalls == STALLS || (self.zero_copy && left > 0) {
                return Kick::Pending;
            }
        }
        Kick::Idle
    }

    /// Frees what was sent, and what a device that is down will not send.
    #[inline]
    pub(crate) fn reap(&mut self, account: AccountId, umem: &mut Umem, counters: &mut PortCounters) {
        if self.outstanding == 0 {
            return;
        }
        self.completion.refresh();
        let mut any = false;
        while let Some(addr) = self.completion.pop() {
            any = true;
            self.done(account, umem, addr, counters);
        }
        if any {
            self.completion.release();
        }
        if self.down {
            self.down = false;
            counters.tx_down += u64::from(self.take_back(account, umem, counters));
        }
    }

    fn done(&mut self, account: AccountId, umem: &mut Umem, addr: u64, counters: &mut PortCounters) {
        match umem.complete(account, addr) {
            Some(len) => {
                self.outstanding -= 1;
                self.bytes -= u64::from(len);
            }
            None => counters.bad_descriptor += 1,
        }
    }

    /// Frees what is on the ring and was not sent; how many. In zero copy the driver may just be at it: nothing.
    #[cold]
    pub(crate) fn take_back(
        &mut self,
        account: AccountId,
        umem: &mut Umem,
        counters: &mut PortCounters,
    ) -> u32 {
        let mut count = 0;
        if !self.zero_copy {
            // SAFETY: in copy mode the kernel consumes the ring only inside `sendto`, which only `kick` calls.
            while let Some(desc) = unsafe { self.ring.take_back() } {
                self.done(account, umem, desc.addr, counters);
                count += 1;
            }
        }
        count
    }
}
