//! One switch in the worker: its core, its ports, and the frames waiting for their release.

use crossbeam_channel::Sender;
use hdrhistogram::Histogram;
use plimsoll_core::{
    ConfigError, Departure, Nanos, Pool, PortId, Switch, SwitchConfig, lateness, wire::event::Correction,
    wire::identity::TimeMessage,
};

use super::{
    merge::Merge,
    record::{Record, Records, Release},
    release::{ReleaseAt, Releases},
    snapshot::Residence,
};
use crate::{Kick, Port, PortCounters, Umem, port::Remains};

/// What happens to the emulated links after the worker was held up (descheduled).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stall {
    /// The links kept running: departures that fell into the stall leave at once, late and counted.
    #[default]
    CatchUp,
    /// The links stood still: what was queued is paced from now on, `link_stalled_ns` grows.
    ReAnchor,
}

/// A switch as the worker is given it.
#[derive(Debug)]
pub struct Node {
    /// What the core is told.
    pub switch: SwitchConfig,
    /// Its ports, in the order of [`SwitchConfig::ports`]; `None` for an interface that is absent now.
    pub ports: Vec<Option<Port>>,
    /// When each port's frames leave the machine.
    pub release: Vec<ReleaseAt>,
    /// Pipeline latency L in ns: how long after its ideal instant a frame leaves.
    pub latency: u64,
    /// What a stall does to the links.
    pub stall: Stall,
    /// Whether PTP event messages carry the machine's own lateness in correctionField.
    pub correct_lateness: bool,
}

/// Frames taken in one round between two looks at what is due.
const BURST: usize = 32;
/// Frames that the kernel sends in one call in copy mode.
const KICK: u32 = 32;
/// Frames released on one reading of the clock, at 60 to 80 ns each.
const CLOCK_EVERY: u32 = 8;
/// A frame is taken once it is this old, where L allows: by then all rings show what arrived before it.
const SETTLE_NS: u64 = 20_000;
/// A worker that did not come round for this long has stalled.
const STALLED_NS: u64 = 1_000_000;

/// A switch at work.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) core: Switch,
    pub(super) ports: Vec<Option<Port>>,
    pub(super) releases: Releases,
    pub(super) release_late: Vec<Histogram<u64>>,
    pub(super) late_arrival: Vec<Histogram<u64>>,
    pub(super) link_stalled_ns: u64,
    pub(super) latency: u64,
    settle: u64,
    stall: Stall,
    correct_lateness: bool,
    merge: Merge,
    last_round: Nanos,
    /// Since when frames are taken: what arrived before was late by the worker's start, which no release is to blame for.
    began: Nanos,
    /// Ports with frames on the TX ring that the kernel has not taken yet.
    pending: Vec<bool>,
    /// Ports whose interface is there, but down.
    down: Vec<bool>,
    /// What each port did as a transparent clock.
    pub(super) residence: Vec<Residence>,
    /// Frames that were due while their port was down or absent, by port.
    pub(super) lost_down: Vec<u64>,
    /// What each port counted before its interface went away.
    pub(super) closed: Vec<PortCounters>,
    /// Takes what is left of such ports.
    remains: Sender<Remains>,
}

/// Nanoseconds up to ten seconds to within 1 %: 28 kB, copied in microseconds by whoever shows them, and no allocation
/// while recording.
fn histogram() -> Histogram<u64> {
    #[allow(clippy::expect_used)] // constant bounds, known to be valid
    Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("valid bounds")
}

impl Running {
    pub(super) fn new(
        node: Node,
        index: u16,
        records: Option<&Records>,
        remains: Sender<Remains>,
    ) -> Result<Self, ConfigError> {
        let core = Switch::new(node.switch)?;
        let count = node.ports.len();
        let delays = core.config().ports.iter().map(|port| port.delay.0);
        let lines: Vec<_> = node.release.iter().copied().zip(delays).collect();
        let releases = Releases::new(lines, node.latency, records.map(|r| r.recorder(index)));
        Ok(Self {
            core,
            releases,
            release_late: (0..count).map(|_| histogram()).collect(),
            late_arrival: (0..count).map(|_| histogram()).collect(),
            link_stalled_ns: 0,
            latency: node.latency,
            settle: SETTLE_NS.min(node.latency / 2),
            stall: node.stall,
            correct_lateness: node.correct_lateness,
            merge: Merge::default(),
            last_round: Nanos(0),
            began: Nanos(0),
            pending: vec![false; count],
            down: vec![false; count],
            residence: vec![Residence::default(); count],
            lost_down: vec![0; count],
            closed: vec![PortCounters::default(); count],
            remains,
            ports: node.ports,
        })
    }

