//! `plimsoll show`: what a running switch counts.

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_core::{ByteCount, Vlan};
use plimsoll_lab::results::{Table, octets, overrun, time};
use plimsoll_port::PortCounters;
use serde_json::{Value, json};

use crate::{
    Usage,
    args::{Show, What},
    control::{Request, ask},
    say::Out,
};

pub(crate) fn show(args: &Show) -> Result<ExitCode> {
    let name = args.name.as_deref();
    if args.flush {
        if args.what != What::Fdb {
            return Err(Usage("--flush forgets addresses; write `plimsoll show fdb --flush`".into()).into());
        }
        writeln!(Out, "{} addresses forgotten", ask(name, Request::FlushFdb)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let snapshot = ask(name, Request::Snapshot)?;
    let part = match args.what {
        What::Ports => ports(&snapshot),
        What::Queues => queues(&snapshot),
        What::Drops => drops(&snapshot),
        What::Marks => marks(&snapshot),
        What::Fdb => fdb(&snapshot, &ask(name, Request::Fdb)?),
    };
    if args.json {
        writeln!(Out, "{}", serde_json::to_string_pretty(&part.json)?)?;
    } else if part.table.is_empty() {
        writeln!(Out, "{}", part.nothing)?;
    } else {
        write!(Out, "{}", part.table)?;
        part.notes.iter().try_for_each(|note| writeln!(Out, "{note}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One view, both ways.
struct View {
    json: Value,
    table: Table,
    nothing: &'static str,
    /// What a reader of the table should know, one line each.
    notes: Vec<String>,
}

/// (switch's name, port of the machine, port of the core), for each port.
fn each_port(snapshot: &Value) -> impl Iterator<Item = (String, &Value, &Value)> {
    list(&snapshot["switches"]).flat_map(|switch| {
        let pairs = list(&switch["ports"]).zip(list(&switch["stats"]["ports"]));
        pairs.map(|(machine, core)| (text(&switch["name"]), machine, core))
    })
}

/// A line for each port that lost frames before its switch saw them.
fn overruns(snapshot: &Value) -> Vec<String> {
    each_port(snapshot)
        .filter_map(|(switch, machine, _)| {
            let line = overrun(|name| machine["counters"][name].as_u64())?;
            Some(format!("switch {switch}, port {}: {line}", text(&machine["name"])))
        })
        .collect()
}

/// The values of an array; none of anything else.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

/// A port's VLANs as they are written; `-` for transparent ones.
fn vlan(value: &Value) -> String {
    match serde_json::from_value(value.clone()) {
        Ok(Vlan::Transparent) | Err(_) => "-".into(),
        Ok(vlan) => vlan.to_string(),
    }
}

/// How a class is served, by its quantum if it has one.
fn scheduling(quantum: Option<u64>) -> String {
    quantum.map_or("strict".into(), |quantum| format!("quantum {}", ByteCount(quantum)))
}

fn ports(snapshot: &Value) -> View {
    let mut table = Table::new(&[
        "switch",
        "port",
        "state",
        "mode",
        "rate",
        "vlan",
        "R",
        "corrects",
        "rx frames",
        "tx frames",
        "release p99",
        "within 1 us",
    ]);
    for (switch, machine, core) in each_port(snapshot) {
        let open = &machine["description"];
        let state = match (open.is_null(), core["held"].as_bool()) {
            (true, _) => "absent",
            (false, Some(true)) => "held",
            (false, _) => "open",
        };
        let late = &machine["release_late"];
        table.row(vec![
            switch,
            text(&machine["name"]),
            state.into(),
            text(&open["mode"]),
            machine["rate_bps"].as_u64().map_or("none".into(), |bps| plimsoll_core::Rate(bps).to_string()),
            vlan(&machine["vlan"]),
            text(&machine["thresholds"]),
            match (machine["edge"] == true, machine["transparent_clock"] == true) {
                (true, _) => "marks".into(),
                (false, true) => "residence".into(),
                (false, false) => "-".into(),
            },
            text(&core["rx"]["frames"]),
            text(&core["tx"]["frames"]),
            late["p99_ns"].as_f64().map_or("-".into(), time),
            format!("{:.2} %", 100.0 * late["within_1us"].as_f64().unwrap_or(1.0)),
        ]);
    }
    let json = json!({
        "ports": each_port(snapshot)
            .map(|(switch, machine, core)| json!({
                "switch": switch, "port": machine["name"], "rate_bps": machine["rate_bps"],
                "thresholds": machine["thresholds"], "delta_ns": machine["delta_ns"], "edge": machine["edge"],
                "transparent_clock": machine["transparent_clock"], "trust": machine["trust"], "vlan": machine["vlan"], "held": core["held"],
                "description": machine["description"], "rx": core["rx"], "tx": core["tx"],
                "counters": machine["counters"], "release_late": machine["release_late"],
                "late_arrival": machine["late_arrival"],
            }))
            .collect::<Vec<_>>(),
        "frames": snapshot["frames"],
        "frames_conserved": snapshot["frames_conserved"],
    });
    View { json, table, nothing: "no ports", notes: overruns(snapshot) }
}

fn queues(snapshot: &Value) -> View {
    let mut table = Table::new(&[
        "switch",
        "port",
        "class",
        "scheduling",
        "frames",
        "octets",
        "frames max",
        "octets max",
        "depth p50",
        "depth p99",
    ]);
    let mut rows = Vec::new();
    for (switch, machine, core) in each_port(snapshot) {
        for (class, queue) in list(&core["queues"]).enumerate() {
            if queue["frames_max"].as_u64() == Some(0) {
                continue;
            }
            table.row(vec![
                switch.clone(),
                text(&machine["name"]),
                class.to_string(),
                scheduling(machine["quanta"][class].as_u64()),
                text(&queue["frames"]),
                queue["bytes"].as_u64().map_or("-".into(), octets),
                text(&queue["frames_max"]),
                queue["bytes_max"].as_u64().map_or("-".into(), octets),
                core["depth_bytes"]["p50"].as_u64().map_or("-".into(), octets),
                core["depth_bytes"]["p99"].as_u64().map_or("-".into(), octets),
            ]);
        }
        rows.push(json!({
            "switch": switch, "port": machine["name"], "quanta": machine["quanta"], "queues": core["queues"],
            "depth_bytes": core["depth_bytes"], "sync_depth_bytes": core["sync_depth_bytes"],
        }));
    }
    View {
        json: json!({ "queues": rows }),
        table,
        nothing: "no frame has waited in a queue yet",
        notes: Vec::new(),
    }
}

fn fdb(snapshot: &Value, entries: &Value) -> View {
    let mut table = Table::new(&["switch", "vlan", "mac", "port", "age", "kind"]);
    let mut rows = Vec::new();
    for (switch, entries) in list(&snapshot["switches"]).zip(list(entries)) {
        for entry in list(entries) {
            let number = entry["port"].as_u64().unwrap_or(0) as usize;
            let port = text(&switch["ports"][number]["name"]);
            let kind = if entry["fixed"] == true { "fixed" } else { "learnt" };
            table.row(vec![
                text(&switch["name"]),
                text(&entry["vlan"]),
                text(&entry["mac"]),
                port.clone(),
                format!("{:.1} s", entry["age_ns"].as_f64().unwrap_or(0.0) / 1e9),
                kind.into(),
            ]);
            rows.push(json!({
                "switch": switch["name"], "vlan": entry["vlan"], "mac": entry["mac"], "port": port,
                "age_ns": entry["age_ns"], "kind": kind,
            }));
        }
    }
    View { json: json!({ "fdb": rows }), table, nothing: "no address learnt yet", notes: Vec::new() }
}

fn drops(snapshot: &Value) -> View {
    let mut table = Table::new(&["switch", "port", "where", "reason", "frames"]);
    let mut rows = Vec::new();
    let mut add = |switch: &str, port: &Value, place: &str, reason: &str, frames: u64| {
        rows.push(json!({
            "switch": switch, "port": port, "where": place, "reason": reason, "frames": frames,
        }));
        if frames > 0 {
            table.row(vec![switch.into(), text(port), place.into(), reason.into(), frames.to_string()]);
        }
    };
    for (switch, machine, core) in each_port(snapshot) {
        for (reason, _) in PortCounters::default().losses() {
            if let Some(frames) = machine["counters"][reason].as_u64() {
                add(&switch, &machine["name"], "machine", reason, frames);
            }
        }
        add(&switch, &machine["name"], "machine", "lost_down", machine["lost_down"].as_u64().unwrap_or(0));
        for (reason, frames) in core["drops"].as_object().into_iter().flatten() {
            add(&switch, &machine["name"], "switch", reason, frames.as_u64().unwrap_or(0));
        }
    }
    View { json: json!({ "drops": rows }), table, nothing: "no frame lost", notes: overruns(snapshot) }
}

fn marks(snapshot: &Value) -> View {
    let mut table = Table::new(&["switch", "port", "what", "messages"]);
    let mut rows = Vec::new();
    for (switch, machine, core) in each_port(snapshot) {
        let mut add = |what: String, messages: &Value| {
            if messages.as_u64().unwrap_or(0) > 0 {
                table.row(vec![switch.clone(), text(&machine["name"]), what, text(messages)]);
            }
        };
        let mut by_r: Vec<(u64, &Value)> = core["marks"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(r, messages)| Some((r.parse().ok()?, messages)))
            .collect();
        by_r.sort_unstable_by_key(|(r, _)| *r);
        if machine["thresholds"].as_u64() != Some(0) {
            by_r.iter().for_each(|(r, messages)| add(format!("r = {r}"), messages));
        }
        add("counts cleared on arrival".into(), &core["counts_cleared"]);
        add("counts untouched on arrival".into(), &core["counts_untouched"]);
        add("Not-ECT made ECT on arrival".into(), &core["remarked"]);
        for (outcome, frames) in core["ecn"].as_object().into_iter().flatten() {
            if outcome != "off" && outcome != "skip_not_ip" {
                add(format!("ecn {outcome}"), frames);
            }
        }
        for (outcome, messages) in core["mark"].as_object().into_iter().flatten() {
            if outcome.starts_with("skip") || outcome == "saturated" {
                add(outcome.clone(), messages);
            }
        }
        if machine["transparent_clock"] == true {
            for (what, messages) in machine["residence"].as_object().into_iter().flatten() {
                add(format!("residence {what}"), messages);
            }
        }
        rows.push(json!({
            "switch": switch, "port": machine["name"], "thresholds": machine["thresholds"],
            "delta_ns": machine["delta_ns"], "marks": core["marks"], "outcomes": core["mark"], "edge": core["edge"],
            "ecn": core["ecn"], "remarked": core["remarked"],
            "transparent_clock": machine["transparent_clock"], "residence": machine["residence"],
            "counts_cleared": core["counts_cleared"], "counts_untouched": core["counts_untouched"],
        }));
    }
    View {
        json: json!({ "marks": rows }),
        table,
        nothing: "no message could be marked yet",
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::VidRange;

    #[test]
    fn vlans_are_shown_as_they_are_written() {
        let shown = |vlan: Vlan| super::vlan(&serde_json::to_value(vlan).unwrap());
        assert_eq!(shown(Vlan::Transparent), "-");
        assert_eq!(shown(Vlan::Access { pvid: 10 }), "access 10");
        let allowed = vec![VidRange::one(10), VidRange { first: 20, last: 29 }];
        assert_eq!(shown(Vlan::Trunk { allowed, native: Some(1) }), "trunk 10,20-29 native 1");
    }

    #[test]
    fn every_loss_of_the_machine_is_a_counter_of_a_port() {
        let counters = serde_json::to_value(PortCounters::default()).unwrap();
        for (reason, _) in PortCounters::default().losses() {
            assert!(counters.get(reason).is_some(), "{reason}");
        }
    }
}
