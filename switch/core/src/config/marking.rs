//! What a port writes into the messages of clocks, and how it measures the depth that decides it.

use plimsoll_classify::word::Counter;

use crate::{Rate, Span};

/// Largest value of the marking counter, 2^30 - 1: all bits of the integer word (paper IV-C2, with N = 2^b - 1).
pub const MAX_COUNT: u32 = (1 << 30) - 1;

/// Picoseconds times bit/s that make an octet.
const PS_OCTETS: u128 = 8_000_000_000_000;

/// Counters: r is the number of i in 1..=R with depth > i*K, K = delta*rate/8; each carrier that a message has grows
/// by r, up to N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkConfig {
    /// R, thresholds per hop, 1..=N.
    pub thresholds: u32,
    /// N, the counter's largest value, 1..=[`MAX_COUNT`]; a carrier of another mode keeps its own N where that is less.
    pub counter_max: u32,
    /// delta in picoseconds, 1..=10^12 (1 s): the delay that one mark stands for; one value per network.
    pub delta_ps: u64,
    /// Where the thresholds lie.
    pub rule: Rule,
    /// The mode that a word without one gets; a word that has a valid mode is continued in its own.
    pub counter: Counter,
    /// What is marked.
    pub carriers: Carriers,
}

impl MarkConfig {
    /// Integer counters of the full width in PTP words and NTP fields.
    pub const fn new(thresholds: u32, delta_ps: u64) -> Self {
        Self {
            thresholds,
            counter_max: MAX_COUNT,
            delta_ps,
            rule: Rule::Edge,
            counter: Counter::Integer,
            carriers: Carriers { ptp: true, ntp: true, ecn: false },
        }
    }

    /// n, where K at `rate` is `cell * 2^n` octets: cells are then compared by a shift. K counts to the nearest octet,
    /// for a delta of whole picoseconds seldom gives a whole one.
    pub fn cell_shift(&self, rate: Rate, cell: u32) -> Option<u32> {
        let k = nearest_octets(self.delta_ps, rate);
        let cells = k / u128::from(cell);
        (k.is_multiple_of(u128::from(cell)) && cells.is_power_of_two()).then(|| cells.trailing_zeros())
    }

    /// The nearest deltas in picoseconds, below and above, whose K is `cell * 2^n` octets at `rate`.
    pub(super) fn cell_deltas(&self, rate: Rate, cell: u32) -> [u64; 2] {
        let delta = |n: u32| ((u128::from(cell) << n) * PS_OCTETS / u128::from(rate.0).max(1)) as u64;
        let n = (0..60).take_while(|&n| delta(n) <= self.delta_ps).last().unwrap_or(0);
        [delta(n).max(1), delta(n + 1)]
    }

    /// K, the distance of the thresholds in wire octets at `rate`, rounded down: delta*rate/8 (paper III-C).
    pub const fn k_octets(&self, rate: Rate) -> u128 {
        rate.octets_in(Span { ps: self.delta_ps })
    }
}

/// The octets that leave in `ps` at `rate`, to the nearest.
fn nearest_octets(ps: u64, rate: Rate) -> u128 {
    (u128::from(ps) * u128::from(rate.0) + PS_OCTETS / 2) / PS_OCTETS
}

/// Where threshold i of a hop lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Rule {
    /// At i*delta (paper III-B): what is left of a wait is 0..delta.
    #[default]
    Edge,
    /// At (i - 1/2)*delta, in whole picoseconds rounded down, beyond the paper: what is left is -delta/2..delta/2,
    /// which is half the error without its bias where there are few thresholds.
    Centred,
}

/// Which fields of a message take counts, where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carriers {
    /// Octets 16..19 of PTP event messages.
    pub ptp: bool,
    /// The NTP extension field 0xF5C0.
    pub ntp: bool,
    /// Modified ECN (paper IV-C1), for private networks: the two ECN bits of sync packets are a counter. Exclusive with
    /// [`EcnConfig`] and [`super::PortConfig::remark`] in the whole switch.
    pub ecn: bool,
}

/// Classical ECN (RFC 3168): ECT(0) and ECT(1) become CE where depth > threshold; Not-ECT is never touched, CE never
/// cleared. Depth is the port's [`Depth`]; in cells, CE is set where depth >= threshold, rounded down to whole cells, at
/// least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnConfig {
    /// The threshold as time on the link in picoseconds, 1..=10^12.
    pub threshold_ps: u64,
    /// Whose packets.
    pub scope: EcnScope,
}

impl EcnConfig {
    /// The threshold in cells of `cell` octets at `rate`: whole ones, at least one, for an empty port is over none. It is
    /// compared as cells are: reached, not exceeded.
    pub(crate) fn cells(&self, rate: Rate, cell: u32) -> u64 {
        let cells = nearest_octets(self.threshold_ps, rate) / u128::from(cell);
        // At most 1.25 * 10^12 octets: it fits.
        (cells as u64).max(1)
    }
}

/// Whose packets classical ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum EcnScope {
    /// PTP event messages and NTP, over IP.
    #[default]
    Sync,
    /// All of IP.
    All,
}

/// The ECN-capable code points (RFC 3168 section 5; the paper's II-C swaps them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ect {
    /// ECT(0), 10.
    Zero,
    /// ECT(1), 01.
    One,
}

/// What the thresholds are compared with, the arriving frame itself never counted. Measured at enqueue: a frame that
/// ends at that very instant is gone, one that could start at it is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Depth {
    /// Of which frames.
    pub scope: DepthScope,
    /// In which unit.
    pub unit: DepthUnit,
}

/// Which frames at the port count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum DepthScope {
    /// Those that leave before it as far as known now: its class, higher ones, and what is in service. Of classes that
    /// share the link by [`super::PortConfig::quanta`] only strict ones are higher: what the others send in between is not
    /// known, so this measure is refused for what is marked in them.
    #[default]
    Ahead,
    /// Its own class, and what is in service of that class.
    Queue,
    /// All classes, and what is in service.
    Port,
}

/// How they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum DepthUnit {
    /// Octets on the wire still to be sent: of the frame in service the rest. Depth*8/rate is the wait.
    #[default]
    Exact,
    /// Whole frames in octets on the wire, as a switch that learns of a frame's departure when it ends (`in_service`),
    /// or when it begins.
    Frames {
        /// Whether the frame in service counts, whole.
        in_service: bool,
    },
    /// Cells of the packet buffer, as hardware counts them: ceil(len/octets) a frame of len octets without FCS, the one
    /// in service included until its end; r = cells >> n with K = octets * 2^n (paper IV-D), which is >= where all else is >.
    Cells {
        /// Octets of a cell, 1..=16384; 80 in the paper's switch.
        octets: u32,
    },
}
