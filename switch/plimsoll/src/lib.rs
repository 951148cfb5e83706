//! The command: `plimsoll run | show | link | doctor | lab | sim | plan | host | clock`.
//!
//! Thin: it reads arguments, calls the libraries, prints. Exit code 0 when all went well, 1 for a failure, 2 for usage
//! (arguments or file), and nothing is changed on the system in that case.
//!
//! A library with one function, so that the end-to-end tests run the very same command as a program of their own
//! package, which cargo then builds for them.
#![forbid(unsafe_code)]
// They panic where nobody reads, and a switch must not end of that.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod args;
mod clock;
mod control;
mod doctor;
mod host;
mod interrupt;
mod lab;
mod link;
mod plan;
mod run;
mod say;
mod serve;
mod show;
mod sim;

use std::process::ExitCode;

use clap::Parser;

use say::Note;

/// Wrong arguments or a wrong file: exit code 2.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The whole command: reads the process's arguments, does what they say, returns its exit code.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        // It would be told on standard error, which is what failed: that panics.
        .log_internal_errors(false)
        .init();
    let outcome = match args.command {
        args::Command::Run(run) => run::run(&run),
        args::Command::Show(show) => show::show(&show),
        args::Command::Link(link) => link::link(&link),
        args::Command::Doctor(doctor) => doctor::doctor(&doctor),
        args::Command::Lab(command) => lab::lab(&command),
        args::Command::Plan(args) => plan::plan(&args),
        args::Command::Sim(sim) => sim::sim(&sim),
        args::Command::Host(command) => host::host(&command),
        args::Command::Clock(clock) => clock::clock(&clock),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            writeln!(Note, "plimsoll: {}", told(&error));
            if error.chain().any(|e| e.is::<Usage>()) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// An error in one line: the outermost context first, then those causes that are not part of it already.
fn told(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        let words = cause.split(" (os error").next().unwrap_or(&cause);
        if !line.contains(words) {
            line = format!("{line}: {cause}");
        }
    }
    line.replace('\n', " ")
}

/// Prints what help or version were asked for; of a mistake one line with the remedy, as all errors are told.
fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match error.kind() {
        DisplayHelp | DisplayVersion => error.exit(),
        DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {
            writeln!(Note, "plimsoll: {}", one_line(&error.render().to_string()));
            ExitCode::from(2)
        }
    }
}

/// clap's paragraphs as one line: the mistake, then its tips, then where to read on.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let end = ["\nUsage:", "\nFor more information"].iter().filter_map(|stop| text.find(stop)).min();
    let mut line = String::new();
    for part in text[..end.unwrap_or(text.len())].lines().map(str::trim).filter(|part| !part.is_empty()) {
        let gap = match part.strip_prefix("tip: ") {
            _ if line.is_empty() => "",
            Some(_) => "; ",
            None => " ",
        };
        line.push_str(gap);
        line.push_str(part.strip_prefix("tip: ").unwrap_or(part));
    }
    line.push_str("; see `plimsoll --help`, or that of the subcommand");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_says_nothing_twice() {
        let errno = std::io::Error::from_raw_os_error(16);
        let words = "port p0: bind: Device or resource busy (EBUSY); stop whoever owns it";
        assert_eq!(told(&anyhow::Error::from(errno).context(words)), words);
        let cause = anyhow::anyhow!("bad\nlines").context("no answer");
        assert_eq!(told(&cause), "no answer: bad lines");
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        let told = |arguments: &[&str]| {
            let all = ["plimsoll"].iter().chain(arguments);
            one_line(&args::Args::try_parse_from(all).unwrap_err().render().to_string())
        };
        let bare = told(&["run", "--port", "a", "--delta", "60"]);
        assert!(
            bare.starts_with("invalid value '60' for '--delta <DELTA>': ") && bare.contains("us"),
            "{bare}"
        );
        let typo = told(&["run", "--prot", "a"]);
        assert!(typo.contains("'--prot'") && typo.contains("'--port'"), "{typo}");
        let missing = told(&["clock", "--interface", "a"]);
        assert!(missing.contains("--role <ROLE>"), "{missing}");
        for line in [bare, typo, missing] {
            assert!(!line.contains('\n') && line.ends_with("or that of the subcommand"), "{line}");
        }
    }
}
