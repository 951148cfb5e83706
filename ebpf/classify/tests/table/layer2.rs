//! Ethernet, VLAN tags, and PTP over Ethernet.

use super::frames::{ARP, C_TAG, PTP, S_TAG, ether, padded, ptp};
use super::{NONE, Row, TAG, class, row};
use Kind::{Other, PtpEvent, PtpGeneral};
use plimsoll_classify::Kind;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = plain();
    rows.extend(tags());
    rows.extend(ptp_messages());
    rows
}

fn plain() -> Vec<Row> {
    let mut rows = vec![
        row("ARP", padded(ether(&[], ARP, &[0; 28])), class(Other, NONE, &[], [14, 0, 0], ARP, 0)),
        row("a header and nothing else", ether(&[], ARP, &[]), class(Other, NONE, &[], [14, 0, 0], ARP, 0)),
        row(
            "802.3 length and LLC (STP)",
            padded(ether(&[], 0x0026, &[0x42, 0x42, 0x03])),
            class(Other, NONE, &[], [14, 0, 0], 0x0026, 0),
        ),
        row(
            "SNAP with IPv4 inside",
            padded(ether(&[], 0x0024, &[0xAA, 0xAA, 0x03, 0, 0, 0, 0x08, 0x00, 0x45])),
            class(Other, NONE, &[], [14, 0, 0], 0x0024, 0),
        ),
    ];
    // PPPoE discovery and session, MPLS, MACsec, PBB, LLDP, GOOSE, the old QinQ TPID: not opened.
    for ethertype in [0x8863, 0x8864, 0x8847, 0x88E5, 0x88E7, 0x88CC, 0x88B8, 0x9100, 0xFFFF, 0x0000] {
        rows.push(row(
            format!("EtherType {ethertype:#06x}"),
            padded(ether(&[], ethertype, &ptp(0, 2, 44))),
            class(Other, NONE, &[], [14, 0, 0], ethertype, 0),
        ));
    }
    rows
}

fn tags() -> Vec<Row> {
    let mut rows = Vec::new();
    for pcp in 0..8u8 {
        let tci = u16::from(pcp) << 13 | 10;
        rows.push(row(
            format!("ARP with a tag of PCP {pcp}"),
            padded(ether(&[(C_TAG, tci)], ARP, &[0; 28])),
            class(Other, pcp, &[TAG], [18, 0, 0], ARP, tci),
        ));
        rows.push(row(
            format!("ARP with a service tag of PCP {pcp}"),
            padded(ether(&[(S_TAG, tci)], ARP, &[0; 28])),
            class(Other, pcp, &[TAG], [18, 0, 0], ARP, tci),
        ));
    }
    let sync = ptp(0, 2, 44);
    rows.extend([
        row(
            "drop eligible, VID 4094",
            padded(ether(&[(C_TAG, 0x1FFE)], ARP, &[0; 28])),
            class(Other, 0, &[TAG], [18, 0, 0], ARP, 0x1FFE),
        ),
        row(
            "priority tag (VID 0)",
            padded(ether(&[(C_TAG, 0xA000)], PTP, &sync)),
            class(PtpEvent, 5, &[TAG], [18, 0, 18], PTP, 0xA000),
        ),
        row(
            "length field behind a tag",
            padded(ether(&[(C_TAG, 0x2001)], 0x0026, &[0x42, 0x42, 0x03])),
            class(Other, 1, &[TAG], [18, 0, 0], 0x0026, 0x2001),
        ),
    ]);
    for (outer, inner) in [(C_TAG, C_TAG), (S_TAG, C_TAG), (C_TAG, S_TAG), (S_TAG, S_TAG)] {
        rows.push(row(
            format!("Sync with tags {outer:#06x} and {inner:#06x}: the outer PCP counts"),
            ether(&[(outer, 0x600A), (inner, 0xE014)], PTP, &sync),
            class(PtpEvent, 3, &[TAG], [22, 0, 22], PTP, 0x600A),
        ));
        rows.push(row(
            format!("a third tag behind {outer:#06x} and {inner:#06x}"),
            ether(&[(outer, 0x600A), (inner, 0xE014), (outer, 0xE015)], PTP, &sync),
            class(Other, 3, &[TAG], [22, 0, 0], outer, 0x600A),
        ));
    }
    rows.push(row(
        "0x9100 outside, 0x8100 inside: the outer one is no tag",
        ether(&[(0x9100, 0x600A), (C_TAG, 0xE014)], PTP, &sync),
        class(Other, NONE, &[], [14, 0, 0], 0x9100, 0),
    ));
    rows.push(row(
        "0x8100 outside, 0x9100 inside",
        ether(&[(C_TAG, 0x600A), (0x9100, 0xE014)], PTP, &sync),
        class(Other, 3, &[TAG], [18, 0, 0], 0x9100, 0x600A),
    ));
    rows
}

fn ptp_messages() -> Vec<Row> {
    let mut rows = Vec::new();
    for (version, name) in [(0x02, "2.0"), (0x12, "2.1")] {
        for message in 0..16u8 {
            let kind = match message {
                0x0..=0x3 => PtpEvent,
                0x8..=0xD => PtpGeneral,
                _ => Other,
            };
            rows.push(row(
                format!("PTP {name} over Ethernet, messageType {message:#x}"),
                padded(ether(&[], PTP, &ptp(message, version, 44))),
                class(kind, NONE, &[], [14, 0, 14], PTP, 0),
            ));
        }
    }
    for version in [0x00, 0x01, 0x03, 0x0F, 0x20, 0x21] {
        rows.push(row(
            format!("version octet {version:#04x} over Ethernet"),
            padded(ether(&[], PTP, &ptp(0, version, 44))),
            class(Other, NONE, &[], [14, 0, 14], PTP, 0),
        ));
    }
    for (first, kind) in
        [(0x10, PtpEvent), (0x12, PtpEvent), (0x13, PtpEvent), (0xF1, PtpEvent), (0x18, PtpGeneral)]
    {
        rows.push(row(
            format!("majorSdoId and messageType {first:#04x}"),
            padded(ether(&[], PTP, &ptp(first, 0x02, 54))),
            class(kind, NONE, &[], [14, 0, 14], PTP, 0),
        ));
    }
    for destination in [[0x01, 0x80, 0xC2, 0, 0, 0x0E], [0x02, 0, 0, 0, 0, 0x02], [0xFF; 6]] {
        let mut frame = padded(ether(&[], PTP, &ptp(2, 2, 54)));
        frame[..6].copy_from_slice(&destination);
        rows.push(row(
            format!("Pdelay_Req to {destination:02x?}"),
            frame,
            class(PtpEvent, NONE, &[], [14, 0, 14], PTP, 0),
        ));
    }
    rows.push(row(
        "messageLength beyond the frame: a kind, the marker looks closer",
        padded(ether(&[], PTP, &[&ptp(0, 2, 44)[..2], &[0xFF, 0xFF], &[0; 40]].concat())),
        class(PtpEvent, NONE, &[], [14, 0, 14], PTP, 0),
    ));
    rows
}
