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

mod capture;
mod cpu_time;
mod expect;
mod facts;
mod fifo;
mod forwarder;
mod frames;
mod generator;
mod hop;
mod judge;
mod kernel;
mod measure;
mod memory;
mod messages;
mod paper;
mod plot;
mod report;
mod stage;
mod statistics;
mod taps;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};
use facts::Facts;
use measure::accuracy::Part;
use paper::Figure;
use report::{Report, Row};
use std::{path::PathBuf, process::ExitCode, time::Duration};

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

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Every figure below, one after the other: about an hour.
    All,
    /// Marks at known depths, under real traffic and by every measure of depth, judged from outside; the paper's Table I,
    /// and plots.
    Accuracy {
        /// What to measure; all where none is named. May be given several times.
        #[arg(long = "part", value_enum, value_name = "PART")]
        parts: Vec<Part>,
        /// Length of each of the 12 live cases in seconds; 16.5 give 40,000 Sync messages.
        #[arg(long, default_value_t = 16.5, value_parser = seconds)]
        seconds: f64,
        /// Where plots, captures and the table go.
        #[arg(long, value_name = "DIR", default_value = "target/plimsoll-bench/accuracy")]
        out: PathBuf,
    },
    /// What marks cost beside a transparent clock: instructions (callgrind) and ns of the core; residence and CPU.
    Cost {
        /// Length of a round of the real switch in seconds.
        #[arg(long, default_value_t = 2.0, value_parser = seconds)]
        seconds: f64,
    },
    /// One case of `cost`, for callgrind.
    #[command(hide = true, name = measure::cost::COMMAND)]
    CostCase {
        /// Which.
        case: usize,
        /// Frames.
        frames: u64,
    },
    /// The core alone in memory: ns a frame.
    Core {
        /// Frames of a round.
        #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(10_000..))]
        frames: u64,
    },
    /// The paper's model: Algorithm 1 and searches, CPU time.
    Model,
    /// The paper's tables and figures from our own code, by the model and the simulator: CSV, plots, its numbers beside
    /// ours, and why they differ.
    Paper {
        /// Which; all where none is named.
        #[arg(value_enum, value_name = "FIGURE")]
        figures: Vec<Figure>,
        /// Simulates an eighth of the time: a look, not a figure.
        #[arg(long)]
        quick: bool,
        /// Where CSV, plots and the tables (paper.txt) go.
        #[arg(long, value_name = "DIR", default_value = "target/plimsoll-bench/paper")]
        out: PathBuf,
    },
    /// One worker beside a bare AF_XDP forwarder and a Linux bridge: frames a second.
    Speed {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 2.0, value_parser = seconds)]
        seconds: f64,
    },
    /// Marks beside a naive FIFO, from the ports' stamps and from taps on the hosts; how late frames are released.
    Marks {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 20.0, value_parser = seconds)]
        seconds: f64,
    },
    /// Unmodified ptp4l and chronyd under load, filters as in the paper's VI-B, and idle: what marks are worth to clocks.
    Clocks {
        /// What to measure; all where none is named. May be given several times.
        #[arg(long = "part", value_enum, value_name = "PART")]
        parts: Vec<measure::clocks::Part>,
        /// Length of a run in seconds, settling not counted.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=600))]
        seconds: u32,
        /// Where figures and tables go.
        #[arg(long, value_name = "DIR", default_value = "target/plimsoll-bench/clocks")]
        out: PathBuf,
    },
    /// Sync messages among an overload of bulk traffic.
    Overload {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 10.0, value_parser = seconds)]
        seconds: f64,
    },
    /// Rate and spacing on the emulated wire, beside HTB on a Linux bridge.
    Rate {
        /// Length of a round in seconds.
        #[arg(long, default_value_t = 5.0, value_parser = seconds)]
        seconds: f64,
    },
    /// From a recording to a plan to its use, `one-hop` and `three-hop`: improvement found beside foretold.
    Plan {
        /// Virtual time of each run of the simulator in seconds.
        #[arg(long, default_value_t = 300.0, value_parser = seconds)]
        simulated: f64,
        /// Length of each of the 14 runs of a round on veth in seconds.
        #[arg(long, default_value_t = 60.0, value_parser = seconds)]
        seconds: f64,
    },
    /// The simulator: its speed, and its distributions beside those on veth.
    Sim {
        /// Virtual time of a round in seconds, for the speed.
        #[arg(long, default_value_t = 20.0, value_parser = seconds)]
        simulated: f64,
        /// Length of a run on veth in seconds, for the distributions.
        #[arg(long, default_value_t = 60.0, value_parser = seconds)]
        seconds: f64,
    },
    /// ping and iperf3 with the hosts' default offloads, beside a Linux bridge.
    Tcp {
        /// Length of each iperf3 run in seconds.
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=600))]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Command::CostCase { case, frames } = arguments.command {
        return match measure::cost::run_case(case, frames) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("plimsoll-bench: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
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
    let commands = match &arguments.command {
        Command::All => Command::every(),
        one => vec![one.clone()],
    };
    let (mut rows, mut exhibits) = (Vec::new(), Vec::new());
    for command in &commands {
        eprintln!("plimsoll-bench: measuring {command:?}");
        if let Command::Paper { figures, quick, out } = command {
            let made = paper::measure(&facts, figures, *quick, out)?;
            rows.extend(made.iter().flat_map(|exhibit| exhibit.rows.clone()));
            exhibits.extend(made);
        } else {
            rows.extend(command.measure(&facts, arguments.rounds.map(usize::from))?);
        }
    }
    Ok(Report { machine: facts, rows, exhibits })
}

impl Command {
    /// All others, as they are without options.
    fn every() -> Vec<Self> {
        let names = [
            "core", "cost", "model", "paper", "speed", "rate", "tcp", "overload", "marks", "accuracy",
            "clocks", "sim", "plan",
        ];
        let parsed = names.iter().map(|name| Arguments::parse_from(["plimsoll-bench", name]).command);
        parsed.collect()
    }

    fn measure(&self, facts: &Facts, rounds: Option<usize>) -> Result<Vec<Row>> {
        let span = Duration::from_secs_f64;
        let given = rounds;
        let rounds = |default| given.unwrap_or(default);
        match self {
            Self::Core { frames } => {
                facts::on_cpu(facts.worker_cpu, || measure::core::measure(rounds(7), *frames))
            }
            Self::Model => facts::on_cpu(facts.worker_cpu, || measure::model::measure(rounds(7))),
            Self::Speed { seconds } => measure::speed::measure(facts, rounds(5), span(*seconds)),
            Self::Rate { seconds } => measure::rate::measure(facts, rounds(3), span(*seconds)),
            Self::Tcp { seconds } => measure::tcp::measure(facts, rounds(3), *seconds),
            Self::Overload { seconds } => measure::overload::measure(facts, rounds(3), span(*seconds)),
            Self::Marks { seconds } => measure::marks::measure(facts, rounds(3), span(*seconds)),
            Self::Clocks { parts, seconds, out } => {
                measure::clocks::measure(facts, parts, rounds(3), *seconds, out)
            }
            Self::Sim { simulated, seconds } => {
                measure::sim::measure(facts, rounds(3), span(*simulated), span(*seconds))
            }
            Self::Plan { simulated, seconds } => {
                measure::plan::measure(facts, given, span(*simulated), span(*seconds))
            }
            Self::Accuracy { parts, seconds, out } => {
                measure::accuracy::measure(facts, parts, span(*seconds), out)
            }
            Self::Cost { seconds } => measure::cost::measure(facts, rounds(3), span(*seconds)),
            Self::All | Self::CostCase { .. } | Self::Paper { .. } => Ok(Vec::new()),
        }
    }
}

/// Seconds of a round: enough that something is measured, and no more than a patient user waits.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds, 0.1 to 600".into()),
    }
}
