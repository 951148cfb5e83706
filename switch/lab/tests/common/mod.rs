//! Two hosts with a cable between them: namespaces that go when the test does.

#![allow(dead_code, reason = "each test binary uses its part")]

use plimsoll_port::{
    namespace::Namespace,
    netlink::{Netlink, VethEnd},
};
use std::net::IpAddr;

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
