//! `cairn-sim dag generate KIND --out FOLDER`.

use std::path::{Path, PathBuf};

use clap::Args;
use taskgraph::generate::{annealing, cedr, semi_static};
use taskgraph::{FileError, Graph, Platform, files};

use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// pulse-doppler, wifi-tx, radar-correlator, temporal-mitigation (CEDR); binomial, convolution, gram-schmidt,
    /// gauss-seidel, jacobi (annealing); ten-node, random, in-tree, out-tree, fork-join (semi-static).
    kind: String,
    /// Number of tasks of a random, in-tree, out-tree or fork-join graph.
    #[arg(long, value_name = "N", default_value_t = 50)]
    size: usize,
    /// Number of strips into which the annealing paper's vectors are cut.
    #[arg(long, value_name = "S", default_value_t = 10)]
    strip: usize,
    /// Seed of the weights, and of annealing's platform.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder for KIND.json or KIND.yaml, and platform.yaml; created if missing.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let kind = &arguments.kind;
    if let Some(graph) = cedr::application(kind) {
        let text = files::cedr::write(&graph)?;
        return write(&arguments.out, &format!("{kind}.json"), &text);
    }
    let Some((graph, platform)) = yaml(arguments)? else {
        let ours = "binomial, convolution, gram-schmidt, gauss-seidel, jacobi, ten-node, random, in-tree, out-tree, \
                    fork-join";
        return Err(
            format!("unknown graph {kind}; use one of {}, {ours}", cedr::APPLICATIONS.join(", ")).into()
        );
    };
    write(&arguments.out, &format!("{kind}.yaml"), &files::graph::write(&graph))?;
    write(&arguments.out, "platform.yaml", &files::platform::write(&platform))
}

/// A graph of the annealing or the semi-static paper, and its platform.
fn yaml(arguments: &Arguments) -> Result<Option<(Graph, Platform)>, FileError> {
    let Arguments { kind, size, strip, seed, .. } = arguments;
    if kind == "ten-node" {
        return Ok(Some((semi_static::ten_node(), semi_static::platform())));
    }
    if let Ok(shape) = kind.parse() {
        return Ok(Some((semi_static::shaped(shape, *size, *seed)?, semi_static::platform())));
    }
    if let Ok(family) = kind.parse() {
        return Ok(Some((annealing::graph(family, *strip, *seed)?, annealing::platform(*seed))));
    }
    Ok(None)
}

/// Writes a file and prints its name.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
    written.map_err(|source| format!("{}: {source}; name a folder with --out", path.display()))?;
    print(&format!("{}\n", path.display()))
}
