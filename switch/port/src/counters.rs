//! What a port counted, and where the chunks are.

use crate::Mode;
use serde::Serialize;

/// A port's counters since it was opened. Frames, where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub struct PortCounters {
    /// Frames handed to the worker, express ones included.
    pub rx_frames: u64,
    /// Their octets, without FCS.
    pub rx_bytes: u64,
    /// Those of them that came through an express ring.
    pub rx_express: u64,
    /// Frames put on the TX ring.
    pub tx_frames: u64,
    /// Their octets, without FCS.
    pub tx_bytes: u64,
    /// Frames whose partial checksum the kernel or the NIC completes (TX metadata).
    pub checksum_metadata: u64,
    /// Frames whose partial checksum was completed in software.
    pub checksum_software: u64,
    /// `sendto` calls.
    pub kicks: u64,
    /// Frames the device refused after it had taken them (`EBUSY`): lost.
    pub tx_refused: u64,
    /// Frames that were on the TX ring when the device was found down, or when the port was closed: lost.
    pub tx_down: u64,
    /// Frames that `sendto` failed on with an errno that does not come from the interface's state: dropped. The first
    /// of a port is logged.
    pub tx_failed: u64,
    /// Frames without valid metadata, classified natively; their arrival is the worker's clock.
    pub native_class: u64,
    /// Frames in several pieces (`XDP_PKT_CONTD`): dropped.
    pub jumbo: u64,
    /// Descriptors that point outside of a chunk of this port, or that are no frame: dropped.
    pub bad_descriptor: u64,
    /// Frames that were in the RX rings when the port was closed: lost.
    pub closed_rx: u64,
    /// Bulk frames dropped since the port held its quota of chunks ([`crate::PortOptions::held`]).
    pub over_quota: u64,
    /// Frames the kernel dropped at the bulk sockets: RX ring full.
    pub bulk_ring_full: u64,
    /// Frames the kernel dropped at the express sockets: RX ring full.
    pub express_ring_full: u64,
    /// Frames the kernel dropped for want of a posted chunk.
    pub fill_ring_empty: u64,
    /// Frames the kernel dropped at the sockets for another reason: longer than a chunk.
    pub rx_dropped: u64,
    /// Descriptors on the TX ring that the kernel called invalid.
    pub tx_invalid: u64,
    /// Frames the XDP program gave to bulk sockets; whether they had room is counted there.
    pub xdp_bulk: u64,
    /// Frames the XDP program gave to express sockets.
    pub xdp_express: u64,
    /// Frames the XDP program dropped: no socket on the queue, or unreadable.
    pub xdp_dropped: u64,
    /// Frames lost before XDP: on veth those that found the RX ring full (the other end's `tx_dropped`), else what the
    /// NIC had no buffer for (`rx_missed_errors`). `None` where it cannot be read: the other end of the veth is in a
    /// namespace without access.
    pub before_xdp: Option<u64>,
}

