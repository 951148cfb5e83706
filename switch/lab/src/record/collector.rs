//! The thread that reads the worker's records and hands each to every sink.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use plimsoll_port::worker::{Record, Records};

/// Takes records, in the worker's order.
pub trait Sink: Send {
    /// One frame's record, with what was kept of its octets as it was released.
    ///
    /// # Errors
    /// What keeps the sink from taking more; it is given no further record.
    fn take(&mut self, record: &Record, octets: &[u8]) -> Result<(), String>;

    /// No more will come: write out what is held back.
    ///
    /// # Errors
    /// What could not be written.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The reading thread.
#[derive(Debug)]
pub struct Collector {
    stop: Arc<AtomicBool>,
    records: Records,
    thread: thread::JoinHandle<Vec<String>>,
}

/// How often the queue is emptied: the worker never wakes a reader.
const VISIT: Duration = Duration::from_millis(2);

impl Collector {
    /// Starts reading.
    pub fn start(records: Records, mut sinks: Vec<Box<dyn Sink>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let queue = records.clone();
        let thread = thread::spawn(move || {
            let mut failures = Vec::new();
            loop {
                // Read the flag before the queue: what was recorded before the stop is then still read.
                let last = stopping.load(Ordering::Acquire);
                while queue.visit(|record, octets| {
                    sinks.retain_mut(|sink| sink.take(record, octets).map_err(|e| failures.push(e)).is_ok());
                }) {}
                if last {
                    break;
                }
                thread::sleep(VISIT);
            }
            for sink in &mut sinks {
                if let Err(e) = sink.finish() {
                    failures.push(e);
                }
            }
            failures
        });
        Self { stop, records, thread }
    }

    /// Reads what is left, once the worker has stopped. Returns what went wrong, lost records included.
    pub fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Release);
        let mut failures =
            self.thread.join().unwrap_or_else(|_| vec!["the thread that reads records panicked".into()]);
        let lost = self.records.lost();
        if lost > 0 {
            failures.push(format!(
                "{lost} records found no room: the ground truth is not whole; record fewer frames (sync only), or \
                 write to a faster disk"
            ));
        }
        failures
    }
}
