//! A port's keys as the core's configuration, whether of a link's direction or of a `[[port]]`.

use super::error::{Source, TopologyError};
use super::file::{EctName, Storm};
use super::marking::Marks;
use super::values::{Reserved, VlanText};
use plimsoll_core::{ByteCount, Carriers, MarkConfig, Nanos, PortConfig, Rate, Span};

/// What is written of a port.
pub(super) struct PortKeys<'a> {
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Span>,
    pub(super) quanta: Vec<ByteCount>,
    pub(super) queue: Option<ByteCount>,
    pub(super) queue_frames: Option<u32>,
    pub(super) mark: Option<bool>,
    pub(super) ecn: Option<bool>,
    pub(super) transparent_clock: bool,
    pub(super) edge: bool,
    pub(super) remark: Option<EctName>,
    pub(super) trust: bool,
    pub(super) vlan: Option<&'a VlanText>,
    pub(super) storm: Option<Storm>,
    pub(super) class: Option<u8>,
    pub(super) sync_class: Option<u8>,
    pub(super) pass: &'a [Reserved],
}

/// The table of the file that they are in.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) table: &'static str,
    pub(super) number: usize,
}

impl Place<'_> {
    fn error(&self, key: &str, problem: &str, remedy: &str) -> TopologyError {
        let find = |key| self.source.find(self.table, Some(self.number), key);
        self.source.error(find(key).or_else(|| find("")), format!("{}.{key}", self.table), problem, remedy)
    }
}

impl PortKeys<'_> {
    /// The port `name` in a network that marks so.
    ///
    /// Ports with a rate mark unless told otherwise; a transparent clock counts nothing, for it corrects the whole
    /// delay. `mark = false` is for ECN too, unless `ecn` says otherwise.
    pub(super) fn port(
        &self,
        name: &str,
        marks: &Marks,
        place: Place<'_>,
    ) -> Result<PortConfig, TopologyError> {
        let mut port = PortConfig::new(name);
        port.rate = self.rate;
        port.delay = Nanos(self.delay.map_or(0, |delay| delay.nanos()));
        port.quanta = self.quanta.iter().map(|quantum| quantum.0).collect();
        port.queue_bytes = self.queue.map(|queue| queue.0);
        port.queue_frames = self.queue_frames;
        port.trust = self.trust;
        port.vlan = self.vlan.map(|vlan| vlan.0.clone()).unwrap_or_default();
        port.storm = self.storm.map(Into::into);
        port.default_priority = self.class.unwrap_or(0);
        port.sync_class = self.sync_class;
        port.pass_reserved = self.pass.iter().map(|octet| octet.0).collect();
        port.transparent_clock = self.transparent_clock;
        port.remark = self.remark.map(Into::into);
        port.edge = self.edge;
        port.depth = marks.depth;
        if self.mark == Some(true) && marks.counters.is_none() && marks.ecn.is_none() {
            let remedy = "write [marking] with delta and thresholds";
            return Err(place.error("mark", "there is no [marking]", remedy));
        }
        if self.edge && marks.counters.is_none() {
            let remedy = "write [marking] with delta and thresholds, or leave edge out";
            return Err(place.error("edge", "there is no [marking] with counts, so no delta", remedy));
        }
        let counted = marks.counters.is_some_and(|mark| mark.carriers.ecn);
        if self.ecn == Some(true) && marks.ecn.is_none() && !counted {
            let remedy = "write ecn-threshold = \"120us\" in [marking], or leave ecn out";
            return Err(place.error("ecn", "there is no threshold from which on ECN marks", remedy));
        }
        let counts = self.rate.is_some() && !self.transparent_clock;
        let (words, bits) = (self.mark.unwrap_or(counts), self.ecn.or(self.mark).unwrap_or(counts));
        port.mark = marks.counters.and_then(|mark| with_carriers(mark, words, bits));
        port.ecn = marks.ecn.filter(|_| self.ecn.or(self.mark).unwrap_or(self.rate.is_some()));
        Ok(port)
    }
}

/// Counters in those of their carriers that the port marks: words, and the bits of ECN.
fn with_carriers(mark: MarkConfig, words: bool, bits: bool) -> Option<MarkConfig> {
    let Carriers { ptp, ntp, ecn } = mark.carriers;
    let carriers = Carriers { ptp: ptp && words, ntp: ntp && words, ecn: ecn && bits };
    let any = carriers.ptp || carriers.ntp || carriers.ecn;
    any.then_some(MarkConfig { carriers, ..mark })
}

