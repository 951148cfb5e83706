//! Opening a port: one step after the other, each undone by dropping what was made. All that takes time needs no frame:
//! so it is done on another thread than the worker's where a port comes back.

use super::{
    Port,
    kernel::{Kernel, lost_before},
};
use crate::{
    Memory, Mode, PortCounters, PortDescription, PortError, PortErrorKind, PortOptions, Umem,
    error::Place,
    netlink::{Ethtool, Link, Netlink},
    program::{Counts, Program},
    promiscuous,
    rx::Queue,
    tx::TxRing,
    umem::AccountId,
    xsk::{BulkPlan, BulkSocket, ExpressSocket},
};
use plimsoll_classify::MAX_QUEUES;
use plimsoll_core::Nanos;
use std::{
    cell::Cell,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Instant,
};

/// Octets of an Ethernet header with two VLAN tags.
const HEADER_MAX: u32 = 22;
/// Entries that the kernel lets a ring have.
const RING_MAX: u32 = 1 << 20;

/// A port that lacks its frames only: attached, its sockets bound, nothing let in. Made on any thread, for loading,
/// attaching and binding take tens of milliseconds; finished on that of the frame memory. Dropping it detaches.
#[derive(Debug)]
pub struct Prepared {
    /// First, so that it is detached before the sockets close.
    program: Program,
    counts: Counts,
    queues: Vec<Queue>,
    tx: TxRing,
    netlink: Netlink,
    description: PortDescription,
    lost_before_open: Option<u64>,
    promiscuous: Option<OwnedFd>,
    /// Chunks that it needs, bulk and express frames that it may have out.
    quota: [u32; 3],
}

impl Prepared {
    /// Does everything of [`Port::open`] that takes time, in the calling thread's network namespace. `memory` is that of
    /// the [`Umem`] to be finished with.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn new(memory: Memory, interface: &str, options: &PortOptions) -> Result<Self, PortError> {
        let place = Place::port(interface);
        check(place, options)?;
        let mut netlink = Netlink::open().map_err(|e| place.netlink(&e))?;
        let link = netlink.link(interface).map_err(|e| place.netlink(&e))?;
        check_mtu(place, &link, memory.frame_max)?;
        let driver = Ethtool::open().and_then(|ethtool| ethtool.driver(interface));
        let driver = driver.map(|driver| driver.name).unwrap_or_default();

        let until = Instant::now() + options.patience;
        let mut fallbacks = Vec::new();
        let (mut program, counts) = Program::load(place, options.express_priority)?;
        let mut mode = attach(place, &mut program, &link, options.mode, until, &mut netlink, &mut fallbacks)?;
        // Some drivers change their queues with the program.
        let queues = queues(place, &link)?;
        let (receiving, tx) = sockets(
            place,
            memory.region,
            (&link, &driver),
            options,
            queues,
            until,
            &mut mode,
            &mut fallbacks,
        )?;
        for line in &fallbacks {
            tracing::info!(port = interface, "{line}");
        }
        let promiscuous = options.promiscuous.then(|| promiscuous::hold(link.index)).transpose();
        let promiscuous = promiscuous.map_err(|e| {
            place.failed(
                "PACKET_MR_PROMISC",
                e,
                "use a driver that can be promiscuous, or promiscuous = false",
            )
        })?;
        let description = PortDescription {
            interface: interface.to_owned(),
            index: link.index,
            driver,
            mode,
            fallbacks,
            queues,
            mtu: link.mtu,
            tx_metadata: tx.has_metadata(),
            program_id: program.id(),
        };
        Ok(Self {
            lost_before_open: lost_before(&mut netlink, link.index),
            program,
            counts,
            queues: receiving,
            tx,
            netlink,
            description,
            promiscuous,
            quota: [options.chunks(queues), options.held, options.express_held(queues)],
        })
    }

    /// Takes the port's chunks, posts them, and lets frames in: some system calls, no more than a millisecond.
    ///
    /// # Errors
    /// [`PortError`] of kind `Memory` where too few chunks are free. Nothing is left behind.
    pub fn finish(mut self, umem: &mut Umem) -> Result<Port, PortError> {
        let place = Place::port(&self.description.interface);
        let account = account(place, umem, self.quota, self.description.queues)?;
        let mut connected = Ok(());
        for (number, queue) in (0..).zip(&mut self.queues) {
            queue.refill(account, umem);
            let place = Place { queue: Some(number), ..place };
            connected = connected
                .and_then(|()| self.program.connect(place, number, false, queue.bulk_fd()))
                .and_then(|()| self.program.connect(place, number, true, queue.express_fd()));
        }
        let sockets = self.queues.iter().map(Queue::shared_fds).collect();
        let (index, lost) = (self.description.index, self.lost_before_open);
        let port = Port {
            program: self.program,
            queues: self.queues,
            tx: self.tx,
            account,
            now: Nanos(0),
            counters: PortCounters::default(),
            description: self.description,
            gone: Cell::new(false),
            kernel: Arc::new(Kernel::new(sockets, self.counts, self.netlink, index, lost)),
            _promiscuous: self.promiscuous,
        };
        match connected {
            Ok(()) => Ok(port),
            Err(error) => {
                port.close(umem);
                Err(error)
            }
        }
    }
}

