//! The paper's measurement setup (III-C, V-A) in virtual time: four sources congest one port at 10 Gbit/s.
//!
//! Its data sets are not published. Here each of four hosts sends UDP packets of 1500 octets at exponential gaps over a
//! link of 10 Gbit/s of its own; the paper's traffic is TCP and UDP of iperf and nuttcp, which is burstier.

use super::network::WARMUP_MS;
use anyhow::{Result, ensure};
use plimsoll_lab::{
    lab::Silent,
    record::Sink,
    sim::{SimOptions, run},
    topology::{Overrides, Topology},
};
use plimsoll_model::Law;
use plimsoll_port::worker::{Fate, Record};
use std::sync::atomic::AtomicBool;

/// The paper's rates of cross traffic, Gbit/s.
pub(super) const RATES: [(f64, &str); 4] = [(1.0, "1G"), (4.0, "4G"), (4.4, "4.4G"), (9.2, "9.2G")];
/// Pairs of data sets that the paper compares, by their place above: `Close` and `Distant`.
pub(super) const PAIRS: [(&str, usize, usize); 2] = [("Close", 1, 2), ("Distant", 0, 3)];

/// What Syncs waited under each rate.
#[derive(Debug)]
pub(super) struct Testbed {
    pub(super) laws: [Law; 4],
    /// The longest wait, ns: the range of the data.
    pub(super) range_ns: [f64; 4],
    pub(super) samples: usize,
}

/// Simulates each rate for so long.
pub(super) fn simulate(seconds: f64) -> Result<Testbed> {
    let mut laws = Vec::new();
    let mut range_ns = [0.0; 4];
    let mut samples = 0;
    for ((rate, _), range) in RATES.into_iter().zip(&mut range_ns) {
        let waits = waits(rate, seconds)?;
        samples = waits.len();
        *range = waits.iter().copied().fold(0.0, f64::max);
        laws.push(Law::samples(waits)?);
    }
    let laws = laws.try_into().map_err(|_| anyhow::anyhow!("four rates give four laws"))?;
    Ok(Testbed { laws, range_ns, samples })
}

/// Waits of Syncs at the congested port.
struct Waits(Vec<f64>);

impl Sink for Waits {
    fn take(&mut self, record: &Record, _: &[u8]) -> Result<(), String> {
        // The client is the second host, so the second port.
        let sync = record
            .message
            .is_some_and(|message| message.ptp().is_some_and(|message| message.message_type == 0));
        if let (Fate::Sent(sent), true, Some(1)) = (&record.fate, sync, record.egress.map(|port| port.0))
            && record.arrived.0 >= WARMUP_MS * 1_000_000
        {
            self.0.push(sent.depth_ps as f64 / 1e3);
        }
        Ok(())
    }
}

fn waits(gbit: f64, seconds: f64) -> Result<Vec<f64>> {
    let mut text = format!(
        "duration = \"{}ms\"\nwarmup = \"{WARMUP_MS}ms\"\n[switch.s1]\n",
        (seconds * 1e3).round() as u64
    );
    for (name, rate) in [("server", "rate = \"10gbit\"\n"), ("client", "rate = \"10gbit\"\n")]
        .into_iter()
        .chain(["a", "b", "c", "d"].map(|name| (name, "")))
    {
        text +=
            &format!("[host.{name}]\nuplink = \"10gbit\"\n[[link]]\nbetween = [\"{name}\", \"s1\"]\n{rate}");
    }
    for name in ["a", "b", "c", "d"] {
        let mbit = (gbit * 1e3 / 4.0).round() as u64;
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{name}\"\nto = \"client\"\nrate = \"{mbit}mbit\"\n"
        );
    }
    text += "[[clock]]\nserver = \"server\"\nclient = \"client\"\ninterval = \"1ms\"\n";
    let topology = Topology::parse("testbed", &text, &Overrides::default())?;
    let mut waits = Waits(Vec::new());
    let options = SimOptions { sinks: vec![&mut waits], ..SimOptions::default() };
    let outcome = run(&topology, options, &Silent, &AtomicBool::new(false))?.outcome;
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    ensure!(!waits.0.is_empty(), "no Sync was seen");
    Ok(waits.0)
}
