//! The switch's behaviour by example, frames in and frames out.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, Carrier, classified, plain, ptp, station, sum_is_right};
use plimsoll_core::{
    DropReason, EdgeOutcome, FixedEntry, MarkConfig, MarkOutcome, Nanos, PortConfig, PortId, Rate,
    StormConfig, SwitchConfig, VidRange, Vlan, wire::ethernet::Mac,
};

const RATE: Rate = Rate(100_000_000); // 80 ns an octet
const DELTA: u64 = 60_000_000; // 60 us, 750 octets
const MULTICAST: [u8; 6] = [0x01, 0x00, 0x5E, 0x00, 0x01, 0x81];

fn port(name: &str) -> PortConfig {
    let mark = MarkConfig::new(32, DELTA);
    PortConfig { rate: Some(RATE), mark: Some(mark), ..PortConfig::new(name) }
}

fn bench(ports: usize, change: impl Fn(usize, &mut PortConfig)) -> Bench {
    let ports = (0..ports).map(|n| {
        let mut port = port(&format!("p{n}"));
        change(n, &mut port);
        port
    });
    Bench::new(SwitchConfig { ports: ports.collect(), ..SwitchConfig::default() }, 1000)
}

/// Lets each port's station be learnt, with frames that go nowhere else.
fn learn(bench: &mut Bench, ports: u16) {
    for port in 0..ports {
        bench.receive(port, plain(station(port as u8), station(port as u8), None, 60), 0);
    }
    assert!(bench.told.discards.iter().all(|d| d.reason == DropReason::SamePort));
    bench.told.discards.clear();
}

fn word(octets: &[u8]) -> u32 {
    let at = usize::from(classified(octets).payload) + 16;
    u32::from_be_bytes(octets[at..at + 4].try_into().unwrap())
}

#[test]
fn each_copy_of_a_flooded_sync_carries_its_own_ports_count() {
    let mut bench = bench(4, |_, _| ());
    learn(&mut bench, 4);
    // 1476 + 24 octets are 120 us, so 0, 2 and 5 of them make depths of 0, 240 and 600 us.
    for (to, frames) in [(2u8, 2), (3, 5)] {
        for _ in 0..frames {
            bench.receive(0, plain(station(0), station(to), None, 1476), 1000);
        }
    }
    for carrier in [Carrier::Ethernet, Carrier::Udp4, Carrier::Udp6] {
        bench.receive(0, ptp(station(0), MULTICAST, carrier, 0, 0, 0), 1000);
    }
    bench.advance(u64::MAX);
    let departed = bench.departed();
    for (number, carrier) in [0, 1, 2].into_iter().enumerate() {
        // Behind the first sync frame come the others: 84 octets for Ethernet, 110 for IPv4.
        let before = [0, 84, 84 + 110][carrier];
        for (egress, bulk) in [(1u16, 0u64), (2, 3000), (3, 7500)] {
            let sync: Vec<_> =
                departed.iter().filter(|(d, _)| d.port == PortId(egress) && d.info.kind.is_sync()).collect();
            let (departure, octets) = sync[number];
            assert_eq!(departure.depth_bytes, bulk + before);
            let r = ((bulk + before).saturating_sub(1) / 750) as u32;
            assert_eq!(departure.mark.r, r);
            assert_eq!(word(octets), if r == 0 { 0 } else { 1 << 30 | r }, "port {egress}");
            assert!(sum_is_right(octets));
        }
    }
    assert_eq!(bench.pool.out(), 0);
}

#[test]
fn three_hops_add_up() {
    let mut octets = ptp(station(0), station(1), Carrier::Udp6, 1, 0, 0);
    for (hop, wait) in [(0, 130), (1, 0), (2, 250)] {
        let mut bench = bench(2, |_, port| port.trust = hop > 0);
        learn(&mut bench, 2);
        // A link busy for `wait` us.
        if wait > 0 {
            bench.receive(0, plain(station(0), station(1), None, wait * 25 / 2 - 24), 1000);
        }
        bench.receive(0, octets, 1000);
        bench.advance(u64::MAX);
        octets = bench.departed().pop().unwrap().1;
    }
    // 130 us exceed 2 thresholds of 60 us, 250 us exceed 4; a trusted port keeps what came before.
    assert_eq!(word(&octets), 1 << 30 | 6);
    assert!(sum_is_right(&octets));
}

