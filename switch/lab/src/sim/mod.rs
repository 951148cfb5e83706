//! The same labs in virtual time: discrete events over the core that also runs on real frames.
//!
//! Hosts send into their own links, frames take the switches' ports and links as [`plimsoll_core::Switch`] decides, time
//! messages are real octets that real markers change, and what comes of it is told in the same tables. What differs from
//! a lab on veth: nothing is ever late, hosts take no time, and a host's link may have a rate (`uplink`).
//!
//! A file and a seed give the same figures on every machine: sources of events have an order among themselves, and
//! nothing depends on addresses in memory, hashing or the system's mathematics.
//!
//! | file | idea |
//! |---|---|
//! | `world.rs`, `agenda.rs` | the loop, and what happens next |
//! | `node.rs`, `line.rs`, `net.rs` | switches, links, and what is on them |
//! | `frames.rs`, `octets.rs` | frames in memory, and what hosts write into them |
//! | `flow.rs`, `ptp.rs`, `ntp.rs` | who sends |
//! | `truth.rs`, `repeat.rs` | what comes of it, once and several times |
//! | `build.rs` | from a plan to a network |

mod agenda;
mod build;
mod flow;
mod frames;
mod line;
mod net;
mod node;
mod ntp;
mod octets;
mod ptp;
mod repeat;
mod truth;
mod world;

pub use repeat::{Headline, Repeated, repeat};

use crate::lab::Progress;
use crate::record::{RecordClock, RecordError, RecordFile, Sink, Window};
use crate::results::{ClockOutcome, HostOutcome, Outcome};
use crate::topology::{Daemon, Topology, message_octets};
use crate::traffic::TrafficError;
use plimsoll_core::{ConfigError, Nanos, Rate, config::wire_octets};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use truth::Truth;
use world::{Clock, World};

/// Difference of two hosts' uplinks from which on a warning is due.
const ASYMMETRY_NS: f64 = 100.0;

/// What a simulation is asked beside the topology.
#[derive(Default)]
pub struct SimOptions<'s> {
    /// Where ground truth of every frame goes.
    pub record: Option<RecordFile>,
    /// Who else gets every record, in the order of departure from each port.
    pub sinks: Vec<&'s mut dyn Sink>,
}

/// A simulation that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A switch.
    #[error(transparent)]
    Switch(#[from] ConfigError),
    /// A flow.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The file for records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// What a simulation came to, and what it cost. The outcome is the same on every machine.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The tables.
    pub outcome: Outcome,
    /// Events.
    pub events: u64,
    /// Virtual time, settling included.
    pub simulated: Duration,
    /// Real time.
    pub took: Duration,
}

/// Simulates a network: settling, the measurement, and what is still on its way. `stop` ends it early; the outcome then
/// says that it was interrupted.
///
/// # Errors
/// [`SimError`]: a switch, flow or record that cannot be. What fails later is in [`Outcome::failed`].
pub fn run(
    topology: &Topology,
    options: SimOptions<'_>,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Simulated, SimError> {
    let since = Instant::now();
    let topology = &stand_ins(topology);
    let mut outcome = Outcome::new(topology, None);
    outcome.warnings.extend(warnings(topology));
    let mut world = build::build(topology, &mut outcome.warnings)?;
    let from = topology.warmup.as_nanos() as u64;
    let until = Nanos(from + topology.duration.as_nanos() as u64);
    let window = Window::closed();
    window.open(from);
    window.close(until.0);
    let window = Arc::new(window);
    let create = |file: RecordFile| file.create(topology.port_names(), RecordClock::Virtual, window);
    let mut file = options.record.map(create).transpose()?;
    let mut others = options.sinks;
    let mut sinks: Vec<&mut dyn Sink> = others.iter_mut().map(|sink| &mut **sink as &mut dyn Sink).collect();
    sinks.extend(file.as_mut().map(|file| &mut **file as &mut dyn Sink));
    let mut truth = Truth::new(from, until.0, sinks);
    let tell =
        |now: Nanos| progress.measuring(Duration::from_nanos(now.since(Nanos(from))), topology.duration);
    let ended = world.run(until, &mut truth, stop, tell);
    progress.measured();
    truth.finish();
    outcome.duration_s = Duration::from_nanos(ended.since(Nanos(from))).as_secs_f64();
    if stop.load(Ordering::Relaxed) && ended < until {
        outcome.failed.push(format!("interrupted after {:.1} s", outcome.duration_s));
    }
    outcome.failed.append(&mut truth.failures);
    gather(topology, &mut world, &truth, [from, ended.0], &mut outcome);
    Ok(Simulated {
        outcome,
        events: world.events,
        simulated: Duration::from_nanos(ended.0),
        took: since.elapsed(),
    })
}

