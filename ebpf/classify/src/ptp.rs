//! PTP messages by version and messageType (IEEE 1588-2019 clause 13.3, annexes C, D and E).

use crate::window::Window;
use crate::word::Direction;
use crate::{Class, Flags, Kind};

/// UDP port of event messages.
pub const EVENT_PORT: u16 = 319;
/// UDP port of general messages.
pub const GENERAL_PORT: u16 = 320;

/// Octets of the common header (clause 13.3.1).
pub const HEADER_LEN: usize = 34;
/// Octets of a Sync or Delay_Req without TLVs (clause 13.6): the least of an event message.
pub const EVENT_LEN: usize = 44;
/// Octets of a Pdelay_Req or Pdelay_Resp without TLVs (clauses 13.9, 13.10).
pub const PEER_DELAY_LEN: usize = 54;
/// tlvType of AUTHENTICATION (clause 16.14).
pub const TLV_AUTHENTICATION: u16 = 0x8009;
/// correctionField that says "too large to represent" (clause 13.3.2.9).
pub const CORRECTION_OVERFLOW: i64 = i64::MAX;

/// That of version 1 is longer (40 octets).
const HEADER: u32 = HEADER_LEN as u32;
const LAST_EVENT: u8 = 0x3;
const FIRST_GENERAL: u8 = 0x8;
const LAST_GENERAL: u8 = 0xD;

/// Which way an event message of this messageType goes: Delay_Req (1) and Pdelay_Req (2) are requests, Sync (0) and
/// Pdelay_Resp (3) responses. `None` for types that are no event.
#[inline]
pub const fn direction(message_type: u8) -> Option<Direction> {
    match message_type {
        1 | 2 => Some(Direction::Forward),
        0 | 3 => Some(Direction::Reverse),
        _ => None,
    }
}

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
