//! Ground truth: one record a frame, handed to another thread without a lock or a system call.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crossbeam_queue::ArrayQueue;
use plimsoll_classify::Class;
use plimsoll_core::wire::identity::TimeMessage;
use plimsoll_core::{Departure, Discard, DropReason, MarkRecord, Nanos, PortId};

use super::octets::{Buffer, Buffers};

/// What happened to one frame at one port.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Index of the switch in the worker.
    pub switch: u16,
    /// Port it came in by.
    pub ingress: PortId,
    /// Port it left by, or whose queue refused it.
    pub egress: Option<PortId>,
    /// Octets without FCS.
    pub len: u32,
    /// Arrival as stamped, CLOCK_MONOTONIC.
    pub stamp: Nanos,
    /// Arrival as used.
    pub arrived: Nanos,
    /// What became of it.
    pub fate: Fate,
    /// Which time message it is, where it is one; of a frame that the core dropped, PTP alone.
    pub message: Option<TimeMessage>,
}

/// What became of a recorded frame.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It left.
    Sent(Sent),
    /// It was dropped.
    Dropped(DropReason),
}

/// How a frame left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Traffic class.
    pub class: u8,
    /// Wire octets ahead of it at enqueue.
    pub depth_bytes: u64,
    /// The same in picoseconds of this link.
    pub depth_ps: u64,
    /// What the thresholds were compared with, by the port's measure: wire octets or cells.
    pub measured: u64,
    /// The marker's decision.
    pub mark: MarkRecord,
    /// First bit due.
    pub start: Nanos,
    /// Last bit due.
    pub end: Nanos,
    /// When the worker put it on the TX ring; the kernel has it within one call, 2 to 3 us.
    pub released: Nanos,
    /// Nanoseconds by which the machine was late: release - (ideal + L), and arrival used - stamp.
    pub lateness_ns: i64,
    /// Whether they were added to its correctionField, be it as part of the residence.
    pub corrected: bool,
    /// Nanoseconds of residence (release - stamp - propagation delay) that a transparent clock added to its
    /// correctionField.
    pub residence_ns: Option<i64>,
}

/// How a frame was released: what only its release knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Release {
    /// [`Sent::released`].
    pub released: Nanos,
    /// [`Sent::lateness_ns`].
    pub lateness_ns: i64,
    /// [`Sent::corrected`].
    pub corrected: bool,
    /// [`Sent::residence_ns`].
    pub residence_ns: Option<i64>,
}

impl Record {
    /// A frame that the core dropped; of switch 0.
    pub fn discard(d: &Discard) -> Self {
        Self {
            switch: 0,
            ingress: d.ingress,
            egress: d.egress,
            len: d.len,
            stamp: d.stamp,
            arrived: d.arrived,
            fate: Fate::Dropped(d.reason),
            message: d.message.map(TimeMessage::Ptp),
        }
    }

    /// A frame that was due while its port was down or absent.
    pub(super) fn lost(d: &Departure, message: Option<TimeMessage>) -> Self {
        Self::of(d, Fate::Dropped(DropReason::PortDown), message)
    }

    /// A frame that left; of switch 0.
    pub fn sent(d: &Departure, release: &Release, message: Option<TimeMessage>) -> Self {
        let Release { released, lateness_ns, corrected, residence_ns } = *release;
        Self::of(
            d,
            Fate::Sent(Sent {
                class: d.class,
                depth_bytes: d.depth_bytes,
                depth_ps: d.depth_ps,
                measured: d.measured,
                mark: d.mark,
                start: d.start,
                end: d.end,
                released,
                lateness_ns,
                corrected,
                residence_ns,
            }),
            message,
        )
    }

    fn of(d: &Departure, fate: Fate, message: Option<TimeMessage>) -> Self {
        Self {
            switch: 0,
            ingress: d.ingress,
            egress: Some(d.port),
            len: d.len,
            stamp: d.stamp,
            arrived: d.arrived,
            fate,
            message,
        }
    }
}

/// Which frames are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWhat {
    /// Every frame, and every drop.
    All,
    /// Only messages that can carry marks.
    Sync,
}

/// A record on its way, with its frame's octets where they are kept.
#[derive(Debug)]
struct Entry {
    record: Record,
    octets: Option<Box<Buffer>>,
}

/// The reading end of the records.
#[derive(Clone, Debug)]
pub struct Records {
    queue: Arc<ArrayQueue<Entry>>,
    buffers: Option<Arc<Buffers>>,
    lost: Arc<AtomicU64>,
    what: RecordWhat,
}

impl Records {
    /// Room for `capacity` records between two visits of the reader.
    pub fn new(capacity: usize, what: RecordWhat) -> Self {
        let queue = Arc::new(ArrayQueue::new(capacity));
        Self { queue, buffers: None, lost: Arc::new(AtomicU64::new(0)), what }
    }