#[test]
fn hosts_cannot_forge_counts_and_the_edge_hands_them_to_the_correction() {
    let mut bench = bench(2, |number, port| port.edge = number == 1);
    learn(&mut bench, 2);
    bench.receive(0, plain(station(0), station(1), None, 1476), 1000);
    bench.receive(0, ptp(station(0), station(1), Carrier::Udp4, 0, 1 << 30 | 500, 99), 1000);
    bench.advance(u64::MAX);
    let (departure, octets) = bench.departed().pop().unwrap();
    // 120 us is two thresholds, but only one of them strictly below.
    assert_eq!((departure.mark.outcome, departure.mark.r), (MarkOutcome::Marked, 1));
    assert_eq!((departure.mark.before, departure.mark.after), (1 << 30 | 500, 0));
    assert_eq!((departure.mark.edge, departure.mark.converted_ns), (EdgeOutcome::Converted, 60_000));
    let at = usize::from(departure.info.payload) + 8;
    assert_eq!(octets[at..at + 8], ((60_000i64 << 16) + 99).to_be_bytes());
    assert!(sum_is_right(&octets));
    assert_eq!(bench.switch.stats().ports[0].counts_cleared, 1);
}

#[test]
fn ntp_is_sync_without_a_field() {
    let mut bench = bench(2, |_, port| port.sync_class = Some(6));
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(station(0), station(1))
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(40_000, 123)
        .write(&mut frame, &[&[0x23][..], &[0; 47]].concat())
        .unwrap();
    bench.receive(0, frame.clone(), 5);
    bench.advance(100);
    let (departure, octets) = bench.departed().pop().unwrap();
    assert_eq!((departure.mark.outcome, departure.class), (MarkOutcome::NoField, 6));
    assert_eq!(octets, frame);
}

#[test]
fn an_idle_link_takes_the_highest_class_of_one_instant_and_none_is_interrupted() {
    let mut bench = bench(2, |_, _| ());
    learn(&mut bench, 2);
    let tagged = |pcp: u16| plain(station(0), station(1), Some(pcp << 13), 976); // 80 us
    bench.receive(0, tagged(1), 1000);
    bench.receive(0, tagged(7), 1000);
    bench.advance(1000);
    assert_eq!(bench.told.departures.len(), 0, "what comes at the instant of decision takes part");
    bench.receive(0, tagged(6), 1001);
    assert_eq!(bench.told.departures.len(), 1);
    bench.receive(0, tagged(7), 50_000);
    bench.advance(u64::MAX);
    let order: Vec<_> = bench.departed().iter().map(|(d, _)| (d.class, d.start.0, d.end.0)).collect();
    assert_eq!(
        order,
        [(7, 1000, 81_000), (7, 81_000, 161_000), (6, 161_000, 241_000), (0, 241_000, 321_000)]
    );
}

