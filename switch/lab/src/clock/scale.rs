//! What marks mean: the delay that a count stands for, and how much of it is believed.

use serde::Serialize;

/// The longest delay that a count is believed to stand for.
const MOST_NS: f64 = 1e9;

/// What a mark means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MarkScale {
    /// delta in picoseconds: the delay that one mark stands for.
    pub delta_ps: u64,
    /// The most that marks can say.
    pub saturated_at: Saturation,
}

/// The most that the marks of a message can say, by its way: R on one hop, else the least of N and the sum of all R on the
/// way; 0 where nothing marks. A message with so many, or more, may have waited longer than they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Saturation {
    /// Of Sync, Pdelay_Resp and an answer.
    pub to_client: u32,
    /// Of Delay_Req, Pdelay_Req and a request.
    pub to_server: u32,
}

impl Saturation {
    /// The same both ways.
    pub const fn both(marks: u32) -> Self {
        Self { to_client: marks, to_server: marks }
    }

    /// Whether one of these counts is as high as its way can say.
    pub(super) fn reached(self, to_client: u32, to_server: u32) -> bool {
        let reached = |most: u32, count: u32| most > 0 && count >= most;
        reached(self.to_client, to_client) || reached(self.to_server, to_server)
    }
}

impl MarkScale {
    /// n*delta of a count on its way to the client, of which no more is believed than that way can say: what a host
    /// forges moves a clock no further.
    pub(super) fn to_client_ns(self, count: u32) -> f64 {
        self.ns(count.min(self.saturated_at.to_client))
    }

    /// The same on its way to the server.
    pub(super) fn to_server_ns(self, count: u32) -> f64 {
        self.ns(count.min(self.saturated_at.to_server))
    }

    /// At most 1 s, as at an edge.
    pub(super) fn ns(self, count: u32) -> f64 {
        (f64::from(count) * self.delta_ps as f64 / 1e3).min(MOST_NS)
    }

    pub(super) fn count(self, ns: f64) -> u32 {
        if self.delta_ps == 0 { 0 } else { (ns * 1e3 / self.delta_ps as f64).round() as u32 }
    }
}
