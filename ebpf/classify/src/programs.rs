//! What the port crate must know of the object `ebpf/prebuilt/plimsoll.o`: names, slots, counters.

use crate::{Class, NO_PRIORITY};

/// The XDP classifier. Linux 5.18 and newer (`bpf_xdp_load_bytes`).
pub const PROGRAM_CLASSIFY: &str = "plimsoll_classify";
/// The same for frames in several buffers (`xdp.frags`): for MTUs over about 3500, with XDP_USE_SG sockets (6.6).
pub const PROGRAM_CLASSIFY_FRAGS: &str = "plimsoll_classify_frags";

/// XSKMAP of [`socket_slot`] to socket, `2 * MAX_QUEUES` entries.
pub const MAP_SOCKETS: &str = "SOCKETS";
/// Per-CPU array of [`Count`] to u64.
pub const MAP_COUNTS: &str = "COUNTS";
/// RX queues a port can have; frames of further ones are dropped as [`Count::NoSocket`].
pub const MAX_QUEUES: u32 = 64;

/// Read-only global, u32, set before the program is loaded: frames of this class (0..7) or a higher one are express,
/// beside sync. 8 and more: only sync is.
pub const EXPRESS_PRIORITY: &str = "EXPRESS_PRIORITY";
/// What [`EXPRESS_PRIORITY`] is unless set: only sync is express, so that no other traffic can fill the ring.
pub const EXPRESS_PRIORITY_DEFAULT: u32 = 8;
/// Read-only global, u32, set before the program is loaded: 1 gives frames without metadata to the sockets where the
/// driver cannot carry any. Default 0: they are dropped, for a reader would take an older frame's metadata in
/// the same chunk for theirs, unless it wipes the chunk before it posts it.
pub const PASS_BARE: &str = "PASS_BARE";

/// The slot of a queue's socket in [`MAP_SOCKETS`].
#[inline(always)]
pub const fn socket_slot(queue: u32, express: bool) -> u32 {
    queue * 2 + express as u32
}

impl Class {
    /// Whether the frame belongs to the queue's express socket: sync, or of class `threshold` or higher.
    #[inline(always)]
    pub const fn is_express(&self, threshold: u32) -> bool {
        self.kind.is_sync() || (self.priority != NO_PRIORITY && self.priority as u32 >= threshold)
    }
}

/// What the program did with a frame; every frame is counted once. The number is the index in [`MAP_COUNTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Count {
    /// Given to the queue's bulk socket.
    Bulk = 0,
    /// Given to the queue's express socket.
    Express = 1,
    /// Express, given to the bulk socket because the queue has no express socket.
    ExpressAsBulk = 2,
    /// Dropped: the queue has no socket.
    NoSocket = 3,
    /// Dropped: the driver has no room for metadata (`bpf_xdp_adjust_meta` failed) and [`PASS_BARE`] is 0.
    NoMetadata = 4,
    /// Dropped: the frame could not be read (`bpf_xdp_load_bytes` failed).
    Unreadable = 5,
}

impl Count {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Bulk, Self::Express, Self::ExpressAsBulk, Self::NoSocket, Self::NoMetadata, Self::Unreadable];

    /// The name that counters, JSON and the manual use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "xdp_bulk",
            Self::Express => "xdp_express",
            Self::ExpressAsBulk => "xdp_express_as_bulk",
            Self::NoSocket => "xdp_no_socket",
            Self::NoMetadata => "xdp_no_metadata",
            Self::Unreadable => "xdp_unreadable",
        }
    }

    /// Whether the frame was dropped.
    pub const fn is_drop(self) -> bool {
        matches!(self, Self::NoSocket | Self::NoMetadata | Self::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Kind};

    #[test]
    fn numbers_are_the_order() {
        for (index, count) in Count::ALL.iter().enumerate() {
            assert_eq!(*count as usize, index);
        }
    }

    #[test]
    fn express_is_sync_or_high_but_never_unknown() {
        let class = |kind, priority| Class { kind, priority, flags: Flags::NONE, ..Class::OTHER };
        assert!(class(Kind::PtpEvent, 0).is_express(6));
        assert!(class(Kind::NtpResponse, NO_PRIORITY).is_express(8));
        assert!(class(Kind::Other, 6).is_express(6));
        assert!(!class(Kind::Other, 5).is_express(6));
        assert!(!class(Kind::PtpGeneral, 7).is_express(8));
        assert!(!class(Kind::Other, NO_PRIORITY).is_express(0));
    }
}
