//! What the loader tells a program, as words of an array map: read by the program and, later, by whoever shows it.

/// Words of the one entry of [`crate::MAP_SETTINGS`].
pub const SETTINGS_WORDS: usize = 5;

/// "PLIMSHIM", and the layout's version in the lowest octet.
const MAGIC: u64 = 0x504C_494D_5348_4900;
const VERSION: u64 = 1;

const FOLLOW_UP: u64 = 1;
const NTP_FIELD: u64 = 2;
const ECT_SHIFT: u32 = 8;

/// Settings of all three programs; each uses its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Delay that one mark stands for, in picoseconds.
    pub delta_ps: u64,
    /// Delay that one CE stands for, in picoseconds; 0: CE counts for nothing.
    pub ce_ps: u64,
    /// Largest count that is believed, N.
    pub counter_max: u32,
    /// Whether marks of two-step messages go into their follow-ups.
    pub follow_up: bool,
    /// Whether NTP messages that leave get the extension field.
    pub ntp_field: bool,
    /// ECN bits that Not-ECT messages leave with; 0: as they are.
    pub ect: u8,
}

impl Settings {
    /// Nothing is done.
    pub const NONE: Self =
        Self { delta_ps: 0, ce_ps: 0, counter_max: 0, follow_up: false, ntp_field: false, ect: 0 };

    /// The map's entry.
    pub const fn to_words(&self) -> [u64; SETTINGS_WORDS] {
        let flags = if self.follow_up { FOLLOW_UP } else { 0 } | if self.ntp_field { NTP_FIELD } else { 0 };
        let flags = flags | (self.ect as u64) << ECT_SHIFT;
        [MAGIC | VERSION, self.delta_ps, self.ce_ps, self.counter_max as u64, flags]
    }

    /// Reads what [`Settings::to_words`] wrote; `None` where it is of another version, or none of ours.
    #[inline(always)]
    pub const fn from_words(words: &[u64; SETTINGS_WORDS]) -> Option<Self> {
        let [magic, delta_ps, ce_ps, counter_max, flags] = *words;
        if magic != MAGIC | VERSION {
            return None;
        }
        Some(Self {
            delta_ps,
            ce_ps,
            counter_max: counter_max as u32,
            follow_up: flags & FOLLOW_UP != 0,
            ntp_field: flags & NTP_FIELD != 0,
            ect: (flags >> ECT_SHIFT) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_and_another_version_is_refused() {
        let settings = Settings {
            delta_ps: 60_000_000,
            ce_ps: 1,
            counter_max: u32::MAX,
            follow_up: true,
            ntp_field: false,
            ect: 2,
        };
        let mut words = settings.to_words();
        assert_eq!(Settings::from_words(&words), Some(settings));
        words[0] += 1;
        assert_eq!(Settings::from_words(&words), None);
    }
}
