//! The switch against the naive model: random ports, frames and moments of advancing; every departure, start, end,
//! depth, r, word, ECN bits, correction and drop must be the model's, exactly, and no other octet may change.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod frames;
mod marks;
mod model;

use common::{Bench, Carrier, ipv4_sum_is_right, udp_sum_is_right};
use frames::{Content, Made, Places, content};
use model::{Left, Lost, Sent};
use plimsoll_classify::{Class, Flags};
use plimsoll_core::{
    Carriers, Counter, Departure, Depth, DepthScope, DepthUnit, EcnConfig, EcnOutcome, EcnScope, Ect,
    MarkConfig, Nanos, PortConfig, Rate, Rule, SwitchConfig, VidRange, Vlan,
};
use proptest::prelude::*;
use std::collections::HashMap;

const AGE: u64 = 2_000_000;

/// A frame as the generator chose it.
#[derive(Clone, Debug)]
struct Choice {
    gap: u64,
    back: u64,
    port: usize,
    source: u8,
    destination: Destination,
    content: Content,
    /// Where in the gap before it the links are advanced, in 1/8.
    advance: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Destination {
    Station(u8),
    Broadcast,
    PtpMulticast,
    Reserved(u8),
}

fn choice(ports: usize) -> impl Strategy<Value = Choice> {
    let destination = prop_oneof![
        8 => (0u8..6).prop_map(Destination::Station),
        1 => Just(Destination::Broadcast),
        2 => Just(Destination::PtpMulticast),
        1 => prop_oneof![Just(0x0Eu8), Just(0x00), Just(0x02)].prop_map(Destination::Reserved),
    ];
    // 6720 ns is a least frame at 100 Mbit/s, and a delta below: depths that hit a threshold exactly.
    let gap = prop_oneof![
        2 => Just(0u64), 2 => (0u64..8).prop_map(|n| n * 6720), 4 => 0u64..20_000, 3 => 0u64..300_000, 1 => 0u64..AGE,
    ];
    let back = prop_oneof![9 => Just(0u64), 1 => 0u64..3000];
    let source = prop_oneof![20 => 0u8..6, 1 => Just(0xFFu8)];
    (gap, back, 0..ports, source, destination, content(), prop::option::of(0u64..9)).prop_map(
        |(gap, back, port, source, destination, content, advance)| Choice {
            gap,
            back,
            port,
            source,
            destination,
            content,
            advance,
        },
    )
}

/// Cells stand with 0 octets until delta is known.
fn depth() -> impl Strategy<Value = Depth> {
    let scope = prop::sample::select(vec![DepthScope::Ahead, DepthScope::Queue, DepthScope::Port]);
    let unit = prop_oneof![
        2 => Just(DepthUnit::Exact),
        1 => Just(DepthUnit::Frames { in_service: true }),
        1 => Just(DepthUnit::Frames { in_service: false }),
        2 => Just(DepthUnit::Cells { octets: 0 }),
    ];
    prop_oneof![1 => Just(Depth::default()), 3 => (scope, unit).prop_map(|(scope, unit)| Depth { scope, unit })]
}

/// Cells of K/2^n octets, n as small as the configuration takes, or of 80 where there is no K; exact where K has none.
fn fit_cells(port: &mut PortConfig) {
    if port.depth.unit != (DepthUnit::Cells { octets: 0 }) {
        return;
    }
    let (Some(rate), Some(mark)) = (port.rate, &mut port.mark) else {
        port.depth.unit = DepthUnit::Cells { octets: 80 };
        return;
    };
    mark.rule = Rule::Edge;
    let k = model::k(mark.delta_ps, rate);
    let fits = (0..40)
        .map(|n| (k.is_multiple_of(1 << n), k >> n))
        .find(|(whole, cell)| *whole && (1..=2000).contains(cell));
    port.depth.unit = match fits {
        Some((_, octets)) => DepthUnit::Cells { octets: octets as u32 },
        None => DepthUnit::Exact,
    };
}

fn vlan() -> impl Strategy<Value = Vlan> {
    let vid = || 5u16..8;
    let range = (vid(), 0u16..2).prop_map(|(first, more)| VidRange { first, last: first + more });
    let trunk = (prop::collection::vec(range, 1..3), prop::option::of(vid()))
        .prop_map(|(allowed, native)| Vlan::Trunk { allowed, native });
    prop_oneof![1 => Just(Vlan::Transparent), 2 => vid().prop_map(|pvid| Vlan::Access { pvid }), 2 => trunk]
}

fn port() -> impl Strategy<Value = PortConfig> {
    let rate = prop_oneof![
        1 => Just(None),
        3 => Just(Some(100_000_000)),
        6 => prop::sample::select(vec![
            10_000_000u64, 1_000_000_000, 2_500_000_000, 10_000_000_000, 25_000_000_000, 400_000_000_000,
            3_000_000, 123_456_789, 99_999_989, 77_777, 10_000_000_000_000,
        ]).prop_map(Some),
    ];
    // Below a least frame, of a frame or two, and beyond what ever waits.
    let quantum = prop_oneof![1 => 1u64..84, 4 => 84u64..4000, 1 => Just(1 << 24)];
    let quanta = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(quantum, 1..=8)];
    let queue = prop_oneof![2 => Just(None), 1 => (84u64..20_000).prop_map(Some)];
    let frames = prop_oneof![2 => Just(None), 1 => (1u32..12).prop_map(Some)];
    let counter = prop::sample::select(vec![
        Counter::Integer,
        Counter::Shift,
        Counter::IntegerBoth,
        Counter::ShiftBoth,
    ]);
    let carriers = (prop::bool::weighted(0.8), prop::bool::weighted(0.8), any::<bool>())
        .prop_map(|(ptp, ntp, ecn)| Carriers { ptp: ptp || !ntp, ntp, ecn });
    let rule = prop_oneof![Just(Rule::Edge), Just(Rule::Centred)];
    let mark = (1u32..40, prop_oneof![Just(u32::MAX >> 2), 0u32..40], rule, counter, carriers).prop_map(
        |(r, n, rule, counter, carriers)| MarkConfig {
            counter_max: n.max(r),
            rule,
            counter,
            carriers,
            ..MarkConfig::new(r, 0)
        },
    );
    let marking = (prop::option::of(mark), depth());
    let threshold = prop_oneof![Just(60_000_000u64), Just(6_720_000), 1u64..200_000_000];
    let scope = prop::sample::select(vec![EcnScope::Sync, EcnScope::All]);
    let ecn = (threshold, scope).prop_map(|(threshold_ps, scope)| EcnConfig { threshold_ps, scope });
    let ecn = (prop::option::of(ecn), prop::option::of(prop::sample::select(vec![Ect::Zero, Ect::One])));
    let class = prop::option::of(0u8..8);
    let pass = prop::collection::vec(prop::sample::select(vec![0u8, 0x0E]), 0..3);
    (rate, queue, frames, marking, class, 0u8..8, any::<[bool; 3]>(), pass, 0u64..5000, ecn, quanta).prop_map(
        |(
            rate,
            queue_bytes,
            queue_frames,
            (mark, depth),
            sync_class,
            default_priority,
            [edge, trust, transparent],
            pass,
            delay,
            (ecn, remark),
            quanta,
        )| {
            let mark = mark.filter(|_| rate.is_some());
            PortConfig {
                rate: rate.map(Rate),
                delay: Nanos(delay),
                quanta,
                queue_bytes,
                queue_frames,
                default_priority,
                sync_class,
                mark,
                ecn: ecn.filter(|_| rate.is_some()),
                remark,
                depth,
                transparent_clock: transparent && mark.is_none(),
                edge: edge && !(transparent && mark.is_none()),
                trust,
                pass_reserved: pass,
                ..PortConfig::new("")
            }
        },
    )
}

