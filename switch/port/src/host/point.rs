//! Where programs of ours are attached. Both ways hold a program by the interface alone, and change it in one step.

use super::object;
use super::options::XdpChoice;
use crate::error::{Place, PortError, PortErrorKind};
use crate::netlink::{Link, Netlink, XdpMode};
use crate::program::{attach_xdp_error, load_error, name_owner};
use aya::programs::tc::TcAttachType;
use aya::programs::{ProgramError, ProgramFd, ProgramInfo, SchedClassifier, loaded_programs};
use plimsoll_shim::Program;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

// linux/bpf.h
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_DETACH: libc::c_long = 9;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_F_REPLACE: u32 = 1 << 2;
const BPF_F_BEFORE: u32 = 1 << 3;
const BPF_F_AFTER: u32 = 1 << 4;

/// The attributes of BPF_PROG_ATTACH and BPF_PROG_DETACH, as far as TCX has them (Linux 6.6).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    target_ifindex: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
    relative_fd: u32,
    expected_revision: u64,
}

/// A program of ours where it is attached.
pub(super) struct Point {
    program: Program,
    /// Of XDP.
    mode: Option<XdpMode>,
    info: ProgramInfo,
    fd: ProgramFd,
}

/// The programs of ours of this kind on a link.
pub(super) fn ours(place: Place<'_>, link: &Link, program: Program) -> Result<Vec<Point>, PortError> {
    let (found, mode) = match tcx(program) {
        None => {
            let Some(xdp) = link.xdp else { return Ok(Vec::new()) };
            let found = loaded_programs().flatten().find(|info| info.id() == xdp.program);
            (found.into_iter().collect(), Some(xdp.mode))
        }
        Some((at, _)) => match SchedClassifier::query_tcx(&link.name, at) {
            Ok((_, found)) => (found, None),
            // Kernels without TCX have no program of ours there. Programs may go while they are looked at.
            Err(error) if matches!(errno(&error), Some(libc::EINVAL | libc::ENOENT)) => (Vec::new(), None),
            Err(error) => {
                let source = io::Error::from_raw_os_error(errno(&error).unwrap_or(libc::EINVAL));
                return Err(place.failed("BPF_PROG_QUERY", source, "use Linux 6.6 or newer"));
            }
        },
    };
    let found = found.into_iter().filter(|info| object::is(info, program));
    let points = found.map(|info| Ok(Point { program, mode, fd: info.fd()?, info }));
    points.collect::<Result<_, ProgramError>>().map_err(|e| load_error(place, &e))
}

/// # Errors
/// [`PortErrorKind::Busy`], with its name, where another's XDP program is attached.
pub(super) fn refuse_foreign(place: Place<'_>, link: &Link, netlink: &mut Netlink) -> Result<(), PortError> {
    if link.xdp.is_none() || !ours(place, link, Program::Correction)?.is_empty() {
        return Ok(());
    }
    let busy = place.failed("attach XDP", io::Error::from_raw_os_error(libc::EBUSY), "stop whoever owns it");
    Err(name_owner(busy, link.index, netlink))
}

/// Attaches a program where none of ours is: at ingress before all others', at egress behind them.
pub(super) fn attach(
    place: Place<'_>,
    link: &Link,
    program: Program,
    new: BorrowedFd<'_>,
    choice: XdpChoice,
    netlink: &mut Netlink,
) -> Result<(), PortError> {
    let Some((_, attach_type)) = tcx(program) else {
        return attach_xdp(place, link, new, choice, netlink);
    };
    let attributes = Attributes {
        attach_bpf_fd: new.as_raw_fd() as u32,
        attach_flags: if program == Program::Egress { BPF_F_AFTER } else { BPF_F_BEFORE },
        ..Attributes::of(link, attach_type)
    };
    attributes.call(place, BPF_PROG_ATTACH, "BPF_PROG_ATTACH")
}

fn attach_xdp(
    place: Place<'_>,
    link: &Link,
    new: BorrowedFd<'_>,
    choice: XdpChoice,
    netlink: &mut Netlink,
) -> Result<(), PortError> {
    let modes = modes(link, choice);
    let mut outcome = Ok(());
    for mode in modes {
        outcome = netlink.set_xdp(link, *mode, None, Some(new));
        match &outcome {
            Err(error) if error.source.raw_os_error() != Some(libc::EBUSY) => {}
            _ => break,
        }
    }
    outcome.map_err(|error| {
        let error = attach_xdp_error(place, *modes.last().unwrap_or(&XdpMode::Generic), &error);
        if error.kind == PortErrorKind::Busy { name_owner(error, link.index, netlink) } else { error }
    })
}

