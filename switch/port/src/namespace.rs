//! Network namespaces held by a file descriptor.
//!
//! A namespace made here has no name and no mount: it lives as long as a descriptor, a process or a socket refers to
//! it, so that nothing is left when the process ends, `kill -9` included. Others reach it through
//! `/proc/PID/fd/N` ([`Namespace::from_path`]).

use crate::netlink::{Netlink, NetlinkError};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{fs, io, thread};

/// Why a namespace could not be made, opened or entered.
#[derive(Debug, thiserror::Error)]
#[error("network namespace {place}: {call}: {source}; {remedy}")]
pub struct NamespaceError {
    /// Which one: what was being done, or its path.
    pub place: String,
    /// The system call.
    pub call: &'static str,
    /// Its errno.
    pub source: io::Error,
    /// What to do about it.
    pub remedy: &'static str,
}

/// A network namespace. Clones share the descriptor; the namespace goes with the last reference of the system's.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes a namespace with `lo` up. The calling thread stays where it is. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// `unshare(2)` or netlink refused: capability missing, or /proc/sys/user/max_net_namespaces reached.
    pub fn new() -> Result<Self, NamespaceError> {
        apart("new", || {
            // SAFETY: CLONE_NEWNET gives this thread, which ends right after, another network namespace. It does not
            // touch the file table (CLONE_FILES), which is what makes unshare unsafe.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|e| error("new", "unshare(CLONE_NEWNET)", e.into()))?;
            let namespace = Self::current()?;
            raise_loopback().map_err(|e| error("new", "raise lo", io::Error::other(e.to_string())))?;
            Ok(namespace)
        })?
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Self, NamespaceError> {
        Self::from_path("/proc/thread-self/ns/net")
    }

    /// Opens a namespace by a path that stands for one: `/proc/PID/ns/net`, `/proc/PID/fd/N`, `/run/netns/NAME`.
    ///
    /// # Errors
    /// The path does not exist, is not to be opened by this user, or is no network namespace (`setns` tells that
    /// later, with EINVAL).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, NamespaceError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|e| error(path.to_string_lossy().into_owned(), "open", e))?;
        Ok(Self { fd: Arc::new(file.into()) })
    }

    /// Runs `work` on a thread of its own inside the namespace and waits for it. Sockets that it opens and returns
    /// stay in the namespace. A child started inside must not ask for a death signal of its parent, which is that
    /// short-lived thread: start children with [`Namespace::enter_command`].
    ///
    /// # Errors
    /// The namespace could not be entered (CAP_SYS_ADMIN). A panic of `work` is passed on.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        apart("run_in", || {
            enter(self.as_fd()).map_err(|e| error("run_in", "setns", e))?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into the namespace, for good: for a process that is about to become another program.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN is missing, or the descriptor is no network namespace.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        enter(self.as_fd()).map_err(|e| error("enter", "setns", e))
    }

    /// Makes `command` start inside the namespace and be killed (SIGKILL) when the thread that spawns it ends: spawn
    /// from a thread that lives as long as the child shall.
    pub fn enter_command<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let namespace = self.clone();
        let parent = rustix::process::getpid();
        // SAFETY: the closure runs between fork and exec and only makes system calls (setns, prctl, getppid): it
        // allocates nothing, takes no lock, and `io::Error` from an errno holds no memory.
        unsafe {
            command.pre_exec(move || {
                enter(namespace.as_fd())?;
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have ended before the signal was asked for.
                if rustix::process::getppid() != Some(parent) {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            })
        }
    }

    /// Sets `/proc/sys/net/KEY` of this namespace, `key` with slashes: `ipv6/conf/default/accept_dad`. `false` where
    /// the kernel has no such key (IPv6 switched off, for one).
    ///
    /// # Errors
    /// /proc/sys is read-only (an unprivileged container), or the value is refused.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<bool, NamespaceError> {
        let path = format!("/proc/sys/net/{key}");
        let written = self.run_in(|| fs::write(&path, value))?;
        match written {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(NamespaceError {
                place: path,
                call: "write",
                source: e,
                remedy: "mount /proc/sys writable (docker: --privileged)",
            }),
        }
    }

    /// Device and inode of the namespace: equal for two descriptors of the same one.
    ///
    /// # Errors
    /// `fstat(2)` failed.
    pub fn id(&self) -> Result<(u64, u64), NamespaceError> {
        let stat = rustix::fs::fstat(&*self.fd).map_err(|e| error("id", "fstat", e.into()))?;
        Ok((stat.st_dev, stat.st_ino))
    }
}

/// Gives the calling thread a mount namespace of its own, and with it a working directory and umask of its own
/// (unshare(2), CLONE_NEWNS): for a process that is about to become another program. Mounts still propagate to and from
/// the old one until the caller says otherwise. Needs CAP_SYS_ADMIN.
///
/// # Errors
/// `unshare(2)` refused: capability missing, or /proc/sys/user/max_mnt_namespaces reached.
pub fn own_mounts() -> Result<(), NamespaceError> {
    // SAFETY: CLONE_NEWNS (which implies CLONE_FS) gives this thread other mounts, working directory and umask. It does
    // not touch the file table (CLONE_FILES), which is what makes unshare unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|e| error("own mounts", "unshare(CLONE_NEWNS)", e.into()))
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

fn enter(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))?)
}

/// Runs `work` on a thread that ends with it: a namespace belongs to a thread.
fn apart<T: Send>(place: &str, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)
            .map_err(|e| error(place, "clone", e))?;
        match thread.join() {
            Ok(value) => Ok(value),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn raise_loopback() -> Result<(), NetlinkError> {
    let mut netlink = Netlink::open()?;
    let lo = netlink.link("lo")?;
    netlink.set_up(&lo, true)
}

fn error(place: impl Into<String>, call: &'static str, source: io::Error) -> NamespaceError {
    let remedy = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root, or with CAP_SYS_ADMIN",
        Some(libc::ENOSPC | libc::EUSERS) => "raise /proc/sys/user/max_net_namespaces",
        Some(libc::ENOENT) => "the process or name that held it is gone, or /proc is not mounted",
        Some(libc::EINVAL) => {
            "the path must stand for a network namespace, and the kernel must have CONFIG_NET_NS"
        }
        Some(libc::EAGAIN | libc::ENOMEM) => "free memory, or raise the limit of threads",
        _ => "see `man 7 network_namespaces`",
    };
    NamespaceError { place: place.into(), call, source, remedy }
}
