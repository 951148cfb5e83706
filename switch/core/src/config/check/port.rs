//! What one port refuses: values out of range, a depth that is no time, delays corrected twice.

use super::{ConfigError, in_range};
use crate::{
    Span,
    class::CLASSES,
    config::{
        Counter, DepthScope, DepthUnit, EcnConfig, EcnScope, MAX_CELL, MAX_COUNT, MAX_DELAY, MAX_DELTA,
        MAX_QUANTUM, MAX_QUEUE_BYTES, MAX_QUEUE_FRAMES, MAX_RATE, MarkConfig, PortConfig, Rule, wire_octets,
    },
};

impl PortConfig {
    /// How ECN bits count at this port, if they do.
    pub(super) fn ecn_counter(&self) -> Option<Counter> {
        self.mark.filter(|mark| mark.carriers.ecn).map(|mark| mark.counter)
    }

    /// An error of this port; its index is filled in by who knows it.
    pub(in crate::config) fn error(
        &self,
        switch: &str,
        key: &'static str,
        problem: String,
        remedy: String,
    ) -> ConfigError {
        let place = format!("switch {switch}, port {}, {key}", self.name);
        ConfigError { place, port: None, key, problem, remedy }
    }

    pub(in crate::config) fn range(
        &self,
        switch: &str,
        key: &'static str,
        value: u64,
        low: u64,
        high: u64,
    ) -> Result<(), ConfigError> {
        in_range(value, low, high, |problem, remedy| self.error(switch, key, problem, remedy))
    }

    pub(super) fn check(&self, switch: &str) -> Result<(), ConfigError> {
        let range =
            |key: &'static str, value: u64, low: u64, high: u64| self.range(switch, key, value, low, high);
        if let Some(rate) = self.rate {
            range("rate in bit/s", rate.0, 1, MAX_RATE)?;
        }
        range("delay in ns", self.delay.0, 0, MAX_DELAY.0)?;
        if self.quanta.len() > CLASSES {
            let problem = format!("are {}, one a class from the lowest on", self.quanta.len());
            return Err(self.error(switch, "quanta", problem, format!("write {CLASSES} at most")));
        }
        for &quantum in &self.quanta {
            range("quanta", quantum, 1, MAX_QUANTUM)?;
        }
        if let Some(octets) = self.queue_bytes {
            // Below one frame of least size, nothing could ever pass.
            range("queue_bytes", octets, u64::from(wire_octets(0)), MAX_QUEUE_BYTES)?;
        }
        if let Some(frames) = self.queue_frames {
            range("queue_frames", frames.into(), 1, MAX_QUEUE_FRAMES.into())?;
        }
        range("default_priority", self.default_priority.into(), 0, 7)?;
        if let Some(class) = self.sync_class {
            range("sync_class", class.into(), 0, 7)?;
        }
        for &octet in &self.pass_reserved {
            range("pass_reserved", octet.into(), 0, 15)?;
            if octet == 1 {
                let problem = "names 01, but MAC control frames (PAUSE) end at the link (802.3 Annex 31B)";
                return Err(self.error(switch, "pass_reserved", problem.into(), "leave 01 out".into()));
            }
        }
        if let Some(storm) = self.storm {
            range("storm.frames_per_second", storm.frames_per_second.into(), 1, u32::MAX.into())?;
            range("storm.burst", storm.burst.into(), 1, u32::MAX.into())?;
        }
        if let Some(ecn) = self.ecn {
            range("ecn.threshold in ps", ecn.threshold_ps, 1, MAX_DELTA.ps)?;
        }
        if let DepthUnit::Cells { octets } = self.depth.unit {
            range("depth.cells", octets.into(), 1, MAX_CELL.into())?;
        }
        self.check_vlan(switch)?;
        self.check_transparent(switch)?;
        self.check_depth(switch)?;
        match self.mark {
            Some(mark) => self.check_mark(switch, &mark),
            None => Ok(()),
        }
    }

    /// A transparent clock has the whole delay in correctionField already.
    fn check_transparent(&self, switch: &str) -> Result<(), ConfigError> {
        let other = if self.mark.is_some() { "mark" } else { "edge" };
        if self.transparent_clock && (self.mark.is_some() || self.edge) {
            let problem = format!("stands beside {other}: the delay would be corrected twice");
            let remedy = format!("leave one of them out, as {other} = false");
            return Err(self.error(switch, "transparent_clock", problem, remedy));
        }
        Ok(())
    }

    /// A depth needs a rate to be a time, and cells K = octets * 2^n to be compared by a shift.
    fn check_depth(&self, switch: &str) -> Result<(), ConfigError> {
        let key = match (self.mark, self.ecn) {
            (Some(_), _) => "mark",
            (None, Some(_)) => "ecn",
            (None, None) => return Ok(()),
        };
        let Some(rate) = self.rate else {
            let problem = "marks without a rate, so that no depth is a time".into();
            let remedy = format!("write rate, as \"100mbit\", or leave {key} out");
            return Err(self.error(switch, key, problem, remedy));
        };
        self.check_rounds(switch)?;
        let (DepthUnit::Cells { octets }, Some(mark)) = (self.depth.unit, self.mark) else { return Ok(()) };
        if mark.rule == Rule::Centred {
            let problem = "compares by a shift, which no centred threshold is".into();
            return Err(self.error(switch, "depth.cells", problem, "leave rule = \"centred\" out".into()));
        }
        if mark.cell_shift(rate, octets).is_some() {
            return Ok(());
        }
        let near = mark.cell_deltas(rate, octets).map(|ps| Span { ps }.to_string());
        let problem = format!("K = {} B is no cell of {octets} B times a power of two", mark.k_octets(rate));
        Err(self.error(switch, "depth.cells", problem, format!("write delta as {}", near.join(" or "))))
    }

    /// What is marked by what is ahead of it must know that: it is in a strict class, above all that share the link in
    /// rounds.
    fn check_rounds(&self, switch: &str) -> Result<(), ConfigError> {
        let shared = self.quanta.len();
        if shared == 0 || self.depth.scope != DepthScope::Ahead {
            return Ok(());
        }
        let is_all = matches!(self.ecn, Some(EcnConfig { scope: EcnScope::All, .. }));
        if !is_all && self.sync_class.is_some_and(|class| usize::from(class) >= shared) {
            return Ok(());
        }
        let problem =
            "share the link in rounds, so that what leaves before a frame of theirs is not known".into();
        let remedy = if is_all {
            "write depth = \"queue\", or ecn-scope = \"sync\" and a sync-class above them".into()
        } else if shared == CLASSES {
            "write depth = \"queue\"".into()
        } else {
            format!("write a sync-class above them, {shared} to 7, or depth = \"queue\"")
        };
        Err(self.error(switch, "quanta", problem, remedy))
    }

    fn check_mark(&self, switch: &str, mark: &MarkConfig) -> Result<(), ConfigError> {
        let range =
            |key: &'static str, value: u64, low: u64, high: u64| self.range(switch, key, value, low, high);
        range("mark.counter_max (N)", mark.counter_max.into(), 1, MAX_COUNT.into())?;
        range("mark.thresholds (R)", mark.thresholds.into(), 1, mark.counter_max.into())?;
        range("mark.delta in ps", mark.delta_ps, 1, MAX_DELTA.ps)?;
        let carriers = mark.carriers;
        if !(carriers.ptp || carriers.ntp || carriers.ecn) {
            let remedy = "name at least one of ptp, ntp, ecn, or leave mark out";
            return Err(self.error(switch, "mark.carriers", "are none".into(), remedy.into()));
        }
        Ok(())
    }
}
