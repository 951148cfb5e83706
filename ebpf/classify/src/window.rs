//! Reads at masked offsets: whatever the offset, the read stays inside the window, and the verifier sees it.
//!
//! Callers ask [`seen`] whether the octets are there; the mask only keeps a wrong answer harmless.

use crate::WINDOW;

const MASK: usize = WINDOW - 1;
const _: () = assert!(WINDOW.is_power_of_two());

/// The first octets of a frame.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    octets: &'a [u8; WINDOW],
    mask: usize,
}

impl<'a> Window<'a> {
    /// These octets; those past the frame's end do not matter.
    #[inline(always)]
    pub const fn new(octets: &'a [u8; WINDOW]) -> Self {
        Self { octets, mask: MASK }
    }

    /// The same for the BPF program, which gives [`WINDOW`] - 1 as a number that the compiler does not know and the
    /// verifier does. Else the compiler drops a mask where it has proved the offset small already, by a way that
    /// the verifier cannot follow.
    #[inline(always)]
    pub const fn with_mask(octets: &'a [u8; WINDOW], mask: usize) -> Self {
        Self { octets, mask }
    }

    /// The octet at `at`.
    #[inline(always)]
    pub(crate) const fn octet(self, at: u32) -> u8 {
        self.octets[at as usize & self.mask & MASK]
    }

    /// The 16-bit number at `at`, network order.
    #[inline(always)]
    pub(crate) const fn be16(self, at: u32) -> u16 {
        u16::from_be_bytes([self.octet(at), self.octet(at + 1)])
    }

    /// The 16-bit word at `at` in memory order, for ones' complement sums (RFC 1071 section 2 (B)).
    #[inline(always)]
    pub(crate) const fn ne16(self, at: u32) -> u16 {
        u16::from_ne_bytes([self.octet(at), self.octet(at + 1)])
    }

    /// The sum of `WORDS` 16-bit words from `at` on, in memory order, not folded; `at` is in the window's lower half.
    #[inline(always)]
    pub(crate) const fn sum<const WORDS: usize>(self, at: u32) -> u32 {
        const { assert!(2 * WORDS <= WINDOW / 2) };
        // One mask for all of them: half the window may follow the lower half.
        let at = at as usize & (self.mask >> 1) & (MASK >> 1);
        let mut total = 0;
        let mut word = 0;
        while word < WORDS {
            total += u16::from_ne_bytes([self.octets[at + 2 * word], self.octets[at + 2 * word + 1]]) as u32;
            word += 1;
        }
        total
    }
}

/// How many octets of a frame of `len` octets the window holds.
#[inline(always)]
pub(crate) const fn seen(len: u32) -> u32 {
    if len < WINDOW as u32 { len } else { WINDOW as u32 }
}
