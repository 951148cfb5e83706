use super::*;
use crate::clock::Transport;
use crate::traffic::{FlowKind, SizeDistribution, UNCAPPED};
use plimsoll_core::Rate;
use plimsoll_port::worker::{ReleaseAt, Stall};

fn parse(text: &str) -> Result<Topology, TopologyError> {
    Topology::parse("net.toml", text, &Overrides::default())
}

fn refusal(text: &str) -> String {
    parse(text).map(drop).unwrap_err().to_string()
}

fn run(text: &str) -> Result<RunFile, TopologyError> {
    RunFile::parse("run.toml", text, &Overrides::default())
}

/// One switch, three hosts; `more` is appended.
fn one_hop(more: &str) -> String {
    format!(
        r#"[switch.s1]
[host.a]
[host.b]
[host.c]
[[link]]
between = ["a", "s1"]
rate = "100mbit"
[[link]]
between = ["b", "s1"]
rate = "100mbit"
[[link]]
between = ["s1", "c"]
rate = "10mbit"
{more}"#
    )
}

#[test]
fn built_in_labs_are_good_and_say_what_they_show() {
    for lab in BUILT_IN {
        let topology = Topology::load(lab.name, &Overrides::default()).unwrap();
        assert_eq!(topology.name, lab.name);
        assert_eq!(topology.warnings, Vec::<String>::new(), "{}", lab.name);
        assert!(topology.description.is_some() && !topology.clocks.is_empty(), "{}", lab.name);
    }
}

#[test]
fn one_hop_is_what_its_file_says() {
    let t = Topology::load("one-hop", &Overrides::default()).unwrap();
    let s1 = &t.switches[0];
    assert_eq!((s1.latency_ns, s1.correct_lateness, s1.stall), (100_000, true, Stall::CatchUp));
    assert_eq!((s1.release, t.idle, t.cpu), (ReleaseAt::End, Idle::Spin, None));
    let ports: Vec<_> = s1.config.ports.iter().map(|p| (p.name.as_str(), p.edge, p.trust)).collect();
    assert_eq!(ports, [("server", false, false), ("client", false, false), ("load", false, false)]);
    let mark = MarkConfig::new(128, 10_000_000);
    assert!(s1.config.ports.iter().all(|p| p.mark == Some(mark) && p.rate == Some(Rate(100_000_000))));
    assert_eq!(t.marking, Some(mark));
    let hosts: Vec<_> = t.hosts.iter().map(|h| (h.name.as_str(), h.v4.to_string(), h.mac[5])).collect();
    assert_eq!(
        hosts,
        [
            ("server", "10.77.0.1".into(), 1),
            ("client", "10.77.0.2".into(), 2),
            ("load", "10.77.0.3".into(), 3)
        ]
    );
    assert_eq!((t.hosts[2].v6.to_string(), t.hosts[2].mtu), ("fd77::3".into(), 1500));
    let flow = &t.flows[0];
    assert_eq!((flow.name.as_str(), flow.from, flow.to), ("cross", 2, 1));
    assert_eq!((flow.spec.kind, flow.spec.rate), (FlowKind::Poisson, Rate(70_000_000)));
    assert_eq!(flow.spec.size, SizeDistribution::Fixed { wire: 1538 });
    assert_eq!(flow.target.to_string(), "10.77.0.2:7700");
    let clock = &t.clocks[0];
    assert_eq!((clock.server, clock.client, clock.interval_ns), (0, 1, 15_625_000));
    assert_eq!((clock.compensation, clock.saturated_at), (Compensation::Clock, 128));
    assert_eq!((t.duration, t.seed), (Duration::from_secs(20), 1));
    let ends = &t.cables[1].ends;
    assert_eq!((ends[0].node, ends[0].interface.as_str()), (Node::Host(1), "net0"));
    assert_eq!((ends[1].node, ends[1].interface.as_str()), (Node::Switch(0), "client"));
}

#[test]
fn edges_stand_beside_the_hosts_whose_clock_asks_for_them() {
    let t = Topology::load("one-hop-ptp4l", &Overrides::default()).unwrap();
    let edges: Vec<_> = t.switches[0].config.ports.iter().map(|p| (p.name.as_str(), p.edge)).collect();
    assert_eq!(edges, [("server", true), ("client", true), ("load", false)]);
    assert_eq!((t.clocks[0].daemon, t.clocks[0].transport), (Daemon::Ptp4l, Transport::UdpV4));
}

