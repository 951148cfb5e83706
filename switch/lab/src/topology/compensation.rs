//! Who takes a clock's marks into account, and where they are.

use super::clocks::{Daemon, SecurityMode};
use super::error::{Source, TopologyError};
use super::file::{Clock, File};
use super::marking::{Marks, counts};
use super::network::{Network, Node};
use crate::clock::Transport;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use toml::Spanned;

/// Who takes the marks into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compensation {
    /// Nobody.
    None,
    /// The clock itself: the paper's modified clock. The built-in one only.
    Clock,
    /// The switch ports beside both hosts, by correctionField: any PTP clock profits.
    Edge,
    /// The hosts' own shims, before the daemon sees a message: any clock profits, chronyd too.
    Host,
    /// Nobody, there are no marks: transparent clocks on the way write what messages waited into correctionField.
    TransparentClock,
}

/// Where the marks of a clock's messages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// The marking word of PTP, or that of the NTP extension field: a mark is a delta.
    #[default]
    Word,
    /// Classical ECN: CE is one mark, of the threshold from which on it is made.
    Ecn,
}

/// Ports, as (switch, host), that convert marks since a clock asks for `compensation = "edge"`.
pub(super) fn edges(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    marks: &Marks,
) -> Result<HashSet<(usize, usize)>, TopologyError> {
    let mut edges = HashSet::new();
    let mut shims = HashSet::new();
    let mut measured = Vec::new();
    for clock in &raw.clock {
        let clock = clock.get_ref();
        let hosts = network.pair(source, (&clock.server, "clock.server"), (&clock.client, "clock.client"))?;
        let compensation = compensation(source, clock, marks)?;
        let way = network.way(Node::Host(hosts[0]), Node::Host(hosts[1])).unwrap_or_default();
        let beside = [way.get(1), way.get(way.len().saturating_sub(2))];
        for (host, next) in hosts.into_iter().zip(beside) {
            match (compensation, next) {
                (Compensation::Edge, Some(Node::Switch(switch))) => {
                    edges.insert((*switch, host));
                }
                (Compensation::Edge, _) => {
                    let problem = format!("no switch is beside host {}", network.hosts[host]);
                    let remedy = "put a [switch.NAME] there, or write compensation = \"none\"";
                    let span = clock.compensation.as_ref().map(Spanned::span);
                    return Err(source.error(span, "clock.compensation", problem, remedy));
                }
                (other, _) => {
                    measured.push((host, other, transport(clock).is_ntp(), clock.server.span()));
                    if other == Compensation::Host {
                        shims.insert(host);
                    }
                }
            }
        }
    }
    for (host, other, ntp, span) in measured {
        // Edges leave NTP alone.
        let by_edge = !ntp && edges.iter().any(|(_, edge)| *edge == host);
        if by_edge || (other != Compensation::Host && shims.contains(&host)) {
            let helper = if by_edge { "port to" } else { "shim of" };
            let problem = format!(
                "is \"{other}\", but another clock makes the {helper} host {} convert marks",
                network.hosts[host]
            );
            let remedy = "give this clock hosts of its own, or the same compensation";
            return Err(source.error(Some(span), "clock.compensation", problem, remedy));
        }
    }
    Ok(edges)
}

/// What carries the exchange: NTP for chronyd, PTP for others, where the file does not say.
pub(super) fn transport(clock: &Clock) -> Transport {
    match (&clock.transport, clock.daemon) {
        (Some(written), _) => written.get_ref().0,
        (None, Daemon::Chronyd) => Transport::NtpV4,
        (None, Daemon::Plimsoll | Daemon::Ptp4l) => Transport::UdpV4,
    }
}

/// Where the marks of a clock's messages are: nothing may be added to what is authenticated, so that ECN is left.
pub(super) fn carrier(clock: &Clock, marks: &Marks) -> Carrier {
    let sealed = clock.security.as_ref().is_some_and(|written| *written.get_ref() != SecurityMode::None);
    let words = marks.counters.is_some_and(|mark| counts(&mark, transport(clock)));
    if clock.daemon == Daemon::Chronyd && marks.ecn.is_some() && (sealed || !words) {
        Carrier::Ecn
    } else {
        Carrier::Word
    }
}

