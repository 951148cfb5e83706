//! A frame's way through the switch, top to bottom.

use crate::{ConfigError, Egress, FrameId, Nanos, Pool, PortId, SwitchConfig};
use plimsoll_classify::Class;

/// An emulated switch.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
}

impl Switch {
    /// Makes a switch.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, what is wrong with it and what to write instead.
    pub fn new(config: SwitchConfig) -> Result<Self, ConfigError> {
        Ok(Self { config })
    }

    /// What it was made of.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Takes a frame that arrived at `port` at `stamp` (as XDP stamped it). The frame is the core's until it departs
    /// or is freed. Calls come in order of `stamp`; an earlier one is moved to the last arrival and counted.
    pub fn receive<P: Pool, E: Egress>(
        &mut self,
        _port: PortId,
        _frame: FrameId,
        _info: &Class,
        _stamp: Nanos,
        _pool: &mut P,
        _out: &mut E,
    ) {
    }

    /// Runs the emulated links up to `to`, exclusively: every frame whose first bit is due before `to` departs.
    pub fn advance<E: Egress>(&mut self, _to: Nanos, _out: &mut E) {}
}
