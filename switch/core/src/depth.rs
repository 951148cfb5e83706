//! What the thresholds are compared with: which frames at a port make up a depth, in which unit, and how far beyond the
//! thresholds it is.
//!
//! The default, everything ahead in exact octets, is what a port's link and queue know anyway. The others emulate
//! switches that measure less well (paper IV-D); a [`Gauge`] keeps what they need: sums by class in the measure's own
//! unit, and the frames whose service was decided but has not ended at the last arrival. There is more than one of those
//! where the links ran ahead of a late arrival: so with one class, late arrivals are measured as if in time.

use std::collections::VecDeque;

use crate::{
    Depth, DepthScope, DepthUnit, Nanos, PortConfig, Rule,
    class::CLASSES,
    config::wire_octets,
    link::{Instant, Pace},
    queue::higher,
};

/// A depth as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// In octets on the wire, rounded up, or in cells.
    pub(crate) value: u64,
    /// The same as time on the link in picoseconds, rounded up; 0 for cells.
    pub(crate) ps: u64,
}

/// What a depth comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    /// Thresholds of the counter that it exceeds, 0..=R.
    pub(crate) r: u32,
    /// Whether it exceeds the threshold of classical ECN.
    pub(crate) over: bool,
}

/// A port's thresholds, in the unit of its measure. Those that it does not have are never exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thresholds {
    /// In whole picoseconds on the link, rounded down, and exceeded strictly: so a depth that was rounded up exceeds
    /// just those that it exceeded before. Twice the values, for half a delta: `shift` is what a depth is moved up by.
    Time { delta: u64, shift: u64, thresholds: u32, ecn_ps: u64 },
    /// In cells, reached: by a shift for the counter, by comparison for ECN.
    Cells { shift: u32, thresholds: u32, ecn: u64 },
}

impl Thresholds {
    /// Of a checked configuration.
    pub(crate) fn new(config: &PortConfig) -> Self {
        let thresholds = config.mark.map_or(0, |mark| mark.thresholds);
        match (config.depth.unit, config.rate) {
            (DepthUnit::Cells { octets }, Some(rate)) => Self::Cells {
                shift: config.mark.and_then(|mark| mark.cell_shift(rate, octets)).unwrap_or(0),
                thresholds,
                ecn: config.ecn.map_or(u64::MAX, |ecn| ecn.cells(rate, octets)),
            },
            _ => {
                let delta = config.mark.map_or(u64::MAX, |mark| mark.delta_ps);
                let shift = match config.mark.map(|mark| mark.rule) {
                    Some(Rule::Centred) => delta,
                    _ => 0,
                };
                let ecn_ps = config.ecn.map_or(u64::MAX, |ecn| ecn.threshold_ps);
                Self::Time { delta: delta.saturating_mul(2), shift, thresholds, ecn_ps }
            }
        }
    }

    /// What this depth comes to.
    #[inline]
    pub(crate) const fn judge(&self, depth: Measured) -> Verdict {
        match *self {
            Self::Time { delta, shift, thresholds, ecn_ps } => {
                let twice = depth.ps.saturating_mul(2).saturating_add(shift);
                Verdict { r: exceeded(twice, delta, thresholds), over: depth.ps > ecn_ps }
            }
            Self::Cells { shift, thresholds, ecn } => {
                Verdict { r: least(depth.value >> shift, thresholds), over: depth.value >= ecn }
            }
        }
    }
}

/// How many of the thresholds `i * delta`, i in 1..=`thresholds`, lie strictly below the depth.
#[inline]
const fn exceeded(depth: u64, delta: u64, thresholds: u32) -> u32 {
    if depth <= delta { 0 } else { least((depth - 1) / delta, thresholds) }
}

#[inline]
const fn least(count: u64, most: u32) -> u32 {
    if count > most as u64 { most } else { count as u32 }
}