#[test]
fn the_lowest_classes_share_a_link_in_rounds_below_the_strict_ones_whatever_the_link_does() {
    for rate in [Some(RATE), None] {
        let mut bench = bench(2, |number, port| {
            (port.rate, port.mark) = (rate, None);
            port.quanta = if number == 1 { vec![1000, 3000] } else { Vec::new() };
        });
        learn(&mut bench, 2);
        // 1000 octets on the wire each, 80 us: of class 0, 1 and 5.
        let fill = |bench: &mut Bench, at: u64| {
            for pcp in [1, 0, 1, 0, 1, 0, 1, 0, 5u16] {
                bench.receive(0, plain(station(0), station(1), Some(pcp << 13), 976), at);
            }
        };
        bench.switch.hold(PortId(1));
        fill(&mut bench, 1000);
        bench.switch.set_up(PortId(1), false, &mut bench.pool, &mut bench.told);
        assert_eq!((bench.told.discards.len(), bench.pool.out()), (9, 0), "none is left in the round");
        bench.switch.set_up(PortId(1), true, &mut bench.pool, &mut bench.told);
        bench.receive(1, plain(station(1), station(1), None, 60), 1500);

        fill(&mut bench, 2000);
        bench.switch.resume(PortId(1), Nanos(10_000));
        bench.advance(2_000_000);
        let departed = bench.departed();
        let order: Vec<_> = departed.iter().map(|(d, _)| d.class).collect();
        assert_eq!(order, [5, 0, 1, 1, 1, 0, 1, 0, 0]);
        // What is ahead as far as known: of its own class, and of strict ones, of which none was there.
        let mut depths: Vec<_> = departed.iter().map(|(d, _)| (d.class, d.depth_bytes)).collect();
        depths.sort_unstable();
        let expected = [0, 1].into_iter().flat_map(|class| [0, 1000, 2000, 3000].map(|depth| (class, depth)));
        assert_eq!(depths, expected.chain([(5, 0)]).collect::<Vec<_>>());
        for (number, (d, _)) in (0..).zip(&departed) {
            let expected = rate.map_or(2_000_000, |_| 10_000 + number * 80_000);
            assert_eq!(d.start.0, expected, "a link that serves is never idle");
        }
        assert_eq!((bench.switch.queued_frames(), bench.pool.out()), (0, 0));
    }
}

#[test]
fn the_next_decision_is_the_moment_to_come_back() {
    let mut bench = bench(3, |_, _| ());
    learn(&mut bench, 3);
    assert_eq!(bench.switch.next_decision(), None);
    bench.receive(0, plain(station(0), station(1), None, 976), 1000);
    bench.receive(0, plain(station(0), station(1), None, 976), 1000);
    bench.receive(0, plain(station(0), station(2), None, 976), 2000);
    let mut moments = Vec::new();
    while let Some(Nanos(to)) = bench.switch.next_decision() {
        bench.advance(to - 1);
        assert_eq!(bench.told.departures.len(), 0, "not before {to}");
        bench.advance(to);
        assert!(!bench.departed().is_empty(), "at {to}");
        moments.push(to);
    }
    assert_eq!(moments, [1001, 2001, 81_001]);
}

#[test]
fn a_port_without_rate_sends_what_the_machine_takes_and_reports_what_it_holds() {
    let mut bench = bench(2, |_, port| (port.rate, port.mark) = (None, None));
    learn(&mut bench, 2);
    bench.told.room = Some(1);
    bench.told.unsent = 700;
    for at in [100, 200, 300] {
        bench.receive(0, ptp(station(0), station(1), Carrier::Udp4, 0, 0, 0), at);
    }
    assert_eq!(bench.departed().len(), 1);
    bench.advance(1000);
    assert_eq!(bench.departed().len(), 0);
    assert_eq!(bench.switch.queued_frames(), 2);
    bench.told.room = None;
    bench.advance(2000);
    let later: Vec<_> = bench
        .departed()
        .iter()
        .map(|(d, _)| (d.start.0, d.depth_bytes, d.depth_ps, d.mark.outcome))
        .collect();
    let wire = 86 + 24;
    assert_eq!(later, [(2000, 700, 0, MarkOutcome::Off), (2000, 700 + wire, 0, MarkOutcome::Off)]);
}

#[test]
fn a_flood_without_buffers_loses_copies_by_name_and_leaks_nothing() {
    let ports = (0..4).map(|n| port(&format!("p{n}"))).collect();
    let mut bench = Bench::new(SwitchConfig { ports, ..SwitchConfig::default() }, 2);
    bench.receive(0, plain(station(0), [0xFF; 6], None, 60), 10);
    let lost: Vec<_> = bench.told.discards.iter().map(|d| (d.reason, d.egress)).collect();
    assert_eq!(lost, [(DropReason::NoBuffer, Some(PortId(2)))]);
    bench.advance(100);
    let ports: Vec<_> = bench.departed().iter().map(|(d, _)| d.port.0).collect();
    assert_eq!(ports, [1, 3]);
    assert_eq!(bench.pool.out(), 0);
}

