//! What a switch needs of an NTP message (RFC 5905 section 7.3), and the extension field that holds its marking word
//! (RFC 7822).
//!
//! ```text
//!  type 0xF5C0 (2)   length 28 (2)   "CMC1" (4)   marking word (4)   zero (16)
//! ```
//! 28 octets, since a last field of 16 to 24 is taken for a message authentication code (RFC 7822). A
//! switch counts only in a field that an end put there, and only where nothing follows it: what follows a field
//! (a MAC, NTS fields) covers it.

use super::word::Direction;
use crate::MarkOutcome;

pub use plimsoll_classify::ntp::{
    FIELD_LEN, FIELD_TYPE, HEADER_LEN, LEAST_FIELD, MAGIC, VERSION, WORD, direction, field,
};

/// Whether a message answers a request whose first octet this is: server (4) and symmetric passive (2) do, broadcast (5)
/// does not.
#[inline]
pub const fn answers(first: u8) -> bool {
    matches!(first & 7, 2 | 4)
}

/// The marking word of a message (the UDP payload): where it begins, which way the message goes, and whether its field
/// is the last thing in it.
///
/// # Errors
/// Why there is none: [`MarkOutcome::NtpMode`], [`MarkOutcome::NtpVersion`], [`MarkOutcome::Length`],
/// [`MarkOutcome::NoField`].
#[inline]
pub fn find(message: &[u8]) -> Result<(usize, Direction, bool), MarkOutcome> {
    let first = *message.first().ok_or(MarkOutcome::Length)?;
    let direction = direction(first).ok_or(MarkOutcome::NtpMode)?;
    if first >> 3 & 7 != VERSION {
        return Err(MarkOutcome::NtpVersion);
    }
    if message.len() < HEADER_LEN {
        return Err(MarkOutcome::Length);
    }
    let (mut at, mut found) = (HEADER_LEN, None);
    while let Some((&[t0, t1, l0, l1], rest)) = message.get(at..).and_then(<[u8]>::split_first_chunk) {
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        // A MAC, or nothing that could be told.
        if len < LEAST_FIELD || !len.is_multiple_of(4) || len > message.len() - at {
            break;
        }
        if u16::from_be_bytes([t0, t1]) == FIELD_TYPE && len == FIELD_LEN && rest.starts_with(&MAGIC) {
            found = Some(at);
        }
        at += len;
    }
    let at = found.ok_or(MarkOutcome::NoField)?;
    Ok((at + WORD, direction, at + FIELD_LEN == message.len()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::{
        event::tests::{classified, sum_is_right},
        message::Message,
    };
    use etherparse::PacketBuilder;
    use plimsoll_classify::{Class, Flags, Kind};

    /// A header of this version and mode, with its transmit timestamp alone.
    pub(crate) fn header(version: u8, mode: u8) -> Vec<u8> {
        let mut m = vec![0; HEADER_LEN];
        m[0] = version << 3 | mode;
        m[40..48].copy_from_slice(&0xE5A1_0203_0405_0607u64.to_be_bytes());
        m
    }

    /// An extension field of this type and length.
    pub(crate) fn other_field(field_type: u16, len: usize) -> Vec<u8> {
        let mut f = vec![0xA5; len];
        f[..2].copy_from_slice(&field_type.to_be_bytes());
        f[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        f
    }

    /// A frame with this message in it, and what the classifier says of it.
    pub(crate) fn frame(v6: bool, message: &[u8]) -> (Vec<u8>, Class) {
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = if v6 {
            ethernet.ipv6([0xFD; 16], [0xFE; 16], 64)
        } else {
            ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut frame = Vec::new();
        ip.udp(40_000, 123).write(&mut frame, message).unwrap();
        let mut info = classified(&frame);
        assert!(matches!(info.kind, Kind::NtpRequest | Kind::NtpResponse), "{info:?}");
        // One complete sum in 65,536 looks like a partial one; here they are complete.
        info.flags = Flags(info.flags.0 & !Flags::PARTIAL_CHECKSUM.0);
        (frame, info)
    }

    fn refusal(message: &[u8]) -> MarkOutcome {
        let (mut octets, info) = frame(false, message);
        Message::new_checked(&mut octets, &info).unwrap_err()
    }

    /// What the view says of a message: its word, and whether it may be marked.
    fn view(message: &[u8]) -> Result<(u32, Result<(), MarkOutcome>), MarkOutcome> {
        let (mut octets, info) = frame(true, message);
        Message::new_checked(&mut octets, &info).map(|m| (m.word(), m.markable()))
    }

    #[test]
    fn the_field_is_as_specified() {
        let f = field(0x4000_0005);
        assert_eq!(f[..12], [0xF5, 0xC0, 0, 28, b'C', b'M', b'C', b'1', 0x40, 0, 0, 5]);
        assert_eq!(f[12..], [0; 16]);
    }

    #[test]
    fn a_word_is_written_in_the_field_and_the_sum_stays_right() {
        for v6 in [false, true] {
            let before = [header(4, 3), other_field(0x0104, 36), field(0).to_vec()].concat();
            let (mut octets, info) = frame(v6, &before);
            let mut expected = octets.clone();
            let mut message = Message::new_checked(&mut octets, &info).unwrap();
            assert_eq!((message.word(), message.markable()), (0, Ok(())));
            message.set_word(0x4000_0007);
            assert_eq!(message.word(), 0x4000_0007);
            let at = usize::from(info.payload) + 48 + 36 + 8;
            expected[at..at + 4].copy_from_slice(&[0x40, 0, 0, 7]);
            let sum = usize::from(info.l4) + 6;
            expected[sum..sum + 2].copy_from_slice(&octets[sum..sum + 2]);
            assert_eq!(octets, expected, "nothing else changes");
            assert!(sum_is_right(&octets));
        }
    }

    #[test]
    fn modes_have_directions_and_control_messages_none() {
        for (mode, direction) in [(1, Direction::Forward), (3, Direction::Forward), (2, Direction::Reverse)]
            .into_iter()
            .chain([(4, Direction::Reverse), (5, Direction::Reverse)])
        {
            let (mut octets, info) = frame(false, &[header(4, mode), field(0).to_vec()].concat());
            assert_eq!(Message::new_checked(&mut octets, &info).unwrap().direction(), direction);
            assert_eq!(refusal(&[header(3, mode), field(0).to_vec()].concat()), MarkOutcome::NtpVersion);
            assert_eq!(refusal(&header(4, mode)), MarkOutcome::NoField);
        }
        for mode in [6, 7] {
            assert_eq!(refusal(&[header(4, mode), field(0).to_vec()].concat()), MarkOutcome::NtpMode);
        }
    }

    #[test]
    fn only_a_field_that_nothing_follows_is_open() {
        let ours = field(0x4000_0001).to_vec();
        let open = Ok((0x4000_0001, Ok(())));
        let covered = Ok((0x4000_0001, Err(MarkOutcome::FieldNotLast)));
        let cookie = other_field(0x0204, 104);
        assert_eq!(view(&[header(4, 4), ours.clone()].concat()), open);
        assert_eq!(view(&[header(4, 4), cookie.clone(), ours.clone()].concat()), open);
        assert_eq!(view(&[header(4, 4), ours.clone(), cookie].concat()), covered);
        // MACs: crypto-NAK (4), MD5 (20), SHA1 (24), SHA512 (68); the key's number may look like a field of 16.
        for mac in [4, 20, 24, 68] {
            let mut mac = vec![0; mac];
            mac[3] = 16;
            assert_eq!(view(&[header(4, 4), ours.clone(), mac.clone()].concat()), covered);
            assert_eq!(view(&[header(4, 4), mac].concat()), Err(MarkOutcome::NoField));
        }
        // Two of them: the last counts.
        let mut two = [header(4, 4), ours, field(0x4000_0009).to_vec()].concat();
        assert_eq!(view(&two), Ok((0x4000_0009, Ok(()))));
        two.extend([0, 0, 0, 1]);
        assert_eq!(view(&two), Ok((0x4000_0009, Err(MarkOutcome::FieldNotLast))));
    }

    #[test]
    fn what_only_looks_like_the_field_is_none() {
        let mut other_magic = field(0);
        other_magic[7] = b'2';
        let mut other_len = field(0).to_vec();
        other_len[3] = 32;
        other_len.extend([0; 4]);
        let mut too_long = field(0);
        too_long[3] = 32;
        // Behind what is no chain of fields, octets that would make one.
        let stray = [vec![0, 1, 0, 13], vec![0; 9], field(0).to_vec()].concat();
        for rest in [&other_magic[..], &other_len, &too_long, &stray, &field(0)[..27]] {
            assert_eq!(view(&[&header(4, 3), rest].concat()), Err(MarkOutcome::NoField));
        }
    }

    #[test]
    fn a_zero_sum_over_ipv6_and_a_partial_sum_are_left_alone() {
        let message = [header(4, 3), field(0).to_vec()].concat();
        let (mut octets, info) = frame(true, &message);
        let sum = usize::from(info.l4) + 6;
        octets[sum..sum + 2].fill(0);
        assert_eq!(
            Message::new_checked(&mut octets, &info).unwrap().markable(),
            Err(MarkOutcome::ZeroChecksum)
        );
        for v6 in [false, true] {
            let (mut octets, mut info) = frame(v6, &message);
            let sum = usize::from(info.l4) + 6;
            octets[sum..sum + 2].copy_from_slice(&[0x12, 0x34]);
            info.flags = info.flags.with(Flags::PARTIAL_CHECKSUM);
            Message::new_checked(&mut octets, &info).unwrap().set_word(0x4000_0001);
            assert_eq!(octets[sum..sum + 2], [0x12, 0x34]);
        }
    }

    #[test]
    fn a_field_beyond_its_datagram_is_not_touched() {
        let (mut octets, info) = frame(false, &[header(4, 3), field(0).to_vec()].concat());
        let length = usize::from(info.l4) + 4;
        let seen = |octets: &mut [u8], len: u16| {
            octets[length..length + 2].copy_from_slice(&len.to_be_bytes());
            Message::new_checked(octets, &info).unwrap_err()
        };
        assert_eq!(seen(&mut octets, 8 + 48 + 27), MarkOutcome::NoField);
        assert_eq!(seen(&mut octets, 8 + 47), MarkOutcome::Length);
        assert_eq!(seen(&mut octets, 8 + 48 + 29), MarkOutcome::Length);
        assert_eq!(seen(&mut octets, 0), MarkOutcome::Length);
    }
}
