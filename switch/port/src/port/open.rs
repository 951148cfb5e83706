//! Opening a port: one step after the other, each undone by dropping what was made.

use super::Port;
use crate::{
    Mode, PortCounters, PortDescription, PortError, PortErrorKind, PortOptions, Umem,
    error::Place,
    netlink::{Ethtool, Link, Netlink},
    program::Program,
    promiscuous,
    rx::Queue,
    tx::TxRing,
    umem::AccountId,
    xsk::{BulkPlan, BulkSocket, ExpressSocket},
};
use plimsoll_classify::{Count, MAX_QUEUES};
use plimsoll_core::Nanos;
use std::{
    cell::{Cell, RefCell},
    os::fd::AsFd,
    time::Instant,
};

/// Octets of an Ethernet header with two VLAN tags.
const HEADER_MAX: u32 = 22;
/// Entries that the kernel lets a ring have.
const RING_MAX: u32 = 1 << 20;

pub(super) fn open(umem: &mut Umem, interface: &str, options: &PortOptions) -> Result<Port, PortError> {
    let place = Place::port(interface);
    check(place, options)?;
    let mut netlink = Netlink::open().map_err(|e| place.netlink(&e))?;
    let link = netlink.link(interface).map_err(|e| place.netlink(&e))?;
    check_mtu(place, &link, umem)?;
    let driver = Ethtool::open().and_then(|ethtool| ethtool.driver(interface));
    let driver = driver.map(|driver| driver.name).unwrap_or_default();

    let until = Instant::now() + options.patience;
    let mut fallbacks = Vec::new();
    let mut program = Program::load(place, options.express_priority)?;
    let mut mode = attach(place, &mut program, &link, options.mode, until, &mut netlink, &mut fallbacks)?;
    // Some drivers change their queues with the program.
    let queues = queues(place, &link)?;

    let account = account(place, umem, options, queues)?;
    let made = sockets(place, umem, &link, options, queues, until, &mut mode, &mut fallbacks);
    let (mut receiving, tx) = match made {
        Ok(made) => made,
        Err(error) => {
            program.detach();
            umem.close_account(account, false);
            return Err(error);
        }
    };
    for queue in &mut receiving {
        queue.refill(account, umem);
    }
    for line in &fallbacks {
        tracing::info!(port = interface, "{line}");
    }
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
    let lost_before_open = Port::lost_before(&mut netlink, link.index);
    let mut port = Port {
        program,
        queues: receiving,
        tx,
        account,
        now: Nanos(0),
        counters: PortCounters::default(),
        description,
        gone: Cell::new(false),
        lost_before_open,
        counts_before_open: [0; Count::ALL.len()],
        netlink: RefCell::new(netlink),
        _promiscuous: None,
    };
    match connect(&mut port, place, options) {
        Ok(()) => Ok(port),
        Err(error) => {
            port.close(umem);
            Err(error)
        }
    }
}

/// RX queues of an interface before it is a port.
pub(crate) fn rx_queues(interface: &str) -> Result<u32, PortError> {
    let place = Place::port(interface);
    let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
    queues(place, &link.map_err(|e| place.netlink(&e))?)
}

/// Lets frames in.
fn connect(port: &mut Port, place: Place<'_>, options: &PortOptions) -> Result<(), PortError> {
    for (number, queue) in (0..).zip(&port.queues) {
        let place = Place { queue: Some(number), ..place };
        port.program.connect(place, number, false, queue.bulk_fd())?;
        port.program.connect(place, number, true, queue.express_fd())?;
    }
    let counts = port.program.counts();
    for count in Count::ALL.into_iter().filter(|count| count.is_drop()) {
        port.counts_before_open[count as usize] = counts[count as usize];
    }
    if options.promiscuous {
        let held = promiscuous::hold(port.description.index);
        port._promiscuous = Some(held.map_err(|e| {
            place.failed(
                "PACKET_MR_PROMISC",
                e,
                "use a driver that can be promiscuous, or promiscuous = false",
            )
        })?);
    }
    Ok(())
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

fn check_mtu(place: Place<'_>, link: &Link, umem: &Umem) -> Result<(), PortError> {
    let max = umem.frame_max() - HEADER_MAX;
    if link.mtu <= max {
        return Ok(());
    }
    let larger = if umem.frame_max() < 2048 { ", or chunks of 4096 octets (MTU to 3818)" } else { "" };
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
    options: &PortOptions,
    queues: u32,
) -> Result<AccountId, PortError> {
    let wanted = options.chunks(queues);
    umem.open_account(wanted, options.held, options.express_held(queues)).ok_or_else(|| {
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
    umem: &Umem,
    link: &Link,
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
            region: umem.region(),
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
            fallbacks.push(format!("copy instead of zero copy ({})", error.problem));
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
