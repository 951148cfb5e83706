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

/// A descriptor that the kernel passes over, one in a call, and counts as invalid: it points outside of any memory.
const VOID: Desc = Desc { addr: u64::MAX, len: 0, options: 0 };

/// An errno of `sendto` that does not come from the interface's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    None,
    New(Errno),
    Told,
}

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
    /// The kernel cannot send the ring's first frame and will not go past it.
    stuck: bool,
    /// Descriptors made void.
    voided: u64,
    failure: Failure,
}

impl<M: RingMemory> TxRing<M> {
    pub(crate) fn new(
        ring: Producer<Desc, M>,
        completion: Consumer<u64, M>,
        size: u32,
        metadata: bool,
        zero_copy: bool,
    ) -> Self {
        Self {
            ring,
            completion,
            size,
            outstanding: 0,
            bytes: 0,
            metadata,
            zero_copy,
            down: false,
            stuck: false,
            voided: 0,
            failure: Failure::None,
        }
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
            match self.call(fd, counters) {
                Ok(()) => {}
                Err(error) if is_down(error) => {
                    self.down = true;
                    return Kick::Down;
                }
                Err(error) => {
                    // In copy mode the kernel leaves the frame that it cannot send at the head, for us to try again.
                    self.stuck = true;
                    if self.failure == Failure::None {
                        self.failure = Failure::New(error);
                    }
                    return Kick::Pending;
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

    /// Whether the interface is up: one call, whatever is on the ring. (The kernel looks at the interface first.)
    pub(crate) fn probe(&mut self, fd: BorrowedFd<'_>, counters: &mut PortCounters) -> bool {
        counters.kicks += 1;
        !self.call(fd, counters).is_err_and(is_down)
    }

    /// Makes the kernel send. What only time can mend is no error.
    #[inline]
    fn call(&mut self, fd: BorrowedFd<'_>, counters: &mut PortCounters) -> Result<(), Errno> {
        let result = send(fd, &[], SendFlags::DONTWAIT);
        if !result.is_err_and(is_down) {
            self.ring.offer();
        }
        match result {
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => Ok(()),
            // The device had taken the frame and dropped it.
            Err(Errno::BUSY) => {
                counters.tx_refused += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The first failure to send that is not the interface's, once.
    #[inline]
    pub(crate) fn new_failure(&mut self) -> Option<Errno> {
        let Failure::New(error) = self.failure else { return None };
        self.failure = Failure::Told;
        Some(error)
    }

    /// Descriptors of which the kernel counts each as invalid when it comes to it.
    pub(crate) fn voided(&self) -> u64 {
        self.voided
    }

    /// Frees what was sent, and what the device will not send since it is down or the kernel cannot.
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
            counters.tx_down += self.drop_unsent(account, umem, false);
        }
        if self.stuck {
            self.stuck = false;
            counters.tx_failed += self.void_first(account, umem).map_or(0, u64::from);
        }
    }

    fn done(&mut self, account: AccountId, umem: &mut Umem, addr: u64, counters: &mut PortCounters) {
        if !self.free(account, umem, addr) {
            counters.bad_descriptor += 1;
        }
    }

    fn free(&mut self, account: AccountId, umem: &mut Umem, addr: u64) -> bool {
        let Some(len) = umem.complete(account, addr) else { return false };
        self.outstanding -= 1;
        self.bytes -= u64::from(len);
        true
    }

    /// Frees what is on the ring and was not sent; how many frames. In zero copy the driver may just be at it: nothing.
    ///
    /// What the kernel has not looked at yet is taken off the ring. The rest stays on it as void descriptors, for the
    /// kernel remembers how far the ring was filled and would send what stood there once the interface is up again.
    /// Where the socket is `closing` the kernel will not look again.
    ///
    /// Linux before 6.17 shows what it has consumed only when it comes to the ring's end: there a frame may be among
    /// those dropped here that has just been sent and not completed.
    #[cold]
    pub(crate) fn drop_unsent(&mut self, account: AccountId, umem: &mut Umem, closing: bool) -> u64 {
        let mut count = 0;
        if self.zero_copy {
            return count;
        }
        while closing || self.ring.has_unseen() {
            // SAFETY: in copy mode the kernel consumes the ring only inside `sendto`, which only `call` makes.
            let Some(desc) = (unsafe { self.ring.take_back() }) else { break };
            count += u64::from(self.free(account, umem, desc.addr));
        }
        while let Some(freed) = self.void_first(account, umem) {
            count += u64::from(freed);
        }
        count
    }

    /// Makes the first descriptor void that is not; whether a frame was freed by it. `None` where there is none.
    #[cold]
    fn void_first(&mut self, account: AccountId, umem: &mut Umem) -> Option<bool> {
        if self.zero_copy {
            return None;
        }
        // SAFETY: as in `drop_unsent`.
        let desc = unsafe { self.ring.void_first(VOID) }?;
        self.voided += 1;
        Some(self.free(account, umem, desc.addr))
    }
}

/// The interface is down (ENETDOWN) or gone (ENXIO: the socket is unbound; ENODEV).
#[inline]
fn is_down(error: Errno) -> bool {
    matches!(error, Errno::NETDOWN | Errno::NXIO | Errno::NODEV)
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
    fn ring_what_the_kernel_has_looked_at_and_not_sent_is_void_and_never_sent() {
        let mut bench = Bench::new(true);
        for _ in 0..2 {
            let frame = bench.umem.insert(&[1; 60]).unwrap();
            bench.transmit(frame, &Class::OTHER).unwrap();
        }
        // The kernel has seen two, and sends one before the interface goes down.
        let first = bench.send().unwrap();
        bench.tx.ring.offer();
        let unseen = bench.umem.insert(&[1; 60]).unwrap();
        bench.transmit(unseen, &Class::OTHER).unwrap();
        bench.tx.down = true;
        bench.tx.reap(bench.account, &mut bench.umem, &mut bench.counters);
        assert_eq!((bench.counters.tx_down, bench.tx.outstanding(), bench.tx.voided()), (2, 1, 1));
        // Up again: it goes on from what it remembers.
        let frame = bench.umem.insert(&[2; 60]).unwrap();
        bench.transmit(frame, &Class::OTHER).unwrap();
        bench.tx.ring.publish();
        assert_eq!(bench.kernel.pop(), Some(VOID));
        let desc = bench.send().unwrap();
        assert_ne!(desc, VOID);
        assert_eq!(bench.send(), None);
        bench.complete(first);
        bench.complete(desc);
        assert_eq!((bench.tx.outstanding(), bench.counters.bad_descriptor), (0, 0));
        assert_eq!((bench.umem.audit(), bench.umem.tally([]).free), (Ok(()), 16));
    }

    #[test]
    fn a_frame_that_the_kernel_cannot_send_is_dropped_and_the_ring_goes_on() {
        let mut bench = Bench::new(true);
        for _ in 0..3 {
            let frame = bench.umem.insert(&[1; 60]).unwrap();
            bench.transmit(frame, &Class::OTHER).unwrap();
        }
        // What is no socket answers ENOTSOCK: an errno that says nothing of an interface.
        let file = std::fs::File::open("/dev/null").unwrap();
        let kick = bench.tx.kick(std::os::fd::AsFd::as_fd(&file), &mut bench.counters);
        assert_eq!(kick, Kick::Pending);
        assert_eq!(bench.tx.new_failure(), Some(Errno::NOTSOCK));
        assert_eq!(bench.tx.new_failure(), None, "told once");
        bench.tx.reap(bench.account, &mut bench.umem, &mut bench.counters);
        assert_eq!((bench.counters.tx_failed, bench.counters.tx_down, bench.tx.outstanding()), (1, 0, 2));
        assert_eq!(bench.send(), Some(VOID));
        for _ in 0..2 {
            let desc = bench.send().unwrap();
            bench.complete(desc);
        }
        assert_eq!((bench.tx.outstanding(), bench.umem.tally([]).free), (0, 16));
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
