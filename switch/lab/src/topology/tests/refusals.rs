//! What is refused or warned of in a lab's file.

use super::*;

#[test]
fn whatever_is_wrong_is_said_with_place_key_and_remedy() {
    for (text, expected) in [
        ("", "net.toml: link: there is no link, so no network; write [[link]] with"),
        (
            "[[port]]\nname = \"eth1\"",
            "port: its ports are interfaces of this machine; start it with `plimsoll run`",
        ),
        ("a = ", "net.toml:1:5: a: "),
        (
            "colour = 1",
            "net.toml:1:1: colour: unknown key colour; the keys here are name, description, duration,",
        ),
        ("[host.a]\n[host.a]", "net.toml:2:"),
        (
            "[host.\"\"]\n[[link]]\nbetween = [\"a\", \"b\"]",
            "net.toml:1:7: host.: \"\" is no name for an interface; use",
        ),
        (
            "[switch.s1]\nlatencies = \"1us\"",
            "net.toml:2:1: switch.s1.latencies: unknown key latencies; the keys",
        ),
        (
            "[switch.s1]\nlatency = 100",
            "net.toml:2:11: switch.s1.latency: \"100\" has no unit; write for example",
        ),
        ("[switch.s1]\nstall = \"wait\"", "unknown value \"wait\"; write catch-up or re-anchor"),
        ("[[link]]\nrate = \"1mbit\"", "net.toml:1:1: link: has no between; write between = ..., see"),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"100\"",
            "net.toml:3:8: link.rate: \"100\" has no unit; write for example \"100mbit\"",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = 100",
            "net.toml:3:8: link.rate: \"100\" has no unit; write for example \"100mbit\"",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"100Mbps\"",
            "has an unknown unit; bps is octets a second to tc and bits a second to others: write bits as \"100mbit\"",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = { client = \"1mbit\" }",
            "\"client\" is no direction; write to-NODE with a node of this link",
        ),
        (
            "[[link]]\nbetween = [\"a\", \"b\"]",
            "net.toml:2:12: link.between: there is no node \"a\"; write [host.a] or",
        ),
        ("[host.a]\n[[link]]\nbetween = [\"a\"]", "net.toml:2:1: link.between: names 1 nodes; write two"),
        (
            "[host.a]\n[[link]]\nbetween = [\"a\", \"a\"]",
            "3:17: link.between: joins a node with itself; name two",
        ),
        (
            "[host.a-long-long-name]\n[[link]]\nbetween = []",
            "net.toml:1:7: host.a-long-long-name: \"a-long-long-name\" has 16 octets; interfaces take names of at most 15",
        ),
        (
            "[host.\"a b\"]\n[[link]]\nbetween = []",
            "\"a b\" is no name for an interface; use letters, digits",
        ),
        (
            "[host.x]\n[switch.x]\n[[link]]\nbetween = []",
            "net.toml:2:9: switch.x: there is a host of this name already;",
        ),
        (&one_hop("[host.d]"), "net.toml:14:7: host.d: has no link; write a [[link]] with its name"),
        (&one_hop("[[link]]\nbetween = [\"a\", \"c\"]"), "host a has a link already; a host has one link"),
        (
            &one_hop(
                "[[link]]\nbetween = [\"s1\", \"s2\"]\n[[link]]\nbetween = [\"s2\", \"s1\"]\n[switch.s2]",
            ),
            "net.toml:17:18: link.between: these two are joined already",
        ),
        (
            &one_hop(
                "[switch.s2]\n[switch.s3]\n[[link]]\nbetween = [\"s1\", \"s2\"]\n[[link]]\nbetween = [\"s2\", \"s3\"]\n\
                 [[link]]\nbetween = [\"s3\", \"s1\"]",
            ),
            "net.toml:21:18: link.between: closes a loop; leave one link of the loop out",
        ),
        (
            &one_hop("").replace("rate = \"10mbit\"", "rate = { to-x = \"10mbit\" }"),
            "net.toml:13:8: link.rate: to-x: x is not at this link; write to-s1 or to-c",
        ),
        (
            &one_hop("").replace("rate = \"10mbit\"", "rate = { to-s1 = \"10mbit\" }"),
            "link.rate: to-s1: c is no switch, and sends unshaped; leave to-s1 out",
        ),
        (
            &one_hop("").replace("rate = \"10mbit\"", "delay = \"1ms\""),
            "link.delay: would delay one direction only: what hosts send is not delayed; put the delay on a link between",
        ),
        (
            "[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1mbit\"",
            "net.toml:5:8: link.rate: no end of this link is a switch; leave it out",
        ),
        (
            &one_hop("").replace("rate = \"10mbit\"", "mark = true"),
            "link.mark: there is no [marking]; write [marking]",
        ),
        (
            &one_hop("").replace("rate = \"10mbit\"", "edge = true"),
            "link.edge: there is no [marking] with counts, so no delta; write [marking]",
        ),
        (
            &one_hop("[marking]\ndelta = \"1us\"").replace("rate = \"10mbit\"", "mark = true"),
            "net.toml:13:8: link.mark: switch s1, port c: marks without a rate, so that no depth is a time; write rate",
        ),
        (&one_hop("").replace("rate = \"10mbit\"", "mtu = 9000"), "link.mtu: is 9000; write 1280 to 3498"),
        (&one_hop("[marking]\ndelta = \"0us\""), "marking.delta: is 0ps; write a time above 0 and up to 1s"),
        (
            &one_hop("[marking]\ndelta = \"1us\"\nthresholds = 9\ncounter-max = 8"),
            "marking.thresholds: R is 9 with N = 8; write R from 1 to N",
        ),
        (
            &one_hop("[marking]\ndelta = \"1us\"\ncounter-max = 1073741824"),
            "write 1 to 1073741823 (2^30 - 1)",
        ),
    ] {
        let message = refusal(text);
        assert!(message.contains(expected), "{text}\n  got  {message}\n  want {expected}");
        assert!(!message.contains('\n') && message.contains("; "), "one line with a remedy: {message}");
    }
}

