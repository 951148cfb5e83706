//! The ECN bits of a packet at tc (RFC 3168 section 5).

use plimsoll_classify::ecn::NOT_ECT;
use plimsoll_classify::{Class, Flags};

use crate::Buffer;

const IPV4_CHECKSUM: u32 = 10;

/// The two bits; Not-ECT where the packet is not IP.
#[inline(always)]
pub(crate) fn bits<P: Buffer>(packet: &P, class: &Class) -> u8 {
    let Some([_, second]) = packet.load::<2>(u32::from(class.l3)) else { return NOT_ECT };
    match class.flags {
        flags if flags.has(Flags::IPV4) => second & 3,
        flags if flags.has(Flags::IPV6) => second >> 4 & 3,
        _ => NOT_ECT,
    }
}

/// Writes the two bits of an IP packet; `false` where nothing was written.
#[inline(always)]
pub(crate) fn set_bits<P: Buffer>(packet: &mut P, class: &Class, bits: u8) -> bool {
    let l3 = u32::from(class.l3);
    let Some(old) = packet.load::<2>(l3) else { return false };
    if class.flags.has(Flags::IPV6) {
        // The traffic class begins at the header's fifth bit; no sum covers it.
        return packet.store_uncovered(l3, [old[0], old[1] & !0x30 | bits << 4]);
    }
    let new = [old[0], old[1] & !3 | bits];
    let written = packet.store(l3, new);
    if written {
        packet.mend_ipv4(l3 + IPV4_CHECKSUM, u16::from_be_bytes(old), u16::from_be_bytes(new));
    }
    written
}
