//! What the ports did during the measurement, from the worker's records of every frame.

use super::told::Told;
use crate::record::{Sink, Window};
use crate::topology::{ClockPlan, Hop};
use hdrhistogram::Histogram;
use plimsoll_core::wire::identity::TimeMessage;
use plimsoll_core::wire::ptp::MessageId;
use plimsoll_core::wire::word::{Direction, Word};
use plimsoll_core::{EcnOutcome, MarkOutcome, MarkRecord, config::wire_octets};
use plimsoll_port::worker::{Fate, Record, Sent};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames from which on a rate can be told of them.
const ENOUGH: u64 = 50;

/// One port's figures.
#[derive(Debug)]
pub(crate) struct PortTally {
    /// Wire octets that had to leave before each frame.
    pub(crate) depth: Histogram<u64>,
    /// Release after the ideal instant + L.
    pub(crate) release_late: Histogram<u64>,
    /// Arrival as used after its stamp.
    pub(crate) late_arrival: Histogram<u64>,
    /// Messages that could be marked, in their word or by modified ECN, by r.
    pub(crate) marks: BTreeMap<u32, u64>,
    /// Messages whose counter could not take all of r.
    pub(crate) saturated: u64,
    /// Frames by what became of their ECN bits, those apart that the port does not look at.
    pub(crate) ecn: BTreeMap<EcnOutcome, u64>,
    /// Messages whose residence went into correctionField.
    pub(crate) transparent: u64,
    pub(crate) frames: u64,
    pub(crate) wire_octets: u64,
    /// Frames whose queue refused them.
    pub(crate) dropped: u64,
    /// Frames that left right behind another, their wire octets, and how long those took by their releases.
    busy: (u64, u64, u64),
    last_release: Option<u64>,
}

impl PortTally {
    fn new() -> Self {
        let histogram = |high| {
            #[allow(clippy::expect_used)] // constant bounds, known to be valid
            Histogram::new_with_bounds(1, high, 3).expect("valid bounds")
        };
        Self {
            depth: histogram(1 << 40),
            release_late: histogram(10_000_000_000),
            late_arrival: histogram(10_000_000_000),
            marks: BTreeMap::new(),
            saturated: 0,
            ecn: BTreeMap::new(),
            transparent: 0,
            frames: 0,
            wire_octets: 0,
            dropped: 0,
            busy: (0, 0, 0),
            last_release: None,
        }
    }

    fn sent(&mut self, record: &Record, sent: &Sent) {
        let inversion = record.arrived.since(record.stamp);
        let late = u64::try_from(sent.lateness_ns).unwrap_or(0).saturating_sub(inversion);
        let octets = u64::from(wire_octets(record.len));
        self.depth.saturating_record(sent.depth_bytes);
        self.release_late.saturating_record(late);
        self.late_arrival.saturating_record(inversion);
        self.frames += 1;
        self.wire_octets += octets;
        // A frame that found something ahead of it left right behind that.
        if sent.depth_bytes > 0
            && let Some(last) = self.last_release
        {
            self.busy.0 += 1;
            self.busy.1 += octets;
            self.busy.2 += sent.released.0.saturating_sub(last);
        }
        self.last_release = Some(sent.released.0);
        if sent.mark.counted {
            *self.marks.entry(sent.mark.r).or_default() += 1;
            self.saturated += u64::from(saturated(&sent.mark));
        }
        if !matches!(sent.mark.ecn, EcnOutcome::Off | EcnOutcome::NotIp) {
            *self.ecn.entry(sent.mark.ecn).or_default() += 1;
        }
        self.transparent += u64::from(sent.residence_ns.is_some());
    }

    /// Frames that were taken as arrived later than stamped, by however little.
    pub(crate) fn inversions(&self) -> u64 {
        self.late_arrival.len() - self.late_arrival.count_at(0)
    }

    /// Bits per second of frames that left right behind another; `None` where too few did to tell.
    pub(crate) fn measured_bps(&self) -> Option<f64> {
        let (frames, octets, ns) = self.busy;
        (frames >= ENOUGH && ns > 0).then(|| octets as f64 * 8e9 / ns as f64)
    }
}