    /// The same with the octets of each frame as it was released: of time messages up to
    /// [`super::MESSAGE_OCTETS`], of others the first [`super::HEADER_OCTETS`]. Takes a KiB of memory a record.
    pub fn with_octets(capacity: usize, what: RecordWhat) -> Self {
        Self { buffers: Some(Arc::new(Buffers::for_queue(capacity))), ..Self::new(capacity, what) }
    }

    /// The oldest record not read yet. Poll it: the worker never wakes a reader.
    pub fn pop(&self) -> Option<Record> {
        let mut taken = None;
        self.visit(|record, _| taken = Some(*record));
        taken
    }

    /// Shows the oldest record not read yet, with the octets kept of its frame (none of one that was dropped). `false`
    /// where there is none.
    pub fn visit(&self, look: impl FnOnce(&Record, &[u8])) -> bool {
        let Some(Entry { record, octets }) = self.queue.pop() else { return false };
        look(&record, octets.as_ref().map_or(&[], |buffer| buffer.octets()));
        self.give_back(octets);
        true
    }

    /// Records that found no room; 0 or the ground truth is not whole.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn recorder(&self, switch: u16) -> Recorder {
        Recorder { records: self.clone(), switch, kept: None }
    }

    fn give_back(&self, octets: Option<Box<Buffer>>) {
        if let (Some(buffer), Some(buffers)) = (octets, &self.buffers) {
            buffers.give_back(buffer);
        }
    }
}

/// The worker's end, one a switch.
#[derive(Debug)]
pub(super) struct Recorder {
    records: Records,
    switch: u16,
    /// Octets of the frame whose record comes next.
    kept: Option<Box<Buffer>>,
}

impl Recorder {
    /// Whether a frame of this class is recorded.
    pub(super) fn wants(&self, info: &Class) -> bool {
        info.kind.is_sync() || self.records.what == RecordWhat::All
    }

    /// Keeps a frame's octets for the record that is pushed next, where they are asked for.
    pub(super) fn keep(&mut self, frame: &[u8], class: &Class) {
        if let Some(buffers) = &self.records.buffers {
            self.kept = buffers.keep(frame, class);
        }
    }

    pub(super) fn push(&mut self, mut record: Record) {
        record.switch = self.switch;
        if let Err(entry) = self.records.queue.push(Entry { record, octets: self.kept.take() }) {
            self.records.give_back(entry.octets);
            self.records.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::release::tests::departure;

    fn discarded(len: u32) -> Record {
        Record::discard(&Discard {
            reason: DropReason::Storm,
            ingress: PortId(1),
            egress: None,
            len,
            stamp: Nanos(5),
            arrived: Nanos(6),
            message: None,
        })
    }

    fn sent(len: u32) -> Record {
        Record::sent(&Departure { len, ..departure(0, 0) }, &Release::default(), None)
    }

    #[test]
    fn octets_come_with_the_record_of_their_frame_alone() {
        let records = Records::with_octets(3, RecordWhat::All);
        let mut recorder = records.recorder(7);
        recorder.keep(&[1; 60], &Class::OTHER);
        recorder.push(sent(60));
        recorder.push(discarded(99));
        recorder.keep(&[2; 200], &Class::OTHER);
        recorder.push(sent(200));
        let mut seen = Vec::new();
        while records.visit(|record, octets| seen.push((record.switch, record.len, octets.to_vec()))) {}
        assert_eq!(seen, [(7, 60, vec![1; 60]), (7, 99, vec![]), (7, 200, vec![2; 128])]);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_its_buffer_comes_back() {
        let records = Records::with_octets(2, RecordWhat::All);
        let mut recorder = records.recorder(0);
        for round in 1..=50 {
            for _ in 0..5 {
                recorder.keep(&[3; 60], &Class::OTHER);
                recorder.push(sent(60));
            }
            assert_eq!(records.lost(), 3 * round);
            let mut whole = 0;
            while records.visit(|_, octets| whole += u32::from(octets == [3; 60])) {}
            assert_eq!(whole, 2);
        }
    }

    #[test]
    fn octets_on_the_way_cost_a_pointer_beside_the_record() {
        assert_eq!(size_of::<Entry>(), size_of::<Record>() + 8);
    }

    #[test]
    fn without_octets_there_are_no_buffers() {
        let records = Records::new(2, RecordWhat::All);
        let mut recorder = records.recorder(0);
        recorder.keep(&[1; 60], &Class::OTHER);
        recorder.push(sent(60));
        assert!(
            recorder.kept.is_none()
                && records.visit(|record, octets| assert!(record.len == 60 && octets.is_empty()))
        );
        assert!(records.pop().is_none());
    }
}
