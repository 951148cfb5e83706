//! What a flow is asked to be: when its frames come, how long they are, how much of the link they take.

use super::{Cycle, TrafficError};
use plimsoll_core::Rate;
use plimsoll_core::config::{MIN_FRAME, WIRE_OVERHEAD, wire_octets};
use serde::{Deserialize, Serialize};
use std::{fmt, net::SocketAddr, str::FromStr};

/// When a flow's frames come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// Gaps of exponential law.
    Poisson,
    /// Equal gaps, from a phase that the seed gives.
    Constant,
    /// Equal gaps during bursts, none between them; bursts and pauses of exponential law. The rate of the flow is
    /// its mean, so within a burst it is `rate * (on + off) / on`.
    OnOff {
        /// Mean length of a burst in nanoseconds, at least 1.
        on_ns: u64,
        /// Mean length of a pause in nanoseconds.
        off_ns: u64,
    },
}

/// How long a flow's frames are, in octets on the wire (frame, padded, and [`WIRE_OVERHEAD`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeDistribution {
    /// All the same.
    Fixed {
        /// Octets on the wire of each frame; 84 is the shortest Ethernet frame, 1538 the longest at MTU 1500.
        wire: u32,
    },
    /// Exponential law, with what no frame can be moved to the shortest and longest that can. Gaps are computed from
    /// the mean after that, so the flow's rate is kept.
    Exponential {
        /// Mean of the law, before what no frame can be is moved, in octets on the wire.
        mean_wire: f64,
    },
    /// UDP payload of exponential law with headers around it, padded where it is short; else as `Exponential`. So the
    /// paper's simulation has it (VI-A1).
    ExponentialPayload {
        /// Mean of the law in octets of payload.
        mean: f64,
    },
}

impl SizeDistribution {
    /// Frames of `octets`, without FCS, as a capture shows them: 60..=1514 at MTU 1500.
    pub const fn frame(octets: u32) -> Self {
        Self::Fixed { wire: wire_octets(octets) }
    }

    /// Mean in octets on the wire, within `bounds`.
    pub fn mean(&self, bounds: SizeBounds) -> f64 {
        // E[min(max(X + h, a), b)] of an exponential X of mean m is a + m (e^(-(a - h)/m) - e^(-(b - h)/m)).
        let moved = |m: f64, h: u32| {
            let (a, b) = (f64::from(bounds.min), f64::from(bounds.max));
            let beyond = |end: f64| libm::exp(-(end - f64::from(h)) / m);
            a + m * (beyond(a) - beyond(b))
        };
        match *self {
            Self::Fixed { wire } => f64::from(wire),
            Self::Exponential { mean_wire } => moved(mean_wire, 0),
            Self::ExponentialPayload { mean } => moved(mean, bounds.around()),
        }
    }
}

/// Octets on the wire that a UDP frame of ours can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBounds {
    /// Shortest: what the headers and our 16 octets of payload need.
    pub min: u32,
    /// Longest: a packet of the MTU.
    pub max: u32,
    /// Octets of a frame before our payload begins.
    headers: u32,
}

impl SizeBounds {
    /// Bounds of frames to `target` over an interface of `mtu` octets.
    pub fn new(target: SocketAddr, mtu: u32) -> Self {
        let headers = 14 + if target.is_ipv4() { 20 } else { 40 } + 8;
        let shortest = (headers + super::payload::LEN as u32).max(MIN_FRAME);
        Self { min: shortest + WIRE_OVERHEAD, max: (mtu + 14).max(shortest) + WIRE_OVERHEAD, headers }
    }

    /// Octets of UDP payload that make a frame of `wire` octets.
    pub const fn payload(&self, wire: u32) -> usize {
        (wire - WIRE_OVERHEAD - self.headers) as usize
    }

    /// Octets on the wire around the payload: headers and [`WIRE_OVERHEAD`].
    pub(super) const fn around(&self) -> u32 {
        self.headers + WIRE_OVERHEAD
    }