    /// The worker runs from `now` on.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.began = now;
    }

    /// One round. Returns whether there was anything to do.
    pub(super) fn round(&mut self, umem: &mut Umem, clock: impl Fn() -> Nanos) -> bool {
        // The clock first, then the rings: what arrives in between is of the next round.
        let now = clock();
        self.mind_stall(now);
        let mut busy = self.release_due(umem, now, &clock);
        for port in self.ports.iter_mut().flatten() {
            port.refresh(now);
        }
        busy |= self.take(umem, now);
        // Links run no further than to the first frame still in a ring: what follows it is not decided without it.
        let horizon = self.merge.first().map_or(now - self.latency, |head| head.min(now - self.latency));
        self.core.advance(horizon, &mut self.releases);
        busy |= self.release_due(umem, clock(), &clock);
        for port in self.ports.iter_mut().flatten() {
            port.reap(umem);
            port.refill(umem);
        }
        busy
    }

    fn mind_stall(&mut self, now: Nanos) {
        if self.stall == Stall::ReAnchor
            && self.last_round != Nanos(0)
            && now.since(self.last_round) > STALLED_NS
        {
            self.link_stalled_ns += self.core.reanchor(now - self.latency);
        }
        self.last_round = now;
    }

    /// Feeds the core what has arrived, earliest first.
    fn take(&mut self, umem: &mut Umem, now: Nanos) -> bool {
        self.merge.clear();
        for (number, port) in self.ports.iter_mut().enumerate() {
            if let Some(port) = port {
                for ring in 0..port.rings() {
                    let head = port.head(ring, umem);
                    self.merge.push(number as u16, ring as u16, head);
                }
            }
        }
        let horizon = now - self.settle;
        let mut taken = 0;
        while taken < BURST
            && let Some(slot) = self.merge.earliest(horizon)
        {
            let head = self.merge.head(slot);
            let number = usize::from(head.port);
            let Some(port) = &mut self.ports[number] else { break };
            if let Some(frame) = port.take(usize::from(head.ring), umem) {
                self.core.receive(
                    PortId(head.port),
                    frame.frame,
                    &frame.class,
                    frame.stamp,
                    umem,
                    &mut self.releases,
                );
            }
            let next = port.head(usize::from(head.ring), umem);
            self.merge.replace(slot, next);
            taken += 1;
        }
        taken > 0
    }

    /// Hands over every frame whose instant has come, and kicks the ports that got any.
    fn release_due(&mut self, umem: &mut Umem, mut now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let mut busy = false;
        for number in 0..self.ports.len() {
            let mut batch = 0_u32;
            // What a kick takes at once: a later frame would leave long after the clock that it is corrected by.
            while batch < KICK
                && let Some(due) = self.releases.due(number)
                && due <= now
                && self.ports[number].as_ref().is_none_or(Port::has_room)
                && let Some(departure) = self.releases.line(number).pop()
            {
                // A clock costs as much as a frame: read it again before half a microsecond has gone by.
                if batch.is_multiple_of(CLOCK_EVERY) && batch > 0 {
                    now = clock();
                }
                batch += 1;
                self.release(number, &departure, due, now, umem);
            }
            busy |= batch > 0 || self.pending[number];
            if self.pending[number] {
                self.kick(number, umem);
                now = clock();
            }
        }
        busy
    }

    /// Puts one frame on its port's TX ring, with what it was late by.
    #[inline]
    fn release(
        &mut self,
        number: usize,
        departure: &Departure,
        due: Nanos,
        released: Nanos,
        umem: &mut Umem,
    ) {
        let (frame, info) = (departure.frame, &departure.info);
        let sync = info.kind.is_sync();
        let late = released.since(due);
        let late_arrival = departure.arrived.since(departure.stamp);
        let lateness_ns = (late + late_arrival) as i64;
        let (corrected, residence_ns) = if departure.transparent {
            // From the frame's own stamp to its release, but for the propagation that `due` holds: the machine's
            // lateness is in it.
            let residence = released.since(departure.stamp + self.releases.line(number).delay()) as i64;
            let told = lateness::correct(umem.bytes_mut(frame), info, residence);
            self.residence[number].count(told);
            let added = matches!(told, Ok(Correction::Added | Correction::Saturated));
            (added, added.then_some(residence))
        } else {
            // A message without a field to correct (NTP) says so; it leaves as it is.
            let corrected = self.correct_lateness
                && sync
                && lateness::correct(umem.bytes_mut(frame), info, lateness_ns).is_ok();
            (corrected, None)
        };
        let wanted = self.releases.recorder.as_ref().is_some_and(|r| r.wants(info));
        let message = if wanted && sync { TimeMessage::of(umem.bytes(frame), info) } else { None };
        if wanted && let Some(recorder) = &mut self.releases.recorder {
            recorder.keep(umem.bytes(frame), info);
        }
        let sent = match &mut self.ports[number] {
            Some(port) if !self.down[number] => port.transmit(umem, frame, info).is_ok(),
            _ => false,
        };
        if sent {
            self.pending[number] = true;
            if departure.stamp >= self.began {
                self.release_late[number].saturating_record(late);
                self.late_arrival[number].saturating_record(late_arrival);
            }
        } else {
            self.lost_down[number] += 1;
            umem.free(frame);
        }
        if wanted && let Some(recorder) = &mut self.releases.recorder {
            recorder.push(if sent {
                Record::sent(departure, &Release { released, lateness_ns, corrected, residence_ns }, message)
            } else {
                Record::lost(departure, message)
            });
        }
    }

    /// Makes the kernel send what is on the port's TX ring.
    fn kick(&mut self, number: usize, umem: &mut Umem) {
        let Some(port) = &mut self.ports[number] else { return };
        let kicked = port.kick();
        port.reap(umem);
        self.releases.line(number).outstanding_bytes = port.tx_outstanding_bytes();
        self.pending[number] = kicked == Kick::Pending;
        if kicked == Kick::Down && !self.down[number] {
            tracing::warn!(
                port = port.describe().interface,
                "the interface is down; what is for it is dropped"
            );
            self.down[number] = true;
            self.core.set_up(PortId(number as u16), false, umem, &mut self.releases);
        }
    }

    /// Looks whether interfaces have gone, or are up again. Now and then, not each round.
    pub(super) fn mind_interfaces(&mut self, umem: &mut Umem) {
        for number in 0..self.ports.len() {
            let Some(port) = &mut self.ports[number] else { continue };
            if !port.is_alive() {
                self.detach(number, umem);
            } else if self.down[number] && port.probe() {
                self.down[number] = false;
                self.core.set_up(PortId(number as u16), true, umem, &mut self.releases);
            }
        }
    }

    /// Frames queued or waiting for their release.
    pub(super) fn held(&self) -> u64 {
        self.core.queued_frames() + self.releases.held()
    }

    /// The worker comes back from a sleep, which is no stall.
    pub(super) fn woke(&mut self, now: Nanos) {
        self.last_round = now;
    }

    /// The next instant at which this switch has something to do by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let decision = self.core.next_decision().map(|at| at + self.latency);
        [self.releases.next_due(), decision].into_iter().flatten().min()
    }

    /// Gives a port that is out its interface back.
    pub(super) fn attach(&mut self, number: usize, port: Port, umem: &mut Umem) {
        self.ports[number] = Some(port);
        self.down[number] = false;
        self.core.set_up(PortId(number as u16), true, umem, &mut self.releases);
    }

    /// Takes a port out whose interface is gone: what was queued for it is lost and counted; the others go on.
    pub(super) fn detach(&mut self, number: usize, umem: &mut Umem) {
        self.core.set_up(PortId(number as u16), false, umem, &mut self.releases);
        while let Some(departure) = self.releases.line(number).pop() {
            self.lost_down[number] += 1;
            if let Some(recorder) = self.releases.recorder.as_mut().filter(|r| r.wants(&departure.info)) {
                let message = TimeMessage::of(umem.bytes(departure.frame), &departure.info);
                recorder.push(Record::lost(&departure, message));
            }
            umem.free(departure.frame);
        }
        self.releases.line(number).outstanding_bytes = 0;
        self.pending[number] = false;
        if let Some(port) = self.ports[number].take() {
            tracing::warn!(
                port = port.describe().interface,
                "the interface is gone; the port is absent until it comes back by name"
            );
            let last = if port.is_alive() {
                port.close(umem)
            } else {
                let (last, remains) = port.abandon(umem);
                // Nobody takes them any more only where the worker ends as well.
                let _ = self.remains.send(remains);
                last
            };
            self.closed[number].add_closed(&last);
        }
    }

    /// Stops: gives back what waits for release, closes the ports in the order that loses no chunk.
    pub(super) fn stop(&mut self, umem: &mut Umem) {
        for number in 0..self.ports.len() {
            while let Some(departure) = self.releases.line(number).pop() {
                umem.free(departure.frame);
            }
        }
        self.core.clear(umem);
        for port in self.ports.drain(..).flatten() {
            port.close(umem);
        }
    }
}
