//! Files of `plimsoll run`, and keys that they share with labs.

use super::*;
use plimsoll_core::{VidRange, Vlan};

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

#[test]
fn quanta_are_keys_of_ports_and_of_links_by_direction() {
    let quanta =
        |file: RunFile| file.switches[0].config.ports.iter().map(|p| p.quanta.clone()).collect::<Vec<_>>();
    let text = "[[port]]\nname = \"e1\"\nquanta = [\"1500B\", \"9kB\"]\n[[port]]\nname = \"e2\"\nquanta = []";
    assert_eq!(quanta(run(text).unwrap()), [vec![1500, 9000], vec![]]);
    let of_link = |keys: &str| {
        let config = parse(&one_hop(keys)).unwrap().switches.remove(0).config;
        config.ports.into_iter().map(|port| port.quanta).collect::<Vec<_>>()
    };
    assert_eq!(of_link("quanta = [\"1kB\", \"2kB\"]"), [vec![], vec![], vec![1000, 2000]]);
    assert_eq!(of_link("quanta = { to-c = [\"1kB\"] }"), [vec![], vec![], vec![1000]]);
    for (keys, expected) in [
        ("quanta = [1500]", "net.toml:14:11: link.quanta: \"1500\" has no unit; write for example \"1500B\""),
        ("quanta = \"1500B\"", "link.quanta: "),
        ("quanta = [\"0B\"]", "net.toml:14:10: link.quanta: switch s1, port c: is 0; write 1 to 16777216"),
        (
            "quanta = [\"1B\",\"1B\",\"1B\",\"1B\",\"1B\",\"1B\",\"1B\",\"1B\",\"1B\"]",
            "link.quanta: switch s1, port c: are 9, one a class from the lowest on; write 8 at most",
        ),
        ("quanta = { to-d = [\"1kB\"] }", "link.quanta: to-d: d is not at this link; write to-"),
        (
            "quanta = [\"1kB\", \"1kB\"]\n[marking]\ndelta = \"60us\"",
            "net.toml:14:10: link.quanta: switch s1, port c: share the link in rounds, so that what leaves before a frame of \
             theirs is not known; write a sync-class above them, 2 to 7, or depth = \"queue\"",
        ),
    ] {
        let message = refusal(&one_hop(keys));
        assert!(message.contains(expected), "{keys}\n  got  {message}\n  want {expected}");
    }
    assert!(parse(&one_hop("quanta = [\"1kB\"]\nsync-class = 7\n[marking]\ndelta = \"60us\"")).is_ok());
    assert!(parse(&one_hop("quanta = [\"1kB\"]\n[marking]\ndelta = \"60us\"\ndepth = \"queue\"")).is_ok());
}

#[test]
fn vlans_are_keys_of_ports_and_links() {
    let trunk =
        |native| Vlan::Trunk { allowed: vec![VidRange::one(10), VidRange { first: 20, last: 29 }], native };
    let text = "[[port]]\nname = \"e1\"\n[[port]]\nname = \"e2\"\nvlan = { access = 10 }\n[[port]]\nname = \"e3\"\nvlan = \
                { trunk = [10, \"20-29\"], native = 1 }\n[[port]]\nname = \"e4\"\nvlan = \"transparent\"";
    let vlans: Vec<_> = run(text).unwrap().switches[0].config.ports.iter().map(|p| p.vlan.clone()).collect();
    let access = Vlan::Access { pvid: 10 };
    assert_eq!(vlans, [Vlan::Transparent, access.clone(), trunk(Some(1)), Vlan::Transparent]);
    let t = parse(&one_hop("vlan = { access = 10 }\nmtu = 2000")).unwrap();
    let to_c = &t.switches[0].config.ports[2];
    assert_eq!(
        (&to_c.vlan, to_c.mtu, &t.switches[0].config.ports[0].vlan),
        (&access, Some(2000), &Vlan::Transparent)
    );
    for (vlan, expected) in [
        (
            "{ access = 4095 }",
            "net.toml:14:19: link.vlan.access: switch s1, port c: is 4095; write 1 to 4094",
        ),
        (
            "{ access = 10, native = 1 }",
            "net.toml:14:8: link.vlan: native is a trunk's key; an access port's",
        ),
        ("{ access = 10, trunk = [1] }", "link.vlan: has both access and trunk; write one of them"),
        ("{ native = 1 }", "link.vlan: has neither access nor trunk; write trunk = [10, \"20-29\"]"),
        (
            "{ trunk = [] }",
            "link.vlan.trunk: switch s1, port c: names no VLAN; write them, as [10, \"20-29\"]",
        ),
        (
            "{ trunk = [\"29-20\"] }",
            "link.vlan.trunk: switch s1, port c: names 29-20, which is none; write 20-29",
        ),
        ("{ trunk = [\"all\"] }", "link.vlan: \"all\" is no VLAN; write 1 to 4094, or several as \"20-29\""),
        ("{ trunk = [70000] }", "link.vlan: \"70000\" is no VLAN; write 1 to 4094"),
        ("{ acces = 10 }", "link.vlan: unknown key acces; the keys here are access, trunk, native"),
        ("\"access\"", "link.vlan: \"access\" is no kind of port; write \"transparent\", { access = 10 } or"),
        ("10", "link.vlan: "),
    ] {
        let message = refusal(&one_hop(&format!("vlan = {vlan}")));
        assert!(message.contains(expected), "{vlan}\n  got  {message}\n  want {expected}");
    }
    let hosts = "[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"b\"]\nvlan = { access = 10 }";
    assert!(refusal(hosts).contains("link.vlan: no end of this link is a switch"), "{}", refusal(hosts));
}
