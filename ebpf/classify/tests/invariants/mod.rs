//! What holds of every frame whatsoever. The property test and the fuzz target call it.

#![allow(unreachable_pub)]

use plimsoll_classify::{Class, Flags, Kind, NO_PRIORITY, WINDOW, classify};

const PTP: u16 = 0x88F7;

/// Classifies a frame in a window that was all `before`.
fn in_window(frame: &[u8], before: u8) -> Class {
    let mut window = [before; WINDOW];
    let seen = frame.len().min(WINDOW);
    window[..seen].copy_from_slice(&frame[..seen]);
    classify(&window, frame.len() as u32)
}

/// Panics where an invariant does not hold; else says what the frame is.
pub fn check(frame: &[u8]) -> Class {
    let class = in_window(frame, 0x00);
    assert_eq!(class, in_window(frame, 0xFF), "octets past the end matter");
    assert_eq!(Class::from_meta(&class.to_meta(7)), Some((class, 7)));

    let len = frame.len();
    let (l3, l4, payload) = (usize::from(class.l3), usize::from(class.l4), usize::from(class.payload));
    let flag = |flag| class.flags.has(flag);
    let (ip, transport) = (flag(Flags::IPV4) || flag(Flags::IPV6), flag(Flags::UDP) || flag(Flags::TCP));

    assert_eq!(l3 == 0, len < 14);
    assert!(matches!(l3, 0 | 14 | 18 | 22) && l3 <= len);
    assert_eq!(flag(Flags::TAGGED), l3 > 14 || (l3 == 14 && class.tci != 0));
    if flag(Flags::TAGGED) {
        assert_eq!(u16::from(class.priority), class.tci >> 13);
    } else {
        assert_eq!(class.tci, 0);
        assert_eq!(class.priority == NO_PRIORITY, !ip);
    }

    assert!(!(flag(Flags::IPV4) && flag(Flags::IPV6)));
    if flag(Flags::IPV4) {
        assert_eq!(class.ethertype, 0x0800);
        assert!(l3 + 20 <= len && frame[l3] >> 4 == 4);
        assert!(!transport || l4 == l3 + usize::from(frame[l3] & 15) * 4);
    }
    if flag(Flags::IPV6) {
        assert_eq!(class.ethertype, 0x86DD);
        assert!(l3 + 40 <= len && frame[l3] >> 4 == 6);
        assert!(!transport || (l4 >= l3 + 40 && (l4 - l3).is_multiple_of(4)));
    }
    assert!(!flag(Flags::FRAGMENT) || (ip && !transport));
    assert!(!flag(Flags::PARTIAL_CHECKSUM) || transport);

    assert!(!(flag(Flags::UDP) && flag(Flags::TCP)));
    assert!(!transport || ip);
    assert_eq!(l4 != 0, transport);
    assert!(!flag(Flags::UDP) || (payload == l4 + 8 && payload <= len));
    assert!(!flag(Flags::TCP) || (payload == 0 && l4 + 20 <= len));
    if !transport {
        assert!(payload == 0 || (payload == l3 && class.ethertype == PTP));
    }

    if class.kind != Kind::Other {
        assert!(!flag(Flags::TRUNCATED) && !flag(Flags::FRAGMENT));
        assert!(flag(Flags::UDP) || (class.ethertype == PTP && !ip));
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (least, on_its_port) = match class.kind {
            Kind::PtpEvent => (34, !flag(Flags::UDP) || port(l4 + 2) == 319),
            Kind::PtpGeneral => (34, !flag(Flags::UDP) || matches!(port(l4 + 2), 319 | 320)),
            _ => (8, flag(Flags::UDP) && (port(l4) == 123 || port(l4 + 2) == 123)),
        };
        assert!(payload + least <= len, "the header is not inside the frame");
        assert!(on_its_port);
    }
    class
}
