//! IPv4 and IPv6 as such: options, extension headers, fragments, priorities, TCP, what is not opened.

use super::frames::{
    self, C_TAG, IPV4, IPV6, Sum, V4 as Header, authentication, ether, extension, fragment, ipv4, ipv6, ntp,
    padded, ptp, summed, tcp, udp,
};
use super::{CUT, FRAG, NONE, PART, Row, TAG, TCP, UDP, V4, V6, class, row};
use Kind::{Other, PtpEvent};
use plimsoll_classify::Kind;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = priorities();
    rows.extend(ipv4_headers());
    rows.extend(ipv6_headers());
    rows.extend(extensions());
    rows.extend(tcp_segments());
    rows.extend(not_opened());
    rows
}

fn sync() -> Vec<u8> {
    udp(319, 319, &ptp(0, 2, 44))
}

fn priorities() -> Vec<Row> {
    let mut rows = Vec::new();
    // Class selectors with every ECN code point, and what lies between them: EF (46), AF41 (34), CS1 + 2 (10).
    for (dscp, ecn, priority) in [
        (0, 0, 0),
        (8, 1, 1),
        (16, 2, 2),
        (24, 3, 3),
        (32, 0, 4),
        (40, 1, 5),
        (48, 2, 6),
        (56, 3, 7),
        (46, 3, 5),
        (34, 0, 4),
        (10, 2, 1),
        (63, 0, 7),
    ] {
        let tos = dscp << 2 | ecn;
        rows.push(row(
            format!("DSCP {dscp}, ECN {ecn} over IPv4"),
            ether(&[], IPV4, &ipv4(Header { tos, ..Header::default() }, &sync())),
            class(PtpEvent, priority, &[V4, UDP], [14, 34, 42], IPV4, 0),
        ));
        rows.push(row(
            format!("DSCP {dscp}, ECN {ecn} over IPv6"),
            ether(&[], IPV6, &ipv6(tos, &[], frames::UDP, &sync())),
            class(PtpEvent, priority, &[V6, UDP], [14, 54, 62], IPV6, 0),
        ));
    }
    rows.push(row(
        "PCP 0 counts more than DSCP 56",
        ether(&[(C_TAG, 5)], IPV4, &ipv4(Header { tos: 0xE0, ..Header::default() }, &sync())),
        class(PtpEvent, 0, &[TAG, V4, UDP], [18, 38, 46], IPV4, 5),
    ));
    rows
}

fn ipv4_headers() -> Vec<Row> {
    let mut rows = Vec::new();
    for options in (4..=40).step_by(4) {
        let l4 = 34 + options as u8;
        rows.push(row(
            format!("{options} octets of options"),
            ether(&[], IPV4, &ipv4(Header { options, ..Header::default() }, &sync())),
            class(PtpEvent, 0, &[V4, UDP], [14, l4, l4 + 8], IPV4, 0),
        ));
    }
    let with = |header: Header| ether(&[], IPV4, &ipv4(header, &sync()));
    for (name, fragment, is_fragment) in [
        ("first fragment", 0x2000, true),
        ("middle fragment", 0x2001, true),
        ("last fragment", 0x00B9, true),
        ("last fragment, far", 0x1FFF, true),
        ("don't fragment", 0x4000, false),
        ("the reserved bit", 0x8000, false),
        ("don't fragment, and yet a fragment", 0x6000, true),
    ] {
        let expected = if is_fragment {
            class(Other, 0, &[V4, FRAG], [14, 0, 0], IPV4, 0)
        } else {
            class(PtpEvent, 0, &[V4, UDP], [14, 34, 42], IPV4, 0)
        };
        rows.push(row(name, with(Header { fragment, ..Header::default() }), expected));
    }
    let mut other_version = with(Header::default());
    other_version[14] = 0x55;
    let mut small_header = with(Header::default());
    small_header[14] = 0x44;
    let mut large_header = ether(&[], IPV4, &ipv4(Header::default(), &udp(1, 2, &[])));
    large_header[14] = 0x4F;
    let malformed = class(Other, NONE, &[], [14, 0, 0], IPV4, 0);
    rows.extend([
        row("version 5 in an IPv4 frame", other_version, malformed),
        row("IHL 4", small_header, malformed),
        row("IHL 15 in a frame without room", large_header, class(Other, NONE, &[CUT], [14, 0, 0], IPV4, 0)),
        row(
            "total length 0 (BIG TCP)",
            with(Header { total: Some(0), ..Header::default() }),
            class(PtpEvent, 0, &[V4, UDP], [14, 34, 42], IPV4, 0),
        ),
        row(
            "total length of the header alone",
            with(Header { total: Some(20), ..Header::default() }),
            class(Other, 0, &[V4, CUT], [14, 0, 0], IPV4, 0),
        ),
        row(
            "total length less than the header",
            with(Header { total: Some(7), ..Header::default() }),
            class(Other, 0, &[V4, CUT], [14, 0, 0], IPV4, 0),
        ),
        row(
            "total length ends inside the PTP header",
            with(Header { total: Some(20 + 8 + 33), ..Header::default() }),
            class(Other, 0, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0),
        ),
        row(
            "total length beyond the frame",
            with(Header { total: Some(1500), ..Header::default() }),
            class(PtpEvent, 0, &[V4, UDP], [14, 34, 42], IPV4, 0),
        ),
    ]);
    let mut no_length = with(Header::default());
    no_length[38..40].copy_from_slice(&[0, 0]);
    rows.push(row("UDP length 0", no_length, class(PtpEvent, 0, &[V4, UDP], [14, 34, 42], IPV4, 0)));
    let mut short = with(Header::default());
    short[38..40].copy_from_slice(&41u16.to_be_bytes());
    rows.push(row(
        "UDP length ends inside the PTP header",
        short,
        class(Other, 0, &[V4, UDP, CUT], [14, 34, 42], IPV4, 0),
    ));
    rows
}

