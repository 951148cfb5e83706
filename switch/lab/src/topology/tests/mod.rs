//! Labs as their files say, and what goes before the file.

mod clocks;
mod refusals;
mod run_files;

use super::*;
use crate::clock::{Saturation, Transport};
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
        let warnings: &[&str] = match lab.name {
            // On purpose.
            "clocks-standing" => {
                &["switch s1, port s2: flows offer 130 % of 100mbit; its queue stays full and drops"]
            }
            _ => &[],
        };
        assert_eq!(topology.warnings, warnings, "{}", lab.name);
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
    assert_eq!((clock.compensation, clock.saturated_at), (Compensation::Clock, Saturation::both(128)));
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
    assert_eq!(
        (t.clocks[0].compensation, t.clocks[0].saturated_at),
        (Compensation::TransparentClock, Saturation::both(0))
    );
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
    assert_eq!(t.clocks[0].saturated_at.to_client, 3 * 128);
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
    assert!(
        t.clocks
            .iter()
            .all(|c| c.compensation == Compensation::None && c.saturated_at == Saturation::both(0))
    );
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
    // Headers and padding come on top of the payload: one frame each 8 us * 100 (10 Mbit/s) stays.
    let payload =
        one_hop("[[flow]]\nfrom = \"a\"\nto = \"c\"\npaper = \"SF\"\nuncapped = true\npayload = true");
    let spec = &parse(&payload).unwrap().flows[0].spec;
    let mean = 84.0 + 850.0 * (-18.0f64 / 850.0).exp();
    assert_eq!(spec.size, SizeDistribution::ExponentialPayload { mean: 850.0 });
    assert!((spec.rate.0 as f64 - mean * 8.0 / 800e-6).abs() < 2.0, "{}", spec.rate);
    let other = payload.replace("paper = \"SF\"", "load = 0.5\nsizes = \"exponential\"");
    assert!(refusal(&other).contains("flow.payload: is for the paper's flows; leave it out"));
    let uplink = one_hop("").replace("[host.b]", "[host.b]\nuplink = \"1gbit\"");
    let t = parse(&uplink).unwrap();
    assert_eq!((t.hosts[1].uplink, t.hosts[0].uplink), (Some(Rate(1_000_000_000)), None));
    assert_eq!(t.simulated_only(), None, "a lab says that it does not follow it");
    let ntp = one_hop("[[clock]]\nserver = \"a\"\nclient = \"c\"\ntransport = \"ntp6\"");
    let t = parse(&ntp).unwrap();
    assert_eq!(t.clocks[0].transport, Transport::NtpV6);
    assert_eq!(t.simulated_only(), None);
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
