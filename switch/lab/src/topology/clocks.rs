//! Clock pairs: who measures against whom, and how.

use super::compensation::{Carrier, Compensation, by_transparent_clocks, carrier, compensation, transport};
use super::error::{Source, TopologyError};
use super::file::{Clock, File};
use super::flows::stream;
use super::marking::{Marks, counts, largest_count};
use super::network::{Network, Node, check_label};
use super::ports::SwitchPlan;
use crate::clock::{
    DEFAULT_INTERVAL, DEFAULT_WINDOW, DelayMechanism, FilterChoice, INTERVALS, MarkScale, Saturation,
    Transport, ntp,
};
use plimsoll_core::{EcnConfig, MarkConfig, PortConfig, config::wire_octets};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use toml::Spanned;

/// logSyncInterval of ptp4l, and minpoll of chronyd, are -7 at least.
const DAEMON_MIN_NS: u64 = 7_812_500;
/// Last octet of the address of peer delay messages over Ethernet (IEEE 1588-2019 Annex F.3).
const PEER_DELAY: u8 = 0x0E;

/// Which program a clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemon {
    /// The built-in PTP clock.
    #[default]
    Plimsoll,
    /// linuxptp's, as installed and unmodified.
    Ptp4l,
    /// chrony's, as installed and unmodified.
    Chronyd,
}

/// How chronyd's packets are authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityMode {
    /// Not at all.
    #[default]
    None,
    /// By a symmetric key for SHA-256.
    Key,
    /// By Network Time Security (RFC 8915).
    Nts,
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
    Daemon { Plimsoll = "plimsoll", Ptp4l = "ptp4l", Chronyd = "chronyd" }
    Compensation {
        None = "none",
        Clock = "clock",
        Edge = "edge",
        Host = "host",
        TransparentClock = "transparent-clock"
    }
    SecurityMode { None = "none", Key = "key", Nts = "nts" }
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
    /// How the exchange travels.
    pub transport: Transport,
    /// How PTP measures the delay of the path.
    pub delay: DelayMechanism,
    /// How chronyd's packets are authenticated.
    pub security: SecurityMode,
    /// Whether chronyd's answers carry when the one before was really sent.
    pub interleaved: bool,
    /// Interval of Sync and Delay_Req, or of requests, in nanoseconds; a power of two of a second for ptp4l and chronyd.
    pub interval_ns: u64,
    /// Who takes the marks into account.
    pub compensation: Compensation,
    /// Where the marks of its messages are.
    pub carrier: Carrier,
    /// What is made of its offsets beside themselves.
    pub filter: FilterChoice,
    /// PTP domain: pairs of one file do not hear each other.
    pub domain: u8,
    /// Seed of the instants at which the client asks.
    pub seed: u64,
    /// The most that marks of its messages can say, either way.
    pub saturated_at: Saturation,
    /// Switch ports by which messages leave for the client.
    pub to_client: Vec<Hop>,
    /// Switch ports by which messages leave for the server.
    pub to_server: Vec<Hop>,
}

impl ClockPlan {
    /// Whether it is known what it would have measured without help: of each message that it measures by, its times and
    /// what others did to it are told.
    pub fn tells_raw(&self) -> bool {
        !(self.daemon == Daemon::Ptp4l && self.delay == DelayMechanism::P2p)
    }

    /// What a mark means to this clock, in a network that marks so.
    pub(crate) fn scale(&self, counters: Option<&MarkConfig>, ecn: Option<&EcnConfig>) -> MarkScale {
        let delta_ps = match self.carrier {
            Carrier::Word => counters.map_or(0, |mark| mark.delta_ps),
            Carrier::Ecn => ecn.map_or(0, |ecn| ecn.threshold_ps),
        };
        MarkScale {
            // Nobody takes marks into account: the clock is what it is.
            delta_ps: match self.compensation {
                Compensation::None | Compensation::TransparentClock => 0,
                Compensation::Clock | Compensation::Edge | Compensation::Host => delta_ps,
            },
            saturated_at: self.saturated_at,
        }
    }

