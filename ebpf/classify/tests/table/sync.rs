//! PTP over UDP, and NTP.

use super::frames::{
    self, IPV4, IPV6, Sum, V4 as Header, ether, ipv4, ipv6, ntp, padded, ptp, ptp_1, summed, udp,
};
use super::{CUT, PART, Row, TAG, UDP, V4, V6, class, row};
use Kind::{NtpRequest, NtpResponse, Other, PtpEvent, PtpGeneral};
use plimsoll_classify::Kind;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = ptp_messages();
    rows.extend(ptp_ports());
    rows.extend(ntp_modes());
    rows.extend(ntp_lengths());
    rows.extend(checksums());
    rows
}

fn over_4(source: u16, destination: u16, message: &[u8]) -> Vec<u8> {
    let packet = ipv4(Header::default(), &udp(source, destination, message));
    padded(summed(ether(&[], IPV4, &packet), 14, 34, Sum::Complete))
}

fn over_6(source: u16, destination: u16, message: &[u8]) -> Vec<u8> {
    let packet = ipv6(0, &[], frames::UDP, &udp(source, destination, message));
    summed(ether(&[], IPV6, &packet), 14, 54, Sum::Complete)
}

fn in_4(kind: Kind) -> plimsoll_classify::Class {
    class(kind, 0, &[V4, UDP], [14, 34, 42], IPV4, 0)
}

fn in_6(kind: Kind) -> plimsoll_classify::Class {
    class(kind, 0, &[V6, UDP], [14, 54, 62], IPV6, 0)
}

fn ptp_messages() -> Vec<Row> {
    let mut rows = Vec::new();
    for message in 0..16u8 {
        let (on_event_port, on_general_port) = match message {
            0x0..=0x3 => (PtpEvent, Other),
            0x8..=0xD => (PtpGeneral, PtpGeneral),
            _ => (Other, Other),
        };
        for (port, kind) in [(319, on_event_port), (320, on_general_port)] {
            // Both minor versions are seen in the field, and majorSdoId 1 too.
            let message_4 = ptp(0x10 | message, 0x02, 64);
            let message_6 = ptp(message, 0x12, 64);
            rows.push(row(
                format!("PTP 2.0 over UDPv4 to {port}, messageType {message:#x}"),
                over_4(port, port, &message_4),
                in_4(kind),
            ));
            rows.push(row(
                format!("PTP 2.1 over UDPv6 to {port}, messageType {message:#x}"),
                over_6(port, port, &message_6),
                in_6(kind),
            ));
        }
    }
    for version in [0x00, 0x01, 0x03, 0x11] {
        // Version 1 begins with 00 01: the row with 0x01 is one.
        let kind = if version == 0x01 { PtpEvent } else { Other };
        rows.push(row(
            format!("first octets 00 {version:02x} over UDPv4"),
            over_4(319, 319, &ptp(0, version, 124)),
            in_4(kind),
        ));
    }
    rows.extend([
        row("PTP 1 to 319", over_4(319, 319, &ptp_1(124)), in_4(PtpEvent)),
        row("PTP 1 to 320", over_4(320, 320, &ptp_1(60)), in_4(PtpGeneral)),
        row("PTP 1 to 319 over UDPv6, another source port", over_6(5000, 319, &ptp_1(124)), in_6(PtpEvent)),
        row("01 01 is no version 1", over_4(319, 319, &ptp(1, 1, 124)), in_4(Other)),
    ]);
    rows
}

fn ptp_ports() -> Vec<Row> {
    let sync = ptp(0, 2, 44);
    let tagged = ether(
        &[(frames::S_TAG, 0x2064), (frames::C_TAG, 0xC00A)],
        IPV4,
        &ipv4(Header { tos: 0xB8, options: 40, ..Header::default() }, &udp(319, 319, &sync)),
    );
    vec![
        row("Sync from another port to 319", over_4(40000, 319, &sync), in_4(PtpEvent)),
        row("Sync from 319 to another port", over_4(319, 40000, &sync), in_4(Other)),
        row("Sync from 320 to 319", over_4(320, 319, &sync), in_4(PtpEvent)),
        row("Sync from 319 to 320", over_4(319, 320, &sync), in_4(Other)),
        row("Sync on other ports", over_6(1073, 7000, &sync), in_6(Other)),
        row("319 wins over NTP's source port", over_4(123, 319, &sync), in_4(PtpEvent)),
        row("320 wins over NTP's source port", over_4(123, 320, &ptp(8, 2, 44)), in_4(PtpGeneral)),
        row(
            "two more octets than messageLength (linuxptp over UDPv6)",
            over_6(319, 319, &ptp(0, 2, 46)),
            in_6(PtpEvent),
        ),
        row(
            "the deepest PTP: two tags and all the options IPv4 has room for",
            tagged,
            class(PtpEvent, 1, &[TAG, V4, UDP], [22, 82, 90], IPV4, 0x2064),
        ),
        row("only the common header", over_6(319, 319, &ptp(0, 2, 34)), in_6(PtpEvent)),
        row(
            "an octet less than the common header",
            over_6(319, 319, &ptp(0, 2, 33)),
            class(Other, 0, &[V6, UDP, CUT], [14, 54, 62], IPV6, 0),
        ),
        row(
            "padding is no part of the message",
            over_4(319, 319, &ptp(0, 2, 6)),
            class(Other, 0, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0),
        ),
        row(
            "an empty datagram to 319",
            over_4(319, 319, &[]),
            class(Other, 0, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0),
        ),
        row("an empty datagram elsewhere", over_4(9, 9, &[]), in_4(Other)),
    ]
}

