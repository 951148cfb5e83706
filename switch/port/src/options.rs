//! How ports and their memory are to be made.

use crate::PortError;
use serde::Serialize;
use std::time::Duration;

/// How frames come from the driver to the switch. What was asked for stands in [`PortOptions::mode`], what was got in
/// [`crate::PortDescription::mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The best that the driver takes: zero copy, then native, then generic. Each step down is logged.
    #[default]
    Auto,
    /// XDP in the driver, frames by DMA straight into the chunks. Few physical NICs; veth refuses it.
    ZeroCopy,
    /// XDP in the driver, one copy into the chunks (`XDP_COPY`).
    Native,
    /// XDP in the network stack: works with every driver, but the sender's segmentation offload stays on, and what it
    /// sends as one super-frame is longer than a chunk and lost.
    Generic,
}

impl Mode {
    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::ZeroCopy => "zero-copy",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// How one port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Mode asked for.
    pub mode: Mode,
    /// Entries of each bulk RX ring, a power of two. On a port without rate it is the buffer that a burst finds: with 1024
    /// a host's TCP lost 1 to 2 % of its segments there, with 2048 none.
    pub bulk_ring: u32,
    /// Entries of each express RX ring, a power of two.
    pub express_ring: u32,
    /// Frames of this class (0..=7: PCP, else the upper three bits of DSCP) or a higher one come by the express ring,
    /// beside sync; 8, the default: sync alone. Nothing polices the express ring: with a lower value, whoever sends
    /// enough of these classes fills it, and sync is lost there ([`crate::PortCounters::express_ring_full`]).
    pub express_priority: u8,
    /// Entries of the TX ring, a power of two.
    pub tx_ring: u32,
    /// Frames that came in by this port and may be elsewhere in the switch at one time: in queues, waiting for
    /// release, in other ports' TX rings. Bulk frames beyond it are dropped at once ([`crate::PortCounters::over_quota`])
    /// so that neither this port's express frames nor another port ever lacks a chunk.
    pub held: u32,
    /// Ports of the switch, 2 or more: how many frames one that is flooded becomes (one less). Express frames and their
    /// copies have chunks beyond `held`: for as many of them as the express rings hold, each flooded.
    pub ports: u32,
    /// Whether the port takes frames that are addressed to others, as a switch must.
    pub promiscuous: bool,
    /// Whether partial checksums are completed by TX metadata where the kernel can (6.11, or a stable kernel that
    /// knows `XDP_UMEM_TX_METADATA_LEN`). `false` pins the software completion.
    pub tx_metadata: bool,
    /// How long attaching and binding are tried again while the kernel still takes the predecessor down (`EBUSY`).
    pub patience: Duration,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            bulk_ring: 2048,
            express_ring: 256,
            express_priority: 8,
            tx_ring: 2048,
            held: 8192,
            ports: 8,
            promiscuous: true,
            tx_metadata: true,
            patience: Duration::from_millis(100),
        }
    }
}

/// Chunks the kernel may hold back beside the rings, measured: with fewer, express frames are lost in an overload.
const SPARE: u32 = 64;

impl PortOptions {
    /// Chunks that each RX queue keeps with the kernel (fill ring and both RX rings).
    pub const fn posted_per_queue(&self) -> u32 {
        self.bulk_ring + self.express_ring + SPARE
    }

    /// Express frames and copies that may be out beyond [`PortOptions::held`].
    pub(crate) const fn express_held(&self, queues: u32) -> u32 {
        let copies = self.ports.saturating_sub(1);
        queues * self.express_ring * if copies == 0 { 1 } else { copies }
    }

    /// Chunks that the port takes of its [`crate::Umem`], with `queues` RX queues.
    pub const fn chunks(&self, queues: u32) -> u32 {
        queues * self.posted_per_queue() + self.express_held(queues) + self.held
    }

    /// The same for an interface in the calling thread's network namespace, as many RX queues as it has now: what to
    /// size [`UmemOptions::chunks`] by.
    ///
    /// # Errors
    /// [`PortError`]: there is no such interface, or it has more RX queues than the switch takes.
    pub fn chunks_for(&self, interface: &str) -> Result<u32, PortError> {
        crate::port::rx_queues(interface).map(|queues| self.chunks(queues))
    }
}

/// How the frame memory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmemOptions {
    /// Chunks: at least the sum of [`PortOptions::chunks`] over the ports.
    pub chunks: u32,
    /// Octets of a chunk: 2048 (frames to 1792 octets) or 4096 (to 3840).
    pub chunk_size: u32,
}

impl UmemOptions {
    /// The chunk size whose frames hold packets of `mtu` octets behind a header with two VLAN tags (22 octets).
    pub const fn chunk_size_for(mtu: u32) -> u32 {
        if mtu + 22 > 1792 { 4096 } else { 2048 }
    }
}

impl Default for UmemOptions {
    fn default() -> Self {
        Self { chunks: 32_768, chunk_size: 2048 }
    }
}
