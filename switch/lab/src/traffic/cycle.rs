//! Flows that come and go.

/// From `start_ns` after its begin on a flow runs for `on_ns`, pauses for `off_ns`, and so on, always the same. Its law
/// and its rate are those of the time that it runs; what a pause cuts goes on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Before the first time that it runs, in nanoseconds.
    pub start_ns: u64,
    /// How long it runs, in nanoseconds, at least 1.
    pub on_ns: u64,
    /// How long it pauses, in nanoseconds.
    pub off_ns: u64,
}

impl Cycle {
    /// When it is, in nanoseconds since the flow's begin, that the flow has run for so long.
    pub const fn at(self, ran_ns: u64) -> u64 {
        let (times, rest) = (ran_ns / self.on_ns, ran_ns % self.on_ns);
        self.start_ns + times * (self.on_ns + self.off_ns) + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_s_time_stands_still_in_its_pauses() {
        let cycle = Cycle { start_ns: 5, on_ns: 60, off_ns: 20 };
        assert_eq!([0, 59, 60, 119, 120].map(|ran| cycle.at(ran)), [5, 64, 85, 144, 165]);
    }
}
