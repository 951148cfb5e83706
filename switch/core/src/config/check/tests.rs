//! One refusal each.

use super::super::*;
use crate::PortId;

pub(in crate::config) fn two_ports(change: impl FnOnce(&mut SwitchConfig)) -> SwitchConfig {
    let mark = Some(MarkConfig::new(4, 60_000_000));
    let port = |name: &str| PortConfig { rate: Some(Rate(100_000_000)), mark, ..PortConfig::new(name) };
    let mut config =
        SwitchConfig { name: "s1".into(), ports: vec![port("a"), port("b")], ..SwitchConfig::default() };
    change(&mut config);
    config
}

fn refusal(change: impl FnOnce(&mut SwitchConfig)) -> String {
    two_ports(change).check().unwrap_err().to_string()
}

pub(in crate::config) fn mark(config: &mut SwitchConfig, port: usize) -> &mut MarkConfig {
    config.ports[port].mark.as_mut().unwrap()
}

#[test]
fn ecn_bits_count_in_one_way() {
    assert_eq!(
        refusal(|c| {
            mark(c, 0).carriers.ecn = true;
            (mark(c, 1).carriers.ecn, mark(c, 1).counter) = (true, Counter::Shift);
        }),
        "switch s1, ports a and b: count in ECN bits in two ways, which the bits cannot tell; write one counter for all \
         of them"
    );
    let config = two_ports(|c| {
        mark(c, 0).carriers.ecn = true;
        mark(c, 1).counter = Counter::Shift;
    });
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn a_good_configuration_passes() {
    assert_eq!(two_ports(|_| ()).check(), Ok(()));
    assert_eq!(two_ports(|_| ()).warnings(), []);
    assert_eq!(two_ports(|_| ()).delta(), Some(Span { ps: 60_000_000 }));
}

#[test]
fn refusals_name_the_place_and_the_remedy() {
    assert_eq!(refusal(|c| c.ports.clear()), "switch s1, ports: is 0; write 1 to 1024");
    assert_eq!(
        refusal(|c| c.ports[1].name = "a".into()),
        "switch s1, ports 0 and 1: are both named \"a\"; name each interface once"
    );
    assert_eq!(
        refusal(|c| mark(c, 1).delta_ps = 30_000_000),
        "switch s1, ports a and b: mark with delta 60us and 30us; write one delta for the whole network: each port \
         derives its own K = delta*rate/8"
    );
    assert_eq!(
        refusal(|c| mark(c, 0).delta_ps = 0),
        "switch s1, port a, mark.delta in ps: is 0; write 1 to 1000000000000"
    );
    assert_eq!(
        refusal(|c| *mark(c, 0) = MarkConfig { counter_max: 3, ..MarkConfig::new(4, 1) }),
        "switch s1, port a, mark.thresholds (R): is 4; write 1 to 3"
    );
    assert!(refusal(|c| c.ports[0].rate = Some(Rate(0))).contains("rate in bit/s: is 0; write 1 to"));
    assert!(refusal(|c| c.ports[0].rate = None).contains("marks without a rate"));
    assert!(refusal(|c| c.ports[0].pass_reserved = vec![1]).contains("leave 01 out"));
    assert!(refusal(|c| c.ports[0].pass_reserved = vec![16]).contains("write 0 to 15"));
    assert!(refusal(|c| c.ports[0].sync_class = Some(8)).contains("write 0 to 7"));
    assert!(refusal(|c| c.ports[0].queue_bytes = Some(83)).contains("write 84 to"));
    assert!(refusal(|c| c.ports[0].queue_frames = Some(0)).contains("write 1 to"));
    assert_eq!(
        refusal(|c| c.ports[0].quanta = vec![1500, 0]),
        "switch s1, port a, quanta: is 0; write 1 to 16777216"
    );
    assert_eq!(
        refusal(|c| c.ports[1].quanta = vec![1500; 9]),
        "switch s1, port b, quanta: are 9, one a class from the lowest on; write 8 at most"
    );
    assert!(refusal(|c| c.delta_ps = Some(1)).contains("marks with delta 60us, the network's is 1ps"));
    assert!(refusal(|c| c.fdb_age = Nanos(0)).contains("write 1 or more"));
    let storm = StormConfig { frames_per_second: 0, burst: 1 };
    assert!(refusal(|c| c.ports[0].storm = Some(storm)).contains("storm.frames_per_second"));
    let edge = |c: &mut SwitchConfig| {
        c.ports.iter_mut().for_each(|port| port.mark = None);
        c.ports[1].edge = true;
    };
    assert!(refusal(edge).starts_with("switch s1, port b, edge: converts marks, but the network's delta"));
}

#[test]
fn modes_that_make_no_sense_together_are_refused_with_their_port_and_key() {
    let refused = |change: fn(&mut SwitchConfig)| two_ports(change).check().unwrap_err();
    let ecn = EcnConfig { threshold_ps: 120_000_000, scope: EcnScope::Sync };
    assert_eq!(two_ports(|c| c.ports[0].ecn = Some(ecn)).check(), Ok(()));
    for (change, port, key, said) in [
        (
            (|c| c.ports[1].transparent_clock = true) as fn(&mut SwitchConfig),
            1,
            "transparent_clock",
            "switch s1, port b, transparent_clock: stands beside mark: the delay would be corrected twice; leave one \
             of them out, as mark = false",
        ),
        (
            |c| (c.ports[0].mark, c.ports[0].edge, c.ports[0].transparent_clock) = (None, true, true),
            0,
            "transparent_clock",
            "stands beside edge",
        ),
        (
            |c| {
                mark(c, 0).counter = Counter::ShiftBoth;
                c.ports[1].edge = true;
            },
            1,
            "edge",
            "count requests and responses apart; write forward-reverse = false, or leave edge out",
        ),
        (
            |c| {
                mark(c, 0).carriers.ecn = true;
                c.ports[1].remark = Some(Ect::Zero);
            },
            1,
            "remark",
            "switch s1, ports a and b: use the ECN bits as a counter and as RFC 3168 does; leave out",
        ),
        (
            |c| {
                mark(c, 1).carriers.ecn = true;
                c.ports[0].ecn = Some(EcnConfig { threshold_ps: 1, scope: EcnScope::All });
            },
            0,
            "ecn.threshold",
            "use the ECN bits as a counter",
        ),
        (
            |c| c.ports[1].mark.as_mut().unwrap().carriers = Carriers { ptp: false, ntp: false, ecn: false },
            1,
            "mark.carriers",
            "are none; name at least one of ptp, ntp, ecn",
        ),
        (
            |c| c.ports[1].depth.unit = DepthUnit::Cells { octets: 80 },
            1,
            "depth.cells",
            "K = 750 B is no cell of 80 B times a power of two; write delta as 51200ns or 102400ns",
        ),
        (
            |c| {
                (c.ports[0].mark, c.ports[0].rate) = (None, None);
                c.ports[0].ecn = Some(EcnConfig { threshold_ps: 1, scope: EcnScope::All });
            },
            0,
            "ecn",
            "marks without a rate",
        ),
    ] {
        let error = refused(change);
        assert_eq!((error.port, error.key), (Some(PortId(port)), key), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(two_ports(|c| c.fdb_capacity = 0).check().unwrap_err().port, None);
}

#[test]
fn what_is_marked_by_what_is_ahead_of_it_is_in_a_strict_class() {
    let told = |quanta: usize, change: fn(&mut PortConfig)| {
        let config = two_ports(|c| {
            c.ports[1].quanta = vec![1500; quanta];
            change(&mut c.ports[1]);
        });
        config.check().map_err(|e| e.to_string())
    };
    let refused = |remedy: &str| {
        Err(format!(
            "switch s1, port b, quanta: share the link in rounds, so that what leaves before a frame of theirs is not known; \
             write {remedy}"
        ))
    };
    let above = "a sync-class above them, 3 to 7, or depth = \"queue\"";
    assert_eq!(told(3, |_| ()), refused(above));
    assert_eq!(told(3, |port| port.sync_class = Some(2)), refused(above));
    assert_eq!(told(3, |port| port.sync_class = Some(3)), Ok(()));
    assert_eq!(told(8, |port| port.sync_class = Some(7)), refused("depth = \"queue\""));
    assert_eq!(told(8, |port| port.depth.scope = DepthScope::Queue), Ok(()));
    assert_eq!(told(8, |port| port.depth.scope = DepthScope::Port), Ok(()));
    assert_eq!(told(8, |port| port.mark = None), Ok(()));
    assert_eq!(told(0, |_| ()), Ok(()));
    // ECN alone, and of all of IP: bulk is in the classes that share.
    let ecn = |scope| EcnConfig { threshold_ps: 120_000_000, scope };
    let of = |scope, sync_class| {
        let config = two_ports(|c| {
            let port = &mut c.ports[1];
            (port.mark, port.ecn, port.sync_class) = (None, Some(ecn(scope)), sync_class);
            port.quanta = vec![1500; 3];
        });
        config.check().map_err(|e| e.to_string())
    };
    assert_eq!(of(EcnScope::Sync, None), refused(above));
    assert_eq!(of(EcnScope::Sync, Some(7)), Ok(()));
    let all = refused("depth = \"queue\", or ecn-scope = \"sync\" and a sync-class above them");
    assert_eq!(of(EcnScope::All, Some(7)), all);
}

#[test]
fn a_switch_of_edges_needs_no_mark_of_its_own() {
    let config = two_ports(|c| {
        c.ports.iter_mut().for_each(|port| port.mark = None);
        (c.ports[1].edge, c.delta_ps) = (true, Some(60_000_000));
    });
    assert_eq!((config.check(), config.delta()), (Ok(()), Some(Span { ps: 60_000_000 })));
}

#[test]
fn memory_is_known_before_it_is_reserved() {
    let queues = |frames| two_ports(|c| c.ports[0].queue_frames = Some(frames)).memory();
    let slot = (queues(2000) - queues(1000)) / 1000;
    // Eight classes, each frame with what is known of its departure.
    assert!((8 * 64..8 * 256).contains(&slot), "{slot}");
    // Twice the entries, 24 octets each.
    let fdb = |entries| two_ports(|c| c.fdb_capacity = entries).memory();
    assert_eq!(fdb(1 << 16) - fdb(1 << 15), (2 * 24) << 15);
}

#[test]
fn fixed_entries_are_of_stations_and_ports_that_can_be() {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let entry = FixedEntry { vlan: 0, mac, port: PortId(1) };
    assert_eq!(two_ports(|c| c.fdb_fixed = vec![entry, FixedEntry { vlan: 5, ..entry }]).check(), Ok(()));
    for (wrong, expected) in [
        (FixedEntry { mac: Mac([1; 6]), ..entry }, "is a group address"),
        (FixedEntry { port: PortId(2), ..entry }, "names port 2"),
        (FixedEntry { vlan: 4095, ..entry }, "names VLAN 4095"),
        (entry, "is there twice in VLAN 0"),
    ] {
        let said = refusal(|c| c.fdb_fixed = vec![entry, wrong]);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn vlans_are_those_there_can_be_and_trunks_have_some() {
    let vlan = |vlan: Vlan| two_ports(|c| c.ports[1].vlan = vlan.clone()).check();
    let trunk = |ranges: &[(u16, u16)], native| {
        let allowed = ranges.iter().map(|&(first, last)| VidRange { first, last }).collect();
        vlan(Vlan::Trunk { allowed, native })
    };
    assert_eq!(vlan(Vlan::Access { pvid: 4094 }), Ok(()));
    assert_eq!(trunk(&[(1, 1), (10, 4094)], Some(5)), Ok(()));
    for (told, expected) in [
        (vlan(Vlan::Access { pvid: 0 }), "switch s1, port b, vlan.access: is 0; write 1 to 4094"),
        (trunk(&[], Some(5)), "switch s1, port b, vlan.trunk: names no VLAN; write them, as [10, \"20-29\"]"),
        (trunk(&[(10, 4095)], None), "switch s1, port b, vlan.trunk: is 4095; write 1 to 4094"),
        (trunk(&[(10, 9)], None), "switch s1, port b, vlan.trunk: names 10-9, which is none; write 9-10"),
        (trunk(&[(10, 10)], Some(0)), "switch s1, port b, vlan.native: is 0; write 1 to 4094"),
    ] {
        assert_eq!(told.unwrap_err().to_string(), expected);
    }
    let fixed = |vlan| {
        two_ports(|c| {
            c.ports[1].vlan = Vlan::Access { pvid: 10 };
            c.fdb_fixed = vec![FixedEntry { vlan, mac: Mac([2, 0, 0, 0, 0, 1]), port: PortId(1) }];
        })
        .check()
    };
    assert_eq!(fixed(10), Ok(()));
    let told = fixed(0).unwrap_err().to_string();
    assert!(
        told.contains("is in VLAN 0, and port b is access 10; write a VLAN that the port is in"),
        "{told}"
    );
}

#[test]
fn the_default_queue_is_a_megabyte_or_ten_milliseconds() {
    let limit = |rate| PortConfig { rate, ..PortConfig::new("p") }.queue_limit();
    assert_eq!(limit(None), 1_000_000);
    assert_eq!(limit(Some(Rate(100_000_000))), 1_000_000);
    assert_eq!(limit(Some(Rate(10_000_000_000))), 12_500_000);
}
