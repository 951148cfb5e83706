//! The tables: first what marks did for the clocks, then flows, then ports.

use super::table::{octets, rate, time};
use super::{Outcome, PortOutcome, Table};
use crate::topology::Compensation;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.clocks.is_empty() {
            writeln!(f, "offset error: raw, compensated, improvement")?;
            writeln!(f, "{}", self.clock_table())?;
            for (clock, log) in self.clocks.iter().filter_map(|c| Some((c, c.logged.as_ref()?))) {
                writeln!(
                    f,
                    "{} itself logged an offset of {} rms, {} at most, in {} lines (corrections included)\n",
                    clock.report.daemon,
                    time(log.offset_rms_ns),
                    time(log.offset_abs_max_ns),
                    log.lines
                )?;
            }
        }
        if !self.flows.is_empty() {
            writeln!(f, "{}", self.flow_table())?;
        }
        if !self.ports.is_empty() {
            writeln!(f, "{}", self.port_table())?;
            for port in self.ports.iter().filter(|port| !port.receive_losses.is_empty()) {
                let losses: Vec<_> =
                    port.receive_losses.iter().map(|(why, n)| format!("{why} {n}")).collect();
                writeln!(
                    f,
                    "switch {}, port {}: lost on the way in: {}",
                    port.switch,
                    port.port,
                    losses.join(", ")
                )?;
            }
        }
        self.footer(f)
    }
}

impl Outcome {
    fn clock_table(&self) -> Table {
        let mut table = Table::new(&[
            "clock",
            "daemon",
            "over",
            "raw rms",
            "compensated",
            "improvement",
            "raw median",
            "compensated",
            "raw best 99 %",
            "compensated",
            "exchanges",
            "saturated",
        ]);
        for clock in &self.clocks {
            let r = &clock.report;
            let with =
                |ns: f64| if clock.compensation == Compensation::None { "-".to_owned() } else { time(ns) };
            table.row(vec![
                r.name.clone(),
                r.daemon.clone(),
                r.transport.to_string(),
                time(r.raw_rms_ns),
                with(r.compensated_rms_ns),
                match clock.compensation {
                    Compensation::None => "-".to_owned(),
                    Compensation::Clock | Compensation::Edge => format!("{:.1} %", r.improvement * 100.0),
                },
                time(r.raw.abs_median_ns),
                with(r.compensated.abs_median_ns),
                time(r.raw.best_99_rms_ns),
                with(r.compensated.best_99_rms_ns),
                r.samples.to_string(),
                r.saturated.to_string(),
            ]);
        }
        table
    }

    fn flow_table(&self) -> Table {
        let mut table = Table::new(&[
            "flow",
            "offered",
            "delivered",
            "sent",
            "lost",
            "latency p50",
            "p99",
            "sent late p99",
        ]);
        for flow in &self.flows {
            table.row(vec![
                flow.name.clone(),
                rate(flow.offered_bps),
                rate(flow.delivered_bps),
                flow.sent_frames.to_string(),
                flow.lost_frames.to_string(),
                time(flow.latency.p50_ns as f64),
                time(flow.latency.p99_ns as f64),
                time(flow.send_late.p99_ns as f64),
            ]);
        }
        table
    }

    fn port_table(&self) -> Table {
        let mut table = Table::new(&[
            "switch",
            "port",
            "rate",
            "measured",
            "used",
            "depth p50",
            "p99",
            "max",
            "dropped",
            "marked",
            "released within 1 us",
            "p99",
            "arrived late p99",
        ]);
        for port in &self.ports {
            let of_rate = |bps: f64| {
                port.rate_bps.map_or("-".to_owned(), |r| format!("{:.1} %", bps / r as f64 * 100.0))
            };
            table.row(vec![
                port.switch.clone(),
                port.port.clone(),
                port.rate_bps.map_or("none".to_owned(), |r| plimsoll_core::Rate(r).to_string()),
                port.measured_bps.map_or("-".to_owned(), rate),
                of_rate(port.sent_bps),
                octets(port.depth_bytes.p50),
                octets(port.depth_bytes.p99),
                octets(port.depth_bytes.max),
                port.dropped.to_string(),
                marked(port),
                format!("{:.1} %", port.release_late.within_1us * 100.0),
                time(port.release_late.p99_ns as f64),
                time(port.late_arrival.p99_ns as f64),
            ]);
        }
        table
    }

    fn footer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<_> = self.pinning.other_cpus.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{}: measured {:.1} s, seed {}; worker on CPU {}, everything else on {}",
            self.lab,
            self.duration_s,
            self.seed,
            self.pinning.worker_cpu,
            cpus.join(", ")
        )?;
        if let Some(m) = self.marking {
            write!(f, "; delta {}, R {}", time(m.delta_ns), m.thresholds)?;
        }
        writeln!(f)?;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for failure in &self.failed {
            writeln!(f, "failed: {failure}")?;
        }
        Ok(())
    }
}

/// Messages with r above 0, of all that could be marked.
fn marked(port: &PortOutcome) -> String {
    let all: u64 = port.marks.values().sum();
    if all == 0 {
        return "-".to_owned();
    }
    let above: u64 = port.marks.iter().filter(|(r, _)| **r > 0).map(|(_, n)| n).sum();
    format!("{above} of {all}")
}
