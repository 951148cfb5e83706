//! One classifier for kernel and user space, and the metadata the XDP program writes before each frame.
#![no_std]
#![forbid(unsafe_code)]

mod meta;

pub use meta::{Class, Flags, Kind, META_LEN, META_VERSION, NO_PRIORITY, WINDOW};

/// Classifies a frame from its first [`WINDOW`] octets; `len` is the whole frame's length in octets, without FCS.
///
/// Octets of `window` past `len` are ignored.
#[inline(always)]
pub fn classify(_window: &[u8; WINDOW], _len: u32) -> Class {
    Class::OTHER
}
