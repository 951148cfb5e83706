//! The octets that hold a time message, and the UDP checksum over them.

use plimsoll_classify::{Class, Flags};

use super::{octets, octets_mut};
use crate::MarkOutcome;

mod field {
    use core::ops::Range;

    /// Octets of a UDP header.
    pub(super) const UDP: usize = 8;
    pub(super) const UDP_LENGTH: Range<usize> = 4..6;
    pub(super) const UDP_CHECKSUM: Range<usize> = 6..8;
}

/// The checksum over a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// None (PTP over Ethernet, IPv4's zero), or a partial one that somebody completes later: nothing to mend.
    Untouched,
    /// A complete sum, right or wrong, this far into the frame.
    At(u16),
    /// UDP over IPv6 with a zero sum, which RFC 8200 section 8.1 forbids: receivers drop it, nobody repairs it.
    Invalid,
}

/// The octets from where `info` says that the message begins, up to the end of its UDP datagram (of the frame, where
/// there is none), and the checksum over them. Nothing of `info` is believed without a check.
///
/// # Errors
/// [`MarkOutcome::Fragment`], or [`MarkOutcome::Length`] where the datagram is not whole.
#[inline]
pub(super) fn find<'a>(frame: &'a [u8], info: &Class) -> Result<(&'a [u8], Sum), MarkOutcome> {
    if info.flags.has(Flags::FRAGMENT) {
        return Err(MarkOutcome::Fragment);
    }
    let (before, payload) = frame.split_at_checked(usize::from(info.payload)).ok_or(MarkOutcome::Length)?;
    if !info.flags.has(Flags::UDP) {
        return Ok((payload, Sum::Untouched));
    }
    let udp = octets(before, u16::from(info.l4)).ok_or(MarkOutcome::Length)?;
    // What the UDP length leaves out, no checksum covers.
    let at = field::UDP_LENGTH.start;
    let length = usize::from(u16::from_be_bytes([udp[at], udp[at + 1]]));
    let datagram = payload.get(..length.saturating_sub(field::UDP)).ok_or(MarkOutcome::Length)?;
    Ok((datagram, Sum::of(udp, info)))
}

impl Sum {
    #[inline]
    fn of(udp: &[u8; field::UDP], info: &Class) -> Self {
        let at = field::UDP_CHECKSUM.start;
        let zero = [udp[at], udp[at + 1]] == [0, 0];
        match info.flags {
            flags if flags.has(Flags::PARTIAL_CHECKSUM) => Self::Untouched,
            flags if zero && flags.has(Flags::IPV6) => Self::Invalid,
            _ if zero => Self::Untouched,
            _ => Self::At(u16::from(info.l4) + at as u16),
        }
    }

    /// Whether nothing under it may be changed.
    #[inline]
    pub(super) const fn is_invalid(self) -> bool {
        matches!(self, Self::Invalid)
    }

    /// Writes the sum that `mended` makes of the one in the frame where it was found.
    #[inline]
    pub(super) fn mend(self, frame: &mut [u8], mended: impl FnOnce(u16) -> u16) {
        if let Self::At(at) = self
            && let Some(octets) = octets_mut(frame, at)
        {
            *octets = mended(u16::from_be_bytes(*octets)).to_be_bytes();
        }
    }
}
