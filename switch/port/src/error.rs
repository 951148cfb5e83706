//! What can go wrong with a port, in one line: interface, queue, call, errno, remedy.

use crate::netlink::NetlinkError;
use rustix::thread::{CapabilitySet, capabilities};
use std::{fmt, io};

/// What kind of failure it was, for whoever decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortErrorKind {
    /// No such interface (now): it may come back by its name.
    Absent,
    /// Another XDP program or socket owns the interface or queue.
    Busy,
    /// The process lacks a capability.
    Permission,
    /// The MTU (own or peer's) is larger than a chunk or the driver takes.
    Mtu,
    /// The driver cannot do what was asked for.
    Unsupported,
    /// Not enough memory, locked memory or chunks.
    Memory,
    /// An option has no valid value.
    Option,
    /// Anything else.
    Other,
}

/// A port or its memory that cannot be made.
#[derive(Debug, thiserror::Error)]
pub struct PortError {
    /// What kind of failure it was.
    pub kind: PortErrorKind,
    /// The interface; empty where the failure is not one interface's.
    pub interface: String,
    /// The RX queue, where the failure is one queue's.
    pub queue: Option<u32>,
    /// The system call or step that failed.
    pub call: &'static str,
    /// What the kernel answered, or what is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
    /// The system's error, where there is one.
    #[source]
    pub source: Option<io::Error>,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.interface.is_empty() {
            write!(f, "port {}", self.interface)?;
            if let Some(queue) = self.queue {
                write!(f, " queue {queue}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}: {}; {}", self.call, self.problem, self.remedy)
    }
}

impl PortError {
    pub(crate) fn is(&self, errno: i32) -> bool {
        self.source.as_ref().and_then(io::Error::raw_os_error) == Some(errno)
    }
}

/// Where in a port something is done: makes errors that say so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) interface: &'a str,
    pub(crate) queue: Option<u32>,
}

impl<'a> Place<'a> {
    pub(crate) const fn port(interface: &'a str) -> Self {
        Self { interface, queue: None }
    }

    /// A failure that is no system call's.
    pub(crate) fn error(
        self,
        kind: PortErrorKind,
        call: &'static str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> PortError {
        PortError {
            kind,
            interface: self.interface.to_owned(),
            queue: self.queue,
            call,
            problem: problem.into(),
            remedy: remedy.into(),
            source: None,
        }
    }

    /// A system call's failure; `remedy` where the errno alone does not tell one.
    pub(crate) fn failed(self, call: &'static str, source: impl Into<io::Error>, remedy: &str) -> PortError {
        let source = source.into();
        let (kind, general) = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => (PortErrorKind::Permission, Some(missing_capabilities())),
            Some(libc::ENODEV | libc::ENXIO) => {
                (PortErrorKind::Absent, Some("create the interface, or check its name and namespace".into()))
            }
            Some(libc::EBUSY | libc::EEXIST) => (PortErrorKind::Busy, None),
            Some(libc::EMFILE) => {
                let limit = "raise the limit of open files (`ulimit -n`, LimitNOFILE= of a service)";
                (PortErrorKind::Memory, Some(limit.into()))
            }
            Some(libc::ENFILE) => (
                PortErrorKind::Memory,
                Some("raise the system's limit of open files (sysctl fs.file-max)".into()),
            ),
            Some(libc::ENOMEM | libc::ENOBUFS) => (PortErrorKind::Memory, None),
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT) => {
                (PortErrorKind::Unsupported, None)
            }
            _ => (PortErrorKind::Other, None),
        };
        let remedy = match general {
            Some(general) => general,
            None => remedy.to_owned(),
        };
        PortError {
            source: Some(io::Error::from_raw_os_error(source.raw_os_error().unwrap_or(0))),
            ..self.error(kind, call, errno_text(&source), remedy)
        }
    }

    /// A netlink request's failure.
    pub(crate) fn netlink(self, e: &NetlinkError) -> PortError {
        let absent = e.is_absent();
        let mut error = self.failed(
            e.call,
            io::Error::from_raw_os_error(e.source.raw_os_error().unwrap_or(0)),
            &e.remedy,
        );
        if absent {
            error.kind = PortErrorKind::Absent;
        }
        if let Some(kernel) = &e.kernel {
            error.problem = format!("{} ({kernel})", error.problem);
        }
        error
    }
}

