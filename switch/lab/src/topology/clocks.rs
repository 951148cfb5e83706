//! Clock pairs: who measures against whom, and who takes the marks into account.

use super::error::{Source, TopologyError};
use super::file::{Clock, File};
use super::flows::stream;
use super::marking::largest_count;
use super::network::{Network, Node, check_label};
use super::ports::SwitchPlan;
use crate::clock::{MarkScale, Transport, ntp};
use plimsoll_core::{MarkConfig, PortConfig, config::wire_octets};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// Interval of Sync and Delay_Req where the file gives none: 64 a second.
const INTERVAL_NS: u64 = 15_625_000;
const INTERVAL_MIN_NS: u64 = 1_000_000;
/// logSyncInterval of ptp4l is -7 at least.
const PTP4L_MIN_NS: u64 = 7_812_500;
const INTERVAL_MAX_NS: u64 = 10_000_000_000;

/// Which program a clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemon {
    /// The built-in PTP clock.
    #[default]
    Plimsoll,
    /// linuxptp's, as installed and unmodified.
    Ptp4l,
}

/// Who takes the marks into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compensation {
    /// Nobody.
    None,
    /// The clock itself: the paper's modified clock. The built-in one only.
    Clock,
    /// The switch ports beside both hosts, by correctionField: any clock profits.
    Edge,
    /// Nobody, there are no marks: transparent clocks on the way write what messages waited into correctionField.
    TransparentClock,
}

macro_rules! named {
    ($($type:ident { $($variant:ident = $name:literal),+ })+) => {$(
        impl $type {
            /// The name in files and output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )+};
}

named! {
    Daemon { Plimsoll = "plimsoll", Ptp4l = "ptp4l" }
    Compensation { None = "none", Clock = "clock", Edge = "edge", TransparentClock = "transparent-clock" }
}

/// One clock pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockPlan {
    /// Its name.
    pub name: String,
    /// The host whose time counts.
    pub server: usize,
    /// The host that measures its offset from it.
    pub client: usize,
    /// Which program both ends run.
    pub daemon: Daemon,
    /// How PTP travels.
    pub transport: Transport,
    /// Interval of Sync and Delay_Req in nanoseconds; a power of two of a second for ptp4l.
    pub interval_ns: u64,
    /// Who takes the marks into account.
    pub compensation: Compensation,
    /// PTP domain: pairs of one file do not hear each other.
    pub domain: u8,
    /// Seed of the instants at which the client asks.
    pub seed: u64,
    /// Marks from which on a message may have waited longer than they say: the least of N and the sum of all R on the
    /// way; 0 where nothing marks.
    pub saturated_at: u32,
    /// Switch ports by which messages leave for the client.
    pub to_client: Vec<Hop>,
    /// Switch ports by which messages leave for the server.
    pub to_server: Vec<Hop>,
}

impl ClockPlan {
    /// What a mark means to this clock, in a network that marks so.
    pub(crate) fn scale(&self, marking: Option<&MarkConfig>) -> MarkScale {
        MarkScale {
            // Nobody takes marks into account: the clock is what it is.
            delta_ps: match self.compensation {
                Compensation::None | Compensation::TransparentClock => 0,
                Compensation::Clock | Compensation::Edge => marking.map_or(0, |mark| mark.delta_ps),
            },
            saturated_at: match self.saturated_at {
                0 => u32::MAX,
                marks => marks,
            },
        }
    }
}

/// A switch port on a way, as the worker numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// [`super::Topology::switches`].
    pub switch: u16,
    /// [`SwitchPlan::config`]'s ports.
    pub port: u16,
}

/// Ports, as (switch, host), that convert marks since a clock asks for `compensation = "edge"`.
pub(super) fn edges(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    marking: Option<MarkConfig>,
) -> Result<HashSet<(usize, usize)>, TopologyError> {
    let mut edges = HashSet::new();
    let mut measured = Vec::new();
    for clock in &raw.clock {
        let clock = clock.get_ref();
        let hosts = network.pair(source, (&clock.server, "clock.server"), (&clock.client, "clock.client"))?;
        let compensation = compensation(source, clock, marking)?;
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
                    let span = clock.compensation.as_ref().map(toml::Spanned::span);
                    return Err(source.error(span, "clock.compensation", problem, remedy));
                }
                (other, _) => measured.push((host, other, clock.server.span())),
            }
        }
    }
    for (host, other, span) in measured {
        if edges.iter().any(|(_, edge)| *edge == host) {
            let problem = format!(
                "is \"{other}\", but another clock makes the port to host {} convert marks",
                network.hosts[host]
            );
            let remedy = "give this clock hosts of its own, or the same compensation";
            return Err(source.error(Some(span), "clock.compensation", problem, remedy));
        }
    }
    Ok(edges)
}

