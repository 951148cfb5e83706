//! The machine that a figure was measured on, and which CPU does what.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::{fmt, fs, thread};

/// What to know of a machine before one believes its figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// CPUs that this process may use.
    pub(crate) cpus: Vec<usize>,
    /// Model of the first of them.
    pub(crate) model: String,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Load average of the last minute when the measurement began: what else ran on the machine.
    pub(crate) load_average: f64,
    /// CPU of the hosts: senders, receivers, taps.
    pub(crate) hosts_cpu: usize,
    /// CPU of the worker.
    pub(crate) worker_cpu: usize,
}

impl Facts {
    /// Looks around and pins this thread, and what it starts, to the hosts' CPU: a sender on the worker's CPU would
    /// starve the worker.
    pub(crate) fn pin() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("sched_getaffinity")?;
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let (hosts_cpu, worker_cpu) = (cpus[0], cpus[cpus.len() - 1]);
        pin(hosts_cpu)?;
        Ok(Self {
            model: model(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
            load_average: load_average(),
            hosts_cpu,
            worker_cpu,
            cpus,
        })
    }
}

impl Facts {
    /// Runs `work` on a thread of its own that may use all CPUs of this process.
    pub(crate) fn unpinned<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        apart(&self.cpus, work)
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, model, kernel, load_average, hosts_cpu, worker_cpu } = self;
        let count = cpus.len();
        write!(
            f,
            "{count} CPUs ({model}), Linux {kernel}; worker on CPU {worker_cpu}, hosts on CPU {hosts_cpu}; \
             load average at start {load_average:.2}"
        )?;
        if hosts_cpu == worker_cpu {
            write!(f, "; ONE CPU FOR BOTH: no figure here means anything")?;
        }
        Ok(())
    }
}

/// Keeps the calling thread, and what it starts from here on, on one CPU.
pub(crate) fn pin(cpu: usize) -> Result<()> {
    allow(&[cpu])
}

/// Runs `work` on a thread of its own on `cpu`.
pub(crate) fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    apart(&[cpu], work)
}

fn apart<T: Send>(cpus: &[usize], work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            allow(cpus)?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn allow(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("sched_setaffinity CPUs {cpus:?}"))
}

fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown".into(), |(_, name)| name.trim().into())
}

fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}
