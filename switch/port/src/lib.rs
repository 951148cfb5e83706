//! The machine: AF_XDP rings, UMEM pool, XDP attach, netlink, the worker.

mod counters;
mod error;
mod options;
mod port;
mod umem;

pub use counters::{PortCounters, PortDescription, Tally};
pub use error::{PortError, PortErrorKind};
pub use options::{Mode, PortOptions, UmemOptions};
pub use port::{Full, Kick, Port, Received};
pub use umem::Umem;

pub mod namespace;
pub mod netlink;
pub mod packet;
