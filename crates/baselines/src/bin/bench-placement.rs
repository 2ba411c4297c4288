//! `bench-placement`: runs, compares and plots strategies on instances.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use baselines::acceptance::{self, Acceptance};
use baselines::bench::{
    BestKnown, Bounds, Instance, Record, Run, Summary, apart, commit, cost_over_time, gap_by_size, markdown,
    measure,
};
use baselines::strategies::{External, Metis, Tabu};
use clap::{Args, Parser, Subcommand};
use placement::{Objectives, Strategy};
use portfolio::{Asp, Limits, Purpose};
use serde::de::DeserializeOwned;

/// Runs strategies on instances with budgets and seeds, each run in its own process, and reports the results.
#[derive(Parser)]
#[command(name = "bench-placement", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run, add the results to OUT/results.jsonl, and write the report
    Run(RunArguments),
    /// Write the report from OUT/results.jsonl: results.md, cost-over-time.svg, gap-by-size.svg
    Report(ReportArguments),
    /// Prove lower bounds for the best known values, and print them
    Bound(BoundArguments),
    /// Measure the requirements on search and explanations, and write OUT/acceptance.md
    Acceptance(AcceptanceArguments),
    /// Run once and print the result as a JSON line
    One(OneArguments),
    /// List the strategies
    Strategies,
}

#[derive(Args)]
struct Subjects {
    /// Instances: files, or folders of files
    #[arg(long, value_name = "PATH", num_args = 1.., default_value = "examples/instances")]
    instances: Vec<PathBuf>,
    /// Only instances with this name prefix
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Args)]
struct BoundArguments {
    #[command(flatten)]
    subjects: Subjects,
    /// Time limit per instance, in seconds of wall clock
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    seconds: f64,
    /// The file of best known values
    #[arg(long, value_name = "FILE", default_value = "examples/instances/best-known.json")]
    best: PathBuf,
    /// The folder for bounds.jsonl and bounds.md; without it the table is printed
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Resume: skip instances that already have rows of this commit
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Args)]
struct Measured {
    /// The measured commit; only its rows are reported [default: asks git]
    #[arg(long, value_name = "ID", env = "CAIRN_COMMIT")]
    commit: Option<String>,
}

impl Measured {
    fn commit(&self) -> Result<String, Problem> {
        Ok(self.commit.clone().map_or_else(|| commit(&PathBuf::from(".")), Ok)?)
    }
}

#[derive(Args)]
struct RunArguments {
    #[command(flatten)]
    subjects: Subjects,
    /// Strategy names
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "asp,greedy")]
    strategies: Vec<String>,
    /// Time budgets per run, in seconds of wall clock
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "1,5")]
    budgets: Vec<f64>,
    /// Seeds
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,3,4,5")]
    seeds: Vec<u64>,
    /// Budgets are processor time, of two processors
    #[arg(long)]
    processor: bool,
    /// Resume: skip runs that the results of this commit already contain
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    cp_sat: CpSat,
    #[command(flatten)]
    report: ReportArguments,
}

#[derive(Args)]
struct ReportArguments {
    /// The folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "docs/results/placement")]
    out: PathBuf,
    /// The file of best known values
    #[arg(long, value_name = "FILE", default_value = "examples/instances/best-known.json")]
    best: PathBuf,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Args)]
struct AcceptanceArguments {
    /// Repetitions of measurements that report a maximum
    #[arg(long, value_name = "N", default_value_t = 50)]
    runs: usize,
    /// Only these measurements: start, proofs, shortage, same, impossible, policy, memory, deadline
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Factor on search budgets
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// The folder of the instances
    #[arg(long, value_name = "FOLDER", default_value = "examples/instances")]
    instances: PathBuf,
    /// Path of kubectl-cairn [default: in the folder of this program]
    #[arg(long, value_name = "FILE")]
    cairn: Option<PathBuf>,
    /// The folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "docs/results/placement")]
    out: PathBuf,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Args)]
struct OneArguments {
    /// The instance
    #[arg(long, value_name = "FILE")]
    instance: PathBuf,
    /// The strategy
    #[arg(long, value_name = "NAME")]
    strategy: String,
    /// Time budget in seconds of wall clock
    #[arg(long, value_name = "SECONDS")]
    budget: f64,
    /// The budget is processor time, of two processors
    #[arg(long)]
    processor: bool,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    cp_sat: CpSat,
}

#[derive(Args)]
struct CpSat {
    /// Command that starts the strategy cp-sat (crates/baselines/cp-sat/cpsat.py documents its requirements)
    #[arg(
        long,
        value_name = "COMMAND",
        env = "CAIRN_CP_SAT",
        default_value = "python3 crates/baselines/cp-sat/cpsat.py"
    )]
    cp_sat: String,
}

