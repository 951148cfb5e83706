//! Ground truth: one record a frame, handed to another thread without a lock or a system call.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crossbeam_queue::ArrayQueue;
use plimsoll_core::wire::ptp::MessageId;
use plimsoll_core::{Departure, Discard, DropReason, MarkRecord, Nanos, PortId};

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
    /// Which PTP event message it is, where it is one.
    pub message: Option<MessageId>,
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
            message: None,
        }
    }

    /// A frame that was due while its port was down or absent.
    pub(super) fn lost(d: &Departure, message: Option<MessageId>) -> Self {
        Self::of(d, Fate::Dropped(DropReason::PortDown), message)
    }

    /// A frame that left; of switch 0.
    pub fn sent(d: &Departure, release: &Release, message: Option<MessageId>) -> Self {
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

    fn of(d: &Departure, fate: Fate, message: Option<MessageId>) -> Self {
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

/// The reading end of the records.
#[derive(Clone, Debug)]
pub struct Records {
    queue: Arc<ArrayQueue<Record>>,
    lost: Arc<AtomicU64>,
    what: RecordWhat,
}

impl Records {
    /// Room for `capacity` records between two visits of the reader.
    pub fn new(capacity: usize, what: RecordWhat) -> Self {
        Self { queue: Arc::new(ArrayQueue::new(capacity)), lost: Arc::new(AtomicU64::new(0)), what }
    }

    /// The oldest record not read yet. Poll it: the worker never wakes a reader.
    pub fn pop(&self) -> Option<Record> {
        self.queue.pop()
    }

    /// Records that found no room; 0 or the ground truth is not whole.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn recorder(&self, switch: u16) -> Recorder {
        Recorder { records: self.clone(), switch }
    }
}

/// The worker's end, one a switch.
#[derive(Debug)]
pub(super) struct Recorder {
    records: Records,
    switch: u16,
}

impl Recorder {
    pub(super) fn wants_all(&self) -> bool {
        self.records.what == RecordWhat::All
    }

    pub(super) fn push(&mut self, mut record: Record) {
        record.switch = self.switch;
        if self.records.queue.push(record).is_err() {
            self.records.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
