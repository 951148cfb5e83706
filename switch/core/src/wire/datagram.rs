//! The octets that hold a time message, and the UDP checksum over them: what is written there mends that sum.

use plimsoll_classify::{Class, Flags};

use crate::MarkOutcome;

mod field {
    use core::ops::Range;

    /// Octets of a UDP header.
    pub(super) const UDP: usize = 8;
    pub(super) const UDP_LENGTH: Range<usize> = 4..6;
    pub(super) const UDP_CHECKSUM: Range<usize> = 6..8;
}

/// The checksum over a message.
#[derive(Debug)]
pub(super) enum Sum<'a> {
    /// None (PTP over Ethernet, IPv4's zero), or a partial one that somebody completes later: nothing to mend.
    Untouched,
    /// A complete sum, right or wrong.
    Complete(&'a mut [u8; 2]),
    /// UDP over IPv6 with a zero sum, which RFC 8200 section 8.1 forbids: receivers drop it, nobody repairs it.
    Invalid,
}

/// The octets from where `info` says that the message begins, up to the end of its UDP datagram (of the frame, where
/// there is none), and the checksum over them. Nothing of `info` is believed without a check.
///
/// # Errors
/// [`MarkOutcome::Fragment`], or [`MarkOutcome::Length`] where the datagram is not whole.
#[inline]
pub(super) fn open<'a>(frame: &'a mut [u8], info: &Class) -> Result<(&'a mut [u8], Sum<'a>), MarkOutcome> {
    if info.flags.has(Flags::FRAGMENT) {
        return Err(MarkOutcome::Fragment);
    }
    let (before, payload) =
        frame.split_at_mut_checked(usize::from(info.payload)).ok_or(MarkOutcome::Length)?;
    if !info.flags.has(Flags::UDP) {
        return Ok((payload, Sum::Untouched));
    }
    let udp = before.get_mut(usize::from(info.l4)..).and_then(<[u8]>::first_chunk_mut::<{ field::UDP }>);
    let udp = udp.ok_or(MarkOutcome::Length)?;
    // What the UDP length leaves out, no checksum covers.
    let length =
        usize::from(u16::from_be_bytes([udp[field::UDP_LENGTH.start], udp[field::UDP_LENGTH.start + 1]]));
    let datagram = payload.get_mut(..length.saturating_sub(field::UDP)).ok_or(MarkOutcome::Length)?;
    Ok((datagram, Sum::of(udp, info)))
}

impl<'a> Sum<'a> {
    #[inline]
    fn of(udp: &'a mut [u8; field::UDP], info: &Class) -> Self {
        if info.flags.has(Flags::PARTIAL_CHECKSUM) {
            return Self::Untouched;
        }
        let zero = udp[field::UDP_CHECKSUM] == [0, 0];
        match udp.last_chunk_mut::<2>() {
            _ if zero && info.flags.has(Flags::IPV6) => Self::Invalid,
            Some(sum) if !zero => Self::Complete(sum),
            _ => Self::Untouched,
        }
    }

    /// Whether nothing under it may be changed.
    #[inline]
    pub(super) const fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid)
    }

    #[inline]
    pub(super) fn mend(&mut self, mended: impl FnOnce(u16) -> u16) {
        if let Self::Complete(octets) = self {
            **octets = mended(u16::from_be_bytes(**octets)).to_be_bytes();
        }
    }
}
