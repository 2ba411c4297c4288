//! `cairn-sim dag generate KIND --out FOLDER`.

use std::path::{Path, PathBuf};

use clap::Args;
use taskgraph::files;
use taskgraph::generate::cedr;

use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// pulse-doppler, wifi-tx, radar-correlator or temporal-mitigation.
    kind: String,
    /// The folder for KIND.json; made if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kind = &arguments.kind;
    let Some(graph) = cedr::application(kind) else {
        return Err(format!("there is no graph {kind}; there are {}", cedr::APPLICATIONS.join(", ")).into());
    };
    let text = files::cedr::write(&graph)?;
    write(&arguments.out, &format!("{kind}.json"), &text)
}

/// Writes one file, and says so.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
    written.map_err(|source| format!("{}: {source}; name a folder with --out", path.display()))?;
    print(&format!("{}\n", path.display()))
}
