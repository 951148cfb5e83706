//! A clock as an instrument: PTP end to end or peer to peer over Ethernet, UDPv4 or UDPv6, two-step, and NTP with the
//! marking extension field, with the kernel's software timestamps (PTP also with an interface's own, untested). It runs
//! free: no clock is ever set, every exchange becomes a record.
//!
//! A [`Server`] sends Announce, Sync and Follow_Up and answers Delay_Req and Pdelay_Req; a [`Client`] measures;
//! [`NtpServer`] and [`NtpClient`] do the same by NTP. All run in the
//! thread that calls them, in whatever network namespace that thread is in. A [`Recording`] holds what the client saw,
//! message by message; [`Recording::samples`] makes offsets of it, with and without the marks, and [`ClockReport`]
//! the figures. All network namespaces of a machine share CLOCK_REALTIME, so the true offset between two hosts of a
//! lab is exactly 0 and every offset found is an error of estimation.

mod asking;
mod client;
mod delay;
mod error;
mod measuring;
pub mod message;
pub mod ntp;
mod ntp_ends;
mod record;
mod report;
mod sample;
mod scale;
mod server;
mod serving;
pub(crate) mod socket;
mod stamps;
mod transport;

pub use asking::Exchanges;
pub(crate) use asking::{Asking, answer};
pub use client::{Client, ClientConfig};
pub use delay::DelayMechanism;
pub use error::ClockError;
pub use measuring::ClientCounters;
pub(crate) use measuring::Measuring;
pub use message::PortIdentity;
pub use ntp_ends::{NtpClient, NtpServer};
pub use record::{DelayRecord, PeerDelayRecord, Recording, SyncRecord};
pub use report::{ClockReport, FilterChoice, Filtered, OffsetStatistics};
pub use sample::ClockSample;
pub use scale::{MarkScale, Saturation};
pub use server::{Server, ServerConfig};
pub use serving::ServerReport;
pub(crate) use serving::{ANNOUNCE_INTERVAL, Serving};
pub use stamps::Stamps;
pub use transport::Transport;

use std::{ops::RangeInclusive, time::Duration};

/// What a clock's interval may be.
pub const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// 64 messages a second, logMessageInterval -6.
pub const DEFAULT_INTERVAL: Duration = Duration::from_micros(15_625);
/// M of a filter where nobody says: ptp4l's `delay_filter_length`.
pub const DEFAULT_WINDOW: usize = 10;

/// logMessageInterval of the nearest power of two (IEEE 1588-2019 clause 7.7.2).
fn log_interval(interval: Duration) -> i8 {
    interval.as_secs_f64().log2().round().clamp(-128.0, 127.0) as i8
}
