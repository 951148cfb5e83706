//! What the host shims do to a packet, so that unmodified clocks profit from its marks.
//!
//! | program | where | what |
//! |---|---|---|
//! | [`timestamp`] | tc ingress | moves the receive timestamp earlier by n * delta: PTP over UDP, NTP by its field or by CE |
//! | [`correction`] | XDP | adds n * delta to correctionField: PTP over Ethernet and UDP, hardware timestamps too |
//! | [`egress`] | tc egress | makes messages ECN-capable, gives NTP messages the field that switches count in |
//!
//! The BPF programs in `ebpf/programs` call these functions with packets of the kernel, tests with octets of their own.
//! Each that uses a count clears it, so that two of them, or an edge port and one of them, act once.
//!
//! | file | idea |
//! |---|---|
//! | `packet` | what is asked of a packet |
//! | `message` | a time message and its marking word |
//! | `amount` | n * delta, and its limits |
//! | `timestamp`, `correction`, `egress` | the three programs |
//! | `settings`, `count`, `program` | what the loader must know |
#![no_std]
#![forbid(unsafe_code)]

mod amount;
mod correction;
mod count;
mod ecn;
mod egress;
mod message;
mod packet;
mod program;
mod settings;
mod timestamp;

pub use amount::CAP_PS;
pub use correction::{Aside, Kept, Key, LONGEST_WAIT, correction};
pub use count::Count;
pub use egress::{Sent, egress};
pub use packet::{Buffer, Packet};
pub use program::{MAP_COUNTS, MAP_PENDING, MAP_SETTINGS, PENDING, Program};
pub use settings::{SETTINGS_WORDS, Settings};
pub use timestamp::timestamp;

/// What became of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its name.
    pub count: Count,
    /// Marks that were used.
    pub marks: u32,
    /// Nanoseconds that they came to.
    pub ns: u64,
}

impl Done {
    /// Nothing was used.
    const fn nothing(count: Count) -> Self {
        Self { count, marks: 0, ns: 0 }
    }
}
