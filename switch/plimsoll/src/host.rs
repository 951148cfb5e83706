//! `plimsoll host`: shims by which unmodified clocks on this host profit from marks.

use std::process::ExitCode;

use anyhow::Result;
use plimsoll_core::{Ect, config::MAX_COUNT};
use plimsoll_lab::results::{Table, time};
use plimsoll_port::PortErrorKind;
use plimsoll_port::host::{self, HostOptions, HostProgram, HostReport, XdpChoice};
use serde_json::json;

use crate::{
    Usage,
    args::{Host, HostAttach, XdpArg},
    say::Out,
};

pub(crate) fn host(command: &Host) -> Result<ExitCode> {
    match command {
        Host::Attach(args) => attach(args)?,
        Host::Detach { interface } => match host::detach(interface)?.as_slice() {
            [] => writeln!(Out, "{interface}: nothing of Plimsoll's was attached")?,
            gone => writeln!(Out, "{interface}: detached {}", gone.join(", "))?,
        },
        Host::Show { interface, json } => show(interface.as_deref(), *json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn attach(args: &HostAttach) -> Result<()> {
    let timestamp = args.timestamp || !args.correction;
    if args.ce.is_some() && !timestamp {
        let problem = "--ce: CE is taken off by the timestamp shim alone; add --timestamp";
        return Err(Usage(problem.into()).into());
    }
    let options = HostOptions {
        timestamp,
        correction: args.correction,
        follow_up: args.follow_up,
        ce: args.ce.unwrap_or(args.delta),
        counter_max: args.counter_max,
        ect: args.ect.map(|one| if one == 0 { Ect::Zero } else { Ect::One }),
        ntp_field: args.ntp_field,
        xdp: match args.xdp {
            XdpArg::Auto => XdpChoice::Auto,
            XdpArg::Native => XdpChoice::Native,
            XdpArg::Generic => XdpChoice::Generic,
        },
        ..HostOptions::new(args.delta)
    };
    let report = host::attach(&args.interface, &options).map_err(|error| match error.kind {
        PortErrorKind::Option => Usage(error.to_string()).into(),
        _ => anyhow::Error::from(error),
    })?;
    for program in &report.programs {
        let (interface, name, point) = (&args.interface, program.program, program.point);
        writeln!(Out, "{interface}: {name} attached at {point}{}", told(program))?;
    }
    writeln!(Out, "`plimsoll host show {0}` counts, `plimsoll host detach {0}` takes it off", args.interface)
}

/// A program's own settings in words.
fn told(program: &HostProgram) -> String {
    let Some(settings) = program.settings else { return String::new() };
    let mut words = Vec::new();
    if program.program == "egress" {
        words.extend(settings.ect.map(|ect| format!("ECT({ect})")));
        words.extend(settings.ntp_field.then(|| "NTP field".into()));
    } else {
        words.push(format!("delta {}", time(settings.delta_ns)));
        if settings.counter_max < MAX_COUNT {
            words.push(format!("N {}", settings.counter_max));
        }
        if program.program == "timestamp" && settings.ce_ns != settings.delta_ns {
            words.push(format!("CE {}", time(settings.ce_ns)));
        }
        if program.program == "correction" && settings.follow_up {
            words.push("into follow-ups".into());
        }
    }
    format!(": {}", words.join(", "))
}

fn show(interface: Option<&str>, as_json: bool) -> Result<()> {
    let reports = host::show(interface)?;
    if as_json {
        return writeln!(Out, "{}", serde_json::to_string_pretty(&json!({ "hosts": reports }))?);
    }
    let table = table(&reports);
    if table.is_empty() {
        let place = interface.map(|name| format!("{name}: ")).unwrap_or_default();
        return writeln!(Out, "{place}nothing of Plimsoll's is attached; `plimsoll host attach` does that");
    }
    write!(Out, "{table}")
}

fn table(reports: &[HostReport]) -> Table {
    let mut table = Table::new(&["interface", "program", "at", "id", "delta", "counter", "count"]);
    for report in reports {
        for program in &report.programs {
            let delta = match program.settings {
                None => "another version".into(),
                Some(_) if program.program == "egress" => "-".into(),
                Some(settings) => time(settings.delta_ns),
            };
            let mut head = [
                report.interface.clone(),
                program.program.into(),
                program.point.into(),
                program.id.to_string(),
                delta,
            ];
            let counted = program.counters.iter().filter(|(_, count)| **count > 0);
            let mut rows: Vec<_> = counted.map(|(name, count)| [(*name).into(), count.to_string()]).collect();
            if rows.is_empty() {
                rows.push(["-".into(), "0".into()]);
            }
            for row in rows {
                let cells = std::mem::take(&mut head);
                table.row(cells.into_iter().chain(row).collect());
            }
        }
    }
    table
}
