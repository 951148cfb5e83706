//! Every drop and every skip has a name, in one list that feeds counters, JSON and the manual.

use serde::{Serialize, Serializer};
use std::fmt;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
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
    };
}

reasons! {
    /// Why the core dropped a frame.
    DropReason {
        /// Shorter than an Ethernet header, or longer than a chunk holds.
        Malformed = "malformed",
        /// Source address is a group address (IEEE 802.3 clause 3.2.3 forbids it).
        SourceGroup = "source_group",
        /// Destination is an 802.1Q reserved address that the port does not pass.
        Reserved = "reserved_address",
        /// Its destination is behind the port it came in by.
        SamePort = "same_port",
        /// No other port to send it to.
        NoEgress = "no_egress",
        /// The storm control of its ingress port refused it.
        Storm = "storm_control",
        /// The VLAN is not allowed on the port.
        Vlan = "vlan_not_allowed",
        /// The egress queue is full in octets.
        QueueBytes = "queue_bytes",
        /// The egress port holds its quota of frames.
        QueueFrames = "queue_frames",
        /// No free buffer for the copy that a flood needs.
        NoBuffer = "no_buffer",
    }
}

reasons! {
    /// What the marker did with a frame, and why not more.
    #[derive(Default)]
    MarkOutcome {
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
        /// PTP version is not 2.
        Version = "skip_version",
        /// messageLength is below 44 or beyond the frame.
        Length = "skip_length",
        /// The word is of no valid mode (non-thermometer, bit 28 set).
        InvalidWord = "skip_invalid_word",
        /// The message carries an AUTHENTICATION TLV, which a mark would break.
        Authenticated = "skip_authenticated",
        /// The message carries no marking field (NTP without our extension field).
        NoField = "skip_no_field",
        /// UDP over IPv6 with a zero checksum (RFC 8200 section 8.1 forbids it): never repaired.
        ZeroChecksum = "skip_zero_checksum",
        /// A fragment: its transport header is not trusted.
        Fragment = "skip_fragment",
    }
}