fn main() -> ExitCode {
    // The solver process is this program, restarted.
    portfolio::run_child_if_asked();
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Report(arguments) => report(&arguments, None),
        Command::Bound(arguments) => bounds(&arguments),
        Command::Acceptance(arguments) => acceptance(arguments),
        Command::One(arguments) => one(&arguments),
        Command::Strategies => print_strategies(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-placement: {problem}");
            let mut cause = problem.source();
            while let Some(inner) = cause {
                eprintln!("  because: {inner}");
                cause = inner.source();
            }
            ExitCode::FAILURE
        }
    }
}

type Problem = Box<dyn std::error::Error>;

/// All strategies that can be compared.
fn strategies(budget: Duration, cp_sat: &str) -> Vec<Box<dyn Strategy>> {
    let limits = Limits { cpu_seconds: budget.as_secs() + 60, ..Limits::default() };
    let command = cp_sat.split_whitespace().map(str::to_owned).collect();
    let mut all: Vec<Box<dyn Strategy>> =
        portfolio::strategies(Purpose::Offline).map(|entry| entry.make(limits)).collect();
    let ablated = portfolio::Ablation::all().map(|part| Asp::new(limits).without(part));
    all.extend(ablated.map(|strategy| Box::new(strategy) as Box<dyn Strategy>));
    all.push(Box::new(Metis));
    all.push(Box::new(Tabu));
    all.push(Box::new(External::new("cp-sat", command, budget)));
    all
}

fn print_strategies() -> Result<(), Problem> {
    let mut out = std::io::stdout().lock();
    for strategy in strategies(Duration::ZERO, "") {
        writeln!(out, "{:<12} {}", strategy.name(), strategy.summary())?;
    }
    Ok(())
}

fn one(arguments: &OneArguments) -> Result<(), Problem> {
    let budget = Duration::try_from_secs_f64(arguments.budget)?;
    let all = strategies(budget, &arguments.cp_sat.cp_sat);
    let strategy = all.iter().find(|strategy| strategy.name() == arguments.strategy).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|strategy| strategy.name()).collect();
        format!("unknown strategy `{}`; use one of {}", arguments.strategy, names.join(", "))
    })?;
    let instance = Instance::read(&arguments.instance)?;
    let record = measure(&Run {
        instance: &instance,
        strategy: &**strategy,
        budget,
        by_processor: arguments.processor,
        seed: arguments.seed,
    });
    // Starts a new line: METIS may have left an incomplete one.
    write!(std::io::stdout(), "\n{}\n", serde_json::to_string(&record)?)?;
    Ok(())
}

fn run(arguments: &RunArguments) -> Result<(), Problem> {
    let out = &arguments.report.out;
    let commit = arguments.report.measured.commit()?;
    std::fs::create_dir_all(out)?;
    let there = Record::of_one_commit(lines_of(&out.join(RESULTS))?, Some(&commit));
    if there.iter().any(|record| record.by_processor != arguments.processor) {
        return Err(
            "runs by processor time and by the clock are not compared; give them folders of their own".into(),
        );
    }
    let done = if arguments.resume { there } else { Vec::new() };
    let mut lines = OpenOptions::new().create(true).append(true).open(out.join(RESULTS))?;
    for file in instances(&arguments.subjects)? {
        for &budget in &arguments.budgets {
            for strategy in &arguments.strategies {
                for &seed in &arguments.seeds {
                    if done.iter().any(|record| record.is(&Instance::name(&file), strategy, budget, seed)) {
                        continue;
                    }
                    let record = apart(
                        &file,
                        strategy,
                        (budget, arguments.processor),
                        seed,
                        &arguments.cp_sat.cp_sat,
                    )?;
                    let record = Record { commit: commit.clone(), ..record };
                    writeln!(lines, "{}", serde_json::to_string(&record)?)?;
                    let outcome = record.problem.unwrap_or_else(|| format!("{:?}", record.vector));
                    let (instance, wall) = (&record.instance, record.wall_seconds);
                    eprintln!("{instance} {strategy} {budget} s seed {seed}: {outcome} in {wall:.2} s");
                }
            }
        }
    }
    report(&arguments.report, Some(&commit))
}

/// Reads recorded rows, one per line; none if the file does not exist.
fn lines_of<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, Problem> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?),
        Err(problem) if problem.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(problem) => Err(problem.into()),
    }
}

fn instances(arguments: &Subjects) -> Result<Vec<PathBuf>, Problem> {
    let mut files = Vec::new();
    for path in &arguments.instances {
        if path.is_dir() { files.extend(Instance::files(path)?) } else { files.push(path.clone()) }
    }
    let asked = |file: &PathBuf| {
        let name = Instance::name(file);
        arguments.only.is_empty() || arguments.only.iter().any(|only| name.starts_with(only.as_str()))
    };
    files.retain(asked);
    if files.is_empty() {
        return Err("no instance has such a name; see --instances and --only".into());
    }
    Ok(files)
}

