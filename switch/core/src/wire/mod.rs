//! What is on the wire: views that are checked once, then read and written without failing; one protocol a file.
//!
//! Mutators mend the UDP checksum of the frame they change (RFC 1624).

pub mod checksum;
pub mod ethernet;
pub mod event;
pub mod ptp;
pub mod word;
