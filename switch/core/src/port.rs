//! A port's egress: depth, mark and queue on the way in, the emulated link on the way out.

use plimsoll_classify::Class;

use crate::{
    Counter, Departure, Discard, DropCounts, DropReason, EcnCounts, EdgeCounts, Egress, FrameId, MarkCounts,
    MarkRecord, Nanos, Pool, PortConfig, PortId, PortStats, Span, class,
    config::wire_octets,
    depth::{Gauge, Measured, Thresholds},
    link::{Instant, Pace},
    mark::{Brought, Ingress, Marker},
    queue::Queue,
    stats::{Depths, Marks, Traffic},
    storm::Bucket,
    vlan::Vlans,
    wire::ptp,
};

/// A frame on its way from its ingress port to its egress ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) frame: FrameId,
    pub(crate) len: u32,
    pub(crate) ingress: PortId,
    /// Its VLAN, 0 for none.
    pub(crate) vlan: u16,
    pub(crate) info: Class,
    pub(crate) stamp: Nanos,
    pub(crate) arrived: Nanos,
    /// Its marking word and ECN bits, where it is a time message.
    pub(crate) brought: Brought,
}

impl Arrival {
    /// Told before the frame is freed, which says what it was.
    #[cold]
    pub(crate) fn lost<P: Pool>(&self, reason: DropReason, egress: Option<PortId>, pool: &P) -> Discard {
        Discard {
            reason,
            ingress: self.ingress,
            egress,
            len: self.len,
            stamp: self.stamp,
            arrived: self.arrived,
            message: ptp::message_id(pool.bytes(self.frame), &self.info),
        }
    }
}

/// A hold without an end.
const HELD: Nanos = Nanos(u64::MAX);

/// A port.
#[derive(Debug)]
pub(crate) struct Port {
    id: PortId,
    /// The link; `None`: a frame leaves when the machine takes it.
    pace: Option<Pace>,
    /// When the next frame may start.
    free: Instant,
    /// No frame starts before; [`HELD`]: until told otherwise. `None`: not held.
    held: Option<Nanos>,
    queue: Queue,
    /// What measures the depth; `None`: what is ahead, in exact octets.
    gauge: Option<Box<Gauge>>,
    thresholds: Thresholds,
    default_class: u8,
    sync_class: Option<u8>,
    marker: Marker,
    transparent: bool,
    delay: u64,
    /// Bit x is set where 01-80-C2-00-00-0x passes.
    passes: u16,
    /// `None` where all ports of the switch are transparent.
    pub(crate) vlans: Option<Box<Vlans>>,
    pub(crate) ingress: Ingress,
    pub(crate) up: bool,
    pub(crate) storm: Option<Bucket>,
    pub(crate) rx: Traffic,
    pub(crate) tx: Traffic,
    pub(crate) drops: DropCounts,
    pub(crate) counts_cleared: u64,
    pub(crate) counts_untouched: u64,
    pub(crate) remarked: u64,
    marked: MarkCounts,
    ecn: EcnCounts,
    converted: EdgeCounts,
    marks: Marks,
    depths: Depths,
}

impl Port {
    /// A port of a checked configuration, in a network whose marks mean `delta`, and in a switch where ECN bits count as
    /// `ecn_counter` does and that has ports that are not transparent if it `has_vlans`.
    pub(crate) fn new(
        id: PortId,
        config: &PortConfig,
        delta: Option<Span>,
        ecn_counter: Option<Counter>,
        has_vlans: bool,
    ) -> Self {
        let pace = config.rate.map(Pace::new);
        Self {
            id,
            pace,
            free: Instant::default(),
            held: None,
            queue: Queue::new(config.queue_limit(), config.frames_limit(), &config.quanta),
            gauge: Gauge::new(config.depth, config.quanta.len() as u8, pace),
            thresholds: Thresholds::new(config),
            default_class: class::of_priority(config.default_priority),
            sync_class: config.sync_class,
            marker: Marker::new(config, delta),
            transparent: config.transparent_clock,
            delay: config.delay.0,
            passes: config.pass_reserved.iter().fold(0, |set, octet| set | 1 << octet),
            vlans: has_vlans.then(|| Box::new(Vlans::new(config))),
            ingress: Ingress::new(config, ecn_counter),
            up: true,
            storm: config.storm.map(Bucket::new),
            rx: Traffic::default(),
            tx: Traffic::default(),
            drops: DropCounts::default(),
            counts_cleared: 0,
            counts_untouched: 0,
            remarked: 0,
            marked: MarkCounts::default(),
            ecn: EcnCounts::default(),
            converted: EdgeCounts::default(),
            marks: Marks::new(config.mark.map_or(0, |mark| mark.thresholds)),
            depths: Depths::new(),
        }
    }

    /// Whether a reserved address may pass, by its last octet.
    #[inline]
    pub(crate) const fn passes(&self, reserved: u8) -> bool {
        self.passes >> reserved & 1 != 0
    }

