//! What ports refuse together: one delta in a network, edges with counts that they can convert, ECN bits of one meaning.

use super::ConfigError;
use crate::{
    Span,
    config::{PortConfig, SwitchConfig},
    wire::word::Word,
};

impl SwitchConfig {
    /// A mark must mean the same time at every hop, so all ports of a network share one delta.
    pub(super) fn check_delta(&self) -> Result<(), ConfigError> {
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
    pub(super) fn check_edges(&self) -> Result<(), ConfigError> {
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
    pub(super) fn check_ecn(&self) -> Result<(), ConfigError> {
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
}
