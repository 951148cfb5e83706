//! What a host's shims are to do.

use crate::error::{Place, PortError, PortErrorKind};
use plimsoll_core::config::{MAX_COUNT, MAX_DELTA};
use plimsoll_core::wire::ip::{ECT_0, ECT_1};
use plimsoll_core::{Ect, Span};
use plimsoll_shim::{CAP_PS, Program, Settings};

/// How the correction shim is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum XdpChoice {
    /// In the driver where it has XDP, but generic on veth: there native XDP costs latency and takes segmentation
    /// offload from the other end.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the network stack.
    Generic,
}

/// What a host's shims are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Delay that one mark stands for; 1 ps to 1 s.
    pub delta: Span,
    /// Move receive timestamps (tc ingress): PTP over UDP, NTP, NTP over PTP.
    pub timestamp: bool,
    /// Add to correctionField (XDP): PTP over Ethernet and UDP, hardware timestamps too. Where both are on, it has PTP
    /// and the timestamps are NTP's.
    pub correction: bool,
    /// With `correction`: what a two-step Sync or Pdelay_Resp met goes into its follow-up, for clocks that read no other
    /// correction (some 802.1AS stacks). A follow-up that overtakes its Sync goes without.
    pub follow_up: bool,
    /// With `timestamp`: delay that one CE of an NTP message stands for where its field has no count; 0: none, as it must
    /// be where switches count in the two ECN bits. At most 1 s.
    pub ce: Span,
    /// Largest count that is believed, N.
    pub counter_max: u32,
    /// Make PTP event messages and NTP over UDP that leave as Not-ECT ECN-capable.
    pub ect: Option<Ect>,
    /// Append the field in which switches count to NTP messages that leave with nothing behind their header.
    pub ntp_field: bool,
    /// How `correction` is attached.
    pub xdp: XdpChoice,
}

impl HostOptions {
    /// Timestamps, with CE worth as much as a mark.
    pub const fn new(delta: Span) -> Self {
        Self {
            delta,
            timestamp: true,
            correction: false,
            follow_up: false,
            ce: delta,
            counter_max: MAX_COUNT,
            ect: None,
            ntp_field: false,
            xdp: XdpChoice::Auto,
        }
    }

    /// Whether a program is needed.
    pub(super) const fn wants(&self, program: Program) -> bool {
        match program {
            Program::Correction => self.correction,
            Program::Timestamp => self.timestamp,
            Program::Egress => self.ect.is_some() || self.ntp_field,
        }
    }

    pub(super) fn check(&self, place: Place<'_>) -> Result<(), PortError> {
        let wrong = |problem: String, remedy: &str| {
            Err(place.error(PortErrorKind::Option, "options", problem, remedy))
        };
        if self.delta.ps == 0 || self.delta > MAX_DELTA {
            return wrong(
                format!("delta {} is not in 1ps to {MAX_DELTA}", self.delta),
                "give the network's delta",
            );
        }
        if self.ce.ps > CAP_PS {
            return wrong(format!("a CE of {} is more than 1s", self.ce), "give the ECN threshold's delay");
        }
        if self.counter_max == 0 || self.counter_max > MAX_COUNT {
            return wrong(
                format!("a largest count of {} is not in 1 to {MAX_COUNT}", self.counter_max),
                "give the network's N, or leave it out",
            );
        }
        if self.follow_up && !self.correction {
            return wrong("follow-ups are corrected by the correction shim alone".into(), "add correction");
        }
        if self.xdp != XdpChoice::Auto && !self.correction {
            return wrong("the correction shim alone is attached at XDP".into(), "add correction");
        }
        if !Program::ALL.iter().any(|program| self.wants(*program)) {
            return wrong("nothing to do".into(), "ask for timestamp, correction, ect or the NTP field");
        }
        Ok(())
    }

    pub(super) const fn settings(&self) -> Settings {
        Settings {
            delta_ps: self.delta.ps,
            ce_ps: self.ce.ps,
            counter_max: self.counter_max,
            follow_up: self.follow_up,
            ntp_field: self.ntp_field,
            ect: match self.ect {
                None => 0,
                Some(Ect::Zero) => ECT_0,
                Some(Ect::One) => ECT_1,
            },
        }
    }
}
