//! Accuracy and speed, each figure by one command:
//!
//! ```text
//! cargo run --release -p plimsoll-bench -- COMMAND [--json]
//! ```
//!
//! Every command prints what was asked, what was measured (the median of its rounds) and whether that is enough. Exit
//! code 0: all reached; 1: one is missed or could not be measured; 2: usage. All traffic stays in namespaces that go
//! with the process.
#![forbid(unsafe_code)]

mod cpu_time;
mod facts;
mod fifo;
mod forwarder;
mod frames;
mod generator;
mod kernel;
mod measure;
mod report;
mod stage;
mod statistics;
mod taps;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};
use facts::Facts;
use report::Report;
use std::{process::ExitCode, time::Duration};

#[derive(Parser)]
#[command(about = "Measures Plimsoll's accuracy and speed on this machine")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Prints JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Rounds of each figure; the median counts.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
}

#[derive(Subcommand)]
enum Command {
    /// The core alone in memory: ns a frame.
    Core {
        /// Frames of a round.
        #[arg(long, default_value_t = 2_000_000)]
        frames: u64,
    },
    /// One worker beside a bare AF_XDP forwarder and a Linux bridge: frames a second.
    Speed {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Marks beside a naive FIFO, from the ports' stamps and from taps on the hosts; how late frames are released.
    Marks {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 20.0)]
        seconds: f64,
    },
    /// Sync messages among an overload of bulk traffic.
    Overload {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
    /// Rate and spacing on the emulated wire, beside HTB on a Linux bridge.
    Rate {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// ping and iperf3 with the hosts' default offloads, beside a Linux bridge.
    Tcp {
        /// Length of each iperf3 run in seconds.
        #[arg(long, default_value_t = 8)]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(report) if arguments.json => {
            match serde_json::to_string_pretty(&report) {
                Ok(text) => println!("{text}"),
                Err(error) => eprintln!("plimsoll-bench: {error}"),
            }
            ExitCode::from(u8::from(report.missed() > 0))
        }
        Ok(report) => {
            print!("{}", report.table());
            ExitCode::from(u8::from(report.missed() > 0))
        }
        Err(error) => {
            eprintln!("plimsoll-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Report> {
    let facts = Facts::pin()?;
    let rounds = |default: usize| arguments.rounds.map_or(default, usize::from);
    let rows = match &arguments.command {
        Command::Core { frames } => {
            facts::on_cpu(facts.worker_cpu, || measure::core::measure(rounds(7), *frames))?
        }
        Command::Marks { seconds } => measure::marks::measure(&facts, rounds(3), Duration::from_secs_f64(*seconds))?,
        Command::Overload { seconds } => {
            measure::overload::measure(&facts, rounds(3), Duration::from_secs_f64(*seconds))?
        }
        Command::Tcp { seconds } => measure::tcp::measure(&facts, rounds(3), *seconds)?,
        Command::Rate { seconds } => {
            measure::rate::measure(&facts, rounds(3), Duration::from_secs_f64(*seconds))?
        }
        Command::Speed { seconds } => {
            measure::speed::measure(&facts, rounds(5), Duration::from_secs_f64(*seconds))?
        }
    };
    Ok(Report { machine: facts, rows })
}