pub(super) fn compensation(
    source: &Source<'_>,
    clock: &Clock,
    marks: &Marks,
) -> Result<Compensation, TopologyError> {
    let (written, transport) = (clock.compensation.as_ref(), transport(clock));
    let carrier = carrier(clock, marks);
    let sealed = clock.security.as_ref().is_some_and(|written| *written.get_ref() != SecurityMode::None);
    let counted = match carrier {
        Carrier::Word => !sealed && marks.counters.is_some_and(|mark| counts(&mark, transport)),
        Carrier::Ecn => true,
    };
    let by_default = match (counted, clock.daemon) {
        (false, _) => Compensation::None,
        (true, Daemon::Plimsoll) => Compensation::Clock,
        (true, Daemon::Ptp4l) => Compensation::Edge,
        (true, Daemon::Chronyd) => Compensation::Host,
    };
    let asked = written.map_or(by_default, |c| *c.get_ref());
    let fail = |problem: String, remedy: &str| {
        Err(source.error(written.map(Spanned::span), "clock.compensation", problem, remedy))
    };
    if clock.daemon == Daemon::Ptp4l && transport.is_ntp() {
        return fail(
            "stands at a ptp4l over NTP".into(),
            "write daemon = \"plimsoll\", or a transport of PTP",
        );
    }
    if clock.daemon == Daemon::Chronyd && !transport.is_ntp() {
        let problem = format!("is {transport}, and chronyd speaks NTP");
        let remedy = "write transport = \"ntp4\" or \"ntp6\", or another daemon";
        return Err(source.error(
            clock.transport.as_ref().map(Spanned::span),
            "clock.transport",
            problem,
            remedy,
        ));
    }
    if matches!(asked, Compensation::None | Compensation::TransparentClock) {
        return Ok(asked);
    }
    if asked == Compensation::Edge && transport.is_ntp() {
        let remedy = "write \"clock\" or \"host\": NTP has no correctionField that an edge could write into";
        return fail("is \"edge\" for NTP".into(), remedy);
    }
    if asked == Compensation::Clock && clock.daemon != Daemon::Plimsoll {
        let remedy = match clock.daemon {
            Daemon::Chronyd => "write \"host\", or daemon = \"plimsoll\"",
            Daemon::Ptp4l | Daemon::Plimsoll => "write \"edge\", or daemon = \"plimsoll\"",
        };
        return fail(format!("is \"clock\", but {} does not read marks", clock.daemon), remedy);
    }
    if asked == Compensation::Host && clock.daemon == Daemon::Plimsoll {
        return fail("is \"host\", but the built-in clock reads marks itself".into(), "write \"clock\"");
    }
    if marks.counters.is_none() && marks.ecn.is_none() {
        return fail(format!("is \"{asked}\" without [marking]"), "write [marking] with delta, or \"none\"");
    }
    if !counted && sealed {
        let problem = format!("is \"{asked}\", but nothing counts in packets that are authenticated");
        return fail(problem, "write ecn-threshold in [marking], or \"none\"");
    }
    if !counted {
        let problem = format!("is \"{asked}\", but no carrier of [marking] is in this clock's messages");
        return fail(problem, "write carriers = [\"ptp\", \"ntp\"] there, or \"none\"");
    }
    Ok(asked)
}

/// The same where `some` port on the way is a transparent clock, or none is: without marks these compensate.
pub(super) fn by_transparent_clocks(
    source: &Source<'_>,
    clock: &Clock,
    compensation: Compensation,
    some: bool,
) -> Result<Compensation, TopologyError> {
    let some = some && !transport(clock).is_ntp();
    match (compensation, &clock.compensation) {
        (Compensation::None, None) if some => Ok(Compensation::TransparentClock),
        (Compensation::TransparentClock, Some(written)) if !some => {
            let problem = "is \"transparent-clock\", but no port on its way is one";
            let remedy = "write transparent-clock = true at the links on its way, and a transport of PTP";
            Err(source.error(Some(written.span()), "clock.compensation", problem, remedy))
        }
        _ => Ok(compensation),
    }
}
