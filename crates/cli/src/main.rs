//! `kubectl cairn`: plan and inspect placements, on files or on a cluster.
//!
//! All commands are read-only, on the cluster and on disk.

mod access;
mod args;
mod check_policy;
mod cluster;
mod completion;
mod doctor;
mod error;
mod explain;
mod explanation;
mod history;
mod load;
mod names;
mod ordered;
mod plan;
mod policy;
mod read;
mod report;
mod schema;
mod search;
mod status;
mod style;
mod summary;
mod table;
mod text;
mod topology;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command, CompletionTarget};
use crate::error::CliError;

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything is placed and healthy.
    Ok,
    /// Some actors are unplaced; the reasons are printed.
    Unplaced,
    /// Problems were found and printed.
    Problems,
}

fn main() -> ExitCode {
    portfolio::run_child_if_asked();
    if let Some(words) = completion::requested_words() {
        return exit_code(completion::run(&words));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no errors. For bad usage the exit status is 1, not clap's 2.
        Err(error) => {
            // There is no other output to report a failed write to.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    exit_code(match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::CheckPolicy(args) => check_policy::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Status(args) => status::run(&args),
        Command::History(args) => history::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completion { target } => print_completion(target),
    })
}

/// The exit status of a command.
fn exit_code(result: Result<Outcome, CliError>) -> ExitCode {
    match result {
        Ok(Outcome::Ok) => ExitCode::SUCCESS,
        Ok(Outcome::Unplaced | Outcome::Problems) => ExitCode::from(2),
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints the completion script for a shell or kubectl.
fn print_completion(target: CompletionTarget) -> Result<Outcome, CliError> {
    let CompletionTarget::Shell(shell) = target else {
        print_raw(completion::KUBECTL_SCRIPT)?;
        return Ok(Outcome::Ok);
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kubectl-cairn", &mut script);
    print_raw(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Ok)
}

/// Prints an error with its causes.
fn print_error(error: &CliError) {
    let _ = writeln!(std::io::stderr(), "error: {}", text::escaped(&error.with_causes()));
}

/// Prints a warning.
fn print_warning(text: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {}", text::escaped(&placement::shortened(text)));
}

/// Prints a result, with the control characters of its objects escaped. A closed pipe is not an error.
fn print(text: &str) -> Result<(), CliError> {
    print_raw(&text::escaped(text))
}

/// Prints a text as it is.
fn print_raw(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Print { source }),
        _ => Ok(()),
    }
}
