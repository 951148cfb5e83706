//! Topology files, namespaces, traffic, clocks, results.
