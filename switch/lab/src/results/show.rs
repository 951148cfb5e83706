//! The tables: first what marks did for the clocks, then flows, then ports.

use super::table::{octets, rate, time};
use super::{Measure, Outcome, PortOutcome, Table};
use crate::clock::FilterChoice;
use crate::topology::{Compensation, CounterKind, Daemon, ThresholdRule};
use plimsoll_core::Depth;
use std::fmt;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.clocks.is_empty() {
            let disturbed =
                if self.degraded { " (degraded: the machine was too busy, see the warnings)" } else { "" };
            writeln!(f, "offset error: raw, compensated, improvement{disturbed}")?;
            writeln!(f, "{}", self.clock_table())?;
            for clock in &self.clocks {
                if !clock.raw_known {
                    writeln!(
                        f,
                        "{}: compensated is what it measured; it does not tell by which Pdelay messages, so that raw is \
                         another pair's to tell\n",
                        clock.report.name
                    )?;
                    continue;
                }
                let own = match clock.compensation {
                    Compensation::None | Compensation::Clock => continue,
                    Compensation::Host => {
                        writeln!(
                            f,
                            "{}: compensated is what it measured behind the hosts' shims; raw is by taps before them\n",
                            clock.report.name
                        )?;
                        continue;
                    }
                    Compensation::Edge => "conversions",
                    Compensation::TransparentClock => "corrections (but for the machine's lateness)",
                };
                writeln!(
                    f,
                    "{}: compensated is what it measured; raw is that without what the switch recorded of its own {own}\n",
                    clock.report.name
                )?;
            }
            for (clock, log) in self.clocks.iter().filter_map(|c| Some((c, c.logged.as_ref()?))) {
                let (rms, most) = (time(log.offset_rms_ns), time(log.offset_abs_max_ns));
                let (name, lines) = (&clock.report.name, log.lines);
                if clock.report.daemon == Daemon::Chronyd.name() {
                    writeln!(
                        f,
                        "{name}: chronyd's own tracking was off by {rms} rms, {most} at most, in {lines} looks\n"
                    )?;
                } else {
                    writeln!(
                        f,
                        "{name}: ptp4l itself logged an offset of {rms} rms, {most} at most, in {lines} lines (corrections \
                         included)\n"
                    )?;
                }
            }
        }
        if !self.flows.is_empty() {
            writeln!(f, "{}", self.flow_table())?;
        }
        if !self.ports.is_empty() {
            writeln!(f, "{}", self.port_table())?;
            for port in self.ports.iter().filter(|port| !port.losses.is_empty()) {
                let losses: Vec<_> = port.losses.iter().map(|(why, n)| format!("{why} {n}")).collect();
                writeln!(
                    f,
                    "switch {}, port {}: lost at the interface: {}",
                    port.switch,
                    port.port,
                    losses.join(", ")
                )?;
            }
            for port in self.ports.iter().filter(|port| port.held) {
                writeln!(f, "switch {}, port {}: its link is held", port.switch, port.port)?;
            }
            for port in self.ports.iter().filter(|port| port.transparent_messages > 0) {
                writeln!(
                    f,
                    "switch {}, port {}: as a transparent clock it corrected {} messages",
                    port.switch, port.port, port.transparent_messages
                )?;
            }
            for port in self.ports.iter().filter(|port| !port.ecn.is_empty()) {
                let ecn: Vec<_> = port.ecn.iter().map(|(what, n)| format!("{what} {n}")).collect();
                writeln!(f, "switch {}, port {}: ECN: {}", port.switch, port.port, ecn.join(", "))?;
            }
        }
        if self.flows.iter().any(|flow| flow.lost_frames > flow.lost_in_sink) {
            for host in self.hosts.iter().filter(|host| host.rx_dropped + host.tx_dropped > 0) {
                writeln!(
                    f,
                    "host {}: its own stack dropped {} frames on receiving, {} on sending",
                    host.name, host.rx_dropped, host.tx_dropped
                )?;
            }
        }
        self.footer(f)
    }
}

