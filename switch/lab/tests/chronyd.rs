//! The unmodified chronyd over a real cable: plain, with a key, with Network Time Security, and with the wrong key.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::Cable;
use common::{ONE, TWO};
use plimsoll_lab::chronyd::{Association, Certificate, Client, Meter, Security, Server, Settings, Tap};
use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 1));

/// Asks until `enough` of the client's answers, or for 10 s.
fn until(client: &mut Client, enough: impl Fn(&Association) -> bool) -> Association {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(seen) = client.association().unwrap()
            && enough(&seen)
        {
            return seen;
        }
        assert!(Instant::now() < deadline, "{:?}:\n{}", client.association(), client.log());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_client_follows_its_server_in_each_way_of_trust() {
    let nts = Security::Nts(Certificate::for_server(SERVER).unwrap());
    for security in [Security::None, Security::Key([0x5A; 32]), nts] {
        let cable = Cable::new();
        let settings = Settings::new(security);
        let mut server = Server::start(&cable.one, "one", &settings).unwrap();
        let mut client = Client::start(&cable.two, "two", SERVER, &settings).unwrap();
        let seen = until(&mut client, |seen| seen.valid >= 16);
        assert_eq!(seen.authenticated, settings.security != Security::None, "{seen:?}");
        assert!(seen.delay_s > 0.0 && seen.delay_s < 0.005 && seen.offset_s.abs() < 0.005, "{seen:?}");
        let tracking = client.tracking().unwrap().unwrap();
        assert!(tracking.synchronised && tracking.stratum == 2, "{tracking:?}");
        assert!(tracking.offset_s.abs() < 0.005, "{tracking:?}");
        server.check().unwrap();
    }
}

#[test]
fn a_client_with_another_key_follows_nobody() {
    let cable = Cable::new();
    let _server = Server::start(&cable.one, "one", &Settings::new(Security::Key([1; 32]))).unwrap();
    let settings = Settings::new(Security::Key([2; 32]));
    let mut client = Client::start(&cable.two, "two", SERVER, &settings).unwrap();
    let seen = until(&mut client, |seen| seen.sent >= 8);
    assert_eq!(seen.valid, 0, "{seen:?}");
    assert!(!client.tracking().unwrap().unwrap().synchronised);
}

/// What a meter measured is what taps on both interfaces saw, exchange by exchange: the times of a kernel and those of
/// the wire are the same, but that basic mode reads the clock for a packet before it sends it.
#[test]
fn a_meter_measures_what_passes_the_taps() {
    let nts = Security::Nts(Certificate::for_server(SERVER).unwrap());
    for (security, interleaved) in [(Security::None, false), (Security::None, true), (nts, false)] {
        let cable = Cable::new();
        let settings = Settings { interleaved, poll: -6, ..Settings::new(security) };
        let mut tap = Tap::open((&cable.two, TWO), (&cable.one, ONE)).unwrap();
        let _server = Server::start(&cable.one, "one", &settings).unwrap();
        let mut meter = Meter::start(&cable.two, "two", SERVER, &settings).unwrap();
        // Another client on the same host is not taken for the meter.
        let _client = Client::start(&cable.two, "two", SERVER, &settings).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while meter.measurements().len() < 100 {
            assert!(Instant::now() < deadline, "{:?}", meter.measurements());
            tap.take(Duration::from_millis(50)).unwrap();
            meter.check().unwrap();
        }
        let measurements = meter.stop();
        let exchanges = tap.finish().unwrap();
        assert!(
            exchanges.len().abs_diff(measurements.len()) <= 1,
            "{} {}",
            exchanges.len(),
            measurements.len()
        );
        assert!(measurements.iter().all(|it| it.valid));
        assert_eq!(measurements.iter().filter(|it| it.interleaved).count() > 50, interleaved);
        assert!(exchanges.iter().all(Option::is_some), "each answer has its request");
        let late = |exchange: &plimsoll_lab::chronyd::Exchange| {
            let took = |later: u64, earlier: u64| later.wrapping_sub(earlier).cast_signed() as f64;
            let (there, back) =
                (took(exchange.received.0, exchange.asked), took(exchange.returned.0, exchange.answered));
            assert!(there > 0.0 && back > 0.0, "{exchange:?}");
            there + back
        };
        // Round trips by the wire and by the daemons are the same, but that a basic answer says too early when it leaves.
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let wire = median(exchanges.iter().flatten().map(late).collect());
        let measured = median(measurements.iter().map(|it| it.delay_s * 1e9).collect());
        // A tap's stamp of what is sent is taken a little before the driver's.
        assert!(
            (measured - wire).abs() < 30_000.0,
            "{interleaved}: {wire} ns by the wire, {measured} ns measured"
        );
    }
}