#[test]
fn transparent_clocks_on_the_way_compensate_by_themselves() {
    let t = Topology::load("transparent-clock", &Overrides::default()).unwrap();
    assert_eq!((t.clocks[0].compensation, t.clocks[0].saturated_at), (Compensation::TransparentClock, 0));
    let lab = BUILT_IN.iter().find(|lab| lab.name == "transparent-clock").unwrap().text;
    let told = |keys: &str| parse(&format!("{lab}{keys}"));
    assert_eq!(told("compensation = \"none\"").unwrap().clocks[0].compensation, Compensation::None);
    let asked = "compensation = \"transparent-clock\"";
    assert!(told(asked).is_ok());
    let bare = format!("{lab}{asked}").replace("transparent-clock = true", "");
    let message = refusal(&bare);
    assert!(
        message
            .contains("clock.compensation: is \"transparent-clock\", but no port on its way is one; write"),
        "{message}"
    );
    let ntp = lab.replace("udp4", "ntp4").replace("daemon = \"ptp4l\"", "");
    assert_eq!(parse(&ntp).unwrap().clocks[0].compensation, Compensation::None, "NTP has no correctionField");
    // Beside marks the clock takes both into account.
    let mixed = lab.replacen("transparent-clock = true", "", 1)
        + "daemon = \"plimsoll\"\n[marking]\ndelta = \"60us\"";
    let mixed = parse(&mixed.replace("daemon = \"ptp4l\"\n", "")).unwrap();
    assert_eq!(mixed.clocks[0].compensation, Compensation::Clock);
}

#[test]
fn three_hops_add_up_trust_each_other_and_share_delta() {
    let t = Topology::load("three-hop", &Overrides::default()).unwrap();
    let trusted: Vec<_> = t.switches[1].config.ports.iter().map(|p| (p.name.as_str(), p.trust)).collect();
    assert_eq!(trusted, [("s1", true), ("s3", true), ("b", false)]);
    // s1 -> s2 -> s3 -> client.
    assert_eq!(t.clocks[0].saturated_at, 3 * 128);
    // The paper's shares of the slowest link on the way, which joins the switches at 100 Mbit/s.
    let rates: Vec<_> = t.flows.iter().map(|f| f.spec.rate.0 / 100_000).collect();
    assert_eq!(rates, [342, 500, 666, 666, 500, 342]);
    assert!(t.flows.iter().all(|f| f.bottleneck == Some(Rate(100_000_000))));
    let mut seeds: Vec<_> = t.flows.iter().map(|f| f.spec.seed).collect();
    seeds.dedup();
    assert_eq!(seeds.len(), 6, "every flow has a stream of its own");
}

#[test]
fn idle_joins_a_switch_a_bridge_and_two_hosts_directly() {
    let t = Topology::load("idle", &Overrides::default()).unwrap();
    assert_eq!((t.switches.len(), t.bridges.as_slice(), t.flows.len()), (1, &["br1".to_owned()][..], 0));
    assert!(t.clocks.iter().all(|c| c.compensation == Compensation::None && c.saturated_at == 0));
    let domains: Vec<_> = t.clocks.iter().map(|c| c.domain).collect();
    assert_eq!(domains, [0, 1, 2]);
}

