//! Frames at an even pace, from a host's packet socket: what a host's own traffic looks like to its port.

use crate::stage::Host;
use anyhow::{Context, Result};
use plimsoll_lab::traffic::sleep_until;
use rustix::{
    io::Errno,
    net::{SendFlags, send},
    thread::set_current_timer_slack,
};
use std::{num::NonZeroU64, sync::atomic::AtomicBool};

/// What a generator did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Generated {
    /// Frames that the kernel took.
    pub(crate) sent: u64,
    /// Frames that the port's ring had no room for: lost before the switch saw them.
    pub(crate) refused: u64,
}

/// Sends what `next` gives, each frame at its instant (CLOCK_MONOTONIC, not decreasing) or, where the machine is late, as
/// soon as it can, until `stop` is set or `next` has no more.
pub(crate) fn generate(
    host: &Host,
    stop: &AtomicBool,
    mut next: impl FnMut(&mut Vec<u8>) -> Option<u64> + Send,
) -> Result<Generated> {
    host.namespace.run_in(move || {
        let socket = plimsoll_port::packet::open(host.index, None, &[]).context("packet socket")?;
        // Without this every sleep is up to 50 us longer.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut done = Generated::default();
        let mut frame = Vec::new();
        while let Some(at) = next(&mut frame) {
            if !sleep_until(at, stop) {
                break;
            }
            match send(&socket, &frame, SendFlags::empty()) {
                Ok(_) => done.sent += 1,
                Err(Errno::NOBUFS | Errno::AGAIN) => done.refused += 1,
                Err(error) => return Err(error).context("send on a packet socket"),
            }
        }
        Ok(done)
    })?
}
