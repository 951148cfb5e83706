//! What is attached to an interface, and what it counted.

use super::{object, point};
use crate::error::{Place, PortError};
use crate::netlink::Link;
use crate::program::load_error;
use plimsoll_core::wire::ip::{ECT_0, ECT_1};
use plimsoll_shim::{Count, Program, Settings};
use serde::Serialize;
use std::collections::BTreeMap;

/// The shims of one interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostReport {
    /// Interface.
    pub interface: String,
    /// Its index in its namespace.
    pub index: u32,
    /// What is attached; empty: nothing of ours.
    pub programs: Vec<HostProgram>,
}

/// An attached program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostProgram {
    /// `correction`, `timestamp` or `egress`.
    pub program: &'static str,
    /// The kernel's id, as `bpftool prog show id` takes it.
    pub id: u32,
    /// `xdp-native`, `xdp-generic`, `tcx-ingress` or `tcx-egress`.
    pub point: &'static str,
    /// Its settings; `None`: it is of another version of Plimsoll.
    pub settings: Option<HostSettings>,
    /// Frames by what became of them, and sums of marks and nanoseconds, by name ([`Count::name`]). Of `egress` an NTP
    /// message counts twice where both ECT and the field are asked for, once for each.
    pub counters: BTreeMap<&'static str, u64>,
}

/// What a program was told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostSettings {
    /// Delay of one mark.
    pub delta_ns: f64,
    /// Delay of one CE; 0: it counts for nothing.
    pub ce_ns: f64,
    /// N.
    pub counter_max: u32,
    /// Whether follow-ups are corrected.
    pub follow_up: bool,
    /// Whether NTP messages get the field.
    pub ntp_field: bool,
    /// Which ECT (0, 1) messages get.
    pub ect: Option<u8>,
}

impl From<Settings> for HostSettings {
    fn from(settings: Settings) -> Self {
        let ns = |ps: u64| ps as f64 / 1000.0;
        Self {
            delta_ns: ns(settings.delta_ps),
            ce_ns: ns(settings.ce_ps),
            counter_max: settings.counter_max,
            follow_up: settings.follow_up,
            ntp_field: settings.ntp_field,
            ect: match settings.ect {
                ECT_0 => Some(0),
                ECT_1 => Some(1),
                _ => None,
            },
        }
    }
}

impl HostReport {
    /// An attached program by its name.
    pub fn program(&self, name: &str) -> Option<&HostProgram> {
        self.programs.iter().find(|program| program.program == name)
    }
}

impl HostProgram {
    /// A counter by its name; 0 where the program has none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// The report of a link.
pub(super) fn of(place: Place<'_>, link: &Link) -> Result<HostReport, PortError> {
    let mut programs = Vec::new();
    for program in Program::ALL {
        for point in point::ours(place, link, program)? {
            let (settings, counts) = object::read(point.info()).map_err(|e| load_error(place, &e))?;
            let counters =
                program.counts().iter().map(|count: &Count| (count.name(), counts[*count as usize]));
            programs.push(HostProgram {
                program: program.name(),
                id: point.info().id(),
                point: point.name(),
                settings: settings.map(HostSettings::from),
                counters: counters.collect(),
            });
        }
    }
    Ok(HostReport { interface: link.name.clone(), index: link.index, programs })
}
