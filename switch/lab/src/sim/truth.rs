//! Ground truth of every frame at every switch port: figures, and whoever else wants it.

use crate::record::{Sink, tally::Totals};
use plimsoll_port::worker::Record;
use std::fmt;

/// Where records go.
pub(super) struct Truth<'s> {
    from: u64,
    until: u64,
    pub(super) totals: Totals,
    sinks: Vec<&'s mut dyn Sink>,
    pub(super) failures: Vec<String>,
}

impl<'s> Truth<'s> {
    /// Figures count what is released from `from` until `until`, ns; sinks get everything.
    pub(super) fn new(from: u64, until: u64, sinks: Vec<&'s mut dyn Sink>) -> Self {
        Self { from, until, totals: Totals::default(), sinks, failures: Vec::new() }
    }

    /// The measurement ends earlier than was said.
    pub(super) fn cut(&mut self, until: u64) {
        self.until = until;
    }

    #[inline]
    pub(super) fn take(&mut self, record: &Record, octets: &[u8]) {
        let (from, until) = (self.from, self.until);
        self.totals.take(record, |at| from <= at && at <= until);
        if !self.sinks.is_empty() {
            self.hand_on(record, octets);
        }
    }

    fn hand_on(&mut self, record: &Record, octets: &[u8]) {
        let failures = &mut self.failures;
        self.sinks.retain_mut(|sink| sink.take(record, octets).map_err(|e| failures.push(e)).is_ok());
    }

    pub(super) fn finish(&mut self) {
        for sink in &mut self.sinks {
            self.failures.extend(sink.finish().err());
        }
    }
}

impl fmt::Debug for Truth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Truth").field("from", &self.from).field("until", &self.until).finish_non_exhaustive()
    }
}