#[test]
fn storm_control_stops_floods_but_no_time_message_and_no_known_station() {
    let mut bench = bench(2, |_, port| port.storm = Some(StormConfig { frames_per_second: 1000, burst: 2 }));
    learn(&mut bench, 2);
    for _ in 0..5 {
        bench.receive(0, plain(station(0), [0xFF; 6], None, 60), 10);
        bench.receive(0, plain(station(0), station(1), None, 60), 10);
        bench.receive(0, ptp(station(0), MULTICAST, Carrier::Udp4, 0, 0, 0), 10);
    }
    let stats = bench.switch.stats();
    assert_eq!(stats.ports[0].drops.get(DropReason::Storm), 3);
    bench.advance(u64::MAX);
    assert_eq!(bench.departed().len(), 12);
}

#[test]
fn reserved_addresses_pass_only_where_both_ports_say_so() {
    let mut bench =
        bench(4, |number, port| port.pass_reserved = if number == 3 { vec![] } else { vec![0x0E] });
    let frame = |from: u8| ptp(station(from), [0x01, 0x80, 0xC2, 0, 0, 0x0E], Carrier::Ethernet, 2, 0, 0);
    bench.receive(0, frame(0), 10);
    bench.receive(3, frame(3), 20);
    bench.receive(0, plain(station(0), [0x01, 0x80, 0xC2, 0, 0, 0], None, 60), 30);
    bench.advance(u64::MAX);
    let ports: Vec<_> = bench.departed().iter().map(|(d, _)| d.port.0).collect();
    assert_eq!(ports, [1, 2]);
    let reasons: Vec<_> = bench.told.discards.iter().map(|d| (d.ingress.0, d.reason)).collect();
    assert_eq!(reasons, [(3, DropReason::Reserved), (0, DropReason::Reserved)]);
}

#[test]
fn odd_frames_are_dropped_by_name() {
    let mut bench = bench(1, |_, _| ());
    bench.receive(0, vec![0; 13], 1);
    bench.receive(0, vec![], 1);
    bench.receive(0, vec![2; 65_554], 1);
    bench.receive(0, plain([1, 0, 0, 0, 0, 1], station(1), None, 60), 1);
    bench.receive(0, plain(station(0), station(1), None, 60), 1);
    let reasons: Vec<_> = bench.told.discards.iter().map(|d| d.reason).collect();
    use DropReason::{Malformed, NoEgress, SourceGroup};
    assert_eq!(reasons, [Malformed, Malformed, Malformed, SourceGroup, NoEgress]);
    assert_eq!(bench.pool.out(), 0);
}

#[test]
fn a_port_that_goes_down_loses_its_queue_and_its_stations() {
    let mut bench = bench(3, |_, _| ());
    learn(&mut bench, 3);
    bench.receive(0, plain(station(0), station(1), None, 60), 10);
    bench.switch.set_up(PortId(1), false, &mut bench.pool, &mut bench.told);
    assert_eq!(bench.told.discards[0].reason, DropReason::PortDown);
    assert_eq!(bench.pool.out(), 0);
    bench.receive(0, plain(station(0), station(1), None, 60), 20);
    bench.receive(1, plain(station(1), station(0), None, 60), 20);
    bench.advance(u64::MAX);
    let ports: Vec<_> = bench.departed().iter().map(|(d, _)| d.port.0).collect();
    assert_eq!(ports, [2], "unknown again, and not to the port that is down");
    bench.switch.set_up(PortId(1), true, &mut bench.pool, &mut bench.told);
    bench.receive(1, plain(station(1), station(0), None, 60), 30);
    bench.advance(u64::MAX);
    assert_eq!(bench.departed()[0].0.port, PortId(0));
    assert_eq!(bench.pool.out(), 0);
}

