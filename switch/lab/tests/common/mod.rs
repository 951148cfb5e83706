//! Two hosts with a cable between them: namespaces that go when the test does.

#![allow(dead_code, reason = "each test binary uses its part")]

use plimsoll_lab::clock::message::{Body, ETHERTYPE, Message, PortIdentity};
use plimsoll_port::{
    namespace::Namespace,
    netlink::{Netlink, VethEnd},
    packet,
};
use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

/// Interface of [`Cable::one`]: 10.77.0.1, fd00:77::1.
pub(crate) const ONE: &str = "one0";
/// Interface of [`Cable::two`]: 10.77.0.2, fd00:77::2.
pub(crate) const TWO: &str = "two0";

/// Two namespaces joined by a veth pair.
pub(crate) struct Cable {
    pub(crate) one: Namespace,
    pub(crate) two: Namespace,
}

impl Cable {
    pub(crate) fn new() -> Self {
        let one =
            Namespace::new().expect("these tests need root: cargo test runs them through scripts/as-root");
        let two = Namespace::new().unwrap();
        let ends = (VethEnd::new(ONE, &one), VethEnd::new(TWO, &two));
        Netlink::open_in(&one).unwrap().create_veth(&ends.0, &ends.1).unwrap();
        for (namespace, name, last) in [(&one, ONE, 1), (&two, TWO, 2)] {
            let mut netlink = Netlink::open_in(namespace).unwrap();
            let link = netlink.link(name).unwrap();
            netlink.set_up(&link, true).unwrap();
            netlink.add_address(&link, IpAddr::from([10, 77, 0, last]), 24).unwrap();
            let v6 = IpAddr::from([0xFD00, 0x77, 0, 0, 0, 0, 0, u16::from(last)]);
            netlink.add_address(&link, v6, 64).unwrap();
        }
        Self { one, two }
    }
}

/// A host of ours that speaks PTP over Ethernet octet by octet.
pub(crate) struct Bare {
    socket: File,
    pub(crate) mac: [u8; 6],
}

impl Bare {
    pub(crate) fn open(namespace: &Namespace, interface: &str) -> Self {
        let link = Netlink::open_in(namespace).unwrap().link(interface).unwrap();
        let open = || packet::open(link.index, Some(ETHERTYPE), &[[1, 0x1B, 0x19, 0, 0, 0]]).unwrap();
        let socket = namespace.run_in(open).unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        Self { socket: socket.into(), mac: link.mac.unwrap() }
    }

    pub(crate) fn send(&mut self, message: &Message) {
        let mut frame = vec![1, 0x1B, 0x19, 0, 0, 0];
        frame.extend(self.mac);
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(message.encode());
        self.socket.write_all(&frame).unwrap();
    }

    /// A message, where one is there.
    pub(crate) fn try_receive(&mut self) -> Option<Message> {
        let mut frame = [0; 256];
        match self.socket.read(&mut frame) {
            Ok(length) => Some(Message::decode(&frame[14..length]).unwrap()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next message that `wanted` takes.
    pub(crate) fn receive<T>(&mut self, wanted: impl Fn(&Message) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match self.try_receive() {
                Some(message) => {
                    if let Some(found) = wanted(&message) {
                        return found;
                    }
                }
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no such message in 10 s");
    }
}

pub(crate) fn message(source: PortIdentity, sequence: u16, body: Body) -> Message {
    Message { domain: 0, flags: 0, correction: 0, word: 0, source, sequence, log_interval: 0x7F, body }
}
