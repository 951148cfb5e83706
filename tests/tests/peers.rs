//! Programs as people run them, through the switch: ping and iperf3, both families, whatever the hosts' offloads.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::net::{Host, INTERFACE, Net, Stack};
use plimsoll_tests::process::Process;
use plimsoll_tests::switch::Switch;
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

fn families(host: &Host) -> [IpAddr; 2] {
    [host.v4.into(), host.v6.into()]
}

/// Five echoes of this many octets; all must come back.
fn ping(from: &Host, to: IpAddr, octets: u32) {
    let arguments = ["-n", "-c", "5", "-i", "0.1", "-W", "5", "-M", "do", "-s", &octets.to_string()];
    let mut all: Vec<&str> = arguments.into();
    let target = to.to_string();
    all.push(&target);
    let output = from.run("ping", &all);
    assert!(output.stdout.contains("5 received, 0% packet loss"), "{output:#?}");
}

/// One run of iperf3 with these options of the client; the client's JSON.
fn iperf3(from: &Host, to: &Host, address: IpAddr, options: &[&str]) -> Value {
    let address = address.to_string();
    let mut server = to.command("iperf3");
    server.args(["--server", "--one-off", "--forceflush", "--bind", &address]);
    let server = Process::start(&mut server);
    // iperf3 says on standard output that it listens; its socket says it as well.
    plimsoll_tests::wait_for("iperf3 to listen", LONG, || {
        let table = to.run("ss", &["-Hltn", "sport = :5201"]).stdout;
        (!table.is_empty()).then_some(())
    });
    let mut all = vec!["--client", &address, "--json", "--time", "2"];
    all.extend(options);
    let result = from.run("iperf3", &all).json();
    let _ = server.end(LONG).ok();
    result
}

/// Bit/s that the receiver of a TCP run got.
fn tcp(from: &Host, to: &Host, address: IpAddr) -> f64 {
    let result = iperf3(from, to, address, &[]);
    result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap()
}

/// Frames sent and the share lost of a UDP run at this rate.
fn udp(from: &Host, to: &Host, address: IpAddr, rate: &str) -> (f64, f64) {
    let sum = &iperf3(from, to, address, &["--udp", "--bitrate", rate, "--length", "1400"])["end"]["sum"];
    (sum["packets"].as_f64().unwrap(), sum["lost_percent"].as_f64().unwrap())
}

/// Nothing may be lost below the switch for being too long: what segmentation offload leaves whole.
fn nothing_oversized(switch: &Switch) {
    let drops = switch.drops();
    assert!(!drops.iter().any(|loss| ["rx_dropped", "jumbo"].contains(&loss.reason.as_str())), "{drops:?}");
}

fn everything_passes(net: &Net) {
    let switch = Switch::start(net, &["--port", "p0", "--port", "p1"]);
    let (a, b) = (&net.hosts[0], &net.hosts[1]);
    for address in families(b) {
        ping(a, address, 56);
        // As long as the MTU of 1500 lets it be.
        ping(a, address, if address.is_ipv4() { 1472 } else { 1452 });
        let rate = tcp(a, b, address);
        // Far below what it reaches (gigabits), far above what a path reaches on which offloads break TCP.
        assert!(rate > 100e6, "TCP to {address}: {rate:.0} bit/s");
        let (sent, lost) = udp(a, b, address, "20M");
        assert!(sent > 1000.0 && lost < 5.0, "UDP to {address}: {lost} % of {sent} lost");
    }
    nothing_oversized(&switch);
    let _ = switch.stop().ok();
}

#[test]
fn ping_tcp_and_udp_pass_with_the_hosts_offloads_as_they_are() {
    let net = Net::new(2, Stack::Addressed);
    let features = net.hosts[0].run("ethtool", &["-k", INTERFACE]).stdout;
    assert!(features.contains("tx-checksumming: on"), "no host of today:\n{features}");
    everything_passes(&net);
}

#[test]
fn ping_tcp_and_udp_pass_with_the_hosts_offloads_off() {
    let net = Net::new(2, Stack::Addressed);
    for host in &net.hosts {
        host.run("ethtool", &["-K", INTERFACE, "tx", "off", "gso", "off", "gro", "off"]);
        let features = host.run("ethtool", &["-k", INTERFACE]).stdout;
        assert!(features.contains("tx-checksumming: off"), "{features}");
    }
    everything_passes(&net);
}

#[test]
fn generic_mode_carries_ping_and_udp() {
    let net = Net::new(2, Stack::Addressed);
    let switch = Switch::start(&net, &["--port", "p0,mode=generic", "--port", "p1,mode=generic"]);
    assert_eq!(switch.port("p0")["description"]["mode"], "generic");
    let (a, b) = (&net.hosts[0], &net.hosts[1]);
    for address in families(b) {
        ping(a, address, 1400);
        let (sent, lost) = udp(a, b, address, "20M");
        assert!(sent > 1000.0 && lost < 5.0, "UDP to {address}: {lost} % of {sent} lost");
    }
    let _ = switch.stop().ok();
}

#[test]
fn tcp_fills_a_shaped_link_and_does_not_go_beyond_it() {
    let net = Net::new(2, Stack::Addressed);
    let switch = Switch::start(&net, &["--port", "p0,rate=100mbit", "--port", "p1,rate=100mbit"]);
    let (a, b) = (&net.hosts[0], &net.hosts[1]);
    for (address, payload) in families(b).into_iter().zip([1448.0, 1428.0]) {
        // Of 1538 octets on the wire, so many are TCP's payload.
        let ceiling = 100e6 * payload / 1538.0;
        let share = tcp(a, b, address) / ceiling;
        assert!((0.8..1.05).contains(&share), "TCP to {address}: {share:.3} of the ceiling");
    }
    let _ = switch.stop().ok();
}
