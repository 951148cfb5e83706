//! One command a file: each measures its figures and gives rows.

pub(crate) mod accuracy;
pub(crate) mod clocks;
pub(crate) mod core;
pub(crate) mod cost;
pub(crate) mod marks;
pub(crate) mod model;
pub(crate) mod overload;
pub(crate) mod plan;
pub(crate) mod rate;
pub(crate) mod sim;
pub(crate) mod speed;
pub(crate) mod tcp;
