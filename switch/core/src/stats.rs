//! What the switch counted, as control socket and results print it. The keys of its JSON are an interface.

use serde::{Serialize, Serializer};

use crate::{ClassStats, DropCounts, EcnCounts, EdgeCounts, FdbStats, MarkCounts, config::wire_octets};

/// Largest r that [`Marks`] tells apart; larger ones count as this.
const MARKS_MAX: u32 = 4095;

/// Counters of a switch since it was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchStats {
    /// Its name.
    pub name: String,
    /// Its ports, by [`crate::PortId`].
    pub ports: Vec<PortStats>,
    /// Its forwarding database.
    pub fdb: FdbStats,
    /// Arrivals whose stamp was earlier than one already decided.
    pub inversions: Inversions,
}

/// Arrivals out of order, each moved to the last arrival already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Inversions {
    /// How many.
    pub count: u64,
    /// The farthest that one was moved, in nanoseconds.
    pub max_ns: u64,
}

/// Counters of a port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortStats {
    /// Interface name.
    pub name: String,
    /// Whether it takes part.
    pub up: bool,
    /// Whether the service of its link is held: no frame starts.
    pub held: bool,
    /// Frames that came in, dropped ones included.
    pub rx: Traffic,
    /// Frames whose departure was decided.
    pub tx: Traffic,
    /// Frames dropped: by the ingress checks of this port, or at its egress queue.
    pub drops: DropCounts,
    /// Messages from this port whose counts were cleared, since it is not trusted.
    pub counts_cleared: u64,
    /// Messages from this port with counts that could not be cleared, since something covers them: an AUTHENTICATION
    /// TLV, what follows an NTP field, or a checksum of no valid value. The counts go on.
    pub counts_untouched: u64,
    /// Messages from this port that were Not-ECT and are ECT now.
    pub remarked: u64,
    /// Frames enqueued, by what the marker did.
    pub mark: MarkCounts,
    /// Frames enqueued, by what the marker did with their ECN bits.
    pub ecn: EcnCounts,
    /// Frames enqueued, by what edge conversion did.
    pub edge: EdgeCounts,
    /// Messages that could be marked, in their word or by modified ECN, by r.
    pub marks: Marks,
    /// Depth that frames found when they were enqueued, wire octets.
    pub depth_bytes: Quantiles,
    /// The same of messages of clocks alone: what a plan of delta and R is made from.
    pub sync_depth_bytes: Buckets,
    /// Queues by traffic class 0..7.
    pub queues: [ClassStats; 8],
}

/// Frames and octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Traffic {
    /// Frames.
    pub frames: u64,
    /// Their octets without FCS.
    pub bytes: u64,
    /// The same on the wire: max(len, 60) + 24 each.
    pub wire_bytes: u64,
}

impl Traffic {
    #[inline]
    pub(crate) fn count(&mut self, len: u32) {
        self.frames += 1;
        self.bytes += u64::from(len);
        self.wire_bytes += u64::from(wire_octets(len));
    }
}

/// Messages by r; those with more than 4095 count as 4095.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks(Box<[u64]>);

impl Marks {
    /// Room for r of 0..=`thresholds`; 0 for a port that does not mark.
    pub(crate) fn new(thresholds: u32) -> Self {
        Self(vec![0; thresholds.min(MARKS_MAX) as usize + 1].into())
    }

    #[inline]
    pub(crate) fn count(&mut self, r: u32) {
        // Beyond its end there is only the largest.
        let last = self.0.len() - 1;
        match self.0.get_mut(r as usize) {
            Some(messages) => *messages += 1,
            None => self.0[last] += 1,
        }
    }

    /// Messages whose r was this.
    pub fn get(&self, r: u32) -> u64 {
        self.0.get(r as usize).copied().unwrap_or(0)
    }

    /// (r, messages), for each r that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter().enumerate().filter(|(_, n)| **n > 0).map(|(r, n)| (r as u32, *n))
    }
}

impl Serialize for Marks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A distribution, within 1/32 above its values; `max` is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Quantiles {
    /// Values counted.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// A histogram: counts of values by interval, those that are empty left out, in increasing order. As JSON a list of
/// `[from, to, count]`. An interval is a single value below 64, above no wider than 1/32 of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Buckets(Vec<(u64, u64, u64)>);

impl Buckets {
    /// (least value, largest value, count) of each interval.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.iter().map(|(_, _, count)| count).sum()
    }
}

