//! `cairn-sim dag convert FILE --to cedr|yaml`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use taskgraph::{Cost, files};

use super::read;
use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// The graph: CEDR's JSON if the name ends in .json, else YAML.
    file: PathBuf,
    /// The target format.
    #[arg(long, value_enum)]
    to: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// CEDR's JSON.
    Cedr,
    /// Cairn's YAML.
    Yaml,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.file)?;
    match arguments.to {
        Format::Yaml => print(&files::graph::write(&graph)),
        Format::Cedr => {
            let actual = graph.tasks().iter().any(|task| match &task.cost {
                Cost::Measured(on) => on.values().any(|one| one.actual.is_some()),
                Cost::Work { .. } | Cost::Parallel { .. } => false,
            });
            if actual {
                let file = arguments.file.display();
                // A warning is best effort.
                let _ = writeln!(
                    std::io::stderr(),
                    "warning: {file}: CEDR's format has no actual times; left out"
                );
            }
            print(&read::named(&arguments.file, files::cedr::write(&graph))?)
        }
    }
}
