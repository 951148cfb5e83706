//! What a switch writes into a frame is what its maker would have written: every carrier, tag depth, IP version and
//! option length, all ECN bits, and checksums at which one's complement has two zeros. And no octets whatever harm it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, Packet, Sum, station};
use plimsoll_classify::{Class, Flags, Kind};
use plimsoll_core::{
    Carriers, Counter, Departure, EcnConfig, EcnScope, Ect, MarkConfig, PortConfig, Rate, SwitchConfig,
};
use proptest::prelude::*;

/// What carries the word, the sender's octets of it that nobody else reads, and how many there are in front.
#[derive(Clone, Debug)]
enum Carrier {
    PtpOverEthernet(u8),
    Ptp(u8),
    /// Mode, and the lengths of other fields before ours.
    Ntp(u8, Vec<u16>),
}

/// A frame as its maker knows it.
#[derive(Clone, Debug)]
struct Maker {
    carrier: Carrier,
    packet: Packet,
    /// Two octets of the message that no switch looks at: clockIdentity, or NTP's transmit timestamp.
    spare: u16,
}

impl Maker {
    /// The frame with this word and these ECN bits.
    fn make(&self, word: u32, ecn: u8) -> Vec<u8> {
        let packet = Packet { tos: self.packet.tos & !3 | ecn, ..self.packet.clone() };
        let (from, to) = (station(0), station(1));
        match &self.carrier {
            Carrier::PtpOverEthernet(message_type) => {
                common::ethernet(from, to, &packet.tags, 0x88F7, &self.ptp(*message_type, word))
            }
            Carrier::Ptp(message_type) => packet.udp(from, to, 319, &self.ptp(*message_type, word)),
            Carrier::Ntp(mode, before) => {
                let mut message = common::ntp(4, *mode);
                message[46..48].copy_from_slice(&self.spare.to_be_bytes());
                for &len in before {
                    message.extend([[2, 4], len.to_be_bytes()].concat());
                    message.resize(message.len() + usize::from(len) - 4, 0x3C);
                }
                message.extend(common::ntp_field(word));
                packet.udp(from, to, 123, &message)
            }
        }
    }

    fn ptp(&self, message_type: u8, word: u32) -> Vec<u8> {
        let mut message = common::ptp_message(message_type, word, 0);
        message[26..28].copy_from_slice(&self.spare.to_be_bytes());
        message
    }

    fn over_ip(&self) -> bool {
        !matches!(self.carrier, Carrier::PtpOverEthernet(_))
    }

    /// The same with a UDP sum of 0xFFFF (all ones, as UDP writes a sum of zero) when it has this word.
    fn with_sum_of_zero(&self, word: u32) -> Self {
        let zero = Self { spare: 0, ..self.clone() };
        let at = self.packet.payload() - 2;
        let octets = zero.make(word, 0);
        // What the sum lacks to all ones is what it is itself: one's complement adds to it.
        Self { spare: u16::from_be_bytes([octets[at], octets[at + 1]]), ..zero }
    }

    fn udp_sum(&self, octets: &[u8]) -> u16 {
        let at = self.packet.payload() - 2;
        u16::from_be_bytes([octets[at], octets[at + 1]])
    }
}

fn maker() -> impl Strategy<Value = Maker> {
    let carrier = prop_oneof![
        1 => (0u8..4).prop_map(Carrier::PtpOverEthernet),
        3 => (0u8..4).prop_map(Carrier::Ptp),
        3 => (1u8..6, prop::collection::vec((4u16..12).prop_map(|n| n * 4), 0..3)).prop_map(|(m, b)| Carrier::Ntp(m, b)),
    ];
    let tags = prop::collection::vec((0u16..8).prop_map(|pcp| pcp << 13 | 7), 0..3);
    let sum = prop_oneof![4 => Just(Sum::Complete), 1 => Just(Sum::Zero), 1 => Just(Sum::Partial)];
    (carrier, any::<bool>(), any::<u8>(), tags, 0u8..11, any::<u16>(), sum, any::<u16>()).prop_map(
        |(carrier, v6, tos, tags, options, id, sum, spare)| {
            let sum = if v6 && sum == Sum::Zero { Sum::Complete } else { sum };
            let options = if v6 { 0 } else { options };
            let packet = Packet { v6, tos, tags, options, id, sum, fragment: false };
            Maker { carrier, packet, spare }
        },
    )
}

/// A switch whose port 1 has the marks, and a host at port 0.
fn switch(mark: MarkConfig, ecn: Option<EcnConfig>, remark: Option<Ect>, trust: bool) -> SwitchConfig {
    let a = PortConfig { remark, trust, ..PortConfig::new("a") };
    let b = PortConfig { rate: Some(Rate(100_000_000)), mark: Some(mark), ecn, ..PortConfig::new("b") };
    SwitchConfig { ports: vec![a, b], ..SwitchConfig::default() }
}

