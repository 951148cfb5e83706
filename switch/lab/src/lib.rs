//! Topology files, namespaces, traffic, clocks, results.

pub mod clock;
pub mod ptp4l;
pub mod record;
pub mod topology;
pub mod traffic;
