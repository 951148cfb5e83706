//! One RX queue: an express ring that bulk traffic cannot fill, a bulk ring, and the fill ring they share.

use crate::{
    PortCounters, Received,
    ring::{Consumer, Desc, Mapping, Producer, RingMemory},
    umem::{AccountId, Arrival, Umem},
    xsk::ExpressSocket,
};
use plimsoll_core::Nanos;
use rustix::net::{RecvFlags, recv};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// How many frames before its turn a frame's head is fetched into the cache: another CPU has just written it.
const AHEAD: u32 = 4;

/// One RX ring with its first frame looked at.
#[derive(Debug)]
struct RxRing<M = Mapping> {
    consumer: Consumer<Desc, M>,
    express: bool,
    head: Option<(Arrival, Nanos)>,
    /// In the middle of a frame of several pieces.
    jumbo: bool,
}

impl<M: RingMemory> RxRing<M> {
    fn new(consumer: Consumer<Desc, M>, express: bool) -> Self {
        Self { consumer, express, head: None, jumbo: false }
    }

    /// The arrival of the first frame.
    #[inline]
    fn head(&mut self, now: Nanos, desk: Desk<'_>) -> Option<Nanos> {
        match self.head {
            Some((_, stamp)) => Some(stamp),
            None => self.look(now, desk),
        }
    }

    /// Takes the frame that was looked at.
    #[inline]
    fn take(&mut self, desk: Desk<'_>) -> Option<Received> {
        let (arrival, stamp) = self.head.take()?;
        self.consumer.advance();
        let frame = desk.umem.accept(&arrival, self.express);
        *desk.posted -= 1;
        desk.counters.rx_frames += 1;
        desk.counters.rx_bytes += u64::from(arrival.len());
        desk.counters.rx_express += u64::from(self.express);
        Some(Received { frame, class: arrival.class, stamp })
    }

    /// Looks at descriptors until one is a frame to be handed out; drops and counts what is none.
    fn look(&mut self, now: Nanos, mut desk: Desk<'_>) -> Option<Nanos> {
        if let Some(soon) = self.consumer.peek_ahead(AHEAD) {
            desk.umem.prefetch(soon.addr);
        }
        while let Some(desc) = self.consumer.peek() {
            let more = desc.options & libc::XDP_PKT_CONTD != 0;
            if more || self.jumbo {
                desk.counters.jumbo += u64::from(!more);
                self.jumbo = more;
                self.skip(desc, &mut desk);
                continue;
            }
            // SAFETY: just read from an RX ring of this account's port, and released only after `advance`.
            let Some(arrival) = (unsafe { desk.umem.arrival(desk.account, desc) }) else {
                desk.counters.bad_descriptor += 1;
                self.skip(desc, &mut desk);
                continue;
            };
            if desk.umem.over_quota(desk.account, self.express) {
                desk.counters.over_quota += 1;
                self.skip(desc, &mut desk);
                continue;
            }
            let stamp = match arrival.stamp {
                Some(stamp) => Nanos(stamp),
                None => {
                    desk.counters.native_class += 1;
                    now
                }
            };
            self.head = Some((arrival, stamp));
            return Some(stamp);
        }
        None
    }

    /// Drops everything. A frame in pieces counts once, with its last one.
    fn drain(&mut self, mut desk: Desk<'_>) {
        self.head = None;
        while let Some(desc) = self.consumer.peek() {
            desk.counters.closed_rx += u64::from(desc.options & libc::XDP_PKT_CONTD == 0);
            self.skip(desc, &mut desk);
        }
        self.consumer.release();
    }

    fn skip(&mut self, desc: Desc, desk: &mut Desk<'_>) {
        self.consumer.advance();
        if desk.umem.reject(desk.account, desc.addr) {
            *desk.posted -= 1;
        }
    }
}

/// What a ring works on beside itself.
struct Desk<'a> {
    umem: &'a mut Umem,
    account: AccountId,
    posted: &'a mut u32,
    counters: &'a mut PortCounters,
}

/// Where a queue's chunks are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RxPlaces {
    pub(crate) fill: u64,
    pub(crate) kernel: u64,
    pub(crate) rx: u64,
}

