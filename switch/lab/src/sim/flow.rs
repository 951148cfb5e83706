//! One flow: its schedule at the one end, what arrives at the other. The same figures as of a flow between sockets.

use super::octets::Headers;
use crate::topology::{FlowPlan, HostPlan};
use crate::traffic::{FlowReport, LatencySummary, Schedule, TrafficError, latency_histogram};
use hdrhistogram::Histogram;
use plimsoll_core::{Nanos, config::WIRE_OVERHEAD};

/// A flow of the simulated network.
#[derive(Debug)]
pub(super) struct Flow {
    name: String,
    /// The host that sends.
    pub(super) from: u32,
    /// The host that receives.
    pub(super) to: u32,
    pub(super) headers: Headers,
    schedule: Schedule,
    /// When the next frame is due, and its length without FCS.
    next: (Nanos, u32),
    frames: u64,
    wire_octets: u64,
    /// When the first one was sent and its octets on the wire; when the last one was.
    first: Option<(Nanos, u64)>,
    last: Nanos,
    received: Received,
}

/// What has arrived.
#[derive(Debug)]
struct Received {
    frames: u64,
    wire_octets: u64,
    reordered: u64,
    /// One more than the highest number seen.
    expected: u64,
    first: Option<(Nanos, u64)>,
    last: Nanos,
    latency: Histogram<u64>,
}

impl Flow {
    pub(super) fn new(plan: &FlowPlan, hosts: &[HostPlan]) -> Result<Self, TrafficError> {
        let bounds = plan.spec.bounds(plan.target)?;
        let headers = Headers::new(&hosts[plan.from], &hosts[plan.to], plan.target, plan.spec.dscp);
        let mut flow = Self {
            name: plan.name.clone(),
            from: plan.from as u32,
            to: plan.to as u32,
            headers,
            schedule: Schedule::new(&plan.spec, bounds),
            next: (Nanos(0), 0),
            frames: 0,
            wire_octets: 0,
            first: None,
            last: Nanos(0),
            received: Received {
                frames: 0,
                wire_octets: 0,
                reordered: 0,
                expected: 0,
                first: None,
                last: Nanos(0),
                latency: latency_histogram(),
            },
        };
        flow.advance();
        Ok(flow)
    }

    /// When its next frame is due.
    #[inline]
    pub(super) const fn due(&self) -> Nanos {
        self.next.0
    }

    #[inline]
    fn advance(&mut self) {
        let due = self.schedule.next_due();
        self.next = (Nanos(due.at_ns), due.wire - WIRE_OVERHEAD);
    }

    /// The length without FCS of the frame that is due, and its number; the one after it is due next.
    #[inline]
    pub(super) fn send(&mut self) -> (u32, u64) {
        let (len, number) = (self.next.1, self.frames);
        self.frames += 1;
        let octets = u64::from(len + WIRE_OVERHEAD);
        self.wire_octets += octets;
        self.last = self.due();
        self.first.get_or_insert((self.last, octets));
        self.advance();
        (len, number)
    }

    /// A frame of its own arrived at its receiver.
    #[inline]
    pub(super) fn receive(&mut self, number: u64, sent: Nanos, len: u32, at: Nanos) {
        let wire = u64::from(len + WIRE_OVERHEAD);
        let received = &mut self.received;
        received.reordered += u64::from(number < received.expected);
        received.expected = received.expected.max(number + 1);
        received.frames += 1;
        received.wire_octets += wire;
        received.first.get_or_insert((at, wire));
        received.last = at;
        received.latency.saturating_record(at.since(sent));
    }

    /// Both ends' figures.
    pub(super) fn report(&self) -> FlowReport {
        let rate = |first: Option<(Nanos, u64)>, last: Nanos, octets: u64| match first {
            Some((first, own)) if last > first => (octets - own) as f64 * 8e9 / last.since(first) as f64,
            _ => 0.0,
        };
        let received = &self.received;
        FlowReport {
            name: self.name.clone(),
            offered_bps: rate(self.first, self.last, self.wire_octets),
            delivered_bps: rate(received.first, received.last, received.wire_octets),
            sent_frames: self.frames,
            received_frames: received.frames,
            lost_frames: self.frames - received.frames,
            lost_in_sink: 0,
            reordered_frames: received.reordered,
            duplicate_frames: 0,
            latency: LatencySummary::of(&received.latency),
            send_late: LatencySummary::default(),
            stalls: 0,
            stalled_ns: 0,
        }
    }
}
