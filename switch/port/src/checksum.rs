//! Completing partial checksums: by the kernel or the NIC (TX metadata), or here.
//!
//! A Linux host with default offloads sends TCP and UDP over veth with a checksum field that holds only the folded
//! pseudo-header sum (CHECKSUM_PARTIAL); somebody must add the rest before the frame leaves the machine or is checked.
//! A complete sum that looks like a partial one by chance comes out as it was: adding the rest gives the same value.

use crate::umem::TX_METADATA_LEN;
use plimsoll_classify::{Class, Flags};

/// The one checksum that a frame needs completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    /// First octet that the sum covers: the transport header.
    start: usize,
    /// The checksum field, from there.
    field: usize,
}

impl Partial {
    /// What has to be done for a frame of `len` octets; `None` where nothing has.
    #[inline]
    pub(crate) fn of(class: &Class, len: usize) -> Option<Self> {
        if !class.flags.has(Flags::PARTIAL_CHECKSUM) {
            return None;
        }
        let field = if class.flags.has(Flags::UDP) {
            6
        } else if class.flags.has(Flags::TCP) {
            16
        } else {
            return None;
        };
        let start = usize::from(class.l4);
        // The kernel would refuse the descriptor again and again, and nothing behind it would leave.
        (start >= usize::from(class.l3) && start + field + 2 <= len).then_some(Self { start, field })
    }

    /// `struct xsk_tx_metadata` that asks for it (include/uapi/linux/if_xdp.h): flags, csum_start, csum_offset.
    #[inline]
    pub(crate) fn metadata(self) -> [u8; TX_METADATA_LEN as usize] {
        let mut metadata = [0; TX_METADATA_LEN as usize];
        metadata[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
        metadata[8..10].copy_from_slice(&(self.start as u16).to_ne_bytes());
        metadata[10..12].copy_from_slice(&(self.field as u16).to_ne_bytes());
        metadata
    }

    /// Completes it in the frame.
    pub(crate) fn complete(self, frame: &mut [u8], class: &Class) {
        let end = covered(frame, class).clamp(self.start + self.field + 2, frame.len());
        let mut sum = !fold(add(&frame[self.start..end]));
        if sum == 0 && class.flags.has(Flags::UDP) {
            // RFC 768: zero means that there is no checksum.
            sum = 0xFFFF;
        }
        frame[self.start + self.field..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Where the IP packet ends: what follows is padding and not summed.
fn covered(frame: &[u8], class: &Class) -> usize {
    let l3 = usize::from(class.l3);
    let word = |at: usize| match frame.get(l3 + at..l3 + at + 2) {
        Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    if class.flags.has(Flags::IPV4) { l3 + word(2) } else { l3 + 40 + word(4) }
}

/// The sum of big-endian words; an odd last octet is the high one.
fn add(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// RFC 1071.
const fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_classify::{WINDOW, classify};

    /// IPv4 UDP from 10.0.0.1:1000 to 10.0.0.2:2000, with the pseudo-header sum in the checksum field.
    fn udp4(payload: &[u8], padding: usize) -> Vec<u8> {
        let udp = 8 + payload.len();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[16..18].copy_from_slice(&((20 + udp) as u16).to_be_bytes());
        frame.extend([0x03, 0xE8, 0x07, 0xD0]);
        frame.extend((udp as u16).to_be_bytes());
        let pseudo = fold(add(&[10, 0, 0, 1, 10, 0, 0, 2]) + 17 + udp as u64);
        frame.extend(pseudo.to_be_bytes());
        frame.extend(payload);
        frame.extend(std::iter::repeat_n(0xA5, padding));
        frame
    }

    fn class_of(frame: &[u8]) -> Class {
        let mut window = [0; WINDOW];
        let len = frame.len().min(WINDOW);
        window[..len].copy_from_slice(&frame[..len]);
        classify(&window, frame.len() as u32)
    }

    /// The sum over pseudo-header and datagram that a receiver checks: all ones.
    fn receiver_sum(frame: &[u8]) -> u16 {
        let udp = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
        fold(add(&frame[26..34]) + 17 + udp as u64 + add(&frame[34..34 + udp]))
    }

    #[test]
    fn a_partial_sum_becomes_one_that_the_receiver_accepts() {
        for payload in [&b""[..], b"x", b"plimsoll", &[0xFF; 333]] {
            for padding in [0, 1, 18] {
                let mut frame = udp4(payload, padding);
                let class = class_of(&frame);
                let partial = Partial::of(&class, frame.len()).expect("partial");
                partial.complete(&mut frame, &class);
                assert_eq!(receiver_sum(&frame), 0xFFFF, "{payload:?} {padding}");
            }
        }
    }

    #[test]
    fn a_complete_sum_that_looks_partial_stays() {
        // Find a payload whose complete sum equals the pseudo-header sum.
        let complete = |tail: u16| {
            let mut frame = udp4(&tail.to_be_bytes(), 0);
            let class = class_of(&frame);
            Partial { start: 34, field: 6 }.complete(&mut frame, &class);
            frame
        };
        let pseudo = udp4(&[0, 0], 0)[40..42].to_vec();
        let chance =
            (0..=u16::MAX).map(complete).find(|frame| frame[40..42] == pseudo).expect("one of 65536");
        let class = class_of(&chance);
        let mut again = chance.clone();
        Partial::of(&class, chance.len()).expect("looks partial").complete(&mut again, &class);
        assert_eq!(again, chance);
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_all_ones() {
        let frame = (0..=u16::MAX)
            .map(|tail| {
                let mut frame = udp4(&tail.to_be_bytes(), 0);
                let class = class_of(&frame);
                Partial { start: 34, field: 6 }.complete(&mut frame, &class);
                frame
            })
            .find(|frame| frame[40..42] == [0xFF, 0xFF])
            .expect("one of 65536");
        assert_eq!(receiver_sum(&frame), 0xFFFF);
    }

    #[test]
    fn what_would_reach_beyond_the_frame_is_left_alone() {
        let frame = udp4(b"plimsoll", 0);
        let class = class_of(&frame);
        assert!(Partial::of(&class, 42).is_some());
        assert!(Partial::of(&class, 41).is_none());
        assert!(Partial::of(&Class { l4: 200, ..class }, frame.len()).is_none());
        assert!(Partial::of(&Class { flags: Flags::UDP, ..class }, frame.len()).is_none());
        // An IP length that lies stays inside the frame.
        let mut lying = frame;
        lying[16..18].copy_from_slice(&[0xFF, 0xFF]);
        Partial { start: 34, field: 6 }.complete(&mut lying, &class);
        lying[16..18].copy_from_slice(&[0, 0]);
        Partial { start: 34, field: 6 }.complete(&mut lying, &class);
    }

    #[test]
    fn the_metadata_is_the_kernels_structure() {
        assert_eq!(std::mem::offset_of!(libc::xsk_tx_metadata, flags), 0);
        assert_eq!(std::mem::offset_of!(libc::xsk_tx_metadata, xsk_tx_metadata_union), 8);
        assert_eq!(std::mem::offset_of!(libc::xsk_tx_metadata_request, csum_offset), 2);
        assert!(size_of::<libc::xsk_tx_metadata>() <= TX_METADATA_LEN as usize);
        let metadata = Partial { start: 34, field: 6 }.metadata();
        assert_eq!(metadata[..12], [2, 0, 0, 0, 0, 0, 0, 0, 34, 0, 6, 0]);
    }
}