/// A measure other than the default one.
#[derive(Debug)]
pub(crate) struct Gauge {
    scope: DepthScope,
    unit: DepthUnit,
    /// The classes below this one share the link in rounds.
    shared: u8,
    pace: Pace,
    /// What is queued, by class, in octets on the wire or in cells.
    queued: [u64; CLASSES],
    /// Frames whose service is decided and that had not ended at the last arrival, oldest first.
    decided: VecDeque<Decided>,
}

#[derive(Clone, Copy, Debug)]
struct Decided {
    start: Instant,
    end: Instant,
    size: u64,
    class: u8,
}

/// Decided frames that there is room for at first: more come only where the links run ahead of arrivals.
const ROOM: usize = 64;

impl Gauge {
    /// The gauge of a port that measures otherwise than by default, where so many of the lowest classes share the link in
    /// rounds.
    pub(crate) fn new(depth: Depth, shared: u8, pace: Option<Pace>) -> Option<Box<Self>> {
        let pace = pace.filter(|_| depth != Depth::default())?;
        Some(Box::new(Self {
            scope: depth.scope,
            unit: depth.unit,
            shared,
            pace,
            queued: [0; CLASSES],
            decided: VecDeque::with_capacity(ROOM),
        }))
    }

    /// The depth that a frame of `class` finds that arrives `now`, no earlier than any before it.
    pub(crate) fn measure(&mut self, now: Nanos, class: u8) -> Measured {
        while self.decided.front().is_some_and(|frame| frame.end <= Instant::at(now)) {
            self.decided.pop_front();
        }
        let own = usize::from(class);
        let mut size: u64 = match self.scope {
            DepthScope::Ahead => {
                self.queued[own] + self.queued[higher(class, self.shared)..].iter().sum::<u64>()
            }
            DepthScope::Queue => self.queued[own],
            DepthScope::Port => self.queued.iter().sum(),
        };
        let mut rest = Instant::at(now);
        for frame in &self.decided {
            if self.scope == DepthScope::Queue && frame.class != class {
                continue;
            }
            match self.unit {
                // It had not begun when this frame came, which the links did not wait for.
                _ if !frame.start.is_before(now) => size += frame.size,
                DepthUnit::Exact => rest = frame.end,
                DepthUnit::Frames { in_service: false } => {}
                DepthUnit::Frames { in_service: true } | DepthUnit::Cells { .. } => size += frame.size,
            }
        }
        if let DepthUnit::Cells { .. } = self.unit {
            return Measured { value: size, ps: 0 };
        }
        let (value, ps) = self.pace.backlog(now, rest, size);
        Measured { value, ps }
    }

    /// A frame was queued.
    pub(crate) fn queue(&mut self, class: u8, len: u32) {
        self.queued[usize::from(class)] += self.size(len);
    }

    /// The frame whose turn it was goes from its queue into service.
    pub(crate) fn serve(&mut self, class: u8, len: u32, start: Instant, end: Instant) {
        let size = self.size(len);
        self.queued[usize::from(class)] -= size;
        self.decided.push_back(Decided { start, end, size, class });
    }

    /// The queues are empty.
    pub(crate) fn clear(&mut self) {
        self.queued = [0; CLASSES];
    }

