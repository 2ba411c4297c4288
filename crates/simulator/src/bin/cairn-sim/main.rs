//! `cairn-sim`: simulates traces and task graphs, and repeats the papers' experiments.
//!
//! Every sub-command has its own file.

mod best_static;
mod dag;
mod experiment;
mod progress;
mod run;
mod trace;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Simulate traces and task graphs, and repeat the papers' experiments.
#[derive(Parser)]
#[command(name = "cairn-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a trace under a strategy.
    Run(run::Arguments),
    /// Find the best static assignment by exhaustive search, up to symmetry of equal units.
    BestStatic(best_static::Arguments),
    /// Generate a trace.
    Trace(trace::Arguments),
    /// Run an experiment of a paper.
    Experiment(experiment::Arguments),
    /// Schedule and map task graphs.
    #[command(hide = !dag::ANY)]
    Dag(dag::Arguments),
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One JSON object.
    Json,
    /// A readable table.
    Table,
}

/// A command's error, for display only.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    portfolio::run_child_if_asked();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version succeed; bad usage exits with 1 here, with 2 in clap.
        Err(error) => {
            // Printing is best effort.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let ended = match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::BestStatic(arguments) => best_static::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Experiment(arguments) => experiment::run(arguments),
        Command::Dag(arguments) => dag::run(arguments),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with its causes.
fn complain(error: &(dyn Error + 'static)) {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    let _ = writeln!(std::io::stderr(), "{}", placement::shortened(&text));
}

/// Prints a result; a closed pipe is not an error.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(source.into()),
        _ => Ok(()),
    }
}

/// Numbers in the format of `--assignment`.
fn list(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
