//! `cairn-sim dag evaluate`.

use std::path::PathBuf;

use clap::Args;
use taskgraph::cost::{Division, ParallelModel, Vector, WorkModel};
use taskgraph::files::mapping::{self as file, Places};
use taskgraph::offline::{Plan, list};
use taskgraph::{FileError, Graph, Mapping, Model, Platform, offline};

use super::mapping::{self, Priced};
use super::{Output, read};
use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// The graph.
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// The platform.
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// The mapping, as printed by `map -o json`.
    #[arg(long, value_name = "FILE")]
    mapping: PathBuf,
    /// How vectors are divided over the memory of a processing element: exact or ceil.
    #[arg(long, default_value_t = Division::Exact)]
    division: Division,
    /// The parameters alpha,beta,gamma,mu of a graph of model parallel.
    #[arg(long)]
    vector: Option<Vector>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.graph)?;
    let platform = read::platform(&arguments.platform)?;
    let places = read::named(&arguments.mapping, file::read(&read::text(&arguments.mapping)?))?;
    let in_file = |error: FileError| format!("{}: {error}", arguments.mapping.display());
    let in_graph = |problem: String| format!("{}: {problem}", arguments.graph.display());
    let priced = if graph.model() == Model::Parallel {
        let vector =
            arguments.vector.ok_or("a graph of model parallel needs its parameters; give --vector")?;
        let model = ParallelModel::new("evaluate", &graph, &platform, &vector);
        let model = model.map_err(|error| in_graph(error.to_string()))?;
        let allotments = file::parallel(&graph, &places).map_err(in_file)?;
        let plan = Plan::new(&model, &allotments, |task| graph.tasks()[task].id.clone());
        let plan = plan.map_err(|error| format!("{}: {error}", arguments.mapping.display()))?;
        parallel(&graph, &platform, &model, &plan)
    } else {
        let model = WorkModel::new("evaluate", &graph, &platform, arguments.division);
        let model = model.map_err(|error| in_graph(error.to_string()))?;
        let pes = file::single(&graph, &platform, &model, &places).map_err(in_file)?;
        work(&graph, &platform, &model, &pes)
    };
    print(&priced.text(arguments.output)?)
}

/// The cost of a mapping in model `work`.
fn work(graph: &Graph, platform: &Platform, model: &WorkModel, pes: &[usize]) -> Priced {
    let listed = list::schedule(model, pes);
    let loads = platform.pes().iter().map(|pe| pe.name.clone()).zip(model.loads(pes)).collect();
    Priced {
        mapping: mapping::named(graph, platform, Some(model), &Mapping::Single(pes.to_vec())),
        objective: model.objective(pes),
        makespan: listed.makespan,
        schedule: mapping::schedule(graph, platform, Some(model), &listed.schedule),
        loads: Some(loads),
        ..none()
    }
}

/// The cost of a mapping in model `parallel`; the load is the busy time of a processor.
fn parallel(graph: &Graph, platform: &Platform, model: &ParallelModel, plan: &Plan) -> Priced {
    let schedule = offline::schedule(model, plan);
    let mut busy = vec![0.0; platform.pes().len()];
    for slot in &schedule.slots {
        for &pe in &slot.pes {
            busy[pe] += slot.end - slot.start;
        }
    }
    let makespan = schedule.makespan();
    Priced {
        mapping: mapping::named(graph, platform, None, &plan.mapping(model)),
        objective: makespan,
        makespan,
        schedule: mapping::schedule(graph, platform, None, &schedule),
        loads: Some(platform.pes().iter().map(|pe| pe.name.clone()).zip(busy).collect()),
        ..none()
    }
}

fn none() -> Priced {
    Priced {
        mapper: None,
        mapping: Places::new(),
        objective: 0.0,
        makespan: 0.0,
        schedule: Vec::new(),
        loads: None,
        evaluations: None,
        effort: None,
        seed: None,
        stopped_by: None,
    }
}
