//! Reads at masked offsets: whatever the offset, the read stays inside the window, and the verifier sees it.
//!
//! Callers ask [`seen`] whether the octets are there; the mask only keeps a wrong answer harmless.

use crate::WINDOW;

const MASK: u32 = WINDOW as u32 - 1;
const _: () = assert!(WINDOW.is_power_of_two());

/// How many octets of a frame of `len` octets the window holds.
#[inline(always)]
pub(crate) fn seen(len: u32) -> u32 {
    if len < WINDOW as u32 { len } else { WINDOW as u32 }
}

/// The octet at `at`.
#[inline(always)]
pub(crate) fn octet(window: &[u8; WINDOW], at: u32) -> u8 {
    window[(at & MASK) as usize]
}

/// The 16-bit number at `at`, network order.
#[inline(always)]
pub(crate) fn be16(window: &[u8; WINDOW], at: u32) -> u16 {
    u16::from_be_bytes([octet(window, at), octet(window, at + 1)])
}

/// The 16-bit word at `at` in memory order, for ones' complement sums (RFC 1071 section 2 (B)).
#[inline(always)]
pub(crate) fn ne16(window: &[u8; WINDOW], at: u32) -> u16 {
    u16::from_ne_bytes([octet(window, at), octet(window, at + 1)])
}

/// The sum of `words` 16-bit words from `at` on, in memory order, not folded.
#[inline(always)]
pub(crate) fn sum(window: &[u8; WINDOW], at: u32, words: u32) -> u32 {
    let mut total = 0;
    let mut word = 0;
    while word < words {
        total += u32::from(ne16(window, at + 2 * word));
        word += 1;
    }
    total
}
