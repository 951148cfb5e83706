//! What works, but says less than one might think.

use super::{ConfigError, PortConfig, SwitchConfig};
use crate::mark::ecn_capacity;

impl SwitchConfig {
    /// What works, but not as one might think: said in the form of an error, refused by nobody.
    pub fn warnings(&self) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        if let [only] = self.ports.as_slice() {
            let problem = format!("has {} alone, and a switch with one port forwards nothing", only.name);
            warnings.push(self.error("ports", problem, "give it a second one".into()));
        }
        warnings.extend(self.ports.iter().flat_map(|port| port.warnings(&self.name)));
        warnings
    }
}

impl PortConfig {
    /// What cannot be reached: octets that frames do not fill, thresholds that the queue's depth stays below.
    fn warnings(&self, switch: &str) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        let (octets, frames, most) = (self.queue_limit(), self.frames_limit(), self.octets_of_frames());
        if self.queue_bytes.is_some() && octets > most {
            let problem =
                format!("is {octets} B, but ends at {frames} frames: {most} B of full frames (MTU 1500)");
            warnings.push(self.error(switch, "queue", problem, format!("write at most {most} B")));
        }
        if let Some(mark) = self.mark {
            let words = mark.carriers.ptp || mark.carriers.ntp;
            let n = if words { mark.counter.capacity() } else { ecn_capacity(mark.counter) };
            if mark.thresholds > n {
                let problem = format!("is {}, but the counter ends at N = {n}", mark.thresholds);
                let remedy = format!("write at most {n}, or another counter");
                warnings.push(self.error(switch, "mark.thresholds (R)", problem, remedy));
            }
        }
        let limit = octets.min(most);
        if let (Some(rate), Some(mark)) = (self.rate, self.mark) {
            let highest = mark.k_octets(rate) * u128::from(mark.thresholds);
            if highest > u128::from(limit) {
                let remedy = if highest > u128::from(most) {
                    "write a smaller R or delta".into()
                } else {
                    format!("write a queue of at least {highest} B, or a smaller R or delta")
                };
                let problem = format!("highest threshold R*K = {highest} B is beyond the queue's {limit} B");
                warnings.push(self.error(switch, "mark", problem, remedy));
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        check::tests::{mark, two_ports},
        *,
    };

    #[test]
    fn a_switch_of_one_port_is_warned_of() {
        let config = two_ports(|c| drop(c.ports.pop()));
        let told: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        let one = "switch s1, ports: has a alone, and a switch with one port forwards nothing; give it a second one";
        assert_eq!(told, [one]);
    }

    #[test]
    fn thresholds_beyond_the_counter_are_warned_of() {
        let warning = |counter, carriers| {
            let config = two_ports(|c| {
                *mark(c, 0) = MarkConfig { counter, carriers, ..MarkConfig::new(16, 1_000_000) }
            });
            config.warnings().first().map(ToString::to_string)
        };
        let words = Carriers { ptp: true, ntp: false, ecn: true };
        let ecn = Carriers { ptp: false, ntp: false, ecn: true };
        let says = |n| {
            Some(format!(
                "switch s1, port a, mark.thresholds (R): is 16, but the counter ends at N = {n}; write at most {n}, or \
                 another counter"
            ))
        };
        assert_eq!(warning(Counter::Integer, words), None);
        assert_eq!(warning(Counter::Shift, words), None);
        assert_eq!(warning(Counter::ShiftBoth, words), says(14));
        assert_eq!(warning(Counter::Integer, ecn), says(3));
        assert_eq!(warning(Counter::IntegerBoth, ecn), says(1));
    }

    #[test]
    fn the_frames_limit_follows_the_octets_and_what_ends_a_queue_is_said() {
        let frames = |octets| PortConfig { queue_bytes: Some(octets), ..PortConfig::new("p") }.frames_limit();
        assert_eq!([84, 84_000, 10_000_000].map(frames), [64, 1000, 8192]);
        let warned = |octets| two_ports(|c| c.ports[0].queue_bytes = Some(octets)).warnings();
        assert_eq!(warned(10_000_000), []);
        let said = warned(20_000_000)[0].to_string();
        assert!(said.contains("is 20000000 B, but ends at 8192 frames: 12599296 B"), "{said}");
        // R*K = 15 MB: the octets would do, the frames do not.
        let config = two_ports(|c| {
            c.ports[0].queue_bytes = Some(12_000_000_000);
            mark(c, 0).thresholds = 20_000;
        });
        let said = config.warnings()[1].to_string();
        assert!(
            said.contains("R*K = 15000000 B is beyond the queue's 12599296 B; write a smaller R"),
            "{said}"
        );
    }

    #[test]
    fn thresholds_beyond_the_queue_are_warned_of() {
        // K = 60 us * 100 Mbit/s / 8 = 750 B, times 4000 = 3 MB, and the queue holds 1 MB.
        let config = two_ports(|c| mark(c, 0).thresholds = 4000);
        assert_eq!(config.check(), Ok(()));
        assert!(config.warnings()[0].to_string().contains("R*K = 3000000 B is beyond the queue's 1000000 B"));
    }
}
