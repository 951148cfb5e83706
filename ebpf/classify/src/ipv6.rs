//! The IPv6 header and its extension headers (RFC 8200 section 4).

use crate::transport::Upper;
use crate::window::{Window, seen};
use crate::{Class, Flags, NO_PRIORITY};

/// Extension headers that the classifier walks; more make the frame [`Kind::Other`](crate::Kind::Other) with
/// [`Flags::TRUNCATED`].
pub const MAX_EXTENSIONS: u32 = 6;

const HEADER: u32 = 40;
const PAYLOAD_LENGTH: u32 = 4;
const NEXT_HEADER: u32 = 6;
const SOURCE: u32 = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// Fills in flags and priority; `None` where no transport header is to be read.
#[inline(always)]
pub(crate) fn read(window: Window<'_>, len: u32, class: &mut Class) -> Option<Upper> {
    let l3 = u32::from(class.l3);
    let seen = seen(len);
    if l3 + HEADER > seen {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return None;
    }
    let first = window.octet(l3);
    if first >> 4 != 6 {
        return None;
    }
    class.flags = class.flags.with(Flags::IPV6);
    if class.priority == NO_PRIORITY {
        // The traffic class begins at the header's fifth bit.
        class.priority = (first & 0x0F) >> 1;
    }
    let announced = u32::from(window.be16(l3 + PAYLOAD_LENGTH));
    let mut at = l3 + HEADER;
    // 0 is a jumbogram (RFC 2675), or one that segmentation will cut (BIG TCP).
    let packet_end = if announced == 0 { len } else { at + announced };
    let mut protocol = window.octet(l3 + NEXT_HEADER);
    let mut authenticated = false;
    let mut walked = 0;
    loop {
        match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | AUTHENTICATION => {}
            FRAGMENT => {
                class.flags = class.flags.with(Flags::FRAGMENT);
                return None;
            }
            _ => break,
        }
        if walked == MAX_EXTENSIONS {
            class.flags = class.flags.with(Flags::TRUNCATED);
            return None;
        }
        // Where not even this octet is there, no size fits.
        let units = u32::from(window.octet(at + 1));
        let size = if protocol == AUTHENTICATION {
            authenticated = true;
            (units + 2) * 4 // RFC 4302 section 2.2
        } else {
            (units + 1) * 8
        };
        if at + size > seen {
            class.flags = class.flags.with(Flags::TRUNCATED);
            return None;
        }
        protocol = window.octet(at);
        at += size;
        walked += 1;
    }
    Some(Upper {
        protocol,
        at,
        length: packet_end.saturating_sub(at),
        addresses: window.sum::<16>(l3 + SOURCE),
        authenticated,
    })
}
