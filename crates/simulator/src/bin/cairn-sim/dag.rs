//! `cairn-sim dag …`: one sub-command per line of [`Command`], each in a file of its own beside this one.

use clap::{Args, Subcommand};

use crate::Failure;

/// Whether there is a command to offer.
pub const ANY: bool = false;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.command {}
}
