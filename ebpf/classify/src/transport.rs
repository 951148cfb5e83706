//! UDP and TCP headers, partial checksums, and the ports of PTP and NTP.

use crate::window::{Window, seen};
use crate::{Class, Flags, ntp, ptp};

const UDP: u8 = 17;
const TCP: u8 = 6;

const UDP_HEADER: u32 = 8;
const UDP_DESTINATION: u32 = 2;
const UDP_LENGTH: u32 = 4;
const UDP_CHECKSUM: u32 = 6;
const TCP_HEADER: u32 = 20;
const TCP_CHECKSUM: u32 = 16;

/// What the network layer knows of the header behind it.
pub(crate) struct Upper {
    /// IP protocol number.
    pub(crate) protocol: u8,
    /// Offset of the header in the frame.
    pub(crate) at: u32,
    /// Octets from there to the packet's end, as the IP header announces them.
    pub(crate) length: u32,
    /// Sum of both addresses in memory order, not folded.
    pub(crate) addresses: u32,
    /// An Authentication Header (RFC 4302) covers it.
    pub(crate) authenticated: bool,
}

/// Fills in `l4`, `payload`, flags and kind.
#[inline(always)]
pub(crate) fn read(window: Window<'_>, len: u32, upper: Upper, class: &mut Class) {
    let at = upper.at;
    let packet_end = min(len, at + upper.length);
    let header = match upper.protocol {
        UDP => UDP_HEADER,
        TCP => TCP_HEADER,
        _ => return,
    };
    if at + header > seen(packet_end) {
        class.flags = class.flags.with(Flags::TRUNCATED);
        return;
    }
    class.l4 = at as u8;
    if upper.protocol == TCP {
        class.flags = class.flags.with(Flags::TCP);
        if window.ne16(at + TCP_CHECKSUM) == pseudo_header(upper.addresses, TCP, upper.length) {
            class.flags = class.flags.with(Flags::PARTIAL_CHECKSUM);
        }
        return;
    }
    // In the window are the first two octets of the payload too, which decide: 14 octets of Ethernet, then nothing but
    // multiples of four, so that a UDP header in the window ends at 126 at most.
    let payload = at + UDP_HEADER;
    let udp_length = u32::from(window.be16(at + UDP_LENGTH));
    class.flags = class.flags.with(Flags::UDP);
    class.payload = payload as u8;
    if window.ne16(at + UDP_CHECKSUM) == pseudo_header(upper.addresses, UDP, udp_length) {
        class.flags = class.flags.with(Flags::PARTIAL_CHECKSUM);
    }
    if upper.authenticated {
        return; // No mark may touch what an integrity check covers.
    }
    // Padding behind the datagram is no part of a message. 0 is a jumbogram (RFC 2675 section 4).
    let end = if udp_length == 0 { packet_end } else { min(packet_end, at + udp_length) };
    match (window.be16(at), window.be16(at + UDP_DESTINATION)) {
        (_, ptp::EVENT_PORT) => ptp::over_udp(window, payload, end, ptp::EVENT_PORT, class),
        (_, ptp::GENERAL_PORT) => ptp::over_udp(window, payload, end, ptp::GENERAL_PORT, class),
        (ntp::PORT, _) | (_, ntp::PORT) => ntp::read(window, payload, end, class),
        _ => {}
    }
}

/// The folded, not complemented sum of the pseudo-header (RFC 768, 9293, 8200 section 8.1) in memory order: what
/// Linux leaves in the checksum field for a device to complete (CHECKSUM_PARTIAL). It is never 0.
///
/// A complete checksum equals it once in 65,536 frames. That does no harm: completing such a frame gives the same
/// checksum again. A segment behind a routing header with segments left is not recognised: its pseudo-header has
/// another destination.
#[inline(always)]
fn pseudo_header(addresses: u32, protocol: u8, length: u32) -> u16 {
    let length = length.to_be();
    let mut sum = addresses + (length & 0xFFFF) + (length >> 16) + u32::from(u16::from(protocol).to_be());
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum as u16
}

#[inline(always)]
fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::pseudo_header;

    #[test]
    fn the_fold_carries_twice() {
        let addresses = 0x1_FFFF - u32::from(17u16.to_be()) - u32::from(8u16.to_be());
        assert_eq!(pseudo_header(addresses, 17, 8), 1);
    }

    #[test]
    fn a_length_over_64_k_counts_in_both_halves() {
        // 6 + 0x0003 + 0x0005: RFC 8200 section 8.1 has 32 bits of length, Linux fills them (BIG TCP).
        assert_eq!(pseudo_header(0, 6, 0x0003_0005), 14u16.to_be());
    }
}
