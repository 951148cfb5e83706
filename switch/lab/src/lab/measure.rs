//! One measurement: build, start flows and clocks, let them settle, measure, gather, take down.

use super::{Lab, LabError, Progress, StateFile, Traffic};
use crate::clock::{Client, ClientConfig, Recording, Server, ServerConfig};
use crate::ptp4l;
use crate::record::tally::Tally;
use crate::record::{self, Collector, RecordClock, RecordFile, Sink, Window};
use crate::results::{ClockOutcome, Outcome};
use crate::topology::{ClockPlan, Daemon, Topology};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interface of every host.
const INTERFACE: &str = "net0";
/// How often a running measurement is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// ptp4l takes its role, hears its master and measures the path within this time.
const PTP4L_SETTLES: Duration = Duration::from_secs(4);

/// What a measurement is asked beside the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Where ground truth of every frame goes.
    pub record: Option<RecordFile>,
    /// Whether the lab is listed while it runs, so that its hosts can be entered; its name must then be free.
    pub publish: bool,
}

/// Builds the lab, measures, and takes everything down. `stop` ends it early: what was measured until then is in the
/// outcome, which then says that it was interrupted.
///
/// # Errors
/// The lab could not be built. What fails later is in [`Outcome::failed`].
pub fn run(
    topology: Topology,
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Outcome, LabError> {
    // On a thread of its own, which moves to the hosts' CPUs and lives as long as the children do.
    thread::scope(|scope| match scope.spawn(|| measure(topology, options, progress, stop)).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn measure(
    topology: Topology,
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Outcome, LabError> {
    if let Some(clock) = topology.clocks.iter().find(|clock| clock.daemon == Daemon::Ptp4l) {
        ptp4l::version().map_err(LabError::daemon(&clock.name))?;
    }
    progress.step(&format!(
        "building {}: {} hosts, {} switches, {} links",
        topology.name,
        topology.hosts.len(),
        topology.switches.len(),
        topology.cables.len()
    ));
    let window = Arc::new(Window::closed());
    let tally = Tally::new(Arc::clone(&window));
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(tally.clone())];
    let mut listed = options.publish.then(|| StateFile::claim(&topology.name)).transpose()?;
    // Once the name is ours: a second start of the same lab leaves the first one's record as it is.
    if let Some(file) = &options.record {
        sinks.push(file.create(topology.port_names(), RecordClock::Monotonic, Arc::clone(&window))?);
    }
    let records = record::queue(options.record.as_ref());
    let lab = Lab::start(topology, Some(records.clone()))?;
    if let Some(file) = &mut listed {
        file.publish(&lab)?;
    }
    let collector = Collector::start(records, sinks);
    let mut outcome = Outcome::of(&lab);
    let gathered = observe(&lab, &window, &mut outcome, progress, stop);
    let snapshot = lab.worker().snapshot();
    match lab.host_drops() {
        Ok(drops) => outcome.hosts = drops,
        Err(e) => outcome.failed.push(e.to_string()),
    }
    let topology = lab.topology().clone();
    let last = lab.stop();
    outcome.failed.extend(collector.finish());
    let totals = tally.totals();
    match (snapshot, last) {
        (Ok(snapshot), Ok(last)) => {
            outcome.take_ports(&topology, &totals);
            outcome.take_machine(&snapshot, &last);
        }
        (Err(e), _) => outcome.failed.push(e.to_string()),
        (_, Err(e)) => outcome.failed.push(e.to_string()),
    }
    let clocks = gathered?;
    for (plan, seen) in topology.clocks.iter().zip(clocks) {
        match seen {
            Ok(mut seen) => {
                seen.recording.join(|id| Some(totals.converted_on_the_way(plan, id)));
                let samples = seen.recording.samples(plan.scale(topology.marking.as_ref()));
                let duration_s = outcome.duration_s;
                outcome.take_clock(ClockOutcome::new(plan, &samples, &seen.recording, seen.log, duration_s));
            }
            Err(e) => outcome.failed.push(e.to_string()),
        }
    }
    Ok(outcome)
}

/// Starts flows and clocks, waits, measures, stops them.
fn observe(
    lab: &Lab,
    window: &Window,
    outcome: &mut Outcome,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<Result<Seen, LabError>>, LabError> {
    let topology = lab.topology();
    let clocks = topology.clocks.iter().map(|plan| Pair::start(lab, plan)).collect::<Result<Vec<_>, _>>()?;
    let traffic = Traffic::start(lab)?;
    let settle = match topology.clocks.iter().any(|clock| clock.daemon == Daemon::Ptp4l) {
        true => topology.warmup.max(PTP4L_SETTLES),
        false => topology.warmup,
    };
    progress.step(&format!("settling for {} s", settle.as_secs_f64()));
    let all_run = || traffic.runs() && clocks.iter().all(Pair::runs);
    let mut well = wait(settle, stop, &all_run, |_| ());
    let (from, real_from, since) = (now(ClockId::Monotonic), now(ClockId::Realtime), Instant::now());
    window.open(from);
    if well {
        let total = topology.duration;
        well = wait(total, stop, &all_run, |elapsed| progress.measuring(elapsed, total));
        progress.measured();
    }
    window.close(now(ClockId::Monotonic));
    let real_until = now(ClockId::Realtime);
    outcome.duration_s = since.elapsed().as_secs_f64();
    if !well {
        outcome.failed.push(if stop.load(Ordering::Relaxed) {
            format!("interrupted after {:.1} s", outcome.duration_s)
        } else {
            "a flow or a clock ended by itself".to_owned()
        });
    }
    let (flows, failed) = traffic.stop(lab);
    outcome.take_flows(flows, failed);
    let seen = clocks.into_iter().map(|pair| pair.stop(real_from, real_until)).collect();
    Ok(seen)
}

/// Waits; `false` where it was cut short.
fn wait(
    span: Duration,
    stop: &AtomicBool,
    all_run: &dyn Fn() -> bool,
    mut tell: impl FnMut(Duration),
) -> bool {
    let since = Instant::now();
    loop {
        let elapsed = since.elapsed();
        if elapsed >= span {
            return true;
        }
        if stop.load(Ordering::Relaxed) || !all_run() {
            return false;
        }
        tell(elapsed);
        thread::sleep(LOOK.min(span - elapsed));
    }
}

/// What a client saw during the measurement.
#[derive(Debug, Default)]
struct Seen {
    recording: Recording,
    log: Option<ptp4l::LogSummary>,
}

/// Ends the threads that look at it when it goes.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A clock pair that runs.
struct Pair {
    name: String,
    stop: Stop,
    client: JoinHandle<Result<Seen, LabError>>,
    server: Served,
}

enum Served {
    Plimsoll(JoinHandle<Result<(), LabError>>),
    Ptp4l(ptp4l::Server),
}

impl Pair {
    fn start(lab: &Lab, plan: &ClockPlan) -> Result<Self, LabError> {
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let (client, server) = match plan.daemon {
            Daemon::Plimsoll => built_in(lab, plan, &stop.0)?,
            Daemon::Ptp4l => linuxptp(lab, plan, &stop.0)?,
        };
        Ok(Self { name: plan.name.clone(), stop, client, server })
    }

    fn runs(&self) -> bool {
        let served = match &self.server {
            Served::Plimsoll(thread) => !thread.is_finished(),
            Served::Ptp4l(_) => true,
        };
        served && !self.client.is_finished()
    }

    /// Stops both ends and keeps what was seen from `from` until `until`, CLOCK_REALTIME.
    fn stop(self, from: u64, until: u64) -> Result<Seen, LabError> {
        drop(self.stop);
        let panicked = || {
            LabError::state(format!("clock {}", self.name), "a thread of it panicked", "please report this")
        };
        let seen = self.client.join().unwrap_or_else(|_| Err(panicked()));
        let served = match self.server {
            Served::Plimsoll(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
            Served::Ptp4l(mut server) => server.check().map_err(LabError::daemon(&self.name)),
        };
        let mut seen = seen?;
        served?;
        seen.recording.syncs.retain(|sync| (from..=until).contains(&sync.t2));
        seen.recording.delays.retain(|delay| (from..=until).contains(&delay.t3));
        Ok(seen)
    }
}

type Ends = (JoinHandle<Result<Seen, LabError>>, Served);

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
        Ok(Seen { recording, log: None })
    })?;
    Ok((client, Served::Plimsoll(server)))
}

fn linuxptp(lab: &Lab, plan: &ClockPlan, stop: &Arc<AtomicBool>) -> Result<Ends, LabError> {
    let fail = LabError::daemon(&plan.name);
    let settings = ptp4l::Settings {
        domain: plan.domain,
        log_interval: Duration::from_nanos(plan.interval_ns).as_secs_f64().log2().round() as i8,
        ..ptp4l::Settings::new(plan.transport)
    };
    // Started by this thread, with which they would die.
    let server = ptp4l::Server::start(lab.host(plan.server), INTERFACE, &settings).map_err(&fail)?;
    let client = ptp4l::Client::start(lab.host(plan.client), INTERFACE, &settings).map_err(&fail)?;
    let stop = Arc::clone(stop);
    let client = spawn(&plan.name, move || {
        let seen = client.run(&stop).map_err(fail)?;
        Ok(Seen { log: Some(seen.log_summary()), recording: seen.recording })
    })?;
    Ok((client, Served::Ptp4l(server)))
}

fn spawn<T: Send + 'static>(
    clock: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    thread::Builder::new().spawn(work).map_err(|e| {
        LabError::call(format!("clock {clock}"), "clone", e, "free memory, or raise the limit of threads")
    })
}

fn now(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}
