//! One measurement: build, start flows and clocks, let them settle, measure, gather, take down.

use super::pair::{self, Ended, Pair};
use super::shim;
use super::{Lab, LabError, Progress, StateFile, Traffic};
use crate::daemon::now;
use crate::record::tally::Tally;
use crate::record::{self, Collector, RecordClock, RecordFile, Sink, Window};
use crate::results::{ClockOutcome, Outcome};
use crate::topology::{Compensation, Topology};
use rustix::time::ClockId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a running measurement is looked at.
const LOOK: Duration = Duration::from_millis(100);

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
    pair::check(&topology)?;
    let counted = |count: usize, what: &str, many: &str| {
        format!("{count} {what}{}", if count == 1 { "" } else { many })
    };
    progress.step(&format!(
        "building {}: {}, {}, {}",
        topology.name,
        counted(topology.hosts.len(), "host", "s"),
        counted(topology.switches.len(), "switch", "es"),
        counted(topology.cables.len(), "link", "s")
    ));
    let window = Arc::new(Window::closed());
    let tally = Tally::new(Arc::clone(&window));
    let helped = topology.clocks.iter().filter(|clock| clock.compensation == Compensation::Host);
    tally
        .totals()
        .watch(helped.flat_map(|clock| [clock.to_client.last(), clock.to_server.last()]).flatten().copied());
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
    let mut totals = tally.totals();
    totals.align(now(ClockId::Realtime), now(ClockId::Monotonic));
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
                let (samples, counters) = seen.samples(&topology, plan, &totals);
                outcome.warnings.extend(seen.warnings);
                outcome.take_clock(ClockOutcome::new(plan, samples, counters, seen.logged));
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
) -> Result<Vec<Result<Ended, LabError>>, LabError> {
    let topology = lab.topology();
    let shims = shim::attach(lab)?;
    let mut clocks = Vec::new();
    for plan in &topology.clocks {
        // Daemons take a while to start.
        if stop.load(Ordering::Relaxed) {
            outcome.cut_short = true;
            outcome.failed.push("interrupted after 0.0 s, before anything was measured".into());
            return Ok(Vec::new());
        }
        clocks.push(Pair::start(lab, plan)?);
    }
    let traffic = Traffic::start(lab)?;
    let settle = topology.clocks.iter().map(pair::settles).fold(topology.warmup, Duration::max);
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
        outcome.cut_short = true;
        outcome.failed.push(if stop.load(Ordering::Relaxed) {
            format!("interrupted after {:.1} s", outcome.duration_s)
        } else {
            "a flow or a clock ended by itself".to_owned()
        });
    }
    let (flows, failed) = traffic.stop(lab);
    outcome.take_flows(flows, failed);
    let seen = clocks.into_iter().map(|pair| pair.stop(real_from, real_until)).collect();
    drop(shims);
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
