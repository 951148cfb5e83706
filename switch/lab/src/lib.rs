//! Topology files, namespaces, traffic, clocks, results.

pub mod topology;
pub mod traffic;
