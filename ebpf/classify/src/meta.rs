//! The metadata ABI: what the classifier found, as 24 octets right before the frame.

/// Octets of a frame that the classifier looks at.
pub const WINDOW: usize = 128;
/// Length of the metadata in octets: a multiple of 4 and at most 32, as `bpf_xdp_adjust_meta` wants on every kernel.
pub const META_LEN: usize = 24;
/// Version of the layout; a reader that finds another one classifies natively.
pub const META_VERSION: u8 = 1;
/// [`Class::priority`] of a frame that says nothing of its priority (no tag, no IP header).
pub const NO_PRIORITY: u8 = 0xFF;

const MAGIC: u16 = 0x504C; // "PL"

/// What a frame is to a switch that marks. The number is the ABI.
///
/// A kind other than [`Kind::Other`] says: the message's whole header is inside the frame and inside its datagram, the
/// frame is no fragment, no Authentication Header covers it, and no tunnel was opened to find it. It does not say that
/// the message may be marked: that is narrower (PTP version, messageLength, NTP version and mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Kind {
    /// Everything else.
    #[default]
    Other = 0,
    /// PTP version 2 messageType 0..3 (Sync, Delay_Req, Pdelay_Req, Pdelay_Resp; IEEE 1588-2019 clause 13) over
    /// EtherType 0x88F7 or to UDP port 319. PTP version 1 to UDP port 319.
    PtpEvent = 1,
    /// PTP version 2 messageType 8..D (Follow_Up, Delay_Resp, Announce, ...), also to UDP port 320. PTP version 1 to
    /// UDP port 320. Never marked.
    PtpGeneral = 2,
    /// NTP of any version but 0, from or to UDP port 123: mode 1 and 3 (RFC 5905), mode 6 and 7 without response bit.
    NtpRequest = 3,
    /// The same: mode 2, 4 and 5, mode 6 and 7 with response bit (RFC 9327).
    NtpResponse = 4,
}

impl Kind {
    /// The kind of this ABI number; [`Kind::Other`] for a number that is none.
    #[inline]
    pub const fn from_abi(number: u8) -> Self {
        match number {
            1 => Self::PtpEvent,
            2 => Self::PtpGeneral,
            3 => Self::NtpRequest,
            4 => Self::NtpResponse,
            _ => Self::Other,
        }
    }

    /// Whether this is a message whose delay a clock measures: the frames that can carry marks.
    #[inline]
    pub const fn is_sync(self) -> bool {
        matches!(self, Self::PtpEvent | Self::NtpRequest | Self::NtpResponse)
    }
}

/// Bits of [`Class::flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// At least one VLAN tag (0x8100 or 0x88A8) in the frame.
    pub const TAGGED: Self = Self(1);
    /// An IPv4 or IPv6 fragment (first and atomic ones included): no transport header is trusted.
    pub const FRAGMENT: Self = Self(2);
    /// The transport checksum holds only the folded pseudo-header sum (Linux CHECKSUM_PARTIAL).
    pub const PARTIAL_CHECKSUM: Self = Self(4);
    /// The frame's network layer is IPv4, its header with all options inside the frame.
    pub const IPV4: Self = Self(8);
    /// The frame's network layer is IPv6, its fixed header inside the frame.
    pub const IPV6: Self = Self(16);
    /// A header that the frame announces does not fit into the frame or into the classifier's window, or stands behind
    /// more than [`MAX_EXTENSIONS`](crate::MAX_EXTENSIONS) extension headers.
    pub const TRUNCATED: Self = Self(32);
    /// [`Class::l4`] is a UDP header, [`Class::payload`] its first payload octet.
    pub const UDP: Self = Self(64);
    /// [`Class::l4`] is a TCP header.
    pub const TCP: Self = Self(128);

    /// No flag.
    pub const NONE: Self = Self(0);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What the classifier found. Offsets are octets from the frame's start, 0 where there is no such layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// What the frame is.
    pub kind: Kind,
    /// Traffic class hint 0..7: the outer tag's PCP, else the upper three bits of the DSCP, else [`NO_PRIORITY`].
    pub priority: u8,
    /// What else is known.
    pub flags: Flags,
    /// Offset of what follows the EtherType: the network header, or the PTP header for PTP over Ethernet. Known of
    /// every frame that has an Ethernet header: 14, 18 or 22.
    pub l3: u8,
    /// Offset of the transport header.
    pub l4: u8,
    /// Offset of the UDP payload, or of the PTP header for PTP over Ethernet.
    pub payload: u8,
    /// EtherType after the tags, host order; a number below 0x600 is a length (802.3). A third tag's 0x8100 or 0x88A8
    /// stands here, and so does that of a tag which the frame's end cuts.
    pub ethertype: u16,
    /// The outer tag's TCI (PCP, DEI, VID), host order; 0 where the frame is untagged.
    pub tci: u16,
}

impl Class {
    /// A frame of which nothing is known.
    pub const OTHER: Self = Self {
        kind: Kind::Other,
        priority: NO_PRIORITY,
        flags: Flags::NONE,
        l3: 0,
        l4: 0,
        payload: 0,
        ethertype: 0,
        tci: 0,
    };

    /// The 24 octets that stand before the frame: this class and the arrival (CLOCK_MONOTONIC, ns), native order.
    #[inline(always)]
    pub const fn to_meta(&self, arrival: u64) -> [u8; META_LEN] {
        let (m, e, t, a) = (
            MAGIC.to_ne_bytes(),
            self.ethertype.to_ne_bytes(),
            self.tci.to_ne_bytes(),
            arrival.to_ne_bytes(),
        );
        [
            m[0],
            m[1],
            META_VERSION,
            self.kind as u8,
            self.priority,
            self.flags.0,
            self.l3,
            self.l4,
            self.payload,
            0,
            e[0],
            e[1],
            t[0],
            t[1],
            0,
            0,
            a[0],
            a[1],
            a[2],
            a[3],
            a[4],
            a[5],
            a[6],
            a[7],
        ]
    }

    /// Reads what [`Class::to_meta`] wrote; `None` where magic or version differ.
    #[inline]
    pub const fn from_meta(b: &[u8; META_LEN]) -> Option<(Self, u64)> {
        if u16::from_ne_bytes([b[0], b[1]]) != MAGIC || b[2] != META_VERSION {
            return None;
        }
        let class = Self {
            kind: Kind::from_abi(b[3]),
            priority: b[4],
            flags: Flags(b[5]),
            l3: b[6],
            l4: b[7],
            payload: b[8],
            ethertype: u16::from_ne_bytes([b[10], b[11]]),
            tci: u16::from_ne_bytes([b[12], b[13]]),
        };
        Some((class, u64::from_ne_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_reads_back_and_another_version_is_refused() {
        let class = Class {
            kind: Kind::PtpEvent,
            priority: 5,
            flags: Flags::TAGGED.with(Flags::UDP),
            l3: 18,
            l4: 38,
            payload: 46,
            ethertype: 0x0800,
            tci: 0xA00A,
        };
        let mut bytes = class.to_meta(0x0123_4567_89AB_CDEF);
        assert_eq!(Class::from_meta(&bytes), Some((class, 0x0123_4567_89AB_CDEF)));
        bytes[2] = META_VERSION + 1;
        assert_eq!(Class::from_meta(&bytes), None);
    }
}