/// The network as it is simulated: no foreign program runs here, the built-in clock stands in for it.
fn stand_ins(topology: &Topology) -> Topology {
    let mut topology = topology.clone();
    for clock in topology.clocks.iter_mut().filter(|clock| clock.daemon != Daemon::Plimsoll) {
        topology.warnings.push(format!(
            "clock {}: the simulator's own exchange stands in for {}; only `plimsoll lab run` runs that",
            clock.name, clock.daemon
        ));
        clock.daemon = Daemon::Plimsoll;
    }
    topology
}

/// What is constant in the figures because of the hosts' own links.
fn warnings(topology: &Topology) -> Vec<String> {
    topology
        .clocks
        .iter()
        .filter_map(|clock| {
            let octets = wire_octets(message_octets(clock.transport));
            let takes = |rate: Option<Rate>| rate.map_or(0.0, |rate| f64::from(octets) * 8e9 / rate.0 as f64);
            let [server, client] = [clock.server, clock.client].map(|host| takes(topology.hosts[host].uplink));
            ((server - client).abs() >= ASYMMETRY_NS).then(|| {
                format!(
                    "clock {}: the uplinks of its hosts differ by {:.1} us a message, a constant error of half of \
                     that where the links back do not make up for it",
                    clock.name,
                    (server - client).abs() / 1e3
                )
            })
        })
        .collect()
}

/// The figures of flows, ports and clocks.
fn gather(
    topology: &Topology,
    world: &mut World,
    truth: &Truth<'_>,
    [from, ended]: [u64; 2],
    outcome: &mut Outcome,
) {
    outcome.take_flows(world.flows.iter().map(flow::Flow::report).collect(), Vec::new());
    outcome.take_ports(topology, &truth.totals);
    outcome.hosts = topology
        .hosts
        .iter()
        .zip(&world.net.stations)
        .map(|(host, station)| HostOutcome {
            name: host.name.clone(),
            rx_dropped: 0,
            tx_dropped: station.uplink.dropped,
        })
        .collect();
    outcome.frames_conserved = world.net.frames.held() == 0;
    if !outcome.frames_conserved {
        let held = world.net.frames.held();
        outcome.failed.push(format!("{held} frames are nowhere at the end; please report this"));
    }
    for (plan, clock) in topology.clocks.iter().zip(&mut world.clocks) {
        let scale = plan.scale(topology.marking.as_ref(), topology.ecn.as_ref());
        let (samples, counters) = match clock {
            Clock::Ptp(pair) => {
                let mut seen = pair.finish();
                seen.syncs.retain(|sync| (from..=ended).contains(&sync.t2));
                seen.delays.retain(|delay| (from..=ended).contains(&delay.t3));
                seen.join(|id, at| Some(truth.totals.converted_on_the_way(plan, id, at)));
                (seen.samples(scale), seen.counters)
            }
            Clock::Ntp(pair) => pair.finish(&(from..=ended), scale),
        };
        outcome.take_clock(ClockOutcome::new(plan, samples, counters, None));
    }
}
