//! What is refused.

use std::collections::{HashMap, HashSet};

use super::{
    Counter, DepthUnit, FixedEntry, MAX_CELL, MAX_COUNT, MAX_DELAY, MAX_DELTA, MAX_FDB, MAX_PORTS,
    MAX_QUEUE_BYTES, MAX_QUEUE_FRAMES, MAX_RATE, MarkConfig, PortConfig, Rule, SwitchConfig, wire_octets,
};
use crate::{PortId, Span, wire::word::Word};

/// A configuration that no switch can be made of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}; {remedy}")]
pub struct ConfigError {
    /// Which switch, port and key.
    pub place: String,
    /// The port it is about, where it is about one; of two that do not go together the later.
    pub port: Option<PortId>,
    /// The key as it is named here: a field of [`SwitchConfig`] or [`PortConfig`], as `mark.thresholds`.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl SwitchConfig {
    /// Whether a switch can be made of this.
    ///
    /// # Errors
    /// [`ConfigError`] names the first key that is wrong, what is wrong with it and what to write instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |key: &'static str, value: u64, low: u64, high: u64| {
            in_range(value, low, high, |problem, remedy| self.error(key, problem, remedy))
        };
        range("ports", self.ports.len() as u64, 1, MAX_PORTS as u64)?;
        range("fdb_capacity", self.fdb_capacity as u64, 1, MAX_FDB as u64)?;
        range("fdb_age", self.fdb_age.0, 1, u64::MAX)?;
        if let Some(delta) = self.delta_ps {
            range("delta in ps", delta, 1, MAX_DELTA.ps)?;
        }
        self.check_names()?;
        for (index, port) in self.ports.iter().enumerate() {
            port.check(&self.name).map_err(|e| ConfigError { port: Some(PortId(index as u16)), ..e })?;
        }
        self.check_delta()?;
        self.check_edges()?;
        self.check_ecn()?;
        self.check_fixed()
    }

    /// delta of this network: all ports that mark have the same.
    pub fn delta(&self) -> Option<Span> {
        let marking = || self.ports.iter().find_map(|port| port.mark).map(|mark| mark.delta_ps);
        self.delta_ps.or_else(marking).map(|ps| Span { ps })
    }

    /// An error that is no port's.
    fn error(&self, key: &'static str, problem: String, remedy: String) -> ConfigError {
        ConfigError { place: format!("switch {}, {key}", self.name), port: None, key, problem, remedy }
    }

    /// An error of the port of this index.
    fn port_error(&self, index: usize, key: &'static str, problem: String, remedy: String) -> ConfigError {
        let error = self.ports[index].error(&self.name, key, problem, remedy);
        ConfigError { port: Some(PortId(index as u16)), ..error }
    }

    /// An error of two ports (or one) whose keys do not go together; the key is the second one's.
    fn pair_error(&self, pair: [usize; 2], key: &'static str, problem: String, remedy: &str) -> ConfigError {
        let [one, other] = pair.map(|index| &self.ports[index].name);
        let ports = if one == other { format!("port {one}") } else { format!("ports {one} and {other}") };
        ConfigError {
            place: format!("switch {}, {ports}", self.name),
            port: Some(PortId(pair[1] as u16)),
            key,
            problem,
            remedy: remedy.into(),
        }
    }

    /// How the ECN bits of time messages count in this switch, if they do (modified ECN).
    pub(crate) fn ecn_counter(&self) -> Option<Counter> {
        self.ports.iter().find_map(PortConfig::ecn_counter)
    }

    fn check_names(&self) -> Result<(), ConfigError> {
        let mut seen = HashMap::new();
        for (index, port) in self.ports.iter().enumerate() {
            if port.name.is_empty() {
                return Err(ConfigError {
                    place: format!("switch {}, port {index}", self.name),
                    port: Some(PortId(index as u16)),
                    key: "name",
                    problem: "has no name".into(),
                    remedy: "write the name of its interface".into(),
                });
            }
            if let Some(first) = seen.insert(port.name.as_str(), index) {
                return Err(ConfigError {
                    place: format!("switch {}, ports {first} and {index}", self.name),
                    port: Some(PortId(index as u16)),
                    key: "name",
                    problem: format!("are both named {:?}", port.name),
                    remedy: "name each interface once".into(),
                });
            }
        }
        Ok(())
    }

    /// A mark must mean the same time at every hop, so all ports of a network share one delta.
    fn check_delta(&self) -> Result<(), ConfigError> {
        let ports = self.ports.iter().enumerate();
        let mut marking = ports.filter_map(|(index, port)| port.mark.map(|mark| (index, mark.delta_ps)));
        let first = marking.next();
        if let Some((first, delta)) = first
            && let Some((other, differs)) = marking.find(|(_, ps)| *ps != delta)
        {
            let problem = format!("mark with delta {} and {}", Span { ps: delta }, Span { ps: differs });
            let remedy = "write one delta for the whole network: each port derives its own K = delta*rate/8";
            return Err(self.pair_error([first, other], "mark.delta", problem, remedy));
        }
        if let (Some(ps), Some((first, delta))) = (self.delta_ps, first)
            && ps != delta
        {
            let problem =
                format!("marks with delta {}, the network's is {}", Span { ps: delta }, Span { ps });
            return Err(self.port_error(
                first,
                "mark",
                problem,
                "write one delta for the whole network".into(),
            ));
        }
        Ok(())
    }

    /// Edges need delta, and counts that one clock alone can make sense of: of two directions' counts only an endpoint
    /// of ours knows what to do with the other half.
    fn check_edges(&self) -> Result<(), ConfigError> {
        let Some(edge) = self.ports.iter().position(|port| port.edge) else { return Ok(()) };
        if self.delta().is_none() {
            let problem = "converts marks, but the network's delta is not given";
            let remedy = "write [marking] with delta, or leave edge out";
            return Err(self.port_error(edge, "edge", problem.into(), remedy.into()));
        }
        let both = |port: &PortConfig| port.mark.is_some_and(|mark| Word::empty(mark.counter).is_both());
        if self.ports.iter().any(both) {
            let problem = "converts marks, but those of this switch count requests and responses apart";
            let remedy = "write forward-reverse = false, or leave edge out";
            return Err(self.port_error(edge, "edge", problem.into(), remedy.into()));
        }
        Ok(())
    }

    /// Two ECN bits cannot be a counter at one port and RFC 3168's at another, nor counters of two kinds.
    fn check_ecn(&self) -> Result<(), ConfigError> {
        let counts = |port: &PortConfig| port.ecn_counter().is_some();
        let differs =
            |port: &PortConfig| port.ecn_counter().is_some_and(|own| Some(own) != self.ecn_counter());
        if let (Some(one), Some(other)) =
            (self.ports.iter().position(counts), self.ports.iter().position(differs))
        {
            let problem = "count in ECN bits in two ways, which the bits cannot tell".into();
            let remedy = "write one counter for all of them";
            return Err(self.pair_error([one, other], "mark.counter", problem, remedy));
        }
        let classical = |port: &PortConfig| port.ecn.is_some() || port.remark.is_some();
        if let (Some(one), Some(other)) =
            (self.ports.iter().position(counts), self.ports.iter().position(classical))
        {
            let key = if self.ports[other].ecn.is_some() { "ecn.threshold" } else { "remark" };
            let problem = "use the ECN bits as a counter and as RFC 3168 does".into();
            let remedy = "leave out modified ECN, or both ecn-threshold and remark";
            return Err(self.pair_error([one, other], key, problem, remedy));
        }
        Ok(())
    }

    fn check_fixed(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for entry in &self.fdb_fixed {
            let FixedEntry { vlan, mac, port } = *entry;
            let (problem, remedy) = if mac.is_group() {
                ("is a group address".to_owned(), "write the address of one station")
            } else if port.index() >= self.ports.len() {
                (format!("names port {}", port.0), "write a port of this switch")
            } else if vlan > 4094 {
                (format!("names VLAN {vlan}"), "write 1 to 4094, or 0 for frames without a tag")
            } else if !seen.insert((vlan, mac)) {
                (format!("is there twice in VLAN {vlan}"), "write each station once")
            } else {
                continue;
            };
            let place = format!("switch {}, fixed FDB entry {mac}", self.name);
            return Err(ConfigError { place, ..self.error("fdb_fixed", problem, remedy.into()) });
        }
        let place = format!("switch {}, fixed FDB entries", self.name);
        let (entries, most) = (self.fdb_fixed.len() as u64, self.fdb_capacity as u64 / 2);
        in_range(entries, 0, most, |problem, remedy| ConfigError {
            place,
            ..self.error("fdb_fixed", problem, remedy)
        })
    }
}

