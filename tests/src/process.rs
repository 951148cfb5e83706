//! Programs run beside a test. Each is killed and awaited when it goes out of scope.

use crate::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a program wrote and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// The program and its arguments, for messages.
    pub command: String,
    /// Exit code, or the signal that ended it.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// The exit code; `None` after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The output of a program that ended well.
    ///
    /// # Panics
    /// When its exit code is not 0; with all that it wrote.
    #[must_use]
    pub fn ok(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self:#?}");
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }
}

/// Runs a program to its end.
///
/// # Panics
/// When it cannot be started, or does not end in time.
pub fn run(command: &mut Command, within: Duration) -> Output {
    Process::start(command).end(within)
}

/// A program that runs.
#[derive(Debug)]
pub struct Process {
    command: String,
    child: Child,
    stdout: Pipe,
    stderr: Pipe,
}

impl Process {
    /// Starts a program with its output read all the time.
    ///
    /// # Panics
    /// When there is no such program.
    pub fn start(command: &mut Command) -> Self {
        let text = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{text}: {e}"));
        let stdout = Pipe::read(child.stdout.take().unwrap());
        let stderr = Pipe::read(child.stderr.take().unwrap());
        Self { command: text, child, stdout, stderr }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written `text` to standard error.
    ///
    /// # Panics
    /// When it ends, or does not write it in time; with all that it wrote.
    pub fn says(&mut self, text: &str, within: Duration) {
        wait_for(&format!("{:?} of {}", text, self.command), within, || {
            // Asked first: what it wrote before its end is then all read.
            let ended = self.child.try_wait().unwrap();
            if let Some(status) = ended {
                std::thread::sleep(Duration::from_millis(50));
                let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
                assert!(stderr.contains(text), "{} ended ({status}):\n{stdout}{stderr}", self.command);
            }
            self.stderr.text().contains(text).then_some(())
        });
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Whether it has not ended.
    ///
    /// # Panics
    /// Never: the child is ours.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time; with all that it wrote.
    pub fn end(mut self, within: Duration) -> Output {
        let until = std::time::Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if std::time::Instant::now() >= until {
                let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
                panic!("{} did not end within {within:?}:\n{stdout}{stderr}", self.command);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Output {
            command: self.command.clone(),
            status,
            stdout: self.stdout.rest(),
            stderr: self.stderr.rest(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{} wrote:\n{}", self.command, self.stderr.text());
        }
    }
}

/// One stream of a child, read on a thread.
#[derive(Debug)]
struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Pipe {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let thread = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut part) {
                into.lock().unwrap().extend_from_slice(&part[..length]);
            }
        });
        Self { text, thread: Some(thread) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// Everything, once the other end is closed.
    fn rest(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.text()
    }
}
