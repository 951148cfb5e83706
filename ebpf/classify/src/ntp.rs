//! NTP messages by mode (RFC 5905 section 7.3; modes 6 and 7: RFC 9327).

use crate::window::Window;
use crate::{Class, Flags, Kind};

pub(crate) const PORT: u16 = 123;

const HEADER: u32 = 48;
const CONTROL_HEADER: u32 = 12;
const PRIVATE_HEADER: u32 = 8;
/// Mode 6, second octet.
const CONTROL_RESPONSE: u8 = 0x80;
/// Mode 7, first octet.
const PRIVATE_RESPONSE: u8 = 0x80;

/// The message from `at` to `end`. Version 0 and mode 0 are no NTP: what a scanner sends.
#[inline(always)]
pub(crate) fn read(window: Window<'_>, at: u32, end: u32, class: &mut Class) {
    if at + PRIVATE_HEADER > end {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return;
    }
    let (first, second) = (window.octet(at), window.octet(at + 1));
    if first >> 3 & 7 == 0 {
        return;
    }
    let (header, request) = match first & 7 {
        1 | 3 => (HEADER, true),
        2 | 4 | 5 => (HEADER, false),
        6 => (CONTROL_HEADER, second & CONTROL_RESPONSE == 0),
        7 => (PRIVATE_HEADER, first & PRIVATE_RESPONSE == 0),
        _ => return,
    };
    if at + header > end {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return;
    }
    class.kind = if request { Kind::NtpRequest } else { Kind::NtpResponse };
}
