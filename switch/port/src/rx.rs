//! One RX queue: an express ring that bulk traffic cannot fill, a bulk ring, and the fill ring they share.

use crate::{
    PortCounters, Received,
    ring::{Consumer, Desc, Producer},
    umem::{AccountId, Arrival, Umem},
    xsk::{self, ExpressSocket},
};
use plimsoll_core::Nanos;
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// One RX ring with its first frame looked at.
#[derive(Debug)]
struct RxRing {
    consumer: Consumer<Desc>,
    express: bool,
    head: Option<(Arrival, Nanos)>,
    /// In the middle of a frame of several pieces.
    jumbo: bool,
}

impl RxRing {
    fn new(consumer: Consumer<Desc>, express: bool) -> Self {
        Self { consumer, express, head: None, jumbo: false }
    }

    /// Looks at descriptors until one is a frame to be handed out; drops and counts what is none.
    fn look(&mut self, now: Nanos, mut desk: Desk<'_>) -> Option<Nanos> {
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
    express_fd: OwnedFd,
    bulk_fd: OwnedFd,
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
            express_fd: express.fd,
            bulk_fd,
        }
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
        match ring.head {
            Some((_, stamp)) => Some(stamp),
            None => ring.look(now, Desk { umem, account, posted: &mut self.posted, counters }),
        }
    }

    /// Takes the frame that [`Queue::head`] looked at.
    #[inline]
    pub(crate) fn take(
        &mut self,
        express: bool,
        umem: &mut Umem,
        counters: &mut PortCounters,
    ) -> Option<Received> {
        let ring = if express { &mut self.express } else { &mut self.bulk };
        let (arrival, stamp) = ring.head.take()?;
        ring.consumer.advance();
        let frame = umem.accept(&arrival);
        self.posted -= 1;
        counters.rx_frames += 1;
        counters.rx_bytes += u64::from(arrival.len());
        counters.rx_express += u64::from(express);
        Some(Received { frame, class: arrival.class, stamp })
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

    /// Drops everything in the rings.
    pub(crate) fn drain(&mut self, account: AccountId, umem: &mut Umem) {
        self.refresh();
        for ring in [&mut self.express, &mut self.bulk] {
            ring.head = None;
            while let Some(desc) = ring.consumer.pop() {
                if umem.reject(account, desc.addr) {
                    self.posted -= 1;
                }
            }
            ring.consumer.release();
        }
    }

    /// Where the chunks are. A chunk that moves meanwhile counts as the kernel's.
    pub(crate) fn places(&self) -> RxPlaces {
        let rx = u64::from(self.express.consumer.waiting()) + u64::from(self.bulk.consumer.waiting());
        let fill = u64::from(self.fill.unconsumed());
        RxPlaces { fill, rx, kernel: u64::from(self.posted).saturating_sub(rx + fill) }
    }

    /// Adds what the kernel counted at both sockets.
    pub(crate) fn count(&self, counters: &mut PortCounters) {
        for (fd, express) in [(self.bulk_fd(), false), (self.express_fd(), true)] {
            let Some(statistics) = xsk::statistics(fd) else { continue };
            let full = statistics.rx_ring_full.unwrap_or(0);
            if express {
                counters.express_ring_full += full;
            } else {
                counters.bulk_ring_full += full;
                counters.tx_invalid += statistics.tx_invalid_descs;
                // Fill ring and pool are shared: both sockets report the same number.
                counters.fill_ring_empty += statistics.rx_fill_ring_empty_descs.unwrap_or(0);
            }
            counters.rx_dropped += statistics.rx_dropped;
        }
    }
}
