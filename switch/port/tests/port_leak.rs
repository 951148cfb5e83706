//! Opening and closing leaves nothing behind. A file of its own, since it counts the process's descriptors. Needs root.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, descriptors, small, umem};
use plimsoll_port::netlink::{Netlink, XdpMode};

#[test]
fn twenty_times_opened_and_closed_leaves_nothing() {
    let bench = Bench::new();
    let mut netlink = Netlink::open_in(&bench.switch).unwrap();
    let options = small();
    let mut umem = umem(&options, 1, 1);
    let before = descriptors();
    for _ in 0..20 {
        let port = bench.open(&mut umem, "pa", &options).unwrap();
        let link = netlink.link("pa").unwrap();
        let xdp = link.xdp.unwrap();
        assert_eq!((xdp.mode, xdp.program), (XdpMode::Native, port.describe().program_id));
        assert_eq!(link.promiscuity, 1);
        let tally = umem.tally([&port]);
        assert!(tally.is_whole(), "{tally:?}");
        // The host itself may already have sent something.
        assert_eq!(tally.fill + tally.kernel + tally.rx, u64::from(options.posted_per_queue()));
        port.close(&mut umem);
        let tally = umem.tally([]);
        assert_eq!((tally.free, tally.withdrawn), (tally.total, 0));
        let link = netlink.link("pa").unwrap();
        assert_eq!((link.xdp, link.promiscuity), (None, 0));
    }
    assert_eq!(descriptors(), before);
}
