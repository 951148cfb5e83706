//! Classical ECN (RFC 3168) of all packets: a real TCP sender sees CE, backs off, and loses nothing.
#![allow(clippy::unwrap_used)]

use plimsoll_tests::net::{Host, Net, Stack};
use plimsoll_tests::process::Process;
use plimsoll_tests::switch::Switch;
use plimsoll_tests::{Scratch, wait_for};
use serde_json::Value;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
/// At 20 Mbit/s 100 kB of queue are 40 ms; CE begins at 6 ms.
const SWITCH: &str = "[marking]\necn-threshold = \"6ms\"\necn-scope = \"all\"\n[switch.s1]\nlatency = \"100us\"\n\
                      [[port]]\nname = \"p0\"\nrate = \"1gbit\"\necn = false\n\
                      [[port]]\nname = \"p1\"\nrate = \"20mbit\"\nqueue = \"100kB\"\n";
/// Of 1538 octets on the wire, so many are TCP's payload.
const CEILING_BPS: f64 = 20e6 * 1448.0 / 1538.0;

/// What one flow of some seconds came to.
#[derive(Debug)]
struct Flow {
    /// Bit/s that the receiver got.
    rate: f64,
    retransmits: u64,
    /// Medians over the second half of its time.
    window: u64,
    round_trip_us: u64,
    /// Packets that came with CE, by the receiver's kernel.
    ce: u64,
    /// What the sender's kernel says of its connection.
    connection: String,
    /// What the switch counts at the port.
    marks: Value,
    queue_drops: u64,
    depth_p50: u64,
}

/// A counter of a host's kernel (`IpExt` and the like).
fn counter(host: &Host, name: &str) -> u64 {
    let shown = host.run("nstat", &["-asz", "--json", name]).json();
    shown["kernel"][name].as_u64().unwrap()
}

/// One TCP flow from the first host to the second, both asking for ECN or not.
fn flow(ecn: bool) -> Flow {
    let net = Net::new(2, Stack::Addressed);
    for host in &net.hosts {
        assert!(host.namespace.set_sysctl("ipv4/tcp_ecn", if ecn { "1" } else { "0" }).unwrap());
        // The one that every kernel has, and RFC 3168 speaks of.
        assert!(host.namespace.set_sysctl("ipv4/tcp_congestion_control", "reno").unwrap());
    }
    let scratch = Scratch::new();
    let switch = Switch::start(&net, &[scratch.write("switch.toml", SWITCH).to_str().unwrap()]);
    let (from, to) = (&net.hosts[0], &net.hosts[1]);
    let address = to.v4.to_string();
    let server = Process::start(to.command("iperf3").args(["--server", "--one-off", "--bind", &address]));
    wait_for("iperf3 to listen", LONG, || {
        (!to.run("ss", &["-Hltn", "sport = :5201"]).stdout.is_empty()).then_some(())
    });
    let mut command = from.command("iperf3");
    let client = command.args(["--client", &address, "--json", "--time", "4", "--interval", "0.1"]);
    let client = Process::start(client);
    std::thread::sleep(Duration::from_secs(3));
    // The connection that carries the data is the one with more to do.
    let all = from.run("ss", &["-tinoOH", "state", "established", "dport = :5201"]).stdout;
    let sent = |line: &str| line.split_once("bytes_sent:")?.1.split(' ').next()?.parse::<u64>().ok();
    let connection = all.lines().max_by_key(|line| sent(line)).unwrap().to_owned();
    let result = client.end(LONG).ok().json();
    let _ = server.end(LONG).ok();
    switch.drained();
    let steps: Vec<&Value> =
        result["intervals"].as_array().unwrap().iter().map(|step| &step["streams"][0]).collect();
    let median = |key: &str| {
        let half = &steps[steps.len() / 2..];
        let mut values: Vec<u64> = half.iter().map(|step| step[key].as_u64().unwrap()).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let queue = |loss: &&plimsoll_tests::switch::Loss| loss.reason.starts_with("queue_") && loss.port == "p1";
    let queues = switch.show("queues");
    let depth = |row: &&Value| row["port"] == "p1";
    let found = Flow {
        rate: result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap(),
        retransmits: result["end"]["sum_sent"]["retransmits"].as_u64().unwrap(),
        window: median("snd_cwnd"),
        round_trip_us: median("rtt"),
        ce: counter(to, "IpExtInCEPkts"),
        connection,
        marks: switch.marks("p1")["ecn"].clone(),
        queue_drops: switch.drops().iter().filter(queue).map(|loss| loss.frames).sum(),
        depth_p50: queues["queues"].as_array().unwrap().iter().find(depth).unwrap()["depth_bytes"]["p50"]
            .as_u64()
            .unwrap(),
    };
    let _ = switch.stop().ok();
    eprintln!("{found:?}");
    found
}

#[test]
fn a_tcp_flow_with_ecn_sees_ce_and_backs_off_before_the_queue_is_full() {
    let (deaf, hearing) = (flow(false), flow(true));
    for flow in [&deaf, &hearing] {
        let share = flow.rate / CEILING_BPS;
        assert!((0.8..1.05).contains(&share), "{share:.3} of the ceiling: {flow:?}");
    }
    // Without ECN nothing is marked and losses are what tells the sender.
    assert_eq!((deaf.ce, &deaf.marks["marked"]), (0, &Value::from(0)), "{deaf:?}");
    assert!(deaf.marks["skip_not_ect"].as_u64() > Some(1000), "{deaf:?}");
    assert!(deaf.queue_drops > 0 && deaf.retransmits > 0, "{deaf:?}");
    assert!(!deaf.connection.contains("ecn"), "{deaf:?}");
    // With it every packet that the switch marked came, none was lost, and the sender's kernel heard of them.
    assert!(hearing.ce > 10, "{hearing:?}");
    assert_eq!(hearing.marks["marked"], hearing.ce, "{hearing:?}");
    assert_eq!((hearing.queue_drops, hearing.retransmits), (0, 0), "{hearing:?}");
    for word in [" ecn ", "delivered_ce:"] {
        assert!(hearing.connection.contains(word), "{word} in {hearing:?}");
    }
    // It backs off: its window and the queue are a fraction of what they are without.
    assert!(hearing.window * 2 < deaf.window, "{hearing:?} {deaf:?}");
    assert!(hearing.round_trip_us * 2 < deaf.round_trip_us, "{hearing:?} {deaf:?}");
    assert!(hearing.depth_p50 * 2 < deaf.depth_p50, "{hearing:?} {deaf:?}");
}
