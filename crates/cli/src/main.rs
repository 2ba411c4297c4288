//! `kubectl cairn`: plan and look at placements, on files or on a cluster.
//!
//! It changes nothing, in a cluster or on disk: it says what the operator would decide, and why.

mod arguments;
mod check_policy;
mod cluster;
mod complete;
mod decide;
mod doctor;
mod error;
mod explain;
mod explained;
mod in_order;
mod names;
mod plan;
mod policy;
mod read;
mod report;
mod status;
mod style;
mod summary;
mod table;
mod text;
mod topology;
mod visible;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::arguments::{Arguments, Command, Completes};
use crate::error::CliError;

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Done,
    /// Something has no place; the reasons are printed.
    Unplaced,
    /// Something is wrong; what is printed.
    Wrong,
}

fn main() -> ExitCode {
    portfolio::run_child_if_asked();
    if let Some(words) = complete::asked() {
        return end(complete::run(&words));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are what was asked for; anything else is bad usage, 1 here and 2 with clap.
        Err(error) => {
            // Nobody is left to tell when even this cannot be written.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    end(match arguments.command {
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::CheckPolicy(arguments) => check_policy::run(&arguments),
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completion { asks } => completion(asks),
    })
}

/// The exit status of how a command ended.
fn end(ended: Result<Outcome, CliError>) -> ExitCode {
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unplaced | Outcome::Wrong) => ExitCode::from(2),
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints the script by which a shell, or kubectl, completes the commands.
fn completion(asks: Completes) -> Result<Outcome, CliError> {
    let Completes::Shell(shell) = asks else {
        print(complete::FOR_KUBECTL)?;
        return Ok(Outcome::Done);
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kubectl-cairn", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

/// Prints an error with its causes.
fn complain(error: &CliError) {
    let _ = writeln!(std::io::stderr(), "error: {}", error.in_full());
}

/// Prints a result; that the reader has gone away is no error.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Print { source }),
        _ => Ok(()),
    }
}
