//! What the kernel counts of a port, readable from any thread: its sockets' losses, the program's map, the device.
//!
//! Reading takes netlink exchanges and map look-ups, tens to hundreds of microseconds that no frame should wait for. So
//! the worker hands out a [`Reading`], and whoever wants the counters completes it.

use super::PortCounters;
use crate::{netlink::Netlink, program::Counts, xsk};
use plimsoll_classify::Count;
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

/// The kernel's side of one open port.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Bulk and express socket of each queue.
    sockets: Vec<[Arc<OwnedFd>; 2]>,
    counts: Counts,
    /// In the port's namespace.
    netlink: Mutex<Netlink>,
    index: u32,
    lost_before_open: Option<u64>,
    /// What the program dropped between attaching and the moment when all queues had their sockets.
    counts_before_open: [u64; Count::ALL.len()],
}

impl Kernel {
    /// Of a port whose queues have just got their sockets: what was lost before is not the port's.
    pub(super) fn new(
        sockets: Vec<[Arc<OwnedFd>; 2]>,
        counts: Counts,
        netlink: Netlink,
        index: u32,
        lost_before_open: Option<u64>,
    ) -> Self {
        let mut counts_before_open = [0; Count::ALL.len()];
        let now = counts.read();
        for count in Count::ALL.into_iter().filter(|count| count.is_drop()) {
            counts_before_open[count as usize] = now[count as usize];
        }
        let netlink = Mutex::new(netlink);
        Self { sockets, counts, netlink, index, lost_before_open, counts_before_open }
    }

    /// Adds what sockets and program counted.
    fn add_to(&self, counters: &mut PortCounters) {
        for sockets in &self.sockets {
            Self::add_sockets(sockets, counters);
        }
        let program = self.counts.read();
        for count in Count::ALL {
            let value = program[count as usize].saturating_sub(self.counts_before_open[count as usize]);
            match count {
                Count::Bulk | Count::ExpressAsBulk => counters.xdp_bulk += value,
                Count::Express => counters.xdp_express += value,
                _ => counters.xdp_dropped += value,
            }
        }
    }

    /// Frames that the device has lost since the port was opened.
    fn lost(&self) -> Option<u64> {
        let mut netlink = self.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = lost_before(&mut netlink, self.index);
        lost.zip(self.lost_before_open).map(|(now, then)| now.saturating_sub(then))
    }

    /// Adds what it counted at both sockets of a queue.
    fn add_sockets([bulk, express]: &[Arc<OwnedFd>; 2], counters: &mut PortCounters) {
        let (mut dropped, mut empty) = (0, 0);
        if let Some(statistics) = xsk::statistics(bulk.as_fd()) {
            dropped += statistics.rx_dropped;
            counters.bulk_ring_full += statistics.rx_ring_full.unwrap_or(0);
            counters.tx_invalid += statistics.tx_invalid_descs;
            // The fill ring is shared: both sockets report the same number.
            empty = statistics.rx_fill_ring_empty_descs.unwrap_or(0);
        }
        if let Some(statistics) = xsk::statistics(express.as_fd()) {
            dropped += statistics.rx_dropped;
            counters.express_ring_full += statistics.rx_ring_full.unwrap_or(0);
        }
        counters.fill_ring_empty += empty;
        // The kernel counts a frame without a posted chunk in both places.
        counters.rx_dropped += dropped.saturating_sub(empty);
    }
}

/// The device's count of frames that never reached XDP, ever.
pub(super) fn lost_before(netlink: &mut Netlink, index: u32) -> Option<u64> {
    let link = netlink.link_at(index).ok()?;
    if link.kind.as_deref() == Some("veth") {
        // Its RX ring is filled by the other end, which counts what did not fit. Its own count is of what XDP dropped.
        return netlink.peer(&link).ok().map(|peer| peer.counters.tx_dropped);
    }
    Some(link.counters.rx_missed)
}

/// A port's own counters of one moment, the kernel's still to be read. As long as it is there, a port that is closed
/// meanwhile keeps its sockets.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(super) own: PortCounters,
    /// Descriptors that we made void: what they carried is counted where it was dropped.
    pub(super) voided: u64,
    pub(super) kernel: Arc<Kernel>,
}

impl Reading {
    /// Reads the kernel's (some system calls: not on the worker's thread).
    pub(crate) fn complete(self) -> PortCounters {
        let before_xdp = self.kernel.lost();
        PortCounters { before_xdp, ..self.complete_without_device() }
    }

    /// The same where the device is gone, and its count with it.
    pub(crate) fn complete_without_device(self) -> PortCounters {
        let mut counters = self.own;
        self.kernel.add_to(&mut counters);
        counters.tx_invalid = counters.tx_invalid.saturating_sub(self.voided);
        counters
    }
}
