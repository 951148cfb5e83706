//! The XDP program of a port: loaded, attached by a link that dies with the process, and its map of sockets.

use crate::{
    Mode, PortErrorKind,
    error::{Place, PortError},
    netlink::{Netlink, NetlinkError, XdpMode},
};
use aya::{
    Ebpf, EbpfLoader,
    maps::{MapData, PerCpuArray, XskMap},
    programs::{ProgramError, Xdp, XdpMode as Flag, links::FdLink, loaded_programs, xdp::XdpError},
};
use plimsoll_classify::{
    Count, EXPRESS_PRIORITY, MAP_COUNTS, MAP_SOCKETS, PASS_BARE, PROGRAM_CLASSIFY, socket_slot,
};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

/// Built by scripts/build-ebpf from ebpf/programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../ebpf/prebuilt/plimsoll.o");

/// Largest MTU of a veth and of its peer, in octets of the network layer, with which all frames reach the switch.
///
/// Native XDP has a frame in one page: 3520 octets with Ethernet header and up to two VLAN tags. The kernel attaches the
/// program to peers of up to 3506 (tried on Linux 6.18), and then drops what with its tags is longer than 3520 octets.
pub const VETH_MTU_MAX: u32 = 3520 - 22;

/// The kernel takes a predecessor's program down within some milliseconds.
const RETRY: Duration = Duration::from_millis(2);

/// One loaded program, attached or not. Detaches on drop, and with the process.
pub(crate) struct Program {
    /// First, so that it is detached before the maps go.
    link: Option<FdLink>,
    sockets: XskMap<MapData>,
    slots: Vec<u32>,
    ebpf: Ebpf,
    id: u32,
}

/// What the program did with its frames: its map, which outlives it.
pub(crate) struct Counts(PerCpuArray<MapData, u64>);

impl Counts {
    /// Frames by [`Count`].
    pub(crate) fn read(&self) -> [u64; Count::ALL.len()] {
        let mut counts = [0; Count::ALL.len()];
        for (index, total) in (0..).zip(&mut counts) {
            if let Ok(values) = self.0.get(&index, 0) {
                *total = values.iter().sum();
            }
        }
        counts
    }
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("id", &self.id).field("attached", &self.link.is_some()).finish()
    }
}

impl Program {
    /// Loads the program; frames of class `express_priority` and higher are express beside sync.
    pub(crate) fn load(place: Place<'_>, express_priority: u8) -> Result<(Self, Counts), PortError> {
        // Frames of drivers that carry no metadata come all the same and are classified natively: posted chunks hold
        // no older frame's metadata.
        let mut ebpf = EbpfLoader::new()
            .override_global(PASS_BARE, &1_u32, true)
            .override_global(EXPRESS_PRIORITY, &u32::from(express_priority), true)
            .load(OBJECT)
            .map_err(|e| load_error(place, &e))?;
        let program: &mut Xdp = ebpf
            .program_mut(PROGRAM_CLASSIFY)
            .ok_or_else(|| damaged(place, "program"))?
            .try_into()
            .map_err(|_| damaged(place, "program type"))?;
        program.load().map_err(|e| load_error(place, &e))?;
        let id = program.info().map_err(|e| load_error(place, &e))?.id();
        let sockets = ebpf.take_map(MAP_SOCKETS).ok_or_else(|| damaged(place, "map of sockets"))?;
        let counts = ebpf.take_map(MAP_COUNTS).ok_or_else(|| damaged(place, "map of counts"))?;
        let counts = counts.try_into().map_err(|_| damaged(place, "type of the map of counts"))?;
        let program = Self {
            link: None,
            sockets: sockets.try_into().map_err(|_| damaged(place, "type of the map of sockets"))?,
            slots: Vec::new(),
            ebpf,
            id,
        };
        Ok((program, Counts(counts)))
    }

    /// The kernel's id of the program.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Attaches it in `mode` (native or generic), trying again while the kernel still takes a predecessor down.
    pub(crate) fn attach(
        &mut self,
        place: Place<'_>,
        index: u32,
        mode: Mode,
        until: Instant,
        netlink: &mut Netlink,
    ) -> Result<(), PortError> {
        let flag = if mode == Mode::Generic { Flag::Skb } else { Flag::Driver };
        loop {
            let program: &mut Xdp = self
                .ebpf
                .program_mut(PROGRAM_CLASSIFY)
                .ok_or_else(|| damaged(place, "program"))?
                .try_into()
                .map_err(|_| damaged(place, "program type"))?;
            let error = match program.attach_to_if_index(index, flag) {
                Ok(id) => {
                    let link = program.take_link(id).map_err(|e| load_error(place, &e))?;
                    // A link without a descriptor would stay after a kill; it is detached here.
                    self.link = Some(FdLink::try_from(link).map_err(|_| {
                        place.error(
                            PortErrorKind::Unsupported,
                            "attach",
                            "the kernel has no links for XDP",
                            "use Linux 5.18 or newer",
                        )
                    })?);
                    return Ok(());
                }
                Err(error) => attach_error(place, mode, &error),
            };
            if error.kind != PortErrorKind::Busy {
                return Err(error);
            }
            if Instant::now() >= until {
                return Err(name_owner(error, index, netlink));
            }
            thread::sleep(RETRY);
        }
    }

