//! What became of a flow, as one line of the result.

use super::{SinkReport, SourceReport};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Percentiles of a time in nanoseconds; all 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// How many were measured.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 % are not above this.
    pub p90_ns: u64,
    /// 99 % are not above this.
    pub p99_ns: u64,
    /// 99.9 % are not above this.
    pub p999_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

/// One flow, both ends together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// The flow's name.
    pub name: String,
    /// Bits per second on the wire that the source sent, over the time it ran.
    pub offered_bps: f64,
    /// Bits per second on the wire that the sink received, between its first and its last packet.
    pub delivered_bps: f64,
    /// Packets sent.
    pub sent_frames: u64,
    /// Packets received, doubles left out.
    pub received_frames: u64,
    /// Packets sent and never received.
    pub lost_frames: u64,
    /// Of the lost ones: those that found the receiver's socket full, so that the path is not to blame. Known only once
    /// a later one got in; what the kernel drops before the socket (/proc/net/softnet_stat) is not among them.
    pub lost_in_sink: u64,
    /// Packets that came after one with a higher number (RFC 4737).
    pub reordered_frames: u64,
    /// Packets that came again.
    pub duplicate_frames: u64,
    /// From the call that sends to the receiver's kernel stamp.
    pub latency: LatencySummary,
    /// How late the source sent, against its schedule.
    pub send_late: LatencySummary,
    /// How often the source's machine stood still for more than 500 us, and the rest of its schedule moved.
    pub stalls: u64,
    /// By how much it moved altogether.
    pub stalled_ns: u64,
}

impl FlowReport {
    /// Joins what both ends saw.
    pub fn new(source: &SourceReport, sink: &SinkReport) -> Self {
        Self {
            name: source.name.clone(),
            offered_bps: source.offered_bps,
            delivered_bps: sink.delivered_bps,
            sent_frames: source.frames,
            received_frames: sink.frames,
            lost_frames: source.frames.saturating_sub(sink.frames),
            lost_in_sink: sink.overflowed,
            reordered_frames: sink.reordered,
            duplicate_frames: sink.duplicates,
            latency: sink.latency,
            send_late: source.late,
            stalls: source.stalls,
            stalled_ns: source.stalled_ns,
        }
    }
}
