//! Frames sent as they are, by a packet socket: nothing between the test and the wire adds, sums or checks.

use plimsoll_port::{namespace::Namespace, packet};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A packet socket on a host's interface.
#[derive(Debug)]
pub struct Injector {
    socket: OwnedFd,
}

impl Injector {
    pub(crate) fn open(namespace: &Namespace, index: u32) -> Self {
        Self { socket: namespace.run_in(|| packet::open(index, None, &[])).unwrap().unwrap() }
    }

    /// Sends a frame. `false`: the interface dropped it, which counts as its `tx_dropped`.
    ///
    /// # Panics
    /// When the kernel takes it for no frame (shorter than a header, longer than the MTU).
    pub fn send(&self, frame: &[u8]) -> bool {
        match send(&self.socket, frame, SendFlags::empty()) {
            Ok(sent) => {
                assert_eq!(sent, frame.len());
                true
            }
            Err(Errno::NOBUFS) => false,
            Err(e) => panic!("send of {} octets: {e}: {frame:02x?}", frame.len()),
        }
    }
}

/// Frames sent as fast as the interface takes them, until it goes out of scope.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Sends `frames` in turn, with a pause after each round of them: `pause`, give or take a quarter. A strict period
    /// would beat with that of a peer's messages, which then meet the queue at one phase for the whole test.
    pub fn start(injector: Injector, frames: Vec<Vec<u8>>, pause: Duration) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (asked, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let mut random = SmallRng::seed_from_u64(1);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                for frame in &frames {
                    injector.send(frame);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if !pause.is_zero() {
                    std::thread::sleep(pause.mul_f64(random.random_range(0.75..1.25)));
                }
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    /// Frames sent so far, those included that the interface dropped.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