    /// Takes the program off the interface.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    /// Gives a queue's socket its frames.
    pub(crate) fn connect(
        &mut self,
        place: Place<'_>,
        queue: u32,
        express: bool,
        socket: BorrowedFd<'_>,
    ) -> Result<(), PortError> {
        let slot = socket_slot(queue, express);
        self.sockets.set(slot, socket.as_raw_fd(), 0).map_err(|e| {
            let source = os_error(&e);
            place.failed("XSKMAP", source, "report it: the socket is bound and the slot is free")
        })?;
        self.slots.push(slot);
        Ok(())
    }

    /// Takes all sockets out of the map: no frame is delivered any more.
    pub(crate) fn disconnect(&mut self) {
        for slot in self.slots.drain(..) {
            let _ = self.sockets.unset(slot);
        }
    }
}

pub(crate) fn damaged(place: Place<'_>, what: &str) -> PortError {
    place.error(
        PortErrorKind::Other,
        "XDP program",
        format!("no {what} in the built object"),
        "rebuild it with scripts/build-ebpf",
    )
}

/// The errno at the bottom of an error, ENOSYS where there is none.
pub(crate) fn os_error(error: &(dyn std::error::Error + 'static)) -> io::Error {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        next = error.source();
    }
    io::Error::from_raw_os_error(libc::ENOSYS)
}

pub(crate) fn load_error(place: Place<'_>, error: &(dyn std::error::Error + 'static)) -> PortError {
    let source = os_error(error);
    let remedy = match source.raw_os_error() {
        Some(libc::ENOMEM) => {
            "free memory, or raise what limits it: the cgroup's memory.max, net.core.bpf_jit_limit, `ulimit -l` before \
             Linux 5.11"
        }
        // The kernel gives the verifier up when a signal comes.
        Some(libc::EAGAIN | libc::EINTR) => "try again: the kernel was interrupted, or short of memory",
        _ => "use Linux 5.18 or newer with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS",
    };
    let mut made = place.failed("BPF_PROG_LOAD", source, remedy);
    if !matches!(made.kind, PortErrorKind::Permission | PortErrorKind::Memory) {
        // The verifier's last words, in one line.
        let text = error.to_string();
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        made.problem = format!("{} [{}]", made.problem, last.trim());
    }
    made
}

fn attach_error(place: Place<'_>, mode: Mode, error: &ProgramError) -> PortError {
    let number = match error {
        ProgramError::XdpError(XdpError::NetlinkError(e)) => e.raw_os_error(),
        other => os_error(other).raw_os_error(),
    };
    xdp_error(place, mode == Mode::Generic, number)
}

/// The same where the program was attached by netlink.
pub(crate) fn attach_xdp_error(place: Place<'_>, mode: XdpMode, error: &NetlinkError) -> PortError {
    xdp_error(place, mode == XdpMode::Generic, error.source.raw_os_error())
}

fn xdp_error(place: Place<'_>, is_generic: bool, number: Option<i32>) -> PortError {
    let source = io::Error::from_raw_os_error(number.unwrap_or(libc::EINVAL));
    let remedy;
    let remedy = match number {
        Some(libc::EBUSY | libc::EEXIST) => "stop whoever owns it",
        Some(libc::ERANGE) => {
            remedy = format!(
                "lower the MTU of the interface and of its peer (veth: to {VETH_MTU_MAX} at most) with `ip link set dev \
                 NAME mtu N`"
            );
            &remedy
        }
        Some(libc::ENOSPC) => {
            "give it as many RX queues as its peer has TX queues, with `ethtool -L NAME rx N` here or \
             `ethtool -L PEER tx N` there, or use mode generic"
        }
        Some(libc::EOPNOTSUPP) => "use mode generic: the driver has no native XDP",
        _ if is_generic => "see the kernel's log; XDP needs CONFIG_BPF_SYSCALL",
        _ => "lower the MTU, switch LRO off (`ethtool -K NAME lro off`), or use mode generic",
    };
    let mut made = place.failed("attach XDP", source, remedy);
    if number == Some(libc::ERANGE) {
        made.kind = PortErrorKind::Mtu;
    }
    if number == Some(libc::ENOSPC) {
        made.kind = PortErrorKind::Unsupported;
    }
    made
}

/// Says whose program is in the way.
pub(crate) fn name_owner(mut error: PortError, index: u32, netlink: &mut Netlink) -> PortError {
    let Some(owner) = netlink.link_at(index).ok().and_then(|link| link.xdp) else { return error };
    let id = owner.program;
    let name = loaded_programs()
        .flatten()
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(str::to_owned))
        .unwrap_or_else(|| "?".into());
    error.problem = format!("{}: XDP program {name} (id {id}) is attached", error.problem);
    error.remedy = format!(
        "stop its owner, or detach it yourself: `bpftool link show` finds the link of prog {id} for \
         `bpftool link detach id LINK`; without a link, `ip link set dev {} xdp off`",
        error.interface
    );
    error
}
