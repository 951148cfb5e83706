//! A clock pair that runs: started, watched, stopped, whichever program it is.

use super::{Lab, LabError, chrony, shim};
use crate::clock::{
    Client, ClientConfig, ClientCounters, ClockSample, DelayRecord, NtpClient, NtpServer, Recording, Server,
    ServerConfig, SyncRecord, Transport,
};
use crate::daemon::Logged;
use crate::record::tally::Totals;
use crate::topology::{ClockPlan, Compensation, Daemon, HostPlan, SecurityMode, Topology};
use crate::{chronyd, ptp4l};
use plimsoll_core::wire::ptp::MessageId;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interface of every host.
pub(super) const INTERFACE: &str = "net0";
/// ptp4l takes its role, hears its master and measures the path within this time.
const PTP4L_SETTLES: Duration = Duration::from_secs(4);
/// chronyd gets its keys, takes its server for one to follow, and its clock within has come near, within this time.
const CHRONYD_SETTLES: Duration = Duration::from_secs(8);

/// Whether all programs are there that the pairs need, and all hosts have room for them.
pub(super) fn check(topology: &Topology) -> Result<(), LabError> {
    for (number, clock) in topology.clocks.iter().enumerate() {
        let fail = LabError::daemon(&clock.name);
        match clock.daemon {
            Daemon::Plimsoll => {}
            Daemon::Ptp4l => drop(ptp4l::version().map_err(fail)?),
            Daemon::Chronyd => {
                drop(chronyd::version(clock.security == SecurityMode::Nts).map_err(fail)?);
            }
        }
        let ends = [clock.server, clock.client];
        let beside = topology.clocks[..number].iter().filter(|other| other.transport.is_ntp());
        for other in beside.filter(|_| clock.transport.is_ntp()) {
            if let Some(host) = ends.iter().find(|host| [other.server, other.client].contains(*host)) {
                let place = format!("clock {}", clock.name);
                let problem =
                    format!("host {} has an end of clock {} too", topology.hosts[*host].name, other.name);
                return Err(LabError::state(
                    place,
                    problem,
                    "give each NTP clock hosts of its own: there is one port 123",
                ));
            }
        }
    }
    Ok(())
}

/// How long this pair takes until what it measures means something.
pub(super) fn settles(clock: &ClockPlan) -> Duration {
    match clock.daemon {
        Daemon::Plimsoll => Duration::ZERO,
        Daemon::Ptp4l => PTP4L_SETTLES,
        Daemon::Chronyd => CHRONYD_SETTLES,
    }
}

/// What a client saw.
#[derive(Debug)]
pub(super) enum Seen {
    /// PTP messages, of which each Delay_Req goes with the newest Sync.
    Messages(Recording),
    /// Exchanges, each a request and its answer.
    Exchanges(Vec<Seized>, ClientCounters),
}

/// One exchange, with what the daemon itself measured by it: offset from its server and mean delay, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seized {
    pub(super) sync: SyncRecord,
    pub(super) delay: DelayRecord,
    pub(super) measured: Option<(f64, f64)>,
}

/// What a pair came to.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) seen: Seen,
    /// What the daemon said of itself.
    pub(super) logged: Option<Logged>,
    pub(super) warnings: Vec<String>,
}

impl Ended {
    /// Of what a client saw, with nothing else.
    pub(super) fn of(seen: Seen) -> Self {
        Self { seen, logged: None, warnings: Vec::new() }
    }

    /// The exchanges, and what came to nothing.
    pub(super) fn samples(
        &mut self,
        topology: &Topology,
        plan: &ClockPlan,
        totals: &Totals,
    ) -> (Vec<ClockSample>, ClientCounters) {
        let scale = plan.scale(topology.marking.as_ref(), topology.ecn.as_ref());
        match &mut self.seen {
            // ptp4l tells nothing of its Pdelay messages but what they come to.
            Seen::Messages(recording) if !plan.tells_raw() => {
                let said = self.logged.as_ref().map_or(&[][..], |logged| &logged.said);
                let sample = |sync: &SyncRecord| {
                    let before = said.partition_point(|line| line.at <= sync.t2);
                    let delay = said[..before].iter().rev().find_map(|line| line.delay_ns)?;
                    Some(ClockSample::by_path_delay(sync, delay))
                };
                (recording.syncs.iter().filter_map(sample).collect(), recording.counters)
            }
            Seen::Messages(recording) => {
                if plan.compensation == Compensation::Host {
                    let helped = |id: &MessageId, at| totals.count_at_the_end(plan, id, at);
                    recording.helped(shim::corrects(topology, plan), scale, helped);
                } else {
                    recording.join(|id, at| Some(totals.converted_on_the_way(plan, id, at)));
                }
                (recording.samples(scale), recording.counters)
            }
            Seen::Exchanges(exchanges, counters) => {
                let sample = |seized: &Seized| {
                    let sample = ClockSample::new(&seized.sync, &seized.delay, scale);
                    match (seized.measured, plan.compensation) {
                        (None, _) => sample,
                        (Some((offset, delay)), Compensation::Host) => sample.measured(offset, delay),
                        (Some((offset, delay)), _) => sample.unhelped(offset, delay),
                    }
                };
                (exchanges.iter().map(sample).collect(), *counters)
            }
        }
    }

