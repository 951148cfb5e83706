//! Representative frames, cut at every length. What a cut frame is, is written down as steps: from this length on, this.

use super::frames::{
    self, C_TAG, IPV4, IPV6, PTP, S_TAG, Sum, V4 as Header, ether, extension, ipv4, ipv6, ntp, ptp, summed,
    tcp, udp,
};
use super::{CUT, NONE, PART, Row, TAG, TCP, UDP, V4, V6, class, row};
use Kind::{NtpRequest, Other, PtpEvent, PtpGeneral};
use plimsoll_classify::{Class, Kind};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, frame, steps) in cases() {
        for length in 0..=frame.len() {
            let (_, class) = steps.iter().rev().find(|(from, _)| *from <= length).expect("a step from 0");
            rows.push(row(format!("{name}, cut to {length}"), frame[..length].to_vec(), *class));
        }
    }
    rows
}

/// What every frame is while its Ethernet header is incomplete.
fn no_header() -> (usize, Class) {
    (0, class(Other, NONE, &[CUT], [0, 0, 0], 0, 0))
}

type Case = (&'static str, Vec<u8>, Vec<(usize, Class)>);

fn cases() -> Vec<Case> {
    vec![
        (
            "Sync over Ethernet",
            ether(&[], PTP, &ptp(0, 2, 44)),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 14], PTP, 0)),
                (48, class(PtpEvent, NONE, &[], [14, 0, 14], PTP, 0)),
            ],
        ),
        (
            "Follow_Up behind two tags",
            ether(&[(S_TAG, 0x6064), (C_TAG, 0xE00A)], PTP, &ptp(8, 2, 44)),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], S_TAG, 0)),
                (18, class(Other, 3, &[TAG, CUT], [18, 0, 0], C_TAG, 0x6064)),
                (22, class(Other, 3, &[TAG, CUT], [22, 0, 22], PTP, 0x6064)),
                (56, class(PtpGeneral, 3, &[TAG], [22, 0, 22], PTP, 0x6064)),
            ],
        ),
        (
            "Delay_Req over tagged UDPv4 with options, partial checksum",
            summed(
                ether(
                    &[(C_TAG, 0xA00A)],
                    IPV4,
                    &ipv4(Header { options: 8, ..Header::default() }, &udp(319, 319, &ptp(1, 2, 44))),
                ),
                18,
                46,
                Sum::Partial,
            ),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], C_TAG, 0)),
                (18, class(Other, 5, &[TAG, CUT], [18, 0, 0], IPV4, 0xA00A)),
                (46, class(Other, 5, &[TAG, V4, CUT], [18, 0, 0], IPV4, 0xA00A)),
                (54, class(Other, 5, &[TAG, V4, UDP, PART, CUT], [18, 46, 54], IPV4, 0xA00A)),
                (88, class(PtpEvent, 5, &[TAG, V4, UDP, PART], [18, 46, 54], IPV4, 0xA00A)),
            ],
        ),
        (
            "NTP request over UDPv4",
            ether(
                &[],
                IPV4,
                &ipv4(Header { tos: 0xB8, ..Header::default() }, &udp(123, 123, &ntp(4, 3, 48))),
            ),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], IPV4, 0)),
                (34, class(Other, 5, &[V4, CUT], [14, 0, 0], IPV4, 0)),
                (42, class(Other, 5, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0)),
                (90, class(NtpRequest, 5, &[V4, UDP], [14, 34, 42], IPV4, 0)),
            ],
        ),
        (
            "Sync over UDPv6 behind two extension headers",
            ether(
                &[],
                IPV6,
                &ipv6(
                    0,
                    &[extension(0, 1), extension(60, 2)],
                    frames::UDP,
                    &udp(319, 319, &ptp(0, 0x12, 44)),
                ),
            ),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], IPV6, 0)),
                (54, class(Other, 0, &[V6, CUT], [14, 0, 0], IPV6, 0)),
                (86, class(Other, 0, &[V6, UDP, CUT], [14, 78, 86], IPV6, 0)),
                (120, class(PtpEvent, 0, &[V6, UDP], [14, 78, 86], IPV6, 0)),
            ],
        ),
        (
            "TCPv6, partial checksum",
            summed(
                ether(&[], IPV6, &ipv6(0x20, &[], frames::TCP, &tcp(5001, 40000, &[1; 100]))),
                14,
                54,
                Sum::Partial,
            ),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], IPV6, 0)),
                (54, class(Other, 1, &[V6, CUT], [14, 0, 0], IPV6, 0)),
                (74, class(Other, 1, &[V6, TCP, PART], [14, 54, 0], IPV6, 0)),
            ],
        ),
        (
            "the deepest NTP",
            ether(
                &[(C_TAG, 0xE001), (S_TAG, 1)],
                IPV4,
                &ipv4(Header { options: 40, ..Header::default() }, &udp(123, 123, &ntp(4, 1, 48))),
            ),
            vec![
                no_header(),
                (14, class(Other, NONE, &[CUT], [14, 0, 0], C_TAG, 0)),
                (18, class(Other, 7, &[TAG, CUT], [18, 0, 0], S_TAG, 0xE001)),
                (22, class(Other, 7, &[TAG, CUT], [22, 0, 0], IPV4, 0xE001)),
                (82, class(Other, 7, &[TAG, V4, CUT], [22, 0, 0], IPV4, 0xE001)),
                (90, class(Other, 7, &[TAG, V4, UDP, CUT], [22, 82, 90], IPV4, 0xE001)),
                (138, class(NtpRequest, 7, &[TAG, V4, UDP], [22, 82, 90], IPV4, 0xE001)),
            ],
        ),
    ]
}
