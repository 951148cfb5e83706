//! A raw socket for one EtherType on one interface (packet(7)): what PTP over Ethernet needs.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
};

/// Opens a packet socket on the interface with this index, in the calling thread's network namespace. What is sent
/// begins with the Ethernet header; so does what is received.
///
/// With an `ethertype` (host order) the socket receives the frames of that type, and only those that arrived: what
/// the machine itself sends does not come back. With `None` it only sends. `group` is a multicast address that the
/// interface shall let in. Needs CAP_NET_RAW.
///
/// # Errors
/// The system's: EPERM without the capability, ENODEV where no interface has this index, ENETDOWN later on receiving
/// where it is down.
pub fn open(index: u32, ethertype: Option<u16>, group: Option<[u8; 6]>) -> io::Result<OwnedFd> {
    // Without a protocol at first: a socket made with one receives from every interface until it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let ifindex = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    if let Some(group) = group {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&group);
        let request = libc::packet_mreq {
            mr_ifindex: ifindex,
            mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
            mr_alen: 6,
            mr_address: address,
        };
        // SAFETY: `socket` is open; the pointer and length are those of `request`, a plain value that lives through
        // the call, and the kernel copies it.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                mem::size_of_val(&request) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: ethertype.unwrap_or(0).to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `socket` is open; the pointer and length are those of `address`, a plain value that lives through the
    // call, and the kernel copies it.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let error = open(u32::MAX, None, None).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }
}
