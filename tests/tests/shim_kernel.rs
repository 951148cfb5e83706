//! The host shims as the kernel runs them, against tables of what they must do, and against the same source in user
//! space on damaged frames. What a frame must look like afterwards is built anew, sums included.
#![allow(clippy::unwrap_used)]

#[path = "shim/kernel.rs"]
mod kernel;
#[path = "shim/packet.rs"]
mod packet;
#[path = "../../ebpf/classify/tests/table/mod.rs"]
mod table;

use kernel::Kernel;
use packet::{Native, Ran};
use plimsoll_shim::{LONGEST_WAIT, Program, Settings};
use plimsoll_tests::ntp::{Packet as Ntp, Tail};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::time::Duration;
use table::frames::{self, Sum, V4};

const DELTA_PS: u64 = 60_000_001;
const STAMP: u64 = 1_900_000_000_123_456_789;
const SETTINGS: Settings = Settings {
    delta_ps: DELTA_PS,
    ce_ps: 200_000_000,
    counter_max: u32::MAX,
    follow_up: false,
    ntp_field: true,
    ect: 0b10,
};
/// ECN bits.
const CE: u8 = 0b11;

/// Both runs of a program; they must agree.
struct Both {
    kernel: Kernel,
    native: Native,
}

impl Both {
    fn new(program: Program, settings: Settings) -> Self {
        Self { kernel: Kernel::new(program, settings), native: Native::new(program, settings) }
    }

    fn run(&mut self, frame: &[u8], stamp: u64) -> Ran {
        let ran = self.kernel.run(frame, stamp);
        assert_eq!(ran, self.native.run(frame, stamp), "kernel, user space: {frame:02x?}");
        ran
    }
}

/// BPF_PROG_TEST_RUN of tc programs takes no frame without an octet behind its Ethernet header and, of IP, no packet
/// without its header.
fn least(frame: &[u8]) -> usize {
    match u16::from_be_bytes([frame[12], frame[13]]) {
        frames::IPV4 => 34,
        frames::IPV6 => 54,
        _ => 15,
    }
}

/// What is below a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Under {
    Ethernet { tags: usize },
    Ip4 { tags: usize, options: usize, sum: bool },
    Ip6 { tags: usize, extensions: usize, sum: bool },
}

const UNDER: [Under; 10] = [
    Under::Ethernet { tags: 0 },
    Under::Ethernet { tags: 1 },
    Under::Ethernet { tags: 2 },
    Under::Ip4 { tags: 0, options: 0, sum: true },
    Under::Ip4 { tags: 0, options: 0, sum: false },
    Under::Ip4 { tags: 1, options: 8, sum: true },
    Under::Ip4 { tags: 2, options: 40, sum: false },
    Under::Ip6 { tags: 0, extensions: 0, sum: true },
    Under::Ip6 { tags: 2, extensions: 0, sum: true },
    Under::Ip6 { tags: 0, extensions: 1, sum: true },
];

impl Under {
    /// The frame around a message to this UDP port, with these ECN bits.
    fn frame(self, port: u16, ecn: u8, message: &[u8]) -> Vec<u8> {
        let all = [(frames::S_TAG, 0x6007), (frames::C_TAG, 0x0009)];
        let tags = |count: usize| &all[2 - count..];
        let udp = frames::udp(port, port, message);
        let (frame, l3, l4, sum) = match self {
            Self::Ethernet { tags: count } => {
                return frames::padded(frames::ether(tags(count), frames::PTP, message));
            }
            Self::Ip4 { tags: count, options, sum } => {
                let packet = frames::ipv4(V4 { tos: 0xB8 | ecn, options, ..V4::default() }, &udp);
                let l3 = 14 + 4 * count;
                (frames::ether(tags(count), frames::IPV4, &packet), l3, l3 + 20 + options, sum)
            }
            Self::Ip6 { tags: count, extensions, sum } => {
                let between = vec![frames::extension(0, 1); extensions];
                let packet = frames::ipv6(0xB8 | ecn, &between, frames::UDP, &udp);
                let l3 = 14 + 4 * count;
                (frames::ether(tags(count), frames::IPV6, &packet), l3, l3 + 40 + 8 * extensions, sum)
            }
        };
        let mut frame = if sum { frames::summed(frame, l3, l4, Sum::Complete) } else { frame };
        if sum && frame[l4 + 6..l4 + 8] == [0, 0] {
            frame[l4 + 6..l4 + 8].fill(0xFF);
        }
        frame
    }