/// What to try, in turn.
fn modes(link: &Link, choice: XdpChoice) -> &'static [XdpMode] {
    match choice {
        XdpChoice::Native => &[XdpMode::Native],
        XdpChoice::Auto if link.kind.as_deref() != Some("veth") => &[XdpMode::Native, XdpMode::Generic],
        XdpChoice::Auto | XdpChoice::Generic => &[XdpMode::Generic],
    }
}

impl Point {
    pub(super) fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// The kernel's id of the program.
    pub(super) fn id(&self) -> u32 {
        self.info.id()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its name in tables and JSON.
    pub(super) fn name(&self) -> &'static str {
        match (self.program, self.mode) {
            (Program::Timestamp, _) => "tcx-ingress",
            (Program::Egress, _) => "tcx-egress",
            (Program::Correction, Some(XdpMode::Generic)) => "xdp-generic",
            (Program::Correction, Some(XdpMode::Offload)) => "xdp-offload",
            (Program::Correction, _) => "xdp-native",
        }
    }

    /// How to attach it again as it is.
    pub(super) fn choice(&self) -> XdpChoice {
        if self.mode == Some(XdpMode::Generic) { XdpChoice::Generic } else { XdpChoice::Native }
    }

    /// Puts another program in its place.
    pub(super) fn replace(
        &self,
        place: Place<'_>,
        link: &Link,
        new: BorrowedFd<'_>,
        choice: XdpChoice,
        netlink: &mut Netlink,
    ) -> Result<(), PortError> {
        let Some((_, attach_type)) = tcx(self.program) else {
            return match self.mode {
                Some(mode) if modes(link, choice).contains(&mode) => netlink
                    .set_xdp(link, mode, Some(self.fd()), Some(new))
                    .map_err(|e| attach_xdp_error(place, mode, &e)),
                // The kernel has one mode at a time.
                _ => {
                    self.detach(place, link, netlink)?;
                    attach_xdp(place, link, new, choice, netlink).inspect_err(|_| {
                        drop(attach_xdp(place, link, self.fd(), self.choice(), netlink));
                    })
                }
            };
        };
        let attributes = Attributes {
            attach_bpf_fd: new.as_raw_fd() as u32,
            attach_flags: BPF_F_REPLACE,
            replace_bpf_fd: self.fd.as_fd().as_raw_fd() as u32,
            ..Attributes::of(link, attach_type)
        };
        attributes.call(place, BPF_PROG_ATTACH, "BPF_PROG_ATTACH")
    }

    /// Takes it off.
    pub(super) fn detach(
        &self,
        place: Place<'_>,
        link: &Link,
        netlink: &mut Netlink,
    ) -> Result<(), PortError> {
        let Some((_, attach_type)) = tcx(self.program) else {
            let mode = self.mode.unwrap_or(XdpMode::Generic);
            let done = netlink.set_xdp(link, mode, Some(self.fd()), None);
            return done.map_err(|e| attach_xdp_error(place, mode, &e));
        };
        let attributes =
            Attributes { attach_bpf_fd: self.fd().as_raw_fd() as u32, ..Attributes::of(link, attach_type) };
        attributes.call(place, BPF_PROG_DETACH, "BPF_PROG_DETACH")
    }
}

impl Attributes {
    fn of(link: &Link, attach_type: u32) -> Self {
        Self { target_ifindex: link.index, attach_type, ..Self::default() }
    }

    fn call(&self, place: Place<'_>, command: libc::c_long, name: &'static str) -> Result<(), PortError> {
        // SAFETY: the kernel reads `size_of::<Attributes>()` octets of attributes that live through the call.
        let done =
            unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(self), size_of::<Self>()) };
        if done >= 0 {
            return Ok(());
        }
        let source = io::Error::last_os_error();
        let old_kernel = source.raw_os_error() == Some(libc::EINVAL);
        let mut error =
            place.failed(name, source, "tc programs without a qdisc (TCX) need Linux 6.6 or newer");
        if old_kernel {
            error.kind = PortErrorKind::Unsupported;
        }
        Err(error)
    }
}

/// Where a tc program belongs, for aya and for the kernel.
fn tcx(program: Program) -> Option<(TcAttachType, u32)> {
    match program {
        Program::Correction => None,
        Program::Timestamp => Some((TcAttachType::Ingress, BPF_TCX_INGRESS)),
        Program::Egress => Some((TcAttachType::Egress, BPF_TCX_EGRESS)),
    }
}

fn errno(error: &ProgramError) -> Option<i32> {
    crate::program::os_error(error).raw_os_error()
}