    /// Octets on the wire of a frame with `payload` octets of UDP payload.
    pub const fn wire(&self, payload: usize) -> u32 {
        wire_octets(self.headers + payload as u32)
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Its name, for messages and reports.
    pub name: String,
    /// When its frames come.
    pub kind: FlowKind,
    /// Its mean rate on the wire.
    pub rate: Rate,
    /// How long its frames are.
    pub size: SizeDistribution,
    /// The same seed gives the same frames at the same times.
    pub seed: u64,
    /// MTU of the host's interface in octets: no packet is longer. [`UNCAPPED`] where none exists in the simulator.
    pub mtu: u32,
    /// DSCP of its packets, 0..=63: it decides the traffic class (RFC 2474).
    pub dscp: u8,
    /// When it runs; `None`: always. Its rate is that of the time that it runs.
    pub cycle: Option<Cycle>,
}

/// [`FlowSpec::mtu`] of a flow whose sizes nothing cuts but the length field of IPv4; frames of it exist in the simulator
/// only.
pub const UNCAPPED: u32 = 65_535;

impl FlowSpec {
    /// A flow of the paper on a link of rate `link`: the size law and the share of the link that Table III gives it,
    /// its mean gap scaled from 1 Gbit/s to `link`.
    pub fn paper(name: impl Into<String>, flow: PaperFlow, link: Rate, seed: u64) -> Self {
        let mean_wire = flow.mean_octets();
        Self {
            name: name.into(),
            kind: FlowKind::Poisson,
            rate: flow.rate(mean_wire, link),
            size: SizeDistribution::Exponential { mean_wire },
            seed,
            mtu: 1500,
            dscp: 0,
            cycle: None,
        }
    }

    /// The sizes that its frames can have on the way to `target`.
    ///
    /// # Errors
    /// [`TrafficError::Spec`] where rate, sizes or periods cannot be followed.
    pub fn bounds(&self, target: SocketAddr) -> Result<SizeBounds, TrafficError> {
        let refuse = |problem: String, remedy: String| {
            Err(TrafficError::Spec { flow: self.name.clone(), problem, remedy })
        };
        let bounds = SizeBounds::new(target, self.mtu);
        let SizeBounds { min, max, .. } = bounds;
        if self.dscp > 63 {
            return refuse(format!("its dscp is {}", self.dscp), "write 0 to 63: DSCP has six bits".into());
        }
        if self.rate.0 == 0 {
            return refuse("its rate is 0".into(), "give it a rate above 0, or leave the flow out".into());
        }
        if matches!(self.cycle, Some(Cycle { on_ns: 0, .. })) {
            return refuse("it runs for no time".into(), "give `on` of its cycle a time above 0".into());
        }
        match self.size {
            SizeDistribution::Fixed { wire } if !(min..=max).contains(&wire) => refuse(
                format!("frames of {wire} octets on the wire do not fit"),
                format!("with MTU {} and these addresses write {min} to {max}", self.mtu),
            ),
            SizeDistribution::Exponential { mean_wire: mean }
            | SizeDistribution::ExponentialPayload { mean }
                if !(mean > 0.0 && mean.is_finite()) =>
            {
                refuse(format!("a mean size of {mean} octets is none"), format!("write {min} to {max}"))
            }
            _ => match self.kind {
                FlowKind::OnOff { on_ns: 0, .. } => {
                    refuse("its bursts have no length".into(), "give `on` a time above 0".into())
                }
                _ => Ok(bounds),
            },
        }
    }
}

/// Table III of the paper: Poisson flows with packets of exponential size, on 1 Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaperFlow {
    /// 850 octets each 8 us: 85 % of the link.
    Sf,
    /// 1000 octets each 12 us: 66.7 %.
    Lm,
    /// 750 octets each 12 us: 50 %.
    Sm,
    /// 600 octets each 14 us: 34.3 %.
    Ss,
}