/// One row per instance and level: printed, or recorded and reported in a folder.
fn bounds(arguments: &BoundArguments) -> Result<(), Problem> {
    let best = BestKnown::read(&arguments.best)?;
    let Some(out) = &arguments.out else {
        let commit = arguments.measured.commit.as_deref().unwrap_or_default();
        let mut rows = Vec::new();
        for file in instances(&arguments.subjects)? {
            rows.extend(bounds_of(&file, arguments.seconds, &best, commit)?);
        }
        return Ok(write!(std::io::stdout(), "{}", Bounds::markdown(&rows, commit))?);
    };
    let commit = arguments.measured.commit()?;
    std::fs::create_dir_all(out)?;
    let file_of_rows = out.join("bounds.jsonl");
    let mut rows: Vec<Bounds> = if arguments.resume { lines_of(&file_of_rows)? } else { Vec::new() };
    rows.retain(|row| row.commit == commit && row.budget_seconds.total_cmp(&arguments.seconds).is_eq());
    let mut lines = OpenOptions::new().create(true).append(true).open(&file_of_rows)?;
    for file in instances(&arguments.subjects)? {
        let name = Instance::name(&file);
        if rows.iter().any(|row| row.instance == name) {
            continue;
        }
        let Some(row) = bounds_of(&file, arguments.seconds, &best, &commit)? else { continue };
        writeln!(lines, "{}", serde_json::to_string(&row)?)?;
        eprintln!("{name}: {:?} in {:.2} s", row.levels, row.wall_seconds);
        rows.push(row);
    }
    std::fs::write(out.join("bounds.md"), Bounds::markdown(&rows, &commit))?;
    Ok(())
}

/// The bounds of an instance; none without a best known value.
fn bounds_of(file: &Path, seconds: f64, best: &BestKnown, commit: &str) -> Result<Option<Bounds>, Problem> {
    let Instance { name, snapshot } = Instance::read(file)?;
    let levels = snapshot.objectives().levels().iter().map(|level| Objectives::key(level));
    let levels: Vec<String> = std::iter::once("unplaced".to_owned()).chain(levels).collect();
    let Some(vector) = best.vector(&name, &levels) else { return Ok(None) };
    let started = Instant::now();
    let stop = || started.elapsed().as_secs_f64() >= seconds;
    let bounds = exact::bound::lower_bounds(&snapshot, &vector, &stop);
    let known = levels.iter().zip(vector).filter(|(_, value)| *value > 0);
    Ok(Some(Bounds {
        commit: commit.to_owned(),
        instance: name,
        budget_seconds: seconds,
        wall_seconds: started.elapsed().as_secs_f64(),
        levels: known.filter_map(|(level, best)| Some((level.clone(), best, *bounds.get(level)?))).collect(),
    }))
}

/// Measures, prints each row as soon as it is complete, and writes the table.
fn acceptance(arguments: AcceptanceArguments) -> Result<(), Problem> {
    let AcceptanceArguments { runs, only, scale, instances, cairn, out, measured } = arguments;
    let commit = measured.commit()?;
    let sibling = std::env::current_exe()?.with_file_name("kubectl-cairn");
    let chosen = if only.is_empty() { String::new() } else { format!(" --only {}", only.join(",")) };
    let command = format!("bench-placement acceptance --runs {runs} --scale {scale}{chosen}");
    let acceptance = Acceptance { instances, cairn: cairn.unwrap_or(sibling), runs, scale, only };
    let rows = acceptance.measure(|row| eprintln!("{}", row.line()))?;
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("acceptance.md"), acceptance::markdown(&rows, &command, &commit))?;
    Ok(())
}

const RESULTS: &str = "results.jsonl";

/// Reports the rows of one commit: of `commit`, of the named one, or of the last row.
fn report(arguments: &ReportArguments, commit: Option<&str>) -> Result<(), Problem> {
    let commit = commit.or(arguments.measured.commit.as_deref());
    let records = Record::of_one_commit(lines_of(&arguments.out.join(RESULTS))?, commit);
    let Some(first) = records.first() else { return Err("no row is of that commit; see --commit".into()) };
    let summaries = Summary::of(&records, &BestKnown::read(&arguments.best)?);
    let folder = arguments.out.file_name().and_then(|name| name.to_str()).filter(|name| *name != "placement");
    let title = folder.map_or_else(String::new, |name| format!(": {name}"));
    // The title is the first line.
    let page = markdown(&summaries, &first.commit).replacen('\n', &format!("{title}\n"), 1);
    std::fs::write(arguments.out.join("results.md"), page)?;
    std::fs::write(arguments.out.join("cost-over-time.svg"), cost_over_time(&summaries))?;
    std::fs::write(arguments.out.join("gap-by-size.svg"), gap_by_size(&summaries))?;
    Ok(())
}
