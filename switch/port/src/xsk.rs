//! AF_XDP sockets: made, registered, mapped and bound.

use crate::{
    PortErrorKind,
    error::{Place, PortError},
    ring::{Consumer, Desc, Entry, Layout, Mapping, Producer},
    umem::TX_METADATA_LEN,
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt,
        xdp::{
            SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
            XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets,
            XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
        },
    },
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

/// Linux 6.11, and stable kernels that took it over: `tx_metadata_len` counts only with this flag.
const UMEM_TX_METADATA_LEN: XdpUmemRegFlags =
    XdpUmemRegFlags::from_bits_retain(libc::XDP_UMEM_TX_METADATA_LEN);
/// The kernel unbinds a predecessor's sockets within some milliseconds.
const RETRY: Duration = Duration::from_millis(2);

/// The socket that owns a queue: with fill and completion ring, an RX ring, perhaps a TX ring.
#[derive(Debug)]
pub(crate) struct BulkSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) rx: Consumer<Desc>,
    pub(crate) tx: Option<Producer<Desc>>,
    /// Whether the kernel takes TX metadata.
    pub(crate) tx_metadata: bool,
}

/// The socket beside it, with an RX ring of its own.
#[derive(Debug)]
pub(crate) struct ExpressSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) rx: Consumer<Desc>,
}

/// What a bulk socket is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkPlan {
    /// Address and octets of the frame memory, octets of a chunk.
    pub(crate) region: (u64, u64, u32),
    pub(crate) fill: u32,
    pub(crate) rx: u32,
    /// `None`: a queue that only receives.
    pub(crate) tx: Option<u32>,
    /// Whether to ask for TX metadata.
    pub(crate) tx_metadata: bool,
    pub(crate) zero_copy: bool,
    pub(crate) index: u32,
    pub(crate) queue: u32,
    /// How long to try while another socket has the queue.
    pub(crate) until: Instant,
}

impl BulkSocket {
    pub(crate) fn new(place: Place<'_>, plan: &BulkPlan) -> Result<Self, PortError> {
        let fd = socket(place)?;
        let tx_metadata = register(place, fd.as_fd(), plan)?;
        let completion = plan.tx.unwrap_or(2);
        size(place, sockopt::set_xdp_umem_fill_ring_size(&fd, plan.fill))?;
        size(place, sockopt::set_xdp_umem_completion_ring_size(&fd, completion))?;
        size(place, sockopt::set_xdp_rx_ring_size(&fd, plan.rx))?;
        if let Some(tx) = plan.tx {
            size(place, sockopt::set_xdp_tx_ring_size(&fd, tx))?;
        }
        let offsets = offsets(place, fd.as_fd())?;
        let fill = Ends { fd: fd.as_fd(), at: &offsets.fr, size: plan.fill, page: XDP_UMEM_PGOFF_FILL_RING };
        let done =
            Ends { fd: fd.as_fd(), at: &offsets.cr, size: completion, page: XDP_UMEM_PGOFF_COMPLETION_RING };
        let rx = Ends { fd: fd.as_fd(), at: &offsets.rx, size: plan.rx, page: XDP_PGOFF_RX_RING };
        let (fill, completion, rx) = (fill.producer(place)?, done.consumer(place)?, rx.consumer(place)?);
        let tx = match plan.tx {
            Some(size) => Some(
                Ends { fd: fd.as_fd(), at: &offsets.tx, size, page: XDP_PGOFF_TX_RING }.producer(place)?,
            ),
            None => None,
        };
        let copy =
            if plan.zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
        let flags = copy | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, plan.index, plan.queue);
        loop {
            match bind(&fd, &address) {
                Ok(()) => break,
                Err(Errno::BUSY) if Instant::now() < plan.until => thread::sleep(RETRY),
                Err(e) => {
                    return Err(place.failed("bind", e, bind_remedy(e)));
                }
            }
        }
        Ok(Self { fd, fill, completion, rx, tx, tx_metadata })
    }
}

impl ExpressSocket {
    /// A second socket on the queue of `bulk`, sharing its fill and completion ring.
    pub(crate) fn new(
        place: Place<'_>,
        bulk: BorrowedFd<'_>,
        index: u32,
        queue: u32,
        entries: u32,
    ) -> Result<Self, PortError> {
        let fd = socket(place)?;
        size(place, sockopt::set_xdp_rx_ring_size(&fd, entries))?;
        let offsets = offsets(place, fd.as_fd())?;
        let rx = Ends { fd: fd.as_fd(), at: &offsets.rx, size: entries, page: XDP_PGOFF_RX_RING };
        let rx = rx.consumer(place)?;
        let address = SocketAddrXdpWithSharedUmem {
            addr: SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, index, queue),
            shared_umem_fd: bulk,
        };
        bind(&fd, &address).map_err(|e| place.failed("bind (express)", e, bind_remedy(e)))?;
        Ok(Self { fd, rx })
    }
}

