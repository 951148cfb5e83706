//! What is on the wire: views that are checked once, then read and written without failing; one protocol a file.
//!
//! Mutators mend the checksum over what they change (RFC 1624).

mod datagram;
pub mod ethernet;
pub mod event;
pub(crate) mod growth;
pub mod identity;
pub mod ip;
pub mod message;
pub mod ntp;
pub mod ptp;

// What the BPF programs share.
pub use plimsoll_classify::{checksum, word};

/// `N` octets of a frame from `at` on, by one comparison.
#[inline]
fn octets<const N: usize>(frame: &[u8], at: u16) -> Option<&[u8; N]> {
    let at = usize::from(at);
    frame.get(at..at + N)?.first_chunk()
}

/// The same, to change.
#[inline]
fn octets_mut<const N: usize>(frame: &mut [u8], at: u16) -> Option<&mut [u8; N]> {
    let at = usize::from(at);
    frame.get_mut(at..at + N)?.first_chunk_mut()
}