    const fn size(&self, len: u32) -> u64 {
        match self.unit {
            DepthUnit::Cells { octets } => len.div_ceil(octets) as u64,
            DepthUnit::Exact | DepthUnit::Frames { .. } => wire_octets(len) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EcnConfig, EcnScope, MarkConfig, Rate};
    use proptest::prelude::*;

    const DELTA: u64 = 60_000_000;
    /// 100 Mbit/s: 80 ns an octet.
    const RATE: Rate = Rate(100_000_000);

    fn port(delta_ps: u64, ecn_ps: u64, unit: DepthUnit) -> PortConfig {
        PortConfig {
            rate: Some(RATE),
            mark: Some(MarkConfig::new(4, delta_ps)),
            ecn: Some(EcnConfig { threshold_ps: ecn_ps, scope: EcnScope::Sync }),
            depth: Depth { unit, ..Depth::default() },
            ..PortConfig::new("p")
        }
    }

    #[test]
    fn times_are_exceeded_strictly() {
        let thresholds = Thresholds::new(&port(DELTA, 3 * DELTA, DepthUnit::Exact));
        for (ps, r, over) in [
            (0, 0, false),
            (DELTA, 0, false),
            (DELTA + 1, 1, false),
            (2 * DELTA, 1, false),
            (2 * DELTA + 1, 2, false),
            (3 * DELTA, 2, false),
            (3 * DELTA + 1, 3, true),
            (u64::MAX, 4, true),
        ] {
            assert_eq!(thresholds.judge(Measured { value: 0, ps }), Verdict { r, over }, "{ps}");
        }
    }

    #[test]
    fn centred_thresholds_lie_half_a_delta_lower() {
        let centred = |delta: u64, ps: u64| {
            let mut config = port(delta, u64::MAX, DepthUnit::Exact);
            config.mark = config.mark.map(|mark| MarkConfig { rule: Rule::Centred, ..mark });
            Thresholds::new(&config).judge(Measured { value: 0, ps }).r
        };
        let half = DELTA / 2;
        for (ps, r) in [
            (0, 0),
            (half, 0),
            (half + 1, 1),
            (3 * half, 1),
            (3 * half + 1, 2),
            (7 * half + 1, 4),
            (u64::MAX, 4),
        ] {
            assert_eq!(centred(DELTA, ps), r, "{ps}");
        }
        // Half of an odd delta is rounded down: thresholds at 1, 4 and 7 ps, which 1.2 ps, rounded up, exceeds.
        assert_eq!([0, 1, 2, 4, 5, 7, 8].map(|ps| centred(3, ps)), [0, 0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn cells_are_reached_by_a_shift() {
        // K = 320 B of 80 B cells: a shift by 2. ECN at 250 B: 3 cells.
        let config = port(320 * 80_000, 250 * 80_000, DepthUnit::Cells { octets: 80 });
        let thresholds = Thresholds::new(&config);
        for (value, r, over) in [
            (0, 0, false),
            (2, 0, false),
            (3, 0, true),
            (4, 1, true),
            (7, 1, true),
            (8, 2, true),
            (15, 3, true),
            (1000, 4, true),
        ] {
            assert_eq!(thresholds.judge(Measured { value, ps: 0 }), Verdict { r, over }, "{value}");
        }
        // A threshold below a cell is one cell: an empty port is over none.
        let config = port(320 * 80_000, 1, DepthUnit::Cells { octets: 80 });
        assert_eq!(Thresholds::new(&config).judge(Measured { value: 0, ps: 0 }), Verdict::default());
    }

    #[test]
    fn thresholds_that_are_not_there_are_never_exceeded() {
        for unit in [DepthUnit::Exact, DepthUnit::Cells { octets: 80 }] {
            let config = PortConfig { mark: None, ecn: None, ..port(DELTA, 1, unit) };
            let deepest = Measured { value: u64::MAX - 1, ps: u64::MAX };
            assert_eq!(Thresholds::new(&config).judge(deepest), Verdict::default(), "{unit:?}");
        }
    }

    /// Class 0 has one frame of 1514 in service since 1000, its end at 1000 + 1538*80, and one of 100 waiting; class 5
    /// has one of 60 waiting; all measured 8000 ns (100 octets) after the start.
    fn measured(scope: DepthScope, unit: DepthUnit, class: u8) -> u64 {
        measured_in_rounds(scope, unit, class, 0)
    }

    fn measured_in_rounds(scope: DepthScope, unit: DepthUnit, class: u8, shared: u8) -> u64 {
        let pace = Pace::new(RATE);
        let mut gauge = Gauge::new(Depth { scope, unit }, shared, Some(pace)).unwrap();
        let start = Instant::at(Nanos(1000));
        gauge.queue(0, 1514);
        gauge.serve(0, 1514, start, pace.after(start, 1538));
        gauge.queue(0, 100);
        gauge.queue(5, 60);
        gauge.measure(Nanos(9000), class).value
    }

    #[test]
    fn scopes_and_units_count_what_they_say() {
        use DepthScope::{Ahead, Port, Queue};
        let (exact, cells) = (DepthUnit::Exact, DepthUnit::Cells { octets: 80 });
        let [with, without] = [true, false].map(|in_service| DepthUnit::Frames { in_service });
        // For class 0, 5, 7.
        for (scope, unit, expected) in [
            (Queue, exact, [1438 + 124, 84, 0]),
            (Port, exact, [1438 + 124 + 84; 3]),
            (Ahead, with, [1538 + 124 + 84, 1538 + 84, 1538]),
            (Ahead, without, [124 + 84, 84, 0]),
            (Queue, with, [1538 + 124, 84, 0]),
            (Queue, without, [124, 84, 0]),
            (Port, with, [1538 + 124 + 84; 3]),
            (Port, without, [124 + 84; 3]),
            (Ahead, cells, [19 + 2 + 1, 19 + 1, 19]),
            (Queue, cells, [19 + 2, 1, 0]),
            (Port, cells, [19 + 2 + 1; 3]),
        ] {
            assert_eq!([0, 5, 7].map(|class| measured(scope, unit, class)), expected, "{scope:?} {unit:?}");
        }
    }

    #[test]
    fn of_classes_in_rounds_only_the_strict_ones_are_ahead() {
        let unit = DepthUnit::Frames { in_service: false };
        let ahead =
            |shared| [0, 1, 5, 7].map(|class| measured_in_rounds(DepthScope::Ahead, unit, class, shared));
        assert_eq!(ahead(0), [124 + 84, 84, 84, 0]);
        assert_eq!(ahead(5), [124 + 84, 84, 84, 0]);
        assert_eq!(ahead(6), [124, 0, 84, 0]);
        assert_eq!(ahead(8), [124, 0, 84, 0]);
        let all = |scope| [0, 1, 5, 7].map(|class| measured_in_rounds(scope, unit, class, 8));
        assert_eq!((all(DepthScope::Queue), all(DepthScope::Port)), ([124, 0, 84, 0], [124 + 84; 4]));
    }

    #[test]
    fn a_frame_is_in_service_until_its_end() {
        let pace = Pace::new(RATE);
        let unit = DepthUnit::Frames { in_service: true };
        let mut gauge = Gauge::new(Depth { unit, ..Depth::default() }, 0, Some(pace)).unwrap();
        let start = Instant::at(Nanos(1000));
        gauge.queue(0, 60);
        gauge.serve(0, 60, start, pace.after(start, 84));
        let end = 1000 + 84 * 80;
        assert_eq!(gauge.measure(Nanos(end - 1), 0), Measured { value: 84, ps: 84 * 80_000 });
        assert_eq!(gauge.measure(Nanos(end), 0), Measured { value: 0, ps: 0 });
    }

    #[test]
    fn frames_decided_ahead_of_a_late_arrival_are_still_queued_to_it() {
        let pace = Pace::new(RATE);
        let unit = DepthUnit::Frames { in_service: false };
        let mut gauge = Gauge::new(Depth { unit, ..Depth::default() }, 0, Some(pace)).unwrap();
        let mut start = Instant::at(Nanos(1000));
        for _ in 0..3 {
            gauge.queue(0, 60);
            let end = pace.after(start, 84);
            gauge.serve(0, 60, start, end);
            start = end;
        }
        assert_eq!(gauge.measure(Nanos(1000), 0).value, 3 * 84, "at the very start none is in service");
        assert_eq!(gauge.measure(Nanos(1001), 0).value, 2 * 84);
        assert_eq!(gauge.measure(Nanos(1000 + 84 * 80), 0).value, 2 * 84);
        assert_eq!(gauge.measure(Nanos(1001 + 2 * 84 * 80), 0).value, 0);
    }

    proptest! {
        #[test]
        fn r_is_the_count_of_thresholds_below(depth: u32, delta in 1u64..1 << 24, thresholds in 1u32..200) {
            let depth = u64::from(depth);
            let r = (1..=u64::from(thresholds)).filter(|i| depth > i * delta).count();
            prop_assert_eq!(exceeded(depth, delta, thresholds) as usize, r);
        }
    }
}