#[cfg(test)]
mod tests {
    use super::super::{Overrides, RunFile, Topology};
    use plimsoll_core::{Counter, EcnConfig, EcnScope, Ect};

    /// Hosts a and b at two switches; `keys` are of the link between these.
    fn two_switches(marking: &str, keys: &str) -> String {
        format!(
            "[marking]\n{marking}\n[switch.s1]\n[switch.s2]\n[host.a]\n[host.b]\n[[link]]\nbetween = [\"a\", \"s1\"]\nrate = \
             \"100mbit\"\n[[link]]\nbetween = [\"s1\", \"s2\"]\nrate = \"100mbit\"\n{keys}\n[[link]]\nbetween = [\"s2\", \
             \"b\"]\nrate = \"100mbit\"\n"
        )
    }

    fn parse(text: &str) -> Topology {
        Topology::parse("net.toml", text, &Overrides::default()).unwrap()
    }

    fn refusal(text: &str) -> String {
        Topology::parse("net.toml", text, &Overrides::default()).map(drop).unwrap_err().to_string()
    }

    const BOTH: &str = "delta = \"60us\"\necn-threshold = \"120us\"";

    /// (counters, classical ECN) of the ports s1 -> s2 and s2 -> s1.
    fn marked(text: &str) -> [(bool, bool); 2] {
        let t = parse(text);
        [&t.switches[0].config.ports[1], &t.switches[1].config.ports[0]]
            .map(|port| (port.mark.is_some(), port.ecn.is_some()))
    }

    #[test]
    fn a_hop_without_marks_has_no_ecn_either_unless_it_says_so() {
        assert_eq!(marked(&two_switches(BOTH, "")), [(true, true); 2]);
        assert_eq!(marked(&two_switches(BOTH, "mark = false")), [(false, false); 2]);
        assert_eq!(marked(&two_switches(BOTH, "ecn = false")), [(true, false); 2]);
        assert_eq!(marked(&two_switches(BOTH, "mark = false\necn = true")), [(false, true); 2]);
        let one_way = "mark = { to-s2 = false }\necn = { to-s1 = false }";
        assert_eq!(marked(&two_switches(BOTH, one_way)), [(false, false), (true, false)]);
        // Without a rate there is no depth to mark by.
        let text =
            two_switches(BOTH, "").replacen("[\"s1\", \"s2\"]\nrate = \"100mbit\"", "[\"s1\", \"s2\"]", 1);
        assert_eq!(marked(&text), [(false, false); 2]);
    }

    #[test]
    fn modified_ecn_is_a_carrier_that_a_hop_can_leave_out() {
        let carriers = |keys: &str| {
            let t = parse(&two_switches("delta = \"60us\"\ncarriers = [\"ptp\", \"ecn\"]", keys));
            t.switches[0].config.ports[1]
                .mark
                .map(|mark| (mark.carriers.ptp, mark.carriers.ntp, mark.carriers.ecn))
        };
        assert_eq!(carriers(""), Some((true, false, true)));
        assert_eq!(carriers("ecn = false"), Some((true, false, false)));
        assert_eq!(carriers("mark = false"), None);
        assert_eq!(carriers("mark = false\necn = true"), Some((false, false, true)));
        let only = two_switches("delta = \"60us\"\ncarriers = [\"ecn\"]", "ecn = false");
        assert_eq!(marked(&only), [(false, false); 2]);
    }

    #[test]
    fn transparent_clocks_count_nothing_and_go_by_direction() {
        let t = parse(&two_switches(BOTH, "transparent-clock = { to-s2 = true }"));
        let [to_s2, to_s1] = [&t.switches[0].config.ports[1], &t.switches[1].config.ports[0]];
        assert_eq!((to_s2.transparent_clock, to_s2.mark, to_s2.ecn.is_some()), (true, None, true));
        assert!(!to_s1.transparent_clock && to_s1.mark.is_some());
        let text = two_switches("delta = \"60us\"", "transparent-clock = { to-s1 = true }\nmark = true");
        assert_eq!(
            refusal(&text),
            "net.toml:13:21: link.transparent-clock: switch s2, port s1: stands beside mark: the delay would be corrected \
             twice; leave one of them out, as mark = false"
        );
    }