#[test]
fn what_only_the_simulator_follows_is_read_and_named() {
    let t = parse(&one_hop(
        "[[flow]]\nfrom = \"a\"\nto = \"c\"\npaper = \"SF\"\nuncapped = true\ndscp = 46\n[[clock]]\n\
         server = \"a\"\nclient = \"c\"",
    ))
    .unwrap();
    assert_eq!((t.flows[0].spec.mtu, t.flows[0].spec.dscp), (UNCAPPED, 46));
    assert_eq!(t.simulated_only().unwrap()[0], "flow flow0");
    let uplink = one_hop("").replace("[host.b]", "[host.b]\nuplink = \"1gbit\"");
    let t = parse(&uplink).unwrap();
    assert_eq!((t.hosts[1].uplink, t.hosts[0].uplink), (Some(Rate(1_000_000_000)), None));
    assert_eq!(t.simulated_only(), None, "a lab says that it does not follow it");
    let ntp = one_hop("[[clock]]\nserver = \"a\"\nclient = \"c\"\ntransport = \"ntp6\"");
    let t = parse(&ntp).unwrap();
    assert_eq!(t.clocks[0].transport, Transport::NtpV6);
    assert!(t.simulated_only().unwrap()[1].contains("NTP/IPv6 exists in `plimsoll sim` only"));
    let fixed = "[[flow]]\nfrom = \"a\"\nto = \"c\"\nload = 0.5\nuncapped = true";
    assert!(refusal(&one_hop(fixed)).contains("flow.uncapped: is for sizes of exponential law"));
    let dscp = "[[flow]]\nfrom = \"a\"\nto = \"c\"\nload = 0.5\ndscp = 64";
    let refused = refusal(&one_hop(dscp));
    assert!(refused.contains(": flow.dscp: its dscp is 64; write 0 to 63"), "{refused}");
    let ptp4l = format!("{ntp}\ndaemon = \"ptp4l\"\ncompensation = \"none\"");
    assert!(refusal(&ptp4l).contains("a ptp4l over NTP"));
    let rate = one_hop("").replace("\"10mbit\"", "{ to-c = \"10mbit\", to-s1 = \"1gbit\" }");
    assert!(refusal(&rate).contains("uplink at [host.NAME]"));
}

#[test]
fn another_seed_changes_every_stream_and_nothing_else() {
    let t = Topology::load("three-hop", &Overrides::default()).unwrap();
    let other = t.with_seed(2);
    let asked = Topology::load("three-hop", &Overrides { seed: Some(2), ..Overrides::default() }).unwrap();
    assert_eq!((&other.flows, &other.clocks, other.seed), (&asked.flows, &asked.clocks, 2));
    assert!(t.flows.iter().zip(&other.flows).all(|(one, two)| one.spec.seed != two.spec.seed));
}

#[test]
fn the_command_line_goes_before_the_file() {
    let overrides = Overrides {
        duration: Some(Duration::from_secs(3)),
        seed: Some(9),
        delta: Some("60us".parse().unwrap()),
        thresholds: Some(4),
        load: Some(0.9),
        ..Overrides::default()
    };
    let t = Topology::load("one-hop", &overrides).unwrap();
    assert_eq!((t.duration.as_secs(), t.seed, t.flows[0].spec.rate), (3, 9, Rate(90_000_000)));
    let mark = t.switches[0].config.ports[1].mark.unwrap();
    assert_eq!((mark.delta_ps, mark.thresholds), (60_000_000, 4));
    let other = Topology::load("one-hop", &Overrides { seed: Some(8), ..overrides }).unwrap();
    assert_ne!(other.flows[0].spec.seed, t.flows[0].spec.seed);
    // A delta marks a network whose file has no [marking].
    let marked = Topology::parse("net.toml", &one_hop(""), &overrides).unwrap();
    assert_eq!(marked.marking.unwrap().delta_ps, 60_000_000);
}

#[test]
fn keys_by_direction_reach_the_port_that_sends() {
    let text = r#"
[marking]
delta = "60us"
[switch.s1]
[switch.s2]
[host.a]
[host.b]
[[link]]
between = ["a", "s1"]
[[link]]
between = ["s1", "s2"]
rate = { to-s2 = "10mbit", to-s1 = "none" }
queue = { to-s2 = "64kB" }
delay = "1ms"
trust = false
class = 3
sync-class = 6
pass = ["0e"]
[[link]]
between = ["s2", "b"]
rate = "100mbit"
mark = false
delay = { to-b = "5us" }
mtu = 3000
"#;
    let t = parse(text).unwrap();
    let [to_a, to_s2] = &t.switches[0].config.ports[..] else { panic!() };
    let [to_s1, to_b] = &t.switches[1].config.ports[..] else { panic!() };
    assert_eq!((to_a.rate, to_a.mark), (None, None), "no rate, so no time to mark");
    assert_eq!((to_s2.rate, to_s2.queue_bytes), (Some(Rate(10_000_000)), Some(64_000)));
    assert_eq!((to_s1.rate, to_s1.queue_bytes, to_s1.mark), (None, None, None));
    assert_eq!((to_s1.delay.0, to_s2.delay.0, to_b.delay.0), (1_000_000, 1_000_000, 5_000));
    assert_eq!((to_s2.default_priority, to_s2.sync_class), (3, Some(6)));
    assert_eq!((to_s2.pass_reserved.as_slice(), to_s2.trust), (&[0x0E][..], false));
    assert!(to_s2.mark.is_some() && to_b.mark.is_none());
    assert_eq!((t.hosts[0].mtu, t.hosts[1].mtu, &t.switches[1].mtu[..]), (1500, 3000, &[1500, 3000][..]));
}

