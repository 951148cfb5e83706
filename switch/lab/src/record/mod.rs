//! Ground truth on its way from the worker to whoever wants it: files, joins, tests.

mod collector;
mod csv;
pub(crate) mod tally;

pub use collector::{Collector, Sink};
pub use csv::{CSV_HEADER, CsvFile};
