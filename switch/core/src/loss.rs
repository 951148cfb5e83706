//! Every drop and every skip has a name, in one list that feeds counters, JSON and the manual.

use serde::{Serialize, Serializer, ser::SerializeMap};
use std::fmt;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident, $(#[$cdoc:meta])* $counts:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name that counters, JSON and the manual use.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        $(#[$cdoc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $counts([u64; $name::COUNT]);

        impl $counts {
            /// How often this one happened.
            #[inline]
            pub const fn get(&self, reason: $name) -> u64 {
                self.0[reason as usize]
            }

            /// All of them together.
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }

            /// Each with how often it happened, in the order of their numbers.
            pub fn iter(&self) -> impl Iterator<Item = ($name, u64)> + '_ {
                $name::ALL.iter().map(|&reason| (reason, self.get(reason)))
            }

            #[inline]
            pub(crate) fn count(&mut self, reason: $name) {
                self.0[reason as usize] += 1;
            }
        }

        impl Default for $counts {
            fn default() -> Self {
                Self([0; $name::COUNT])
            }
        }

        impl Serialize for $counts {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some($name::COUNT))?;
                for (reason, count) in self.iter() {
                    map.serialize_entry(reason.name(), &count)?;
                }
                map.end()
            }
        }
    };
}

reasons! {
    /// Why the core dropped a frame.
    DropReason,
    /// Frames dropped, by [`DropReason`].
    DropCounts {
        /// Shorter than an Ethernet header (14 octets) or longer than 65,553.
        Malformed = "malformed",
        /// Source address is a group address (IEEE 802.3 clause 3.2.3 forbids it).
        SourceGroup = "source_group",
        /// Destination is an 802.1Q reserved address that the port does not pass.
        Reserved = "reserved_address",
        /// Its tag's VLAN is none of its ingress port's (ingress filtering, 802.1Q-2018 clause 8.6.2).
        VlanFiltered = "vlan_filtered",
        /// It has no VLAN, no tag or one for priority alone, and its ingress port is a trunk without a native one.
        Untagged = "vlan_untagged",
        /// Its destination is behind the port it came in by.
        SamePort = "same_port",
        /// No other port to send it to.
        NoEgress = "no_egress",
        /// With the tag that the egress port needs it would exceed the port's MTU or its buffer.
        TagTooLong = "tag_too_long",
        /// The storm control of its ingress port refused it.
        Storm = "storm_control",
        /// What leaves before it at the egress port is at the limit in octets.
        QueueBytes = "queue_bytes",
        /// What leaves before it at the egress port is at the limit in frames.
        QueueFrames = "queue_frames",
        /// No free buffer for the copy that a flood needs.
        NoBuffer = "no_buffer",
        /// It was queued at a port that went down.
        PortDown = "port_down",
    }
}

reasons! {
    /// What the marker did with a frame, and why not more.
    #[derive(Default)]
    MarkOutcome,
    /// Frames by what the marker did, [`MarkOutcome`].
    MarkCounts {
        /// Not a message that carries marks.
        #[default]
        NotSync = "not_sync",
        /// The port does not mark.
        Off = "off",
        /// Marked: r was 0, the word stays as it was.
        Zero = "zero",
        /// Marked: the counter grew by r.
        Marked = "marked",
        /// Marked: the counter reached N, less than r was added.
        Saturated = "saturated",
        /// The port marks, but not this carrier.
        Carrier = "skip_carrier",
        /// PTP version is not 2.
        Version = "skip_version",
        /// messageLength is below 44 (54 for peer delay) or beyond the frame or the UDP datagram.
        Length = "skip_length",
        /// The word is of no valid mode (non-thermometer, bit 28 set).
        InvalidWord = "skip_invalid_word",
        /// The message carries an AUTHENTICATION TLV, which a mark would break.
        Authenticated = "skip_authenticated",
        /// NTP version is not 4: it has no extension fields.
        NtpVersion = "skip_ntp_version",
        /// NTP mode 6 or 7, control messages that carry no time.
        NtpMode = "skip_ntp_mode",
        /// The message carries no marking field (NTP without our extension field).
        NoField = "skip_no_field",
        /// Something follows the marking field of an NTP message (a MAC, NTS) and may cover it.
        FieldNotLast = "skip_field_not_last",
        /// UDP over IPv6 with a zero checksum (RFC 8200 section 8.1 forbids it): never repaired.
        ZeroChecksum = "skip_zero_checksum",
        /// A fragment: its transport header is not trusted.
        Fragment = "skip_fragment",
    }
}

impl MarkOutcome {
    /// Whether the message was marked, by 0 or more.
    #[inline]
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Zero | Self::Marked | Self::Saturated)
    }
}

reasons! {
    /// What edge conversion did with a frame.
    #[derive(Default)]
    EdgeOutcome,
    /// Frames by what edge conversion did, [`EdgeOutcome`].
    EdgeCounts {
        /// The port does not convert, or the marker skipped the frame.
        #[default]
        Off = "off",
        /// No count to convert; the word left as 0.
        Empty = "empty",
        /// n*delta went into correctionField, the word left as 0.
        Converted = "converted",
        /// As converted, but n*delta was cut to 1 s.
        Capped = "capped",
        /// As converted, but correctionField reached its largest value, which means "too large to say".
        Saturated = "saturated",
        /// correctionField came in at its largest value and stays; the word left as 0.
        Overflowed = "skip_correction_overflow",
        /// A word with forward and reverse counts: only an endpoint of ours knows what to do with the other half.
        ForwardReverse = "skip_forward_reverse",
    }
}

reasons! {
    /// What the marker did with a frame's ECN bits.
    #[derive(Default)]
    EcnOutcome,
    /// Frames by what the marker did with their ECN bits, [`EcnOutcome`].
    EcnCounts {
        /// Out of scope: the port marks no ECN, or not this frame's (modified ECN: nor PTP version 1 and NTP modes 6, 7).
        #[default]
        Off = "off",
        /// Below the threshold (r = 0 for modified ECN): as they were.
        Below = "below",
        /// ECT became CE, or the counter grew by r.
        Marked = "marked",
        /// Above the threshold, and CE already.
        Already = "already",
        /// The counter of modified ECN reached N, less than r was added.
        Saturated = "saturated",
        /// Above the threshold, and Not-ECT: never touched (RFC 3168 section 5).
        NotEct = "skip_not_ect",
        /// The bits are of no valid count (modified ECN by bit shift: 10).
        Invalid = "skip_invalid",
        /// Neither IPv4 nor IPv6.
        NotIp = "skip_not_ip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_count_apart() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        let names: HashSet<_> = MarkOutcome::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), MarkOutcome::COUNT);
        let names: HashSet<_> = EcnOutcome::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), EcnOutcome::COUNT);
        let mut counts = DropCounts::default();
        counts.count(DropReason::Storm);
        counts.count(DropReason::PortDown);
        counts.count(DropReason::PortDown);
        let seen: Vec<_> = counts.iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(seen, [(DropReason::Storm, 1), (DropReason::PortDown, 2)]);
        assert_eq!(counts.total(), 3);
    }
}
