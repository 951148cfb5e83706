//! What a thread has had of its CPU. A figure per CPU second is not disturbed by what else runs on the machine, as
//! long as the thread is never out of work; on a quiet machine it is the figure per second.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// A thread of this process.
#[derive(Clone, Debug)]
pub(crate) struct ThreadTime {
    path: String,
}

impl ThreadTime {
    /// The thread of this name; of several, the youngest.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let mut found = None;
        for entry in fs::read_dir("/proc/self/task").context("/proc/self/task")? {
            let id: u32 = entry?.file_name().to_string_lossy().parse().context("/proc/self/task")?;
            // A thread that ends meanwhile has no name.
            let comm = fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap_or_default();
            if comm.trim_end() == name {
                found = found.max(Some(id));
            }
        }
        let id = found.with_context(|| format!("no thread {name}"))?;
        Ok(Self { path: format!("/proc/self/task/{id}/schedstat") })
    }

    /// Nanoseconds on a CPU so far, kernel and softirqs in its context included; as of the last tick (4 ms at 250 Hz).
    pub(crate) fn read_ns(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.path).with_context(|| self.path.clone())?;
        let first = text.split(' ').next().and_then(|first| first.parse().ok());
        first.with_context(|| format!("{}: {text:?} (needs CONFIG_SCHED_INFO)", self.path))
    }
}

/// Nanoseconds that the calling thread has had of its CPU: what else runs there meanwhile does not count.
pub(crate) fn own_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_time_and_one_that_is_not_there_is_told() {
        assert!(ThreadTime::of("nobody").is_err());
        let worked = std::thread::Builder::new()
            .name("worked".into())
            .spawn(|| {
                let time = ThreadTime::of("worked").unwrap();
                let before = time.read_ns().unwrap();
                (0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
                // The count is brought up to date when the thread leaves its CPU.
                std::thread::sleep(std::time::Duration::from_millis(1));
                time.read_ns().unwrap() - before
            })
            .unwrap();
        assert!(worked.join().unwrap() > 0);
    }
}
