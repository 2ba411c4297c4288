//! `cairn-sim dag table build | lookup | replay`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use taskgraph::cost::Vector;
use taskgraph::files::mapping::{Place, Places};
use taskgraph::offline::Settings;
use taskgraph::table::online::{Replay, Stored, with_table};
use taskgraph::table::{self, Build, Table};

use super::{Output, read};
use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Map every region of the parameters.
    Build(BuildArguments),
    /// Look a vector up in a table.
    Lookup(LookupArguments),
    /// Replay a profile with a table.
    Replay(ReplayArguments),
}

#[derive(Args)]
struct BuildArguments {
    /// The graph, of model parallel.
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// The platform.
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// Vectors sampled per region.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    samples: u64,
    /// Seed of every random draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of the genetic algorithm per vector.
    #[arg(long, value_name = "N", default_value_t = 10)]
    runs: u64,
    /// How often a region is halved in every parameter if its mapping exceeds 1.1 × most of its vectors' own.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=2))]
    divisions: u64,
    /// Number of threads; the table does not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The table file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
struct LookupArguments {
    /// The table.
    table: PathBuf,
    /// The parameters alpha,beta,gamma,mu.
    #[arg(long)]
    vector: Vector,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Args)]
struct ReplayArguments {
    /// The graph of the table.
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// The platform.
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// The table.
    #[arg(long, value_name = "FILE")]
    table: PathBuf,
    /// The profile: one vector alpha,beta,gamma,mu per line, from iteration 0.
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,
    /// The cost of a reconfiguration.
    #[arg(long, value_name = "TIME", default_value_t = 1000.0)]
    reconfiguration: f64,
    /// Whether a mapping's stored time is its mean in the table or the last observed time.
    #[arg(long, default_value_t = Stored::Table)]
    stored: Stored,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Build(arguments) => build(arguments),
        Command::Lookup(arguments) => lookup(arguments),
        Command::Replay(arguments) => replay(arguments),
    }
}

fn build(arguments: &BuildArguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.graph)?;
    let platform = read::platform(&arguments.platform)?;
    let settings = Build {
        samples: usize::try_from(arguments.samples)?,
        seed: arguments.seed,
        divisions: usize::try_from(arguments.divisions)?,
        genetic: Settings { runs: arguments.runs, ..Settings::default() },
    };
    let threads =
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let table = table::build(&graph, &platform, &settings, threads, &|_| {})
        .map_err(|error| format!("{}: {error}", arguments.graph.display()))?;
    let path = &arguments.out;
    std::fs::write(path, table::write(&table)).map_err(|source| {
        format!("{}: {source}; name a file that can be written with --out", path.display())
    })?;
    print(&format!(
        "{}: {} regions, {} mappings\n",
        path.display(),
        table.regions.len(),
        table.mappings.len()
    ))
}

fn open(path: &Path) -> Result<Table, Failure> {
    read::named(path, table::read(&read::text(path)?))
}

/// The entry of a table for a vector.
#[derive(Serialize)]
struct Found {
    /// The interval of each parameter, followed by the halves in a divided region.
    region: [usize; 4],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    parts: Vec<[usize; 4]>,
    /// The mean makespan over the region's vectors.
    mean: f64,
    mapping: Places,
}

fn lookup(arguments: &LookupArguments) -> Result<(), Failure> {
    let table = open(&arguments.table)?;
    let entry = table.lookup(&arguments.vector);
    let taskgraph::Mapping::Parallel(allotments) = entry.mapping else {
        return Err(format!(
            "{}: the mappings are of another model; rebuild the table",
            arguments.table.display()
        )
        .into());
    };
    let place = |a: &taskgraph::Allotment| Place::Processors {
        kind: a.kind.clone(),
        processors: a.processors,
        order: a.order,
    };
    let found = Found {
        region: entry.path[0],
        parts: entry.path[1..].to_vec(),
        mean: entry.mean,
        mapping: table.tasks.iter().cloned().zip(allotments.iter().map(place)).collect(),
    };
    if arguments.output == Output::Json {
        return print(&(serde_json::to_string(&found)? + "\n"));
    }
    let mut text = format!("region {:?}, mean {}\n", found.region, found.mean);
    for (task, allotment) in table.tasks.iter().zip(allotments) {
        writeln!(text, "{task}: {} × {}, order {}", allotment.kind, allotment.processors, allotment.order)?;
    }
    print(&text)
}

/// Output of a replay.
#[derive(Serialize)]
struct Replayed {
    total: f64,
    remaps: usize,
    reconfiguration: f64,
    stored: &'static str,
    iterations: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    iteration: usize,
    time: Option<f64>,
    stored: Option<f64>,
    remapped: bool,
}

fn replay(arguments: &ReplayArguments) -> Result<(), Failure> {
    let graph = read::graph(&arguments.graph)?;
    let platform = read::platform(&arguments.platform)?;
    let table = open(&arguments.table)?;
    let profile = profile(&arguments.profile)?;
    let reconfiguration = arguments.reconfiguration;
    if !(reconfiguration >= 0.0 && reconfiguration.is_finite()) {
        return Err(format!(
            "--reconfiguration: {reconfiguration} is not a time; write a number of at least 0"
        )
        .into());
    }
    let Replay { iterations, remaps, total } =
        with_table(&graph, &platform, &table, &profile, reconfiguration, arguments.stored)
            .map_err(|error| format!("{}: {error}", arguments.table.display()))?;
    let rows = iterations.into_iter().enumerate().map(|(iteration, of)| Row {
        iteration,
        time: of.time,
        stored: of.stored,
        remapped: of.remapped,
    });
    let stored = arguments.stored.into();
    let replayed = Replayed { total, remaps, reconfiguration, stored, iterations: rows.collect() };
    if arguments.output == Output::Json {
        return print(&(serde_json::to_string(&replayed)? + "\n"));
    }
    let mut text = String::new();
    for Row { iteration, time, stored, remapped } in &replayed.iterations {
        let number =
            |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
        let mark = if *remapped { " remapped" } else { "" };
        writeln!(text, "{iteration}: {} {}{mark}", number(time), number(stored))?;
    }
    writeln!(text, "total {total:.0}, {remaps} remaps")?;
    print(&text)
}

/// Parses one vector per line; empty lines and lines that begin with # are skipped.
fn profile(path: &Path) -> Result<Vec<Vector>, Failure> {
    let text = read::text(path)?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let vector = |(number, line): (usize, &str)| {
        line.parse::<Vector>()
            .map_err(|problem| format!("{}: line {}: {problem}", path.display(), number + 1))
    };
    let vectors: Vec<Vector> = lines.map(vector).collect::<Result<_, _>>()?;
    if vectors.is_empty() {
        return Err(format!("{}: no vector; write one per line: 3090,13,258,67", path.display()).into());
    }
    Ok(vectors)
}
