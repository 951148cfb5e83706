//! Who runs where: the worker on a CPU of its own, everything else on the others. A sender on the worker's CPU would
//! pull the receiving of its frames there and starve it.

use super::LabError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// The CPUs of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pinning {
    /// The worker's.
    pub worker_cpu: usize,
    /// The hosts', the clocks' and the flows'.
    pub other_cpus: Vec<usize>,
    /// There is one CPU only: the worker shares it, and times lie.
    pub shared: bool,
}

impl Pinning {
    /// Chooses among the CPUs that the calling thread may use: `asked`, or the last one, for the worker.
    pub(super) fn plan(asked: Option<usize>) -> Result<Self, LabError> {
        let set = sched_getaffinity(None)
            .map_err(|e| LabError::call("CPUs", "sched_getaffinity", e, "see `taskset -p $$`"))?;
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        Self::choose(&cpus, asked)
    }

    fn choose(cpus: &[usize], asked: Option<usize>) -> Result<Self, LabError> {
        let worker_cpu = asked.or(cpus.last().copied()).unwrap_or(0);
        if !cpus.contains(&worker_cpu) {
            let problem = format!("cpu = {worker_cpu} is none that this process may use");
            return Err(LabError::state(
                "worker",
                problem,
                format!("write one of {cpus:?}, or leave it out"),
            ));
        }
        let mut other_cpus: Vec<usize> = cpus.iter().copied().filter(|cpu| *cpu != worker_cpu).collect();
        let shared = other_cpus.is_empty();
        if shared {
            other_cpus.push(worker_cpu);
        }
        Ok(Self { worker_cpu, other_cpus, shared })
    }

    /// Moves the calling thread, and what it starts from now on, to the others' CPUs.
    pub(super) fn confine(&self) -> Result<(), LabError> {
        confine(&self.other_cpus)
    }
}

/// Moves the calling thread, and what it starts from now on, to these CPUs.
pub(super) fn confine(cpus: &[usize]) -> Result<(), LabError> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|e| LabError::call("CPUs", "sched_setaffinity", e, "see `taskset -p $$`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_has_the_last_cpu_or_the_one_asked_for() {
        let choose = |cpus: &[usize], asked| Pinning::choose(cpus, asked).unwrap();
        let plan = choose(&[0, 1, 4], None);
        assert_eq!((plan.worker_cpu, plan.other_cpus, plan.shared), (4, vec![0, 1], false));
        let plan = choose(&[0, 1, 4], Some(0));
        assert_eq!((plan.worker_cpu, plan.other_cpus, plan.shared), (0, vec![1, 4], false));
        let plan = choose(&[3], None);
        assert_eq!((plan.worker_cpu, plan.other_cpus, plan.shared), (3, vec![3], true));
        let error = Pinning::choose(&[0, 1], Some(7)).unwrap_err().to_string();
        assert_eq!(
            error,
            "worker: cpu = 7 is none that this process may use; write one of [0, 1], or leave it out"
        );
    }
}
