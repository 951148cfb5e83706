//! Topology files, namespaces, traffic, clocks, results.
#![forbid(unsafe_code)]

pub mod clock;
pub mod ptp4l;
pub mod record;
pub mod topology;
pub mod traffic;
