//! The yardstick: a bare forwarder between two ports. What comes in by one leaves by the other, on the same AF_XDP
//! layer as the switch, with no core, merge, queue, link or mark between. What the switch reaches of its speed is the
//! price of being a switch.

use plimsoll_core::{Nanos, Pool};
use plimsoll_port::{Kick, Port, PortCounters, Umem};
use rustix::time::{ClockId, clock_gettime};

/// Frames taken from one ring before the next has its turn.
const BURST: usize = 64;
/// Kicks of one round; what is left then goes with the next one.
const KICKS: usize = 16;

/// What a forwarder had counted when it stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Of both ports.
    pub(crate) counters: [PortCounters; 2],
    /// Frames dropped since the other port's TX ring was full.
    pub(crate) tx_full: u64,
}

/// Forwards on the calling thread until `stop`, asked every round, says so; then closes both ports.
///
/// # Panics
/// When a chunk is lost.
pub(crate) fn run(mut umem: Umem, ports: [Port; 2], mut stop: impl FnMut() -> bool) -> Outcome {
    let [mut a, mut b] = ports;
    let mut tx_full = 0;
    while !stop() {
        tx_full += forward(&mut a, &mut b, &mut umem);
        tx_full += forward(&mut b, &mut a, &mut umem);
    }
    let tally = umem.tally([&a, &b]);
    assert!(tally.is_whole(), "chunks are lost: {tally:?}");
    let counters = [a.close(&mut umem), b.close(&mut umem)];
    let closed = umem.tally([]);
    assert_eq!(closed.free + closed.withdrawn, closed.total, "chunks are lost: {closed:?}");
    Outcome { counters, tx_full }
}

/// One round one way; frames dropped.
fn forward(from: &mut Port, to: &mut Port, umem: &mut Umem) -> u64 {
    let mut dropped = 0;
    from.refresh(now());
    for ring in 0..from.rings() {
        for _ in 0..BURST {
            let Some(received) = from.take(ring, umem) else { break };
            if to.transmit(umem, received.frame, &received.class).is_err() {
                umem.free(received.frame);
                dropped += 1;
            }
        }
    }
    if to.tx_outstanding() > 0 {
        for _ in 0..KICKS {
            let kick = to.kick();
            to.reap(umem);
            if kick != Kick::Pending {
                break;
            }
        }
    }
    from.refill(umem);
    dropped
}

fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
