//! `cairn-sim dag …`: one sub-command per line of [`Command`], each in a file of its own beside this one.

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
    /// Map a graph before it runs.
    Map(map::Arguments),
    /// Say what a mapping costs.
    Evaluate(evaluate::Arguments),
    /// Map every region of a graph's parameters before it runs, and look mappings up while it runs.
    Table(table::Arguments),
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
        Command::Map(arguments) => map::run(arguments),
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Table(arguments) => table::run(arguments),
        Command::Run(arguments) => run::run(arguments),
    }
}
