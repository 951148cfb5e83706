//! The ECN bits of an IP header (RFC 3168 section 5).

use plimsoll_classify::{Class, Flags};

use super::{checksum, octets_mut};

pub use plimsoll_classify::ecn::{CE, ECT_0, ECT_1, NOT_ECT};

mod field {
    use core::ops::Range;

    pub(super) const IPV4_LEN: usize = 20;
    pub(super) const IPV6_LEN: usize = 40;
    /// IPv4: the low two bits. IPv6: bits 5:4, for the traffic class begins at the header's fifth bit.
    pub(super) const SERVICE: usize = 1;
    pub(super) const IPV6_SHIFT: u32 = 4;
    pub(super) const BITS: u8 = 0b11;
    pub(super) const IPV4_CHECKSUM: Range<usize> = 10..12;
}

/// The ECN bits of a frame's outermost IP header. No UDP or TCP checksum covers them.
#[derive(Debug)]
pub struct Ecn<'a>(Header<'a>);

#[derive(Debug)]
enum Header<'a> {
    V4(&'a mut [u8; field::IPV4_LEN]),
    V6(&'a mut [u8; field::IPV6_LEN]),
}

impl<'a> Ecn<'a> {
    /// The bits of `frame`, whose IP header is where `info` says; `None` where there is none, or not that version.
    #[inline]
    pub fn new_checked(frame: &'a mut [u8], info: &Class) -> Option<Self> {
        let at = u16::from(info.l3);
        if info.flags.has(Flags::IPV4) {
            return octets_mut(frame, at)
                .filter(|header| header[0] >> 4 == 4)
                .map(|header| Self(Header::V4(header)));
        }
        if info.flags.has(Flags::IPV6) {
            return octets_mut(frame, at)
                .filter(|header| header[0] >> 4 == 6)
                .map(|header| Self(Header::V6(header)));
        }
        None
    }

    /// The two bits, 0..=3.
    #[inline]
    pub const fn bits(&self) -> u8 {
        match &self.0 {
            Header::V4(header) => header[field::SERVICE] & field::BITS,
            Header::V6(header) => header[field::SERVICE] >> field::IPV6_SHIFT & field::BITS,
        }
    }

    /// Writes the two bits (of `bits` the low two) and mends the IPv4 header's checksum; IPv6 has none.
    #[inline]
    pub fn set_bits(&mut self, bits: u8) {
        let bits = bits & field::BITS;
        match &mut self.0 {
            Header::V4(header) => {
                let old = u16::from_be_bytes([header[0], header[field::SERVICE]]);
                header[field::SERVICE] = header[field::SERVICE] & !field::BITS | bits;
                let new = u16::from_be_bytes([header[0], header[field::SERVICE]]);
                let at = field::IPV4_CHECKSUM;
                let sum = u16::from_be_bytes([header[at.start], header[at.start + 1]]);
                header[at].copy_from_slice(&checksum::mended_ipv4(sum, old, new).to_be_bytes());
            }
            Header::V6(header) => {
                let others = header[field::SERVICE] & !(field::BITS << field::IPV6_SHIFT);
                header[field::SERVICE] = others | bits << field::IPV6_SHIFT;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::event::tests::classified;
    use etherparse::{Ipv4Header, Ipv4Options, Ipv6FlowLabel, Ipv6Header, ip_number};
    use proptest::prelude::*;

    /// A frame with this IP header behind up to two tags.
    fn frame(tags: usize, ethertype: u16, header: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0x60, 5]));
        frame.extend(ethertype.to_be_bytes());
        frame.extend(header);
        frame.extend([0x5A; 40]);
        frame
    }

    fn v4(tos: u8, options: &[u8], id: u16) -> Ipv4Header {
        let mut header = Ipv4Header::new(40, 64, ip_number::UDP, [10, 0, 0, 1], [224, 0, 1, 129]).unwrap();
        header.dscp = (tos >> 2).try_into().unwrap();
        header.ecn = (tos & 3).try_into().unwrap();
        header.identification = id;
        header.options = Ipv4Options::try_from(options).unwrap();
        header.header_checksum = header.calc_header_checksum();
        header
    }

    proptest! {
        /// IPv4: bits and checksum are those of a header that another library writes; nothing else changes.
        #[test]
        fn ipv4_is_as_written_anew(tos: u8, to in 0u8..4, options in 0usize..11, id: u16, tags in 0usize..3) {
            let options = vec![1; options * 4];
            let (before, after) = (v4(tos, &options, id), v4(tos & !3 | to, &options, id));
            let mut octets = frame(tags, 0x0800, &before.to_bytes());
            let info = classified(&octets);
            let mut ecn = Ecn::new_checked(&mut octets, &info).unwrap();
            prop_assert_eq!(ecn.bits(), tos & 3);
            ecn.set_bits(to);
            prop_assert_eq!(ecn.bits(), to);
            prop_assert_eq!(octets, frame(tags, 0x0800, &after.to_bytes()));
        }

        /// IPv6: DSCP and flow label, which share octets with the bits, stay.
        #[test]
        fn ipv6_is_as_written_anew(class: u8, to in 0u8..4, label in 0u32..1 << 20, tags in 0usize..3) {
            let header = |traffic_class: u8| Ipv6Header {
                traffic_class,
                flow_label: Ipv6FlowLabel::try_new(label).unwrap(),
                payload_length: 40,
                next_header: ip_number::UDP,
                ..Ipv6Header::default()
            };
            let mut octets = frame(tags, 0x86DD, &header(class).to_bytes());
            let info = classified(&octets);
            let mut ecn = Ecn::new_checked(&mut octets, &info).unwrap();
            prop_assert_eq!(ecn.bits(), class & 3);
            ecn.set_bits(to);
            prop_assert_eq!(octets, frame(tags, 0x86DD, &header(class & !3 | to).to_bytes()));
        }

        /// Whatever octets and offsets come in, nothing panics.
        #[test]
        fn any_frame_and_any_info(mut octets in prop::collection::vec(any::<u8>(), 0..80), flags: u8, l3: u8, bits: u8) {
            let info = Class { flags: Flags(flags), l3, ..Class::OTHER };
            if let Some(mut ecn) = Ecn::new_checked(&mut octets, &info) {
                ecn.set_bits(bits);
                prop_assert_eq!(ecn.bits(), bits & 3);
            }
        }
    }

    /// Sums that are zero or all ones: one's complement has two zeros, and a right IPv4 header writes only 0x0000.
    #[test]
    fn ipv4_sums_of_zero() {
        let sums = |tos: u8| (0..=u16::MAX).map(move |id| (id, v4(tos, &[], id).header_checksum));
        let (id, _) = sums(0b10).find(|(_, sum)| *sum == 0).unwrap();
        let (to_id, _) = sums(0b11).find(|(_, sum)| *sum == 0).unwrap();
        for id in [id, to_id] {
            let mut octets = frame(0, 0x0800, &v4(0b10, &[], id).to_bytes());
            let info = classified(&octets);
            Ecn::new_checked(&mut octets, &info).unwrap().set_bits(CE);
            assert_eq!(octets, frame(0, 0x0800, &v4(0b11, &[], id).to_bytes()));
        }
    }

    #[test]
    fn what_is_no_ip_header_has_no_bits() {
        let mut octets = frame(0, 0x0800, &v4(2, &[], 0).to_bytes());
        let info = classified(&octets);
        let none = |octets: &mut [u8], info: &Class| Ecn::new_checked(octets, info).is_none();
        assert!(!none(&mut octets, &info));
        assert!(none(&mut octets, &Class::OTHER));
        assert!(none(&mut octets, &Class { flags: Flags::IPV6, ..info }));
        assert!(none(&mut octets, &Class { l3: 200, ..info }));
        assert!(none(&mut octets[..33], &info));
        octets[14] = 0x65;
        assert!(none(&mut octets, &info));
    }
}
