//! A file as it is written. What the keys mean together is decided in the neighbouring modules.

use super::values::{Each, LinkRate, MacText, Reserved, TransportName, VlanText};
use super::{Compensation, CounterKind, Daemon, SecurityMode, ThresholdRule};
use crate::clock::DelayMechanism;
use crate::traffic::{Cycle, PaperFlow};
use plimsoll_core::{ByteCount, DepthScope, Ect, Rate, Span, StormConfig};
use plimsoll_model::Filter;
use plimsoll_port::worker::{Idle, Stall};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use toml::Spanned;

/// A name with its place, in a map that keeps both.
pub(super) type Named<T> = BTreeMap<Spanned<String>, T>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) name: Option<Spanned<String>>,
    pub(super) description: Option<String>,
    pub(super) duration: Option<Spanned<Span>>,
    pub(super) warmup: Option<Span>,
    pub(super) seed: Option<u64>,
    pub(super) marking: Option<Spanned<Marking>>,
    #[serde(default)]
    pub(super) worker: Worker,
    #[serde(default)]
    pub(super) switch: Named<Switch>,
    #[serde(default)]
    pub(super) bridge: Named<Bridge>,
    #[serde(default)]
    pub(super) host: Named<Host>,
    #[serde(default)]
    pub(super) link: Vec<Spanned<Link>>,
    #[serde(default)]
    pub(super) flow: Vec<Spanned<Flow>>,
    #[serde(default)]
    pub(super) clock: Vec<Spanned<Clock>>,
    #[serde(default)]
    pub(super) port: Vec<Spanned<Port>>,
}

impl File {
    /// Whether any port gives its own K.
    pub(super) fn has_steps(&self) -> bool {
        self.link.iter().any(|link| link.get_ref().step.is_some())
            || self.port.iter().any(|port| port.get_ref().step.is_some())
    }
}

/// `[marking]`: for the whole network.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Marking {
    pub(super) delta: Option<Span>,
    pub(super) thresholds: Option<u32>,
    pub(super) rule: Option<ThresholdRule>,
    pub(super) counter_max: Option<u32>,
    pub(super) counter: Option<CounterKind>,
    pub(super) forward_reverse: Option<bool>,
    pub(super) carriers: Option<Vec<CarrierName>>,
    pub(super) depth: Option<Frames>,
    pub(super) count: Option<Count>,
    pub(super) cell: Option<ByteCount>,
    pub(super) ecn_threshold: Option<Span>,
    pub(super) ecn_scope: Option<Scope>,
}

/// A field that takes counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CarrierName {
    Ptp,
    Ntp,
    Ecn,
}

/// Which frames are in a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Frames {
    Ahead,
    Queue,
    Port,
}

impl From<Frames> for DepthScope {
    fn from(frames: Frames) -> Self {
        match frames {
            Frames::Ahead => Self::Ahead,
            Frames::Queue => Self::Queue,
            Frames::Port => Self::Port,
        }
    }
}

/// How they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Count {
    #[default]
    Exact,
    Frames,
    FramesWaiting,
    Cells,
}

/// Whose packets classical ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scope {
    Sync,
    All,
}

/// What Not-ECT sync packets become at ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EctName {
    Ect0,
    Ect1,
}

impl From<EctName> for Ect {
    fn from(name: EctName) -> Self {
        match name {
            EctName::Ect0 => Self::Zero,
            EctName::Ect1 => Self::One,
        }
    }
}

/// `[worker]`: the one busy thread.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Worker {
    pub(super) cpu: Option<usize>,
    pub(super) idle: Option<Idle>,
}

/// Whether PTP event messages carry the machine's own lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Lateness {
    Correct,
    Off,
}

/// When a frame leaves the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Release {
    Start,
    End,
}

/// `[switch.NAME]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Switch {
    pub(super) latency: Option<Span>,
    pub(super) lateness: Option<Lateness>,
    pub(super) stall: Option<Stall>,
    pub(super) release: Option<Release>,
    pub(super) fdb_capacity: Option<usize>,
    pub(super) fdb_age: Option<Span>,
    #[serde(default)]
    pub(super) fdb: Vec<Station>,
}

/// An element of `fdb = [..]`: a station whose port is known beforehand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Station {
    pub(super) mac: MacText,
    pub(super) port: Spanned<String>,
    #[serde(default)]
    pub(super) vlan: u16,
}

/// `storm = { .. }` of a link or port: what may come in to be flooded.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Storm {
    frames_per_second: u32,
    burst: u32,
}

impl From<Storm> for StormConfig {
    fn from(storm: Storm) -> Self {
        Self { frames_per_second: storm.frames_per_second, burst: storm.burst }
    }
}

/// `[bridge.NAME]`: a Linux bridge, to compare with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bridge {}

/// `[host.NAME]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Host {
    pub(super) address: Option<Spanned<Ipv4Addr>>,
    pub(super) address6: Option<Spanned<Ipv6Addr>>,
    pub(super) uplink: Option<Spanned<LinkRate>>,
}

