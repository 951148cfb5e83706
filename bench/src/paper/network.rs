//! The paper's networks as lab files: one hop or several at 1 Gbit/s, each way of each hop with a flow of its own.
//!
//! A flow comes from a host of its own over a link of 1 Gbit/s, leaves by the port that the time messages of its direction
//! leave by, and ends one switch later, so that hops are independent. Sizes are Table III's as payload, not cut at the MTU.

use anyhow::Result;
use plimsoll_lab::{
    topology::{Overrides, Topology},
    traffic::PaperFlow,
};
use std::fmt::Write as _;

/// Traffic of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// The same flow everywhere.
    Of(PaperFlow),
    /// SS, SM, LM forward, LM, SM, SS back (VI-C).
    Mi,
}

impl Mix {
    /// The paper's five, in its order.
    pub(super) const ALL: [Self; 5] = [
        Self::Mi,
        Self::Of(PaperFlow::Sf),
        Self::Of(PaperFlow::Lm),
        Self::Of(PaperFlow::Sm),
        Self::Of(PaperFlow::Ss),
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Of(flow) => flow.name(),
            Self::Mi => "MI",
        }
    }

    /// The flow at a hop, counted from 0 as messages come by; forward and back.
    const fn at(self, hop: usize) -> [PaperFlow; 2] {
        match (self, hop) {
            (Self::Of(flow), _) => [flow, flow],
            (Self::Mi, 0) => [PaperFlow::Ss, PaperFlow::Lm],
            (Self::Mi, 1) => [PaperFlow::Sm, PaperFlow::Sm],
            (Self::Mi, _) => [PaperFlow::Lm, PaperFlow::Ss],
        }
    }
}

/// What the paper set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) delta_us: f64,
    pub(super) thresholds: u32,
    pub(super) counter_max: u32,
}

/// A network of so many hops; `back` says whether the way back has traffic too.
pub(super) struct Network {
    pub(super) mix: Mix,
    pub(super) hops: usize,
    pub(super) back: bool,
    pub(super) marks: Marks,
    /// Between Syncs, and between Delay_Reqs, ms.
    pub(super) interval_ms: f64,
    /// How long it is measured, s.
    pub(super) seconds: f64,
}

/// How long flows run before anything counts, ms.
pub(super) const WARMUP_MS: u64 = 200;

impl Network {
    pub(super) fn topology(&self) -> Result<Topology> {
        Ok(Topology::parse(self.mix.name(), &self.text(), &Overrides::default())?)
    }

    fn text(&self) -> String {
        let Self { hops, interval_ms, marks, .. } = *self;
        let us = |ns: f64| format!("{}ns", ns.round() as u64);
        let mut text = format!(
            "duration = \"{}ms\"\nwarmup = \"{WARMUP_MS}ms\"\n[marking]\ndelta = \"{}\"\nthresholds = {}\ncounter-max = {}\n",
            (self.seconds * 1e3).round() as u64,
            us(marks.delta_us * 1e3),
            marks.thresholds,
            marks.counter_max,
        );
        let host = |name: &str, switch: usize, fast: bool| {
            // The ends of the network are ports as the switches' own; sources and sinks wait nowhere but in their hosts.
            let rate = if fast { "rate = \"1gbit\"\n" } else { "" };
            format!(
                "[host.{name}]\nuplink = \"1gbit\"\n[[link]]\nbetween = [\"{name}\", \"s{switch}\"]\n{rate}"
            )
        };
        let mut parts = vec![host("server", 1, true), host("client", hops, true)];
        for hop in 1..=hops {
            parts.push(format!("[switch.s{hop}]\n"));
            if hop > 1 {
                let link = format!("[[link]]\nbetween = [\"s{}\", \"s{hop}\"]\nrate = \"1gbit\"\n", hop - 1);
                parts.push(link);
            }
            parts.push(host(&format!("fore{hop}"), hop, false));
            parts.push(host(&format!("back{hop}"), hop, false));
            parts.push(host(&format!("sink{hop}"), hop, false));
        }
        for hop in 1..=hops {
            let [fore, back] = self.mix.at(hop - 1);
            let to = if hop == hops { "client".into() } else { format!("sink{}", hop + 1) };
            parts.push(flow(fore, &format!("fore{hop}"), &to));
            // The first hop back is the last switch.
            let switch = hops + 1 - hop;
            let to = if switch == 1 { "server".into() } else { format!("sink{}", switch - 1) };
            if self.back {
                parts.push(flow(back, &format!("back{switch}"), &to));
            }
        }
        text.extend(parts);
        let _ = write!(
            text,
            "[[clock]]\nserver = \"server\"\nclient = \"client\"\ntransport = \"udp4\"\ninterval = \"{}\"\n",
            us(interval_ms * 1e6),
        );
        text
    }
}

fn flow(flow: PaperFlow, from: &str, to: &str) -> String {
    format!(
        "[[flow]]\nname = \"{from}\"\nfrom = \"{from}\"\nto = \"{to}\"\npaper = \"{flow}\"\npayload = true\nuncapped = true\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_loads_one_hop_of_the_messages_way() {
        let network = Network {
            mix: Mix::Mi,
            hops: 3,
            back: true,
            marks: Marks { delta_us: 5.0, thresholds: 5, counter_max: 32 },
            interval_ms: 2.0,
            seconds: 1.0,
        };
        let t = network.topology().unwrap();
        assert_eq!(t.warnings, Vec::<String>::new());
        assert_eq!((t.switches.len(), t.flows.len(), t.clocks.len()), (3, 6, 1));
        let way = |hops: &[plimsoll_lab::topology::Hop]| -> Vec<_> {
            hops.iter()
                .map(|hop| {
                    let switch = &t.switches[usize::from(hop.switch)].config;
                    format!("{}>{}", switch.name, switch.ports[usize::from(hop.port)].name)
                })
                .collect()
        };
        assert_eq!(way(&t.clocks[0].to_client), ["s1>s2", "s2>s3", "s3>client"]);
        assert_eq!(way(&t.clocks[0].to_server), ["s3>s2", "s2>s1", "s1>server"]);
        let names = |index: usize| {
            (t.hosts[t.flows[index].from].name.as_str(), t.hosts[t.flows[index].to].name.as_str())
        };
        let ways: Vec<_> = (0..6).map(names).collect();
        for expected in [("fore1", "sink2"), ("fore3", "client"), ("back3", "sink2"), ("back1", "server")] {
            assert!(ways.contains(&expected), "{expected:?} of {ways:?}");
        }
        // SS is the slowest and LM the fastest of the three.
        let rate = |name: &str| t.flows.iter().find(|f| f.name == name).unwrap().spec.rate.0;
        assert!(rate("fore1") < rate("fore2") && rate("fore2") < rate("fore3"));
        assert_eq!((rate("fore1"), rate("fore3")), (rate("back1"), rate("back3")));
    }
}
