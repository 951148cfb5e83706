//! A directory for a daemon's files that exists only as long as somebody holds it: a tmpfs mounted nowhere, so that
//! nothing is left after `kill -9`. Linux 5.2, CAP_SYS_ADMIN.

use rustix::{
    fd::AsFd,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

/// The directory.
#[derive(Debug)]
pub(crate) struct Scratch(OwnedFd);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        Ok(Self(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?))
    }

    /// Its path in this process, and in a child until it executes another program.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{fs::MetadataExt, net::UnixDatagram},
        process::Command,
    };

    #[test]
    fn files_and_sockets_live_in_it_and_a_child_works_there() {
        let scratch = Scratch::new().expect("needs root: cargo test runs this through scripts/as-root");
        fs::write(scratch.path().join("file"), "said").unwrap();
        let socket = UnixDatagram::bind(scratch.path().join("socket")).unwrap();
        let output = Command::new("cat").arg("file").current_dir(scratch.path()).output().unwrap();
        assert_eq!(output.stdout, b"said");
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(b"event", scratch.path().join("socket")).unwrap();
        let mut datagram = [0; 8];
        assert_eq!(socket.recv(&mut datagram).unwrap(), 5);
        let device = fs::metadata(scratch.path()).unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.lines().any(|line| line.split(' ').nth(2) == Some(&number)), "it is mounted nowhere");
    }
}
