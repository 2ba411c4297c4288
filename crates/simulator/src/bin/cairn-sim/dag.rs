//! `cairn-sim dag …`: one sub-command per line of [`Command`], each in a file of its own beside this one.

mod check;
mod convert;
mod generate;
mod read;
mod run;

use clap::{Args, Subcommand, ValueEnum};

use crate::Failure;

/// Whether there is a command to offer.
pub const ANY: bool = true;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say whether a graph is sound, and what it has.
    Check(check::Arguments),
    /// Write a graph in another format.
    Convert(convert::Arguments),
    /// Write one of the papers' graphs.
    Generate(generate::Arguments),
    /// Schedule a workload while it runs, in simulated time.
    Run(run::Arguments),
}

/// How a result is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// One object, for programs.
    Json,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Run(arguments) => run::run(arguments),
    }
}