/// Whether the counter of a message that was marked could not take all of r: where there is a word, that counts.
fn saturated(mark: &MarkRecord) -> bool {
    if mark.outcome.is_counted() {
        mark.outcome == MarkOutcome::Saturated
    } else {
        mark.ecn == EcnOutcome::Saturated
    }
}

/// What the records come to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// By switch and port; `None` where nothing was recorded.
    ports: Vec<Vec<Option<Box<PortTally>>>>,
    /// Nanoseconds that edge conversion or a transparent clock added to each message's correctionField, by the port
    /// that did: a flooded message is converted at every edge it leaves by, each copy by its own count. Of a residence
    /// what an ideal switch would have added: the machine's lateness stays corrected, as it is beside marks.
    converted: Told<u64>,
    /// Ports to hosts whose shims take marks out of messages, and the marks with which these left there.
    watched: HashSet<Hop>,
    counts: Told<u32>,
    /// What the clocks' times are ahead of those of the records, in nanoseconds: none in virtual time.
    ahead_ns: u64,
}

impl Totals {
    /// The figures of a port; `None` where it did nothing.
    pub(crate) fn port(&self, switch: usize, port: usize) -> Option<&PortTally> {
        self.ports.get(switch)?.get(port)?.as_deref()
    }

    fn port_mut(&mut self, switch: usize, port: usize) -> &mut PortTally {
        if self.ports.len() <= switch {
            self.ports.resize_with(switch + 1, Vec::new);
        }
        let ports = &mut self.ports[switch];
        if ports.len() <= port {
            ports.resize_with(port + 1, || None);
        }
        ports[port].get_or_insert_with(|| Box::new(PortTally::new()))
    }

    /// Takes a record; only what `holds` says of the instant of its release (or, dropped, of its arrival) counts. What
    /// edges converted is kept always: clocks are cut by their own times.
    #[inline]
    pub(crate) fn take(&mut self, record: &Record, holds: impl FnOnce(u64) -> bool) {
        let Some(egress) = record.egress else { return };
        if let (Fate::Sent(sent), Some(TimeMessage::Ptp(message))) = (&record.fate, record.message) {
            let residence =
                sent.residence_ns.map_or(0, |ns| u64::try_from(ns - sent.lateness_ns).unwrap_or(0));
            let added = sent.mark.converted_ns + residence;
            if added > 0 {
                let hop = Hop { switch: record.switch, port: egress.0 };
                self.converted.put(hop, message, sent.released.0, added);
            }
            if !self.watched.is_empty() && sent.mark.after != 0 {
                let hop = Hop { switch: record.switch, port: egress.0 };
                if self.watched.contains(&hop) {
                    self.counts.put(hop, message, sent.released.0, count(&message, sent.mark.after));
                }
            }
        }
        let at = match &record.fate {
            Fate::Sent(sent) => sent.released.0,
            Fate::Dropped(_) => record.arrived.0,
        };
        if !holds(at) {
            return;
        }
        let port = self.port_mut(usize::from(record.switch), egress.index());
        match &record.fate {
            Fate::Sent(sent) => port.sent(record, sent),
            Fate::Dropped(_) => port.dropped += 1,
        }
    }

    /// From now on keeps with how many marks each PTP message leaves by these ports.
    pub(crate) fn watch(&mut self, hops: impl IntoIterator<Item = Hop>) {
        self.watched.extend(hops);
    }

    /// Clocks tell CLOCK_REALTIME, `realtime` now, and records another clock, `recorded` now.
    pub(crate) fn align(&mut self, realtime: u64, recorded: u64) {
        self.ahead_ns = realtime.wrapping_sub(recorded);
    }