    /// Keeps what was seen from `from` until `until`, CLOCK_REALTIME in nanoseconds.
    fn cut(&mut self, from: u64, until: u64) {
        let window = from..=until;
        match &mut self.seen {
            Seen::Messages(recording) => {
                recording.syncs.retain(|sync| window.contains(&sync.t2));
                recording.delays.retain(|delay| window.contains(&delay.t3));
            }
            Seen::Exchanges(exchanges, _) => exchanges.retain(|seized| window.contains(&seized.delay.t3)),
        }
        if let Some(logged) = &mut self.logged {
            logged.cut(from, until);
        }
    }
}

/// Ends the threads that look at it when it goes.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A clock pair that runs.
pub(super) struct Pair {
    name: String,
    stop: Stop,
    client: JoinHandle<Result<Ended, LabError>>,
    server: Served,
}

/// Its server.
pub(super) enum Served {
    Plimsoll(JoinHandle<Result<(), LabError>>),
    Ptp4l(ptp4l::Server),
    Chronyd(chronyd::Server),
}

/// A client's thread, and the server.
pub(super) type Ends = (JoinHandle<Result<Ended, LabError>>, Served);

impl Pair {
    pub(super) fn start(lab: &Lab, plan: &ClockPlan) -> Result<Self, LabError> {
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let (client, server) = match plan.daemon {
            Daemon::Plimsoll if plan.transport.is_ntp() => built_in_ntp(lab, plan, &stop.0)?,
            Daemon::Plimsoll => built_in(lab, plan, &stop.0)?,
            Daemon::Ptp4l => linuxptp(lab, plan, &stop.0)?,
            Daemon::Chronyd => chrony::start(lab, plan, &stop.0)?,
        };
        Ok(Self { name: plan.name.clone(), stop, client, server })
    }

    pub(super) fn runs(&self) -> bool {
        let served = match &self.server {
            Served::Plimsoll(thread) => !thread.is_finished(),
            Served::Ptp4l(_) | Served::Chronyd(_) => true,
        };
        served && !self.client.is_finished()
    }

