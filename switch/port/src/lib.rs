//! The machine: AF_XDP rings, UMEM pool, XDP attach, netlink, the worker.
//!
//! | file | what |
//! |---|---|
//! | `port` | [`Port`]: one interface, from attach to detach |
//! | `umem` | [`Umem`]: the frame memory, its owners and quotas |
//! | `rx`, `tx`, `checksum` | a port's two directions |
//! | `xsk`, `program`, `promiscuous` | sockets, XDP program, and what else is asked of the kernel |
//! | `ring`, `area` | memory shared with the kernel |
//! | `worker` | the busy thread: rings -> core -> release |
//! | `host` | shims on a host, by which unmodified clocks profit from marks |
//! | `namespace`, `netlink` | network namespaces, links, drivers |

mod area;
mod checksum;
mod counters;
mod error;
mod options;
mod port;
mod program;
mod promiscuous;
mod ring;
mod rx;
mod tx;
mod umem;
pub mod worker;
mod xsk;

pub use counters::{PortCounters, PortDescription, Tally};
pub use error::{PortError, PortErrorKind};
pub use options::{Mode, PortOptions, UmemOptions};
pub use port::{Full, Kick, Port, Prepared, Received};
pub use program::VETH_MTU_MAX;
pub use umem::{MOST_PORTS, Memory, Umem};

pub mod host;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod timestamping;
