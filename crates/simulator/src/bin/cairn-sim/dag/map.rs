//! `cairn-sim dag map`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use baselines::strategies::KWay;
use clap::{Args, ValueEnum};
use taskgraph::cost::{Division, Vector, WorkModel};
use taskgraph::offline::{AnnealingImproved, AnnealingStandard, BinPacking, Ect, Genetic, Settings};
use taskgraph::{Budget, Mapper};

use super::mapping::{Priced, schedule};
use super::stdout::ReservedStdout;
use super::{Output, read};
use crate::Failure;

#[derive(Args)]
pub struct Arguments {
    /// The graph.
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// The platform.
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// The mapper.
    #[arg(long, value_enum)]
    mapper: Name,
    /// Annealing exactly as printed: the current mapping changes only when it is the best so far.
    #[arg(long)]
    literal: bool,
    /// How vectors are divided over the memory of a processing element: exact or ceil.
    #[arg(long, default_value_t = Division::Exact)]
    division: Division,
    /// The parameters alpha,beta,gamma,mu of a graph of model parallel.
    #[arg(long)]
    vector: Option<Vector>,
    /// Seed of every random draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Effort: one unit is 10,000 evaluated moves of annealing, or one generation of the genetic algorithm.
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    effort: Option<u64>,
    /// Time limit, such as 10s or 500ms.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    AnnealingImproved,
    AnnealingStandard,
    Kway,
    BinPacking,
    Ect,
    Genetic,
}

/// A time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = match text {
        _ if text.ends_with("ms") => (&text[..text.len() - 2], 1e-3),
        _ if text.ends_with('s') => (&text[..text.len() - 1], 1.0),
        _ if text.ends_with('m') => (&text[..text.len() - 1], 60.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * scale);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("`{text}` is not a time; write 10s, 500ms or 2m"))
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.graph)?;
    let platform = read::platform(&arguments.platform)?;
    let mapper = mapper(arguments)?;
    let began = Instant::now();
    let longest = arguments.budget;
    let stop = || longest.is_some_and(|longest| began.elapsed() >= longest);
    // With a time limit the search restarts until the limit is reached.
    let effort = if longest.is_some() { Some(u64::MAX) } else { arguments.effort };
    let stdout = ReservedStdout::new()?;
    let found = mapper
        .map(&graph, &platform, &Budget { effort, seed: arguments.seed, stop: &stop })
        .map_err(|error| format!("{}: {error}", arguments.graph.display()))?;
    let model = WorkModel::new(mapper.name(), &graph, &platform, arguments.division).ok();
    let rows = schedule(&graph, &platform, model.as_ref(), &found.schedule);
    let priced = Priced {
        mapper: Some(mapper.name()),
        mapping: super::mapping::named(&graph, &platform, model.as_ref(), &found.mapping),
        objective: found.objective,
        makespan: found.makespan,
        schedule: rows,
        loads: None,
        evaluations: Some(found.evaluations),
        effort: Some(found.effort),
        seed: Some(arguments.seed),
        stopped_by: Some(found.stopped_by.into()),
    };
    stdout.print(&priced.text(arguments.output)?)
}

fn mapper(arguments: &Arguments) -> Result<Box<dyn Mapper>, Failure> {
    let Arguments { literal, division, .. } = *arguments;
    let vector = || {
        arguments
            .vector
            .ok_or("this mapper needs the parameters; give --vector alpha,beta,gamma,mu".to_owned())
    };
    Ok(match arguments.mapper {
        Name::AnnealingImproved => Box::new(AnnealingImproved { literal, division }),
        Name::AnnealingStandard => Box::new(AnnealingStandard { literal, division }),
        Name::Kway => Box::new(KWay { division }),
        Name::BinPacking => Box::new(BinPacking { division }),
        Name::Ect => Box::new(Ect { vector: vector()? }),
        Name::Genetic => Box::new(Genetic { vector: vector()?, settings: Settings::default() }),
    })
}
