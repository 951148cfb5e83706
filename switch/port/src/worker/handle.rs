//! Starting, asking and stopping the worker's thread.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use plimsoll_core::{ConfigError, FdbEntry, PortId};

use super::{
    Idle, Node, Records, Snapshot,
    node::Running,
    run::{self, Command, Loop},
};
use crate::{Memory, PortError, Prepared, Umem};

/// What the worker runs.
#[derive(Debug)]
pub struct WorkerConfig {
    /// The switches; their order is the `switch` number of records and snapshots.
    pub nodes: Vec<Node>,
    /// The memory of all their ports.
    pub umem: Umem,
    /// CPU to stay on; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// What to do when there is nothing to do.
    pub idle: Idle,
    /// Where ground truth goes.
    pub records: Option<Records>,
}

/// Why the worker did not start or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A switch cannot be made of its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port's error.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The thread could not be started or pinned.
    #[error("worker{}: {call}: {source}; name a CPU that exists and that this process may use", on(*.cpu))]
    Thread {
        /// CPU asked for.
        cpu: Option<usize>,
        /// The system call.
        call: &'static str,
        /// Its errno.
        source: io::Error,
    },
    /// No switch has such a port, or several have.
    #[error("{problem} {name:?}; write one of {ports}")]
    NoPort {
        /// What is wrong with the name.
        problem: &'static str,
        /// The name asked for.
        name: String,
        /// All ports, each as `SWITCH/PORT`.
        ports: String,
    },
    /// The thread has ended.
    #[error("the worker has stopped; see its log")]
    Stopped,
}

fn on(cpu: Option<usize>) -> String {
    cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default()
}

/// How often whoever waits for an answer looks whether the thread is still there to give it.
const LOOK: Duration = Duration::from_millis(100);

/// The running worker. Dropping it stops it.
#[derive(Debug)]
pub struct Worker {
    commands: Sender<Command>,
    attention: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    /// Lets go of ports whose interface is gone.
    closer: Option<thread::JoinHandle<()>>,
    /// Each switch's name with those of its ports.
    names: Vec<(String, Vec<String>)>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// A configuration that the core refuses, a CPU that is not there; the ports are closed again.
    pub fn spawn(mut config: WorkerConfig) -> Result<Self, WorkerError> {
        let mut nodes = Vec::with_capacity(config.nodes.len());
        let names = config.nodes.iter().map(|node| {
            let ports = node.switch.ports.iter().map(|port| port.name.clone());
            (node.switch.name.clone(), ports.collect())
        });
        let names = names.collect();
        let (remains, gone) = unbounded();
        for (index, node) in config.nodes.drain(..).enumerate() {
            nodes.push(Running::new(node, index as u16, config.records.as_ref(), remains.clone())?);
        }
        drop(remains);
        // On the CPUs of the calling thread. It ends with the worker, which has the other ends.
        let closer = thread::Builder::new()
            .name("plimsoll-closer".into())
            .spawn(move || gone.iter().for_each(drop))
            .map_err(|source| WorkerError::Thread { cpu: None, call: "clone", source })?;
        let (commands, inbox) = bounded(16);
        let attention = Arc::new(AtomicBool::new(false));
        let (started, start) = bounded(1);
        let engine = Loop {
            nodes,
            umem: config.umem,
            idle: config.idle,
            inbox,
            attention: Arc::clone(&attention),
            asleep: Vec::new(),
        };
        let cpu = config.cpu;
        let thread = thread::Builder::new()
            .name("plimsoll-worker".into())
            .spawn(move || run::main(engine, cpu, &started))
            .map_err(|source| WorkerError::Thread { cpu, call: "clone", source })?;
        let mut worker = Self { commands, attention, thread: Some(thread), closer: Some(closer), names };
        let failed = match start.recv() {
            Ok(Ok(())) => return Ok(worker),
            Ok(Err(source)) => WorkerError::Thread { cpu, call: "sched_setaffinity", source },
            Err(_) => WorkerError::Stopped,
        };
        // It closes the ports by itself.
        worker.join();
        Err(failed)
    }

    /// Whether its thread is still there. One that panicked has printed why.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// All counters as of one moment between two rounds; those of the kernel (what its sockets, the XDP program and the
    /// device lost) as of a moment later, read on the calling thread.
    ///
    /// # Errors
    /// [`WorkerError::Stopped`].
    pub fn snapshot(&self) -> Result<Snapshot, WorkerError> {
        let (reply, answer) = bounded(1);
        Ok(self.ask(Command::Snapshot(reply), &answer)?.complete())
    }

    /// Forgets all learnt addresses of all switches. Returns how many there were.
    ///
    /// # Errors
    /// [`WorkerError::Stopped`].
    pub fn flush_fdb(&self) -> Result<u64, WorkerError> {
        let (reply, answer) = bounded(1);
        self.ask(Command::FlushFdb(reply), &answer)
    }

