//! The Ethernet header and up to two VLAN tags (802.1Q clause 9: 0x8100 and 0x88A8, in any mix).

use crate::window::{Window, seen};
use crate::{Class, Flags};

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86DD;
/// PTP over Ethernet, IEEE 1588-2019 annex E.
pub(crate) const ETHERTYPE_PTP: u16 = 0x88F7;

const TPID_C: u16 = 0x8100;
const TPID_S: u16 = 0x88A8;
const HEADER: u32 = 14;
const TAG: u32 = 4;
/// A frame with more tags is other traffic to a switch that knows at most a provider's and a customer's.
const MAX_TAGS: u32 = 2;

/// Fills in EtherType, outer tag, priority and `l3`; false where nothing behind them can be read.
#[inline(always)]
pub(crate) fn read(window: Window<'_>, len: u32, class: &mut Class) -> bool {
    let seen = seen(len);
    if seen < HEADER {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return false;
    }
    let mut ethertype = window.be16(HEADER - 2);
    let mut next = HEADER;
    let mut tags = 0;
    while tags < MAX_TAGS && (ethertype == TPID_C || ethertype == TPID_S) {
        if next + TAG > seen {
            class.flags = class.flags.with(Flags::TRUNCATED);
            class.ethertype = ethertype;
            class.l3 = next as u8;
            return false;
        }
        if tags == 0 {
            class.tci = window.be16(next);
            class.priority = (class.tci >> 13) as u8;
            class.flags = class.flags.with(Flags::TAGGED);
        }
        ethertype = window.be16(next + 2);
        next += TAG;
        tags += 1;
    }
    class.ethertype = ethertype;
    class.l3 = next as u8;
    true
}