/// `Device or resource busy (EBUSY)`: the words and the name, for searching either.
fn errno_text(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return error.to_string() };
    let words = error.to_string();
    let words = words.split(" (os error").next().unwrap_or(&words).to_owned();
    match errno_name(number) {
        Some(name) => format!("{words} ({name})"),
        None => format!("{words} (errno {number})"),
    }
}

/// Names of the errors that the calls of this crate give.
const fn errno_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ENXIO => "ENXIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
        libc::ENOSYS => "ENOSYS",
        libc::E2BIG => "E2BIG",
        libc::ENOSPC => "ENOSPC",
        libc::ERANGE => "ERANGE",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENOBUFS => "ENOBUFS",
        _ => return None,
    })
}

/// Which of the capabilities that a port needs this thread has not.
fn missing_capabilities() -> String {
    let Ok(sets) = capabilities(None) else { return "run as root".into() };
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    remedy_of(sets.effective, map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// What a process with these capabilities lacks; `initial`: in the initial user namespace.
fn remedy_of(effective: CapabilitySet, initial: bool) -> String {
    let has = |wanted| effective.intersects(wanted);
    let mut missing = Vec::new();
    if !has(CapabilitySet::NET_ADMIN) {
        missing.push("CAP_NET_ADMIN");
    }
    if !has(CapabilitySet::NET_RAW) {
        missing.push("CAP_NET_RAW");
    }
    // The kernel takes CAP_SYS_ADMIN for it.
    if !has(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN) {
        missing.push("CAP_BPF");
    }
    if missing.is_empty() {
        if !initial {
            return "run it in the initial user namespace (rootless containers cannot load XDP programs)"
                .into();
        }
        if has(CapabilitySet::SYS_ADMIN) {
            return "look whether a security module (AppArmor, SELinux, lockdown) or seccomp forbids it"
                .into();
        }
        // Loading a program with pointers and finding one by its id.
        missing.push("CAP_SYS_ADMIN");
    }
    let docker: String = missing.iter().map(|name| format!(" --cap-add {}", &name[4..])).collect();
    format!("run as root, or with {} (docker:{docker})", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_is_named() {
        let (net, bpf) = (CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW, CapabilitySet::BPF);
        let told = |effective, initial| remedy_of(effective, initial);
        assert!(told(CapabilitySet::empty(), true).contains("with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF ("));
        assert!(told(net | bpf, true).contains("with CAP_SYS_ADMIN ("));
        let all = net | CapabilitySet::SYS_ADMIN;
        assert!(told(all.difference(CapabilitySet::NET_ADMIN), true).contains("with CAP_NET_ADMIN ("));
        assert!(told(all, false).contains("initial user namespace"));
        assert!(told(all, true).contains("security module"));
    }

    #[test]
    fn an_error_is_one_line_with_place_call_errno_and_remedy() {
        let place = Place { interface: "v0", queue: Some(3) };
        let error =
            place.failed("bind", io::Error::from_raw_os_error(libc::EBUSY), "stop whoever owns the queue");
        assert_eq!(
            error.to_string(),
            "port v0 queue 3: bind: Device or resource busy (EBUSY); stop whoever owns the queue"
        );
        assert_eq!(error.kind, PortErrorKind::Busy);
        assert!(error.is(libc::EBUSY));
    }

    #[test]
    fn files_that_are_too_many_have_their_own_remedy() {
        let told =
            |number| Place::port("v0").failed("bpf", io::Error::from_raw_os_error(number), "use another");
        assert!(
            told(libc::EMFILE).to_string().contains("(EMFILE); raise the limit of open files (`ulimit -n`")
        );
        assert!(told(libc::ENFILE).to_string().contains("(ENFILE); raise the system's limit"));
        assert!(told(libc::ENOMEM).to_string().ends_with("(ENOMEM); use another"));
    }

    #[test]
    fn an_absent_interface_has_its_own_kind_and_remedy() {
        let error = Place::port("v0").failed("bind", io::Error::from_raw_os_error(libc::ENODEV), "");
        assert_eq!(error.kind, PortErrorKind::Absent);
        assert!(error.to_string().starts_with("port v0: bind: No such device (ENODEV); create "));
    }
}
