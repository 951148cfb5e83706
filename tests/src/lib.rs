//! End to end on namespaces with real peers: what the tests in `tests/` stand on.
//!
//! | module | what |
//! |---|---|
//! | `net` | hosts and the switch's ports: namespaces joined by veth pairs |
//! | `process` | programs run beside a test, ended with it |
//! | `switch` | the real command as a daemon: started, asked, stopped, killed |
//! | `congested` | such a switch with every carrier on, between hosts whose messages wait |
//! | `truth` | what it recorded of these messages |
//! | `frames`, `ntp`, `inject`, `capture` | frames made, sent and read octet by octet, without the switch's own views |
//! | `remains` | what a switch could leave behind |
//!
//! All of it is held by descriptors and by children that die with their parent, so a test that fails leaves nothing.
//! A failure here is a failed test: everything panics with what it waited for.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // the whole crate is test code

pub mod capture;
pub mod congested;
pub mod frames;
pub mod inject;
pub mod net;
pub mod ntp;
pub mod process;
pub mod remains;
pub mod switch;
pub mod truth;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program under test, which cargo puts beside the tests of its package.
///
/// # Panics
/// When it is not there: the tests were started by something else than cargo.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("plimsoll-under-test");
    assert!(program.is_file(), "{} is missing: run `cargo test -p plimsoll-tests`", program.display());
    program
}

/// Waits until `done` answers, at most `within`, and returns its answer.
///
/// # Panics
/// When it does not: `what` was not there in time.
pub fn wait_for<T>(what: &str, within: Duration, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + within;
    loop {
        if let Some(answer) = done() {
            return answer;
        }
        assert!(Instant::now() < until, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A name that no other test, and no other run of this one, has.
pub fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A folder of a test, removed with it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty folder.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(unique("plimsoll-e2e"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where a file of this name stands in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
