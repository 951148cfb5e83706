//! The command: `plimsoll run | show | doctor | lab | clock`.
//!
//! Thin: it reads arguments, calls the libraries, prints. Exit code 0 when all went well, 1 for a failure, 2 for usage
//! (arguments or file), and nothing is changed on the system in that case.
#![forbid(unsafe_code)]

mod args;
mod clock;
mod control;
mod doctor;
mod lab;
mod run;
mod show;

use std::process::ExitCode;

use clap::Parser;

/// Wrong arguments or a wrong file: exit code 2.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let args = args::Args::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
    let outcome = match args.command {
        args::Command::Run(run) => run::run(&run),
        args::Command::Show(show) => show::show(&show),
        args::Command::Doctor(doctor) => doctor::doctor(&doctor),
        args::Command::Lab(command) => lab::lab(&command),
        args::Command::Clock(clock) => clock::clock(&clock),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // One line: the outermost context first, the cause last.
            eprintln!("plimsoll: {error:#}");
            if error.chain().any(|e| e.is::<Usage>()) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
