//! `cairn-sim experiment NAME`: run an experiment, or list all.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use simulator::experiments::{ALL, Setting, find};

use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// Name of the experiment.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the experiments.
    #[arg(long)]
    list: bool,
    /// The folder for tables and figures; created if missing.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// Number of seeds for randomized experiments.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u64,
    /// The commit named on generated pages [default: none]
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
        return Err(format!(
            "unknown experiment {name}; `cairn-sim experiment --list` lists the valid names"
        )
        .into());
    };
    std::fs::create_dir_all(&arguments.out)
        .map_err(|source| format!("{}: {source}; name a folder with --out", arguments.out.display()))?;
    let setting = Setting {
        experiment: *experiment,
        out: arguments.out.clone(),
        seeds: arguments.seeds.max(1),
        progress: !arguments.quiet,
        // An empty variable counts as unset.
        commit: arguments.commit.clone().filter(|commit| !commit.is_empty()),
    };
    (experiment.run)(&setting)
}