fn config() -> impl Strategy<Value = SwitchConfig> {
    let counter = prop::sample::select(vec![
        Counter::Integer,
        Counter::Shift,
        Counter::IntegerBoth,
        Counter::ShiftBoth,
    ]);
    let classical = (1u64..400_000_000, prop::option::of(prop::sample::select(vec![Ect::Zero, Ect::One])));
    let ecn = prop_oneof![1 => Just(None), 2 => classical.prop_map(Some)];
    (counter, 1u32..40, 1u64..60_000_000, any::<bool>(), ecn, any::<bool>()).prop_map(
        |(counter, r, delta, modified, ecn, trust)| {
            let mark = MarkConfig {
                counter,
                carriers: Carriers { ptp: true, ntp: true, ecn: modified },
                ..MarkConfig::new(r, delta)
            };
            let ecn = ecn.filter(|_| !modified);
            let remark = ecn.and_then(|(_, remark)| remark);
            let ecn = ecn.map(|(threshold_ps, _)| EcnConfig { threshold_ps, scope: EcnScope::All });
            switch(mark, ecn, remark, trust)
        },
    )
}

/// Sends the frame behind `queued` others of 1500 octets at once; what became of it.
fn through(config: &SwitchConfig, octets: Vec<u8>, queued: usize) -> (Departure, Vec<u8>) {
    let mut bench = Bench::new(config.clone(), 100);
    for _ in 0..queued {
        // Of the highest class, so that they leave first whatever the frame's own is.
        bench.receive(0, common::plain(station(0), station(1), Some(7 << 13), 1504), 1000);
    }
    let frame = bench.receive(0, octets, 1000);
    bench.advance(u64::MAX);
    bench.departed().into_iter().find(|(d, _)| d.frame == frame).unwrap()
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => Just(0u32),
        2 => (0u32..1000).prop_map(|n| 1 << 30 | n),
        1 => Just(0x7FFF_FFFE),
        1 => (0u32..1 << 15, 0u32..1 << 15).prop_map(|(f, r)| 2 << 30 | f << 15 | r),
        1 => (0u32..30).prop_map(|n| 3 << 30 | ((1 << n) - 1)),
        1 => (0u32..15, 0u32..15).prop_map(|(f, r)| 7 << 29 | ((1 << f) - 1) << 14 | ((1 << r) - 1)),
        1 => any::<u32>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// The switch's frame is the frame that its maker writes with the word and the ECN bits that the record tells,
    /// sums from the ground up, as random, and made so that the UDP sum is all ones before, and after.
    #[test]
    fn what_leaves_is_as_made_anew(config in config(), maker in maker(), word in word(), queued in 0usize..12) {
        let ecn = maker.packet.tos & 3;
        let (first, _) = through(&config, maker.make(word, ecn), queued);
        let mut makers = vec![maker.clone()];
        let tuned = maker.over_ip() && maker.packet.sum == Sum::Complete;
        if tuned {
            makers.extend([word, first.mark.after].map(|word| maker.with_sum_of_zero(word)));
            prop_assert_eq!(makers[1].udp_sum(&makers[1].make(word, ecn)), 0xFFFF);
            prop_assert_eq!(makers[2].udp_sum(&makers[2].make(first.mark.after, ecn)), 0xFFFF);
        }
        for maker in makers {
            let sent = maker.make(word, ecn);
            let partial = common::classified(&sent).flags.has(Flags::PARTIAL_CHECKSUM);
            prop_assert!(partial || maker.packet.sum != Sum::Partial || !maker.over_ip());
            let (d, octets) = through(&config, sent.clone(), queued);
            let mut expected = maker.make(d.mark.after, if maker.over_ip() { d.mark.ecn_after } else { 0 });
            if partial {
                // Whether it is one or only looks like one: it is not touched.
                let at = maker.packet.payload() - 2;
                expected[at..at + 2].copy_from_slice(&sent[at..at + 2]);
            }
            prop_assert_eq!(octets, expected, "{:?}", d.mark);
            prop_assert_eq!(d.mark, first.mark);
        }
    }

    /// Random octets and random classes, right ones too: nothing panics, every frame is accounted for, and what cannot
    /// change does not.
    #[test]
    fn no_octets_harm_it(
        config in config(),
        frames in prop::collection::vec((
            prop::collection::vec(any::<u8>(), 0..260), any::<bool>(), 0u8..5, any::<[u8; 4]>(), maker(), any::<u32>(),
            prop::collection::vec((0usize..200, any::<u8>()), 0..4), 0u8..3,
        ), 1..30),
    ) {
        let mut bench = Bench::new(config, 1000);
        let mut lens = Vec::new();
        for (at, (octets, native, kind, [flags, l3, l4, payload], maker, word, changes, how)) in (0..).zip(frames) {
            let octets = match how {
                0 => octets,
                _ => {
                    let mut made = maker.make(word, maker.packet.tos & 3);
                    for (place, octet) in changes {
                        let place = place % made.len();
                        made[place] = octet;
                    }
                    if how == 2 { made.truncate(usize::from(l3).max(14)); }
                    made
                }
            };
            lens.push(octets.len());
            let info = if native { common::classified(&octets) } else {
                Class { kind: Kind::from_abi(kind), flags: Flags(flags), l3, l4, payload, ..Class::OTHER }
            };
            bench.receive_as(0, octets, &info, at * 1000);
        }
        bench.advance(u64::MAX);
        let departed = bench.departed();
        prop_assert_eq!(bench.pool.out(), 0);
        prop_assert_eq!(departed.len() + bench.told.discards.len(), lens.len());
        for (d, octets) in departed {
            prop_assert_eq!(octets.len(), lens[d.frame.0 as usize]);
        }
    }
}

