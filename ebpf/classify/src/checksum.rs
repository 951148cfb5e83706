//! The Internet checksum, mended when octets under it change (RFC 1624, equation 3).
//!
//! All values are big-endian words as they stand in the packet, at an even distance from the start of what is summed.

/// A UDP checksum after a 16-bit word under it changed from `old` to `new`.
///
/// `sum` must be a complete one: a zero (none, RFC 768) or partial sum is not to be mended. A result of zero becomes
/// 0xFFFF, as UDP wants it. A wrong sum stays wrong.
#[inline]
pub const fn mended_u16(sum: u16, old: u16, new: u16) -> u16 {
    written(mended(sum, add(!old as u32, new as u32)))
}

/// The same for a 32-bit word.
#[inline]
pub const fn mended_u32(sum: u16, old: u32, new: u32) -> u16 {
    written(mended(sum, add(!old, new)))
}

/// The same for a 64-bit word.
#[inline]
pub const fn mended_u64(sum: u16, old: u64, new: u64) -> u16 {
    let gone = add((!old >> 32) as u32, !old as u32);
    let come = add((new >> 32) as u32, new as u32);
    written(mended(sum, add(gone, come)))
}

/// An IPv4 header's checksum after a 16-bit word under it changed from `old` to `new`. Zero is a sum like any other
/// here, and 0xFFFF none that a right header has (RFC 1624 section 3).
#[inline]
pub const fn mended_ipv4(sum: u16, old: u16, new: u16) -> u16 {
    mended(sum, add(!old as u32, new as u32))
}

/// HC' = ~(~HC + ~m + m'), with ~m + m' given as a 32-bit sum.
#[inline]
const fn mended(sum: u16, difference: u32) -> u16 {
    let wide = add(difference, !sum as u32);
    // Both halves added to both: what the lower ones carry goes into the upper.
    !(wide.wrapping_add(wide.rotate_left(16)) >> 16) as u16
}

/// One's complement sum of 32 bits, in which 2^16 is 1 as it is in one of 16.
#[inline]
const fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u32
}

/// UDP's way to write a sum: 0 says that there is none.
#[inline]
const fn written(sum: u16) -> u16 {
    if sum == 0 { 0xFFFF } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4Header, Ipv6Header, UdpHeader, ip_number};
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;
    use std::vec;

    /// The sum from the ground up, by another library.
    fn v4(payload: &[u8]) -> u16 {
        let ip =
            Ipv4Header::new(8 + payload.len() as u16, 64, ip_number::UDP, [10, 0, 0, 1], [224, 0, 1, 129])
                .unwrap();
        UdpHeader::with_ipv4_checksum(319, 319, &ip, payload).unwrap().checksum
    }

    fn v6(payload: &[u8]) -> u16 {
        let ip = Ipv6Header { source: [0xFE; 16], destination: [0xFF; 16], ..Ipv6Header::default() };
        UdpHeader::with_ipv6_checksum(319, 319, &ip, payload).unwrap().checksum
    }

    #[test]
    fn rfc_1624_example() {
        // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000, which UDP writes as 0xFFFF.
        assert_eq!(mended_u16(0xDD2F, 0x5555, 0x3285), 0xFFFF);
    }

    /// Words at which one's complement has two zeros, beside any others.
    fn word() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0), Just(0xFFFF), Just(1), Just(0xFFFE), any::<u16>()]
    }

    proptest! {
        #[test]
        fn mending_equals_summing_again(
            mut words in prop::collection::vec(word(), 8..40),
            new in prop::collection::vec(word(), 4),
            at in 0usize..4,
            width in prop::sample::select(vec![1usize, 2, 4]),
        ) {
            let octets = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
            let join = |words: &[u16]| words.iter().fold(0u64, |acc, w| acc << 16 | u64::from(*w));
            let (before4, before6) = (v4(&octets(&words)), v6(&octets(&words)));
            let old = join(&words[at..at + width]);
            words[at..at + width].copy_from_slice(&new[..width]);
            let new = join(&new[..width]);
            for (before, after) in [(before4, v4(&octets(&words))), (before6, v6(&octets(&words)))] {
                let mended = match width {
                    1 => mended_u16(before, old as u16, new as u16),
                    2 => mended_u32(before, old as u32, new as u32),
                    _ => mended_u64(before, old, new),
                };
                prop_assert_eq!(mended, after);
            }
        }

        #[test]
        fn a_wrong_sum_stays_wrong_by_as_much(sum: u16, old: u32, new: u32) {
            let there = mended_u32(sum, old, new);
            let back = mended_u32(there, new, old);
            prop_assert_eq!(back, if sum == 0 { 0xFFFF } else { sum });
        }
    }
}