    fn is_ethernet(self) -> bool {
        matches!(self, Self::Ethernet { .. })
    }
}

/// A PTP message.
#[derive(Clone, Copy, Debug)]
struct Ptp {
    kind: u8,
    version: u8,
    word: u32,
    correction: i64,
    two_step: bool,
    sequence: u16,
}

impl Ptp {
    fn new(kind: u8, word: u32) -> Self {
        Self { kind, version: 0x12, word, correction: 0, two_step: true, sequence: 77 }
    }

    fn octets(self) -> Vec<u8> {
        let length = if matches!(self.kind, 2 | 3 | 0xA) { 54 } else { 44 };
        let mut octets = frames::ptp(0x10 | self.kind, self.version, length);
        octets[4] = 3;
        octets[6] = u8::from(self.two_step) << 1;
        octets[8..16].copy_from_slice(&self.correction.to_be_bytes());
        octets[16..20].copy_from_slice(&self.word.to_be_bytes());
        octets[20..30].copy_from_slice(&[2, 0, 0, 0xFF, 0xFE, 0, 0, 1, 0, 1]);
        octets[30..32].copy_from_slice(&self.sequence.to_be_bytes());
        octets[34..].iter_mut().enumerate().for_each(|(at, octet)| *octet = at as u8);
        octets
    }

    fn over(self, under: Under) -> Vec<u8> {
        under.frame(if self.kind < 4 { 319 } else { 320 }, 0, &self.octets())
    }
}

/// A word, its count for a request and for a response, and what of it each leaves behind; `None`: not valid.
type Word = (u32, Option<([u32; 2], [u32; 2])>);

const WORDS: [Word; 14] = [
    (0, Some(([0, 0], [0, 0]))),
    (0x3FFF_FFFF, Some(([0, 0], [0x3FFF_FFFF, 0x3FFF_FFFF]))), // a PHY's receive time
    (0x4000_0000, Some(([0, 0], [0x4000_0000, 0x4000_0000]))),
    (0x4000_0005, Some(([5, 5], [0, 0]))),
    (0x7FFF_FFFF, Some(([0x3FFF_FFFF, 0x3FFF_FFFF], [0, 0]))),
    (0x8001_8002, Some(([3, 2], [0x8000_0002, 0x8001_8000]))),
    (0xBFFF_FFFF, Some(([32_767, 32_767], [0x8000_7FFF, 0xBFFF_8000]))),
    (0xC000_0007, Some(([3, 3], [0, 0]))),
    (0xDFFF_FFFF, Some(([29, 29], [0, 0]))),
    (0xC000_0005, None),
    (0xE000_C001, Some(([2, 1], [0xE000_0001, 0xE000_C000]))),
    (0xEFFF_FFFF, Some(([14, 14], [0xE000_3FFF, 0xEFFF_C000]))),
    (0xE000_8001, None),
    (0xF000_0000, None),
];

const ONE_SECOND_PS: u128 = 1_000_000_000_000;

/// n * delta, at most a second, in ps.
fn worth(count: u32) -> u128 {
    (u128::from(count) * u128::from(DELTA_PS)).min(ONE_SECOND_PS)
}

fn nanoseconds(ps: u128) -> u64 {
    ((ps + 500) / 1000) as u64
}

fn scaled(ps: u128) -> i64 {
    ((ps * 65_536 + 500) / 1000) as i64
}