fn ntp_modes() -> Vec<Row> {
    let mut rows = Vec::new();
    let kinds =
        [Other, NtpRequest, NtpResponse, NtpRequest, NtpResponse, NtpResponse, NtpRequest, NtpRequest];
    for (mode, kind) in (0..8u8).zip(kinds) {
        let message = ntp(4, mode, 48);
        rows.push(row(format!("NTP 4 mode {mode} to 123"), over_4(40000, 123, &message), in_4(kind)));
        rows.push(row(format!("NTP 4 mode {mode} from 123"), over_6(123, 40000, &message), in_6(kind)));
        rows.push(row(format!("NTP 4 mode {mode} between 123"), over_4(123, 123, &message), in_4(kind)));
        let message = ntp(0, mode, 48);
        rows.push(row(format!("version 0 mode {mode}"), over_4(123, 123, &message), in_4(Other)));
    }
    for version in 1..8u8 {
        rows.push(row(
            format!("NTP {version} mode 3"),
            over_4(123, 123, &ntp(version, 3, 48)),
            in_4(NtpRequest),
        ));
        rows.push(row(
            format!("NTP {version} mode 4, leap indicator 3"),
            over_6(123, 123, &[&[0xC0 | version << 3 | 4], &[0; 47][..]].concat()),
            in_6(NtpResponse),
        ));
    }
    let mut response = ntp(2, 6, 12);
    response[1] = 0x82;
    rows.push(row("mode 6 with response bit", over_4(123, 123, &response), in_4(NtpResponse)));
    let mut response = ntp(2, 7, 8);
    response[0] |= 0x80;
    rows.push(row("mode 7 with response bit", over_4(123, 123, &response), in_4(NtpResponse)));
    rows.push(row("NTP on other ports", over_4(1123, 1124, &ntp(4, 3, 48)), in_4(Other)));
    rows
}

fn ntp_lengths() -> Vec<Row> {
    let cut = class(Other, 0, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0);
    let deep = |message: &[u8]| {
        let header = Header { options: 40, ..Header::default() };
        ether(&[(frames::C_TAG, 0xE001), (frames::C_TAG, 1)], IPV4, &ipv4(header, &udp(123, 123, message)))
    };
    vec![
        row("mode 3 with 47 octets", over_4(123, 123, &ntp(4, 3, 47)), cut),
        row("mode 3 with a MAC", over_4(123, 123, &ntp(4, 3, 68)), in_4(NtpRequest)),
        row("mode 4 with extension fields over UDPv6", over_6(123, 123, &ntp(4, 4, 332)), in_6(NtpResponse)),
        row("mode 6 with 12 octets", over_4(123, 123, &ntp(2, 6, 12)), in_4(NtpRequest)),
        row("mode 6 with 11 octets", over_4(123, 123, &ntp(2, 6, 11)), cut),
        row("mode 7 with 8 octets", over_4(123, 123, &ntp(2, 7, 8)), in_4(NtpRequest)),
        row("mode 7 with 7 octets", over_4(123, 123, &ntp(2, 7, 7)), cut),
        row("mode 0 with 10 octets", over_4(123, 123, &ntp(3, 0, 10)), in_4(Other)),
        row(
            "the deepest NTP: its header ends beyond the window but inside the frame",
            deep(&ntp(4, 3, 48)),
            class(NtpRequest, 7, &[TAG, V4, UDP], [22, 82, 90], IPV4, 0xE001),
        ),
        row(
            "the same, an octet short",
            deep(&ntp(4, 3, 47)),
            class(Other, 7, &[TAG, V4, UDP, CUT], [22, 82, 90], IPV4, 0xE001),
        ),
    ]
}

fn checksums() -> Vec<Row> {
    let mut rows = Vec::new();
    // Odd and even lengths; a partial sum must be found with and without padding behind it.
    for length in [44, 45, 64] {
        let event = ptp(1, 2, length);
        let four = ether(&[], IPV4, &ipv4(Header::default(), &udp(319, 319, &event)));
        let six = ether(&[], IPV6, &ipv6(0, &[], frames::UDP, &udp(319, 319, &event)));
        rows.push(row(format!("UDPv4 of {length}, no checksum"), four.clone(), in_4(PtpEvent)));
        rows.push(row(format!("UDPv6 of {length}, an illegal zero checksum"), six.clone(), in_6(PtpEvent)));
        for sum in [Sum::Complete, Sum::Partial, Sum::Wrong] {
            let partial = if sum == Sum::Partial { PART } else { UDP };
            rows.push(row(
                format!("UDPv4 of {length}, {sum:?}"),
                padded(summed(four.clone(), 14, 34, sum)),
                class(PtpEvent, 0, &[V4, UDP, partial], [14, 34, 42], IPV4, 0),
            ));
            rows.push(row(
                format!("UDPv6 of {length}, {sum:?}"),
                summed(six.clone(), 14, 54, sum),
                class(PtpEvent, 0, &[V6, UDP, partial], [14, 54, 62], IPV6, 0),
            ));
        }
    }
    rows
}