/// A path of switches in any order gives the same total: min(N, sum of r), in the word and in modified ECN.
#[test]
fn a_path_counts_the_sum_in_any_order() {
    let counters = [Counter::Integer, Counter::Shift, Counter::IntegerBoth, Counter::ShiftBoth];
    // Frames queued at each hop; 1524 octets are 121.92 us, so that delta = 120 us makes r = 1 of each.
    for path in [[1, 0, 2], [2, 1, 0], [0, 2, 1], [9, 8, 7], [7, 9, 8]] {
        for counter in counters {
            for maker in [
                Maker { carrier: Carrier::Ptp(1), packet: Packet::default(), spare: 0 },
                Maker {
                    carrier: Carrier::Ntp(4, vec![]),
                    packet: Packet { v6: true, ..Packet::default() },
                    spare: 0,
                },
            ] {
                let carriers = Carriers { ptp: true, ntp: true, ecn: true };
                let mark = MarkConfig { counter, carriers, ..MarkConfig::new(9, 120_000_000) };
                let config = switch(mark, None, None, true);
                let mut octets = maker.make(0, 0);
                for queued in path {
                    octets = through(&config, octets, queued).1;
                }
                let total: u32 = path.iter().sum::<usize>() as u32;
                let forward = matches!(maker.carrier, Carrier::Ptp(1));
                let (word, ecn) = match counter {
                    Counter::Integer => (1 << 30 | total, total.min(3)),
                    Counter::Shift => (3 << 30 | ((1 << total) - 1), [0, 1, 3][total.min(2) as usize]),
                    Counter::IntegerBoth if forward => (2 << 30 | total << 15, 2),
                    Counter::IntegerBoth => (2 << 30 | total, 1),
                    Counter::ShiftBoth if forward => (7 << 29 | ((1 << total.min(14)) - 1) << 14, 2),
                    Counter::ShiftBoth => (7 << 29 | ((1 << total.min(14)) - 1), 1),
                };
                assert_eq!(octets, maker.make(word, ecn as u8), "{counter:?} {path:?} {maker:?}");
            }
        }
    }
}

/// Every way out of the marker at once: what the counters of a port tell of a keyed NTP message, of control messages,
/// of a carrier that is off.
#[test]
fn skips_are_counted_by_their_names() {
    let mark = MarkConfig {
        carriers: Carriers { ptp: false, ntp: true, ecn: false },
        ..MarkConfig::new(4, 60_000_000)
    };
    let mut bench = Bench::new(switch(mark, None, None, false), 100);
    let packet = Packet::default();
    let mut send = |message: Vec<u8>, port| {
        bench.receive(0, packet.udp(station(0), station(1), port, &message), 1000);
    };
    send([common::ntp(4, 3), common::ntp_field(0), vec![0; 20]].concat(), 123);
    send([common::ntp(4, 3), common::ntp_field(0x4000_0003), vec![0; 24]].concat(), 123);
    send([common::ntp(4, 3), vec![0; 24]].concat(), 123);
    send([common::ntp(3, 3), common::ntp_field(0)].concat(), 123);
    send([common::ntp(4, 6), common::ntp_field(0)].concat(), 123);
    send([common::ntp(4, 3), common::ntp_field(0)].concat(), 123);
    send(common::ptp_message(0, 0, 0), 319);
    bench.advance(u64::MAX);
    let stats = bench.switch.stats();
    let counts: Vec<_> =
        stats.ports[1].mark.iter().filter(|(_, n)| *n > 0).map(|(o, n)| (o.name(), n)).collect();
    assert_eq!(
        counts,
        [
            ("zero", 1),
            ("skip_carrier", 1),
            ("skip_ntp_version", 1),
            ("skip_ntp_mode", 1),
            ("skip_no_field", 1),
            ("skip_field_not_last", 2),
        ]
    );
    assert_eq!(stats.ports[0].counts_untouched, 1);
    assert_eq!(stats.ports[0].counts_cleared, 0);
}