    /// Whether frames of this VLAN leave here.
    #[inline]
    pub(crate) fn has_vlan(&self, vlan: u16) -> bool {
        self.vlans.as_ref().is_none_or(|vlans| vlans.has(vlan))
    }

    /// Whether a frame finds room, once all that is due before its arrival has left, and the class in which it does.
    #[inline]
    pub(crate) fn admits<E: Egress>(&mut self, arrival: &Arrival, out: &mut E) -> Result<u8, DropReason> {
        if !self.up {
            return Err(DropReason::PortDown);
        }
        self.run(arrival.arrived, out);
        if self.vlans.is_some() {
            return self.admits_reformed(arrival);
        }
        self.admits_long(arrival, arrival.len)
    }

    /// The same in a switch with VLANs. Apart, so that one without does not pay for it.
    #[cold]
    #[inline(never)]
    fn admits_reformed(&self, arrival: &Arrival) -> Result<u8, DropReason> {
        let len = self.vlans.as_ref().map_or(Ok(arrival.len), |vlans| vlans.len(arrival))?;
        self.admits_long(arrival, len)
    }

    /// Whether a frame that leaves with `len` octets finds room, and its class.
    #[inline(always)]
    fn admits_long(&self, arrival: &Arrival, len: u32) -> Result<u8, DropReason> {
        let class = class::of_frame(&arrival.info, self.default_class, self.sync_class);
        self.queue.admits(class, len).map(|()| class)
    }

    /// Queues a frame that was let in, in its class: gives it the form in which it leaves, measures its depth, marks
    /// it, converts marks at an edge.
    #[inline]
    pub(crate) fn enqueue<P: Pool, E: Egress>(
        &mut self,
        class: u8,
        arrival: &Arrival,
        pool: &mut P,
        out: &mut E,
    ) {
        if self.vlans.is_some() {
            return self.enqueue_reformed(class, arrival, pool, out);
        }
        self.place(class, arrival, pool, out);
    }

    /// The same in a switch with VLANs.
    #[cold]
    #[inline(never)]
    fn enqueue_reformed<P: Pool, E: Egress>(
        &mut self,
        class: u8,
        arrival: &Arrival,
        pool: &mut P,
        out: &mut E,
    ) {
        let Some(vlans) = &self.vlans else { return };
        match vlans.reform(arrival, pool) {
            Some(leaving) => self.place(class, &leaving, pool, out),
            None => self.lose(arrival, DropReason::TagTooLong, pool, out),
        }
    }

    /// Queues a frame in the form in which it leaves.
    fn place<P: Pool, E: Egress>(&mut self, class: u8, arrival: &Arrival, pool: &mut P, out: &mut E) {
        let (ahead, _) = self.queue.ahead_of(class);
        let (depth_bytes, depth_ps) = match self.pace {
            Some(pace) => pace.backlog(arrival.arrived, self.free, ahead),
            None => (out.unsent_bytes(self.id) + ahead, 0),
        };
        let measured = match &mut self.gauge {
            None => Measured { value: depth_bytes, ps: depth_ps },
            Some(gauge) => {
                let measured = gauge.measure(arrival.arrived, class);
                gauge.queue(class, arrival.len);
                measured
            }
        };
        self.depths.record(depth_bytes, arrival.info.kind.is_sync());
        if self.queue.is_empty() {
            // An idle link starts with what is there first; what comes at that very instant takes part.
            self.free = self.free.max(Instant::at(arrival.arrived));
        }
        let departure = self.queue.push(Departure {
            port: self.id,
            ingress: arrival.ingress,
            frame: arrival.frame,
            len: arrival.len,
            class,
            info: arrival.info,
            stamp: arrival.stamp,
            arrived: arrival.arrived,
            depth_bytes,
            depth_ps,
            measured: measured.value,
            start: arrival.arrived,
            end: arrival.arrived,
            mark: MarkRecord::NOTHING,
            transparent: self.transparent && arrival.info.kind.is_sync(),
        });
        if self.marker.concerns(arrival.info.kind) {
            // Written where it stays: a copy of what was just written in parts would have to wait for all of them.
            let record = &mut departure.mark;
            let depth = self.thresholds.judge(measured);
            self.marker.treat(pool.bytes_mut(arrival.frame), &arrival.info, &arrival.brought, depth, record);
            if record.counted {
                self.marks.count(record.r);
            }
            self.marked.count(record.outcome);
            self.ecn.count(record.ecn);
            self.converted.count(record.edge);
        } else {
            self.marked.count(MarkRecord::NOTHING.outcome);
            self.ecn.count(MarkRecord::NOTHING.ecn);
            self.converted.count(MarkRecord::NOTHING.edge);
        }
        if self.pace.is_none() {
            self.run(arrival.arrived, out);
        }
    }

