//! What is refused: of a switch here, of [`port`]s alone and [`together`] beside.

mod port;
mod together;

#[cfg(test)]
pub(super) mod tests;

use std::collections::{HashMap, HashSet};

use super::{Counter, FixedEntry, MAX_DELTA, MAX_FDB, MAX_PORTS, PortConfig, SwitchConfig};
use crate::{PortId, Span};

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
    pub(super) fn error(&self, key: &'static str, problem: String, remedy: String) -> ConfigError {
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
            } else if let Some(PortConfig { name, vlan: of_port, .. }) =
                self.ports.get(port.index()).filter(|port| !port.vlan.has(vlan))
            {
                (
                    format!("is in VLAN {vlan}, and port {name} is {of_port}"),
                    "write a VLAN that the port is in",
                )
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