fn compensation(
    source: &Source<'_>,
    clock: &Clock,
    marking: Option<MarkConfig>,
) -> Result<Compensation, TopologyError> {
    let written = clock.compensation.as_ref();
    let counted = marking.is_some_and(|mark| counts(&mark, clock.transport.0));
    let by_default = match (counted, clock.daemon) {
        (false, _) => Compensation::None,
        (true, Daemon::Plimsoll) => Compensation::Clock,
        (true, Daemon::Ptp4l) => Compensation::Edge,
    };
    let asked = written.map_or(by_default, |c| *c.get_ref());
    let fail = |problem: String, remedy: &str| {
        Err(source.error(written.map(toml::Spanned::span), "clock.compensation", problem, remedy))
    };
    if clock.daemon == Daemon::Ptp4l && clock.transport.0.is_ntp() {
        return fail(
            "stands at a ptp4l over NTP".into(),
            "write daemon = \"plimsoll\", or a transport of PTP",
        );
    }
    if matches!(asked, Compensation::None | Compensation::TransparentClock) {
        return Ok(asked);
    }
    if marking.is_none() {
        return fail(format!("is \"{asked}\" without [marking]"), "write [marking] with delta, or \"none\"");
    }
    if !counted {
        let problem = format!("is \"{asked}\", but no carrier of [marking] is in this clock's messages");
        return fail(problem, "write carriers = [\"ptp\", \"ntp\"] there, or \"none\"");
    }
    if asked == Compensation::Edge && clock.transport.0.is_ntp() {
        let remedy = "write \"clock\": NTP has no correctionField that an edge could write into";
        return fail("is \"edge\" for NTP".into(), remedy);
    }
    if asked == Compensation::Clock && clock.daemon != Daemon::Plimsoll {
        return fail(
            format!("is \"clock\", but {} does not read marks", clock.daemon),
            "write \"edge\", or daemon = \"plimsoll\"",
        );
    }
    Ok(asked)
}

/// The same where `some` port on the way is a transparent clock, or none is: without marks these compensate.
fn by_transparent_clocks(
    source: &Source<'_>,
    clock: &Clock,
    compensation: Compensation,
    some: bool,
) -> Result<Compensation, TopologyError> {
    let some = some && !clock.transport.0.is_ntp();
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

pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    switches: &[SwitchPlan],
    marking: Option<MarkConfig>,
    seed: u64,
) -> Result<Vec<ClockPlan>, TopologyError> {
    let mut clocks: Vec<ClockPlan> = Vec::new();
    for (index, clock) in raw.clock.iter().enumerate() {
        let (whole, clock) = (clock.span(), clock.get_ref());
        let span = clock.name.as_ref().map_or(whole, toml::Spanned::span);
        let name = clock.name.as_ref().map_or_else(|| format!("clock{index}"), |n| n.get_ref().clone());
        check_label(source, &span, "clock.name", &name)?;
        if clocks.iter().any(|other| other.name == name) {
            let problem = format!("there is a clock {name:?} already");
            return Err(source.error(
                Some(span),
                "clock.name",
                problem,
                "give every clock a name of its own",
            ));
        }
        let Some(domain) = u8::try_from(index).ok().filter(|domain| *domain < 128) else {
            let remedy = "write 128 clocks at most: each needs a PTP domain of its own (0..127)";
            return Err(source.error(Some(span), "clock", "there are too many", remedy));
        };
        let [server, client] =
            network.pair(source, (&clock.server, "clock.server"), (&clock.client, "clock.client"))?;
        let to_client = hops(network, switches, server, client);
        let to_server = hops(network, switches, client, server);
        clocks.push(ClockPlan {
            name,
            server,
            client,
            daemon: clock.daemon,
            transport: clock.transport.0,
            interval_ns: interval(source, clock)?,
            compensation: by_transparent_clocks(
                source,
                clock,
                compensation(source, clock, marking)?,
                to_client.iter().chain(&to_server).any(|hop| port(switches, hop).transparent_clock),
            )?,
            domain,
            seed: stream(seed, index),
            saturated_at: [&to_client, &to_server]
                .map(|hops| saturated_at(switches, hops, clock.transport.0))
                .into_iter()
                .fold(u32::MAX, u32::min),
            to_client,
            to_server,
        });
    }
    Ok(clocks)
}

