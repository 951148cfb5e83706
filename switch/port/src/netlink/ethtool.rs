//! What a driver says of itself (SIOCETHTOOL): its name, its queues, and the offloads that a switch must know of.

use super::NetlinkError;
use crate::namespace::Namespace;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

// linux/sockios.h, linux/ethtool.h
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRXCSUM: u32 = 0x14;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GTSO: u32 = 0x1E;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2B;
const ETHTOOL_GCHANNELS: u32 = 0x3C;
const ETH_FLAG_TXVLAN: u32 = 1 << 7;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// `ethtool -i`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Driver {
    /// The driver's name: `veth`, `ixgbe`, `virtio_net`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where the device sits: `0000:01:00.0`; empty for a virtual one.
    pub bus: String,
}

/// `ethtool -l`: the queues in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Channels {
    /// RX queues: those of their own and the combined ones.
    pub rx: u32,
    /// TX queues: those of their own and the combined ones.
    pub tx: u32,
}

/// `ethtool -k`, the part that changes what a switch sees on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Offloads {
    /// The device completes transmit checksums, so that its peer may see partial ones on a veth.
    pub tx_checksum: bool,
    /// The device checks receive checksums.
    pub rx_checksum: bool,
    /// TCP segmentation offload: frames above the MTU reach the driver.
    pub tso: bool,
    /// Generic segmentation offload.
    pub gso: bool,
    /// Generic receive offload.
    pub gro: bool,
    /// Large receive offload.
    pub lro: bool,
    /// VLAN tags are taken out of received frames.
    pub rx_vlan: bool,
    /// VLAN tags travel beside the frame, not in it.
    pub tx_vlan: bool,
}

/// A handle to ask drivers of one namespace.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens a handle in the calling thread's namespace.
    ///
    /// # Errors
    /// No socket is to be had.
    pub fn open() -> Result<Self, NetlinkError> {
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map(|socket| Self { socket })
            .map_err(|e| NetlinkError::new("ethtool", "socket(AF_INET)", e.into()))
    }

    /// Opens a handle in `namespace`; the calling thread stays where it is.
    ///
    /// # Errors
    /// As [`Ethtool::open`] and [`Namespace::run_in`].
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run_in(Self::open)?
    }

    /// The driver of an interface.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), or its driver does not say (EOPNOTSUPP).
    pub fn driver(&self, interface: &str) -> Result<Driver, NetlinkError> {
        let mut info = DriverInfo {
            cmd: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            fw_version: [0; 32],
            bus_info: [0; 32],
            rest: [0; 64],
        };
        self.ask(interface, &mut info, "ETHTOOL_GDRVINFO")?;
        Ok(Driver { name: text(&info.driver), version: text(&info.version), bus: text(&info.bus_info) })
    }

    /// The queues that an interface uses now. Ask after an XDP program was attached: some drivers change them then.
    ///
    /// # Errors
    /// There is no such interface (ENODEV), or its driver has no channels (EOPNOTSUPP): count its queues instead.
    pub fn channels(&self, interface: &str) -> Result<Channels, NetlinkError> {
        let mut raw = [0_u32; 9];
        raw[0] = ETHTOOL_GCHANNELS;
        self.ask(interface, &mut raw, "ETHTOOL_GCHANNELS")?;
        // cmd; maxima of rx, tx, other, combined; counts of the same.
        let [_, _, _, _, _, rx, tx, _, combined] = raw;
        Ok(Channels { rx: rx + combined, tx: tx + combined })
    }

    /// The offloads of an interface.
    ///
    /// # Errors
    /// There is no such interface (ENODEV).
    pub fn offloads(&self, interface: &str) -> Result<Offloads, NetlinkError> {
        let flags = self.value(interface, ETHTOOL_GFLAGS, "ETHTOOL_GFLAGS")?;
        Ok(Offloads {
            tx_checksum: self.value(interface, ETHTOOL_GTXCSUM, "ETHTOOL_GTXCSUM")? != 0,
            rx_checksum: self.value(interface, ETHTOOL_GRXCSUM, "ETHTOOL_GRXCSUM")? != 0,
            tso: self.value(interface, ETHTOOL_GTSO, "ETHTOOL_GTSO")? != 0,
            gso: self.value(interface, ETHTOOL_GGSO, "ETHTOOL_GGSO")? != 0,
            gro: self.value(interface, ETHTOOL_GGRO, "ETHTOOL_GGRO")? != 0,
            lro: flags & ETH_FLAG_LRO != 0,
            rx_vlan: flags & ETH_FLAG_RXVLAN != 0,
            tx_vlan: flags & ETH_FLAG_TXVLAN != 0,
        })
    }

    fn value(&self, interface: &str, cmd: u32, call: &'static str) -> Result<u32, NetlinkError> {
        let mut raw = [cmd, 0_u32];
        self.ask(interface, &mut raw, call)?;
        Ok(raw[1])
    }

    /// One request. `Answer` is the struct of linux/ethtool.h that `call` reads and writes, plain integers throughout.
    fn ask<Answer: Plain>(
        &self,
        interface: &str,
        answer: &mut Answer,
        call: &'static str,
    ) -> Result<(), NetlinkError> {
        let place = format!("interface {interface}");
        let fail = |e| NetlinkError::new(place.as_str(), call, e);
        // SAFETY: ifreq is plain data, all zeroes is a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if interface.is_empty() || interface.len() >= request.ifr_name.len() {
            return Err(fail(io::Error::from_raw_os_error(libc::ENODEV)));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
        // SAFETY: `request` outlives the call; its data pointer is `answer`, exclusively borrowed and as large as the
        // structure that its first word (the command) makes the kernel read and write.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if done < 0 { Err(fail(io::Error::last_os_error())) } else { Ok(()) }
    }
}

/// struct ethtool_drvinfo.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    /// erom_version, reserved2, and five counts.
    rest: [u8; 64],
}

/// A structure of linux/ethtool.h: integers only, the command first.
trait Plain {}
impl Plain for DriverInfo {}
impl<const N: usize> Plain for [u32; N] {}

const _: () = assert!(size_of::<DriverInfo>() == 196);

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