#[test]
fn steps_imply_delta_where_they_agree() {
    let text = |step: &str, marking: &str| {
        one_hop("").replace("rate = \"10mbit\"", &format!("rate = \"10mbit\"\nstep = \"{step}\""))
            + "[marking]\n"
            + marking
    };
    assert_eq!(parse(&text("75B", "")).unwrap().marking.unwrap().delta_ps, 60_000_000);
    assert!(parse(&text("75B", "delta = \"60us\"")).is_ok());
    assert_eq!(
        refusal(&text("750B", "delta = \"60us\"")),
        "net.toml:14:8: link.step: K = 750 B at 10mbit implies delta = 600us, [marking] says 60us; write one delta in \
         [marking] and leave step out: each port derives K = delta*rate/8"
    );
    let both = one_hop("[marking]").replace("mbit\"", "mbit\"\nstep = \"750B\"");
    assert!(
        refusal(&both).contains("implies delta = 600us, the port to a implies 60us"),
        "{}",
        refusal(&both)
    );
    assert!(refusal(&one_hop("[marking]")).contains("marking.delta: is not given"));
}

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
        (flow("load = 0.0"), "net.toml:17:8: flow.load: is 0; write the share of the link that it takes"),
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
    assert_eq!(
        missing,
        "two-hop: no lab of this name is built in; there are one-hop, one-hop-ptp4l, transparent-clock, three-hop, idle; a file of your \
         own needs its path"
    );
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
fn run_files_have_one_switch_on_interfaces() {
    let file = RunFile::parse(
        "run.toml",
        r#"
name = "rack"
[marking]
delta = "60us"
thresholds = 4
[worker]
cpu = 3
[switch.edge]
latency = "50us"
stall = "re-anchor"
[[port]]
name = "eth1"
rate = "1gbit"
edge = true
mode = "native"
[[port]]
name = "eth2"
trust = true
release = "end"
"#,
        &Overrides::default(),
    )
    .unwrap();
    let switch = &file.switches[0];
    assert_eq!((file.name.as_deref(), file.cpu, file.idle), (Some("rack"), Some(3), Idle::Adaptive));
    assert_eq!(
        (switch.config.name.as_str(), switch.latency_ns, switch.correct_lateness),
        ("edge", 50_000, false)
    );
    assert_eq!(switch.stall, Stall::ReAnchor);
    assert_eq!(switch.config.ports[0].mark.map(|m| (m.thresholds, m.delta_ps)), Some((4, 60_000_000)));
    assert_eq!((switch.config.ports[0].edge, switch.config.ports[1].mark), (true, None));
    assert_eq!(switch.ports[0], RunPort { mode: plimsoll_port::Mode::Native, release: None });
    assert_eq!(switch.ports[1].release, Some(ReleaseAt::End));
}

