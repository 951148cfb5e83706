//! Ground truth on its way from the worker to whoever wants it: files, joins, tests.

mod capture;
mod collector;
mod csv;
mod file;
mod pcapng;
pub(crate) mod tally;
mod told;
mod window;

pub use capture::{CapturedMessage, read_pcapng};
pub use collector::{Collector, Sink};
pub use csv::CSV_HEADER;
pub use file::{RecordClock, RecordError, RecordFile, queue};
pub use window::Window;

/// Names of switches with those of their ports, in the worker's order.
pub type PortNames = Vec<(String, Vec<String>)>;