    /// Stops both ends and keeps what was seen from `from` until `until`, CLOCK_REALTIME.
    pub(super) fn stop(self, from: u64, until: u64) -> Result<Ended, LabError> {
        drop(self.stop);
        let panicked = || {
            LabError::state(format!("clock {}", self.name), "a thread of it panicked", "please report this")
        };
        let seen = self.client.join().unwrap_or_else(|_| Err(panicked()));
        let served = match self.server {
            Served::Plimsoll(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
            Served::Ptp4l(mut server) => server.check().map_err(LabError::daemon(&self.name)),
            Served::Chronyd(mut server) => server.check().map_err(LabError::daemon(&self.name)),
        };
        let mut seen = seen?;
        served?;
        seen.cut(from, until);
        Ok(seen)
    }
}

/// The built-in clock by NTP.
fn built_in_ntp(lab: &Lab, plan: &ClockPlan, stop: &Arc<AtomicBool>) -> Result<Ends, LabError> {
    let fail = LabError::clock(&plan.name);
    let hosts = &lab.topology().hosts;
    let (serving, asking) = (&hosts[plan.server], &hosts[plan.client]);
    let mut server = lab
        .host(plan.server)
        .run_in(|| NtpServer::open(ServerConfig::new(INTERFACE, plan.transport)))
        .map_err(LabError::namespace(&serving.name))?
        .map_err(&fail)?;
    let config = ClientConfig {
        interval: Duration::from_nanos(plan.interval_ns),
        seed: plan.seed,
        ..ClientConfig::new(INTERFACE, plan.transport)
    };
    let address = address(plan, serving);
    let mut client = lab
        .host(plan.client)
        .run_in(|| NtpClient::open(config, address))
        .map_err(LabError::namespace(&asking.name))?
        .map_err(&fail)?;
    let (stop_server, stop_client) = (Arc::clone(stop), Arc::clone(stop));
    let fail_client = fail.clone();
    let server = spawn(&plan.name, move || server.run(&stop_server).map(drop).map_err(fail))?;
    let client = spawn(&plan.name, move || {
        let seen = client.run(&stop_client).map_err(fail_client)?;
        let seized = |(sync, delay)| Seized { sync, delay, measured: None };
        let exchanges = seen.exchanges.into_iter().map(seized).collect();
        Ok(Ended::of(Seen::Exchanges(exchanges, seen.counters)))
    })?;
    Ok((client, Served::Plimsoll(server)))
}

fn built_in(lab: &Lab, plan: &ClockPlan, stop: &Arc<AtomicBool>) -> Result<Ends, LabError> {
    let fail = LabError::clock(&plan.name);
    let interval = Duration::from_nanos(plan.interval_ns);
    let hosts = &lab.topology().hosts;
    let config =
        ServerConfig { domain: plan.domain, interval, ..ServerConfig::new(INTERFACE, plan.transport) };
    let mut server = lab
        .host(plan.server)
        .run_in(|| Server::open(config))
        .map_err(LabError::namespace(&hosts[plan.server].name))?
        .map_err(&fail)?;
    let config = ClientConfig {
        domain: plan.domain,
        interval,
        seed: plan.seed,
        delay: plan.delay,
        ..ClientConfig::new(INTERFACE, plan.transport)
    };
    let mut client = lab
        .host(plan.client)
        .run_in(|| Client::open(config))
        .map_err(LabError::namespace(&hosts[plan.client].name))?
        .map_err(&fail)?;
    let (stop_server, stop_client) = (Arc::clone(stop), Arc::clone(stop));
    let fail_client = fail.clone();
    let server = spawn(&plan.name, move || server.run(&stop_server).map(drop).map_err(fail))?;
    let client = spawn(&plan.name, move || {
        let recording = client.run(&stop_client).map_err(fail_client)?;
        Ok(Ended::of(Seen::Messages(recording)))
    })?;
    Ok((client, Served::Plimsoll(server)))
}

fn linuxptp(lab: &Lab, plan: &ClockPlan, stop: &Arc<AtomicBool>) -> Result<Ends, LabError> {
    let fail = LabError::daemon(&plan.name);
    let settings = ptp4l::Settings {
        domain: plan.domain,
        log_interval: log_interval(plan),
        delay: plan.delay,
        filter: plan.filter,
        ..ptp4l::Settings::new(plan.transport)
    };
    // Started by this thread, with which they would die.
    let server = ptp4l::Server::start(lab.host(plan.server), INTERFACE, &settings).map_err(&fail)?;
    let client = ptp4l::Client::start(lab.host(plan.client), INTERFACE, &settings).map_err(&fail)?;
    let stop = Arc::clone(stop);
    let client = spawn(&plan.name, move || {
        let seen = client.run(&stop).map_err(fail)?;
        let logged = Some(seen.logged());
        Ok(Ended { logged, ..Ended::of(Seen::Messages(seen.recording)) })
    })?;
    Ok((client, Served::Ptp4l(server)))
}

/// A host's address, of the family that the clock uses.
pub(super) fn address(plan: &ClockPlan, host: &HostPlan) -> IpAddr {
    match plan.transport {
        Transport::NtpV6 | Transport::UdpV6 => IpAddr::V6(host.v6),
        _ => IpAddr::V4(host.v4),
    }
}

/// The interval as log2 of seconds.
pub(super) fn log_interval(plan: &ClockPlan) -> i8 {
    Duration::from_nanos(plan.interval_ns).as_secs_f64().log2().round() as i8
}

pub(super) fn spawn<T: Send + 'static>(
    clock: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    thread::Builder::new().spawn(work).map_err(|e| {
        LabError::call(format!("clock {clock}"), "clone", e, "free memory, or raise the limit of threads")
    })
}
