//! Clock pairs: what chronyd, peer delay, filters and shims need of a file.

use super::*;
use crate::clock::{DelayMechanism, FilterChoice};
use plimsoll_model::Filter;

/// Four hosts at one switch, with these keys of every link.
fn network(marking: &str, link: &str, clocks: &str) -> String {
    let mut text = format!("{marking}\n[switch.s1]\n");
    for host in ["a", "b", "c", "d"] {
        text += &format!("[host.{host}]\n");
    }
    for host in ["a", "b", "c", "d"] {
        text += &format!("[[link]]\nbetween = [\"{host}\", \"s1\"]\nrate = \"100mbit\"\n{link}\n");
    }
    text + clocks
}

fn clock(ends: [&str; 2], keys: &str) -> String {
    format!("[[clock]]\nserver = \"{}\"\nclient = \"{}\"\n{keys}\n", ends[0], ends[1])
}

const BOTH: &str = "[marking]\ndelta = \"10us\"\nthresholds = 128\necn-threshold = \"250us\"";

#[test]
fn chronyd_speaks_ntp_and_is_helped_by_its_hosts_wherever_something_counts() {
    let of = |marking: &str, keys: &str| {
        let text = network(marking, "", &clock(["a", "b"], &format!("daemon = \"chronyd\"\n{keys}")));
        let topology = parse(&text).unwrap();
        let plan = &topology.clocks[0];
        let scale = plan.scale(topology.marking.as_ref(), topology.ecn.as_ref());
        (plan.transport, plan.compensation, plan.carrier, scale.delta_ps, scale.saturated_at.to_client)
    };
    let counts = "[marking]\ndelta = \"10us\"\nthresholds = 128";
    let (v4, host) = (Transport::NtpV4, Compensation::Host);
    assert_eq!(of(BOTH, ""), (v4, host, Carrier::Word, 10_000_000, 128));
    assert_eq!(of(counts, "transport = \"ntp6\"").0, Transport::NtpV6);
    // Nothing is added to what is authenticated.
    for security in ["key", "nts"] {
        let keys = format!("security = \"{security}\"");
        assert_eq!(of(BOTH, &keys), (v4, host, Carrier::Ecn, 250_000_000, 1), "{security}");
        assert_eq!(of(counts, &keys).1, Compensation::None, "{security}");
    }
    assert_eq!(of("[marking]\necn-threshold = \"250us\"", "").2, Carrier::Ecn);
    assert_eq!(of("", "").1, Compensation::None);
    assert_eq!(of(BOTH, "compensation = \"none\"").3, 0);
}

#[test]
fn filters_and_mechanisms_are_read() {
    let keys = "filter = \"min-rtt\"\nwindow = 8\ndelay-mechanism = \"p2p\"\ntransport = \"l2\"";
    let t = parse(&network(BOTH, "pass = [\"0e\"]", &clock(["a", "b"], keys))).unwrap();
    assert_eq!(t.clocks[0].filter, FilterChoice { filter: Filter::MinRtt, window: 8 });
    assert_eq!(t.clocks[0].delay, DelayMechanism::P2p);
    let t = parse(&network(BOTH, "", &clock(["a", "b"], "filter = \"median-delay\""))).unwrap();
    assert_eq!(t.clocks[0].filter, FilterChoice { filter: Filter::MedianDelay, window: 10 });
    // Over UDP no bridge stands in the way.
    let t = parse(&network(BOTH, "", &clock(["a", "b"], "delay-mechanism = \"p2p\""))).unwrap();
    assert!(t.clocks[0].tells_raw());
}

#[test]
fn what_cannot_be_of_a_clock_is_refused_with_the_remedy() {
    for (keys, expected) in [
        (
            "daemon = \"chronyd\"\ntransport = \"udp4\"",
            "clock.transport: is udp4, and chronyd speaks NTP; write",
        ),
        ("daemon = \"chronyd\"\ncompensation = \"clock\"", "but chronyd does not read marks; write \"host\""),
        ("daemon = \"chronyd\"\ncompensation = \"edge\"", "is \"edge\" for NTP; write \"clock\" or \"host\""),
        (
            "daemon = \"chronyd\"\ninterval = \"10ms\"",
            "is 10ms, which chronyd cannot be told; write a power of two",
        ),
        ("security = \"nts\"", "clock.security: is of chronyd alone; leave it out, or write daemon"),
        ("interleaved = true", "clock.interleaved: is of chronyd alone"),
        ("transport = \"ntp4\"\ndelay-mechanism = \"p2p\"", "clock.delay-mechanism: is of PTP alone"),
        (
            "transport = \"l2\"\ndelay-mechanism = \"p2p\"",
            "drops 01-80-C2-00-00-0E, by which peers ask over Ethernet",
        ),
        ("compensation = \"host\"", "but the built-in clock reads marks itself; write \"clock\""),
        ("window = 5", "clock.window: is of a filter, and there is none; write filter"),
        (
            "filter = \"min-rtt\"\nwindow = 0",
            "clock.window: is 0; write how many exchanges it is long, 1 to 128",
        ),
        ("filter = \"huff\"", "clock.filter: unknown value \"huff\""),
    ] {
        let message = refusal(&network(BOTH, "", &clock(["a", "b"], keys)));
        assert!(message.contains(expected), "{keys}\n  got  {message}\n  want {expected}");
    }
    let keyed = "daemon = \"chronyd\"\nsecurity = \"key\"\ncompensation = \"host\"";
    let message = refusal(&network("[marking]\ndelta = \"10us\"", "", &clock(["a", "b"], keyed)));
    assert!(
        message.contains("but nothing counts in packets that are authenticated; write ecn-threshold"),
        "{message}"
    );
}

#[test]
fn a_host_s_shim_is_for_all_of_its_clocks() {
    let pair = |one: &str, other: &str| {
        network(BOTH, "", &format!("{}{}", clock(["a", "b"], one), clock(["a", "c"], other)))
    };
    let helped = "daemon = \"chronyd\"\ncompensation = \"host\"";
    let message = refusal(&pair(helped, "daemon = \"ptp4l\"\ncompensation = \"none\""));
    assert!(
        message.contains("is \"none\", but another clock makes the shim of host a convert marks"),
        "{message}"
    );
    // Edges leave NTP alone, and nothing of PTP for a shim.
    let t = parse(&pair(helped, "daemon = \"ptp4l\"\ncompensation = \"edge\"")).unwrap();
    assert_eq!(
        (t.clocks[0].compensation, t.clocks[1].compensation),
        (Compensation::Host, Compensation::Edge)
    );
    let ptp = "daemon = \"ptp4l\"\ncompensation = \"host\"";
    let message = refusal(&pair(ptp, "daemon = \"ptp4l\"\ncompensation = \"edge\""));
    assert!(
        message.contains("is \"host\", but another clock makes the port to host a convert marks"),
        "{message}"
    );
}
