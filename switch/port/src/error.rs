//! What can go wrong with a port, in one line: interface, queue, call, errno, remedy.

use std::{fmt, io};

/// What kind of failure it was, for whoever decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortErrorKind {
    /// No such interface (now): it may come back by its name.
    Absent,
    /// Another XDP program or socket owns the interface or queue.
    Busy,
    /// The process lacks a capability.
    Permission,
    /// The MTU (own or peer's) is larger than a chunk or the driver takes.
    Mtu,
    /// The driver cannot do what was asked for.
    Unsupported,
    /// Not enough memory, locked memory or chunks.
    Memory,
    /// An option has no valid value.
    Option,
    /// Anything else.
    Other,
}

/// A port or its memory that cannot be made.
#[derive(Debug, thiserror::Error)]
pub struct PortError {
    /// What kind of failure it was.
    pub kind: PortErrorKind,
    /// The interface; empty where the failure is not one interface's.
    pub interface: String,
    /// The RX queue, where the failure is one queue's.
    pub queue: Option<u32>,
    /// The system call or step that failed.
    pub call: &'static str,
    /// What the kernel answered, or what is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
    /// The system's error, where there is one.
    #[source]
    pub source: Option<io::Error>,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.interface.is_empty() {
            write!(f, "{}", self.interface)?;
            if let Some(queue) = self.queue {
                write!(f, " queue {queue}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}: {}; {}", self.call, self.problem, self.remedy)
    }
}