/// `[[link]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Link {
    pub(super) between: Vec<Spanned<String>>,
    pub(super) rate: Option<Spanned<Each<LinkRate>>>,
    pub(super) delay: Option<Spanned<Each<Span>>>,
    pub(super) quanta: Option<Spanned<Each<Vec<ByteCount>>>>,
    pub(super) queue: Option<Spanned<Each<ByteCount>>>,
    pub(super) queue_frames: Option<Spanned<Each<u32>>>,
    pub(super) step: Option<Spanned<Each<ByteCount>>>,
    pub(super) mark: Option<Spanned<Each<bool>>>,
    pub(super) ecn: Option<Spanned<Each<bool>>>,
    pub(super) transparent_clock: Option<Spanned<Each<bool>>>,
    pub(super) edge: Option<Spanned<Each<bool>>>,
    pub(super) remark: Option<Spanned<EctName>>,
    pub(super) trust: Option<Spanned<bool>>,
    pub(super) vlan: Option<Spanned<VlanText>>,
    pub(super) mtu: Option<Spanned<u32>>,
    pub(super) class: Option<u8>,
    pub(super) sync_class: Option<u8>,
    pub(super) storm: Option<Storm>,
    #[serde(default)]
    pub(super) pass: Vec<Reserved>,
}

/// When the frames of a `[[flow]]` come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Poisson,
    Constant,
    OnOff,
}

/// The law of a flow's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sizes {
    Fixed,
    Exponential,
}

/// The network layer of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Family {
    #[default]
    Ipv4,
    Ipv6,
}

/// `cycle = { .. }` of a flow: when it runs.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CycleKeys {
    on: Span,
    off: Span,
    start: Option<Span>,
}

impl From<CycleKeys> for Cycle {
    fn from(keys: CycleKeys) -> Self {
        let start_ns = keys.start.map_or(0, |start| start.nanos());
        Self { start_ns, on_ns: keys.on.nanos(), off_ns: keys.off.nanos() }
    }
}

/// `[[flow]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Flow {
    pub(super) name: Option<Spanned<String>>,
    pub(super) from: Spanned<String>,
    pub(super) to: Spanned<String>,
    pub(super) paper: Option<Spanned<PaperFlow>>,
    pub(super) kind: Option<Kind>,
    pub(super) load: Option<Spanned<f64>>,
    pub(super) rate: Option<Spanned<Rate>>,
    pub(super) size: Option<Spanned<ByteCount>>,
    pub(super) sizes: Option<Sizes>,
    pub(super) on: Option<Spanned<Span>>,
    pub(super) off: Option<Spanned<Span>>,
    pub(super) cycle: Option<CycleKeys>,
    pub(super) dscp: Option<Spanned<u8>>,
    pub(super) uncapped: Option<Spanned<bool>>,
    pub(super) payload: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) family: Family,
}

/// `[[clock]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Clock {
    pub(super) name: Option<Spanned<String>>,
    pub(super) server: Spanned<String>,
    pub(super) client: Spanned<String>,
    #[serde(default)]
    pub(super) daemon: Daemon,
    pub(super) transport: Option<Spanned<TransportName>>,
    pub(super) delay_mechanism: Option<Spanned<DelayMechanism>>,
    pub(super) security: Option<Spanned<SecurityMode>>,
    pub(super) interleaved: Option<Spanned<bool>>,
    pub(super) interval: Option<Spanned<Span>>,
    pub(super) compensation: Option<Spanned<Compensation>>,
    pub(super) filter: Option<Spanned<Filter>>,
    pub(super) window: Option<Spanned<usize>>,
}

/// `[[port]]`: an interface of this machine, for `plimsoll run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Port {
    pub(super) name: Spanned<String>,
    pub(super) switch: Option<Spanned<String>>,
    pub(super) rate: Option<Spanned<LinkRate>>,
    pub(super) delay: Option<Span>,
    #[serde(default)]
    pub(super) quanta: Vec<ByteCount>,
    pub(super) queue: Option<ByteCount>,
    pub(super) queue_frames: Option<u32>,
    pub(super) step: Option<Spanned<ByteCount>>,
    pub(super) mode: Option<PortMode>,
    pub(super) mark: Option<bool>,
    pub(super) ecn: Option<bool>,
    #[serde(default)]
    pub(super) transparent_clock: bool,
    #[serde(default)]
    pub(super) edge: bool,
    pub(super) remark: Option<EctName>,
    pub(super) trust: Option<bool>,
    pub(super) vlan: Option<VlanText>,
    pub(super) class: Option<u8>,
    pub(super) sync_class: Option<u8>,
    pub(super) storm: Option<Storm>,
    #[serde(default)]
    pub(super) pass: Vec<Reserved>,
    pub(super) release: Option<Release>,
}

/// How a port receives, `mode = "native"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PortMode {
    Auto,
    ZeroCopy,
    Native,
    Generic,
}
