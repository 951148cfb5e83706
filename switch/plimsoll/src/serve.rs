//! A switch at work: answers `plimsoll show`, brings ports back whose interface returns, sees its worker end.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, bail};
use plimsoll_lab::topology::RunFile;
use plimsoll_port::{
    Prepared,
    netlink::{LinkEvent, LinkMonitor, Netlink},
    worker::Worker,
};
use serde_json::Value;

use crate::{
    control::{Event, Request, Server},
    run::options,
    say::Note,
};

/// How often somebody looks whether the worker is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Answers clients until a signal; snapshots say which `clocks` a lab has, and by which ports their messages leave.
///
/// # Errors
/// The worker's thread has ended by itself.
pub(crate) fn hold(server: &mut Server, worker: &Worker, clocks: &Value) -> Result<()> {
    while turn(server, worker, clocks)? != Event::Stop {}
    Ok(())
}

/// Waits for something to happen, not for ever: a worker that has ended tells nobody.
fn turn(server: &mut Server, worker: &Worker, clocks: &Value) -> Result<Event> {
    let event = server.wait(Some(LOOK), |request| answer(worker, request, clocks))?;
    if !worker.is_running() {
        bail!(
            "the worker has ended by itself, and no frame is forwarded; its last words are above: please report them"
        );
    }
    Ok(event)
}

/// The same, and brings ports back whose interface returns.
///
/// # Errors
/// As [`hold`].
pub(crate) fn serve(
    server: &mut Server,
    monitor: &mut LinkMonitor,
    worker: &Worker,
    file: &RunFile,
) -> Result<()> {
    let mut absent: BTreeSet<String> = BTreeSet::new();
    loop {
        match turn(server, worker, &Value::Null)? {
            Event::Stop => return Ok(()),
            Event::Timeout => {}
            // What netlink cannot tell now is no reason to stop forwarding.
            Event::Watched => {
                if let Err(e) = watch(monitor, worker, file, &mut absent) {
                    writeln!(Note, "plimsoll: {e:#}; ports that come back may be missed");
                }
            }
        }
    }
}

/// Minds all link changes that wait.
fn watch(
    monitor: &mut LinkMonitor,
    worker: &Worker,
    file: &RunFile,
    absent: &mut BTreeSet<String>,
) -> Result<()> {
    loop {
        let event = match monitor.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(e) => {
                look_again(worker, file, absent)?;
                return Err(e.into());
            }
        };
        match event {
            LinkEvent::Removed(link) => drop(absent.insert(link.name)),
            LinkEvent::Changed(link) if link.is_up() && absent.contains(&link.name) => {
                if bring_back(worker, file, &link.name) {
                    absent.remove(&link.name);
                }
            }
            LinkEvent::Changed(_) => {}
            LinkEvent::Overrun => look_again(worker, file, absent)?,
        }
    }
}

/// After events were lost: which interfaces are no longer those that the ports were opened on.
fn look_again(worker: &Worker, file: &RunFile, absent: &mut BTreeSet<String>) -> Result<()> {
    let mut netlink = Netlink::open()?;
    for port in worker.snapshot()?.switches.into_iter().flat_map(|switch| switch.ports) {
        let found = netlink.link(&port.name);
        if let Err(e) = &found
            && !e.is_absent()
        {
            found?;
            continue;
        }
        let found = found.ok();
        let open = port.description.map(|open| open.index);
        if found.as_ref().is_some_and(|link| Some(link.index) == open) {
            absent.remove(&port.name);
        } else if found.is_none_or(|link| !link.is_up()) || !bring_back(worker, file, &port.name) {
            absent.insert(port.name);
        } else {
            absent.remove(&port.name);
        }
    }
    Ok(())
}

/// Opens a port again. `false` leaves it absent until its next change.
fn bring_back(worker: &Worker, file: &RunFile, name: &str) -> bool {
    for (node, switch) in file.switches.iter().enumerate() {
        let Some(port) = switch.config.ports.iter().position(|p| p.name == name) else { continue };
        let options = options(switch, port);
        let opened = worker.reopen(node, port, |memory| Prepared::new(memory, name, &options));
        match opened {
            Ok(()) => writeln!(Note, "{name}: is back"),
            Err(e) => {
                writeln!(Note, "plimsoll: {e}");
                return false;
            }
        }
    }
    true
}

/// What a client of the control socket is told.
fn answer(worker: &Worker, request: Request, clocks: &Value) -> Result<Value> {
    let value = match request {
        Request::Snapshot => serde_json::to_value(worker.snapshot()?).map(|mut snapshot| {
            if !clocks.is_null() {
                snapshot["clocks"] = clocks.clone();
            }
            snapshot
        }),
        Request::Fdb => serde_json::to_value(worker.fdb()?),
        Request::FlushFdb => serde_json::to_value(worker.flush_fdb()?),
        Request::Hold(port) => {
            let (node, port) = worker.find(&port)?;
            serde_json::to_value(worker.hold(node, port)?)
        }
        Request::Release(port) => {
            let (node, port) = worker.find(&port)?;
            serde_json::to_value(worker.resume(node, port)?)
        }
    };
    value.context("the answer does not fit JSON")
}
