//! Hardware timestamps of an interface (Documentation/networking/timestamping.rst). Untested: this project has no interface
//! with a PTP hardware clock.

use libc::{HWTSTAMP_FILTER_PTP_V2_EVENT, HWTSTAMP_TX_ON, SIOCGHWTSTAMP, SIOCSHWTSTAMP, hwtstamp_config};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// An interface that stamps PTP event messages, on sending and receiving, by its own clock. What it did before is set again
/// when this value goes; after `kill -9` it goes on as it is.
#[derive(Debug)]
pub struct HardwareTimestamps {
    socket: OwnedFd,
    interface: String,
    before: hwtstamp_config,
}

impl HardwareTimestamps {
    /// Asks an interface of the calling thread's network namespace for them. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// EOPNOTSUPP where it has none, ERANGE where it cannot stamp PTP version 2 event messages, EPERM, ENODEV.
    pub fn enable(interface: &str) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut before = hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
        request(&socket, interface, SIOCGHWTSTAMP, &mut before)?;
        // The driver may answer with a filter that takes more.
        let mut wanted = hwtstamp_config {
            flags: 0,
            tx_type: HWTSTAMP_TX_ON.cast_signed(),
            rx_filter: HWTSTAMP_FILTER_PTP_V2_EVENT.cast_signed(),
        };
        request(&socket, interface, SIOCSHWTSTAMP, &mut wanted)?;
        Ok(Self { socket, interface: interface.to_owned(), before })
    }
}

impl Drop for HardwareTimestamps {
    fn drop(&mut self) {
        // An interface that went away needs nothing.
        let _ = request(&self.socket, &self.interface, SIOCSHWTSTAMP, &mut self.before);
    }
}

/// One ioctl about an interface's timestamps.
fn request(
    socket: &OwnedFd,
    interface: &str,
    number: libc::c_ulong,
    config: &mut hwtstamp_config,
) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    // The last one stays 0.
    if interface.len() >= name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    let data = libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut *config).cast() };
    let mut request = libc::ifreq { ifr_name: name, ifr_ifru: data };
    // SAFETY: `socket` is open; `request` is an ifreq with a terminated name, and its data points to a hwtstamp_config;
    // both live through the call, which reads and writes no more than these.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_a_clock_of_its_own_is_told() {
        let error = |name: &str| HardwareTimestamps::enable(name).unwrap_err().raw_os_error();
        assert!(matches!(error("lo"), Some(libc::EOPNOTSUPP | libc::EPERM)), "{:?}", error("lo"));
        assert_eq!(error("nosuch0"), Some(libc::ENODEV));
        assert_eq!(error("a-name-that-no-interface-can-have"), Some(libc::ENODEV));
    }
}
