//! `cairn-sim dag check FILE`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use taskgraph::Cost;

use super::{Output, read};
use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// The graph: CEDR's JSON if the name ends in .json, else YAML.
    file: PathBuf,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Summary of a graph.
#[derive(Serialize)]
struct GraphSummary {
    name: String,
    model: String,
    tasks: usize,
    edges: usize,
    variables: usize,
    heads: usize,
    /// Number of tasks by depth, the longest chain of predecessors, from 0.
    levels: Vec<usize>,
    kinds: BTreeSet<String>,
    streaming: String,
    frames: u32,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.file)?;
    let mut level = vec![0; graph.tasks().len()];
    for task in graph.topological() {
        level[*task] = graph.predecessors(*task).map(|before| level[before] + 1).max().unwrap_or(0);
    }
    let mut levels = vec![0; level.iter().max().map_or(0, |last| last + 1)];
    for at in level {
        levels[at] += 1;
    }
    let kinds = graph.tasks().iter().flat_map(|task| match &task.cost {
        Cost::Measured(on) => on.keys().map(ToString::to_string).collect(),
        Cost::Parallel { h, .. } => h.keys().map(ToString::to_string).collect(),
        Cost::Work { .. } => Vec::new(),
    });
    let summary = GraphSummary {
        name: graph.name().to_owned(),
        model: graph.model().to_string(),
        tasks: graph.tasks().len(),
        edges: graph.edges().len(),
        variables: graph.variables().len(),
        heads: graph.heads().count(),
        levels,
        kinds: kinds.collect(),
        streaming: graph.streaming().to_string(),
        frames: graph.frames(),
    };
    if arguments.output == Output::Json {
        return print(&(serde_json::to_string(&summary)? + "\n"));
    }
    let GraphSummary { model, tasks, edges, variables, levels, .. } = summary;
    print(&format!(
        "sound: {tasks} tasks, {edges} edges, {variables} variables, {} levels; model {model}\n",
        levels.len()
    ))
}
