//! Table III as it was observed: a flow crosses its host's own link before it queues in the switch.
//!
//! The paper compares an M/M/1 queue with packets that first pass their host's link of the same rate (two FIFOs in
//! tandem). That link spaces them: at the switch, a packet waits only where a larger one went before it. Two readings
//! follow that make its observed columns come out: rho_o counts UDP, IP and Ethernet around each payload, and lambda_o is
//! the mean wait of the packets that did wait, not of all.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use plimsoll_core::Rate;

use crate::error::{ModelError, positive};

/// A flow of Table III: packet sizes and gaps are exponential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The paper's name for it.
    pub name: &'static str,
    /// mu: mean payload, octets.
    pub size_octets: f64,
    /// lambda: mean gap between packets, ns.
    pub gap_ns: f64,
}

/// The flows of Table III at 1 Gb/s: Short-Fast, Long-Medium, Short-Medium, Short-Slow.
pub const FLOWS: [Flow; 4] = [
    Flow { name: "SF", size_octets: 850.0, gap_ns: 8_000.0 },
    Flow { name: "LM", size_octets: 1000.0, gap_ns: 12_000.0 },
    Flow { name: "SM", size_octets: 750.0, gap_ns: 12_000.0 },
    Flow { name: "SS", size_octets: 600.0, gap_ns: 14_000.0 },
];

/// What surrounds a payload on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Headers inside the Ethernet payload: 28 for UDP over IPv4.
    pub headers: u32,
    /// The least Ethernet payload; less is padded: 46.
    pub least: u32,
    /// Ethernet header, FCS, preamble: 26.
    pub ethernet: u32,
    /// Gap between packets, in which the link sends nothing: 12.
    pub gap: u32,
}

impl Framing {
    /// Nothing: the packet is the payload, as in the M/M/1 columns.
    pub const NONE: Self = Self { headers: 0, least: 0, ethernet: 0, gap: 0 };
    /// UDP over IPv4 over Ethernet: 54 octets of headers and a gap of 12 (VI-A1).
    pub const UDP: Self = Self { headers: 28, least: 46, ethernet: 26, gap: 12 };

    /// Octets that a payload keeps the link busy for, without the gap.
    fn octets(&self, payload: f64) -> f64 {
        (payload + f64::from(self.headers)).max(f64::from(self.least)) + f64::from(self.ethernet)
    }
}

/// What packets met at the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Share of time that the switch's link sends (rho_o).
    pub load: f64,
    /// Wait of each packet in the switch, ns, in order.
    pub waits_ns: Vec<f64>,
}

impl Observed {
    /// Mean wait of all packets, ns.
    pub fn mean_ns(&self) -> f64 {
        self.waits_ns.iter().sum::<f64>() / self.waits_ns.len() as f64
    }

    /// Mean wait of those that waited, ns (lambda_o); 0 where none did.
    pub fn mean_of_waiting_ns(&self) -> f64 {
        let (count, sum) =
            self.waits_ns.iter().filter(|&&w| w > 0.0).fold((0u64, 0.0), |(n, sum), w| (n + 1, sum + w));
        if count == 0 { 0.0 } else { sum / count as f64 }
    }
}

/// One FIFO by Lindley's recursion: the wait of each packet that arrives, given when and for how long it is served.
#[derive(Clone, Copy, Debug, Default)]
struct Fifo {
    free_at: f64,
}

impl Fifo {
    fn wait(&mut self, at: f64, service: f64) -> f64 {
        let start = at.max(self.free_at);
        self.free_at = start + service;
        start - at
    }
}