#[test]
fn stations_are_kept_apart_by_vlan_shown_flushed_and_fixed() {
    let fixed = FixedEntry { vlan: 0, mac: Mac(station(9)), port: PortId(2) };
    let ports = (0..3).map(|n| PortConfig::new(format!("p{n}"))).collect();
    let mut bench =
        Bench::new(SwitchConfig { ports, fdb_fixed: vec![fixed], ..SwitchConfig::default() }, 1000);
    bench.receive(1, plain(station(1), station(1), Some(5), 60), 10);
    bench.receive(0, plain(station(0), station(1), None, 60), 20);
    bench.receive(0, plain(station(0), station(1), Some(5), 60), 500_020);
    bench.advance(1_000_020);
    let mut ports: Vec<_> = bench.departed().iter().map(|(d, _)| (d.start.0, d.port.0)).collect();
    ports.sort_unstable();
    assert_eq!(ports, [(20, 1), (20, 2), (500_020, 1)], "VLAN 5 knows it, no VLAN does not");
    let shown: Vec<_> = bench
        .switch
        .fdb_entries()
        .iter()
        .map(|e| (e.vlan, e.mac.0[5], e.port.0, e.fixed, e.age_ns))
        .collect();
    assert_eq!(
        shown,
        [
            (0, 0, 0, false, 1_000_000),
            (0, 9, 2, true, 0),
            (5, 0, 0, false, 500_000),
            (5, 1, 1, false, 1_000_010)
        ]
    );
    assert_eq!(bench.switch.flush_fdb(), 3);
    assert_eq!(bench.switch.fdb_entries().len(), 1);
}

#[test]
fn a_frame_that_a_tag_would_make_too_long_is_lost_there_by_name() {
    let trunk = || Vlan::Trunk { allowed: vec![VidRange::one(10)], native: None };
    let mut bench = bench(4, |number, port| {
        port.vlan = if number < 2 { Vlan::Access { pvid: 10 } } else { trunk() };
        // A header and a tag more are 1418.
        port.mtu = (number == 2).then_some(1400);
    });
    bench.pool.longest = 1500;
    let mut lost = Vec::new();
    for (len, lens) in [
        (1414, &[(1, 1414), (2, 1418), (3, 1418)][..]),
        (1415, &[(1, 1415), (3, 1419)]),
        (1497, &[(1, 1497)]),
    ] {
        bench.receive(0, plain(station(0), [0xFF; 6], None, len), 1000);
        bench.advance(u64::MAX);
        let mut departed: Vec<_> =
            bench.departed().iter().map(|(d, o)| (d.port.0, d.len as usize, o.len())).collect();
        departed.sort_unstable();
        let expected: Vec<_> = lens.iter().map(|&(port, len)| (port, len, len)).collect();
        assert_eq!(departed, expected);
        lost.extend(bench.told.discards.drain(..).map(|d| (d.egress, d.len, d.reason)));
    }
    let loss = |port, len| (Some(PortId(port)), len, DropReason::TagTooLong);
    assert_eq!(lost, [loss(2, 1415), loss(2, 1497), loss(3, 1497)]);
    assert_eq!((bench.pool.out(), bench.switch.stats().ports[2].drops.get(DropReason::TagTooLong)), (0, 2));
    // Tagged already, it is as long as it was.
    bench.receive(0, plain(station(0), [0xFF; 6], Some(10), 1497), 2000);
    bench.advance(u64::MAX);
    assert_eq!(bench.departed().len(), 3);
}

#[test]
fn after_a_stall_links_catch_up_or_start_anew() {
    for reanchor in [false, true] {
        let mut bench = bench(2, |_, _| ());
        learn(&mut bench, 2);
        for _ in 0..3 {
            bench.receive(0, plain(station(0), station(1), None, 976), 1000); // 80 us each
        }
        bench.advance(2000);
        // The worker was away until 10 ms.
        if reanchor {
            assert_eq!(bench.switch.reanchor(Nanos(10_000_000)), 10_000_000 - 81_000);
        }
        bench.advance(u64::MAX);
        let starts: Vec<_> = bench.departed().iter().map(|(d, _)| d.start.0).collect();
        let expected = if reanchor { [1000, 10_000_000, 10_080_000] } else { [1000, 81_000, 161_000] };
        assert_eq!(starts, expected);
    }
}

