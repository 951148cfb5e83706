//! The forwarding database: which port a station is behind, by VLAN and MAC address (802.1Q-2018 clause 8.8).
//!
//! One table with open addressing and linear probing: no allocation after it is made, and no more than [`PROBES`]
//! slots looked at to find an address, whatever a sender makes up. Which slot an address gets depends on a seed that
//! senders do not know, so that they cannot choose addresses that cluster. Old entries are forgotten by a hand that
//! goes round the table: each step ends after [`STEP`] slots looked at, and one removal more, which looks at the slots
//! up to the next empty one (half of them are empty: a few).

use serde::Serialize;

use crate::{Nanos, PortId, wire::ethernet::Mac};

/// Slots looked at for one address at most. Half the slots stay empty, so honest traffic needs a few.
const PROBES: usize = 128;
/// Slots looked at in one step of the hand, those that a removal looks at included.
const STEP: usize = 64;
/// Time between two steps of the hand.
const STEP_NS: u64 = 1_000_000;
/// [`Slot::port`] of an empty slot.
const EMPTY: u16 = u16::MAX;

/// One entry, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FdbEntry {
    /// VLAN, 0 for frames without one.
    pub vlan: u16,
    /// The station's address.
    pub mac: Mac,
    /// The port it is behind.
    #[serde(serialize_with = "number")]
    pub port: PortId,
    /// Set by hand: it does not age and does not move.
    pub fixed: bool,
    /// Nanoseconds since a frame of this station was last seen; 0 for fixed entries.
    pub age_ns: u64,
}

fn number<S: serde::Serializer>(port: &PortId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(port.0)
}

/// What the database counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct FdbStats {
    /// Entries now, those not yet found to be too old included.
    pub entries: u64,
    /// Entries at most.
    pub capacity: u64,
    /// Addresses learnt.
    pub learnt: u64,
    /// Stations that showed up behind another port.
    pub moves: u64,
    /// Entries forgotten by age.
    pub aged: u64,
    /// Addresses not learnt for want of room.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    seen: Nanos,
    port: u16,
    fixed: bool,
}

const FREE: Slot = Slot { key: 0, seen: Nanos(0), port: EMPTY, fixed: false };

