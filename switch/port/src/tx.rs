//! The TX ring of a port, and its completion ring.

use crate::{
    Full, Kick, PortCounters,
    checksum::Partial,
    ring::{Consumer, Desc, Mapping, Producer, RingMemory},
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
pub(crate) struct TxRing<M = Mapping> {
    ring: Producer<Desc, M>,
    completion: Consumer<u64, M>,
    size: u32,
    outstanding: u32,
    bytes: u64,
    /// Whether the kernel or NIC completes checksums.
    metadata: bool,
    zero_copy: bool,
    /// The device took nothing since it is down: what is on the ring is lost.
    down: bool,
}

impl<M: RingMemory> TxRing<M> {
    pub(crate) fn new(
        ring: Producer<Desc, M>,
        completion: Consumer<u64, M>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        UmemOptions,
        ring::{Heap, Layout},
    };
    use plimsoll_classify::Flags;

    const SIZE: u32 = 4;
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    type Memory = Heap<{ LAYOUT.len::<Desc>(SIZE) }>;

    /// A TX ring whose other ends are the test's.
    struct Bench {
        umem: Umem,
        account: AccountId,
        counters: PortCounters,
        tx: TxRing<Memory>,
        kernel: Consumer<Desc, Memory>,
        kernel_completion: Producer<u64, Memory>,
    }

    impl Bench {
        fn new(metadata: bool) -> Self {
            let mut umem = Umem::heap(UmemOptions { chunks: 16, chunk_size: 2048 });
            let account = umem.open_account(4, 4, 0).unwrap();
            let (ring, completion) = (Memory::new(), Memory::new());
            let tx = TxRing::new(
                Producer::new(ring.clone(), LAYOUT, SIZE).unwrap(),
                Consumer::new(completion.clone(), LAYOUT, SIZE).unwrap(),
                SIZE,
                metadata,
                false,
            );
            Self {
                umem,
                account,
                counters: PortCounters::default(),
                tx,
                kernel: Consumer::new(ring, LAYOUT, SIZE).unwrap(),
                kernel_completion: Producer::new(completion, LAYOUT, SIZE).unwrap(),
            }
        }

        fn transmit(&mut self, frame: FrameId, class: &Class) -> Result<(), Full> {
            self.tx.transmit(self.account, &mut self.umem, frame, class, &mut self.counters)
        }

        /// The kernel sends one.
        fn send(&mut self) -> Option<Desc> {
            self.tx.ring.publish();
            self.kernel.refresh();
            let desc = self.kernel.pop()?;
            self.kernel.release();
            Some(desc)
        }

        fn complete(&mut self, desc: Desc) {
            assert!(self.kernel_completion.push(desc.addr));
            self.kernel_completion.publish();
            self.tx.reap(self.account, &mut self.umem, &mut self.counters);
        }
    }

    #[test]
    fn ring_a_full_ring_leaves_the_frame_with_the_caller_until_completions_make_room() {
        let mut bench = Bench::new(true);
        let frames: Vec<_> = (0..5).map(|_| bench.umem.insert(&[1; 60]).unwrap()).collect();
        for &frame in &frames[..4] {
            bench.transmit(frame, &Class::OTHER).unwrap();
        }
        assert_eq!(bench.transmit(frames[4], &Class::OTHER), Err(Full));
        assert_eq!(bench.umem.bytes(frames[4]).len(), 60, "still the caller's");
        let desc = bench.send().unwrap();
        assert_eq!(bench.transmit(frames[4], &Class::OTHER), Err(Full), "not before it is completed");
        bench.complete(desc);
        assert_eq!((bench.tx.outstanding(), bench.tx.outstanding_bytes()), (3, 180));
        bench.transmit(frames[4], &Class::OTHER).unwrap();
        assert_eq!(bench.umem.audit(), Ok(()));
    }

    #[test]
    fn ring_what_a_device_that_is_down_did_not_take_is_freed_and_counted() {
        let mut bench = Bench::new(true);
        for _ in 0..3 {
            let frame = bench.umem.insert(&[1; 60]).unwrap();
            bench.transmit(frame, &Class::OTHER).unwrap();
        }
        let first = bench.send().unwrap();
        bench.tx.down = true;
        bench.tx.reap(bench.account, &mut bench.umem, &mut bench.counters);
        assert_eq!((bench.counters.tx_down, bench.tx.outstanding()), (2, 1));
        assert_eq!(bench.send(), None, "what was taken back is not on the ring");
        bench.complete(first);
        assert_eq!((bench.tx.outstanding(), bench.umem.audit()), (0, Ok(())));
        assert_eq!(bench.umem.tally([]).free, 16);
    }

    #[test]
    fn ring_metadata_stands_before_the_frame_or_the_sum_is_in_it() {
        let class = Class {
            flags: Flags::PARTIAL_CHECKSUM.with(Flags::UDP).with(Flags::IPV4),
            l3: 14,
            l4: 34,
            payload: 42,
            ..Class::OTHER
        };
        let mut bytes = [0; 60];
        bytes[16..18].copy_from_slice(&46_u16.to_be_bytes());
        for metadata in [true, false] {
            let mut bench = Bench::new(metadata);
            let frame = bench.umem.insert(&bytes).unwrap();
            bench.transmit(frame, &class).unwrap();
            let desc = bench.send().unwrap();
            assert_eq!(desc.options, if metadata { libc::XDP_TX_METADATA } else { 0 });
            // SAFETY: the test is the kernel, which has the frame now.
            let sent = unsafe { bench.umem.octets(desc.addr as usize - 24, 84) };
            if metadata {
                assert_eq!(sent[..12], [2, 0, 0, 0, 0, 0, 0, 0, 34, 0, 6, 0]);
                assert_eq!(sent[24..], bytes);
            } else {
                assert_eq!(sent[24 + 40..][..2], [0xFF, 0xFF], "the sum over zeroes");
            }
            assert_eq!(bench.counters.checksum_metadata, u64::from(metadata));
            assert_eq!(bench.counters.checksum_software, u64::from(!metadata));
        }
    }
}