    /// The marks with which a message of this clock pair, sent or received at `at` by the clock, left by the last port of
    /// its way, if that is watched.
    pub(crate) fn count_at_the_end(&self, plan: &ClockPlan, message: &MessageId, at: u64) -> u32 {
        let at = at.wrapping_sub(self.ahead_ns);
        let last = way(plan, message).last();
        last.and_then(|hop| self.counts.find(*hop, message, at)).unwrap_or(0)
    }

    /// Nanoseconds that edges and transparent clocks added to a message of this clock pair, sent or received at `at` by the
    /// clock.
    pub(crate) fn converted_on_the_way(&self, plan: &ClockPlan, message: &MessageId, at: u64) -> u64 {
        self.converted(way(plan, message), message, at)
    }

    /// Nanoseconds that those on this way added to a message.
    fn converted(&self, hops: &[Hop], message: &MessageId, at: u64) -> u64 {
        let at = at.wrapping_sub(self.ahead_ns);
        hops.iter().filter_map(|hop| self.converted.find(*hop, message, at)).sum()
    }
}

/// Where a message of this clock pair goes: requests to the server, Syncs and a peer's answers to the client.
fn way<'p>(plan: &'p ClockPlan, message: &MessageId) -> &'p [Hop] {
    if matches!(message.message_type, 1 | 2) { &plan.to_server } else { &plan.to_client }
}

/// The marks in a word of this message.
fn count(message: &MessageId, word: u32) -> u32 {
    let direction =
        if matches!(message.message_type, 1 | 2) { Direction::Forward } else { Direction::Reverse };
    Word::decode(word).map_or(0, |word| word.count(direction))
}

/// The sink for records, and the handle to what it found.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    window: Arc<Window>,
    totals: Arc<Mutex<Totals>>,
}