fn switch() -> impl Strategy<Value = SwitchConfig> {
    let delta = prop_oneof![
        Just(60_000_000u64),
        Just(6_720_000),
        1u64..200_000_000,
        Just(1_000_000_000_000),
        1u64..50
    ];
    let modes = any::<[bool; 3]>();
    let mtu = prop_oneof![2 => Just(None), 1 => (1000u32..1501).prop_map(Some)];
    let ports = prop::collection::vec((port(), vlan(), mtu), 1..5);
    (ports, delta, modes).prop_map(|(ports, delta_ps, [classical, edges, vlans])| {
        let vlan = |vlan| if vlans { vlan } else { Vlan::Transparent };
        let with_vlan = |(port, own, mtu)| PortConfig { vlan: vlan(own), mtu, ..port };
        let mut ports: Vec<_> = ports.into_iter().map(with_vlan).collect();
        for (number, port) in ports.iter_mut().enumerate() {
            port.name = format!("p{number}");
            if let Some(mark) = &mut port.mark {
                mark.delta_ps = delta_ps;
            }
            fit_cells(port);
        }
        let marks = ports.iter().any(|port| port.mark.is_some());
        ports.iter_mut().for_each(|port| port.edge &= marks && edges);
        make_fit(&mut ports, classical);
        SwitchConfig { ports, fdb_age: Nanos(AGE), ..SwitchConfig::default() }
    })
}