impl PortCounters {
    /// The counters of frames lost at the interface, around the switch, by name.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("before_xdp", self.before_xdp.unwrap_or(0)),
            ("xdp_dropped", self.xdp_dropped),
            ("bulk_ring_full", self.bulk_ring_full),
            ("express_ring_full", self.express_ring_full),
            ("fill_ring_empty", self.fill_ring_empty),
            ("rx_dropped", self.rx_dropped),
            ("over_quota", self.over_quota),
            ("jumbo", self.jumbo),
            ("bad_descriptor", self.bad_descriptor),
            ("closed_rx", self.closed_rx),
            ("tx_refused", self.tx_refused),
            ("tx_down", self.tx_down),
            ("tx_failed", self.tx_failed),
            ("tx_invalid", self.tx_invalid),
        ]
        .into_iter()
    }

    /// Names among [`PortCounters::losses`] of what was lost on its way in, before the switch saw it, because frames came
    /// faster than this machine took them.
    pub const OVERRUN: [&str; 4] = ["before_xdp", "bulk_ring_full", "express_ring_full", "fill_ring_empty"];

    /// Adds what the port counted before its interface went away and came back.
    pub fn add_closed(&mut self, earlier: &Self) {
        self.rx_frames += earlier.rx_frames;
        self.rx_bytes += earlier.rx_bytes;
        self.rx_express += earlier.rx_express;
        self.tx_frames += earlier.tx_frames;
        self.tx_bytes += earlier.tx_bytes;
        self.checksum_metadata += earlier.checksum_metadata;
        self.checksum_software += earlier.checksum_software;
        self.kicks += earlier.kicks;
        self.tx_refused += earlier.tx_refused;
        self.tx_down += earlier.tx_down;
        self.tx_failed += earlier.tx_failed;
        self.native_class += earlier.native_class;
        self.jumbo += earlier.jumbo;
        self.bad_descriptor += earlier.bad_descriptor;
        self.closed_rx += earlier.closed_rx;
        self.over_quota += earlier.over_quota;
        self.bulk_ring_full += earlier.bulk_ring_full;
        self.express_ring_full += earlier.express_ring_full;
        self.fill_ring_empty += earlier.fill_ring_empty;
        self.rx_dropped += earlier.rx_dropped;
        self.tx_invalid += earlier.tx_invalid;
        self.xdp_bulk += earlier.xdp_bulk;
        self.xdp_express += earlier.xdp_express;
        self.xdp_dropped += earlier.xdp_dropped;
        self.before_xdp = match (self.before_xdp, earlier.before_xdp) {
            (None, None) => None,
            (now, then) => Some(now.unwrap_or(0) + then.unwrap_or(0)),
        };
    }
}

/// Where all chunks of a [`crate::Umem`] are. [`Tally::is_whole`] at every moment between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// In fill rings, not yet taken by the kernel.
    pub fill: u64,
    /// With the kernel between fill and RX ring.
    pub kernel: u64,
    /// In RX rings, not yet taken by the worker.
    pub rx: u64,
    /// With the worker and the core: queued, or waiting for release.
    pub held: u64,
    /// In TX rings or being sent.
    pub tx: u64,
    /// In completion rings, not yet reaped.
    pub completion: u64,
    /// Free.
    pub free: u64,
    /// Withdrawn, since a closed port's device may still have used them.
    pub withdrawn: u64,
    /// All chunks.
    pub total: u64,
}

impl Tally {
    /// Whether every chunk is in exactly one place.
    pub const fn is_whole(&self) -> bool {
        self.fill + self.kernel + self.rx + self.held + self.tx + self.completion + self.free + self.withdrawn
            == self.total
    }
}

/// What became of a port's options on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortDescription {
    /// Interface name when it was opened.
    pub interface: String,
    /// Interface index when it was opened.
    pub index: u32,
    /// Driver name (`veth`, `virtio_net`, ...), empty where unknown.
    pub driver: String,
    /// Mode in use; never [`Mode::Auto`].
    pub mode: Mode,
    /// Why a better mode was not taken, one line each.
    pub fallbacks: Vec<String>,
    /// RX queues, each with a bulk and an express ring.
    pub queues: u32,
    /// MTU in octets.
    pub mtu: u32,
    /// Whether partial checksums are completed by TX metadata (`false`: in software).
    pub tx_metadata: bool,
    /// Id of the XDP program.
    pub program_id: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overruns_is_among_the_losses() {
        let names: Vec<_> = PortCounters::default().losses().map(|(name, _)| name).collect();
        assert!(PortCounters::OVERRUN.iter().all(|name| names.contains(name)));
    }

    #[test]
    fn every_counter_goes_on_where_a_closed_port_stopped() {
        // Through JSON, so that a counter added later is not forgotten.
        let ones = |value: u64| {
            let mut json =
                serde_json::to_value(PortCounters { before_xdp: Some(0), ..Default::default() }).unwrap();
            json.as_object_mut().unwrap().values_mut().for_each(|v| *v = value.into());
            json
        };
        let parse = |json: serde_json::Value| serde_json::from_value::<PortCounters>(json).unwrap();
        let mut sum = parse(ones(2));
        sum.add_closed(&parse(ones(3)));
        assert_eq!(serde_json::to_value(sum).unwrap(), ones(5));
    }
}
