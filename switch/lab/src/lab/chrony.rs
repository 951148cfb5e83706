//! A pair of unmodified chronyds: a server, a client that measures and one that follows, and taps beside them.

use super::pair::{Ended, Ends, INTERFACE, Seen, Seized, Served, address, log_interval, spawn};
use super::{Lab, LabError};
use crate::chronyd::{Certificate, Client, Measurement, Meter, Security, Server, Settings, Tap};
use crate::clock::ClientCounters;
use crate::daemon::{LogLine, Logged, realtime};
use crate::topology::{Carrier, ClockPlan, SecurityMode, random_seed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);
/// Between two looks at where the follower's clock is: chronyc is a program to be started.
const LOOK: Duration = Duration::from_millis(500);
/// Answers that may come while a client ends.
const LAST: usize = 2;

pub(super) fn start(lab: &Lab, plan: &ClockPlan, stop: &Arc<AtomicBool>) -> Result<Ends, LabError> {
    let fail = LabError::daemon(&plan.name);
    let hosts = &lab.topology().hosts;
    let (server, client) = (&hosts[plan.server], &hosts[plan.client]);
    let address = address(plan, server);
    let security = match plan.security {
        SecurityMode::None => Security::None,
        SecurityMode::Key => Security::Key(std::array::from_fn(|_| random_seed() as u8)),
        SecurityMode::Nts => Security::Nts(Certificate::for_server(address).map_err(&fail)?),
    };
    let settings = Settings { security, poll: log_interval(plan), interleaved: plan.interleaved };
    let places = [lab.host(plan.client), lab.host(plan.server)];
    let mut tap =
        Tap::open((places[0], INTERFACE), (places[1], INTERFACE)).map_err(LabError::clock(&plan.name))?;
    // Started by this thread, with which they would die.
    let served = Server::start(places[1], &server.name, &settings).map_err(&fail)?;
    let mut meter = Meter::start(places[0], &client.name, address, &settings).map_err(&fail)?;
    let mut follower = Client::start(places[0], &client.name, address, &settings).map_err(&fail)?;
    let (name, by_ecn, stop) = (plan.name.clone(), plan.carrier == Carrier::Ecn, Arc::clone(stop));
    let fail_tap = LabError::clock(&name);
    let client = spawn(&plan.name, move || {
        let mut next = Instant::now();
        let mut logged = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            tap.take(NAP).map_err(&fail_tap)?;
            if Instant::now() >= next {
                next += LOOK;
                meter.check().map_err(&fail)?;
                if let Some(tracking) = follower.tracking().map_err(&fail)?.filter(|it| it.synchronised) {
                    let (offset_ns, delay_ns) = (tracking.offset_s * 1e9, tracking.root_delay_s * 0.5e9);
                    logged.push(LogLine { at: realtime(), offset_ns, delay_ns: Some(delay_ns) });
                }
            }
        }
        drop(follower);
        let identities = tap.identities();
        let measurements = meter.stop();
        let exchanges = tap.finish().map_err(&fail_tap)?;
        let mut warnings = Vec::new();
        if exchanges.len().abs_diff(measurements.len()) > LAST {
            warnings.push(format!(
                "clock {name}: {} answers came, and chronyd measured by {}: one exchange's wire times may stand beside \
                 another's measurement",
                exchanges.len(),
                measurements.len()
            ));
        }
        let mut counters = ClientCounters::default();
        let mut seized = Vec::new();
        for (number, (exchange, measured)) in exchanges.iter().zip(&measurements).enumerate() {
            let Some(exchange) = exchange.filter(|_| measured.valid) else {
                counters.ignored += 1;
                continue;
            };
            let (sync, delay) = exchange.records(number as u16, identities, by_ecn);
            seized.push(Seized { sync, delay, measured: Some(offset_and_delay(measured)) });
        }
        Ok(Ended { seen: Seen::Exchanges(seized, counters), logged: Some(Logged::of(logged)), warnings })
    })?;
    Ok((client, Served::Chronyd(served)))
}

/// By our signs: this clock less the server's; and the mean delay of both directions. Nanoseconds.
fn offset_and_delay(measurement: &Measurement) -> (f64, f64) {
    (-measurement.offset_s * 1e9, measurement.delay_s * 0.5e9)
}
