//! Traffic classes: which of a port's eight queues a frame waits in.
//!
//! Priorities map to the eight classes by 802.1Q-2018 Table 8-5: 1 (background) to the lowest class 0, 0 (best effort)
//! to class 1, 2..7 to themselves. Without a tag the upper three bits of the DSCP serve as priority; there 0 and 1 both
//! mean best effort, since three bits cannot tell CS1 (below best effort, RFC 8622) from AF1x (above it, RFC 2597).
//! Frames with neither have the port's default priority. So best effort is class 1 whatever carries it, and a PTP
//! message waits with the traffic beside it.

use plimsoll_classify::{Class, Flags, NO_PRIORITY};

/// Queues of a port.
pub(crate) const CLASSES: usize = 8;

const BEST_EFFORT: u8 = 1;

/// The class of an 802.1Q priority 0..7 where there are eight of them.
#[inline]
pub(crate) const fn of_priority(priority: u8) -> u8 {
    match priority & 7 {
        0 => BEST_EFFORT,
        1 => 0,
        other => other,
    }
}

/// The class of a frame; `default` is the class of the port's default priority, `sync` that of sync messages if set.
#[inline]
pub(crate) const fn of_frame(info: &Class, default: u8, sync: Option<u8>) -> u8 {
    if let Some(class) = sync
        && info.kind.is_sync()
    {
        return class;
    }
    match info.priority {
        NO_PRIORITY => default,
        pcp if info.flags.has(Flags::TAGGED) => of_priority(pcp),
        0 | 1 => BEST_EFFORT,
        precedence => precedence & 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_classify::Kind;

    fn frame(priority: u8, flags: Flags) -> Class {
        Class { priority, flags, ..Class::OTHER }
    }

    #[test]
    fn tags_map_by_table_8_5_and_dscp_never_below_best_effort() {
        let tagged: Vec<_> = (0..8).map(|p| of_frame(&frame(p, Flags::TAGGED), 5, None)).collect();
        assert_eq!(tagged, [1, 0, 2, 3, 4, 5, 6, 7]);
        let ip: Vec<_> = (0..8).map(|p| of_frame(&frame(p, Flags::IPV4), 5, None)).collect();
        assert_eq!(ip, [1, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of_frame(&frame(NO_PRIORITY, Flags::NONE), 5, None), 5);
    }

    #[test]
    fn sync_waits_beside_the_traffic_unless_told_otherwise() {
        let sync = Class { kind: Kind::PtpEvent, ..frame(NO_PRIORITY, Flags::NONE) };
        assert_eq!(of_frame(&sync, of_priority(0), None), of_frame(&frame(0, Flags::IPV6), 0, None));
        assert_eq!(of_frame(&sync, 1, Some(7)), 7);
        let general = Class { kind: Kind::PtpGeneral, ..sync };
        assert_eq!(of_frame(&general, 1, Some(7)), 1);
    }
}
