//! NTP messages by mode (RFC 5905 section 7.3; modes 6 and 7: RFC 9327), and the extension field that holds a message's
//! marking word (RFC 7822).

use crate::window::Window;
use crate::word::Direction;
use crate::{Class, Flags, Kind};

/// UDP port.
pub const PORT: u16 = 123;
/// Octets of the header (RFC 5905 section 7.3).
pub const HEADER_LEN: usize = 48;
/// The version whose messages have extension fields.
pub const VERSION: u8 = 4;
/// Type of the field, in the range for experiments, 0xF000 to 0xFFFF (RFC 9748).
pub const FIELD_TYPE: u16 = 0xF5C0;
/// Octets of the field.
pub const FIELD_LEN: usize = 28;
/// What else tells the field from others of its type.
pub const MAGIC: [u8; 4] = *b"CMC1";

/// The least that an extension field takes (RFC 7822 section 3): what is shorter is a MAC, and the last in the packet.
pub const LEAST_FIELD: usize = 16;
/// Where the word stands in its field.
pub const WORD: usize = 8;

const HEADER: u32 = HEADER_LEN as u32;
const CONTROL_HEADER: u32 = 12;
const PRIVATE_HEADER: u32 = 8;
/// Mode 6, second octet.
const CONTROL_RESPONSE: u8 = 0x80;
/// Mode 7, first octet.
const PRIVATE_RESPONSE: u8 = 0x80;

/// Which way a message goes whose first octet this is: modes 1 and 3 are requests, 2, 4 and 5 responses. `None` for
/// the modes that carry no time (6 and 7: RFC 9327).
#[inline]
pub const fn direction(first: u8) -> Option<Direction> {
    match first & 7 {
        1 | 3 => Some(Direction::Forward),
        2 | 4 | 5 => Some(Direction::Reverse),
        _ => None,
    }
}

/// The field with this marking word, for an end to append to its message.
pub const fn field(word: u32) -> [u8; FIELD_LEN] {
    let mut octets = [0; FIELD_LEN];
    let parts = [FIELD_TYPE.to_be_bytes(), (FIELD_LEN as u16).to_be_bytes()];
    [octets[0], octets[1], octets[2], octets[3]] = [parts[0][0], parts[0][1], parts[1][0], parts[1][1]];
    [octets[4], octets[5], octets[6], octets[7]] = MAGIC;
    [octets[8], octets[9], octets[10], octets[11]] = word.to_be_bytes();
    octets
}

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
