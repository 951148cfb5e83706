//! The example of the paper's Fig. 6, from a buffer to a counter: on the left the buffer of an egress port with R
//! thresholds, each K octets above the one below, where the fill decides r; on the right the counter that a message
//! brings with X marks and takes away with Y = X + min(r, N - X). Strictly above a threshold (III-B, equation 9).
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, Carrier, plain, ptp, station};
use plimsoll_core::{
    Counter, FixedEntry, MarkConfig, PortConfig, PortId, Rate, SwitchConfig, wire::ethernet::Mac,
};

const R: u32 = 3;
const N: u32 = 4;
/// K in octets: delta is 80 us at 100 Mbit/s.
const K: u32 = 1000;
const DELTA: u64 = 80_000_000;

/// The word of a Sync with `x` marks, behind a buffer filled with `fill` octets on the wire.
fn behind(fill: u32, counter: Counter, word: u32) -> u32 {
    let mark = MarkConfig { counter, counter_max: N, ..MarkConfig::new(R, DELTA) };
    // What the switch before this one counted is kept.
    let port =
        |name: &str| PortConfig { rate: Some(Rate(100_000_000)), trust: true, ..PortConfig::new(name) };
    let mut bench = Bench::new(
        SwitchConfig {
            ports: vec![port("in"), PortConfig { mark: Some(mark), ..port("out") }],
            fdb_fixed: vec![FixedEntry { vlan: 0, mac: Mac(station(1)), port: PortId(1) }],
            ..SwitchConfig::default()
        },
        100,
    );
    // Frames of one instant fill the buffer of an idle link; none is shorter than 84 octets on the wire.
    let mut left = fill;
    while left > 0 {
        let wire = if left >= 600 { 500 } else { left };
        bench.receive(0, plain(station(0), station(1), None, wire as usize - 24), 1000);
        left -= wire;
    }
    bench.receive(0, ptp(station(0), station(1), Carrier::Ethernet, 0, word, 0), 1000);
    bench.advance(u64::MAX);
    let (departure, octets) = bench.departed().pop().unwrap();
    assert_eq!(departure.depth_bytes, u64::from(fill));
    u32::from_be_bytes(octets[14 + 16..14 + 20].try_into().unwrap())
}

/// A word of `count` marks.
fn word(counter: Counter, count: u32) -> u32 {
    match counter {
        Counter::Integer => 1 << 30 | count,
        Counter::Shift => 3 << 30 | ((1 << count) - 1),
        _ => unreachable!("the figure's counters"),
    }
}

#[test]
fn the_fill_decides_r_and_the_counter_grows_by_it_up_to_n() {
    // The lowest and the highest fill of each r, and more than R thresholds.
    let fills =
        [(0, 0), (K, 0), (K + 1, 1), (2 * K, 1), (2 * K + 1, 2), (3 * K, 2), (3 * K + 1, 3), (9 * K, 3)];
    for counter in [Counter::Integer, Counter::Shift] {
        for (fill, r) in fills {
            for x in 0..=N {
                let y = x + r.min(N - x);
                let found = behind(fill, counter, word(counter, x));
                assert_eq!(found, word(counter, y), "{counter:?}, {fill} B, X {x}");
            }
        }
    }
}

#[test]
fn hops_add_up_until_the_counter_is_full_in_whatever_order() {
    let over = |fills: &[u32]| fills.iter().fold(0, |word, fill| behind(*fill, Counter::Shift, word));
    // r = 0 leaves an unmarked word unmarked.
    assert_eq!(over(&[K, K]), 0);
    assert_eq!(over(&[K + 1, 0, 2 * K + 1]), word(Counter::Shift, 3));
    assert_eq!(over(&[2 * K + 1, K + 1, 0]), word(Counter::Shift, 3));
    assert_eq!(over(&[3 * K + 1, 3 * K + 1]), word(Counter::Shift, N));
}
