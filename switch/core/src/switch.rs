//! A frame's way through the switch, top to bottom.

use plimsoll_classify::{Class, Flags, Kind};

use crate::{
    ConfigError, DropReason, Egress, FdbEntry, FrameId, Inversions, Nanos, Pool, PortId, SwitchConfig,
    SwitchStats, Vlan,
    fdb::{self, Fdb},
    mark::Brought,
    port::{Arrival, Port},
    wire::ethernet::{HEADER_LEN, Header, Mac, Tci},
};

/// Longest frame taken, in octets: an IP packet of full length behind a header with one tag.
const MAX_FRAME: usize = 65_535 + HEADER_LEN + 4;

/// An emulated switch.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    ports: Vec<Port>,
    fdb: Fdb,
    last_arrival: Nanos,
    inversions: Inversions,
    /// The latest instant seen, for ages that are shown.
    now: Nanos,
}

/// Where a frame comes from and goes to.
#[derive(Clone, Copy)]
struct Addresses {
    destination: Mac,
    /// VLAN and source as the FDB's key.
    source: u64,
    vlan: u16,
}

impl Switch {
    /// Makes a switch. All memory that it will ever need is reserved here.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, what is wrong with it and what to write instead.
    pub fn new(config: SwitchConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let (ports, ecn_counter) = ((0..).map(PortId).zip(&config.ports), config.ecn_counter());
        let has_vlans = config.ports.iter().any(|port| port.vlan != Vlan::Transparent);
        let mut fdb = Fdb::new(config.fdb_capacity, config.fdb_age, config.fdb_seed);
        for entry in &config.fdb_fixed {
            if !fdb.fix(fdb::key(entry.vlan, entry.mac), entry.port) {
                return Err(ConfigError {
                    place: format!("switch {}, fixed FDB entry {}", config.name, entry.mac),
                    port: None,
                    key: "fdb_fixed",
                    problem: "finds no room".into(),
                    remedy: "raise fdb_capacity".into(),
                });
            }
        }
        Ok(Self {
            ports: ports
                .map(|(id, port)| Port::new(id, port, config.delta(), ecn_counter, has_vlans))
                .collect(),
            fdb,
            last_arrival: Nanos(0),
            inversions: Inversions::default(),
            now: Nanos(0),
            config,
        })
    }

    /// What it was made of.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Takes a frame that arrived at `port` at `stamp` (as XDP stamped it). The frame is the core's until it departs
    /// or is freed. Calls come in order of `stamp`; an earlier one is moved to the last arrival and counted.
    ///
    /// A stamp may be earlier than the last [`Switch::advance`]. What that decided stays decided: with one class nothing
    /// changes (starts, depths and marks are as if the frame had come in time), a higher class (or one whose turn it would
    /// have been) is overtaken by what has started, and the queue limits no longer count it. A pipeline latency that
    /// covers the machine's delays avoids it.
    ///
    /// Links run up to the arrival, so frames may depart here as well as in [`Switch::advance`]; those of one port
    /// depart in the order of their start. `info` must be of this frame; where its offsets are wrong, the frame is not
    /// marked.
    ///
    /// # Panics
    /// If the switch has no such port.
    pub fn receive<P: Pool, E: Egress>(
        &mut self,
        port: PortId,
        frame: FrameId,
        info: &Class,
        stamp: Nanos,
        pool: &mut P,
        out: &mut E,
    ) {
        let arrived = self.in_order(stamp);
        let octets = pool.bytes(frame);
        let (len, header) = (octets.len(), Header::new_checked(octets));
        let (len32, brought) = (len as u32, Brought::NOTHING);
        let mut arrival =
            Arrival { frame, len: len32, ingress: port, vlan: 0, info: *info, stamp, arrived, brought };
        self.ports[port.index()].rx.count(arrival.len);

        let addresses = match self.check(&arrival, len, header) {
            Ok(addresses) => addresses,
            Err(reason) => return self.lose(&arrival, reason, pool, out),
        };
        arrival.vlan = addresses.vlan;
        if info.kind.is_sync() {
            self.take_message(&mut arrival, pool);
        }
        self.fdb.learn(addresses.source, port, arrived);
        match self.look_up(&addresses, arrived) {
            Some(egress) if egress == port => self.lose(&arrival, DropReason::SamePort, pool, out),
            Some(egress) => self.send(egress, &arrival, pool, out),
            None if self.is_storm(&arrival) => self.lose(&arrival, DropReason::Storm, pool, out),
            None => self.flood(addresses.destination.reserved(), &arrival, pool, out),
        }
        self.fdb.tick(arrived);
    }