impl PaperFlow {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Sf, Self::Lm, Self::Sm, Self::Ss];

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sf => "SF",
            Self::Lm => "LM",
            Self::Sm => "SM",
            Self::Ss => "SS",
        }
    }

    /// mu: mean size in octets. By the M/M/1 columns of Table III that is all that the link sends, by its observed ones
    /// the payload.
    pub const fn mean_octets(self) -> f64 {
        self.law().0
    }

    /// Rate of the flow where its frames have `mean_wire` octets on the wire in the mean: one each lambda (8 to 14 us),
    /// scaled from 1 Gbit/s to `link`.
    pub fn rate(self, mean_wire: f64, link: Rate) -> Rate {
        Rate((link.0 as f64 * mean_wire * 8.0 / (self.law().1 * 1000.0)) as u64)
    }

    /// Mean octets, mean gap in microseconds at 1 Gbit/s.
    const fn law(self) -> (f64, f64) {
        match self {
            Self::Sf => (850.0, 8.0),
            Self::Lm => (1000.0, 12.0),
            Self::Sm => (750.0, 12.0),
            Self::Ss => (600.0, 14.0),
        }
    }
}

impl fmt::Display for PaperFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PaperFlow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|flow| flow.name() == text)
            .ok_or_else(|| format!("{text:?} is no flow of the paper; write SF, LM, SM or SS"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);
    const V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 9);

    #[test]
    fn payload_and_wire_are_each_others_inverse() {
        for target in [V4, V6] {
            let bounds = SizeBounds::new(target, 1500);
            for wire in bounds.min..=bounds.max {
                assert_eq!(bounds.wire(bounds.payload(wire)), wire, "{target} {wire}");
            }
        }
        assert_eq!((SizeBounds::new(V4, 1500).min, SizeBounds::new(V4, 1500).max), (84, 1538));
        assert_eq!((SizeBounds::new(V6, 1500).min, SizeBounds::new(V6, 1500).max), (102, 1538));
        assert_eq!(SizeBounds::new(V4, 1500).wire(1), 84, "a short frame is padded");
    }

    #[test]
    fn the_papers_flows_take_the_share_of_the_link_that_table_iii_says() {
        for (flow, rho) in PaperFlow::ALL.into_iter().zip([0.85, 0.667, 0.5, 0.343]) {
            for link in [100_000_000, 1_000_000_000] {
                let rate = FlowSpec::paper("f", flow, Rate(link), 1).rate.0 as f64 / link as f64;
                assert!((rate - rho).abs() < 5e-4, "{flow} {link}: {rate}");
            }
            assert_eq!(flow.name().parse(), Ok(flow));
        }
        assert!("sf".parse::<PaperFlow>().unwrap_err().contains("write SF"));
    }

    #[test]
    fn the_mean_of_the_clamped_law_agrees_with_an_integral_of_it() {
        let bounds = SizeBounds::new(V4, 1500);
        for (size, around) in [
            (SizeDistribution::Exponential { mean_wire: 850.0 }, 0.0),
            (SizeDistribution::ExponentialPayload { mean: 850.0 }, 66.0),
        ] {
            // Midpoints of a million slices of equal probability.
            let slices = 1_000_000;
            let sum: f64 = (0..slices)
                .map(|i| {
                    let p = (f64::from(i) + 0.5) / f64::from(slices);
                    (-850.0 * (-p).ln_1p() + around).clamp(84.0, 1538.0)
                })
                .sum();
            assert!((size.mean(bounds) - sum / f64::from(slices)).abs() < 0.01, "{size:?}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_the_remedy() {
        let mut spec = FlowSpec::paper("cross", PaperFlow::Sm, Rate(100_000_000), 1);
        spec.size = SizeDistribution::Fixed { wire: 1539 };
        let error = spec.bounds(V4).unwrap_err().to_string();
        assert_eq!(
            error,
            "flow cross: frames of 1539 octets on the wire do not fit; with MTU 1500 and these addresses write 84 to 1538"
        );
        spec.size = SizeDistribution::frame(1514);
        assert!(spec.bounds(V4).is_ok());
        spec.rate = Rate(0);
        assert!(spec.bounds(V4).is_err());
        spec.rate = Rate(1);
        spec.kind = FlowKind::OnOff { on_ns: 0, off_ns: 1 };
        assert!(spec.bounds(V4).is_err());
    }
}
