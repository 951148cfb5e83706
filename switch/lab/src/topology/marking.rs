//! How the whole network marks: `[marking]`, what the command line says instead, and K where ports give it.

use super::Overrides;
use super::error::{Source, TopologyError};
use super::file::{CarrierName, Count, File, Marking, Scope};
use crate::clock::Transport;
use plimsoll_core::config::MAX_COUNT;
use plimsoll_core::{
    Carriers, ConfigError, Counter, Depth, DepthScope, DepthUnit, EcnConfig, EcnScope, MarkConfig, Rate,
    Rule, Span, SwitchConfig,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use toml::Spanned;

/// Thresholds of a hop where the file gives none.
const THRESHOLDS: u32 = 32;
/// Octets of a cell where the file gives none: those of the paper's switch (IV-D).
const CELL: u32 = 80;
/// Longest delta and threshold, as the core's.
const LONGEST: Span = Span { ps: 1_000_000_000_000 };

/// How a count is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterKind {
    /// As an integer.
    Integer,
    /// As a thermometer, one bit a mark (the paper's bit shift).
    BitShift,
}

/// Where the thresholds of a hop lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdRule {
    /// At i*delta, as in the paper.
    Edge,
    /// At (i - 1/2)*delta.
    Centred,
}

/// What is marked in this network, and by what depth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Marks {
    /// Counters; with a delta of 0 until some port's K implies it.
    pub(super) counters: Option<MarkConfig>,
    /// Classical ECN.
    pub(super) ecn: Option<EcnConfig>,
    /// What the thresholds of both are compared with.
    pub(super) depth: Depth,
}

impl Marks {
    /// What `[marking]` and the command line say; a delta of 0 where ports have to imply it.
    pub(super) fn read(
        source: &Source<'_>,
        raw: &File,
        overrides: &Overrides,
    ) -> Result<Self, TopologyError> {
        let written = Written { source, raw: raw.marking.as_ref() };
        let ecn = written.ecn(overrides)?;
        let (depth, steps) = (written.depth()?, raw.has_steps());
        let counters = if written.counts(overrides, ecn.is_some(), steps) {
            Some(written.counters(overrides)?)
        } else {
            None
        };
        Ok(Self { counters, ecn, depth })
    }

    /// Refuses counters whose delta nobody has given.
    pub(super) fn check_delta(&self, source: &Source<'_>) -> Result<(), TopologyError> {
        match self.counters {
            Some(MarkConfig { delta_ps: 0, .. }) => Err(source.error(
                source.find("marking", None, ""),
                "marking.delta",
                "is not given, and no port's step implies it",
                "write delta = \"60us\": about a tenth of the waits to be removed, R times it their longest",
            )),
            _ => Ok(()),
        }
    }

    /// What can be written, but says less than one might think.
    pub(super) fn warning(&self) -> Option<String> {
        let mark = self.counters?;
        let (most, r) = (largest_count(&mark), mark.thresholds);
        let words = mark.carriers.ptp || mark.carriers.ntp;
        (words && r > most).then(|| {
            format!(
                "marking: R = {r}, but this counter ends at N = {most}: thresholds above say nothing more; write at \
                 most {most}, or another counter"
            )
        })
    }

    /// What `switch` warns of beyond [`Self::warning`], which says once for all ports that R is beyond N.
    pub(super) fn warnings(&self, switch: &SwitchConfig) -> Vec<String> {
        let said = self.warning().is_some();
        let is_new = |warning: &ConfigError| !(said && warning.key == "mark.thresholds (R)");
        switch.warnings().into_iter().filter(is_new).map(|warning| warning.to_string()).collect()
    }
}

/// N of a word: what the file allows, and what its mode can hold.
pub(crate) fn largest_count(mark: &MarkConfig) -> u32 {
    mark.counter_max.min(mark.counter.capacity())
}

/// Whether messages of this transport have a word that is marked.
pub(super) fn counts(mark: &MarkConfig, transport: Transport) -> bool {
    if transport.is_ntp() { mark.carriers.ntp } else { mark.carriers.ptp }
}

/// `[marking]` with its place.
#[derive(Clone, Copy)]
struct Written<'a> {
    source: &'a Source<'a>,
    raw: Option<&'a Spanned<Marking>>,
}

