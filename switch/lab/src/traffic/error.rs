//! What a flow fails with.

use std::io;

/// A flow that cannot be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The flow's description cannot be followed.
    #[error("flow {flow}: {problem}; {remedy}")]
    Spec {
        /// The flow's name.
        flow: String,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        remedy: String,
    },
    /// The system refused a call.
    #[error("flow {flow}, {address}: {call}: {source}; {remedy}")]
    Call {
        /// The flow's name.
        flow: String,
        /// The address it was about.
        address: String,
        /// The call.
        call: &'static str,
        /// What to do about it.
        remedy: &'static str,
        /// The system's own word.
        source: io::Error,
    },
}
