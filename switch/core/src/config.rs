//! What a switch is told when it is made. Plain values: files and units are the lab's business.

use crate::{Nanos, Rate};

/// One switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Its name, for messages.
    pub name: String,
    /// Ports in order; [`crate::PortId`] is the index.
    pub ports: Vec<PortConfig>,
    /// FDB entries at most.
    pub fdb_capacity: usize,
    /// Age after which a learnt entry is forgotten (802.1Q default 300 s).
    pub fdb_age: Nanos,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            name: "switch".into(),
            ports: Vec::new(),
            fdb_capacity: 16_384,
            fdb_age: Nanos(300_000_000_000),
        }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Interface name, for messages.
    pub name: String,
    /// Rate of the emulated link in bit/s on the wire; `None` sends as fast as the machine takes.
    pub rate: Option<Rate>,
    /// Propagation delay of the emulated link.
    pub delay: Nanos,
    /// Queue limit in wire octets, all classes together; `None`: 1 MB or 10 ms at the rate, the larger.
    pub queue_bytes: Option<u64>,
    /// Quota of frames queued at this port.
    pub queue_frames: u32,
    /// Class of frames that carry no priority of their own.
    pub default_class: u8,
    /// Class of sync messages; `None`: the class of the traffic beside them, by PCP, DSCP or default.
    pub sync_class: Option<u8>,
    /// Marking at this port's egress; `None`: off.
    pub mark: Option<MarkConfig>,
    /// Edge conversion at this port's egress: n*delta into correctionField, word cleared.
    pub edge: bool,
    /// Whether counts that arrive here are kept (a port to another switch) or cleared (a port to a host).
    pub trust: bool,
    /// Last octets of 01-80-C2-00-00-XX addresses that this port passes.
    pub pass_reserved: Vec<u8>,
}

impl PortConfig {
    /// A port with defaults: no rate, no marks, counts from hosts cleared.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rate: None,
            delay: Nanos(0),
            queue_bytes: None,
            queue_frames: 4096,
            default_class: 0,
            sync_class: None,
            mark: None,
            edge: false,
            trust: false,
            pass_reserved: Vec::new(),
        }
    }
}

/// Marking: r is the number of i in 1..=R with depth > i*K, K = delta*rate/8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkConfig {
    /// R, thresholds per hop, 1..=N.
    pub thresholds: u32,
    /// N, the counter's largest value, 1..=2^30 - 1.
    pub counter_max: u32,
    /// delta in picoseconds: the delay that one mark stands for; one value per network.
    pub delta_ps: u64,
}

/// A configuration that no switch can be made of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}; {remedy}")]
pub struct ConfigError {
    /// Which switch, port and key.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}
