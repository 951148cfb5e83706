//! Hosts as they are, with all their offloads: ping, and iperf3 over TCP and UDP, IPv4 and IPv6, through the switch at
//! 100 Mbit/s and without a rate; a Linux bridge beside it.

use crate::{
    facts::Facts,
    report::{Asked, Row},
    stage::{Host, Setup, Stack, Stage, port_name},
    tools,
};
use anyhow::{Context, Result, bail, ensure};
use plimsoll_core::{PortConfig, Rate, config::wire_octets};
use plimsoll_port::{PortCounters, worker::Worker};
use serde_json::Value;
use std::net::IpAddr;

const GROUP: &str = "tcp";
const RATE: Rate = Rate(100_000_000);
/// The target: share of what the frame format leaves to TCP.
const SHARE: f64 = 98.0;
/// The target without a rate.
const RETRANSMITS: f64 = 0.1;
/// UDP offered through the shaped link, Mbit/s of payload: less than it takes, so that nothing may be lost.
const UDP_MBIT: u32 = 50;
/// A full frame on the wire, MTU 1500.
const FULL: u32 = 1514;
/// Seconds that iperf3 leaves out at the beginning (slow start).
const OMIT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Shaped,
    Plain,
    Bridge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn of(self, host: &Host) -> IpAddr {
        match self {
            Self::V4 => host.ipv4.into(),
            Self::V6 => host.ipv6.into(),
        }
    }

    /// Octets of TCP payload in a full frame: MTU less IP header, TCP header, timestamps (RFC 7323).
    fn segment(self) -> f64 {
        match self {
            Self::V4 => 1500.0 - 20.0 - 20.0 - 12.0,
            Self::V6 => 1500.0 - 40.0 - 20.0 - 12.0,
        }
    }

    /// Share of a wire's bits that can be TCP payload.
    fn ceiling(self) -> f64 {
        self.segment() / f64::from(wire_octets(FULL))
    }
}

/// What a TCP run gave.
#[derive(Clone, Copy, Debug, Default)]
struct Tcp {
    bits_per_second: f64,
    /// Of all segments, in percent.
    retransmits: f64,
}

/// The figures of one family through one middle.
#[derive(Default)]
struct Figures {
    ping_lost: Vec<f64>,
    tcp: Vec<Tcp>,
    udp_lost: Vec<f64>,
    note: String,
}

pub(crate) fn measure(facts: &Facts, rounds: usize, seconds: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut all = [Middle::Shaped, Middle::Plain, Middle::Bridge]
        .map(|middle| (middle, Family::BOTH.map(|family| (family, Figures::default()))));
    for _ in 0..rounds {
        for (middle, families) in &mut all {
            for (family, figures) in families {
                run(facts, *middle, *family, seconds, figures)?;
            }
        }
    }
    for (middle, families) in all {
        for (family, figures) in families {
            rows.extend(describe(middle, family, figures));
        }
    }
    Ok(rows)
}

fn describe(middle: Middle, family: Family, figures: Figures) -> Vec<Row> {
    let name = match middle {
        Middle::Shaped => "switch at 100 Mbit/s",
        Middle::Plain => "switch without rate",
        Middle::Bridge => "Linux bridge",
    };
    let row = |what: &str, unit, asked, rounds| {
        Row::new(GROUP, format!("{name}, {}: {what}", family.name()), unit, asked, rounds)
    };
    let bits = || figures.tcp.iter().map(|tcp| tcp.bits_per_second);
    let retransmits = figures.tcp.iter().map(|tcp| tcp.retransmits).collect();
    match middle {
        Middle::Shaped => {
            let ceiling = family.ceiling() * RATE.0 as f64;
            let shares = bits().map(|bits| bits * 100.0 / ceiling).collect();
            vec![
                row("ping, lost", "%", Asked::AtMost(0.0), figures.ping_lost),
                row("TCP, share of the ceiling", "%", Asked::AtLeast(SHARE), shares).note(format!(
                    "ceiling {:.2} Mbit/s of payload; {}",
                    ceiling / 1e6,
                    figures.note
                )),
                row("TCP, retransmitted", "%", Asked::Nothing, retransmits),
                row("UDP at 50 Mbit/s, lost", "%", Asked::AtMost(0.0), figures.udp_lost),
            ]
        }
        Middle::Plain => vec![
            row("ping, lost", "%", Asked::AtMost(0.0), figures.ping_lost),
            row("TCP", "Gbit/s", Asked::Nothing, bits().map(|bits| bits / 1e9).collect()).note(figures.note),
            row("TCP, retransmitted", "%", Asked::AtMost(RETRANSMITS), retransmits),
            row("UDP at 50 Mbit/s, lost", "%", Asked::AtMost(0.0), figures.udp_lost),
        ],
        Middle::Bridge => vec![
            row("TCP", "Gbit/s", Asked::Nothing, bits().map(|bits| bits / 1e9).collect()),
            row("TCP, retransmitted", "%", Asked::Nothing, retransmits),
        ],
    }
}