fn counts<const N: usize>(entries: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    entries.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// 0 for a request, 1 for a response.
fn way(kind: u8) -> usize {
    usize::from(!matches!(kind, 1 | 2))
}

/// Counts of a message that is worth this.
fn used(name: &'static str, marks: u32, ps: u128) -> BTreeMap<&'static str, u64> {
    counts([(name, 1), ("marks", marks.into()), ("compensated_ns", nanoseconds(ps))])
}

#[test]
fn the_correction_shim_adds_every_count_once_and_clears_it() {
    let mut shim = Both::new(Program::Correction, SETTINGS);
    let mut cases = 0;
    for under in UNDER {
        for (kind, (word, meaning)) in (0..4).flat_map(|kind| WORDS.map(|word| (kind, word))) {
            for correction in [0, -1, 5 << 16, i64::MIN, i64::MAX - 1, i64::MAX] {
                let message = Ptp { correction, ..Ptp::new(kind, word) };
                let ran = shim.run(&message.over(under), STAMP);
                let (after, expected) = match meaning {
                    None => (message, counts([("invalid_word", 1)])),
                    Some((n, _)) if n[way(kind)] == 0 => (message, counts([("empty", 1)])),
                    Some((n, left)) => {
                        let (n, word) = (n[way(kind)], left[way(kind)]);
                        let sum = i128::from(correction) + i128::from(scaled(worth(n)));
                        let added = sum.min(i64::MAX.into()) - i128::from(correction);
                        let name = match () {
                            () if correction == i64::MAX => "overflowed",
                            () if sum >= i64::MAX.into() || worth(n) == ONE_SECOND_PS => "capped",
                            () => "compensated",
                        };
                        let mut used = counts([(name, 1)]);
                        if name != "overflowed" {
                            let ns = (added + 32_768) / 65_536;
                            used.extend(counts([("marks", n.into()), ("compensated_ns", ns as u64)]));
                        }
                        let correction = sum.min(i64::MAX.into()) as i64;
                        (Ptp { word, correction, ..message }, used)
                    }
                };
                assert_eq!(ran.counts, expected, "{message:?} over {under:?}");
                assert_eq!(ran.frame, after.over(under), "{message:?} over {under:?}");
                // A second shim finds nothing, but what was the other direction's.
                let again = shim.run(&ran.frame, STAMP);
                assert_eq!(again.frame, ran.frame, "{message:?} over {under:?}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 10 * 4 * 14 * 6);
}

#[test]
fn the_timestamp_shim_moves_stamps_of_ptp_over_udp() {
    let mut shim = Both::new(Program::Timestamp, SETTINGS);
    for under in UNDER {
        for (kind, (word, meaning)) in (0..4).flat_map(|kind| WORDS.map(|word| (kind, word))) {
            let message = Ptp::new(kind, word);
            // What an edge port leaves behind, CE, is no count of PTP.
            let frame = under.frame(319, CE, &message.octets());
            let ran = shim.run(&frame, STAMP);
            let (after, ps, expected) = match meaning {
                _ if under.is_ethernet() => (message, 0, counts([("layer_2", 1)])),
                None => (message, 0, counts([("invalid_word", 1)])),
                Some((n, _)) if n[way(kind)] == 0 => (message, 0, counts([("empty", 1)])),
                Some((n, left)) => {
                    let (n, word) = (n[way(kind)], left[way(kind)]);
                    let name = if worth(n) == ONE_SECOND_PS { "capped" } else { "compensated" };
                    (Ptp { word, ..message }, worth(n), used(name, n, worth(n)))
                }
            };
            assert_eq!(ran.counts, expected, "{message:?} over {under:?}");
            assert_eq!(ran.stamp, STAMP - nanoseconds(ps), "{message:?} over {under:?}");
            assert_eq!(ran.frame, under.frame(319, CE, &after.octets()), "{message:?} over {under:?}");
            let again = shim.run(&ran.frame, ran.stamp);
            assert_eq!((again.frame, again.stamp), (ran.frame, ran.stamp), "twice: {message:?}");
        }
    }
}

#[test]
fn counts_are_believed_up_to_n_and_stamps_never_become_none() {
    let settings = Settings { counter_max: 4, ..SETTINGS };
    let under = Under::Ip4 { tags: 0, options: 0, sum: true };
    let forged = Ptp::new(0, 0x7FFF_FFFF);
    let mut stamps = Both::new(Program::Timestamp, settings);
    let ran = stamps.run(&forged.over(under), STAMP);
    assert_eq!(ran.stamp, STAMP - nanoseconds(worth(4)));
    assert_eq!(ran.counts, used("capped", 4, worth(4)));
    assert_eq!(stamps.run(&forged.over(under), 1000).stamp, 1);
    // Without a stamp the count stays for who can use it.
    let none = stamps.run(&forged.over(under), 0);
    assert_eq!((none.stamp, none.counts), (0, counts([("no_timestamp", 1)])));
    assert_eq!(none.frame, forged.over(under));
    let mut corrections = Both::new(Program::Correction, settings);
    let ran = corrections.run(&forged.over(under), STAMP);
    assert_eq!(ran.frame, Ptp { word: 0, correction: scaled(worth(4)), ..forged }.over(under));
}

/// An NTP message: what it is worth by its tail and CE.
struct NtpCase {
    tail: Tail,
    ce: bool,
    after: Tail,
    ps: u128,
    count: &'static str,
    marks: u32,
}

fn ntp_cases() -> Vec<NtpCase> {
    let ce_ps = u128::from(SETTINGS.ce_ps);
    let case = |tail, ce, after, ps, count, marks| NtpCase { tail, ce, after, ps, count, marks };
    let same = |tail, ce, ps, count, marks| NtpCase { tail, ce, after: tail, ps, count, marks };
    vec![
        same(Tail::Plain, false, 0, "empty", 0),
        same(Tail::Plain, true, ce_ps, "compensated_ce", 1),
        same(Tail::Field(0), false, 0, "empty", 0),
        same(Tail::Field(0), true, ce_ps, "compensated_ce", 1),
        case(Tail::Field(0x4000_0003), false, Tail::Field(0), worth(3), "compensated", 3),
        // The word counts; CE is cleared with it.
        case(Tail::Field(0xC000_0007), true, Tail::Field(0), worth(3), "compensated", 3),
        same(Tail::Field(0xC000_0005), false, 0, "invalid_word", 0),
        same(Tail::Field(0xC000_0005), true, ce_ps, "compensated_ce", 1),
        same(Tail::FieldThenMac(0x4000_0003), false, 0, "authenticated", 0),
        same(Tail::FieldThenMac(0x4000_0003), true, ce_ps, "compensated_ce", 1),
        same(Tail::Mac, false, 0, "empty", 0),
        same(Tail::Mac, true, ce_ps, "compensated_ce", 1),
        same(Tail::Other, true, ce_ps, "compensated_ce", 1),
        same(Tail::Foreign(0x4000_0003), false, 0, "empty", 0),
    ]
}

#[test]
fn the_timestamp_shim_reads_ntp_by_field_or_ce_and_keeps_what_is_authenticated() {
    let mut shim = Both::new(Program::Timestamp, SETTINGS);
    for under in UNDER.into_iter().filter(|under| !under.is_ethernet()) {
        for mode in 1..=5 {
            for case in ntp_cases() {
                let frame = |tail, ecn| under.frame(123, ecn, &Ntp { mode, tail }.octets());
                let ran = shim.run(&frame(case.tail, if case.ce { CE } else { 0b10 }), STAMP);
                let about = format!("mode {mode}, {:?}, CE {}, over {under:?}", case.tail, case.ce);
                assert_eq!(ran.counts, used(case.count, case.marks, case.ps), "{about}");
                assert_eq!(ran.stamp, STAMP - nanoseconds(case.ps), "{about}");
                // CE that was used is ECT(0) afterwards; nothing else of an authenticated message changes.
                assert_eq!(ran.frame, frame(case.after, 0b10), "{about}");
                let again = shim.run(&ran.frame, ran.stamp);
                assert_eq!((again.frame, again.stamp), (ran.frame, ran.stamp), "twice: {about}");
            }
        }
    }
    // CE of a message without a stamp, or where it counts for nothing, stays.
    let under = Under::Ip4 { tags: 0, options: 0, sum: true };
    let frame = under.frame(123, CE, &Ntp { mode: 4, tail: Tail::Plain }.octets());
    assert_eq!(shim.run(&frame, 0).frame, frame);
    let mut deaf = Both::new(Program::Timestamp, Settings { ce_ps: 0, ..SETTINGS });
    assert_eq!(deaf.run(&frame, STAMP), Ran { frame, stamp: STAMP, counts: counts([("empty", 1)]) });
}

#[test]
fn words_of_both_directions_in_ntp_fields_keep_the_other_one() {
    let mut shim = Both::new(Program::Timestamp, SETTINGS);
    let under = Under::Ip6 { tags: 0, extensions: 0, sum: true };
    for (mode, after, count) in [(3, 0x8000_0002, 3), (4, 0x8001_8000, 2)] {
        let frame = |word| under.frame(123, 0, &Ntp { mode, tail: Tail::Field(word) }.octets());
        let ran = shim.run(&frame(0x8001_8002), STAMP);
        assert_eq!(ran.frame, frame(after), "mode {mode}");
        assert_eq!(ran.stamp, STAMP - nanoseconds(worth(count)));
    }
}

/// A message that must stay as it is, and the name of the reason.
fn left_alone() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let marked = Ptp::new(0, 0x4000_0005);
    let v4 = Under::Ip4 { tags: 0, options: 0, sum: true };
    let tlv = |kind: u16, length: u16| [&kind.to_be_bytes()[..], &length.to_be_bytes()].concat();
    let with = |tail: &[u8]| {
        let mut octets = [&marked.octets()[..], tail].concat();
        let length = (octets.len() as u16).to_be_bytes();
        octets[2..4].copy_from_slice(&length);
        octets
    };
    let authentication = [tlv(0x2004, 2), vec![1, 2], tlv(0x8009, 4), vec![0; 4]].concat();
    let long = {
        let mut octets = marked.octets();
        octets[3] = 45;
        octets
    };
    let short = {
        let mut octets = marked.octets();
        octets[3] = 43;
        octets
    };
    let no_sum = Under::Ip6 { tags: 0, extensions: 0, sum: false };
    vec![
        ("version 1 in the header", Ptp { version: 0x11, ..marked }.over(v4), "other"),
        ("PTPv1", v4.frame(319, 0, &frames::ptp_1(124)), "other"),
        ("a general message", Ptp::new(0xB, 0x4000_0005).over(v4), "other"),
        ("to another port", v4.frame(1319, 0, &marked.octets()), "other"),
        ("an AUTHENTICATION TLV", v4.frame(319, 0, &with(&authentication)), "authenticated"),
        ("nine TLVs", v4.frame(319, 0, &with(&tlv(0x2004, 0).repeat(9))), "authenticated"),
        ("messageLength beyond the datagram", v4.frame(319, 0, &long), "length"),
        ("messageLength below the body", v4.frame(319, 0, &short), "length"),
        ("IPv6 without a sum", marked.over(no_sum), "zero_checksum"),
    ]
}

#[test]
fn what_may_not_be_changed_stays_for_a_reason_with_a_name() {
    for program in [Program::Correction, Program::Timestamp] {
        let mut shim = Both::new(program, SETTINGS);
        for (about, frame, reason) in left_alone() {
            // Over Ethernet tc cannot help; none of these is.
            let ran = shim.run(&frame, STAMP);
            assert_eq!(
                ran,
                Ran { frame, stamp: STAMP, counts: counts([(reason, 1)]) },
                "{about}, {program:?}"
            );
        }
        // Eight TLVs and octets behind messageLength are no reason.
        let tlvs = [0x20, 0x04, 0, 0].repeat(7);
        let mut octets = [Ptp::new(0, 0x4000_0005).octets(), tlvs, vec![0, 0]].concat();
        octets[3] = 44 + 28;
        let frame = Under::Ip6 { tags: 0, extensions: 0, sum: true }.frame(319, 0, &octets);
        assert_eq!(shim.run(&frame, STAMP).counts, used("compensated", 5, worth(5)), "{program:?}");
    }
}

#[test]
fn wrong_sums_stay_wrong_and_partial_ones_are_left_at_xdp() {
    let mut shim = Both::new(Program::Correction, SETTINGS);
    let under = Under::Ip4 { tags: 0, options: 0, sum: true };
    let frame = |message: Ptp, sum| frames::summed(message.over(under), 14, 34, sum);
    let (before, after) = (Ptp::new(1, 0x4000_0005), Ptp { correction: scaled(worth(5)), ..Ptp::new(1, 0) });
    assert_eq!(shim.run(&frame(before, Sum::Partial), STAMP).frame, frame(after, Sum::Partial));
    let ran = shim.run(&frame(before, Sum::Wrong), STAMP).frame;
    assert_ne!(ran[40..42], after.over(under)[40..42], "a wrong sum was made right");
    assert_eq!(ran[42..], after.over(under)[42..]);
}

#[test]
fn marks_of_two_step_messages_go_into_their_follow_ups_once() {
    let settings = Settings { follow_up: true, ..SETTINGS };
    let mut shim = Both::new(Program::Correction, settings);
    for under in UNDER {
        for (event, general) in [(0, 8), (3, 0xA)] {
            let marked = Ptp::new(event, 0x4000_0005);
            let set_aside = shim.run(&marked.over(under), STAMP);
            assert_eq!(set_aside.counts, counts([("set_aside", 1)]), "{under:?}");
            assert_eq!(set_aside.frame, Ptp::new(event, 0).over(under));
            // Of another Sync, another clock: nothing.
            let mut follow_up = Ptp { correction: -7, ..Ptp::new(general, 0) };
            let other = Ptp { sequence: 78, ..follow_up }.over(under);
            assert_eq!(shim.run(&other, STAMP).counts, counts([("empty", 1)]));
            let ran = shim.run(&follow_up.over(under), STAMP);
            assert_eq!(ran.counts, used("followed_up", 5, worth(5)));
            follow_up.correction += scaled(worth(5));
            assert_eq!(ran.frame, follow_up.over(under), "{under:?}");
            assert_eq!(shim.run(&ran.frame, STAMP).counts, counts([("empty", 1)]), "twice");
            // One-step messages and requests have no follow-up.
            let one_step = Ptp { two_step: false, ..marked };
            let ran = shim.run(&one_step.over(under), STAMP);
            let after = Ptp { word: 0, correction: scaled(worth(5)), ..one_step };
            assert_eq!(ran.frame, after.over(under));
        }
        let request = shim.run(&Ptp::new(2, 0x4000_0005).over(under), STAMP);
        assert_eq!(request.counts, used("compensated", 5, worth(5)));
    }
    // Unless asked for, follow-ups are no messages of the shim's.
    let mut plain = Both::new(Program::Correction, SETTINGS);
    assert_eq!(plain.run(&Ptp::new(8, 0).over(UNDER[0]), STAMP).counts, counts([("other", 1)]));
}

#[test]
fn a_delay_whose_follow_up_never_came_is_not_given_to_a_later_message_of_its_number() {
    let mut shim = Both::new(Program::Correction, Settings { follow_up: true, ..SETTINGS });
    let under = UNDER[0];
    let nothing = counts([("empty", 1)]);
    for (event, general) in [(0, 8), (3, 0xA)] {
        let (marked, follow_up) = (Ptp::new(event, 0x4000_0005), Ptp::new(general, 0));
        // Another domain's message of the number is another message.
        assert_eq!(shim.run(&marked.over(under), STAMP).counts["set_aside"], 1);
        let mut other = Ptp::new(event, 0).over(under);
        other[14 + 4] += 1;
        assert_eq!(shim.run(&other, STAMP).counts, nothing);
        assert_eq!(shim.run(&follow_up.over(under), STAMP).counts["followed_up"], 1);
        // The number comes again, without marks.
        assert_eq!(shim.run(&marked.over(under), STAMP).counts["set_aside"], 1);
        assert_eq!(shim.run(&Ptp::new(event, 0).over(under), STAMP).counts, nothing);
        let ran = shim.run(&follow_up.over(under), STAMP);
        assert_eq!((ran.frame, ran.counts), (follow_up.over(under), nothing.clone()), "type {event}");
        // Its event message was lost.
        assert_eq!(shim.run(&marked.over(under), STAMP).counts["set_aside"], 1);
        std::thread::sleep(Duration::from_nanos(LONGEST_WAIT + 100_000_000));
        let ran = shim.run(&follow_up.over(under), STAMP);
        assert_eq!((ran.frame, ran.counts), (follow_up.over(under), nothing.clone()), "type {event}");
    }
}

#[test]
fn messages_leave_ecn_capable_and_bare_ntp_with_a_field() {
    let mut shim = Both::new(Program::Egress, SETTINGS);
    let mut one = Both::new(Program::Egress, Settings { ect: 0b01, ntp_field: false, ..SETTINGS });
    for under in UNDER {
        let ntp = |mode, tail, ecn| under.frame(123, ecn, &Ntp { mode, tail }.octets());
        if under.is_ethernet() {
            let frame = Ptp::new(0, 0).over(under);
            assert_eq!(shim.run(&frame, 0), Ran { frame, stamp: 0, counts: counts([("other", 1)]) });
            continue;
        }
        for mode in 1..=5 {
            for ecn in 0..4 {
                let leaves = if ecn == 0 { 0b10 } else { ecn };
                let ect = if ecn == 0 { "ect_set" } else { "ect_there" };
                let ran = shim.run(&ntp(mode, Tail::Plain, ecn), 0);
                assert_eq!(ran.frame, ntp(mode, Tail::Field(0), leaves), "mode {mode}, {ecn:02b}, {under:?}");
                assert_eq!(ran.counts, counts([(ect, 1), ("field_added", 1)]));
                for tail in [Tail::Mac, Tail::Field(7), Tail::FieldThenMac(0), Tail::Other, Tail::Foreign(0)]
                {
                    let ran = shim.run(&ntp(mode, tail, ecn), 0);
                    assert_eq!(ran.frame, ntp(mode, tail, leaves), "mode {mode}, {tail:?}, {under:?}");
                    assert_eq!(ran.counts, counts([(ect, 1), ("field_left", 1)]));
                }
            }
        }
        for kind in 0..4 {
            let octets = Ptp::new(kind, 0).octets();
            let ran = shim.run(&under.frame(319, 0, &octets), 0);
            assert_eq!(ran.frame, under.frame(319, 0b10, &octets), "{under:?}");
            let ran = one.run(&under.frame(319, 0, &octets), 0);
            assert_eq!(ran.frame, under.frame(319, 0b01, &octets), "{under:?}");
        }
        // Control messages and older versions carry no field; the former no time either.
        let control = under.frame(123, 0, &frames::ntp(4, 6, 48));
        assert_eq!(shim.run(&control, 0).frame, control);
        let old = shim.run(&under.frame(123, 0, &frames::ntp(3, 3, 48)), 0);
        assert_eq!(old.frame, under.frame(123, 0b10, &frames::ntp(3, 3, 48)));
        assert_eq!(one.run(&ntp(3, Tail::Plain, 0), 0).frame, ntp(3, Tail::Plain, 0b01));
    }
    // Without the settings nothing is touched, and each frame counts once.
    let mut idle = Both::new(Program::Egress, Settings { ect: 0, ntp_field: false, ..SETTINGS });
    let ntp = |tail| UNDER[3].frame(123, 0, &Ntp { mode: 3, tail }.octets());
    let other = |frame| Ran { frame, stamp: 0, counts: counts([("other", 1)]) };
    assert_eq!(idle.run(&ntp(Tail::Plain), 0), other(ntp(Tail::Plain)));
    let mut fields = Both::new(Program::Egress, Settings { ect: 0, ..SETTINGS });
    let ptp = Ptp::new(0, 0).over(UNDER[3]);
    assert_eq!(fields.run(&ptp, 0), other(ptp));
    let added = Ran { frame: ntp(Tail::Field(0)), stamp: 0, counts: counts([("field_added", 1)]) };
    assert_eq!(fields.run(&ntp(Tail::Plain), 0), added);
}

#[test]
fn cut_frames_stay_as_they_are() {
    for program in Program::ALL {
        let mut shim = Both::new(program, Settings { ect: 0, ..SETTINGS });
        for under in UNDER {
            let ptp = under.frame(319, 0, &Ptp::new(0, 0x4000_0005).octets());
            let ntp = under.frame(123, 0, &Ntp { mode: 4, tail: Tail::Field(0x4000_0003) }.octets());
            for frame in [ptp, ntp] {
                let whole = if under.is_ethernet() { 44 + 14 } else { frame.len() };
                for length in least(&frame)..whole.min(frame.len()) {
                    let cut = &frame[..length];
                    let ran = shim.run(cut, STAMP);
                    assert_eq!((ran.frame.as_slice(), ran.stamp), (cut, STAMP), "{length} of {under:?}");
                }
            }
        }
    }
}

#[test]
fn kernel_and_user_space_agree_on_damaged_frames() {
    let mut whole: Vec<Vec<u8>> = table::whole().into_iter().map(|row| row.frame).collect();
    for under in UNDER {
        whole.extend((0..4).map(|kind| Ptp::new(kind, 0x4000_0005).over(under)));
        whole.push(Ptp::new(8, 0).over(under));
        for tail in [Tail::Plain, Tail::Field(0x8001_8002), Tail::FieldThenMac(3), Tail::Other] {
            whole.push(under.frame(123, CE, &Ntp { mode: 3, tail }.octets()));
        }
    }
    let seed = 0x5348_494D;
    let settings = Settings { follow_up: true, ..SETTINGS };
    for program in Program::ALL {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut shim = Both::new(program, settings);
        for _ in 0..2000 {
            let mut frame = whole.choose(&mut random).unwrap().clone();
            for _ in 0..random.random_range(0..5) {
                let at = random.random_range(12..frame.len());
                frame[at] = random.random();
            }
            let least = least(&frame);
            frame.resize(random.random_range(least..frame.len() + 20), 0x5A);
            shim.run(&frame, STAMP);
        }
    }
}
