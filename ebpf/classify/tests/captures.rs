//! Real captures, classified as their truth table says.
//!
//! They are not part of this repository: `../shared/captures` beside the checkout, or the folder that PLIMSOLL_CAPTURES
//! names. Where there is none, the test says so and ends.

use pcap_file::pcap::PcapReader;
use plimsoll_classify::{Class, Flags, Kind, NO_PRIORITY, WINDOW, classify};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

const TRUTH: &str = "truth.tsv";

/// Where the table tells something else than the frame does, in a column beside the kind: (file, frame, what, why).
const KNOWN: [(&str, &str, &str, &str); 2] = [
    (
        "crafted-encap-and-truncated.pcap",
        "76",
        "EtherType",
        "0x88E7 behind the tag; the table lists what is in it",
    ),
    (
        "ipv6-exthdr-options-ah-srh.pcap",
        "14",
        "UDP source port",
        "bad destination options end the table's walk",
    ),
];

fn folder() -> PathBuf {
    std::env::var_os("PLIMSOLL_CAPTURES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures"), PathBuf::from)
}

/// A line of the truth table, by column.
struct Truth<'a>(HashMap<&'a str, &'a str>);

impl<'a> Truth<'a> {
    fn column(&self, name: &str) -> &'a str {
        self.0.get(name).unwrap_or_else(|| panic!("{TRUTH} has no column {name}"))
    }

    /// A number, `None` for "-".
    fn number(&self, name: &str) -> Option<u32> {
        let text = self.column(name);
        (text != "-").then(|| text.parse().unwrap_or_else(|_| panic!("{name} is {text}")))
    }

    /// The first element of a list by commas or `>`.
    fn first(&self, name: &str) -> &'a str {
        let text = self.column(name);
        text.split([',', '>']).next().unwrap_or(text)
    }

    fn place(&self) -> String {
        format!("{} frame {} ({})", self.column("file"), self.column("frame"), self.column("protocols"))
    }

    fn kind(&self) -> Kind {
        match self.column("kind") {
            "other" => Kind::Other,
            "ptp-event" => Kind::PtpEvent,
            "ptp-general" => Kind::PtpGeneral,
            "ntp-request" => Kind::NtpRequest,
            "ntp-response" => Kind::NtpResponse,
            kind => panic!("{TRUTH} knows a kind {kind}"),
        }
    }

    /// The tags a bridge sees: those in front, of the two TPIDs it knows, two at most.
    fn tags(&self) -> usize {
        self.column("etypes").split('>').take(2).take_while(|e| matches!(*e, "0x8100" | "0x88a8")).count()
    }

    /// The EtherType behind those tags; `None` for a length.
    fn ethertype(&self) -> Option<u16> {
        let text = self.column("etypes").split('>').nth(self.tags())?;
        u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }
}