/// Leaves out what does not go together: ECN as a counter and as RFC 3168 has it or in two ways, edges and counts of two
/// directions, what is ahead as the depth of what is marked in rounds.
fn make_fit(ports: &mut [PortConfig], classical: bool) {
    let edges = ports.iter().any(|port| port.edge);
    let in_ecn =
        ports.iter().filter_map(|port| port.mark).find(|mark| mark.carriers.ecn).map(|mark| mark.counter);
    for port in ports {
        if let Some(mark) = &mut port.mark {
            mark.carriers.ecn &= !classical;
            let counter = in_ecn.filter(|_| mark.carriers.ecn).unwrap_or(mark.counter);
            mark.counter = match counter {
                Counter::IntegerBoth if edges => Counter::Integer,
                Counter::ShiftBoth if edges => Counter::Shift,
                counter => counter,
            };
        }
        if !classical {
            (port.ecn, port.remark) = (None, None);
        }
        let in_rounds = port.sync_class.is_none_or(|class| usize::from(class) < port.quanta.len());
        let bulk_marked = port.ecn.is_some_and(|ecn| ecn.scope == EcnScope::All);
        if (port.mark.is_some() || port.ecn.is_some())
            && port.depth.scope == DepthScope::Ahead
            && !port.quanta.is_empty()
            && (in_rounds || bulk_marked)
        {
            port.depth.scope = DepthScope::Queue;
        }
    }
}

fn scenario() -> impl Strategy<Value = (SwitchConfig, Vec<Choice>)> {
    switch().prop_flat_map(|config| {
        let ports = config.ports.len();
        (Just(config), prop::collection::vec(choice(ports), 1..120))
    })
}

/// The frame's octets, what the model knows of it, and where a switch may change it.
fn make(choice: &Choice, stamp: u64) -> (Vec<u8>, Sent, Places) {
    let source = if choice.source == 0xFF { [3, 0, 0, 0, 0, 1] } else { common::station(choice.source) };
    let destination = match choice.destination {
        Destination::Station(number) => common::station(number),
        Destination::Broadcast => [0xFF; 6],
        Destination::PtpMulticast => [0x01, 0x1B, 0x19, 0, 0, 0],
        Destination::Reserved(last) => [0x01, 0x80, 0xC2, 0, 0, last],
    };
    let Made { octets, vid, priority, message, ecn, places } = choice.content.make(source, destination);
    let sent = Sent {
        port: choice.port,
        stamp,
        source,
        destination,
        vid,
        priority,
        len: octets.len(),
        message,
        ecn,
    };
    (octets, sent, places)
}

/// What the model says of a departure, read from the departure and its octets.
fn seen(frame: usize, d: &Departure, octets: &[u8], places: &Places) -> Left {
    Left {
        frame,
        port: d.port.index(),
        class: d.class,
        arrived: d.arrived.0,
        start: d.start.0,
        end: d.end.0,
        depth_bytes: d.depth_bytes.into(),
        depth_ps: d.depth_ps.into(),
        measured: d.measured.into(),
        transparent: d.transparent,
        mark: d.mark,
        correction: places.correction(octets),
    }
}