impl<'a> Written<'a> {
    fn key<T: Copy>(&self, key: impl FnOnce(&'a Marking) -> Option<T>) -> Option<T> {
        self.raw.and_then(|raw| key(raw.get_ref()))
    }

    fn error(&self, key: &str, problem: String, remedy: &str) -> TopologyError {
        let span = self.source.find("marking", None, key).or(self.raw.map(Spanned::span));
        self.source.error(span, format!("marking.{key}"), problem, remedy)
    }

    /// Whether there are counters. `[marking]` means them, unless all that it holds is about ECN and depth.
    fn counts(&self, overrides: &Overrides, ecn: bool, steps: bool) -> bool {
        let about_counters = |m: &Marking| {
            m.delta.is_some()
                || m.thresholds.is_some()
                || m.rule.is_some()
                || m.counter_max.is_some()
                || m.counter.is_some()
                || m.forward_reverse.is_some()
                || m.carriers.is_some()
        };
        overrides.delta.is_some()
            || self.raw.is_some_and(|raw| steps || !ecn || about_counters(raw.get_ref()))
    }

    fn counters(&self, overrides: &Overrides) -> Result<MarkConfig, TopologyError> {
        let shift = overrides.counter.or(self.key(|m| m.counter)) == Some(CounterKind::BitShift);
        let both = overrides.forward_reverse.or(self.key(|m| m.forward_reverse)).unwrap_or(false);
        let counter = match (shift, both) {
            (false, false) => Counter::Integer,
            (true, false) => Counter::Shift,
            (false, true) => Counter::IntegerBoth,
            (true, true) => Counter::ShiftBoth,
        };
        let counter_max = overrides.counter_max.or(self.key(|m| m.counter_max)).unwrap_or(MAX_COUNT);
        if !(1..=MAX_COUNT).contains(&counter_max) {
            let remedy = "write 1 to 1073741823 (2^30 - 1)";
            return Err(self.error("counter-max", format!("N is {counter_max}"), remedy));
        }
        let most = counter_max.min(counter.capacity());
        let thresholds = overrides.thresholds.or(self.key(|m| m.thresholds)).unwrap_or(THRESHOLDS.min(most));
        if !(1..=counter_max).contains(&thresholds) {
            let remedy = "write R from 1 to N, the largest value of the counter";
            return Err(self.error(
                "thresholds",
                format!("R is {thresholds} with N = {counter_max}"),
                remedy,
            ));
        }
        let delta = overrides.delta.or(self.key(|m| m.delta));
        if let Some(delta) = delta {
            self.check_span("delta", delta, "60us")?;
        }
        let config = MarkConfig::new(thresholds, delta.map_or(0, |delta| delta.ps));
        let rule = match overrides.rule.or(self.key(|m| m.rule)) {
            Some(ThresholdRule::Centred) => Rule::Centred,
            Some(ThresholdRule::Edge) | None => Rule::Edge,
        };
        Ok(MarkConfig { counter_max, rule, counter, carriers: self.carriers()?, ..config })
    }

    fn carriers(&self) -> Result<Carriers, TopologyError> {
        let Some(names) = self.raw.and_then(|raw| raw.get_ref().carriers.as_ref()) else {
            return Ok(MarkConfig::new(1, 1).carriers);
        };
        if names.is_empty() {
            let remedy = "name at least one of \"ptp\", \"ntp\", \"ecn\", or leave it out for ptp and ntp";
            return Err(self.error("carriers", "names none".into(), remedy));
        }
        let has = |name| names.contains(&name);
        Ok(Carriers { ptp: has(CarrierName::Ptp), ntp: has(CarrierName::Ntp), ecn: has(CarrierName::Ecn) })
    }

    fn ecn(&self, overrides: &Overrides) -> Result<Option<EcnConfig>, TopologyError> {
        let scope = self.key(|m| m.ecn_scope);
        let Some(threshold) = overrides.ecn_threshold.or(self.key(|m| m.ecn_threshold)) else {
            return match scope {
                Some(_) => {
                    let problem = "is given, but no threshold from which on ECN marks".into();
                    Err(self.error("ecn-scope", problem, "write ecn-threshold = \"120us\", or leave it out"))
                }
                None => Ok(None),
            };
        };
        self.check_span("ecn-threshold", threshold, "120us")?;
        let scope = match scope {
            None | Some(Scope::Sync) => EcnScope::Sync,
            Some(Scope::All) => EcnScope::All,
        };
        Ok(Some(EcnConfig { threshold_ps: threshold.ps, scope }))
    }

    fn depth(&self) -> Result<Depth, TopologyError> {
        let (count, cell) = (self.key(|m| m.count).unwrap_or_default(), self.key(|m| m.cell));
        if cell.is_some() && count != Count::Cells {
            let problem = "is the cell of count = \"cells\" alone".into();
            return Err(self.error("cell", problem, "write count = \"cells\", or leave it out"));
        }
        let unit = match count {
            Count::Exact => DepthUnit::Exact,
            Count::Frames => DepthUnit::Frames { in_service: true },
            Count::FramesWaiting => DepthUnit::Frames { in_service: false },
            Count::Cells => match u32::try_from(cell.map_or(u64::from(CELL), |cell| cell.0)) {
                Ok(octets @ 1..=16_384) => DepthUnit::Cells { octets },
                _ => {
                    let problem = format!("is {} B", cell.map_or(0, |cell| cell.0));
                    return Err(self.error("cell", problem, "write \"1B\" to \"16384B\", as \"80B\""));
                }
            },
        };
        Ok(Depth { scope: self.key(|m| m.depth).map_or(DepthScope::Ahead, Into::into), unit })
    }

    fn check_span(&self, key: &str, span: Span, example: &str) -> Result<(), TopologyError> {
        if (1..=LONGEST.ps).contains(&span.ps) {
            return Ok(());
        }
        let remedy = format!("write a time above 0 and up to 1s, as \"{example}\"");
        Err(self.error(key, format!("is {span}"), &remedy))
    }
}

/// K as written at one port.
pub(super) struct Step<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) span: Range<usize>,
    pub(super) key: &'a str,
    pub(super) octets: u64,
    pub(super) rate: Option<Rate>,
}