/// One RX queue of a port.
#[derive(Debug)]
pub(crate) struct Queue {
    express: RxRing,
    bulk: RxRing,
    fill: Producer<u64>,
    /// Chunks in the fill ring, behind it, and in both RX rings.
    posted: u32,
    /// Chunks to keep there.
    target: u32,
    express_fd: Arc<OwnedFd>,
    bulk_fd: Arc<OwnedFd>,
}

impl Queue {
    pub(crate) fn new(
        bulk_fd: OwnedFd,
        fill: Producer<u64>,
        bulk: Consumer<Desc>,
        express: ExpressSocket,
        target: u32,
    ) -> Self {
        Self {
            express: RxRing::new(express.rx, true),
            bulk: RxRing::new(bulk, false),
            fill,
            posted: 0,
            target,
            express_fd: Arc::new(express.fd),
            bulk_fd: Arc::new(bulk_fd),
        }
    }

    /// The bulk and the express socket, for whoever reads what the kernel counts.
    pub(crate) fn shared_fds(&self) -> [Arc<OwnedFd>; 2] {
        [Arc::clone(&self.bulk_fd), Arc::clone(&self.express_fd)]
    }

    pub(crate) fn bulk_fd(&self) -> BorrowedFd<'_> {
        self.bulk_fd.as_fd()
    }

    pub(crate) fn express_fd(&self) -> BorrowedFd<'_> {
        self.express_fd.as_fd()
    }

    /// Reads both producers.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        self.express.consumer.refresh();
        self.bulk.consumer.refresh();
    }

    /// The arrival of a ring's first frame.
    #[inline]
    pub(crate) fn head(
        &mut self,
        express: bool,
        now: Nanos,
        account: AccountId,
        umem: &mut Umem,
        counters: &mut PortCounters,
    ) -> Option<Nanos> {
        let ring = if express { &mut self.express } else { &mut self.bulk };
        ring.head(now, Desk { umem, account, posted: &mut self.posted, counters })
    }

    /// Takes the frame that [`Queue::head`] looked at.
    #[inline]
    pub(crate) fn take(
        &mut self,
        express: bool,
        account: AccountId,
        umem: &mut Umem,
        counters: &mut PortCounters,
    ) -> Option<Received> {
        let ring = if express { &mut self.express } else { &mut self.bulk };
        ring.take(Desk { umem, account, posted: &mut self.posted, counters })
    }

    /// Gives taken entries back, posts chunks up to the target, and wakes the driver where it asks for it.
    #[inline]
    pub(crate) fn refill(&mut self, account: AccountId, umem: &mut Umem) {
        self.express.consumer.release();
        self.bulk.consumer.release();
        if self.posted == self.target {
            return;
        }
        while self.posted < self.target && self.fill.has_room() {
            let Some(addr) = umem.post(account) else { break };
            self.fill.push(addr);
            self.posted += 1;
        }
        self.fill.publish();
        if self.fill.needs_wakeup() {
            // EAGAIN is the answer of a driver that has now looked.
            let _ = recv(&self.bulk_fd, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Drops everything in the rings and counts it.
    pub(crate) fn drain(&mut self, account: AccountId, umem: &mut Umem, counters: &mut PortCounters) {
        self.refresh();
        for ring in [&mut self.express, &mut self.bulk] {
            ring.drain(Desk { umem, account, posted: &mut self.posted, counters });
        }
    }

    /// Where the chunks are.
    pub(crate) fn places(&self) -> RxPlaces {
        let posted = u64::from(self.posted);
        let rx = u64::from(self.express.consumer.waiting()) + u64::from(self.bulk.consumer.waiting());
        // The kernel shows a chunk in the RX ring before it shows that it is no longer in the fill ring.
        let fill = u64::from(self.fill.unconsumed()).min(posted.saturating_sub(rx));
        RxPlaces { fill, rx, kernel: posted.saturating_sub(rx + fill) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        UmemOptions,
        ring::{Heap, Layout},
    };
    use plimsoll_core::Pool;

    const SIZE: u32 = 8;
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    type Memory = Heap<{ LAYOUT.len::<Desc>(SIZE) }>;

    /// An RX ring whose other end is the test's, and its memory.
    struct Bench {
        umem: Umem,
        account: AccountId,
        posted: u32,
        counters: PortCounters,
        ring: RxRing<Memory>,
        kernel: Producer<Desc, Memory>,
    }

    impl Bench {
        fn new(held: u32, express: bool) -> Self {
            let mut umem = Umem::heap(UmemOptions { chunks: 16, chunk_size: 2048 });
            let account = umem.open_account(16, held, 1).unwrap();
            let memory = Memory::new();
            Self {
                umem,
                account,
                posted: 0,
                counters: PortCounters::default(),
                ring: RxRing::new(Consumer::new(memory.clone(), LAYOUT, SIZE).unwrap(), express),
                kernel: Producer::new(memory, LAYOUT, SIZE).unwrap(),
            }
        }

        /// Delivers a posted chunk, with no metadata.
        fn deliver(&mut self, len: u32, options: u32) -> u64 {
            let addr = self.umem.post(self.account).unwrap();
            self.posted += 1;
            assert!(self.kernel.push(Desc { addr: addr + 256, len, options }));
            self.kernel.publish();
            self.ring.consumer.refresh();
            addr
        }

        fn take(&mut self, now: u64) -> Option<Received> {
            let Self { umem, account, posted, counters, ring, .. } = self;
            ring.head(Nanos(now), Desk { umem, account: *account, posted, counters })?;
            ring.take(Desk { umem, account: *account, posted, counters })
        }
    }

    #[test]
    fn ring_frames_in_pieces_are_dropped_whole_and_counted_once() {
        let mut bench = Bench::new(16, false);
        for options in [libc::XDP_PKT_CONTD, libc::XDP_PKT_CONTD, 0] {
            bench.deliver(1792, options);
        }
        bench.deliver(60, 0);
        let received = bench.take(5).unwrap();
        assert_eq!(bench.umem.bytes(received.frame).len(), 60);
        assert_eq!((bench.counters.jumbo, bench.counters.rx_frames), (1, 1));
        assert_eq!(bench.posted, 0, "the pieces' chunks are free again");
        assert_eq!(bench.umem.audit(), Ok(()));
    }

    #[test]
    fn ring_what_is_in_it_at_the_close_is_counted() {
        let mut bench = Bench::new(16, true);
        for options in [0, libc::XDP_PKT_CONTD, 0, 0] {
            bench.deliver(60, options);
        }
        let Bench { umem, account, posted, counters, ring, .. } = &mut bench;
        let account = *account;
        // Looked at, not taken.
        assert!(ring.head(Nanos(1), Desk { umem, account, posted, counters }).is_some());
        ring.drain(Desk { umem, account, posted, counters });
        assert_eq!((bench.counters.closed_rx, bench.counters.rx_frames, bench.posted), (3, 0, 0));
        assert_eq!(bench.umem.audit(), Ok(()));
    }

    #[test]
    fn ring_descriptors_that_are_no_frame_are_passed_over() {
        let mut bench = Bench::new(16, false);
        bench.deliver(3, 0);
        bench.deliver(60, 0);
        assert!(bench.take(5).is_some());
        assert_eq!((bench.counters.bad_descriptor, bench.counters.rx_frames, bench.posted), (1, 1, 0));
        assert_eq!(bench.umem.audit(), Ok(()));
    }

    #[test]
    fn ring_a_frame_without_metadata_has_the_time_at_which_it_was_first_seen() {
        let mut bench = Bench::new(16, true);
        bench.deliver(60, 0);
        let Bench { umem, account, posted, counters, ring, .. } = &mut bench;
        let desk = Desk { umem, account: *account, posted, counters };
        assert_eq!(ring.head(Nanos(7), desk), Some(Nanos(7)));
        let received = bench.take(9).unwrap();
        assert_eq!(received.stamp, Nanos(7));
        assert_eq!((bench.counters.native_class, bench.counters.rx_express), (1, 1));
    }

    #[test]
    fn ring_bulk_frames_over_quota_go_back_and_express_ones_have_more() {
        for (express, passed) in [(false, 2), (true, 3)] {
            let mut bench = Bench::new(2, express);
            for _ in 0..5 {
                bench.deliver(60, 0);
            }
            let held: Vec<_> = std::iter::from_fn(|| bench.take(1)).collect();
            assert_eq!(held.len(), passed);
            assert_eq!((bench.counters.over_quota, bench.posted), (5 - passed as u64, 0));
            assert_eq!(bench.umem.audit(), Ok(()));
        }
    }
}
