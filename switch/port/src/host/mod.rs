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
    apply(&changes, place, &link, options, &mut netlink)?;
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

/// All changes or, where one fails, none of them, nor a part of that one.
fn apply(
    changes: &[Change],
    place: Place<'_>,
    link: &Link,
    options: &HostOptions,
    netlink: &mut Netlink,
) -> Result<(), PortError> {
    for (number, change) in changes.iter().enumerate() {
        if let Err(error) = change.apply(place, link, options, netlink) {
            for change in changes[..=number].iter().rev() {
                change.undo(place, link, netlink);
            }
            return Err(error);
        }
    }
    Ok(())
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

    /// Back to what was there before, of whatever was done; what the kernel refuses now cannot be helped.
    fn undo(&self, place: Place<'_>, link: &Link, netlink: &mut Netlink) {
        let link = netlink.link_at(link.index).unwrap_or_else(|_| link.clone());
        let Ok(now) = point::ours(place, &link, self.program) else { return };
        let among = |points: &[Point], point: &Point| points.iter().any(|other| other.id() == point.id());
        let mut missing = self.there.iter().filter(|old| !among(&now, old));
        for new in now.iter().filter(|new| !among(&self.there, new)) {
            drop(match missing.next() {
                Some(old) => new.replace(place, &link, old.fd(), old.choice(), netlink),
                None => new.detach(place, &link, netlink),
            });
        }
        for old in missing {
            drop(point::attach(place, &link, self.program, old.fd(), old.choice(), netlink));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::netlink::VethEnd;

    fn ids(place: Place<'_>, link: &Link, program: Program) -> Vec<u32> {
        point::ours(place, link, program).unwrap().iter().map(Point::id).collect()
    }

    /// Two calls of `attach` met, and while a third one works somebody takes the second program off: its place is not
    /// where it was any more when it is to be detached.
    #[test]
    fn a_change_that_fails_half_way_is_undone_too() {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let mut netlink = Netlink::open().unwrap();
            let ends = ["a", "b"].map(|name| VethEnd::new(name, &namespace));
            netlink.create_veth(&ends[0], &ends[1]).unwrap();
            let link = netlink.link("a").unwrap();
            let place = Place::port("a");
            let options = HostOptions::new("60us".parse().unwrap());
            let loaded = |program| Loaded::new(place, program, &options).unwrap();
            let (kept, egress) = (loaded(Program::Timestamp), Program::Egress);
            point::attach(place, &link, Program::Timestamp, kept.fd(), options.xdp, &mut netlink).unwrap();
            let old = [loaded(egress), loaded(egress)];
            for old in &old {
                point::attach(place, &link, egress, old.fd(), options.xdp, &mut netlink).unwrap();
            }
            let before = [Program::Timestamp, egress].map(|program| ids(place, &link, program));
            assert_eq!(before[1].len(), 2);
            let change = |program| Change {
                program,
                there: point::ours(place, &link, program).unwrap(),
                wanted: Some(loaded(program)),
            };
            let changes = [change(Program::Timestamp), change(egress)];
            changes[1].there[1].detach(place, &link, &mut netlink).unwrap();
            assert_eq!(ids(place, &link, egress), before[1][..1]);
            super::apply(&changes, place, &link, &options, &mut netlink).unwrap_err();
            let after = [Program::Timestamp, egress].map(|program| ids(place, &link, program));
            assert_eq!(after, before);
        };
        namespace.run_in(work).unwrap();
    }
}
