//! Topology files, namespaces, traffic, clocks, results.
#![forbid(unsafe_code)]
// They panic where nobody reads, and a switch must not end of that.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod chronyd;
pub mod clock;
pub mod daemon;
pub mod lab;
pub mod ptp4l;
pub mod record;
pub mod results;
pub mod sim;
pub mod text;
pub mod topology;
pub mod traffic;