    #[test]
    fn remark_is_of_packets_from_hosts() {
        let text = two_switches("ecn-threshold = \"1ms\"", "").replacen(
            "between = [\"a\", \"s1\"]",
            "between = [\"a\", \"s1\"]\nremark = \"ect1\"",
            1,
        );
        let t = parse(&text);
        let remarks: Vec<_> =
            t.switches.iter().flat_map(|s| s.config.ports.iter().map(|port| port.remark)).collect();
        assert_eq!(remarks, [Some(Ect::One), None, None, None]);
        assert_eq!(
            refusal(&two_switches(BOTH, "remark = \"ect0\"")),
            "net.toml:14:10: link.remark: is of packets that hosts send, and both ends of this link are switches; write it \
             at the links of the hosts"
        );
    }

    #[test]
    fn ports_of_interfaces_have_the_same_keys() {
        let text = "[marking]\ndelta = \"51200ns\"\ncounter = \"bit-shift\"\nforward-reverse = true\ndepth = \"port\"\ncount = \
                    \"cells\"\necn-threshold = \"120us\"\necn-scope = \"all\"\n[[port]]\nname = \"e1\"\nrate = \
                    \"100mbit\"\nremark = \"ect0\"\nqueue-frames = 70000\necn = false\n[[port]]\nname = \"e2\"\nrate = \
                    \"100mbit\"\ntransparent-clock = true";
        let file = RunFile::parse("run.toml", text, &Overrides::default()).unwrap();
        let [e1, e2] = &file.switches[0].config.ports[..] else { panic!() };
        assert_eq!((e1.remark, e1.queue_frames, e1.ecn), (Some(Ect::Zero), Some(70_000), None));
        assert_eq!(e1.mark.map(|mark| (mark.counter, mark.thresholds)), Some((Counter::ShiftBoth, 14)));
        let ecn = EcnConfig { threshold_ps: 120_000_000, scope: EcnScope::All };
        assert_eq!((e2.transparent_clock, e2.mark, e2.ecn), (true, None, Some(ecn)));
        let message = |text: &str| {
            RunFile::parse("run.toml", text, &Overrides::default()).map(drop).unwrap_err().to_string()
        };
        assert_eq!(
            message(
                &text
                    .replace("true\ndepth", "true\ncarriers = [\"ecn\"]\ndepth")
                    .replace("\necn = false", "")
            ),
            "run.toml:8:17: marking.ecn-threshold: switch switch, port e1: use the ECN bits as a counter and as RFC \
             3168 does; leave out modified ECN, or both ecn-threshold and remark"
        );
        assert!(
            message("[[port]]\nname = \"e1\"\n[[port]]\nname = \"e2\"\nclass = 9")
                .starts_with("run.toml:5:9: port.class: switch switch, port e2: is 9; write 0 to 7")
        );
    }

    #[test]
    fn what_the_core_refuses_is_told_with_the_place_in_the_file() {
        for (text, expected) in [
            (
                two_switches("delta = \"60us\"\ncount = \"cells\"\ncell = \"80B\"", ""),
                "net.toml:4:8: marking.cell: switch s1, port a: K = 750 B is no cell of 80 B times a power of two; write delta \
                 as 51200ns or 102400ns",
            ),
            (
                two_switches("delta = \"60us\"\nforward-reverse = true", "edge = true"),
                "net.toml:14:8: link.edge: switch s1, port s2: converts marks, but those of this switch count requests and \
                 responses apart; write forward-reverse = false",
            ),
            (
                two_switches(BOTH, "queue = \"10B\""),
                "net.toml:14:9: link.queue: switch s1, port s2: is 10; write 84 to",
            ),
            (
                two_switches(BOTH, "storm = { frames-per-second = 5, burst = 0 }"),
                "net.toml:14:42: link.storm.burst: switch s1, port s2: is 0; write 1 to",
            ),
            (
                two_switches(BOTH, "queue-frames = 0"),
                "link.queue-frames: switch s1, port s2: is 0; write 1 to 1048576",
            ),
            (
                two_switches("delta = \"60us\"", "ecn = true"),
                "link.ecn: there is no threshold from which on ECN",
            ),
            (
                two_switches("ecn-threshold = \"60us\"", "edge = true"),
                "net.toml:13:8: link.edge: there is no [marking] with counts, so no delta",
            ),
            (
                two_switches(BOTH, "transparent-clock = { to-x = true }"),
                "link.transparent-clock: to-x: x is not at this link; write to-s1 or to-s2",
            ),
        ] {
            let message = refusal(&text);
            assert!(message.contains(expected), "{text}\n  got  {message}\n  want {expected}");
        }
    }
}