/// RX queues of an interface before it is a port.
pub(crate) fn rx_queues(interface: &str) -> Result<u32, PortError> {
    let place = Place::port(interface);
    let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
    queues(place, &link.map_err(|e| place.netlink(&e))?)
}

fn check(place: Place<'_>, options: &PortOptions) -> Result<(), PortError> {
    let rings = [("bulk", options.bulk_ring), ("express", options.express_ring), ("TX", options.tx_ring)];
    for (name, entries) in rings {
        if !entries.is_power_of_two() || entries > RING_MAX {
            let problem = format!("{name} ring of {entries} entries");
            let remedy = "use a power of two up to 1048576, best 512 to 2048";
            return Err(place.error(PortErrorKind::Option, "options", problem, remedy));
        }
    }
    if options.express_priority > 8 {
        let problem = format!("express priority {}", options.express_priority);
        let remedy = "use 0 to 7 for a class, or 8 for sync alone";
        return Err(place.error(PortErrorKind::Option, "options", problem, remedy));
    }
    Ok(())
}

fn check_mtu(place: Place<'_>, link: &Link, frame_max: u32) -> Result<(), PortError> {
    let max = frame_max - HEADER_MAX;
    if link.mtu <= max {
        return Ok(());
    }
    let larger = if frame_max < 2048 { ", or chunks of 4096 octets (MTU to 3818)" } else { "" };
    Err(place.error(
        PortErrorKind::Mtu,
        "MTU",
        format!("{} is more than the {max} octets that a chunk of the frame memory holds", link.mtu),
        format!("use `ip link set dev {} mtu {max}` here and at the other end{larger}", place.interface),
    ))
}

/// Attaches in the best mode that was asked for and that there is; [`Mode::Native`] may yet become zero copy.
fn attach(
    place: Place<'_>,
    program: &mut Program,
    link: &Link,
    wanted: Mode,
    until: Instant,
    netlink: &mut Netlink,
    fallbacks: &mut Vec<String>,
) -> Result<Mode, PortError> {
    let first = if wanted == Mode::Generic { Mode::Generic } else { Mode::Native };
    let error = match program.attach(place, link.index, first, until, netlink) {
        Ok(()) => return Ok(if wanted == Mode::ZeroCopy { wanted } else { first }),
        Err(error) => error,
    };
    // Only a driver that cannot is a reason to do with less; what a user can mend is for the user.
    let cannot = error.is(libc::EOPNOTSUPP) || error.is(libc::EINVAL);
    if wanted != Mode::Auto || !cannot {
        return Err(error);
    }
    program.attach(place, link.index, Mode::Generic, until, netlink)?;
    fallbacks.push(format!(
        "generic instead of native XDP ({}): frames that the sender's segmentation offload merges are lost",
        error.problem
    ));
    Ok(Mode::Generic)
}