/// The switch ports by which a message leaves, from one host to another.
fn hops(network: &Network, switches: &[SwitchPlan], from: usize, to: usize) -> Vec<Hop> {
    let way = network.way(Node::Host(from), Node::Host(to)).unwrap_or_default();
    way.windows(2)
        .filter_map(|pair| {
            let Node::Switch(switch) = pair[0] else { return None };
            let port = switches[switch].peers.iter().position(|peer| *peer == pair[1])?;
            Some(Hop { switch: switch as u16, port: port as u16 })
        })
        .collect()
}

fn port<'s>(switches: &'s [SwitchPlan], hop: &Hop) -> &'s PortConfig {
    &switches[usize::from(hop.switch)].config.ports[usize::from(hop.port)]
}

/// Nanoseconds by which a message takes longer to the client than to the server on idle links, as their rates and
/// delays say: what no clock can see, and half of which is its error.
pub(super) fn asymmetry_ns(switches: &[SwitchPlan], clock: &ClockPlan) -> f64 {
    let frame = wire_octets(message_octets(clock.transport));
    let takes = |hops: &[Hop]| -> f64 {
        hops.iter()
            .map(|hop| {
                let port = port(switches, hop);
                let serial = port.rate.map_or(0.0, |rate| f64::from(frame) * 8e9 / rate.0 as f64);
                serial + port.delay.0 as f64
            })
            .sum()
    };
    takes(&clock.to_client) - takes(&clock.to_server)
}

/// Whether messages of this transport have a word that is marked.
fn counts(mark: &MarkConfig, transport: Transport) -> bool {
    if transport.is_ntp() { mark.carriers.ntp } else { mark.carriers.ptp }
}

/// Octets of the frames whose delay is measured, without FCS: 44 of PTP, NTP with its extension field.
pub(crate) const fn message_octets(transport: Transport) -> u32 {
    match transport {
        Transport::L2 => 14 + 44,
        Transport::UdpV4 => 14 + 20 + 8 + 44,
        Transport::UdpV6 => 14 + 40 + 8 + 44,
        Transport::NtpV4 => 14 + 20 + 8 + ntp::LEN as u32,
        Transport::NtpV6 => 14 + 40 + 8 + ntp::LEN as u32,
    }
}

/// The most that the marks of this way can say.
fn saturated_at(switches: &[SwitchPlan], hops: &[Hop], transport: Transport) -> u32 {
    let marks = hops.iter().filter_map(|hop| port(switches, hop).mark).filter(|mark| counts(mark, transport));
    let (sum, n) = marks.fold((0_u32, u32::MAX), |(sum, n), mark| {
        (sum.saturating_add(mark.thresholds), n.min(largest_count(&mark)))
    });
    sum.min(n)
}

fn interval(source: &Source<'_>, clock: &Clock) -> Result<u64, TopologyError> {
    let Some(written) = &clock.interval else { return Ok(INTERVAL_NS) };
    let fail = |problem: String, remedy: &str| {
        Err(source.error(Some(written.span()), "clock.interval", problem, remedy))
    };
    let Some(ns) = written.get_ref().exact_nanos() else {
        return fail("has a fraction of a nanosecond".into(), "write whole nanoseconds");
    };
    if !(INTERVAL_MIN_NS..=INTERVAL_MAX_NS).contains(&ns) {
        return fail(format!("is {}", written.get_ref()), "write \"1ms\" to \"10s\"");
    }
    let power_of_two = match ns {
        1_000_000_000.. => ns.is_multiple_of(1_000_000_000) && (ns / 1_000_000_000).is_power_of_two(),
        // 2^-n s is a whole number of nanoseconds up to n = 9.
        _ => 1_000_000_000_u64.is_multiple_of(ns) && (1_000_000_000 / ns).is_power_of_two(),
    };
    if clock.daemon == Daemon::Ptp4l && (!power_of_two || ns < PTP4L_MIN_NS) {
        let remedy =
            "write a power of two of a second from \"7.8125ms\" (1/128 s) on, as \"15.625ms\" or \"125ms\"";
        return fail(format!("is {}, which ptp4l cannot be told", written.get_ref()), remedy);
    }
    Ok(ns)
}
