//! What a switch is told when it is made. Plain values: files and units are the lab's business.

mod check;
mod marking;
mod vlan;
mod warnings;

use crate::{
    Nanos, PortId, Rate, Span,
    fdb::Fdb,
    queue::Queue,
    wire::ethernet::{HEADER_LEN, Mac, TAG_LEN},
};

pub use check::ConfigError;
pub use marking::{
    Carriers, Depth, DepthScope, DepthUnit, EcnConfig, EcnScope, Ect, MAX_COUNT, MarkConfig, Rule,
};
pub use plimsoll_classify::word::Counter;
pub use vlan::{MAX_VID, VidRange, Vlan};

/// Largest rate of an emulated link in bit/s (10 Tbit/s): up to here the link clock's sums cannot overflow.
pub const MAX_RATE: u64 = 10_000_000_000_000;
/// What a frame costs on the wire beside its octets: preamble and start 8, FCS 4, interpacket gap 12 (802.3 clause 4).
pub const WIRE_OVERHEAD: u32 = 24;
/// Shortest frame on the wire without FCS; shorter ones are padded by the sender's MAC (802.3 clause 3.2.8).
pub const MIN_FRAME: u32 = 60;

const MAX_PORTS: usize = 1024;
const MAX_FDB: usize = 1 << 20;
const MAX_QUEUE_FRAMES: u32 = 1 << 20;
const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// Largest quantum of deficit round robin in octets, 16 MiB: more than a queue by default.
pub(crate) const MAX_QUANTUM: u64 = 1 << 24;
const MAX_CELL: u32 = 16_384;
const MAX_DELAY: Nanos = Nanos(1_000_000_000_000);
/// Largest delta, 1 s.
pub const MAX_DELTA: Span = Span { ps: 1_000_000_000_000 };
/// Octets of a queue that nobody sized, or [`DEFAULT_QUEUE_SPAN`] at the port's rate where that is more.
const DEFAULT_QUEUE_BYTES: u64 = 1_000_000;
/// Frames of a queue that nobody limits by frames: a port may hold so many that came in by it.
const DEFAULT_QUEUE_FRAMES: u64 = 8192;
const LEAST_QUEUE_FRAMES: u64 = 64;
const DEFAULT_QUEUE_SPAN: Span = Span { ps: 10_000_000_000 };

/// Octets that a frame of `len` octets takes on the wire: max(len, 60) + 24.
#[inline]
pub const fn wire_octets(len: u32) -> u32 {
    (if len < MIN_FRAME { MIN_FRAME } else { len }) + WIRE_OVERHEAD
}

/// One switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    /// Its name, for messages.
    pub name: String,
    /// Ports in order, 1..=1024; [`crate::PortId`] is the index.
    pub ports: Vec<PortConfig>,
    /// FDB entries at most, 1..=2^20.
    pub fdb_capacity: usize,
    /// Age after which a learnt entry is forgotten (802.1Q default 300 s).
    pub fdb_age: Nanos,
    /// What the FDB's hash is made of. With a random one no sender can choose addresses that cluster in the table; what
    /// is forwarded where does not depend on it.
    pub fdb_seed: u64,
    /// FDB entries set by hand: they neither age nor move.
    pub fdb_fixed: Vec<FixedEntry>,
    /// delta of the network in picoseconds, 1..=10^12 (1 s); `None`: that of the ports that mark. A switch of edges that
    /// mark nothing themselves needs it.
    pub delta_ps: Option<u64>,
}

impl SwitchConfig {
    /// Octets of memory that the switch reserves for its FDB and queues, which is nearly all that it will ever use.
    pub fn memory(&self) -> u64 {
        let queues = self.ports.iter().map(|port| Queue::octets(port.frames_limit()));
        Fdb::octets(self.fdb_capacity) + queues.sum::<u64>()
    }
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            name: "switch".into(),
            ports: Vec::new(),
            fdb_capacity: 16_384,
            fdb_age: Nanos(300_000_000_000),
            fdb_seed: 0,
            fdb_fixed: Vec::new(),
            delta_ps: None,
        }
    }
}