fn ipv6_headers() -> Vec<Row> {
    let with = |payload: &[u8]| ether(&[], IPV6, &ipv6(0, &[], frames::UDP, payload));
    let mut other_version = with(&sync());
    other_version[14] = 0x45;
    let mut jumbo = with(&sync());
    jumbo[18..20].copy_from_slice(&[0, 0]);
    let mut short = with(&sync());
    short[18..20].copy_from_slice(&7u16.to_be_bytes());
    vec![
        row("version 4 in an IPv6 frame", other_version, class(Other, NONE, &[], [14, 0, 0], IPV6, 0)),
        row("payload length 0", jumbo, class(PtpEvent, 0, &[V6, UDP], [14, 54, 62], IPV6, 0)),
        row("payload length less than a UDP header", short, class(Other, 0, &[V6, CUT], [14, 0, 0], IPV6, 0)),
        row(
            "two tags",
            ether(&[(C_TAG, 0xA001), (frames::S_TAG, 2)], IPV6, &ipv6(0, &[], frames::UDP, &sync())),
            class(PtpEvent, 5, &[TAG, V6, UDP], [22, 62, 70], IPV6, 0xA001),
        ),
    ]
}

fn extensions() -> Vec<Row> {
    let with = |extensions: &[(u8, Vec<u8>)]| ether(&[], IPV6, &ipv6(0, extensions, frames::UDP, &sync()));
    let at = |kind, l4: u8| class(kind, 0, &[V6, UDP], [14, l4, l4 + 8], IPV6, 0);
    let fragmented = class(Other, 0, &[V6, FRAG], [14, 0, 0], IPV6, 0);
    let cut = class(Other, 0, &[V6, CUT], [14, 0, 0], IPV6, 0);
    let each = |count: usize| vec![extension(DESTINATION, 1); count];
    let mut rows = vec![
        row("hop-by-hop options", with(&[extension(HOP_BY_HOP, 1)]), at(PtpEvent, 62)),
        row("routing header", with(&[extension(ROUTING, 3)]), at(PtpEvent, 78)),
        row("destination options", with(&[extension(DESTINATION, 2)]), at(PtpEvent, 70)),
        row(
            "hop-by-hop, destination, routing",
            with(&[extension(HOP_BY_HOP, 1), extension(DESTINATION, 1), extension(ROUTING, 1)]),
            at(PtpEvent, 78),
        ),
        row("six headers", with(&each(6)), at(PtpEvent, 102)),
        row("seven headers", with(&each(7)), cut),
        row("first fragment over IPv6", with(&[fragment(0, true)]), fragmented),
        row("middle fragment over IPv6", with(&[fragment(180, true)]), fragmented),
        row("last fragment over IPv6", with(&[fragment(360, false)]), fragmented),
        row("atomic fragment over IPv6", with(&[fragment(0, false)]), fragmented),
        row("hop-by-hop and fragment", with(&[extension(HOP_BY_HOP, 1), fragment(0, true)]), fragmented),
        row("six headers and a fragment", with(&[each(6), vec![fragment(0, true)]].concat()), fragmented),
        row("authenticated: known, but no mark may touch it", with(&[authentication()]), at(Other, 78)),
        row(
            "hop-by-hop and authenticated",
            with(&[extension(HOP_BY_HOP, 1), authentication()]),
            at(Other, 86),
        ),
        row(
            "authenticated before destination options",
            with(&[authentication(), extension(DESTINATION, 1)]),
            at(Other, 86),
        ),
        row("a header as long as it can be", with(&[extension(ROUTING, 256)]), cut),
        row("a header that ends with the window", with(&[extension(ROUTING, 9)]), cut),
        // 54 + 64 = 118: UDP ends at 126, and PTP's two deciding octets with the window.
        row("PTP's first two octets end with the window", with(&[extension(ROUTING, 8)]), at(PtpEvent, 118)),
        row(
            "the same with a tag: PTP begins behind the window",
            ether(&[(C_TAG, 0)], IPV6, &ipv6(0, &[extension(ROUTING, 8)], frames::UDP, &sync())),
            class(Other, 0, &[TAG, V6, CUT], [18, 0, 0], IPV6, 0),
        ),
        row(
            "UDP ends with the window",
            ether(&[(C_TAG, 0), (C_TAG, 0)], IPV6, &ipv6(0, &[extension(ROUTING, 7)], frames::UDP, &sync())),
            class(PtpEvent, 0, &[TAG, V6, UDP], [22, 118, 126], IPV6, 0),
        ),
    ];
    rows.push(row(
        "destination options end the frame (no next header)",
        ether(&[], IPV6, &ipv6(0, &[extension(DESTINATION, 1)], 59, &[])),
        class(Other, 0, &[V6], [14, 0, 0], IPV6, 0),
    ));
    let mut too_long = with(&[extension(DESTINATION, 1)]);
    too_long[55] = 20; // 168 octets, in a frame of 114
    rows.push(row("a header longer than the frame", too_long, cut));
    rows
}