#[test]
fn a_held_link_builds_a_queue_of_known_depth_and_serves_from_its_release_on() {
    let mut bench = bench(2, |_, _| ());
    learn(&mut bench, 2);
    let send = |bench: &mut Bench, at| bench.receive(0, plain(station(0), station(1), None, 976), at); // 80 us
    send(&mut bench, 1000);
    bench.advance(2000);
    bench.switch.hold(PortId(1));
    for at in [3000, 41_000, 200_000, 300_000] {
        send(&mut bench, at);
    }
    bench.advance(1_000_000);
    assert_eq!(bench.switch.next_decision(), None, "no time alone ends a hold");
    let stats = bench.switch.stats();
    assert_eq!([stats.ports[0].held, stats.ports[1].held], [false, true]);
    assert_eq!(bench.departed().len(), 1, "what was decided goes on");
    bench.switch.resume(PortId(1), Nanos(2_000_000));
    assert!(!bench.switch.stats().ports[1].held);
    assert_eq!(bench.switch.next_decision(), Some(Nanos(2_000_001)));
    // Before the hold ends, and half a frame's time after it began again.
    send(&mut bench, 2_000_000);
    send(&mut bench, 2_040_000);
    bench.advance(u64::MAX);
    let seen: Vec<_> = bench.departed().iter().map(|(d, _)| (d.depth_bytes, d.start.0)).collect();
    let from = 2_000_000;
    assert_eq!(
        seen,
        [
            (975, from), // the rest of what was in service: 78 of 80 us
            (500 + 1000, from + 80_000),
            (2000, from + 160_000),
            (3000, from + 240_000),
            (4000, from + 320_000),
            (4500, from + 400_000),
        ]
    );
}

#[test]
fn a_release_lets_no_frame_start_before_it_came_and_holds_again() {
    let mut bench = bench(2, |_, _| ());
    learn(&mut bench, 2);
    bench.switch.resume(PortId(1), Nanos(77_000_000));
    assert_eq!(bench.switch.next_decision(), None, "what was not held is not");
    bench.switch.hold(PortId(1));
    bench.receive(0, plain(station(0), station(1), None, 976), 1000);
    bench.receive(0, plain(station(0), station(1), None, 976), 500_000);
    bench.switch.resume(PortId(1), Nanos(2000));
    bench.switch.hold(PortId(1));
    bench.advance(1_000_000);
    assert_eq!(bench.departed().len(), 0);
    assert_eq!(bench.switch.reanchor(Nanos(1_000_000)), 0, "a held link waits for nobody");
    bench.switch.resume(PortId(1), Nanos(2000));
    bench.advance(u64::MAX);
    let starts: Vec<_> = bench.departed().iter().map(|(d, _)| d.start.0).collect();
    assert_eq!(starts, [500_000, 580_000]);
}

#[test]
fn a_port_without_rate_holds_too() {
    let mut bench = bench(2, |_, port| (port.rate, port.mark) = (None, None));
    learn(&mut bench, 2);
    bench.switch.hold(PortId(1));
    for at in [1000, 2000] {
        bench.receive(0, plain(station(0), station(1), None, 976), at);
    }
    bench.advance(3000);
    assert_eq!(bench.departed().len(), 0);
    bench.switch.resume(PortId(1), Nanos(4000));
    assert_eq!(bench.switch.next_decision(), Some(Nanos(4001)));
    bench.advance(4001);
    let seen: Vec<_> = bench.departed().iter().map(|(d, _)| (d.depth_bytes, d.start.0)).collect();
    assert_eq!(seen, [(0, 4001), (1000, 4001)]);
}