    /// The most that marks of messages for this host can say, in their word; 0 where nothing marks, and for other hosts.
    pub(crate) fn most_marks_to(&self, host: usize) -> u32 {
        let most =
            |end: usize, marks: u32| if end == host && self.carrier == Carrier::Word { marks } else { 0 };
        most(self.client, self.saturated_at.to_client).max(most(self.server, self.saturated_at.to_server))
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

pub(super) fn plan(
    source: &Source<'_>,
    raw: &File,
    network: &Network,
    switches: &[SwitchPlan],
    marks: &Marks,
    seed: u64,
) -> Result<Vec<ClockPlan>, TopologyError> {
    let mut clocks: Vec<ClockPlan> = Vec::new();
    for (index, clock) in raw.clock.iter().enumerate() {
        let (whole, clock) = (clock.span(), clock.get_ref());
        let span = clock.name.as_ref().map_or(whole, Spanned::span);
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
        let written = Written { source, clock };
        let [server, client] =
            network.pair(source, (&clock.server, "clock.server"), (&clock.client, "clock.client"))?;
        let to_client = hops(network, switches, server, client);
        let to_server = hops(network, switches, client, server);
        let both_ways = || to_client.iter().chain(&to_server);
        let way = network.way(Node::Host(server), Node::Host(client)).unwrap_or_default();
        let bridged = way.iter().any(|node| matches!(node, Node::Bridge(_)));
        let transport = written.transport();
        let delay = written.delay_mechanism(
            !bridged && both_ways().all(|hop| port(switches, hop).pass_reserved.contains(&PEER_DELAY)),
        )?;
        let (security, interleaved) = written.chronyd()?;
        let carrier = carrier(clock, marks);
        let saturated_at = |hops: &Vec<Hop>| match carrier {
            Carrier::Word => saturated_at(switches, hops, transport),
            Carrier::Ecn => 1,
        };
        clocks.push(ClockPlan {
            name,
            server,
            client,
            daemon: clock.daemon,
            transport,
            delay,
            security,
            interleaved,
            interval_ns: written.interval()?,
            compensation: by_transparent_clocks(
                source,
                clock,
                compensation(source, clock, marks)?,
                both_ways().any(|hop| port(switches, hop).transparent_clock),
            )?,
            carrier,
            filter: written.filter()?,
            domain,
            seed: stream(seed, index),
            saturated_at: Saturation {
                to_client: saturated_at(&to_client),
                to_server: saturated_at(&to_server),
            },
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

/// A `[[clock]]` with its place.
struct Written<'a> {
    source: &'a Source<'a>,
    clock: &'a Clock,
}

impl Written<'_> {
    fn error<T>(
        &self,
        written: &Spanned<T>,
        key: &str,
        problem: impl Into<String>,
        remedy: &str,
    ) -> TopologyError {
        self.source.error(Some(written.span()), format!("clock.{key}"), problem, remedy)
    }

    fn transport(&self) -> Transport {
        transport(self.clock)
    }

    /// `passed`: whether all ports on the way let 01-80-C2-00-00-0E through.
    fn delay_mechanism(&self, passed: bool) -> Result<DelayMechanism, TopologyError> {
        let Some(written) = &self.clock.delay_mechanism else { return Ok(DelayMechanism::E2e) };
        let (delay, transport) = (*written.get_ref(), self.transport());
        if delay == DelayMechanism::P2p && transport.is_ntp() {
            let remedy = "leave it out: NTP has one way to measure the delay";
            return Err(self.error(written, "delay-mechanism", "is of PTP alone", remedy));
        }
        if delay == DelayMechanism::P2p && transport == Transport::L2 && !passed {
            let problem = "a node on the way drops 01-80-C2-00-00-0E, by which peers ask over Ethernet";
            let remedy = "write pass = [\"0e\"] at every link on the way, or transport = \"udp4\"";
            return Err(self.error(written, "delay-mechanism", problem, remedy));
        }
        Ok(delay)
    }

    /// What is of chronyd alone.
    fn chronyd(&self) -> Result<(SecurityMode, bool), TopologyError> {
        let security = self.clock.security.as_ref().map_or(SecurityMode::None, |written| *written.get_ref());
        let interleaved = self.clock.interleaved.as_ref().is_some_and(|written| *written.get_ref());
        if self.clock.daemon != Daemon::Chronyd {
            let (problem, remedy) = ("is of chronyd alone", "leave it out, or write daemon = \"chronyd\"");
            if let Some(written) = self.clock.security.as_ref().filter(|_| security != SecurityMode::None) {
                return Err(self.error(written, "security", problem, remedy));
            }
            if let Some(written) = self.clock.interleaved.as_ref().filter(|_| interleaved) {
                return Err(self.error(written, "interleaved", problem, remedy));
            }
        }
        Ok((security, interleaved))
    }

    fn filter(&self) -> Result<FilterChoice, TopologyError> {
        let longest = FilterChoice::LONGEST;
        let window = self.clock.window.as_ref();
        let Some(filter) = self.clock.filter.as_ref().map(|filter| *filter.get_ref()) else {
            let Some(window) = window else { return Ok(FilterChoice::default()) };
            let remedy = "write filter = \"median-offset\", or leave it out";
            return Err(self.error(window, "window", "is of a filter, and there is none", remedy));
        };
        let length = window.map_or(DEFAULT_WINDOW, |window| *window.get_ref());
        if let Some(window) = window.filter(|_| !(1..=longest).contains(&length)) {
            let remedy = format!("write how many exchanges it is long, 1 to {longest}");
            return Err(self.error(window, "window", format!("is {length}"), &remedy));
        }
        Ok(FilterChoice { filter, window: length })
    }

    fn interval(&self) -> Result<u64, TopologyError> {
        let Some(written) = &self.clock.interval else { return Ok(DEFAULT_INTERVAL.as_nanos() as u64) };
        let fail = |problem: String, remedy: &str| Err(self.error(written, "interval", problem, remedy));
        let Some(ns) = written.get_ref().exact_nanos() else {
            return fail("has a fraction of a nanosecond".into(), "write whole nanoseconds");
        };
        if !INTERVALS.contains(&Duration::from_nanos(ns)) {
            return fail(format!("is {}", written.get_ref()), "write \"1ms\" to \"10s\"");
        }
        let power_of_two = match ns {
            1_000_000_000.. => ns.is_multiple_of(1_000_000_000) && (ns / 1_000_000_000).is_power_of_two(),
            // 2^-n s is a whole number of nanoseconds up to n = 9.
            _ => 1_000_000_000_u64.is_multiple_of(ns) && (1_000_000_000 / ns).is_power_of_two(),
        };
        let daemon = self.clock.daemon;
        if daemon != Daemon::Plimsoll && (!power_of_two || ns < DAEMON_MIN_NS) {
            let remedy = "write a power of two of a second from \"7.8125ms\" (1/128 s) on, as \"15.625ms\" or \"125ms\"";
            return fail(format!("is {}, which {daemon} cannot be told", written.get_ref()), remedy);
        }
        Ok(ns)
    }
}
