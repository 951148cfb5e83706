//! What became of a frame: one list for the programs, their map, tables and JSON.

/// The number is the index in [`crate::MAP_COUNTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Count {
    /// No message that this program treats, or has anything to do with as it is set.
    Other = 0,
    /// A message without a count: nothing to do.
    Empty,
    /// n * delta was subtracted (timestamp) or added (correctionField), and the count cleared.
    Compensated,
    /// The same by less than the count says: beyond N or 1 s, or more than correctionField holds.
    Capped,
    /// A CE was subtracted from the timestamp, and became ECT(0).
    CompensatedCe,
    /// The count waits for the message's follow-up, and is cleared.
    SetAside,
    /// A follow-up got the count of its message.
    FollowedUp,
    /// correctionField says "too large to represent" and stays; the count is cleared.
    Overflowed,
    /// PTP over Ethernet at tc, which comes after the sockets that take it: use the correction shim.
    Layer2,
    /// No receive timestamp was taken: nobody on this host asks for any.
    NoTimestamp,
    /// A word that no marking switch writes.
    InvalidWord,
    /// The word may not be changed: an AUTHENTICATION TLV or, of NTP, something behind the field covers it.
    Authenticated,
    /// UDP over IPv6 without a checksum, which receivers drop.
    ZeroChecksum,
    /// The message does not fit into its datagram, or the datagram into the frame.
    Length,
    /// The packet could not be read or written.
    Failed,
    /// Egress: Not-ECT became ECT.
    EctSet,
    /// Egress: the message was ECN-capable.
    EctThere,
    /// Egress: an NTP message got the field.
    FieldAdded,
    /// Egress: something is behind the NTP header (a field, a MAC, NTS), or the version has no fields: left alone.
    FieldLeft,
    /// Sum of marks used: what was subtracted, or added, comes of them.
    Marks,
    /// Sum of nanoseconds that were subtracted or added.
    Nanoseconds,
}

impl Count {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 21] = [
        Self::Other,
        Self::Empty,
        Self::Compensated,
        Self::Capped,
        Self::CompensatedCe,
        Self::SetAside,
        Self::FollowedUp,
        Self::Overflowed,
        Self::Layer2,
        Self::NoTimestamp,
        Self::InvalidWord,
        Self::Authenticated,
        Self::ZeroChecksum,
        Self::Length,
        Self::Failed,
        Self::EctSet,
        Self::EctThere,
        Self::FieldAdded,
        Self::FieldLeft,
        Self::Marks,
        Self::Nanoseconds,
    ];

    pub(crate) const OF_CORRECTION: [Self; 14] = [
        Self::Compensated,
        Self::Capped,
        Self::SetAside,
        Self::FollowedUp,
        Self::Overflowed,
        Self::Empty,
        Self::InvalidWord,
        Self::Authenticated,
        Self::ZeroChecksum,
        Self::Length,
        Self::Failed,
        Self::Other,
        Self::Marks,
        Self::Nanoseconds,
    ];

    pub(crate) const OF_TIMESTAMP: [Self; 14] = [
        Self::Compensated,
        Self::Capped,
        Self::CompensatedCe,
        Self::Empty,
        Self::Layer2,
        Self::NoTimestamp,
        Self::InvalidWord,
        Self::Authenticated,
        Self::ZeroChecksum,
        Self::Length,
        Self::Failed,
        Self::Other,
        Self::Marks,
        Self::Nanoseconds,
    ];

    pub(crate) const OF_EGRESS: [Self; 6] =
        [Self::EctSet, Self::EctThere, Self::FieldAdded, Self::FieldLeft, Self::Failed, Self::Other];

    /// The name that tables, JSON and the manual use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Empty => "empty",
            Self::Compensated => "compensated",
            Self::Capped => "capped",
            Self::CompensatedCe => "compensated_ce",
            Self::SetAside => "set_aside",
            Self::FollowedUp => "followed_up",
            Self::Overflowed => "overflowed",
            Self::Layer2 => "layer_2",
            Self::NoTimestamp => "no_timestamp",
            Self::InvalidWord => "invalid_word",
            Self::Authenticated => "authenticated",
            Self::ZeroChecksum => "zero_checksum",
            Self::Length => "length",
            Self::Failed => "failed",
            Self::EctSet => "ect_set",
            Self::EctThere => "ect_there",
            Self::FieldAdded => "field_added",
            Self::FieldLeft => "field_left",
            Self::Marks => "marks",
            Self::Nanoseconds => "compensated_ns",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_order_and_names_differ() {
        for (index, count) in Count::ALL.iter().enumerate() {
            assert_eq!(*count as usize, index);
            assert!(Count::ALL[..index].iter().all(|other| other.name() != count.name()));
        }
    }
}