    /// Runs the emulated links up to `to`, exclusively: every frame whose first bit is due before `to` departs.
    ///
    /// What is decided is final. A link decides at the instant it becomes free, by strict priority (and deficit round robin
    /// among classes with [`crate::PortConfig::quanta`]) among all frames that have arrived by then, those of the very
    /// instant included; an idle link decides when a frame arrives.
    pub fn advance<E: Egress>(&mut self, to: Nanos, out: &mut E) {
        self.now = self.now.max(to);
        for port in &mut self.ports {
            port.run(to, out);
        }
        self.fdb.tick(to);
    }

    /// The least `to` with which [`Switch::advance`] would let a frame go; `None` while no queued frame waits for time
    /// alone. Frames at a port without rate wait for [`Egress::has_room`].
    pub fn next_decision(&self) -> Option<Nanos> {
        self.ports.iter().filter_map(Port::next_decision).min()
    }

    /// The arrival that counts: the stamp, or the last arrival already decided where that is later.
    #[inline]
    fn in_order(&mut self, stamp: Nanos) -> Nanos {
        if stamp < self.last_arrival {
            self.inversions.count += 1;
            self.inversions.max_ns = self.inversions.max_ns.max(self.last_arrival.since(stamp));
        } else {
            self.last_arrival = stamp;
        }
        self.last_arrival
    }

    /// Whether the frame is one that a bridge forwards.
    #[inline]
    fn check(
        &self,
        arrival: &Arrival,
        len: usize,
        header: Option<Header<'_>>,
    ) -> Result<Addresses, DropReason> {
        let header = header.filter(|_| len <= MAX_FRAME).ok_or(DropReason::Malformed)?;
        let ingress = &self.ports[arrival.ingress.index()];
        let (destination, source) = (header.destination(), header.source());
        if !ingress.up {
            return Err(DropReason::PortDown);
        }
        if source.is_group() {
            return Err(DropReason::SourceGroup);
        }
        if destination.reserved().is_some_and(|last| !ingress.passes(last)) {
            return Err(DropReason::Reserved);
        }
        let tagged = arrival.info.flags.has(Flags::TAGGED);
        let vid = if tagged { Tci(arrival.info.tci).vid() } else { 0 };
        let vlan = match &ingress.vlans {
            None => vid,
            Some(vlans) => vlans.receive(vid)?,
        };
        Ok(Addresses { destination, source: fdb::key(vlan, source), vlan })
    }

    /// Reads a time message's marking word and ECN bits, clears the counts of a port that is not trusted, and remarks.
    fn take_message<P: Pool>(&mut self, arrival: &mut Arrival, pool: &mut P) {
        let port = &mut self.ports[arrival.ingress.index()];
        let Arrival { frame, info, brought, .. } = arrival;
        let done = port.ingress.take(pool.bytes_mut(*frame), info, brought);
        port.counts_cleared += u64::from(done.cleared);
        port.counts_untouched += u64::from(done.untouched);
        port.remarked += u64::from(done.remarked);
    }

    /// The port that the frame is for; `None`: all others.
    #[inline]
    fn look_up(&self, addresses: &Addresses, now: Nanos) -> Option<PortId> {
        if addresses.destination.is_group() {
            return None;
        }
        self.fdb.look_up(fdb::key(addresses.vlan, addresses.destination), now)
    }

    /// Whether storm control stops a frame that is to be flooded. Time messages are exempt: all of PTP and NTP, for a
    /// Sync is worth nothing without its Follow_Up.
    #[inline]
    fn is_storm(&mut self, arrival: &Arrival) -> bool {
        let ingress = &mut self.ports[arrival.ingress.index()];
        match &mut ingress.storm {
            Some(bucket) if arrival.info.kind == Kind::Other => !bucket.admits(arrival.arrived),
            _ => false,
        }
    }

    /// To one port.
    #[inline]
    fn send<P: Pool, E: Egress>(&mut self, egress: PortId, arrival: &Arrival, pool: &mut P, out: &mut E) {
        let port = &mut self.ports[egress.index()];
        match port.admits(arrival, out) {
            Ok(class) => port.enqueue(class, arrival, pool, out),
            Err(reason) => {
                port.drops.count(reason);
                out.discard(arrival.lost(reason, Some(egress), pool));
                pool.free(arrival.frame);
            }
        }
    }

