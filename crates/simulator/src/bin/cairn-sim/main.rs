//! `cairn-sim`: replay traces and task graphs in simulated worlds, and repeat the papers' experiments.
//!
//! Every sub-command is in a file of its own.

mod dag;
mod experiment;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Replay traces and task graphs in simulated worlds, and repeat the papers' experiments.
#[derive(Parser)]
#[command(name = "cairn-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Repeat an experiment of a paper.
    Experiment(experiment::Arguments),
    /// Schedule and map task graphs.
    #[command(hide = !dag::ANY)]
    Dag(dag::Arguments),
}

/// What goes wrong in a command; people read it.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are what was asked for; anything else is bad usage, 1 here and 2 with clap.
        Err(error) => {
            // Nobody is left to tell when even this cannot be written.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let ended = match &arguments.command {
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
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a result; that the reader has gone away is no error.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(source.into()),
        _ => Ok(()),
    }
}
