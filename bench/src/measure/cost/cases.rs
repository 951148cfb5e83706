//! The frames and the ports whose cost is measured.

use crate::{
    frames::{ETHERTYPE_BULK, SHORTEST, sync},
    memory::{BURST, RECEIVER, SENDER, Stream, Streamed},
    messages::{Carrier, Message},
};
use anyhow::Result;
use plimsoll_core::{Carriers, Counter, EcnConfig, EcnScope, MarkConfig, PortConfig, Rate, SwitchConfig};

const RATE: Rate = Rate(1_000_000_000);
/// Below the time that the standing queue of the shortest frames takes: each message is marked.
const DELTA_PS: u64 = 1_000_000;
const THRESHOLDS: u32 = 32;
/// ECT(0).
const ECT: u8 = 2;

/// What comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// No time message, the shortest Ethernet frame.
    Bulk,
    /// A Sync or an answer of NTP.
    Sync(Carrier),
}

impl Frame {
    pub(super) const ALL: [Self; 6] = [
        Self::Bulk,
        Self::Sync(Carrier::Ptp),
        Self::Sync(Carrier::PtpUdp4),
        Self::Sync(Carrier::PtpUdp6),
        Self::Sync(Carrier::NtpUdp4),
        Self::Sync(Carrier::NtpUdp6),
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Sync(carrier) => carrier.name(),
        }
    }

    const fn carrier(self) -> Option<Carrier> {
        match self {
            Self::Bulk => None,
            Self::Sync(carrier) => Some(carrier),
        }
    }
}

/// What the egress port does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// Nothing.
    Off,
    /// Counts of all carriers' words; nothing waits, so nothing is marked.
    Unmarked,
    /// The same, and everything is marked.
    Marks(Counter),
    /// Classical ECN.
    Ecn,
    /// Two ECN bits as a counter.
    CountedEcn,
    /// Transparent clock, with what the worker does.
    Transparent,
}

impl Port {
    pub(super) const ALL: [Self; 9] = [
        Self::Off,
        Self::Unmarked,
        Self::Marks(Counter::Integer),
        Self::Marks(Counter::Shift),
        Self::Marks(Counter::IntegerBoth),
        Self::Marks(Counter::ShiftBoth),
        Self::Ecn,
        Self::CountedEcn,
        Self::Transparent,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Off => "marks off",
            Self::Unmarked => "marks on, r = 0",
            Self::Marks(Counter::Integer) => "marked, integer",
            Self::Marks(Counter::Shift) => "marked, bit shift",
            Self::Marks(Counter::IntegerBoth) => "marked, integer FR",
            Self::Marks(Counter::ShiftBoth) => "marked, bit shift FR",
            Self::Ecn => "CE set",
            Self::CountedEcn => "ECN counted",
            Self::Transparent => "transparent clock",
        }
    }
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) frame: Frame,
    pub(super) port: Port,
}

impl Case {
    /// All that mean something: ECN is IP's, a transparent clock corrects PTP.
    pub(super) fn all() -> Vec<Self> {
        let each = Frame::ALL
            .into_iter()
            .flat_map(|frame| Port::ALL.into_iter().map(move |port| Self { frame, port }));
        each.filter(|case| match (case.port, case.frame.carrier()) {
            (Port::Off | Port::Marks(Counter::Integer), _) => true,
            (_, None) => false,
            (Port::Ecn | Port::CountedEcn, Some(carrier)) => carrier.is_ip(),
            (Port::Transparent, Some(carrier)) => !carrier.is_ntp(),
            (_, Some(_)) => true,
        })
        .collect()
    }

    /// Its number among [`Case::all`], by which another process is told.
    pub(super) fn number(self) -> usize {
        Self::all().iter().position(|case| *case == self).unwrap_or_default()
    }

    /// Sends `frames` of it through the core, timed by this clock.
    pub(super) fn run(self, frames: u64, clock_ns: fn() -> u64) -> Result<Streamed> {
        let octets = match self.frame {
            Frame::Bulk => sync(RECEIVER, SENDER, ETHERTYPE_BULK, SHORTEST, 0),
            Frame::Sync(carrier) => {
                let ecn = match self.port {
                    Port::Ecn => ECT,
                    _ => 0,
                };
                Message { ecn, ..Message::sync(carrier, 0) }.frame(RECEIVER, SENDER)?
            }
        };
        let port = |number: usize| PortConfig { rate: Some(RATE), ..PortConfig::new(format!("p{number}")) };
        let config = SwitchConfig { ports: vec![port(0), self.egress(port(1))], ..SwitchConfig::default() };
        let standing = self.port != Port::Unmarked;
        Stream { config: &config, frame: &octets, copies: 1, standing, burst: BURST }.run(frames, clock_ns)
    }

    fn egress(self, port: PortConfig) -> PortConfig {
        let marks = |counter, ecn: bool| {
            let carriers = Carriers { ptp: !ecn, ntp: !ecn, ecn };
            Some(MarkConfig { counter, carriers, ..MarkConfig::new(THRESHOLDS, DELTA_PS) })
        };
        match self.port {
            Port::Off => port,
            Port::Unmarked => PortConfig { mark: marks(Counter::Integer, false), ..port },
            Port::Marks(counter) => PortConfig { mark: marks(counter, false), ..port },
            Port::Ecn => {
                PortConfig { ecn: Some(EcnConfig { threshold_ps: DELTA_PS, scope: EcnScope::Sync }), ..port }
            }
            Port::CountedEcn => PortConfig { mark: marks(Counter::Integer, true), ..port },
            Port::Transparent => PortConfig { transparent_clock: true, ..port },
        }
    }

    /// Whether the stream did what the case is about.
    pub(super) fn done(self, streamed: &Streamed, frames: u64) -> bool {
        let most = frames * 9 / 10;
        match (self.port, self.frame) {
            (Port::Off | Port::Unmarked, _) | (_, Frame::Bulk) => streamed.marked + streamed.corrected == 0,
            (Port::Transparent, _) => streamed.corrected >= most,
            _ => streamed.marked >= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_does_what_it_is_about() {
        for case in Case::all() {
            let streamed = case.run(2_000, || 0).unwrap();
            assert!(case.done(&streamed, 2_000), "{case:?}: {streamed:?}");
            assert_eq!(Case::all()[case.number()], case);
        }
    }
}
