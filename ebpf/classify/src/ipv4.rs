//! The IPv4 header with options, and what it says of the header behind it (RFC 791).

use crate::transport::Upper;
use crate::window::{Window, seen};
use crate::{Class, Flags, NO_PRIORITY};

const MIN_HEADER: u32 = 20;
const TOTAL_LENGTH: u32 = 2;
/// Flags and offset; more fragments and the offset are the lower 14 bits but DF.
const FRAGMENT: u32 = 6;
const MORE_OR_OFFSET: u16 = 0x3FFF;
const PROTOCOL: u32 = 9;
const SOURCE: u32 = 12;

/// Fills in flags and priority; `None` where no transport header is to be read.
#[inline(always)]
pub(crate) fn read(window: Window<'_>, len: u32, class: &mut Class) -> Option<Upper> {
    let l3 = u32::from(class.l3);
    let seen = seen(len);
    if l3 + MIN_HEADER > seen {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return None;
    }
    let first = window.octet(l3);
    let header = u32::from(first & 0x0F) * 4;
    if first >> 4 != 4 || header < MIN_HEADER {
        return None;
    }
    if l3 + header > seen {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return None;
    }
    class.flags = class.flags.with(Flags::IPV4);
    if class.priority == NO_PRIORITY {
        // The DSCP is the upper six bits of this octet, the class selector the upper three (RFC 2474).
        class.priority = window.octet(l3 + 1) >> 5;
    }
    if window.be16(l3 + FRAGMENT) & MORE_OR_OFFSET != 0 {
        class.flags = class.flags.with(Flags::FRAGMENT);
        return None;
    }
    let at = l3 + header;
    let total = u32::from(window.be16(l3 + TOTAL_LENGTH));
    // Linux writes 0 into a packet over 64 kB that segmentation will cut (BIG TCP).
    let length = if total == 0 { len - at } else { total.saturating_sub(header) };
    Some(Upper {
        protocol: window.octet(l3 + PROTOCOL),
        at,
        length,
        addresses: window.sum::<4>(l3 + SOURCE),
        authenticated: false,
    })
}