#[test]
fn flows_and_clocks_are_refused_where_they_cannot_be() {
    let flow = |keys: &str| one_hop(&format!("[[flow]]\nfrom = \"a\"\nto = \"c\"\n{keys}"));
    let clock = |keys: &str| one_hop(&format!("[[clock]]\nserver = \"a\"\nclient = \"c\"\n{keys}"));
    for (text, expected) in [
        (flow(""), "net.toml:14:1: flow.rate: is not given; write load = 0.7"),
        (flow("load = 0.7\nrate = \"1mbit\""), "flow.rate: stands beside load; keep one of them"),
        (flow("load = 0.0"), "net.toml:17:8: flow.load: is 0.0; write the share of the link that it takes"),
        (
            flow("load = 0.7\nsize = \"1501B\""),
            "flow.size: frames of 1539 octets on the wire do not fit; with MTU 1500",
        ),
        (
            flow("load = 0.7\nsize = \"20B\""),
            "net.toml:18:8: flow.size: no packet has 20 B; write octets of the IP packet, at least 44B",
        ),
        (
            flow("load = 0.7\nkind = \"on-off\""),
            "flow.on: an on-off flow needs on and off; write on = \"10ms\"",
        ),
        (flow("load = 0.7\non = \"1ms\""), "flow.on: is for kind = \"on-off\"; leave it out"),
        (
            flow("load = 0.7\nkind = \"burst\""),
            "unknown value \"burst\"; write one of poisson, constant, on-off",
        ),
        (flow("paper = \"sf\""), "unknown value \"sf\"; write one of SF, LM, SM, SS"),
        (
            flow("paper = \"SF\"\nsize = \"100B\""),
            "flow.paper: stands beside them; leave kind, size and sizes out",
        ),
        (flow("load = 1").replace("\"c\"\nload", "\"a\"\nload"), "flow.to: is the same host at both ends"),
        (
            flow("load = 1").replace("to = \"c\"\nload", "to = \"s1\"\nload"),
            "there is no host \"s1\"; the hosts are a, b, c",
        ),
        (
            flow("load = 1\nname = \"x\"\n[[flow]]\nfrom = \"b\"\nto = \"c\"\nload = 1\nname = \"x\""),
            "flow.name: there is a flow \"x\" already",
        ),
        (
            flow("load = 1\nname = \"\""),
            "flow.name: \"\" is no name; write 1 to 64 characters in one line, or leave",
        ),
        (flow("load = 1\nname = \"a\\nb\""), "flow.name: \"a\\nb\" is no name; write 1 to 64"),
        (clock("name = \"\""), "clock.name: \"\" is no name; write 1 to 64 characters"),
        (
            flow("load = 1").replace("\nrate = \"100mbit\"", "").replace("\nrate = \"10mbit\"", ""),
            "flow.load: no link on its way has a rate; write rate = \"70mbit\" here",
        ),
        (
            flow("load = 1").replace("to = \"c\"", "to = \"d\"")
                + "\n[host.d]\n[host.e]\n[[link]]\nbetween = [\"d\", \"e\"]",
            "flow.to: there is no way from a to d; join their switches",
        ),
        (
            clock("compensation = \"edge\""),
            "clock.compensation: is \"edge\" without [marking]; write [marking]",
        ),
        (clock("interval = \"1us\""), "clock.interval: is 1us; write \"1ms\" to \"10s\""),
        (
            clock("daemon = \"ptp4l\"\ninterval = \"10ms\""),
            "is 10ms, which ptp4l cannot be told; write a power of two",
        ),
        (
            clock("transport = \"tcp\""),
            "\"tcp\" carries neither PTP nor NTP; write l2, udp4 or udp6, or ntp4 or ntp6",
        ),
        (
            clock("daemon = \"ptp4l\"\ncompensation = \"clock\"\n[marking]\ndelta = \"1us\""),
            "is \"clock\", but ptp4l does not read marks; write \"edge\", or daemon = \"plimsoll\"",
        ),
        (
            clock(
                "compensation = \"edge\"\n[[clock]]\nserver = \"b\"\nclient = \"c\"\ncompensation = \"clock\"\n[marking]\n\
                 delta = \"1us\"",
            ),
            "is \"clock\", but another clock makes the port to host c convert marks",
        ),
        (
            clock(
                "[marking]\ndelta = \"1us\"\n[[clock]]\nserver = \"d\"\nclient = \"e\"\ncompensation = \"edge\"",
            ) + "\n[host.d]\n[host.e]\n[[link]]\nbetween = [\"d\", \"e\"]",
            "clock.compensation: no switch is beside host d",
        ),
        (
            one_hop("").replace("[host.b]", "[host.b]\naddress = \"10.77.0.1\""),
            "10.77.0.1 is the address of a too",
        ),
        (
            one_hop("").replace("[host.b]", "[host.b]\naddress = \"10.78.0.1\""),
            "10.78.0.1 is not in the network of a",
        ),
        (
            one_hop("").replace("[host.b]", "[host.b]\naddress = \"10.77.0.0\""),
            "10.77.0.0 is no address of one host",
        ),
        (one_hop("duration = \"0s\""), "unknown key duration"),
        (format!("duration = \"0s\"\n{}", one_hop("")), "net.toml:1:12: duration: is 0; write how long"),
        (format!("name = \"a/b\"\n{}", one_hop("")), "net.toml:1:8: name: \"a/b\" is no name for a lab"),
    ] {
        let message = refusal(&text);
        assert!(message.contains(expected), "{text}\n  got  {message}\n  want {expected}");
    }
    let missing = Topology::load("two-hop", &Overrides::default()).unwrap_err().to_string();
    let said = "two-hop: no lab of this name is built in; there are one-hop, one-hop-ptp4l, ";
    assert!(missing.starts_with(said), "{missing}");
    assert!(missing.ends_with(", idle; a file of your own needs its path"), "{missing}");
    assert!(
        Topology::load("./none.toml", &Overrides::default())
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}

#[test]
fn what_works_but_not_as_thought_is_warned_of() {
    let flows = one_hop(
        "[marking]\ndelta = \"10ms\"\n[[flow]]\nfrom = \"a\"\nto = \"c\"\nload = 0.6\n[[flow]]\nfrom = \"b\"\nto = \
         \"c\"\nrate = \"5mbit\"",
    );
    let warnings = parse(&flows).unwrap().warnings;
    assert_eq!(warnings[0], "switch s1, port c: flows offer 110 % of 10mbit; its queue stays full and drops");
    assert!(warnings[1].contains("R*K = 4000000 B is beyond the queue's 1000000 B"), "{warnings:?}");
    // R beyond N once, not for each port again.
    let beyond = one_hop("[marking]\ndelta = \"10us\"\ncounter = \"bit-shift\"\nthresholds = 40");
    let warnings = parse(&beyond).unwrap().warnings;
    let said = "marking: R = 40, but this counter ends at N = 29: thresholds above say nothing more; write at most 29, \
                or another counter";
    assert_eq!(warnings, [said]);
    // 110 octets take 88 us at 10 Mbit/s, 8.8 us at 100.
    let clock = one_hop("[[clock]]\nname = \"x\"\nserver = \"a\"\nclient = \"c\"");
    let warnings = parse(&clock).unwrap().warnings;
    assert!(
        warnings[0].starts_with(
            "clock x: by rates and delays its messages take 79.2 us longer to the client than back"
        ),
        "{warnings:?}"
    );
}

#[test]
fn marking_asked_for_where_nothing_marks_is_refused() {
    let delta = Overrides { delta: Some("60us".parse().unwrap()), ..Overrides::default() };
    let thresholds = Overrides { thresholds: Some(4), ..Overrides::default() };
    let no_rates = "[switch.s]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s\"]\n[[link]]\nbetween = [\"b\", \"s\"]";
    for (text, overrides, key) in [
        (no_rates, delta, "--delta"),
        (no_rates, thresholds, "--thresholds"),
        (&one_hop(""), thresholds, "--thresholds"),
    ] {
        let message = Topology::parse("net.toml", text, &overrides).map(drop).unwrap_err().to_string();
        let expected = format!("net.toml: {key}: is given, but no port here marks; leave it out");
        assert!(message.starts_with(&expected), "{message}");
    }
    assert!(Topology::parse("net.toml", &one_hop(""), &Overrides { thresholds: Some(4), ..delta }).is_ok());
}