/// An XDP socket's own counters of losses.
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> Option<rustix::net::xdp::XdpStatistics> {
    sockopt::xdp_statistics(fd).ok()
}

fn socket(place: Place<'_>) -> Result<OwnedFd, PortError> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(|e| place.failed("socket(AF_XDP)", e, "use a kernel with CONFIG_XDP_SOCKETS"))
}

/// Registers the frame memory; whether the kernel takes TX metadata with it.
fn register(place: Place<'_>, fd: BorrowedFd<'_>, plan: &BulkPlan) -> Result<bool, PortError> {
    let (addr, len, chunk_size) = plan.region;
    let plain = XdpUmemReg {
        addr,
        len,
        chunk_size,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    if plan.tx_metadata {
        let with = XdpUmemReg { flags: UMEM_TX_METADATA_LEN, tx_metadata_len: TX_METADATA_LEN, ..plain };
        match sockopt::set_xdp_umem_reg(fd, with) {
            Ok(()) => return Ok(true),
            // An older kernel does not know the flag.
            Err(Errno::INVAL) => {}
            Err(e) => return Err(register_error(place, e, len)),
        }
    }
    sockopt::set_xdp_umem_reg(fd, plain).map_err(|e| register_error(place, e, len))?;
    Ok(false)
}

fn register_error(place: Place<'_>, e: Errno, len: u64) -> PortError {
    let mib = len.div_ceil(1 << 20);
    let remedy = match e {
        Errno::NOBUFS => format!(
            "allow {mib} MiB of locked memory for each RX queue (`ulimit -l unlimited`, systemd: \
             LimitMEMLOCK=infinity, docker: --ulimit memlock=-1) or give CAP_IPC_LOCK"
        ),
        _ => format!("free memory ({mib} MiB are needed) or use fewer chunks"),
    };
    place.failed("XDP_UMEM_REG", e, &remedy)
}

const fn bind_remedy(e: Errno) -> &'static str {
    match e {
        Errno::BUSY => "stop the program whose AF_XDP socket has the queue (`ss --xdp -e -p` names it)",
        Errno::OPNOTSUPP => "use mode native or auto: the driver has no zero copy",
        Errno::NETDOWN => "set the interface up: `ip link set dev NAME up`",
        Errno::INVAL => {
            "check that the queue exists (`ethtool -l NAME`), and that the driver takes this chunk size"
        }
        _ => "see the kernel's log",
    }
}

fn size(place: Place<'_>, done: Result<(), Errno>) -> Result<(), PortError> {
    done.map_err(|e| place.failed("ring size", e, "use smaller rings, a power of two each"))
}

fn offsets(place: Place<'_>, fd: BorrowedFd<'_>) -> Result<XdpMmapOffsets, PortError> {
    sockopt::xdp_mmap_offsets(fd).map_err(|e| place.failed("XDP_MMAP_OFFSETS", e, "use Linux 5.18 or newer"))
}

/// One ring to be mapped.
struct Ends<'a> {
    fd: BorrowedFd<'a>,
    at: &'a XdpRingOffset,
    size: u32,
    page: u64,
}

impl Ends<'_> {
    fn map<T>(&self, place: Place<'_>) -> Result<(Mapping, Layout), PortError> {
        let flags = self.at.flags.ok_or_else(|| {
            place.error(
                PortErrorKind::Unsupported,
                "XDP_MMAP_OFFSETS",
                "rings without flags",
                "use Linux 5.18 or newer",
            )
        })?;
        let layout = Layout {
            producer: self.at.producer as usize,
            consumer: self.at.consumer as usize,
            flags: flags as usize,
            entries: self.at.desc as usize,
        };
        let mapping = Mapping::new(self.fd, layout.len::<T>(self.size), self.page)
            .map_err(|e| place.failed("mmap of a ring", e, "free memory, or use smaller rings"))?;
        Ok((mapping, layout))
    }

    fn producer<T: Entry>(&self, place: Place<'_>) -> Result<Producer<T>, PortError> {
        let (mapping, layout) = self.map::<T>(place)?;
        Producer::new(mapping, layout, self.size).map_err(|e| misfit(place, &e))
    }

    fn consumer<T: Entry>(&self, place: Place<'_>) -> Result<Consumer<T>, PortError> {
        let (mapping, layout) = self.map::<T>(place)?;
        Consumer::new(mapping, layout, self.size).map_err(|e| misfit(place, &e))
    }
}

fn misfit(place: Place<'_>, e: &crate::ring::Misfit) -> PortError {
    place.error(PortErrorKind::Option, "ring", e.to_string(), "use a power of two of entries for each ring")
}
