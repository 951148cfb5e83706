//! PTP messages by version and messageType (IEEE 1588-2019 clause 13.3, annexes C, D and E).

use crate::window::Window;
use crate::{Class, Flags, Kind};

/// UDP port of event messages.
pub(crate) const EVENT_PORT: u16 = 319;
/// UDP port of general messages.
pub(crate) const GENERAL_PORT: u16 = 320;

/// The common header of version 2; that of version 1 is longer (40 octets).
const HEADER: u32 = 34;
const LAST_EVENT: u8 = 0x3;
const FIRST_GENERAL: u8 = 0x8;
const LAST_GENERAL: u8 = 0xD;

/// PTP over Ethernet: version 2 only, whatever the destination address.
#[inline(always)]
pub(crate) fn over_ethernet(window: Window<'_>, len: u32, class: &mut Class) {
    let at = u32::from(class.l3);
    if fits(at, len, class) {
        class.kind = version_2(window.octet(at), window.octet(at + 1));
    }
}

/// PTP over UDP, from `at` to `end`, by its destination port.
///
/// An event message on the general port stays [`Kind::Other`]: no clock takes a timestamp of it.
#[inline(always)]
pub(crate) fn over_udp(window: Window<'_>, at: u32, end: u32, port: u16, class: &mut Class) {
    if !fits(at, end, class) {
        return;
    }
    let (first, version) = (window.octet(at), window.octet(at + 1));
    // Version 1 begins with a 16-bit versionPTP and has its messageType elsewhere: the port tells.
    class.kind = if first == 0 && version == 1 {
        if port == EVENT_PORT { Kind::PtpEvent } else { Kind::PtpGeneral }
    } else {
        let kind = version_2(first, version);
        if port == GENERAL_PORT && kind.is_sync() { Kind::Other } else { kind }
    };
}

/// Whether the header ends inside the message.
#[inline(always)]
fn fits(at: u32, end: u32, class: &mut Class) -> bool {
    if at + HEADER > end {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return false;
    }
    true
}

/// Only the low nibble of either octet counts: majorSdoId and minorVersionPTP stand in the high ones.
#[inline(always)]
fn version_2(first: u8, version: u8) -> Kind {
    if version & 0x0F != 2 {
        return Kind::Other;
    }
    match first & 0x0F {
        0..=LAST_EVENT => Kind::PtpEvent,
        FIRST_GENERAL..=LAST_GENERAL => Kind::PtpGeneral,
        _ => Kind::Other,
    }
}
