//! The k-way merge of a switch's receive rings: which head arrived first.
//!
//! Stamps never decrease within a ring, but rings are read in turn, so across rings a later frame is often seen first.
//! Taking always the earliest head gives the core its arrivals in the order in which they happened.

use plimsoll_core::Nanos;

/// The head of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Port of the switch.
    pub(super) port: u16,
    /// Ring of the port.
    pub(super) ring: u16,
    /// When its first frame arrived; `None` where the ring is empty.
    pub(super) stamp: Option<Nanos>,
}

/// The rings of one switch with their heads cached.
#[derive(Debug, Default)]
pub(super) struct Merge {
    heads: Vec<Head>,
}

impl Merge {
    /// Starts a round: forgets all rings. Keeps the memory.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
    }

    /// Adds a ring with its head, if it has one.
    pub(super) fn push(&mut self, port: u16, ring: u16, stamp: Option<Nanos>) {
        if stamp.is_some() {
            self.heads.push(Head { port, ring, stamp });
        }
    }

    /// The slot of the earliest head that arrived no later than `horizon`. Of equal stamps the first ring wins.
    pub(super) fn earliest(&self, horizon: Nanos) -> Option<usize> {
        let mut best: Option<(usize, Nanos)> = None;
        for (slot, head) in self.heads.iter().enumerate() {
            if let Some(stamp) = head.stamp
                && stamp <= horizon
                && best.is_none_or(|(_, earliest)| stamp < earliest)
            {
                best = Some((slot, stamp));
            }
        }
        best.map(|(slot, _)| slot)
    }

    /// The earliest head of all: the first frame still in a ring.
    pub(super) fn first(&self) -> Option<Nanos> {
        self.heads.iter().filter_map(|head| head.stamp).min()
    }

    /// The ring in this slot.
    pub(super) fn head(&self, slot: usize) -> Head {
        self.heads[slot]
    }

    /// The ring's next head, after its first frame was taken.
    pub(super) fn replace(&mut self, slot: usize, stamp: Option<Nanos>) {
        self.heads[slot].stamp = stamp;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drains `rings` through a merge, with `horizon`.
    fn drain(rings: &[&[u64]], horizon: u64) -> Vec<u64> {
        let mut merge = Merge::default();
        let mut next = vec![0; rings.len()];
        let stamp = |ring: usize, at: usize| rings[ring].get(at).map(|&s| Nanos(s));
        for ring in 0..rings.len() {
            merge.push(0, ring as u16, stamp(ring, 0));
        }
        let mut out = Vec::new();
        while let Some(slot) = merge.earliest(Nanos(horizon)) {
            let ring = usize::from(merge.head(slot).ring);
            out.push(rings[ring][next[ring]]);
            next[ring] += 1;
            merge.replace(slot, stamp(ring, next[ring]));
        }
        out
    }

    #[test]
    fn rings_are_merged_by_stamp() {
        assert_eq!(drain(&[&[1, 4, 9], &[], &[2, 3, 10]], 100), [1, 2, 3, 4, 9, 10]);
    }

    #[test]
    fn a_head_after_the_horizon_stays() {
        assert_eq!(drain(&[&[1, 50], &[2, 51]], 50), [1, 2, 50]);
    }
}
