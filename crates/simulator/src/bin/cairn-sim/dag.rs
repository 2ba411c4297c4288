//! `cairn-sim dag …`: one sub-command per line of [`Command`], each in its own file.

mod check;
mod convert;
mod evaluate;
mod generate;
mod map;
mod mapping;
mod read;
mod run;
mod stdout;
mod table;

use clap::{Args, Subcommand, ValueEnum};

use crate::Failure;

/// Whether any sub-command exists.
pub const ANY: bool = true;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Validate a graph and summarize it.
    Check(check::Arguments),
    /// Convert a graph to another format.
    Convert(convert::Arguments),
    /// Generate one of the papers' graphs.
    Generate(generate::Arguments),
    /// Map a graph offline.
    Map(map::Arguments),
    /// Evaluate the cost of a mapping.
    Evaluate(evaluate::Arguments),
    /// Build a table of mappings over the regions of a graph's parameters, and look mappings up online.
    Table(table::Arguments),
    /// Schedule a workload online, in simulated time.
    Run(run::Arguments),
}

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A readable table.
    Text,
    /// One JSON object.
    Json,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Map(arguments) => map::run(arguments),
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Table(arguments) => table::run(arguments),
        Command::Run(arguments) => run::run(arguments),
    }
}