impl PortConfig {
    /// How ECN bits count at this port, if they do.
    fn ecn_counter(&self) -> Option<Counter> {
        self.mark.filter(|mark| mark.carriers.ecn).map(|mark| mark.counter)
    }

    /// An error of this port; its index is filled in by who knows it.
    pub(super) fn error(
        &self,
        switch: &str,
        key: &'static str,
        problem: String,
        remedy: String,
    ) -> ConfigError {
        let place = format!("switch {switch}, port {}, {key}", self.name);
        ConfigError { place, port: None, key, problem, remedy }
    }

    fn range(
        &self,
        switch: &str,
        key: &'static str,
        value: u64,
        low: u64,
        high: u64,
    ) -> Result<(), ConfigError> {
        in_range(value, low, high, |problem, remedy| self.error(switch, key, problem, remedy))
    }

    fn check(&self, switch: &str) -> Result<(), ConfigError> {
        let range =
            |key: &'static str, value: u64, low: u64, high: u64| self.range(switch, key, value, low, high);
        if let Some(rate) = self.rate {
            range("rate in bit/s", rate.0, 1, MAX_RATE)?;
        }
        range("delay in ns", self.delay.0, 0, MAX_DELAY.0)?;
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

fn in_range(
    value: u64,
    low: u64,
    high: u64,
    error: impl FnOnce(String, String) -> ConfigError,
) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let remedy = match high {
        u64::MAX => format!("write {low} or more"),
        _ => format!("write {low} to {high}"),
    };
    Err(error(format!("is {value}"), remedy))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::*;
    use crate::PortId;

    pub(in crate::config) fn two_ports(change: impl FnOnce(&mut SwitchConfig)) -> SwitchConfig {
        let mark = Some(MarkConfig::new(4, 60_000_000));
        let port = |name: &str| PortConfig { rate: Some(Rate(100_000_000)), mark, ..PortConfig::new(name) };
        let mut config =
            SwitchConfig { name: "s1".into(), ports: vec![port("a"), port("b")], ..SwitchConfig::default() };
        change(&mut config);
        config
    }

    fn refusal(change: impl FnOnce(&mut SwitchConfig)) -> String {
        two_ports(change).check().unwrap_err().to_string()
    }

    pub(in crate::config) fn mark(config: &mut SwitchConfig, port: usize) -> &mut MarkConfig {
        config.ports[port].mark.as_mut().unwrap()
    }

    #[test]
    fn ecn_bits_count_in_one_way() {
        assert_eq!(
            refusal(|c| {
                mark(c, 0).carriers.ecn = true;
                (mark(c, 1).carriers.ecn, mark(c, 1).counter) = (true, Counter::Shift);
            }),
            "switch s1, ports a and b: count in ECN bits in two ways, which the bits cannot tell; write one counter for all \
             of them"
        );
        let config = two_ports(|c| {
            mark(c, 0).carriers.ecn = true;
            mark(c, 1).counter = Counter::Shift;
        });
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn a_good_configuration_passes() {
        assert_eq!(two_ports(|_| ()).check(), Ok(()));
        assert_eq!(two_ports(|_| ()).warnings(), []);
        assert_eq!(two_ports(|_| ()).delta(), Some(Span { ps: 60_000_000 }));
    }

    #[test]
    fn refusals_name_the_place_and_the_remedy() {
        assert_eq!(refusal(|c| c.ports.clear()), "switch s1, ports: is 0; write 1 to 1024");
        assert_eq!(
            refusal(|c| c.ports[1].name = "a".into()),
            "switch s1, ports 0 and 1: are both named \"a\"; name each interface once"
        );
        assert_eq!(
            refusal(|c| mark(c, 1).delta_ps = 30_000_000),
            "switch s1, ports a and b: mark with delta 60us and 30us; write one delta for the whole network: each port \
             derives its own K = delta*rate/8"
        );
        assert_eq!(
            refusal(|c| mark(c, 0).delta_ps = 0),
            "switch s1, port a, mark.delta in ps: is 0; write 1 to 1000000000000"
        );
        assert_eq!(
            refusal(|c| *mark(c, 0) = MarkConfig { counter_max: 3, ..MarkConfig::new(4, 1) }),
            "switch s1, port a, mark.thresholds (R): is 4; write 1 to 3"
        );
        assert!(refusal(|c| c.ports[0].rate = Some(Rate(0))).contains("rate in bit/s: is 0; write 1 to"));
        assert!(refusal(|c| c.ports[0].rate = None).contains("marks without a rate"));
        assert!(refusal(|c| c.ports[0].pass_reserved = vec![1]).contains("leave 01 out"));
        assert!(refusal(|c| c.ports[0].pass_reserved = vec![16]).contains("write 0 to 15"));
        assert!(refusal(|c| c.ports[0].sync_class = Some(8)).contains("write 0 to 7"));
        assert!(refusal(|c| c.ports[0].queue_bytes = Some(83)).contains("write 84 to"));
        assert!(refusal(|c| c.ports[0].queue_frames = Some(0)).contains("write 1 to"));
        assert!(refusal(|c| c.delta_ps = Some(1)).contains("marks with delta 60us, the network's is 1ps"));
        assert!(refusal(|c| c.fdb_age = Nanos(0)).contains("write 1 or more"));
        let storm = StormConfig { frames_per_second: 0, burst: 1 };
        assert!(refusal(|c| c.ports[0].storm = Some(storm)).contains("storm.frames_per_second"));
        let edge = |c: &mut SwitchConfig| {
            c.ports.iter_mut().for_each(|port| port.mark = None);
            c.ports[1].edge = true;
        };
        assert!(
            refusal(edge).starts_with("switch s1, port b, edge: converts marks, but the network's delta")
        );
    }

    #[test]
    fn modes_that_make_no_sense_together_are_refused_with_their_port_and_key() {
        let refused = |change: fn(&mut SwitchConfig)| two_ports(change).check().unwrap_err();
        let ecn = EcnConfig { threshold_ps: 120_000_000, scope: EcnScope::Sync };
        assert_eq!(two_ports(|c| c.ports[0].ecn = Some(ecn)).check(), Ok(()));
        for (change, port, key, said) in [
            (
                (|c| c.ports[1].transparent_clock = true) as fn(&mut SwitchConfig),
                1,
                "transparent_clock",
                "switch s1, port b, transparent_clock: stands beside mark: the delay would be corrected twice; leave one \
                 of them out, as mark = false",
            ),
            (
                |c| (c.ports[0].mark, c.ports[0].edge, c.ports[0].transparent_clock) = (None, true, true),
                0,
                "transparent_clock",
                "stands beside edge",
            ),
            (
                |c| {
                    mark(c, 0).counter = Counter::ShiftBoth;
                    c.ports[1].edge = true;
                },
                1,
                "edge",
                "count requests and responses apart; write forward-reverse = false, or leave edge out",
            ),
            (
                |c| {
                    mark(c, 0).carriers.ecn = true;
                    c.ports[1].remark = Some(Ect::Zero);
                },
                1,
                "remark",
                "switch s1, ports a and b: use the ECN bits as a counter and as RFC 3168 does; leave out",
            ),
            (
                |c| {
                    mark(c, 1).carriers.ecn = true;
                    c.ports[0].ecn = Some(EcnConfig { threshold_ps: 1, scope: EcnScope::All });
                },
                0,
                "ecn.threshold",
                "use the ECN bits as a counter",
            ),
            (
                |c| {
                    c.ports[1].mark.as_mut().unwrap().carriers =
                        Carriers { ptp: false, ntp: false, ecn: false }
                },
                1,
                "mark.carriers",
                "are none; name at least one of ptp, ntp, ecn",
            ),
            (
                |c| c.ports[1].depth.unit = DepthUnit::Cells { octets: 80 },
                1,
                "depth.cells",
                "K = 750 B is no cell of 80 B times a power of two; write delta as 51200ns or 102400ns",
            ),
            (
                |c| {
                    (c.ports[0].mark, c.ports[0].rate) = (None, None);
                    c.ports[0].ecn = Some(EcnConfig { threshold_ps: 1, scope: EcnScope::All });
                },
                0,
                "ecn",
                "marks without a rate",
            ),
        ] {
            let error = refused(change);
            assert_eq!((error.port, error.key), (Some(PortId(port)), key), "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
        assert_eq!(two_ports(|c| c.fdb_capacity = 0).check().unwrap_err().port, None);
    }

    #[test]
    fn a_switch_of_edges_needs_no_mark_of_its_own() {
        let config = two_ports(|c| {
            c.ports.iter_mut().for_each(|port| port.mark = None);
            (c.ports[1].edge, c.delta_ps) = (true, Some(60_000_000));
        });
        assert_eq!((config.check(), config.delta()), (Ok(()), Some(Span { ps: 60_000_000 })));
    }

    #[test]
    fn fixed_entries_are_of_stations_and_ports_that_can_be() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let entry = FixedEntry { vlan: 0, mac, port: PortId(1) };
        assert_eq!(two_ports(|c| c.fdb_fixed = vec![entry, FixedEntry { vlan: 5, ..entry }]).check(), Ok(()));
        for (wrong, expected) in [
            (FixedEntry { mac: Mac([1; 6]), ..entry }, "is a group address"),
            (FixedEntry { port: PortId(2), ..entry }, "names port 2"),
            (FixedEntry { vlan: 4095, ..entry }, "names VLAN 4095"),
            (entry, "is there twice in VLAN 0"),
        ] {
            let said = refusal(|c| c.fdb_fixed = vec![entry, wrong]);
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn the_default_queue_is_a_megabyte_or_ten_milliseconds() {
        let limit = |rate| PortConfig { rate, ..PortConfig::new("p") }.queue_limit();
        assert_eq!(limit(None), 1_000_000);
        assert_eq!(limit(Some(Rate(100_000_000))), 1_000_000);
        assert_eq!(limit(Some(Rate(10_000_000_000))), 12_500_000);
    }
}