#[test]
fn run_files_are_refused_with_place_and_remedy() {
    for (text, expected) in [
        ("", "run.toml: port: there is no port; write [[port]]"),
        ("[[link]]\nbetween = [\"a\", \"b\"]", "port: is a lab's file: it has links"),
        (
            "[[port]]\nname = \"eth1\"\n[[port]]\nname = \"eth1\"",
            "run.toml:4:8: port.name: eth1 is a port already",
        ),
        (
            "[[port]]\nname = \"a-long-interface\"",
            "run.toml:2:8: port.name: \"a-long-interface\" has 16 octets",
        ),
        ("[[port]]\nname = \"eth1\"\nrate = \"1\"", "run.toml:3:8: port.rate: \"1\" has no unit"),
        (
            "[[port]]\nname = \"eth1\"\nspeed = 1",
            "run.toml:3:1: port.speed: unknown key speed; the keys here are name,",
        ),
        ("[[port]]\nname = \"eth1\"\nmark = true", "port.mark: there is no [marking]"),
        ("[[port]]\nname = \"eth1\"\nswitch = \"s9\"", "there is no switch \"s9\"; the switches are switch"),
        (
            "[switch.a]\n[switch.b]\n[[port]]\nname = \"eth1\"",
            "is not given, and there are several; write switch = one",
        ),
        (
            "[marking]\n[[port]]\nname = \"e1\"\nrate = \"1gbit\"\nstep = \"750B\"\n[[port]]\nname = \"e2\"\nrate = \
             \"100mbit\"\nstep = \"750B\"",
            "run.toml:9:8: port.step: K = 750 B at 100mbit implies delta = 60us, the port to e1 implies 6us; write one",
        ),
        ("[marking]\ndelta = \"1us\"\n[[port]]\nname = \"e1\"\nmark = true", "marks without a rate"),
        (
            "[[port]]\nname = \"e1\"\npass = [\"1f\"]",
            "is no last octet of 01-80-C2-00-00-XX; write \"00\" to \"0f\"",
        ),
    ] {
        let message = run(text).map(drop).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}\n  got  {message}\n  want {expected}");
        assert!(!message.contains('\n'), "{message}");
    }
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

#[test]
fn a_switch_whose_ports_only_convert_has_the_networks_delta() {
    let text = "[marking]\ndelta = \"60us\"\n[switch.s1]\n[switch.s2]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \
                \"s1\"]\n[[link]]\nbetween = [\"s1\", \"s2\"]\nrate = \"100mbit\"\nmark = { to-s1 = false }\n[[link]]\nbetween = \
                [\"s2\", \"b\"]\nedge = { to-b = true }";
    let t = parse(text).unwrap();
    assert!(t.switches[1].config.ports.iter().all(|port| port.mark.is_none()));
    assert_eq!(t.switches[1].config.delta().unwrap().ps, 60_000_000);
    let text = "[marking]\ndelta = \"60us\"\n[[port]]\nname = \"e1\"\nedge = true\n[[port]]\nname = \"e2\"";
    let file = run(text).unwrap();
    assert_eq!(file.switches[0].config.delta().unwrap().ps, 60_000_000);
    let bare = text.replace("[marking]\ndelta = \"60us\"\n", "");
    let message = run(&bare).unwrap_err().to_string();
    assert!(message.contains("run.toml:3:8: port.edge: there is no [marking] with counts"), "{message}");
}

#[test]
fn storms_and_fixed_stations_are_keys() {
    let storm = "storm = { frames-per-second = 1000, burst = 100 }";
    let fdb = "fdb = [{ mac = \"02:00:00:00:00:07\", port = \"c\", vlan = 5 }]";
    let text = one_hop(storm).replace("[switch.s1]", &format!("[switch.s1]\n{fdb}"));
    let config = &parse(&text).unwrap().switches[0].config;
    let expected = plimsoll_core::StormConfig { frames_per_second: 1000, burst: 100 };
    assert_eq!(config.ports.iter().map(|port| port.storm).collect::<Vec<_>>(), [None, None, Some(expected)]);
    let entry = config.fdb_fixed[0];
    assert_eq!((entry.vlan, entry.mac.0[5], entry.port.0), (5, 7, 2));
    let message = refusal(&text.replace("port = \"c\"", "port = \"d\""));
    assert!(message.contains("switch.fdb.port: s1 has no port \"d\"; its ports are a, b, c"), "{message}");
    assert!(refusal(&text.replace("02:00", "2:00")).contains("is no MAC address"));

    let text = format!("[switch.s]\n{}\n[[port]]\nname = \"c\"\n{storm}", fdb);
    let file = run(&text).unwrap();
    assert_eq!(file.switches[0].config.ports[0].storm, Some(expected));
    assert_eq!(file.switches[0].config.fdb_fixed[0].port.0, 0);
}