impl Tally {
    pub(crate) fn new(window: Arc<Window>) -> Self {
        Self { window, totals: Arc::default() }
    }

    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Tally {
    fn take(&mut self, record: &Record, _octets: &[u8]) -> Result<(), String> {
        self.totals().take(record, |at| self.window.holds(at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::{DropReason, EdgeOutcome, Nanos, PortId};

    fn record(released: u64, depth_bytes: u64, late: i64, mark: MarkRecord) -> Record {
        Record {
            switch: 0,
            ingress: PortId(0),
            egress: Some(PortId(1)),
            len: 1514,
            stamp: Nanos(released - 10),
            arrived: Nanos(released - 7),
            fate: Fate::Sent(Sent {
                class: 0,
                depth_bytes,
                depth_ps: 0,
                measured: 0,
                mark,
                start: Nanos(released),
                end: Nanos(released),
                released: Nanos(released),
                lateness_ns: late,
                corrected: false,
                residence_ns: None,
            }),
            message: None,
        }
    }

    fn tally() -> Tally {
        let window = Arc::new(Window::closed());
        window.open(1_000_000);
        window.close(9_000_000);
        Tally::new(window)
    }

    #[test]
    fn only_the_window_counts_and_rates_are_of_frames_behind_another() {
        let mut tally = tally();
        let none = MarkRecord::default();
        for r in [
            record(999_999, 5, 3, none),
            record(1_000_000, 0, 3, none),
            // The link was idle before this one.
            record(1_500_000, 0, 503, none),
            record(9_000_001, 0, 3, none),
        ] {
            tally.take(&r, &[]).unwrap();
        }
        // 1538 octets in 123.04 us each are 100 Mbit/s.
        for n in 1..=ENOUGH {
            assert_eq!(tally.totals().port(0, 1).unwrap().measured_bps(), None, "too few to tell");
            tally.take(&record(1_500_000 + n * 123_040, 1538, 2003, none), &[]).unwrap();
        }
        let dropped = Fate::Dropped(DropReason::QueueBytes);
        tally
            .take(&Record { fate: dropped, arrived: Nanos(2_000_000), ..record(2_000_000, 0, 0, none) }, &[])
            .unwrap();
        let totals = tally.totals();
        let port = totals.port(0, 1).unwrap();
        assert_eq!((port.frames, port.wire_octets, port.dropped), (52, 52 * 1538, 1));
        assert!((port.measured_bps().unwrap() / 100e6 - 1.0).abs() < 1e-9);
        assert_eq!(port.inversions(), 52, "each was 3 ns out of order");
        assert_eq!((port.depth.max(), port.late_arrival.max(), port.release_late.max()), (1538, 3, 2000));
        let late = plimsoll_port::worker::Lateness::of(&port.release_late);
        assert_eq!((late.frames, late.count), (52, ENOUGH));
        assert_eq!(late.within_1us, 2.0 / 52.0);
    }

    #[test]
    fn marks_are_told_by_r_and_conversions_by_their_way() {
        let mut tally = tally();
        let mark = |outcome: MarkOutcome, r| MarkRecord {
            outcome,
            r,
            counted: outcome.is_counted(),
            ..MarkRecord::default()
        };
        for (outcome, r) in [
            (MarkOutcome::Zero, 0),
            (MarkOutcome::Marked, 3),
            (MarkOutcome::Saturated, 3),
            (MarkOutcome::NotSync, 0),
            (MarkOutcome::Length, 0),
        ] {
            tally.take(&record(2_000_000, 0, 3, mark(outcome, r)), &[]).unwrap();
        }
        // By its ECN bits alone, as a counter; and a mark of RFC 3168, which is no count.
        for (ecn, counted) in
            [(EcnOutcome::Marked, true), (EcnOutcome::Saturated, true), (EcnOutcome::Marked, false)]
        {
            let mark = MarkRecord { counted, ecn, ..mark(MarkOutcome::Carrier, 2) };
            tally.take(&record(2_000_000, 0, 3, mark), &[]).unwrap();
        }
        let message = MessageId { domain: 0, message_type: 0, sequence_id: 7, source_port_identity: [1; 10] };
        // The message leaves by port 1 of switch 0 and port 2 of switch 1; its flooded copies by others.
        for (switch, port, converted_ns) in [(0, 1, 400), (1, 2, 30), (1, 1, 5000), (0, 2, 70)] {
            let edge = MarkRecord { edge: EdgeOutcome::default(), converted_ns, ..MarkRecord::default() };
            let egress = Some(PortId(port));
            // Before the window: clocks are cut by their own.
            let record = Record {
                switch,
                egress,
                message: Some(TimeMessage::Ptp(message)),
                ..record(500_000, 0, 3, edge)
            };
            tally.take(&record, &[]).unwrap();
        }
        // A transparent clock that released it 5 ns late.
        let transparent = record(500_000, 0, 5, MarkRecord::default());
        let Fate::Sent(sent) = transparent.fate else { panic!() };
        let fate = Fate::Sent(Sent { residence_ns: Some(105), ..sent });
        let at_clock = Record { switch: 2, fate, message: Some(TimeMessage::Ptp(message)), ..transparent };
        tally.take(&at_clock, &[]).unwrap();
        // The same number once more, 65,536 messages later.
        let later = 66_000_000_000;
        let edge = MarkRecord { converted_ns: 900, ..MarkRecord::default() };
        let again = Record { message: Some(TimeMessage::Ptp(message)), ..record(later, 0, 3, edge) };
        tally.take(&again, &[]).unwrap();
        // The clocks tell another clock than the records.
        let epoch = 1_790_000_000_000_000_000;
        tally.totals().align(epoch + 5, 5);
        let (at, later) = (epoch + 500_000, epoch + later);
        let totals = tally.totals();
        let port = totals.port(0, 1).unwrap();
        assert_eq!((port.marks.clone(), port.saturated), (BTreeMap::from([(0, 1), (2, 2), (3, 2)]), 2));
        let way = [Hop { switch: 0, port: 1 }, Hop { switch: 1, port: 2 }];
        assert_eq!(totals.converted(&way, &message, at), 430);
        assert_eq!(totals.converted(&[Hop { switch: 2, port: 1 }], &message, at), 100);
        assert_eq!(totals.converted(&way, &message, later), 900);
        assert_eq!(totals.converted(&way, &MessageId { sequence_id: 8, ..message }, at), 0);
    }
}