fn by_port(left: &[Left]) -> HashMap<usize, Vec<&Left>> {
    let mut ports: HashMap<_, Vec<_>> = HashMap::new();
    left.iter().for_each(|l| ports.entry(l.port).or_default().push(l));
    ports
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn the_switch_is_the_model((config, choices) in scenario()) {
        let mut bench = Bench::new(config.clone(), 1 << 20);
        let (mut frames, mut originals, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut clock, mut last) = (1_000_000u64, 0);
        for choice in &choices {
            let stamp = (clock + choice.gap).saturating_sub(choice.back);
            let (before, now) = (clock, stamp.max(last));
            clock += choice.gap;
            last = now;
            if let Some(eighths) = choice.advance && now >= before {
                bench.advance(before + (now - before) * eighths / 8);
            }
            let (octets, sent, places) = make(choice, stamp);
            let number = frames.len();
            originals.push((octets.clone(), places));
            frames.push(sent);
            // A copy is made during the call that takes its original: so its number is this frame's as well.
            let first = bench.receive(choice.port as u16, octets, stamp).0;
            numbers.extend((first..).map_while(|id| bench.pool.knows(id).then_some((id, number))));
        }
        bench.advance(u64::MAX);
        prop_assert_eq!(bench.switch.queued_frames(), 0);
        prop_assert_eq!(bench.switch.next_decision(), None);

        let departed = bench.departed();
        prop_assert_eq!(bench.pool.out(), 0, "every frame is accounted for");
        let mut left = Vec::new();
        for (d, octets) in &departed {
            let number = numbers[&d.frame.0];
            let (original, places) = &originals[number];
            let of_ports = [&config.ports[d.ingress.index()], &config.ports[d.port.index()]];
            let original = &model::reformed(of_ports, &frames[number], original);
            let places = &places.moved(original.len() as isize - frames[number].len as isize);
            let told = |info: Class| (info.l3, info.l4, info.payload, info.ethertype, info.tci, info.priority);
            prop_assert_eq!(told(d.info), told(common::classified(original)));
            prop_assert_eq!(d.info.flags.has(Flags::TAGGED), common::classified(original).flags.has(Flags::TAGGED));
            prop_assert_eq!(d.len as usize, octets.len());
            prop_assert!(ipv4_sum_is_right(octets));
            // One complete sum in 65,536 looks like a partial one: then the sum is the port's to complete.
            if d.info.flags.has(Flags::PARTIAL_CHECKSUM) || places.udp_sum(original) == Some([0, 0]) {
                prop_assert_eq!(places.udp_sum(octets), places.udp_sum(original));
            } else {
                prop_assert!(udp_sum_is_right(octets));
            }
            prop_assert_eq!(places.blanked(octets), places.blanked(original));
            // The record tells what is in the frame.
            prop_assert_eq!(places.word(octets), d.mark.after);
            if d.info.kind.is_sync() || d.mark.ecn != EcnOutcome::Off {
                prop_assert_eq!(places.ecn(octets).unwrap_or(0), d.mark.ecn_after);
            } else {
                prop_assert_eq!(places.ecn(octets), places.ecn(original));
            }
            prop_assert_eq!(d.stamp.0, frames[number].stamp);
            prop_assert_eq!(d.ingress.index(), frames[number].port);
            left.push(seen(number, d, octets, places));
        }
        let (expected_left, mut expected_lost, taken) = model::run(&config, &frames);
        let (seen, expected) = (by_port(&left), by_port(&expected_left));
        for port in 0..config.ports.len() {
            prop_assert_eq!(seen.get(&port), expected.get(&port), "port {}: {:?}", port, config.ports[port]);
        }
        // Discards name their frame only by arrival and length: compare those, reasons and ports, in order.
        let key = |l: &Lost| {
            let mut last = 0;
            let arrived = frames[..=l.frame].iter().fold(0, |_, f| { last = f.stamp.max(last); last });
            (arrived, frames[l.frame].len, l.egress, l.reason)
        };
        expected_lost.sort();
        let mut expected: Vec<_> = expected_lost.iter().map(key).collect();
        let mut lost: Vec<_> = bench.told.discards.iter()
            .map(|d| (d.arrived.0, d.len as usize, d.egress.map(|e| e.index()), d.reason)).collect();
        expected.sort();
        lost.sort();
        prop_assert_eq!(lost, expected);

        // The counters tell the same.
        let stats = bench.switch.stats();
        for (number, port) in stats.ports.iter().enumerate() {
            let count = |of: &dyn Fn(&Left) -> bool| left.iter().filter(|l| l.port == number && of(l)).count() as u64;
            prop_assert_eq!(port.rx.frames, frames.iter().filter(|f| f.port == number).count() as u64);
            prop_assert_eq!(port.tx.frames, count(&|_| true));
            prop_assert_eq!(port.depth_bytes.count, port.tx.frames);
            for (outcome, n) in port.mark.iter() {
                prop_assert_eq!(n, count(&|l| l.mark.outcome == outcome));
            }
            for (outcome, n) in port.ecn.iter() {
                prop_assert_eq!(n, count(&|l| l.mark.ecn == outcome));
            }
            for (edge, n) in port.edge.iter() {
                prop_assert_eq!(n, count(&|l| l.mark.edge == edge));
            }
            for r in 0..41 {
                prop_assert_eq!(port.marks.get(r), count(&|l| l.mark.counted && l.mark.r == r));
            }
            let taken = |of: &dyn Fn(&marks::Taken) -> bool| taken[number].iter().filter(|t| of(t)).count() as u64;
            prop_assert_eq!(port.counts_cleared, taken(&|t| t.cleared));
            prop_assert_eq!(port.counts_untouched, taken(&|t| t.untouched));
            prop_assert_eq!(port.remarked, taken(&|t| t.remarked));
            let dropped: u64 = bench.told.discards.iter()
                .filter(|d| d.egress.unwrap_or(d.ingress).index() == number).count() as u64;
            prop_assert_eq!(port.drops.total(), dropped);
        }
        let ordered = frames.windows(2).all(|w| w[0].stamp <= w[1].stamp);
        prop_assert_eq!(stats.inversions.count == 0, ordered);
    }

    /// With one class, a link that ran ahead of a late arrival changes nothing: starts, depths and marks are those of
    /// an ideal switch, whatever the moments of advancing.
    #[test]
    fn late_arrivals_of_one_class_are_as_if_in_time(
        gaps in prop::collection::vec((0u64..60_000, 46usize..1500, 0u64..200_000), 1..200),
        rate in prop::sample::select(vec![100_000_000u64, 1_000_000_000, 123_456_789]),
        depth in depth(),
    ) {
        let mark = Some(MarkConfig { counter_max: 1 << 20, ..MarkConfig::new(64, 12_000_000) });
        let mut one = PortConfig { rate: Some(Rate(rate)), mark, depth, ..PortConfig::new("") };
        fit_cells(&mut one);
        let port = |name: &str| PortConfig { name: name.into(), queue_bytes: Some(1 << 30), queue_frames: Some(1 << 16), ..one.clone() };
        let config = SwitchConfig { ports: vec![port("a"), port("b")], ..SwitchConfig::default() };
        let mut runs = [false, true].map(|ahead| {
            let mut bench = Bench::new(config.clone(), 1 << 20);
            let mut at = 1_000_000;
            for (number, (gap, len, early)) in gaps.iter().enumerate() {
                at += gap;
                if ahead {
                    bench.advance(at + early);
                }
                let frame = if number % 7 == 3 {
                    common::ptp(common::station(0), common::station(1), Carrier::Udp4, 0, 0, 0)
                } else {
                    common::ip(common::station(0), common::station(1), 0, *len)
                };
                bench.receive(0, frame, at);
            }
            bench.advance(u64::MAX);
            let departed = bench.departed();
            departed.iter().map(|(d, o)| seen(0, d, o, &Places::default())).collect::<Vec<_>>()
        });
        let [late, in_time] = &mut runs;
        prop_assert_eq!(&*late, &*in_time);
        // First in, first out: the depth is the wait, to the picosecond, and the link never idles beside a frame.
        for (number, left) in in_time.iter().enumerate() {
            let wait = u128::from(left.start - left.arrived);
            prop_assert_eq!(left.depth_ps.div_ceil(1000), wait);
            if wait > 0 {
                prop_assert!(left.start <= in_time[number - 1].end && in_time[number - 1].end <= left.start + 1);
            }
        }
    }
}
