//! Raw sockets on one interface (packet(7)): for one EtherType, which PTP over Ethernet needs, and as a tap on what
//! passes to and from one UDP port.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
};

/// Opens a packet socket on the interface with this index, in the calling thread's network namespace. What is sent
/// begins with the Ethernet header; so does what is received.
///
/// With an `ethertype` (host order) the socket receives the frames of that type, and only those that arrived: what
/// the machine itself sends does not come back. With `None` it only sends. `groups` are multicast addresses that the
/// interface shall let in. Needs CAP_NET_RAW.
///
/// # Errors
/// The system's: EPERM without the capability, ENODEV where no interface has this index, ENETDOWN later on receiving
/// where it is down.
pub fn open(index: u32, ethertype: Option<u16>, groups: &[[u8; 6]]) -> io::Result<OwnedFd> {
    // Without a protocol at first: a socket made with one receives from every interface until it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let ifindex = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    for group in groups {
        let mut address = [0; 8];
        address[..6].copy_from_slice(group);
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
    bind(&socket, index, ethertype.unwrap_or(0))?;
    Ok(socket)
}

/// Opens a tap on the interface with this index, in the calling thread's network namespace: a copy of every UDP datagram
/// from or to `port` that arrives there or is sent there, without IPv6 extension headers or VLAN tags. Frames begin with
/// the Ethernet header. What arrives is copied before tc sees it, what is sent after; fragments are not copied. Needs
/// CAP_NET_RAW.
///
/// # Errors
/// As [`open`].
pub fn tap(index: u32, port: u16) -> io::Result<OwnedFd> {
    let socket = open(index, None, &[])?;
    let filter = udp_port(port);
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `socket` is open; the pointer and length are those of `program`, whose own pointer and length are those of
    // `filter`. Both live through the call; the kernel copies the instructions and writes none.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            mem::size_of_val(&program) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // Only now, so that nothing comes that the filter has not seen.
    bind(&socket, index, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// A classic BPF program (Documentation/networking/filter.rst) that takes unfragmented UDP datagrams from or to a port.
fn udp_port(port: u16) -> Vec<libc::sock_filter> {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
    };
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, jump) = (
        |size, at| step(BPF_LD | size | BPF_ABS, 0, 0, at),
        |k, jt, jf| step(BPF_JMP | BPF_JEQ | BPF_K, jt, jf, k),
    );
    let udp = libc::IPPROTO_UDP as u32;
    vec![
        load(BPF_H, 12),
        jump(libc::ETH_P_IP as u32, 0, 9),
        // IPv4: protocol, no fragment, ports behind the options.
        load(BPF_B, 23),
        jump(udp, 0, 15),
        load(BPF_H, 20),
        step(BPF_JMP | BPF_JSET | BPF_K, 13, 0, 0x3FFF),
        step(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14),
        step(BPF_LD | BPF_H | BPF_IND, 0, 0, 14),
        jump(port.into(), 9, 0),
        step(BPF_LD | BPF_H | BPF_IND, 0, 0, 16),
        jump(port.into(), 7, 8),
        // IPv6: next header, ports.
        jump(libc::ETH_P_IPV6 as u32, 0, 7),
        load(BPF_B, 20),
        jump(udp, 0, 5),
        load(BPF_H, 54),
        jump(port.into(), 2, 0),
        load(BPF_H, 56),
        jump(port.into(), 0, 1),
        step(BPF_RET | BPF_K, 0, 0, u32::MAX),
        step(BPF_RET | BPF_K, 0, 0, 0),
    ]
}

/// Binds to an interface and an EtherType (host order), 0 for none.
fn bind(socket: &OwnedFd, index: u32, ethertype: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?,
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
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_told() {
        let error = open(u32::MAX, None, &[]).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }
}