impl Outcome {
    /// A line a statistic, so that the three figures stand side by side.
    fn clock_table(&self) -> Table {
        let mut table = Table::new(&[
            "clock",
            "daemon",
            "over",
            "error",
            "raw",
            "compensated",
            "improvement",
            "exchanges",
            "saturated",
        ]);
        for clock in &self.clocks {
            let r = &clock.report;
            let mut statistics = vec![
                ("rms".to_owned(), r.raw.rms_ns, r.compensated.rms_ns),
                ("rms of best 99 %".into(), r.raw.best_99_rms_ns, r.compensated.best_99_rms_ns),
                ("median".into(), r.raw.abs_median_ns, r.compensated.abs_median_ns),
                ("p99".into(), r.raw.abs_p99_ns, r.compensated.abs_p99_ns),
            ];
            statistics.extend(r.filtered.iter().map(|filtered| {
                let FilterChoice { filter, window } = filtered.choice;
                let name = format!("rms, {} of {window}", filter.name());
                (name, filtered.raw.rms_ns, filtered.compensated.rms_ns)
            }));
            for (number, (error, raw, compensated)) in statistics.into_iter().enumerate() {
                let once = |text: String| if number == 0 { text } else { String::new() };
                let (compensated, improvement) = match clock.compensation {
                    Compensation::None => ("-".to_owned(), "-".to_owned()),
                    Compensation::Clock
                    | Compensation::Edge
                    | Compensation::Host
                    | Compensation::TransparentClock => (
                        time(compensated),
                        if raw > 0.0 {
                            format!("{:.1} %", (1.0 - compensated / raw) * 100.0)
                        } else {
                            "-".into()
                        },
                    ),
                };
                let none = || "-".to_owned();
                let (raw, compensated, improvement) = match (r.samples, clock.raw_known) {
                    (0, _) => (none(), none(), none()),
                    (_, true) => (time(raw), compensated, improvement),
                    (_, false) => (none(), compensated, none()),
                };
                table.row(vec![
                    once(r.name.clone()),
                    once(r.daemon.clone()),
                    once(r.transport.to_string()),
                    error,
                    raw,
                    compensated,
                    improvement,
                    once(r.samples.to_string()),
                    once(r.saturated.to_string()),
                ]);
            }
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
            "stood still",
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
                match flow.stalls {
                    0 => "-".to_owned(),
                    stalls => format!("{stalls} x, {}", time(flow.stalled_ns as f64)),
                },
            ]);
        }
        table
    }

    fn port_table(&self) -> Table {
        let mut table = Table::new(&[
            "port",
            "rate",
            "back to back",
            "used",
            "depth p50",
            "p99",
            "max",
            "dropped",
            "marked",
            "released in 1 us",
            "late p99",
            "inversions",
        ]);
        for port in &self.ports {
            let used = |rate: u64| format!("{:.1} %", port.sent_bps / rate as f64 * 100.0);
            table.row(vec![
                format!("{} to {}", port.switch, port.port),
                port.rate_bps.map_or("none".to_owned(), |r| plimsoll_core::Rate(r).to_string()),
                port.measured_bps.map_or("-".to_owned(), rate),
                port.rate_bps.map_or("-".to_owned(), used),
                octets(port.depth_bytes.p50),
                octets(port.depth_bytes.p99),
                octets(port.depth_bytes.max),
                port.dropped.to_string(),
                marked(port),
                format!("{:.1} %", port.release_late.within_1us * 100.0),
                time(port.release_late.p99_ns as f64),
                port.inversions.to_string(),
            ]);
        }
        table
    }

    fn footer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pinning {
            Some(pinning) => {
                let cpus: Vec<_> = pinning.other_cpus.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "{}: measured {:.1} s, seed {}; worker on CPU {}, everything else on {}",
                    self.lab,
                    self.duration_s,
                    self.seed,
                    pinning.worker_cpu,
                    cpus.join(", ")
                )?;
            }
            None => write!(f, "{}: simulated {:.1} s, seed {}", self.lab, self.duration_s, self.seed)?,
        }
        if let Some(m) = self.marking {
            write!(f, "; delta {}, R {}", time(m.delta_ns), m.thresholds)?;
            if m.counter != CounterKind::Integer {
                f.write_str(", bit shift")?;
            }
            if m.forward_reverse {
                f.write_str(", forward and reverse")?;
            }
            if m.rule == ThresholdRule::Centred {
                f.write_str(", centred")?;
            }
        }
        if let Some(ns) = self.ecn_threshold_ns {
            write!(f, "; ECN from {} on", time(ns))?;
        }
        let marks = self.marking.is_some() || self.ecn_threshold_ns.is_some();
        if marks && self.measure != Measure::of(Depth::default()) {
            let Measure { depth, count, cell_bytes } = self.measure;
            write!(f, "; depth: {depth}, {count}")?;
            if let Some(octets) = cell_bytes {
                write!(f, " of {octets} B")?;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ClientCounters, ClockReport, OffsetStatistics, Transport};
    use crate::lab::Pinning;
    use crate::results::{ClockOutcome, DepthBytes, HostOutcome, Marking};
    use crate::traffic::{FlowReport, LatencySummary};
    use plimsoll_port::worker::Lateness;
    use std::collections::BTreeMap;

    fn clock(name: &str, compensation: Compensation) -> ClockOutcome {
        let of = |rms_ns: f64| OffsetStatistics {
            rms_ns,
            best_99_rms_ns: rms_ns / 2.0,
            abs_median_ns: rms_ns / 4.0,
            abs_p99_ns: rms_ns * 2.0,
            ..OffsetStatistics::default()
        };
        ClockOutcome {
            report: ClockReport {
                name: name.into(),
                daemon: "plimsoll".into(),
                transport: Transport::UdpV4,
                samples: 1280,
                saturated: 3,
                raw_rms_ns: 120_000.0,
                compensated_rms_ns: 6_000.0,
                improvement: 0.95,
                raw: of(120_000.0),
                compensated: of(6_000.0),
                filtered: None,
            },
            compensation,
            logged: None,
            counters: ClientCounters::default(),
            raw_known: true,
            samples: Vec::new(),
        }
    }

    fn outcome() -> Outcome {
        let lateness =
            Lateness { frames: 1000, count: 12, p99_ns: 1100, within_1us: 0.988, ..Lateness::default() };
        Outcome {
            lab: "one-hop".into(),
            duration_s: 20.0,
            seed: 1,
            marking: Some(Marking {
                delta_ns: 10_000.0,
                thresholds: 128,
                counter_max: 1_073_741_823,
                counter: CounterKind::Integer,
                forward_reverse: false,
                rule: ThresholdRule::Edge,
            }),
            ecn_threshold_ns: None,
            measure: Measure::of(Depth::default()),
            clocks: vec![clock("ptp", Compensation::Clock), clock("bare", Compensation::None)],
            flows: Vec::new(),
            ports: vec![PortOutcome {
                switch: "s1".into(),
                port: "client".into(),
                rate_bps: Some(100_000_000),
                measured_bps: Some(99_990_000.0),
                sent_bps: 70_100_000.0,
                frames: 1000,
                dropped: 0,
                depth_bytes: DepthBytes { p50: 1538, p99: 12_304, max: 20_000 },
                marks: BTreeMap::from([(0, 30), (2, 60), (9, 10)]),
                saturated: 0,
                release_late: lateness,
                inversions: 5,
                late_arrival: Lateness { count: 0, within_1us: 1.0, ..lateness },
                mode: "native".into(),
                losses: BTreeMap::from([("before_xdp", 7), ("tx_down", 2)]),
                ecn: BTreeMap::new(),
                transparent_messages: 0,
                held: false,
            }],
            hosts: vec![HostOutcome { name: "client".into(), rx_dropped: 1, tx_dropped: 0 }],
            pinning: Some(Pinning { worker_cpu: 1, other_cpus: vec![0], shared: false }),
            frames_conserved: true,
            degraded: false,
            warnings: vec!["a thing".into()],
            failed: Vec::new(),
            cut_short: false,
        }
    }

    #[test]
    fn clocks_come_first_then_ports_then_who_ran_where() {
        assert_eq!(
            outcome().to_string(),
            "\
offset error: raw, compensated, improvement
clock  daemon    over  error                 raw  compensated  improvement  exchanges  saturated
ptp    plimsoll  udp4  rms                120 us      6.00 us       95.0 %       1280          3
                       rms of best 99 %  60.0 us      3.00 us       95.0 %
                       median            30.0 us      1.50 us       95.0 %
                       p99                240 us      12.0 us       95.0 %
bare   plimsoll  udp4  rms                120 us            -            -       1280          3
                       rms of best 99 %  60.0 us            -            -
                       median            30.0 us            -            -
                       p99                240 us            -            -

port             rate  back to back    used  depth p50      p99      max  dropped     marked  released in 1 us  late p99  inversions
s1 to client  100mbit     99.99mbit  70.1 %     1538 B  12.3 kB  20.0 kB        0  70 of 100            98.8 %   1.10 us           5

switch s1, port client: lost at the interface: before_xdp 7, tx_down 2
one-hop: measured 20.0 s, seed 1; worker on CPU 1, everything else on 0; delta 10.0 us, R 128
warning: a thing
"
        );
    }

    #[test]
    fn a_flow_whose_sender_stood_still_too_long_is_told_of_in_the_heading() {
        let flow = |stalled_ns| FlowReport {
            name: "cross".into(),
            offered_bps: 0.0,
            delivered_bps: 0.0,
            sent_frames: 9,
            received_frames: 9,
            lost_frames: 0,
            lost_in_sink: 0,
            reordered_frames: 0,
            duplicate_frames: 0,
            latency: LatencySummary::default(),
            send_late: LatencySummary::default(),
            stalls: 3,
            stalled_ns,
        };
        // 5 % of 20 s.
        for (stalled_ns, degraded) in [(1_000_000_000, false), (1_100_000_000, true)] {
            let mut outcome = outcome();
            outcome.take_flows(vec![flow(stalled_ns)], Vec::new());
            let text = outcome.to_string();
            let heading = text.lines().next().unwrap();
            assert_eq!((outcome.degraded, heading.contains("(degraded: ")), (degraded, degraded), "{text}");
            assert_eq!(
                text.contains("flow cross: its sender's machine stood still 3 times"),
                degraded,
                "{text}"
            );
        }
    }

    #[test]
    fn ecn_transparent_clocks_and_holds_are_told_where_they_are_used() {
        let mut outcome = outcome();
        let plain = outcome.to_string();
        assert!(
            !plain.contains("ECN") && !plain.contains("transparent") && !plain.contains("held"),
            "{plain}"
        );
        let port = &mut outcome.ports[0];
        port.ecn = BTreeMap::from([("below", 5), ("marked", 3)]);
        (port.transparent_messages, port.held) = (12, true);
        outcome.ecn_threshold_ns = Some(120_000.0);
        outcome.clocks[0].compensation = Compensation::TransparentClock;
        let told = outcome.to_string();
        for line in [
            "ptp: compensated is what it measured; raw is that without what the switch recorded of its own corrections (but \
             for the machine's lateness)\n",
            "\nswitch s1, port client: its link is held\n",
            "\nswitch s1, port client: as a transparent clock it corrected 12 messages\n",
            "\nswitch s1, port client: ECN: below 5, marked 3\n",
            "; delta 10.0 us, R 128; ECN from 120 us on\n",
        ] {
            assert!(told.contains(line), "{line:?} in {told}");
        }
    }

    #[test]
    fn how_marks_are_made_is_told_where_it_is_not_as_usual() {
        let mut outcome = outcome();
        outcome.marking = outcome.marking.map(|mark| Marking { rule: ThresholdRule::Centred, ..mark });
        outcome.measure = Measure::of(Depth {
            scope: plimsoll_core::DepthScope::Queue,
            unit: plimsoll_core::DepthUnit::Cells { octets: 80 },
        });
        let told = outcome.to_string();
        assert!(told.contains("; delta 10.0 us, R 128, centred; depth: queue, cells of 80 B\n"), "{told}");
        outcome.marking = None;
        assert!(!outcome.to_string().contains("depth: "));
    }

    #[test]
    fn filters_shims_and_chronyd_are_told_of() {
        let mut outcome = outcome();
        let filter = FilterChoice { filter: plimsoll_model::Filter::MinRtt, window: 8 };
        let clock = &mut outcome.clocks[0];
        clock.report.filtered = Some(crate::clock::Filtered::of(filter, &[]));
        clock.report.daemon = "chronyd".into();
        clock.compensation = Compensation::Host;
        clock.logged =
            Some(crate::daemon::Logged { lines: 40, offset_rms_ns: 2_500.0, ..Default::default() });
        let told = outcome.to_string();
        for line in [
            "rms, min-rtt of 8",
            "\nptp: compensated is what it measured behind the hosts' shims; raw is by taps before them\n",
            "\nptp: chronyd's own tracking was off by 2.50 us rms, 0 ns at most, in 40 looks\n",
        ] {
            assert!(told.contains(line), "{line:?} in {told}");
        }
    }

    #[test]
    fn how_raw_is_told_of_a_clock_behind_an_edge_is_said() {
        let mut outcome = outcome();
        assert!(!outcome.to_string().contains("what it measured"));
        outcome.clocks[0].compensation = Compensation::Edge;
        assert!(
            outcome.to_string().contains("\nptp: compensated is what it measured; raw is that without what")
        );
    }

    #[test]
    fn a_clock_without_exchanges_has_no_figures() {
        let mut outcome = outcome();
        let (mut none, unlike) = (outcome.clocks.remove(0), "no exchange was completed");
        none.report.samples = 0;
        outcome.clocks.clear();
        outcome.cut_short = true;
        outcome.take_clock(none.clone());
        let told = outcome.to_string();
        assert!(
            told.contains("best 99 %    -            -            -\n") && !told.contains(unlike),
            "{told}"
        );
        outcome.cut_short = false;
        outcome.take_clock(none);
        assert!(outcome.to_string().contains(unlike));
    }

    #[test]
    fn any_failure_is_said_last_and_makes_the_exit_code() {
        let mut outcome = outcome();
        assert_eq!(outcome.exit_code(), 0);
        outcome.failed.push("clock ptp: no exchange was completed; measure longer".into());
        assert_eq!(outcome.exit_code(), 1);
        assert!(
            outcome.to_string().ends_with("failed: clock ptp: no exchange was completed; measure longer\n")
        );
    }
}
