//! The unmodified chronyd over a real cable: plain, with a key, with Network Time Security, and with the wrong key.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::Cable;
use plimsoll_lab::chronyd::{Association, Certificate, Client, Security, Server, Settings};
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
