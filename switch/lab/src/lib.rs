//! Topology files, namespaces, traffic, clocks, results.

pub mod traffic;