/// Sends `packets` of a flow through its host's link and the switch's, both of `rate`, or, without `host_link`, to the
/// switch directly (which is M/M/1 where framing is [`Framing::NONE`]). Sizes are not capped at the MTU. The same seed
/// gives the same packets.
///
/// # Errors
/// [`ModelError::Range`] on a size, gap, rate, or number of packets that is not above 0, or where the load including
/// framing is 1 or more.
pub fn observe(
    flow: &Flow,
    rate: Rate,
    framing: Framing,
    host_link: bool,
    packets: usize,
    seed: u64,
) -> Result<Observed, ModelError> {
    positive("size", flow.size_octets)?;
    positive("gap", flow.gap_ns)?;
    positive("rate", rate.0 as f64)?;
    positive("packets", packets as f64)?;
    let ns_per_octet = 8e9 / rate.0 as f64;
    let gap_ns = f64::from(framing.gap) * ns_per_octet;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut exponential = |mean: f64| -mean * libm::log(1.0 - rng.random::<f64>());
    let (mut host, mut switch) = (Fifo::default(), Fifo::default());
    let (mut now, mut busy) = (0.0, 0.0);
    let mut waits_ns = Vec::with_capacity(packets);
    for _ in 0..packets {
        now += exponential(flow.gap_ns);
        let sent_ns = framing.octets(exponential(flow.size_octets)) * ns_per_octet;
        // Store and forward: the switch has a packet when its last bit has come.
        let arrived = if host_link { now + host.wait(now, sent_ns + gap_ns) + sent_ns } else { now };
        busy += sent_ns;
        let wait = switch.wait(arrived, sent_ns + gap_ns);
        // A packet as long as the one before it meets the end of it: rounding is no wait.
        waits_ns.push(if wait > 1e-3 { wait } else { 0.0 });
    }
    let load = (busy + gap_ns * packets as f64) / now;
    if load >= 1.0 {
        return Err(ModelError::range("load with framing", load, "below 1"));
    }
    Ok(Observed { load: busy / now, waits_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: Rate = Rate(1_000_000_000);
    const PACKETS: usize = 2_000_000;

    fn within(found: f64, paper: f64, share: f64) -> bool {
        (found / paper - 1.0).abs() <= share
    }

    #[test]
    fn without_the_host_link_it_is_mm1() {
        for flow in &FLOWS[1..] {
            let seen = observe(flow, GBIT, Framing::NONE, false, PACKETS, 3).unwrap();
            let law = crate::Law::mm1(flow.size_octets, flow.gap_ns, GBIT).unwrap();
            assert!(within(seen.load, law.ccdf(0.0), 0.01), "{}", flow.name);
            assert!(within(seen.mean_ns(), law.mean_ns(), 0.02), "{}: {}", flow.name, seen.mean_ns());
        }
    }

    #[test]
    fn observed_columns_of_table_iii() {
        for (flow, rho, lambda_ns) in [("LM", 0.70, 20.4e3), ("SM", 0.54, 12.5e3), ("SS", 0.37, 8.6e3)] {
            let flow = FLOWS.iter().find(|f| f.name == flow).unwrap();
            let seen = observe(flow, GBIT, Framing::UDP, true, PACKETS, 3).unwrap();
            let lambda = seen.mean_of_waiting_ns();
            assert!(within(seen.load, rho, 0.03), "{}: rho_o {}", flow.name, seen.load);
            assert!(within(lambda, lambda_ns, 0.03), "{}: lambda_o {lambda}", flow.name);
            // Neither reading alone does it: the mean over all packets is far off, and so is a queue without the host's
            // link for SS, where the two differ most.
            assert!(!within(seen.mean_ns(), lambda_ns, 0.2), "{}", flow.name);
        }
        let alone = observe(&FLOWS[3], GBIT, Framing::UDP, false, PACKETS, 3).unwrap();
        assert!(!within(alone.mean_of_waiting_ns(), 8.6e3, 0.08));
    }

    /// rho_o = 0.86 of SF would need 10 octets of framing, where the other flows show 54; with 54 the link is busy for
    /// 0.90 of the time.
    #[test]
    fn short_fast_contradicts_itself() {
        let seen = observe(&FLOWS[0], GBIT, Framing::UDP, true, PACKETS, 3).unwrap();
        assert!(within(seen.load, 0.904, 0.005) && !within(seen.load, 0.86, 0.04), "{}", seen.load);
        let ten = Framing { headers: 0, least: 0, ethernet: 10, gap: 0 };
        let seen = observe(&FLOWS[0], GBIT, ten, true, PACKETS, 3).unwrap();
        assert!(within(seen.load, 0.86, 0.005), "{}", seen.load);
        assert!(!within(seen.mean_of_waiting_ns(), 26.7e3, 0.08), "{}", seen.mean_of_waiting_ns());
    }

    #[test]
    fn the_same_seed_gives_the_same_packets_and_overload_is_refused() {
        let of = |seed| observe(&FLOWS[1], GBIT, Framing::UDP, true, 1000, seed).unwrap();
        assert_eq!(of(5), of(5));
        assert!(of(5) != of(6));
        let slow = observe(&FLOWS[0], Rate(100_000_000), Framing::UDP, true, 10_000, 1);
        assert!(slow.unwrap_err().to_string().starts_with("load with framing is 9"));
        assert!(observe(&FLOWS[0], GBIT, Framing::UDP, true, 0, 1).is_err());
    }
}
