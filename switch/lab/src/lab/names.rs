//! Names of a lab's hosts for what is run in it: a hosts(5) file that only this process and its children see.
//!
//! It lies in a tmpfs of a mount namespace of their own, over /etc/hosts: the machine's file is not touched, and nothing
//! is left when the last of them ends, `kill -9` included.

use super::state::HostAddresses;
use plimsoll_port::namespace::own_mounts;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The file that the C library reads names from.
const HOSTS: &str = "/etc/hosts";

/// Makes the names resolve in the calling thread and in what it becomes or starts. `seat` is a directory that is there;
/// it is covered for a moment, in the thread's own mount namespace alone.
///
/// # Errors
/// A mount was refused: CAP_SYS_ADMIN is missing, a security module forbids it, or there is no /etc/hosts.
pub(super) fn resolve(hosts: &BTreeMap<String, HostAddresses>, seat: &Path) -> io::Result<()> {
    own_mounts().map_err(|e| e.source)?;
    // What the machine mounts later is still seen; what is mounted here is not seen there.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", seat, "tmpfs", flags, None)?;
    let file = seat.join("hosts");
    let bound = fs::write(&file, text(hosts))
        .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o644)))
        .and_then(|()| Ok(mount_bind(&file, HOSTS)?));
    // The file stays as long as it is bound.
    unmount(seat, UnmountFlags::DETACH)?;
    bound
}

fn text(hosts: &BTreeMap<String, HostAddresses>) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for (name, HostAddresses { v4, v6, .. }) in hosts {
        text.push_str(&format!("{v4} {name}\n{v6} {name}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_in_this_thread_alone() {
        let before = fs::read_to_string(HOSTS).expect("/etc/hosts");
        let addresses = HostAddresses {
            v4: "10.77.0.1".parse().unwrap(),
            v6: "fd77::1".parse().unwrap(),
            mac: "02:50:4c:00:00:01".into(),
        };
        let hosts = BTreeMap::from([("client".to_owned(), addresses)]);
        let seen = std::thread::spawn(move || {
            // A directory that every system has.
            resolve(&hosts, Path::new("/run")).unwrap();
            fs::read_to_string(HOSTS).unwrap()
        });
        assert!(seen.join().unwrap().ends_with("\n10.77.0.1 client\nfd77::1 client\n"));
        assert_eq!(fs::read_to_string(HOSTS).unwrap(), before);
    }
}
