//! Shims on a host: BPF programs by which unmodified ptp4l and chronyd profit from marks.
//!
//! The functions act on an interface of the calling thread's network namespace ([`crate::namespace::Namespace::run_in`]).
//! Programs stay when the process ends, held by the interface alone: no file system, no pin, no daemon. They go with
//! the interface, its namespace, or [`detach`].
//!
//! | file | idea |
//! |---|---|
//! | `options` | what is to be done |
//! | `object` | the built object: loading a program, reading one that is loaded |
//! | `point` | where programs are attached: XDP by netlink, tc by TCX |
//! | `report` | what is attached, and what it counted |
//!
//! Linux 6.6 and newer (TCX).

mod object;
mod options;
mod point;
mod report;

pub use options::{HostOptions, XdpChoice};
pub use report::{HostProgram, HostReport, HostSettings};

use crate::error::{Place, PortError, PortErrorKind};
use crate::netlink::{Link, Netlink};
use object::Loaded;
use plimsoll_shim::Program;
use point::Point;

/// Attaches the programs that `options` ask for, in place of those of an earlier call, and takes off those that are not
/// asked for any more. All of it, or nothing: where a step fails, those before it are undone.
///
/// # Errors
/// [`PortErrorKind::Option`] for options that make no sense, [`PortErrorKind::Absent`] where there is no such interface,
/// [`PortErrorKind::Busy`] where another's XDP program is attached, [`PortErrorKind::Permission`] without CAP_BPF and
/// CAP_NET_ADMIN, [`PortErrorKind::Unsupported`] on kernels before 6.6.
pub fn attach(interface: &str, options: &HostOptions) -> Result<HostReport, PortError> {
    let place = Place::port(interface);
    options.check(place)?;
    let mut netlink = Netlink::open().map_err(|e| place.netlink(&e))?;
    let link = netlink.link(interface).map_err(|e| place.netlink(&e))?;
    // All that can fail without a change comes first.
    let mut changes = Vec::new();
    for program in Program::ALL {
        let there = point::ours(place, &link, program)?;
        let wanted = options.wants(program).then(|| Loaded::new(place, program, options)).transpose()?;
        changes.push(Change { program, there, wanted });
    }
    if options.correction {
        point::refuse_foreign(place, &link, &mut netlink)?;
    }
    for number in 0..changes.len() {
        if let Err(error) = changes[number].apply(place, &link, options, &mut netlink) {
            for change in changes[..number].iter().rev() {
                change.undo(place, &link, options, &mut netlink);
            }
            return Err(error);
        }
    }
    report::of(place, &netlink.link(interface).map_err(|e| place.netlink(&e))?)
}

/// Takes off every program of ours, whoever attached it, and says which there were. Others' programs stay.
///
/// # Errors
/// As for [`attach`].
pub fn detach(interface: &str) -> Result<Vec<&'static str>, PortError> {
    let place = Place::port(interface);
    let mut netlink = Netlink::open().map_err(|e| place.netlink(&e))?;
    let link = netlink.link(interface).map_err(|e| place.netlink(&e))?;
    let mut gone = Vec::new();
    for program in Program::ALL {
        for point in point::ours(place, &link, program)? {
            point.detach(place, &link, &mut netlink)?;
            gone.push(program.name());
        }
    }
    Ok(gone)
}

/// What is attached to an interface (`None`: to each that has anything of ours), with settings and counters.
///
/// # Errors
/// As for [`attach`].
pub fn show(interface: Option<&str>) -> Result<Vec<HostReport>, PortError> {
    let place = Place::port(interface.unwrap_or_default());
    let mut netlink = Netlink::open().map_err(|e| place.netlink(&e))?;
    let Some(interface) = interface else {
        let links = netlink.links().map_err(|e| place.netlink(&e))?;
        let all = links.iter().map(|link| report::of(Place::port(&link.name), link));
        let gone = |error: &PortError| error.kind == PortErrorKind::Absent;
        return all
            .filter(|report| !report.as_ref().is_err_and(gone))
            .filter(|report| !report.as_ref().is_ok_and(|report| report.programs.is_empty()))
            .collect();
    };
    let link = netlink.link(interface).map_err(|e| place.netlink(&e))?;
    Ok(vec![report::of(place, &link)?])
}

/// What is to happen with one program.
struct Change {
    program: Program,
    /// Ours that are attached: one, unless two calls of [`attach`] met.
    there: Vec<Point>,
    wanted: Option<Loaded>,
}

impl Change {
    fn apply(
        &self,
        place: Place<'_>,
        link: &Link,
        options: &HostOptions,
        netlink: &mut Netlink,
    ) -> Result<(), PortError> {
        let (first, others) = match self.there.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        match (first, &self.wanted) {
            (None, None) => {}
            (None, Some(new)) => point::attach(place, link, self.program, new.fd(), options.xdp, netlink)?,
            (Some(old), Some(new)) => old.replace(place, link, new.fd(), options.xdp, netlink)?,
            (Some(old), None) => old.detach(place, link, netlink)?,
        }
        others.iter().try_for_each(|old| old.detach(place, link, netlink))
    }

    /// Back to what was there before; what the kernel refuses now cannot be helped.
    fn undo(&self, place: Place<'_>, link: &Link, options: &HostOptions, netlink: &mut Netlink) {
        let now =
            point::ours(place, &netlink.link_at(link.index).unwrap_or_else(|_| link.clone()), self.program);
        match (now.ok().and_then(|mut points| points.pop()), self.there.first()) {
            (Some(now), Some(old)) => drop(now.replace(place, link, old.fd(), old.choice(), netlink)),
            (Some(now), None) => drop(now.detach(place, link, netlink)),
            (None, Some(old)) => {
                drop(point::attach(place, link, self.program, old.fd(), options.xdp, netlink));
            }
            (None, None) => {}
        }
    }
}