    /// To all ports but its own that are up, in its VLAN and pass its address. Each gets a copy made before any is
    /// marked, the last one the frame itself; a port without room gets none.
    fn flood<P: Pool, E: Egress>(
        &mut self,
        reserved: Option<u8>,
        arrival: &Arrival,
        pool: &mut P,
        out: &mut E,
    ) {
        let mut refused = false;
        let mut waiting = None;
        for at in 0..self.ports.len() {
            let port = &mut self.ports[at];
            let id = PortId(at as u16);
            let other = id != arrival.ingress && port.up && port.has_vlan(arrival.vlan);
            if !other || reserved.is_some_and(|last| !port.passes(last)) {
                continue;
            }
            match port.admits(arrival, out) {
                Ok(class) => {
                    if let Some(earlier) = waiting.replace((id, class)) {
                        self.send_copy(earlier, arrival, pool, out);
                    }
                }
                Err(reason) => {
                    refused = true;
                    port.drops.count(reason);
                    out.discard(arrival.lost(reason, Some(id), pool));
                }
            }
        }
        match waiting {
            Some((last, class)) => self.ports[last.index()].enqueue(class, arrival, pool, out),
            None if refused => pool.free(arrival.frame),
            None => self.lose(arrival, DropReason::NoEgress, pool, out),
        }
    }

    fn send_copy<P: Pool, E: Egress>(
        &mut self,
        (egress, class): (PortId, u8),
        arrival: &Arrival,
        pool: &mut P,
        out: &mut E,
    ) {
        let port = &mut self.ports[egress.index()];
        match pool.copy(arrival.frame) {
            Some(frame) => port.enqueue(class, &Arrival { frame, ..*arrival }, pool, out),
            None => {
                port.drops.count(DropReason::NoBuffer);
                out.discard(arrival.lost(DropReason::NoBuffer, Some(egress), pool));
            }
        }
    }

    /// Drops a frame at its ingress.
    #[cold]
    fn lose<P: Pool, E: Egress>(&mut self, arrival: &Arrival, reason: DropReason, pool: &mut P, out: &mut E) {
        self.ports[arrival.ingress.index()].drops.count(reason);
        out.discard(arrival.lost(reason, None, pool));
        pool.free(arrival.frame);
    }
}

/// What a frame does not meet: control and counters.
impl Switch {
    /// After a stall that nobody shall catch up: every link stood still until `now`, and what is queued is paced from
    /// there. Returns for how many nanoseconds frames waited on links that stood still, summed over links.
    pub fn reanchor(&mut self, now: Nanos) -> u64 {
        self.ports.iter_mut().map(|port| port.reanchor(now)).sum()
    }

    /// Holds the service of a port's link, to build a queue of exactly known depth: what is decided goes on, no further
    /// frame starts. While held, the depth that a frame finds is what is queued, and the unsent rest of a frame decided
    /// before. Ports without a rate hold too.
    ///
    /// # Panics
    /// If the switch has no such port.
    pub fn hold(&mut self, port: PortId) {
        self.ports[port.index()].hold();
    }

    /// Ends a hold: the link serves from `at` on, or from the last arrival where that is later. Frames that arrive before
    /// find it held. Nothing happens where none was held.
    ///
    /// # Panics
    /// If the switch has no such port.
    pub fn resume(&mut self, port: PortId, at: Nanos) {
        // No frame may start before it is there.
        self.ports[port.index()].resume(at.max(self.last_arrival));
    }

    /// Takes a port out of the switch or back in. Out: what it has queued is lost ([`DropReason::PortDown`]), what was
    /// learnt behind it forgotten, and no frame goes to it.
    ///
    /// # Panics
    /// If the switch has no such port.
    pub fn set_up<P: Pool, E: Egress>(&mut self, port: PortId, up: bool, pool: &mut P, out: &mut E) {
        let state = &mut self.ports[port.index()];
        state.up = up;
        if !up {
            state.purge(pool, out);
            self.fdb.flush(Some(port));
        }
    }

    /// Frees every queued frame, for the end.
    pub fn clear<P: Pool>(&mut self, pool: &mut P) {
        self.ports.iter_mut().for_each(|port| port.clear(pool));
    }

    /// Frames queued at all ports: what the core holds of the pool between two calls.
    pub fn queued_frames(&self) -> u64 {
        self.ports.iter().map(|port| u64::from(port.queued())).sum()
    }

    /// All counters as of now.
    pub fn stats(&self) -> SwitchStats {
        let ports = self.ports.iter().zip(&self.config.ports);
        SwitchStats {
            name: self.config.name.clone(),
            ports: ports.map(|(port, config)| port.stats(&config.name)).collect(),
            fdb: self.fdb.stats(),
            inversions: self.inversions,
        }
    }

    /// The forwarding database, by VLAN and address.
    pub fn fdb_entries(&self) -> Vec<FdbEntry> {
        self.fdb.entries(self.now.max(self.last_arrival))
    }

    /// Forgets what was learnt; fixed entries stay. Returns how many entries went.
    pub fn flush_fdb(&mut self) -> u64 {
        self.fdb.flush(None)
    }
}