    /// Drops a frame that was let in.
    #[cold]
    fn lose<P: Pool, E: Egress>(&mut self, arrival: &Arrival, reason: DropReason, pool: &mut P, out: &mut E) {
        self.drops.count(reason);
        out.discard(arrival.lost(reason, Some(self.id), pool));
        pool.free(arrival.frame);
    }

    /// Lets every frame go whose first bit is due before `to`; without a rate, every frame that finds room.
    #[inline]
    pub(crate) fn run<E: Egress>(&mut self, to: Nanos, out: &mut E) {
        if self.held.is_some() && !self.serves(to) {
            return;
        }
        match self.pace {
            Some(pace) => {
                while self.free.is_before(to)
                    && let Some(departure) = self.queue.pop()
                {
                    let start = self.free;
                    self.free = pace.after(start, wire_octets(departure.len));
                    if let Some(gauge) = &mut self.gauge {
                        gauge.serve(departure.class, departure.len, start, self.free);
                    }
                    departure.start = start.ceil();
                    departure.end = self.free.ceil() + self.delay;
                    self.tx.count(departure.len);
                    out.depart(departure);
                }
            }
            None => {
                while !self.queue.is_empty()
                    && out.has_room(self.id)
                    && let Some(departure) = self.queue.pop()
                {
                    self.free = self.free.max(Instant::at(to.max(departure.arrived)));
                    departure.start = self.free.ceil();
                    departure.end = departure.start + self.delay;
                    self.tx.count(departure.len);
                    out.depart(departure);
                }
            }
        }
    }

    /// Whether a link that is held, or was until lately, serves before `to`: from the end of the hold on.
    #[cold]
    fn serves(&mut self, to: Nanos) -> bool {
        match self.held {
            Some(until) if until >= to => false,
            Some(until) => {
                self.free = self.free.max(Instant::at(until));
                self.held = None;
                true
            }
            None => true,
        }
    }

    /// The least `to` with which [`Port::run`] would let a frame go; `None` where no time alone does.
    #[inline]
    pub(crate) fn next_decision(&self) -> Option<Nanos> {
        if self.queue.is_empty() {
            return None;
        }
        match (self.pace, self.held) {
            (_, Some(HELD)) | (None, None) => None,
            (Some(_), None) => Some(self.free.just_after()),
            (_, Some(until)) => Some(self.free.max(Instant::at(until)).just_after()),
        }
    }

    /// Stops the service of the link: what is decided goes on, no further frame starts.
    pub(crate) fn hold(&mut self) {
        self.held = Some(HELD);
    }

    /// Lets a link that is held serve from `at` on.
    pub(crate) fn resume(&mut self, at: Nanos) {
        if self.held.is_some() {
            // The last instant is no end of a hold.
            self.held = Some(at.min(HELD - 1));
        }
    }

    /// The link stood still until `now`. Returns for how long frames waited on it. One that is held waits for nobody.
    pub(crate) fn reanchor(&mut self, now: Nanos) -> u64 {
        if self.pace.is_none() || self.held.is_some() || !self.free.is_before(now) {
            return 0;
        }
        let stalled = if self.queue.is_empty() { 0 } else { now.since(self.free.ceil()) };
        self.free = Instant::at(now);
        stalled
    }

    /// Takes all frames out of the queue, as losses of a port that went down.
    pub(crate) fn purge<P: Pool, E: Egress>(&mut self, pool: &mut P, out: &mut E) {
        self.gauge.iter_mut().for_each(|gauge| gauge.clear());
        while let Some(d) = self.queue.pop() {
            self.drops.count(DropReason::PortDown);
            let (ingress, egress) = (d.ingress, Some(self.id));
            out.discard(Discard {
                reason: DropReason::PortDown,
                ingress,
                egress,
                len: d.len,
                stamp: d.stamp,
                arrived: d.arrived,
                message: ptp::message_id(pool.bytes(d.frame), &d.info),
            });
            pool.free(d.frame);
        }
    }

    /// Frees all frames in the queue.
    pub(crate) fn clear<P: Pool>(&mut self, pool: &mut P) {
        self.gauge.iter_mut().for_each(|gauge| gauge.clear());
        while let Some(departure) = self.queue.pop() {
            pool.free(departure.frame);
        }
    }

    /// Frames queued.
    pub(crate) fn queued(&self) -> u32 {
        self.queue.frames()
    }

    pub(crate) fn stats(&self, name: &str) -> PortStats {
        PortStats {
            name: name.into(),
            up: self.up,
            held: self.held == Some(HELD),
            rx: self.rx,
            tx: self.tx,
            drops: self.drops,
            counts_cleared: self.counts_cleared,
            counts_untouched: self.counts_untouched,
            remarked: self.remarked,
            mark: self.marked,
            ecn: self.ecn,
            edge: self.converted,
            marks: self.marks.clone(),
            depth_bytes: self.depths.quantiles(),
            sync_depth_bytes: self.depths.of_sync(),
            queues: self.queue.stats(),
        }
    }
}