/// A station whose port is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedEntry {
    /// VLAN that its port is in, 1..=4094; 0 for frames without one, at a transparent port.
    pub vlan: u16,
    /// The station's address, not a group's.
    pub mac: Mac,
    /// The port it is behind.
    pub port: PortId,
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortConfig {
    /// Interface name, for messages.
    pub name: String,
    /// Rate of the emulated link in bit/s on the wire, up to [`MAX_RATE`]; `None` sends as fast as the machine takes.
    pub rate: Option<Rate>,
    /// Its VLANs.
    pub vlan: Vlan,
    /// Its interface's MTU in octets of the network layer: a frame that a tag would make longer than this, an Ethernet
    /// header and one tag is lost ([`crate::DropReason::TagTooLong`]). `None`: its buffer alone sets the limit.
    pub mtu: Option<u32>,
    /// Propagation delay of the emulated link, up to 1000 s.
    pub delay: Nanos,
    /// Quanta of deficit round robin in octets on the wire, 1..=2^24 each: class i of the lowest has quantum i, and these
    /// classes share what the higher ones leave, in proportion to their quanta; the higher ones have strict priority. Empty:
    /// all have it. IEEE 802.1Q clause 37 (ETS).
    pub quanta: Vec<u64>,
    /// Limit on the wire octets that leave before a frame, itself included, the frame in service not counted: those of
    /// its class and the higher ones, so that a full class takes no room of a higher one; of classes that share the link by
    /// `quanta` its own and the strict ones alone. `None`: 1 MB or 10 ms at the rate, the larger.
    pub queue_bytes: Option<u64>,
    /// The same limit in frames, 1..=2^20. `None`: as many of the shortest as the octets hold, 64 to 8192.
    pub queue_frames: Option<u32>,
    /// 802.1Q priority 0..7 of frames that carry none of their own (neither tag nor IP header).
    pub default_priority: u8,
    /// Class 0..7 of sync messages; `None`: the class of the traffic beside them, by PCP, DSCP or default priority.
    pub sync_class: Option<u8>,
    /// Counters at this port's egress; `None`: off. Needs a rate.
    pub mark: Option<MarkConfig>,
    /// Classical ECN at this port's egress; `None`: off. Needs a rate.
    pub ecn: Option<EcnConfig>,
    /// What the thresholds of both are compared with.
    pub depth: Depth,
    /// One-step end-to-end transparent clock at this port's egress (IEEE 1588-2019 clause 10.2): PTP event messages carry
    /// their residence in correctionField, which whoever releases them adds. Not beside `mark` or `edge`.
    pub transparent_clock: bool,
    /// Not-ECT sync packets over IP that come in by this port become ECT, since few clocks' daemons can set it. `None`:
    /// they stay.
    pub remark: Option<Ect>,
    /// Edge conversion at this port's egress: n*delta into correctionField of PTP event messages, word cleared. NTP fields
    /// and ECN bits leave as they are. Not with counters of two directions anywhere in the switch.
    pub edge: bool,
    /// Whether counts that arrive here are kept (a port to another switch) or cleared (a port to a host). The forward half
    /// of an answer to a request (Pdelay_Resp, NTP modes 4 and 2) is kept always: in it the server sends back what the
    /// request gathered. A Sync and an NTP broadcast answer nobody.
    pub trust: bool,
    /// Last octets (0x00..=0x0F without 0x01) of 01-80-C2-00-00-XX addresses that this port passes, in and out.
    pub pass_reserved: Vec<u8>,
    /// Limit on frames from this port that must be flooded; sync messages are exempt. `None`: no limit.
    pub storm: Option<StormConfig>,
}

impl PortConfig {
    /// A port with defaults: no rate, no marks, counts from hosts cleared.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rate: None,
            vlan: Vlan::Transparent,
            mtu: None,
            delay: Nanos(0),
            quanta: Vec::new(),
            queue_bytes: None,
            queue_frames: None,
            default_priority: 0,
            sync_class: None,
            mark: None,
            ecn: None,
            depth: Depth::default(),
            transparent_clock: false,
            remark: None,
            edge: false,
            trust: false,
            pass_reserved: Vec::new(),
            storm: None,
        }
    }

    /// The queue limit in wire octets that this port works with.
    pub fn queue_limit(&self) -> u64 {
        let by_rate = self.rate.map_or(0, |rate| rate.octets_in(DEFAULT_QUEUE_SPAN) as u64);
        self.queue_bytes.unwrap_or(by_rate.max(DEFAULT_QUEUE_BYTES))
    }

    /// The queue limit in frames that this port works with.
    pub fn frames_limit(&self) -> u32 {
        let shortest = self.queue_limit() / u64::from(wire_octets(0));
        self.queue_frames.unwrap_or(shortest.clamp(LEAST_QUEUE_FRAMES, DEFAULT_QUEUE_FRAMES) as u32)
    }

    /// Longest frame that a tag may make, in octets.
    pub(crate) fn tagged_max(&self) -> u32 {
        self.mtu.map_or(u32::MAX, |mtu| mtu.saturating_add((HEADER_LEN + TAG_LEN) as u32))
    }

    /// Wire octets that frames of the longest length at an MTU of 1500 take where the frames' limit ends the queue.
    fn octets_of_frames(&self) -> u64 {
        u64::from(self.frames_limit()) * u64::from(wire_octets(1514))
    }
}

/// Storm control: broadcast, multicast and unknown unicast frames per second that a port may bring in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormConfig {
    /// Frames per second, 1 or more.
    pub frames_per_second: u32,
    /// Frames that may come at once, 1 or more.
    pub burst: u32,
}