fn queues(place: Place<'_>, link: &Link) -> Result<u32, PortError> {
    let channels = Ethtool::open().and_then(|ethtool| ethtool.channels(place.interface));
    // A driver without channels has the queues that it was made with.
    let queues = channels.map_or(link.rx_queues, |channels| channels.rx).max(1);
    if queues > MAX_QUEUES {
        return Err(place.error(
            PortErrorKind::Unsupported,
            "RX queues",
            format!("{queues}, the switch takes {MAX_QUEUES}"),
            format!("use `ethtool -L {} combined {MAX_QUEUES}`", place.interface),
        ));
    }
    Ok(queues)
}

fn account(
    place: Place<'_>,
    umem: &mut Umem,
    [wanted, held, express]: [u32; 3],
    queues: u32,
) -> Result<AccountId, PortError> {
    umem.open_account(wanted, held, express).ok_or_else(|| {
        place.error(
            PortErrorKind::Memory,
            "frame memory",
            format!(
                "{wanted} chunks are needed ({queues} RX queues), {} of {} are free",
                umem.available(),
                umem.chunks()
            ),
            "make the frame memory larger, or `held` and the rings smaller",
        )
    })
}

/// Makes the sockets of all queues; only the first one sends, so that no two frames overtake each other.
#[allow(clippy::too_many_arguments)]
fn sockets(
    place: Place<'_>,
    region: (u64, u64, u32),
    (link, driver): (&Link, &str),
    options: &PortOptions,
    queues: u32,
    until: Instant,
    mode: &mut Mode,
    fallbacks: &mut Vec<String>,
) -> Result<(Vec<Queue>, TxRing), PortError> {
    let target = options.posted_per_queue();
    let mut receiving = Vec::new();
    let mut tx = None;
    for queue in 0..queues {
        let place = Place { queue: Some(queue), ..place };
        let sends = queue == 0;
        let mut plan = BulkPlan {
            region,
            fill: target.next_power_of_two(),
            rx: options.bulk_ring,
            tx: sends.then_some(options.tx_ring),
            tx_metadata: options.tx_metadata && sends,
            zero_copy: match (options.mode, *mode) {
                // Later queues do as the first did.
                (Mode::Auto, Mode::Native) => sends,
                (_, mode) => mode == Mode::ZeroCopy,
            },
            index: link.index,
            queue,
            until,
        };
        let mut bulk = BulkSocket::new(place, &plan);
        if let Err(error) = &bulk
            && plan.zero_copy
            && options.mode == Mode::Auto
            && error.kind != PortErrorKind::Busy
            && error.call == "bind"
        {
            let line = format!("copy instead of zero copy ({})", error.problem);
            // A veth has none: that is no news.
            if driver == "veth" {
                tracing::debug!(port = place.interface, "{line}");
            } else {
                fallbacks.push(line);
            }
            plan.zero_copy = false;
            bulk = BulkSocket::new(place, &plan);
        }
        let bulk = bulk?;
        if plan.zero_copy {
            *mode = Mode::ZeroCopy;
        }
        let express = ExpressSocket::new(place, bulk.fd.as_fd(), link.index, queue, options.express_ring)?;
        if let Some(ring) = bulk.tx {
            // A driver with zero copy may ignore the request without a word.
            let metadata = bulk.tx_metadata && !plan.zero_copy;
            tx = Some(TxRing::new(ring, bulk.completion, options.tx_ring, metadata, plan.zero_copy));
        }
        receiving.push(Queue::new(bulk.fd, bulk.fill, bulk.rx, express, target));
    }
    let tx =
        tx.ok_or_else(|| place.error(PortErrorKind::Other, "RX queues", "none", "use another driver"))?;
    Ok((receiving, tx))
}
