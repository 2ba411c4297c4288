//! `cairn-sim run`: replay a trace under a strategy.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use simulator::config::{Config, Start};
use simulator::oracle::foresee;
use simulator::planner::{SnapshotModel, WorkMeasure, levels};
use simulator::run::{Case, Report, allowed};
use simulator::strategies::{NONE, planner, strategies};
use simulator::{simulation, trace};

use crate::{Failure, Output, print};

/// Name of the strategy that knows the trace.
const ORACLE: &str = "oracle";

#[derive(Args)]
pub struct Arguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE", required_unless_present = "list_strategies")]
    config: Option<PathBuf>,
    /// The trace.
    #[arg(long, value_name = "FILE", required_unless_present = "list_strategies")]
    trace: Option<PathBuf>,
    /// The strategy; `none` never moves an actor, `oracle` knows the trace.
    #[arg(long, value_name = "NAME", default_value = NONE)]
    strategy: String,
    /// List the strategies.
    #[arg(long)]
    list_strategies: bool,
    /// The initial unit of each actor, instead of the configuration's.
    #[arg(long, value_name = "0,1,2,…", value_delimiter = ',')]
    assignment: Option<Vec<usize>>,
    /// Maximum number of windows.
    #[arg(long, value_name = "N")]
    windows: Option<u64>,
    /// Seed for tie-breaks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Effort per plan [default: the strategy's own]
    #[arg(long, value_name = "N")]
    effort: Option<u64>,
    /// Order the objective levels by their relevance in the counters.
    #[arg(long)]
    adaptive: bool,
    /// Measure work in tasks, as in the APO paper or as approximated by its authors' program, instead of time.
    #[arg(long, value_name = "HOW")]
    count_tasks: Option<Tasks>,
    /// Minimize the work of the busiest unit including its messages, instead of the default objective.
    #[arg(long, conflicts_with_all = ["adaptive", "count_tasks"])]
    busiest: bool,
    /// Minimum gain of a plan as a fraction of the cost of staying; the 95 % interval of the gain must not include a loss.
    #[arg(long, value_name = "PART")]
    least_gain: Option<f64>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How tasks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tasks {
    /// By actor.
    Exact,
    /// The mean of all actors for each.
    Mean,
}

impl Arguments {
    fn facts(&self, config: &Config) -> SnapshotModel {
        let gamma = config.gamma.clone();
        if self.busiest {
            return SnapshotModel::busiest(gamma);
        }
        let measure = match self.count_tasks {
            None => WorkMeasure::Roomy,
            Some(Tasks::Exact) => WorkMeasure::Tasks,
            Some(Tasks::Mean) => WorkMeasure::Mean,
        };
        SnapshotModel { measure, gamma, objectives: levels(self.adaptive), ..SnapshotModel::default() }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list_strategies {
        let mut text = format!(
            "{NONE:20} never moves an actor\n{ORACLE:20} knows the trace; exhaustive if there are few decision sequences\n"
        );
        for strategy in strategies() {
            writeln!(text, "{:20} {}", strategy.name(), strategy.summary())?;
        }
        return print(&text);
    }
    let (Some(config), Some(path)) = (&arguments.config, &arguments.trace) else {
        return Err("name a configuration with --config and a trace with --trace".into());
    };
    let (mut config, platform) = Config::read(config)?;
    if let Some(assignment) = &arguments.assignment {
        config.start = Start::Assignment(assignment.clone());
    }
    let trace = trace::read_file(path)?;
    let allowed = allowed(&config, &platform, trace.actors())?;
    let start = simulation::start(&config.start, &allowed, &platform)?;
    let case = Case {
        config: &config,
        platform: &platform,
        trace: &trace,
        start: &start,
        allowed: &allowed,
        windows: arguments.windows,
        compared: false,
    };
    let report = if arguments.strategy == ORACLE {
        foresee(&case, &[])?.report
    } else {
        let (facts, least) = (arguments.facts(&config), arguments.least_gain);
        let mut planner = planner(&arguments.strategy, facts, arguments.effort, arguments.seed, least)?;
        case.run(planner.as_deref_mut().map(|planner| planner as _), &mut |_| {})?
    };
    match arguments.output {
        Output::Json => print(&format!("{}\n", serde_json::to_string(&report)?)),
        Output::Table => print(&table(&report)?),
    }
}

fn table(report: &Report) -> Result<String, Failure> {
    let mut text = format!(
        "{:>6} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>6}\n",
        "window",
        "tasks/ms",
        "committed",
        "undone",
        "same unit",
        "same kind",
        "farther",
        "anti",
        "null",
        "moves"
    );
    for (number, window) in report.windows.iter().enumerate() {
        let messages = &window.messages;
        let farther = messages.other_kind + messages.other_numa + messages.other_node;
        writeln!(
            text,
            "{:>6} {:>10.3} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>6}",
            number + 1,
            window.throughput,
            window.committed,
            window.rolled_back,
            messages.same_unit,
            messages.same_kind,
            farther,
            messages.anti,
            messages.null,
            window.moves
        )?;
    }
    let mean =
        report.mean.map_or_else(|| "no window was finished".to_owned(), |mean| format!("{mean} tasks/ms"));
    writeln!(text, "mean: {mean}\nassignment: {}", crate::list(&report.assignment))?;
    Ok(text)
}