fn run(facts: &Facts, middle: Middle, family: Family, seconds: u32, figures: &mut Figures) -> Result<()> {
    let stage = Stage::new(2, Stack::Addressed)?;
    let [client, server] = &stage.hosts[..] else { unreachable!("two hosts") };
    let worker = start(facts, &stage, middle)?;
    let target = family.of(server);
    figures.ping_lost.push(ping(client, target)?);
    let tcp = tools::iperf3(client, server, target, &format!("-t {seconds} -O {OMIT}"))?;
    figures.tcp.push(read_tcp(&tcp, family)?);
    if middle != Middle::Bridge {
        let udp = tools::iperf3(client, server, target, &format!("-u -b {UDP_MBIT}M -l 1400 -t {seconds}"))?;
        figures.udp_lost.push(number(&udp, "/end/sum/lost_percent")?);
    }
    if let Some(worker) = worker {
        let last = worker.stop()?;
        ensure!(last.frames_conserved, "chunks are not conserved: {:?}", last.frames);
        let node = &last.switches[0];
        let sum = |pick: fn(&PortCounters) -> u64| -> u64 {
            node.ports.iter().filter_map(|port| port.counters.as_ref()).map(pick).sum()
        };
        let drops: u64 = node.stats.ports.iter().map(|port| port.drops.total()).sum();
        figures.note = format!(
            "checksums completed by metadata {}, in software {}; lost: before XDP {}, RX ring full {}, fill ring empty {}, \
             over quota {}, too long {}, in the core {drops}",
            sum(|c| c.checksum_metadata),
            sum(|c| c.checksum_software),
            sum(|c| c.before_xdp.unwrap_or(0)),
            sum(|c| c.bulk_ring_full + c.express_ring_full),
            sum(|c| c.fill_ring_empty),
            sum(|c| c.over_quota),
            sum(|c| c.rx_dropped + c.jumbo),
        );
    }
    Ok(())
}

fn start(facts: &Facts, stage: &Stage, middle: Middle) -> Result<Option<Worker>> {
    let rate = (middle == Middle::Shaped).then_some(RATE);
    let port = |number| PortConfig { rate, ..PortConfig::new(port_name(number)) };
    if middle == Middle::Bridge {
        stage.bridge()?;
        return Ok(None);
    }
    Ok(Some(stage.switch(facts.worker_cpu, vec![port(0), port(1)], &Setup::default())?))
}

/// Percent of 20 echo requests without an answer.
fn ping(from: &Host, to: IpAddr) -> Result<f64> {
    let output = tools::output(&from.namespace, "ping", &format!("-q -c 20 -i 0.02 -W 1 {to}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lost = text.split(", ").find_map(|part| part.strip_suffix("% packet loss"));
    lost.and_then(|n| n.trim().parse().ok()).with_context(|| format!("ping {to}: {text}"))
}

fn read_tcp(json: &Value, family: Family) -> Result<Tcp> {
    let sent = number(json, "/end/sum_sent/bytes")?;
    let retransmits = number(json, "/end/sum_sent/retransmits")?;
    if sent <= 0.0 {
        bail!("iperf3 sent nothing");
    }
    Ok(Tcp {
        bits_per_second: number(json, "/end/sum_received/bits_per_second")?,
        retransmits: retransmits * 100.0 / (sent / family.segment()),
    })
}

fn number(json: &Value, pointer: &str) -> Result<f64> {
    json.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("iperf3 gave no {pointer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_is_what_the_headers_leave() {
        assert!((Family::V4.ceiling() - 1448.0 / 1538.0).abs() < 1e-12);
        assert!((Family::V6.ceiling() - 1428.0 / 1538.0).abs() < 1e-12);
    }

    #[test]
    fn retransmits_are_a_share_of_segments() {
        let json = serde_json::json!({"end": {
            "sum_sent": {"bytes": 1_448_000, "retransmits": 5}, "sum_received": {"bits_per_second": 1e6}
        }});
        let tcp = read_tcp(&json, Family::V4).unwrap();
        assert!((tcp.retransmits - 0.5).abs() < 1e-12);
        assert!(read_tcp(&serde_json::json!({}), Family::V4).is_err());
    }
}
