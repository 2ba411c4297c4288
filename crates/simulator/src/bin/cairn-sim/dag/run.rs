//! `cairn-sim dag run`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde::Serialize;
use simulator::dag::{Applications, Measures, Record, RuntimeSetting, arrivals, gantt};
use taskgraph::online::{SCHEDULERS, scheduler};

use super::{Output, read};
use crate::{Failure, print};

#[derive(Args)]
pub struct Arguments {
    /// The pool and its runtime costs.
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// The workload: applications and arrivals.
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// The scheduler.
    #[arg(long, value_parser = PossibleValuesParser::new(SCHEDULERS))]
    scheduler: String,
    /// Cache scheduling decisions.
    #[arg(long)]
    cache: bool,
    /// Whether processing elements have queues.
    #[arg(long, value_enum, default_value_t = Switch::On)]
    queueing: Switch,
    /// Seed of jitter and exponential arrivals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write one line per executed task, in dispatch order.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write a Gantt chart as SVG.
    #[arg(long, value_name = "FILE")]
    gantt: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// A line of the task log.
#[derive(Serialize)]
struct Line<'a> {
    instance: usize,
    frame: u32,
    task: &'a str,
    pe: &'a str,
    ready: u64,
    start: u64,
    end: u64,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let platform = read::platform(&arguments.platform)?;
    let workload = read::workload(&arguments.workload)?;
    let folder = arguments.workload.parent().unwrap_or(Path::new("."));
    let files: Vec<PathBuf> = workload.dags.iter().map(|dag| folder.join(&dag.file)).collect();
    let graphs = files.iter().map(|file| read::graph(file)).collect::<Result<Vec<_>, _>>()?;
    let applications = Applications::new(&graphs.iter().collect::<Vec<_>>(), &platform, &workload.actual)
        .map_err(|(number, error)| format!("{}: {error}", files[number].display()))?;
    let setting = RuntimeSetting {
        cache: arguments.cache,
        queueing: arguments.queueing == Switch::On,
        jitter_percent: workload.jitter_percent,
        seed: arguments.seed,
    };
    let mut scheduler = scheduler(&arguments.scheduler).expect("clap knows all names");
    let keep = arguments.log.is_some() || arguments.gantt.is_some();
    let mut records: Vec<Record> = Vec::new();
    let mut log = |record| {
        if keep {
            records.push(record);
        }
    };
    let arrivals = arrivals(&workload.dags, arguments.seed);
    let ran = simulator::dag::run(&applications, &arrivals, &mut *scheduler, &setting, &mut log);
    let measures = read::named(&arguments.workload, ran)?;
    if let Some(path) = &arguments.log {
        let mut text = String::new();
        for Record { instance, application, frame, task, pe, ready, start, end } in &records {
            let (task, pe) = (&applications.all[*application].tasks[*task], &applications.pes()[*pe]);
            let (instance, frame, ready, start, end) = (instance + 1, *frame, *ready, *start, *end);
            let line = Line { instance, frame, task, pe, ready, start, end };
            writeln!(text, "{}", serde_json::to_string(&line)?)?;
        }
        write(path, &text)?;
    }
    if let Some(path) = &arguments.gantt {
        write(
            path,
            &gantt(
                &applications,
                &records,
                &format!("{} on {}", arguments.scheduler, arguments.workload.display()),
            ),
        )?;
    }
    match arguments.output {
        Output::Json => print(&(serde_json::to_string(&measures)? + "\n")),
        Output::Text => print(&table(&measures)?),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|source| format!("{}: {source}; name a file that can be written", path.display()).into())
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn table(measures: &Measures) -> Result<String, Failure> {
    let mut text = String::new();
    let Measures { applications, tasks, rounds, looks, .. } = measures;
    writeln!(text, "applications {applications}, tasks {tasks}, rounds {rounds}, looks {looks}")?;
    let each = [
        ("execution", measures.execution_ns),
        ("cumulative", measures.cumulative_ns),
        ("overhead", measures.overhead_ns),
        ("dispatch", measures.dispatch_ns),
    ];
    for (name, total) in each {
        let total = total as f64 / 1e6;
        writeln!(
            text,
            "{name:11} {total:14.6} ms, {:.6} per application",
            total / (*applications).max(1) as f64
        )?;
    }
    let whole = measures.end_to_end_ns as f64;
    writeln!(text, "end to end  {:14.6} ms", whole / 1e6)?;
    for (name, busy) in &measures.busy_ns {
        writeln!(
            text,
            "{name:11} {:14.6} ms busy, {:.1} %",
            *busy as f64 / 1e6,
            100.0 * *busy as f64 / whole.max(1.0)
        )?;
    }
    Ok(text)
}
