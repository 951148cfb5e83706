//! Topology files, namespaces, traffic, clocks, results.
#![forbid(unsafe_code)]

pub mod chronyd;
pub mod clock;
pub mod daemon;
pub mod lab;
pub mod ptp4l;
pub mod record;
pub mod results;
pub mod sim;
pub mod topology;
pub mod traffic;