    /// The forwarding databases, by switch.
    ///
    /// # Errors
    /// [`WorkerError::Stopped`].
    pub fn fdb(&self) -> Result<Vec<Vec<FdbEntry>>, WorkerError> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Fdb(reply), &answer)
    }

    /// The switch and the port with this name: that of an interface, or `SWITCH/PORT` where several switches have one.
    ///
    /// # Errors
    /// [`WorkerError::NoPort`] names all there are.
    pub fn find(&self, name: &str) -> Result<(usize, usize), WorkerError> {
        let (switch, port) = match name.split_once('/') {
            Some((switch, port)) => (Some(switch), port),
            None => (None, name),
        };
        let mut found = self.names.iter().enumerate().flat_map(|(node, (own, ports))| {
            let here = switch.is_none_or(|switch| switch == own);
            ports.iter().enumerate().filter(move |(_, p)| here && *p == port).map(move |(at, _)| (node, at))
        });
        let problem = match (found.next(), found.next()) {
            (Some(one), None) => return Ok(one),
            (None, _) => "there is no port",
            _ => "several switches have a port",
        };
        let all = self.names.iter().flat_map(|(own, ports)| ports.iter().map(move |p| format!("{own}/{p}")));
        let ports = all.collect::<Vec<_>>().join(", ");
        Err(WorkerError::NoPort { problem, name: name.into(), ports })
    }

    /// Holds the service of a port's link: no further frame starts ([`plimsoll_core::Switch::hold`]).
    ///
    /// # Errors
    /// [`WorkerError::Stopped`].
    ///
    /// # Panics
    /// If there is no such switch or port.
    pub fn hold(&self, node: usize, port: usize) -> Result<(), WorkerError> {
        self.serve(node, port, false)
    }

    /// Lets a held link serve from now on ([`plimsoll_core::Switch::resume`]).
    ///
    /// # Errors
    /// [`WorkerError::Stopped`].
    ///
    /// # Panics
    /// If there is no such switch or port.
    pub fn resume(&self, node: usize, port: usize) -> Result<(), WorkerError> {
        self.serve(node, port, true)
    }

    fn serve(&self, node: usize, port: usize, serve: bool) -> Result<(), WorkerError> {
        assert!(port < self.names[node].1.len(), "switch {node} has no port {port}");
        let (reply, answer) = bounded(1);
        self.ask(Command::Serve { node, port: PortId(port as u16), serve, reply }, &answer)
    }

    /// Gives a port its interface back, which has gone or has come anew by its name. `open` makes the port ready on the
    /// calling thread: loading, attaching and binding take tens of milliseconds, in which the other ports forward. The
    /// worker itself takes the old port out before and lets the new one in after it.
    ///
    /// # Errors
    /// [`WorkerError::Port`] where it could not be opened, and stays absent; [`WorkerError::Stopped`].
    pub fn reopen(
        &self,
        node: usize,
        port: usize,
        open: impl FnOnce(Memory) -> Result<Prepared, PortError>,
    ) -> Result<(), WorkerError> {
        let (reply, answer) = bounded(1);
        // First what the old interface held, or there is no memory for the new one.
        let memory = self.ask(Command::Vacate { node, port, reply }, &answer)?;
        let prepared = Box::new(open(memory)?);
        let (reply, answer) = bounded(1);
        self.ask(Command::Attach { node, port, prepared, reply }, &answer)?.map_err(Into::into)
    }

    /// Stops in the order that loses no chunk, and waits for it.
    ///
    /// # Errors
    /// [`WorkerError::Stopped`] where the thread had ended before.
    pub fn stop(mut self) -> Result<Snapshot, WorkerError> {
        let (reply, answer) = bounded(1);
        let last = self.ask(Command::Stop(reply), &answer);
        self.join();
        last
    }

    fn ask<T>(&self, command: Command, answer: &Receiver<T>) -> Result<T, WorkerError> {
        self.commands.send(command).map_err(|_| WorkerError::Stopped)?;
        self.attention.store(true, Ordering::Release);
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                // A thread that has panicked leaves the question, and with it our other end, in the queue for ever.
                Err(RecvTimeoutError::Timeout) if self.is_running() => {}
                Err(_) => return answer.try_recv().map_err(|_| WorkerError::Stopped),
            }
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the worker was already printed; its ports close with their file descriptors.
            let _ = thread.join();
        }
        if let Some(closer) = self.closer.take() {
            let _ = closer.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let (reply, answer) = bounded(1);
            let _ = self.ask(Command::Stop(reply), &answer);
            self.join();
        }
    }
}