/// Depths that frames found, those of messages of clocks apart: each is counted once.
#[derive(Clone, Debug)]
pub(crate) struct Depths {
    /// Of other frames, and of messages.
    of: [Histogram; 2],
}

impl Depths {
    pub(crate) fn new() -> Self {
        Self { of: [Histogram::new(), Histogram::new()] }
    }

    #[inline]
    pub(crate) fn record(&mut self, depth: u64, is_sync: bool) {
        self.of[usize::from(is_sync)].record(depth);
    }

    /// Of all frames.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let mut all = self.of[0].clone();
        all.add(&self.of[1]);
        all.quantiles()
    }

    /// Of messages alone.
    pub(crate) fn of_sync(&self) -> Buckets {
        self.of[1].buckets()
    }
}

/// A histogram of fixed size: 32 buckets for each power of two.
#[derive(Clone, Debug)]
struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

const SUB: u32 = 5;

const BUCKETS: usize = bucket(u64::MAX) + 1;

impl Histogram {
    fn new() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }

    fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets.iter()).for_each(|(ours, theirs)| *ours += theirs);
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    fn buckets(&self) -> Buckets {
        let all = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        Buckets(all.map(|(i, &n)| (lower(i), upper(i), n)).collect())
    }

    #[inline]
    fn record(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    fn quantiles(&self) -> Quantiles {
        Quantiles { count: self.count, p50: self.at(50), p99: self.at(99), max: self.max }
    }

    /// The value that `percent` of all do not exceed: the upper end of its bucket.
    fn at(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1) as u64;
        let mut seen = 0;
        let reached = self.buckets.iter().position(|n| {
            seen += n;
            seen >= wanted
        });
        reached.map_or(0, upper).min(self.max)
    }
}

/// Values below 64 have a bucket each; above, the six leading bits choose it.
#[inline]
const fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(SUB + 1);
    ((shift << SUB) as u64 + (value >> shift)) as usize
}

/// The largest value of a bucket.
const fn upper(bucket: usize) -> u64 {
    let shift = ((bucket >> SUB) as u32).saturating_sub(1);
    let leading = bucket as u64 - (shift << SUB) as u64;
    (leading << shift) | ((1 << shift) - 1)
}

/// The least value of a bucket.
const fn lower(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { upper(bucket - 1) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantiles(), Quantiles::default());
        (1..=100).for_each(|n| histogram.record(n * 1000));
        let q = histogram.quantiles();
        assert_eq!((q.count, q.max), (100, 100_000));
        assert!((50_000..=51_600).contains(&q.p50), "{}", q.p50);
        assert!((99_000..=100_000).contains(&q.p99), "{}", q.p99);
    }

    #[test]
    fn messages_have_a_histogram_of_their_own_and_are_in_that_of_all_frames() {
        let mut depths = Depths::new();
        for (depth, is_sync) in [(0, true), (1538, false), (1538, true), (1539, true), (3076, false)] {
            depths.record(depth, is_sync);
        }
        let q = depths.quantiles();
        assert_eq!((q.count, q.max), (5, 3076));
        let buckets = depths.of_sync();
        assert_eq!(buckets.iter().collect::<Vec<_>>(), [(0, 0, 1), (1536, 1567, 2)]);
        assert_eq!(serde_json::to_string(&buckets).unwrap(), "[[0,0,1],[1536,1567,2]]");
        assert_eq!(buckets.count(), 3);
    }

    #[test]
    fn marks_show_what_occurred() {
        let mut marks = Marks::new(4);
        [0, 0, 4, 9].iter().for_each(|&r| marks.count(r));
        assert_eq!(marks.iter().collect::<Vec<_>>(), [(0, 2), (4, 2)]);
        assert_eq!(marks.get(9), 0);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values(value: u64) {
            let up = upper(bucket(value));
            prop_assert!(up >= value);
            prop_assert!(up - value <= value / 32);
            prop_assert_eq!(bucket(up), bucket(value));
            let low = lower(bucket(value));
            prop_assert!(low <= value && bucket(low) == bucket(value));
            prop_assert!(low == 0 || bucket(low - 1) == bucket(value) - 1);
            prop_assert!(up == u64::MAX || bucket(up + 1) == bucket(value) + 1);
        }
    }
}