/// The database.
#[derive(Debug)]
pub(crate) struct Fdb {
    slots: Box<[Slot]>,
    /// How far a hash is shifted to become an index.
    shift: u32,
    /// What makes the hash one that nobody else knows; the second is odd.
    secret: [u64; 2],
    age: u64,
    hand: usize,
    stepped: Nanos,
    stats: FdbStats,
}

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number that looks like none of its neighbours' (the finaliser of SplitMix64).
const fn mix(seed: u64) -> u64 {
    let seed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let seed = (seed ^ seed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    seed ^ seed >> 31
}

/// VLAN and address as one number.
#[inline]
pub(crate) const fn key(vlan: u16, mac: Mac) -> u64 {
    (vlan as u64) << 48 | mac.to_u64()
}

impl Fdb {
    /// Octets that a database for `capacity` entries reserves.
    pub(crate) const fn octets(capacity: usize) -> u64 {
        ((2 * capacity).next_power_of_two() * size_of::<Slot>()) as u64
    }

    /// A database for `capacity` entries (1 or more) that live `age`, hashed by `seed`.
    pub(crate) fn new(capacity: usize, age: Nanos, seed: u64) -> Self {
        let slots = (2 * capacity).next_power_of_two();
        let secret = mix(seed ^ GOLDEN);
        Self {
            slots: vec![FREE; slots].into(),
            shift: u64::BITS - slots.trailing_zeros(),
            secret: [secret, mix(secret ^ GOLDEN) | 1],
            age: age.0,
            hand: 0,
            stepped: Nanos(0),
            stats: FdbStats { capacity: capacity as u64, ..FdbStats::default() },
        }
    }

    /// The port behind which `key` was last seen, unless that is too long ago.
    #[inline]
    pub(crate) fn look_up(&self, key: u64, now: Nanos) -> Option<PortId> {
        let slot = &self.slots[self.find(key).ok()?];
        (slot.fixed || now.since(slot.seen) < self.age).then_some(PortId(slot.port))
    }

    /// Notes that a frame of `key` came in by `port`.
    #[inline]
    pub(crate) fn learn(&mut self, key: u64, port: PortId, now: Nanos) {
        match self.find(key) {
            Ok(at) => {
                let slot = &mut self.slots[at];
                if slot.fixed {
                    return;
                }
                if slot.port != port.0 {
                    slot.port = port.0;
                    self.stats.moves += 1;
                }
                slot.seen = now;
            }
            Err(free) => self.learn_new(free, Slot { key, seen: now, port: port.0, fixed: false }, now),
        }
    }

    /// Sets an entry that neither ages nor moves. Returns whether there was room.
    pub(crate) fn fix(&mut self, key: u64, port: PortId) -> bool {
        let slot = Slot { key, seen: Nanos(0), port: port.0, fixed: true };
        match self.find(key) {
            Ok(at) => self.slots[at] = slot,
            Err(Some(at)) if !self.is_full() => {
                self.slots[at] = slot;
                self.stats.entries += 1;
            }
            Err(_) => return false,
        }
        true
    }

    /// Forgets what was learnt, at one port or (`None`) at all; fixed entries stay. Returns how many went.
    pub(crate) fn flush(&mut self, port: Option<PortId>) -> u64 {
        let gone = |slot: &Slot| !slot.fixed && port.is_none_or(|port| port.0 == slot.port);
        let before = self.stats.entries;
        // One round from an empty slot on, so that every entry comes after those it may move up behind.
        let Some(start) = self.slots.iter().position(|slot| slot.port == EMPTY) else { return 0 };
        let mut at = self.next(start);
        while at != start {
            let slot = std::mem::replace(&mut self.slots[at], FREE);
            if slot.port != EMPTY && gone(&slot) {
                self.stats.entries -= 1;
            } else if slot.port != EMPTY {
                // Its own slot, now free, is within reach.
                let to = self.find(slot.key).err().flatten().unwrap_or(at);
                self.slots[to] = slot;
            }
            at = self.next(at);
        }
        before - self.stats.entries
    }

    /// Moves the hand on where it is time: a whole round of the default table's 32768 slots takes half a second, and
    /// longer while many entries go.
    #[inline]
    pub(crate) fn tick(&mut self, now: Nanos) {
        if now.since(self.stepped) >= STEP_NS {
            self.stepped = now;
            self.step(now);
        }
    }

    pub(crate) fn stats(&self) -> FdbStats {
        self.stats
    }

    /// Entries that are not too old, by VLAN and address.
    pub(crate) fn entries(&self, now: Nanos) -> Vec<FdbEntry> {
        let alive = |slot: &&Slot| slot.port != EMPTY && (slot.fixed || now.since(slot.seen) < self.age);
        let mut entries: Vec<_> = self.slots.iter().filter(alive).map(|slot| slot.show(now)).collect();
        entries.sort_unstable_by_key(|entry| (entry.vlan, entry.mac));
        entries
    }

    fn is_full(&self) -> bool {
        self.stats.entries >= self.stats.capacity
    }

    #[cold]
    fn learn_new(&mut self, free: Option<usize>, slot: Slot, now: Nanos) {
        let mut free = free;
        if self.is_full() || free.is_none() {
            self.step(now);
            // Entries may have moved up.
            free = self.find(slot.key).err().flatten();
        }
        match free {
            Some(at) if !self.is_full() => {
                self.slots[at] = slot;
                self.stats.entries += 1;
                self.stats.learnt += 1;
            }
            _ => self.stats.refused += 1,
        }
    }

    /// Forgets entries that are too old in the next few slots.
    fn step(&mut self, now: Nanos) {
        let mut left = STEP.min(self.slots.len());
        while left > 0 {
            let slot = &self.slots[self.hand];
            let looked_at = if slot.port != EMPTY && !slot.fixed && now.since(slot.seen) >= self.age {
                self.stats.aged += 1;
                // A later entry may now be here: the hand stays.
                self.remove(self.hand)
            } else {
                self.hand = self.next(self.hand);
                1
            };
            left = left.saturating_sub(looked_at);
        }
    }

    /// The key's slot, or the free one that it would get; `Err(None)` where all within reach are taken.
    #[inline]
    fn find(&self, key: u64) -> Result<usize, Option<usize>> {
        let mut at = self.home(key);
        for _ in 0..PROBES.min(self.slots.len()) {
            let slot = &self.slots[at];
            if slot.port == EMPTY {
                return Err(Some(at));
            }
            if slot.key == key {
                return Ok(at);
            }
            at = self.next(at);
        }
        Err(None)
    }

    /// Empties a slot and moves those behind it up, so that no search ends too early and nothing needs a tombstone.
    /// Returns how many slots were looked at.
    fn remove(&mut self, at: usize) -> usize {
        let mut hole = at;
        let mut next = self.next(at);
        while self.slots[next].port != EMPTY {
            let home = self.home(self.slots[next].key);
            // It may move if its home is not between the hole and itself, going round.
            if self.distance(home, next) >= self.distance(hole, next) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.next(next);
        }
        self.slots[hole] = FREE;
        self.stats.entries -= 1;
        self.distance(at, next)
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        // Both halves of a product with a secret, folded: every bit of the key, and the secret, are in every bit.
        let product = u128::from(key ^ self.secret[0]) * u128::from(self.secret[1]);
        let folded = (product >> 64) as u64 ^ product as u64;
        // The upper bits of this product depend on all of them.
        (folded.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

impl Slot {
    fn show(&self, now: Nanos) -> FdbEntry {
        FdbEntry {
            vlan: (self.key >> 48) as u16,
            mac: Mac::from_u64(self.key & 0xFFFF_FFFF_FFFF),
            port: PortId(self.port),
            fixed: self.fixed,
            age_ns: if self.fixed { 0 } else { now.since(self.seen) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const AGE: Nanos = Nanos(1000);

    fn station(last: u8) -> u64 {
        key(0, Mac([2, 0, 0, 0, 0, last]))
    }

    #[test]
    fn stations_are_learnt_move_and_are_forgotten() {
        let mut fdb = Fdb::new(16, AGE, 0);
        assert_eq!(fdb.look_up(station(1), Nanos(0)), None);
        fdb.learn(station(1), PortId(3), Nanos(10));
        assert_eq!(fdb.look_up(station(1), Nanos(1009)), Some(PortId(3)));
        assert_eq!(fdb.look_up(station(1), Nanos(1010)), None);
        fdb.learn(station(1), PortId(4), Nanos(500));
        assert_eq!(fdb.look_up(station(1), Nanos(1499)), Some(PortId(4)));
        assert_eq!(fdb.stats().moves, 1);
        assert_eq!(fdb.look_up(key(7, Mac([2, 0, 0, 0, 0, 1])), Nanos(500)), None, "another VLAN");
        fdb.tick(Nanos(STEP_NS));
        assert_eq!((fdb.stats().entries, fdb.stats().aged), (0, 1));
    }

    #[test]
    fn the_cap_holds_until_something_is_old() {
        let mut fdb = Fdb::new(4, AGE, 0);
        (0..10).for_each(|n| fdb.learn(station(n), PortId(0), Nanos(u64::from(n))));
        assert_eq!((fdb.stats().entries, fdb.stats().refused), (4, 6));
        fdb.learn(station(9), PortId(0), Nanos(1000));
        assert_eq!(fdb.look_up(station(9), Nanos(1000)), Some(PortId(0)));
        assert_eq!(fdb.stats().aged, 1);
    }

    #[test]
    fn fixed_entries_neither_age_nor_move_nor_flush() {
        let mut fdb = Fdb::new(4, AGE, 0);
        assert!(fdb.fix(station(1), PortId(1)));
        fdb.learn(station(1), PortId(2), Nanos(5));
        fdb.learn(station(2), PortId(2), Nanos(5));
        fdb.learn(station(3), PortId(3), Nanos(5));
        assert_eq!(fdb.flush(Some(PortId(2))), 1);
        assert_eq!(fdb.look_up(station(2), Nanos(5)), None);
        assert_eq!(fdb.look_up(station(3), Nanos(5)), Some(PortId(3)));
        assert_eq!(fdb.flush(None), 1);
        assert_eq!(fdb.look_up(station(1), Nanos(1 << 50)), Some(PortId(1)));
        let shown = fdb.entries(Nanos(1 << 50));
        assert_eq!(shown.len(), 1);
        assert!(shown[0].fixed && shown[0].age_ns == 0);
    }

    /// Addresses that all get slot `home`, as one who knew the seed could make them up.
    fn colliding(fdb: &Fdb, home: usize) -> impl Iterator<Item = u64> {
        (0..1 << 46).filter(move |key| fdb.home(*key) == home)
    }

    #[test]
    fn addresses_made_up_to_collide_cost_a_bounded_search() {
        let mut fdb = Fdb::new(256, AGE, 1);
        let keys: Vec<_> = colliding(&fdb, 7).take(200).collect();
        keys.iter().for_each(|key| fdb.learn(*key, PortId(0), Nanos(0)));
        assert_eq!(fdb.stats().entries, PROBES as u64);
        assert_eq!(fdb.stats().refused, 200 - PROBES as u64);
        fdb.learn(station(1), PortId(1), Nanos(0));
        assert_eq!(fdb.look_up(station(1), Nanos(0)), Some(PortId(1)));
        assert_eq!(fdb.flush(None), PROBES as u64 + 1);
        // To a switch with another seed they are addresses like any.
        let mut other = Fdb::new(256, AGE, 2);
        keys.iter().for_each(|key| other.learn(*key, PortId(0), Nanos(0)));
        assert_eq!((other.stats().entries, other.stats().refused), (200, 0));
    }

    #[test]
    fn a_step_ends_by_the_slots_it_has_looked_at() {
        let mut fdb = Fdb::new(256, AGE, 1);
        let keys: Vec<_> = colliding(&fdb, 7).take(PROBES).collect();
        keys.iter().for_each(|key| fdb.learn(*key, PortId(0), Nanos(0)));
        fdb.hand = 7;
        // A cluster of 128: each removal looks at more than a step's slots, and is its last.
        fdb.step(AGE);
        assert_eq!(fdb.stats().aged, 1);
        (1..PROBES).for_each(|_| fdb.step(AGE));
        assert_eq!(fdb.stats().entries, 0);
    }

    #[test]
    fn a_flush_of_one_port_leaves_the_others_findable() {
        let mut fdb = Fdb::new(256, AGE, 1);
        let last = fdb.slots.len() - 3;
        // Round the end of the table, every third behind the port that goes.
        let keys: Vec<_> = colliding(&fdb, last).take(60).chain(colliding(&fdb, 1).take(60)).collect();
        (0..).zip(&keys).for_each(|(n, key)| fdb.learn(*key, PortId(n % 3), Nanos(0)));
        assert_eq!(fdb.flush(Some(PortId(1))), 40);
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(fdb.look_up(*key, Nanos(0)), Some(PortId(n % 3)).filter(|port| port.0 != 1));
        }
        assert_eq!(fdb.stats().entries, 80);
    }

    #[derive(Clone, Debug)]
    enum Act {
        Learn(u8, u16),
        Look(u8),
        Flush(u16),
        Step,
        Wait(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            6 => (0u8..40, 0u16..4).prop_map(|(s, p)| Act::Learn(s, p)),
            6 => (0u8..40).prop_map(Act::Look),
            1 => (0u16..4).prop_map(Act::Flush),
            2 => Just(Act::Step),
            3 => (0u64..600).prop_map(Act::Wait),
        ]
    }

    proptest! {
        /// Against a map, in a table so small that entries collide, wrap round and move up all the time.
        #[test]
        fn it_is_a_map_that_forgets(acts in prop::collection::vec(act(), 1..400)) {
            let mut fdb = Fdb::new(16, AGE, 0);
            let mut map: HashMap<u8, (u16, u64)> = HashMap::new();
            let mut now = 0;
            for act in acts {
                match act {
                    Act::Learn(s, p) => {
                        let before = fdb.stats().refused;
                        fdb.learn(station(s), PortId(p), Nanos(now));
                        if fdb.stats().refused == before {
                            map.insert(s, (p, now));
                        } else {
                            // Full, of addresses that the map has too, and this one is not among them.
                            let known = map.get(&s).is_some_and(|(_, seen)| now - seen < AGE.0);
                            prop_assert!(map.len() >= 16 && !known);
                        }
                    }
                    Act::Look(s) => {
                        let expected = map.get(&s).filter(|(_, seen)| now - seen < AGE.0).map(|(p, _)| PortId(*p));
                        prop_assert_eq!(fdb.look_up(station(s), Nanos(now)), expected);
                    }
                    Act::Flush(p) => {
                        fdb.flush(Some(PortId(p)));
                        map.retain(|_, (port, _)| *port != p);
                    }
                    Act::Step => fdb.step(Nanos(now)),
                    Act::Wait(ns) => now += ns,
                }
                let alive = map.values().filter(|(_, seen)| now - seen < AGE.0).count();
                prop_assert_eq!(fdb.entries(Nanos(now)).len(), alive);
            }
        }
    }
}
