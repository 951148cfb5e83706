//! XDP programs attached by netlink: they stay until they are taken off or the link goes, whoever attached them.

use super::link::message;
use super::{Attributes, Link, Netlink, NetlinkError, XdpMode};
use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Iff, Ifla, Rtm};
use std::os::fd::{AsRawFd, BorrowedFd};

// linux/if_link.h
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_EXPECTED_FD: u16 = 8;
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1;
const XDP_FLAGS_SKB_MODE: u32 = 2;
const XDP_FLAGS_DRV_MODE: u32 = 4;
const XDP_FLAGS_REPLACE: u32 = 16;

impl Netlink {
    /// Puts the XDP program `new` (`None`: no program) in the place of `old` (`None`: of no program), in one step. Linux
    /// 5.7 and newer.
    ///
    /// # Errors
    /// Another program than `old` is there (EBUSY, EEXIST), the driver has no XDP of this kind (EOPNOTSUPP) or does not take
    /// the link's MTU (ERANGE), CAP_NET_ADMIN is missing.
    pub(crate) fn set_xdp(
        &mut self,
        link: &Link,
        mode: XdpMode,
        old: Option<BorrowedFd<'_>>,
        new: Option<BorrowedFd<'_>>,
    ) -> Result<(), NetlinkError> {
        let mode = if mode == XdpMode::Generic { XDP_FLAGS_SKB_MODE } else { XDP_FLAGS_DRV_MODE };
        let fd = new.map_or(-1, |fd| fd.as_raw_fd());
        let attributes = Attributes::new().with(IFLA_XDP_FD, fd);
        let attributes = match old {
            Some(old) => attributes
                .with(IFLA_XDP_FLAGS, mode | XDP_FLAGS_REPLACE)
                .with(IFLA_XDP_EXPECTED_FD, old.as_raw_fd()),
            None => attributes.with(IFLA_XDP_FLAGS, mode | XDP_FLAGS_UPDATE_IF_NOEXIST),
        };
        let nested = Attributes::new().with(Ifla::Xdp, attributes.done()).done();
        let request = message(link.index, Iff::empty(), Iff::empty(), nested)?;
        self.request(Rtm::Newlink, NlmF::empty(), request, &link.to_string(), "RTM_NEWLINK IFLA_XDP")
    }
}
