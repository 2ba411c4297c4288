//! `cairn-sim experiment NAME`: repeat one experiment, or list them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use simulator::experiments::{ALL, Setting, find};

use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// Which one.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Print the names with one line each.
    #[arg(long)]
    list: bool,
    /// The folder for tables and figures; made if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// How many seeds are tried where chance plays a part.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u64,
    /// The commit that pages say they were made at [default: none is named]
    #[arg(long, value_name = "COMMIT", env = "CAIRN_COMMIT")]
    commit: Option<String>,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.name else {
        let mut text = String::new();
        for experiment in ALL {
            writeln!(text, "{:16} {}", experiment.name, experiment.summary)?;
        }
        return print(&text);
    };
    let Some(experiment) = find(name) else {
        return Err(format!("there is no experiment {name}; `cairn-sim experiment --list` names them").into());
    };
    std::fs::create_dir_all(&arguments.out)
        .map_err(|source| format!("{}: {source}; name a folder with --out", arguments.out.display()))?;
    let setting = Setting {
        experiment: *experiment,
        out: arguments.out.clone(),
        seeds: arguments.seeds.max(1),
        progress: !arguments.quiet,
        // An empty variable names none.
        commit: arguments.commit.clone().filter(|commit| !commit.is_empty()),
    };
    (experiment.run)(&setting)
}