fn tcp_segments() -> Vec<Row> {
    let mut rows = Vec::new();
    for (sum, length) in [Sum::Complete, Sum::Partial, Sum::Wrong]
        .into_iter()
        .flat_map(|sum| [(sum, 0), (sum, 1), (sum, 1400)])
    {
        let partial = if sum == Sum::Partial { PART } else { TCP };
        let segment = tcp(50000, 319, &vec![0x5A; length]);
        let header = || Header { protocol: frames::TCP, options: 8, ..Header::default() };
        rows.push(row(
            format!("TCPv4 with {length} octets, {sum:?}"),
            padded(summed(ether(&[], IPV4, &ipv4(header(), &segment)), 14, 42, sum)),
            class(Other, 0, &[V4, TCP, partial], [14, 42, 0], IPV4, 0),
        ));
        rows.push(row(
            format!("tagged TCPv6 behind options with {length} octets, {sum:?}"),
            summed(
                ether(
                    &[(C_TAG, 0x4007)],
                    IPV6,
                    &ipv6(0, &[extension(DESTINATION, 1)], frames::TCP, &segment),
                ),
                18,
                66,
                sum,
            ),
            class(Other, 2, &[TAG, V6, TCP, partial], [18, 66, 0], IPV6, 0x4007),
        ));
        rows.push(row(
            format!("TCPv6 behind an Authentication Header with {length} octets, {sum:?}"),
            summed(ether(&[], IPV6, &ipv6(0, &[authentication()], frames::TCP, &segment)), 14, 78, sum),
            class(Other, 0, &[V6, TCP, partial], [14, 78, 0], IPV6, 0),
        ));
    }
    rows
}

fn not_opened() -> Vec<Row> {
    let mut rows = Vec::new();
    let plain_4 = class(Other, 0, &[V4], [14, 0, 0], IPV4, 0);
    let plain_6 = class(Other, 0, &[V6], [14, 0, 0], IPV6, 0);
    // ICMP, IGMP, IPIP, GRE, ESP, AH, OSPF, SCTP, UDP-Lite, no next header; IPv4 knows no extension headers.
    for protocol in [1, 2, 4, 47, 50, 51, 89, 132, 136, 59, 255, 0, 43, 44, 60] {
        rows.push(row(
            format!("IPv4 protocol {protocol}"),
            ether(&[], IPV4, &ipv4(Header { protocol, ..Header::default() }, &sync())),
            plain_4,
        ));
    }
    for protocol in [1, 4, 41, 47, 50, 58, 59, 89, 132, 136, 135, 255] {
        rows.push(row(
            format!("IPv6 next header {protocol}"),
            ether(&[], IPV6, &ipv6(0, &[], protocol, &sync())),
            plain_6,
        ));
    }
    let request = ipv4(Header::default(), &udp(40000, 123, &ntp(4, 3, 48)));
    let quoted = [&[3, 3, 0, 0, 0, 0, 0, 0], &request[..]].concat();
    let request_6 = ipv6(0, &[], frames::UDP, &udp(40000, 123, &ntp(4, 3, 48)));
    let quoted_6 = [&[1, 4, 0, 0, 0, 0, 0, 0], &request_6[..]].concat();
    rows.extend([
        row(
            "ICMP error that quotes NTP",
            ether(&[], IPV4, &ipv4(Header { protocol: 1, ..Header::default() }, &quoted)),
            plain_4,
        ),
        row("ICMPv6 error that quotes NTP", ether(&[], IPV6, &ipv6(0, &[], 58, &quoted_6)), plain_6),
        row(
            "IPv4 in IPv4 with NTP inside",
            ether(&[], IPV4, &ipv4(Header { protocol: 4, ..Header::default() }, &request)),
            plain_4,
        ),
        row(
            "VXLAN with PTP inside",
            ether(
                &[],
                IPV4,
                &ipv4(
                    Header::default(),
                    &udp(
                        53000,
                        4789,
                        &[&[8, 0, 0, 0, 0, 0, 1, 0], &ether(&[], frames::PTP, &ptp(0, 2, 44))[..]].concat(),
                    ),
                ),
            ),
            class(Other, 0, &[V4, UDP], [14, 34, 42], IPV4, 0),
        ),
    ]);
    rows
}
