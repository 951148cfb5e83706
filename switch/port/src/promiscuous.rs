//! Promiscuous mode that ends with its holder: the kernel counts who asks for it, and forgets with the socket.

use rustix::{
    io,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
};
use std::{
    mem,
    os::fd::{AsRawFd, OwnedFd},
};

/// Asks the interface to take all frames as long as the socket lives. It is bound to no protocol and receives nothing.
pub(crate) fn hold(index: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the kernel reads `size_of::<packet_mreq>()` octets of a packet_mreq that lives through the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            mem::size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(io::Errno::INVAL));
    }
    Ok(socket)
}
