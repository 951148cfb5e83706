//! What is on the wire: views that are checked once, then read and written without failing; one protocol a file.
//!
//! Mutators mend the checksum over what they change (RFC 1624).

mod datagram;
pub mod ethernet;
pub mod event;
pub mod identity;
pub mod ip;
pub mod message;
pub mod ntp;
pub mod ptp;

// What the BPF programs share.
pub use plimsoll_classify::{checksum, word};
