//! The flows of a lab, each with a thread at either end.

use super::{Lab, LabError};
use crate::traffic::{FlowReport, Sink, SinkReport, Source, SourceReport, TrafficError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long frames may take to leave the switches once the sources are silent.
const DRAIN: Duration = Duration::from_secs(2);

/// Flows that run.
#[derive(Debug)]
pub struct Traffic {
    flows: Vec<Flow>,
    stop_sources: Arc<AtomicBool>,
    stop_sinks: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Flow {
    name: String,
    source: JoinHandle<Result<SourceReport, TrafficError>>,
    sink: JoinHandle<Result<SinkReport, TrafficError>>,
}

impl Traffic {
    /// Opens both ends of every flow, then starts them.
    ///
    /// # Errors
    /// A flow's socket was refused; none was started.
    pub fn start(lab: &Lab) -> Result<Self, LabError> {
        let mut ends = Vec::new();
        for flow in &lab.topology.flows {
            let (from, to) = (&lab.topology.hosts[flow.from].name, &lab.topology.hosts[flow.to].name);
            let sink = lab
                .host(flow.to)
                .run_in(|| Sink::open(flow.name.as_str(), flow.target))
                .map_err(LabError::namespace(to))??;
            let source = lab
                .host(flow.from)
                .run_in(|| Source::open(flow.spec.clone(), flow.target))
                .map_err(LabError::namespace(from))??;
            ends.push((flow.name.clone(), source, sink));
        }
        let (stop_sources, stop_sinks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut flows = Vec::new();
        for (name, mut source, mut sink) in ends {
            let (stop_source, stop_sink) = (Arc::clone(&stop_sources), Arc::clone(&stop_sinks));
            let fail = |e| {
                LabError::call(
                    format!("flow {name}"),
                    "clone",
                    e,
                    "free memory, or raise the limit of threads",
                )
            };
            // The receiving end first, so that nothing is missed.
            let sink = thread::Builder::new().spawn(move || sink.run(&stop_sink)).map_err(fail)?;
            let source = thread::Builder::new().spawn(move || source.run(&stop_source)).map_err(fail)?;
            flows.push(Flow { name, source, sink });
        }
        Ok(Self { flows, stop_sources, stop_sinks })
    }

    /// Whether every end still runs; one that ended before it was told to has failed.
    pub fn runs(&self) -> bool {
        self.flows.iter().all(|flow| !flow.source.is_finished() && !flow.sink.is_finished())
    }

    /// Stops the sources, lets the sinks take what is on its way, and reports. What went wrong is in the second list.
    pub fn stop(mut self, lab: &Lab) -> (Vec<FlowReport>, Vec<String>) {
        let flows = std::mem::take(&mut self.flows);
        self.stop_sources.store(true, Ordering::Relaxed);
        let mut halves = Vec::new();
        for flow in flows {
            halves.push((flow.name, ended(flow.source), flow.sink));
        }
        lab.drain(DRAIN);
        self.stop_sinks.store(true, Ordering::Relaxed);
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        for (name, source, sink) in halves {
            match (source, ended(sink)) {
                (Ok(source), Ok(sink)) => reports.push(FlowReport::new(&source, &sink)),
                (source, sink) => {
                    let errors = [source.err(), sink.err()];
                    failed.extend(errors.into_iter().flatten().map(|e| match e {
                        Some(e) => e.to_string(),
                        None => format!("flow {name}: its thread panicked; please report this"),
                    }));
                }
            }
        }
        (reports, failed)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop_sources.store(true, Ordering::Relaxed);
        self.stop_sinks.store(true, Ordering::Relaxed);
    }
}

/// What a thread returned; the error is `None` for a panic.
fn ended<T>(thread: JoinHandle<Result<T, TrafficError>>) -> Result<T, Option<TrafficError>> {
    match thread.join() {
        Ok(result) => result.map_err(Some),
        Err(_) => Err(None),
    }
}
