//! What passes between the core and the world around it: frames as handles, departures, discards.

#[cfg(doc)]
use crate::wire::ethernet::TAG_LEN;
use crate::{DropReason, EcnOutcome, EdgeOutcome, MarkOutcome, Nanos, wire::ptp::MessageId};
use plimsoll_classify::Class;

/// A frame's handle into its [`Pool`]: an UMEM chunk in the switch, a light value in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// A port's index in its switch, in the order of [`crate::SwitchConfig::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// The index itself.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where frames live. The core owns a frame from [`crate::Switch::receive`] to [`Egress::depart`] or [`Pool::free`].
pub trait Pool {
    /// The frame's octets, from the destination address on, without FCS.
    fn bytes(&self, frame: FrameId) -> &[u8];
    /// The same, to change.
    fn bytes_mut(&mut self, frame: FrameId) -> &mut [u8];
    /// A second frame with the same octets; `None` when the pool is empty.
    fn copy(&mut self, frame: FrameId) -> Option<FrameId>;
    /// Makes the frame [`TAG_LEN`] octets longer in front: they may be anything, the others follow. Returns whether there
    /// was room; where not, nothing has changed.
    fn grow(&mut self, frame: FrameId) -> bool;
    /// Takes the first [`TAG_LEN`] octets, which the frame has, away.
    fn shrink(&mut self, frame: FrameId);
    /// Gives the frame back.
    fn free(&mut self, frame: FrameId);
}

/// What the marker decided on one frame at one port, with what it decided on: the ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MarkRecord {
    /// Why the frame was marked or not.
    pub outcome: MarkOutcome,
    /// Thresholds exceeded, 0..=R.
    pub r: u32,
    /// Whether the frame was a message that the port marked, by 0 or more, in its word or by modified ECN.
    pub counted: bool,
    /// Which field of the message holds its marking word.
    pub field: Field,
    /// The marking word (PTP octets 16..19, or that of the NTP extension field) as it came in, before ingress trust and
    /// marking; 0 where there is none.
    pub before: u32,
    /// The word as it leaves, after edge conversion.
    pub after: u32,
    /// What became of its ECN bits.
    pub ecn: EcnOutcome,
    /// The ECN bits as they came in, before trust and remarking: 0..=3; 0 where the frame is not IP.
    pub ecn_before: u8,
    /// The ECN bits as they leave.
    pub ecn_after: u8,
    /// What edge conversion did.
    pub edge: EdgeOutcome,
    /// Nanoseconds that edge conversion added to correctionField, rounded to the nearest.
    pub converted_ns: u64,
}

impl MarkRecord {
    /// Of a frame that the marker does not look at.
    pub(crate) const NOTHING: Self = Self {
        outcome: MarkOutcome::NotSync,
        r: 0,
        counted: false,
        field: Field::None,
        before: 0,
        after: 0,
        ecn: EcnOutcome::Off,
        ecn_before: 0,
        ecn_after: 0,
        edge: EdgeOutcome::Off,
        converted_ns: 0,
    };
}

/// Where a message has its marking word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Field {
    /// Nowhere.
    #[default]
    None,
    /// messageTypeSpecific of a PTP event message.
    Ptp,
    /// The NTP extension field 0xF5C0.
    Ntp,
}

impl Field {
    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ptp => "ptp",
            Self::Ntp => "ntp",
        }
    }
}

/// A frame whose turn on the link is decided.
///
/// `start - arrived` is its wait. It equals `depth_ps` (rounded up) in the highest class and where no higher class came
/// later; what overtook it afterwards is the difference.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The port it leaves by.
    pub port: PortId,
    /// The port it came in by.
    pub ingress: PortId,
    /// The frame; its owner is now whoever took the departure.
    pub frame: FrameId,
    /// Octets of the frame as it leaves, without FCS.
    pub len: u32,
    /// Traffic class 0..7 of the queue it waited in.
    pub class: u8,
    /// What the classifier found (offsets hold for the frame as it leaves).
    pub info: Class,
    /// The arrival's own stamp.
    pub stamp: Nanos,
    /// The arrival as used: the stamp, or the last arrival decided before it where that was later.
    pub arrived: Nanos,
    /// Wire octets that still had to leave before it when it was enqueued (rounded up).
    pub depth_bytes: u64,
    /// The same as time on this link, in picoseconds rounded up: the wait that the frame faces. With [`crate::Depth`]'s
    /// defaults it is what the thresholds were compared with; rounding up changes no comparison, for thresholds are whole
    /// picoseconds (but for centred ones of an odd delta, by half a picosecond). 0 on a port without rate.
    pub depth_ps: u64,
    /// The depth that the thresholds were compared with, by the port's [`crate::Depth`]: octets on the wire (rounded up)
    /// or cells. By default the same as `depth_bytes`.
    pub measured: u64,
    /// When its first bit is due on the emulated link, rounded up; on a port without rate, when the port took it.
    pub start: Nanos,
    /// When its last bit has arrived at the link's far end, rounded up: propagation included.
    pub end: Nanos,
    /// The marker's decision.
    pub mark: MarkRecord,
    /// A clock's message at a transparent clock: whoever releases it adds its residence to correctionField, where it
    /// has one ([`crate::lateness::correct`] says so of NTP and the like).
    pub transparent: bool,
}

impl Departure {
    /// What stands where there is no frame.
    pub(crate) const NOTHING: Self = Self {
        port: PortId(0),
        ingress: PortId(0),
        frame: FrameId(0),
        len: 0,
        class: 0,
        info: Class::OTHER,
        stamp: Nanos(0),
        arrived: Nanos(0),
        depth_bytes: 0,
        depth_ps: 0,
        measured: 0,
        start: Nanos(0),
        end: Nanos(0),
        mark: MarkRecord::NOTHING,
        transparent: false,
    };
}

/// A frame that the core dropped. The core has freed it, or made no copy for the port that refused it.
#[derive(Clone, Copy, Debug)]
pub struct Discard {
    /// Why.
    pub reason: DropReason,
    /// The port it came in by.
    pub ingress: PortId,
    /// The port whose queue refused it; `None` where it never got that far.
    pub egress: Option<PortId>,
    /// Its length in octets, without FCS.
    pub len: u32,
    /// Its arrival's own stamp.
    pub stamp: Nanos,
    /// Its arrival as used.
    pub arrived: Nanos,
    /// Which PTP message it was, where it was one.
    pub message: Option<MessageId>,
}

/// What the core tells the world.
pub trait Egress {
    /// A frame leaves: it is due on the wire between `start` and `end`. Whoever keeps the departure copies it.
    fn depart(&mut self, departure: &Departure);

    /// A frame is lost; for records, the counters are the core's own.
    fn discard(&mut self, discard: Discard) {
        let _ = discard;
    }

    /// Octets that the port has taken and not yet sent: the depth of a port with `rate = "none"`.
    fn unsent_bytes(&self, port: PortId) -> u64 {
        let _ = port;
        0
    }

    /// Whether a port with `rate = "none"` takes another frame now; where not, the frame stays queued.
    fn has_room(&self, port: PortId) -> bool {
        let _ = port;
        true
    }
}
