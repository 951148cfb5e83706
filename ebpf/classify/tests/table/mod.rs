//! The table: frames and what they are, written down by hand. Read natively and by the kernel's program; equal answers.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod frames;
mod ip;
mod layer2;
mod sync;
mod truncated;

use plimsoll_classify::{Class, Flags, Kind};

/// A frame and what it is.
pub struct Row {
    pub name: String,
    pub frame: Vec<u8>,
    pub class: Class,
}

/// All rows that have a frame of their own, and those that are one of them cut.
pub fn rows() -> Vec<Row> {
    let mut rows = whole();
    rows.extend(truncated::rows());
    rows
}

/// The rows that have a frame of their own.
pub fn whole() -> Vec<Row> {
    let mut rows = layer2::rows();
    rows.extend(ip::rows());
    rows.extend(sync::rows());
    rows
}

pub(crate) const NONE: u8 = plimsoll_classify::NO_PRIORITY;
pub(crate) const TAG: Flags = Flags::TAGGED;
pub(crate) const FRAG: Flags = Flags::FRAGMENT;
pub(crate) const PART: Flags = Flags::PARTIAL_CHECKSUM;
pub(crate) const V4: Flags = Flags::IPV4;
pub(crate) const V6: Flags = Flags::IPV6;
pub(crate) const CUT: Flags = Flags::TRUNCATED;
pub(crate) const UDP: Flags = Flags::UDP;
pub(crate) const TCP: Flags = Flags::TCP;

/// Offsets are l3, l4, payload.
pub(crate) fn class(
    kind: Kind,
    priority: u8,
    flags: &[Flags],
    offsets: [u8; 3],
    ethertype: u16,
    tci: u16,
) -> Class {
    let flags = flags.iter().fold(Flags::NONE, |all, flag| all.with(*flag));
    let [l3, l4, payload] = offsets;
    Class { kind, priority, flags, l3, l4, payload, ethertype, tci }
}

pub(crate) fn row(name: impl Into<String>, frame: Vec<u8>, class: Class) -> Row {
    Row { name: name.into(), frame, class }
}