impl Step<'_> {
    /// Checks this K against delta and the Ks before it (`implied`), or takes delta from it.
    pub(super) fn agree<'a>(
        &self,
        counters: &mut Option<MarkConfig>,
        implied: &mut Option<(u64, Rate, &'a str)>,
        port: &'a str,
    ) -> Result<(), TopologyError> {
        let fail = |problem: String, remedy: &str| {
            Err(self.source.error(Some(self.span.clone()), self.key, problem, remedy))
        };
        let Some(mark) = counters else {
            return fail("there is no [marking]".into(), "write [marking] with delta and thresholds");
        };
        let Some(rate) = self.rate else {
            return fail("K octets are a time only at a rate".into(), "write rate beside it, as \"100mbit\"");
        };
        if self.octets == 0 {
            return fail("K is 0".into(), "write octets above 0, as \"750B\"");
        }
        let Some(exact) = rate.ps_for(self.octets).and_then(|ps| u64::try_from(ps).ok()) else {
            return fail("K is too large".into(), "write less");
        };
        let one = "write one delta in [marking] and leave step out: each port derives K = delta*rate/8";
        if let Some((octets, other, name)) = *implied
            && u128::from(octets) * u128::from(rate.0) != u128::from(self.octets) * u128::from(other.0)
        {
            let before = Span { ps: other.ps_for(octets).unwrap_or(0) as u64 };
            let problem = format!(
                "K = {} B at {rate} implies delta = {}, the port to {name} implies {before}",
                self.octets,
                Span { ps: exact }
            );
            return fail(problem, one);
        }
        if implied.is_none() {
            if mark.delta_ps == 0 {
                mark.delta_ps = exact;
            } else if mark.k_octets(rate).abs_diff(u128::from(self.octets)) > 1 {
                let problem = format!(
                    "K = {} B at {rate} implies delta = {}, [marking] says {}",
                    self.octets,
                    Span { ps: exact },
                    Span { ps: mark.delta_ps }
                );
                return fail(problem, one);
            }
            *implied = Some((self.octets, rate, port));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(marking: &str) -> Result<Marks, TopologyError> {
        with(marking, &Overrides::default())
    }

    fn with(marking: &str, overrides: &Overrides) -> Result<Marks, TopologyError> {
        let raw: File = toml::from_str(marking).unwrap();
        Marks::read(&Source { file: "net.toml", text: marking }, &raw, overrides)
    }

    #[test]
    fn ecn_alone_needs_no_delta_and_has_no_counters() {
        let marks =
            read("[marking]\necn-threshold = \"120us\"\ndepth = \"queue\"\ncount = \"frames-waiting\"")
                .unwrap();
        assert_eq!(marks.counters, None);
        assert_eq!(marks.ecn, Some(EcnConfig { threshold_ps: 120_000_000, scope: EcnScope::Sync }));
        let unit = DepthUnit::Frames { in_service: false };
        assert_eq!(marks.depth, Depth { scope: DepthScope::Queue, unit });
        // Any key of counters asks for them, and so for delta.
        for key in
            ["counter = \"integer\"", "thresholds = 4", "carriers = [\"ptp\"]", "forward-reverse = false"]
        {
            let marks = read(&format!("[marking]\necn-threshold = \"1us\"\n{key}")).unwrap();
            assert_eq!(marks.counters.map(|mark| mark.delta_ps), Some(0), "{key}");
        }
        let stepped = "[marking]\necn-threshold = \"1us\"\n[[port]]\nname = \"e1\"\nstep = \"750B\"";
        assert!(read(stepped).unwrap().counters.is_some());
        assert_eq!(read("").unwrap(), Marks::default());
    }

    #[test]
    fn each_counter_has_the_thresholds_that_it_can_tell() {
        for (keys, counter, thresholds, warned) in [
            ("", Counter::Integer, 32, None),
            ("counter = \"bit-shift\"", Counter::Shift, 29, None),
            ("forward-reverse = true", Counter::IntegerBoth, 32, None),
            ("counter = \"bit-shift\"\nforward-reverse = true", Counter::ShiftBoth, 14, None),
            (
                "counter = \"bit-shift\"\nthresholds = 30",
                Counter::Shift,
                30,
                Some("R = 30, but this counter ends at N = 29"),
            ),
            ("counter-max = 9", Counter::Integer, 9, None),
        ] {
            let marks = read(&format!("[marking]\ndelta = \"60us\"\n{keys}")).unwrap();
            let mark = marks.counters.unwrap();
            assert_eq!((mark.counter, mark.thresholds), (counter, thresholds), "{keys}");
            assert_eq!(marks.warning().is_some(), warned.is_some(), "{keys}");
            assert!(
                marks.warning().unwrap_or_default().contains(warned.unwrap_or("")),
                "{:?}",
                marks.warning()
            );
        }
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let overrides = Overrides {
            counter: Some(CounterKind::BitShift),
            forward_reverse: Some(true),
            counter_max: Some(7),
            rule: Some(ThresholdRule::Centred),
            ecn_threshold: Some(Span { ps: 5 }),
            ..Overrides::default()
        };
        let text = "[marking]\ndelta = \"60us\"\ncounter = \"integer\"\ncounter-max = 9\necn-threshold = \"1us\"\necn-scope = \
                    \"all\"";
        let marks = with(text, &overrides).unwrap();
        let mark = marks.counters.unwrap();
        assert_eq!((mark.counter, mark.counter_max, mark.thresholds), (Counter::ShiftBoth, 7, 7));
        assert_eq!(mark.rule, Rule::Centred);
        assert_eq!(marks.ecn, Some(EcnConfig { threshold_ps: 5, scope: EcnScope::All }));
    }

    #[test]
    fn cells_are_those_of_the_papers_switch_unless_said() {
        let unit =
            |keys: &str| read(&format!("[marking]\ndelta = \"1us\"\n{keys}")).map(|marks| marks.depth.unit);
        assert_eq!(unit("count = \"cells\""), Ok(DepthUnit::Cells { octets: 80 }));
        assert_eq!(unit("count = \"cells\"\ncell = \"208B\""), Ok(DepthUnit::Cells { octets: 208 }));
        assert_eq!(unit("count = \"frames\""), Ok(DepthUnit::Frames { in_service: true }));
        assert_eq!(unit(""), Ok(DepthUnit::Exact));
    }

    #[test]
    fn whatever_is_wrong_is_said_with_place_key_and_remedy() {
        for (keys, expected) in [
            (
                "cell = \"80B\"",
                "net.toml:3:8: marking.cell: is the cell of count = \"cells\" alone; write count",
            ),
            (
                "count = \"cells\"\ncell = \"0B\"",
                "net.toml:4:8: marking.cell: is 0 B; write \"1B\" to \"16384B\", as \"80B\"",
            ),
            (
                "ecn-scope = \"all\"",
                "net.toml:3:13: marking.ecn-scope: is given, but no threshold from which on",
            ),
            (
                "ecn-threshold = \"2s\"",
                "net.toml:3:17: marking.ecn-threshold: is 2s; write a time above 0 and up to 1s",
            ),
            ("carriers = []", "net.toml:3:12: marking.carriers: names none; name at least one of \"ptp\""),
        ] {
            let message = read(&format!("[marking]\ndelta = \"60us\"\n{keys}")).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{keys}\n  got  {message}\n  want {expected}");
        }
        for (keys, expected) in [
            ("counter = \"shift\"", "marking.counter: unknown value \"shift\"; write integer or bit-shift"),
            ("carriers = [\"udp\"]", "marking.carriers: unknown value \"udp\"; write one of ptp, ntp, ecn"),
            ("depth = \"all\"", "marking.depth: unknown value \"all\"; write one of ahead, queue, port"),
            (
                "count = \"bytes\"",
                "marking.count: unknown value \"bytes\"; write one of exact, frames, frames-waiting, cells",
            ),
            ("ecn-scope = \"ptp\"", "marking.ecn-scope: unknown value \"ptp\"; write sync or all"),
            (
                "ecn-threshold = 120",
                "net.toml:3:17: marking.ecn-threshold: \"120\" has no unit; write for example",
            ),
        ] {
            let text = format!("[marking]\ndelta = \"60us\"\n{keys}");
            let error = toml::from_str::<File>(&text).unwrap_err();
            let message = Source { file: "net.toml", text: &text }.parse_error(&error).to_string();
            assert!(message.contains(expected), "{keys}\n  got  {message}\n  want {expected}");
        }
    }
}