/// Whether the truth table and the class agree, in everything that the table tells.
fn compare(truth: &Truth<'_>, class: &Class, frame: &[u8]) -> Result<(), (&'static str, String)> {
    let expect = |what: &'static str, found: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
        let (found, wanted) = (format!("{found:?}"), format!("{wanted:?}"));
        if found == wanted { Ok(()) } else { Err((what, format!("{what} is {found}, should be {wanted}"))) }
    };
    expect("kind", &class.kind, &truth.kind())?;

    let tags = truth.tags();
    expect("tagged", &class.flags.has(Flags::TAGGED), &(tags > 0))?;
    expect("l3", &usize::from(class.l3), &(14 + 4 * tags))?;
    match truth.ethertype() {
        Some(ethertype) => expect("EtherType", &class.ethertype, &ethertype)?,
        None => expect("length field", &(class.ethertype < 0x600), &true)?,
    }
    let pcp: Option<u8> = (tags > 0).then(|| truth.first("pcps").parse().expect("a PCP"));
    if let Some(pcp) = pcp {
        let dei: u16 = truth.first("deis").parse().expect("a DEI");
        let vid: u16 = truth.first("vlan_ids").parse().expect("a VID");
        expect("TCI", &class.tci, &(u16::from(pcp) << 13 | dei << 12 | vid))?;
    } else {
        expect("TCI", &class.tci, &0)?;
    }

    // The network layer right behind the tags; a header that the capture cut is no layer.
    let (ipv4, ipv6) = (class.flags.has(Flags::IPV4), class.flags.has(Flags::IPV6));
    let at = 14 + 4 * tags;
    let version = frame.get(at).map(|octet| octet >> 4);
    let options_fit = frame.get(at).is_some_and(|octet| at + usize::from(octet & 15) * 4 <= frame.len());
    let is_4 = truth.ethertype() == Some(0x0800) && version == Some(4) && frame[at] & 15 >= 5 && options_fit;
    let is_6 = truth.ethertype() == Some(0x86DD) && version == Some(6) && at + 40 <= frame.len();
    expect("IPv4", &ipv4, &is_4)?;
    expect("IPv6", &ipv6, &is_6)?;
    if is_4 || is_6 {
        expect("IP version", &truth.first("ipver"), &if is_4 { "4" } else { "6" })?;
        let fragment = !matches!(truth.first("frag"), "no" | "-");
        expect("fragment", &class.flags.has(Flags::FRAGMENT), &fragment)?;
        let dscp: Option<u8> = truth.first("dscp").parse().ok();
        if let (None, Some(dscp)) = (pcp, dscp) {
            expect("priority", &class.priority, &(dscp >> 3))?;
        }
    } else {
        expect("priority", &class.priority, &pcp.unwrap_or(NO_PRIORITY))?;
    }

    // UDP of the outer packet: its ports are the first in the table.
    let source = truth.first("udp_sport").parse::<u16>().ok();
    if class.flags.has(Flags::UDP) {
        let l4 = usize::from(class.l4);
        let port = u16::from_be_bytes([frame[l4], frame[l4 + 1]]);
        expect("UDP source port", &Some(port), &source)?;
        expect("payload", &class.payload, &(class.l4 + 8))?;
        if truth.first("udp_ck") == "good" {
            expect("partial checksum", &class.flags.has(Flags::PARTIAL_CHECKSUM), &false)?;
        }
        if matches!(truth.first("udp_ck"), "zero" | "illegal-zero") {
            expect("partial checksum", &class.flags.has(Flags::PARTIAL_CHECKSUM), &false)?;
        }
    } else if (is_4 || is_6) && source.is_some() && !class.flags.has(Flags::FRAGMENT) {
        // The table says UDP: then only a cut, a tunnel or a long chain may hide it.
        let hidden =
            class.flags.has(Flags::TRUNCATED) || truth.column("protocols").matches(":ip").count() > 1;
        let tunnel =
            ["gre", "llc", "pppoes", "mpls", "ah"].iter().any(|t| truth.column("protocols").contains(t));
        expect("UDP found", &(hidden || tunnel), &true)?;
    }
    if let Some(offset) = truth.number("ptp_hdr_off") {
        expect("PTP header", &u32::from(class.payload), &offset)?;
    }
    if let Some(offset) = truth.number("ptp_mts_off") {
        expect("marking word", &(u32::from(class.payload) + 16), &offset)?;
    }
    if let (Some(offset), false) = (truth.number("ntp_off"), class.flags.has(Flags::FRAGMENT)) {
        expect("NTP header", &u32::from(class.payload), &offset)?;
    }
    Ok(())
}

#[test]
fn captures_are_what_the_truth_table_says() {
    let folder = folder();
    if !folder.is_dir() {
        // Past the harness, which keeps what a passing test prints to itself.
        let _ = writeln!(
            std::io::stderr(),
            "captures: SKIPPED, there is no {}; PLIMSOLL_CAPTURES names the folder",
            folder.display()
        );
        return;
    }
    let table = fs::read_to_string(folder.join(TRUTH)).expect("the truth table");
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().expect("a header line").split('\t').collect();
    let mut truth: HashMap<&str, Vec<Truth<'_>>> = HashMap::new();
    for line in lines {
        let row = Truth(columns.iter().copied().zip(line.split('\t')).collect());
        truth.entry(row.column("file")).or_default().push(row);
    }
    assert!(!truth.is_empty(), "{TRUTH} is empty");

    let (mut frames, mut wrong, mut known) = (0, Vec::new(), [false; KNOWN.len()]);
    for (file, rows) in &truth {
        let capture = File::open(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut reader = PcapReader::new(capture).unwrap_or_else(|error| panic!("{file}: {error}"));
        for row in rows {
            let packet =
                reader.next_raw_packet().unwrap_or_else(|| panic!("{file} ends before {}", row.place()));
            let frame = packet.unwrap_or_else(|error| panic!("{}: {error}", row.place())).data;
            assert_eq!(row.number("caplen"), Some(frame.len() as u32), "{}", row.place());
            let mut window = [0xEE; WINDOW];
            let seen = frame.len().min(WINDOW);
            window[..seen].copy_from_slice(&frame[..seen]);
            let class = classify(&window, frame.len() as u32);
            frames += 1;
            let Err((what, difference)) = compare(row, &class, &frame) else { continue };
            let place = (row.column("file"), row.column("frame"));
            if let Some(index) =
                KNOWN.iter().position(|known| (known.0, known.1, known.2) == (place.0, place.1, what))
            {
                known[index] = true;
            } else {
                wrong.push(format!("{}: {difference}", row.place()));
            }
        }
        assert!(reader.next_raw_packet().is_none(), "{file} has frames that {TRUTH} does not have");
    }
    assert!(wrong.is_empty(), "{} of {frames} frames wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(known, [true; KNOWN.len()], "a known difference is none any more");
    println!("{frames} frames in {} captures", truth.len());
}
