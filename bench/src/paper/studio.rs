//! Simulations that several figures share, each run once.

use super::{
    network::{Marks, Mix, Network},
    runs::{Seen, simulate},
    testbed::{self, Testbed},
};
use anyhow::Result;
use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

/// Seeds of each network, as the paper has them.
const SEEDS: usize = 8;
/// Seconds of each seed.
const SECONDS: f64 = 16.0;
/// Between Syncs, and between Delay_Reqs. The paper has four a second; more of them say more, but a message delays all
/// packets behind it until the flow pauses: one each 2 ms adds 3 % to SF's waits.
const INTERVAL_MS: f64 = 8.0;
/// The setting that the simulated switches mark by: the static one of Fig. 14.
pub(super) const MARKS: Marks = Marks { delta_us: 5.0, thresholds: 5, counter_max: 32 };

/// Keeps what was simulated.
pub(super) struct Studio {
    /// Share of the full time that is simulated.
    scale: f64,
    networks: RefCell<BTreeMap<(&'static str, usize), Rc<Seen>>>,
    testbed: OnceCell<Rc<Testbed>>,
}

impl Studio {
    pub(super) const fn new(scale: f64) -> Self {
        Self { scale, networks: RefCell::new(BTreeMap::new()), testbed: OnceCell::new() }
    }

    /// Seconds to simulate where the full figure takes so many.
    pub(super) fn seconds(&self, full: f64) -> f64 {
        full * self.scale
    }

    /// A network of so many hops with this traffic both ways.
    pub(super) fn network(&self, mix: Mix, hops: usize) -> Result<Rc<Seen>> {
        let key = (mix.name(), hops);
        if let Some(seen) = self.networks.borrow().get(&key) {
            return Ok(Rc::clone(seen));
        }
        eprintln!("plimsoll-bench: simulating {} over {hops} hops", mix.name());
        let seconds = self.seconds(SECONDS);
        let network = Network { mix, hops, back: true, marks: MARKS, interval_ms: INTERVAL_MS, seconds };
        let seen = Rc::new(simulate(&network, SEEDS)?);
        self.networks.borrow_mut().insert(key, Rc::clone(&seen));
        Ok(seen)
    }

    /// The port at 10 Gbit/s.
    pub(super) fn testbed(&self) -> Result<Rc<Testbed>> {
        if let Some(testbed) = self.testbed.get() {
            return Ok(Rc::clone(testbed));
        }
        eprintln!("plimsoll-bench: simulating a port at 10 Gbit/s");
        let testbed = Rc::new(testbed::simulate(self.seconds(16.0))?);
        Ok(Rc::clone(self.testbed.get_or_init(|| testbed)))
    }

    /// What was simulated, for the heads of figures.
    pub(super) fn said(&self, hops: usize) -> String {
        format!(
            "simulator, {hops} hop{} at 1 Gbit/s, flows through their hosts' links, payload exponential and not cut at the \
             MTU; {SEEDS} seeds of {} s, a Sync and a Delay_Req each {INTERVAL_MS} ms",
            if hops == 1 { "" } else { "s" },
            self.seconds(SECONDS)
        )
    }
}