#[test]
fn a_transparent_clock_flags_the_messages_of_clocks() {
    let mut bench = bench(2, |_, port| (port.mark, port.transparent_clock) = (None, true));
    learn(&mut bench, 2);
    for octets in [
        plain(station(0), station(1), None, 60),
        ptp(station(0), station(1), Carrier::Udp4, 0, 0, 0),
        ptp(station(0), station(1), Carrier::Ethernet, 1, 0, 0),
    ] {
        bench.receive(0, octets, 1000);
    }
    bench.advance(u64::MAX);
    let departed = bench.departed();
    assert_eq!(departed.iter().map(|(d, _)| d.transparent).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_lost_message_is_told_by_its_identity() {
    let mut bench = bench(2, |_, port| port.queue_frames = Some(1));
    learn(&mut bench, 2);
    let named = |sequence: u8| {
        let mut frame = ptp(station(0), station(1), Carrier::Udp4, 1, 0, 0);
        let at = usize::from(classified(&frame).payload);
        frame[at + 31] = sequence;
        frame
    };
    bench.switch.hold(PortId(1));
    bench.receive(0, named(1), 1000); // queued, and lost with its port
    bench.receive(0, named(2), 1000); // finds no room
    bench.receive(0, plain(station(0), station(1), None, 60), 1000);
    bench.switch.set_up(PortId(1), false, &mut bench.pool, &mut bench.told);
    let lost: Vec<_> = bench
        .told
        .discards
        .iter()
        .map(|d| (d.reason, d.message.map(|m| (m.message_type, m.sequence_id))))
        .collect();
    assert_eq!(
        lost,
        [
            (DropReason::QueueFrames, Some((1, 2))),
            (DropReason::QueueFrames, None),
            (DropReason::PortDown, Some((1, 1))),
        ]
    );
}

#[test]
fn clearing_gives_every_frame_back() {
    let mut bench = bench(3, |_, _| ());
    for _ in 0..10 {
        bench.receive(0, plain(station(0), [0xFF; 6], None, 60), 10);
    }
    assert_eq!((bench.switch.queued_frames(), bench.pool.out()), (20, 20));
    bench.switch.clear(&mut bench.pool);
    assert_eq!((bench.switch.queued_frames(), bench.pool.out()), (0, 0));
}

#[test]
fn counters_have_stable_names_in_json() {
    let mut bench = bench(2, |_, _| ());
    learn(&mut bench, 2);
    bench.receive(0, plain(station(0), station(1), None, 1476), 1000);
    bench.receive(0, ptp(station(0), station(1), Carrier::Udp4, 0, 0, 0), 1000);
    bench.receive(0, ptp(station(0), station(1), Carrier::Udp4, 0, 0, 0), 900);
    bench.advance(1001);
    let json = serde_json::to_value(bench.switch.stats()).unwrap();
    let (ingress, egress) = (&json["ports"][0], &json["ports"][1]);
    assert_eq!(
        ingress["rx"],
        serde_json::json!({"frames": 4, "bytes": 60 + 1476 + 86 * 2, "wire_bytes": 84 + 1500 + 110 * 2})
    );
    assert_eq!(ingress["drops"]["same_port"], 1);
    assert_eq!(egress["tx"]["frames"], 1);
    assert_eq!(egress["mark"]["marked"], 2);
    assert_eq!(egress["marks"], serde_json::json!({"1": 1, "2": 1}));
    assert_eq!(egress["edge"]["off"], 3);
    assert_eq!(
        egress["queues"][1],
        serde_json::json!({"frames": 2, "bytes": 220, "frames_max": 3, "bytes_max": 1720})
    );
    assert_eq!(egress["depth_bytes"]["max"], 1610);
    assert_eq!(json["inversions"], serde_json::json!({"count": 1, "max_ns": 100}));
    assert_eq!(json["fdb"]["entries"], 2);
    let entry = serde_json::to_value(bench.switch.fdb_entries()[0]).unwrap();
    assert_eq!(
        entry,
        serde_json::json!({"vlan": 0, "mac": "02:00:00:00:00:00", "port": 0, "fixed": false, "age_ns": 1})
    );
}
