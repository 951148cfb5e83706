//! The programs of the object `ebpf/prebuilt/shim.o`: their names, places and maps.

use crate::Count;

/// Array of one entry, [`crate::Settings::to_words`]; set before the program is attached.
pub const MAP_SETTINGS: &str = "SHIM_SETTINGS";
/// Per-CPU array of [`Count`] to u64.
pub const MAP_COUNTS: &str = "SHIM_COUNTS";
/// [`crate::Kept`]: delays that wait for a follow-up, by message. The oldest give way.
pub const MAP_PENDING: &str = "SHIM_PENDING";
/// Entries of [`MAP_PENDING`].
pub const PENDING: usize = 256;

/// One of the three programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// XDP: correctionField.
    Correction,
    /// tc ingress: receive timestamps.
    Timestamp,
    /// tc egress: ECT and the NTP field.
    Egress,
}

impl Program {
    /// All of them, in the order in which a received and a sent message meet them.
    pub const ALL: [Self; 3] = [Self::Correction, Self::Timestamp, Self::Egress];

    /// Its name in the object and, being short enough, in the kernel (15 octets).
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Correction => "plimsoll_corr",
            Self::Timestamp => "plimsoll_stamp",
            Self::Egress => "plimsoll_egress",
        }
    }

    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Correction => "correction",
            Self::Timestamp => "timestamp",
            Self::Egress => "egress",
        }
    }

    /// What it counts.
    pub const fn counts(self) -> &'static [Count] {
        match self {
            Self::Correction => &Count::OF_CORRECTION,
            Self::Timestamp => &Count::OF_TIMESTAMP,
            Self::Egress => &Count::OF_EGRESS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_the_names_whole_and_apart() {
        for (index, program) in Program::ALL.iter().enumerate() {
            assert!(program.symbol().len() <= 15);
            assert!(Program::ALL[..index].iter().all(|other| other.symbol() != program.symbol()));
        }
    }
}
