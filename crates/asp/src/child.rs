//! The solver process: the caller's own executable, started again. It reads jobs from standard input, one JSON line each,
//! and writes models to standard output, one JSON line each.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clingo::Symbol;
use serde::{Deserialize, Serialize};

use crate::engine::{self, Aim, EngineTask, Model, Outcome};
use crate::program::{self, WORKLOAD};
use crate::sandbox::{ChildError, Limits, begin, positions, write_line};
use crate::worker;

/// The argument that turns an executable into the solver; not part of any public command line.
pub(crate) const ARGUMENT: &str = "--cairn-internal-solver";

/// The first line that the solver process reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// The parent process; the solver ends with it.
    pub parent: u32,
    /// Limits for all jobs together.
    pub limits: Limits,
}

/// A job of the solver process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    pub seed: u64,
    pub conflicts: u64,
    #[serde(default)]
    pub aim: Aim,
    /// Stop after this many models.
    pub models: u64,
    /// Only models whose minimized sums are at most these; `None` accepts all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_most: Vec<i64>,
    /// Whether a finished placement is verified rather than searched for.
    #[serde(default)]
    pub judged: bool,
    pub facts: String,
    /// Symbols of the movable actors, in the order of the answer.
    pub actors: Vec<String>,
    /// Symbols of the units, which the answer refers to by position.
    pub units: Vec<String>,
}

/// A line of the solver process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A model: by actor of the job the position of its unit, and the minimized sums.
    Model { places: Vec<Option<usize>>, sums: Vec<i64> },
    /// The last line of a job that ended normally.
    End(Outcome),
    /// The only line of a job that computes bounds, and the last of the process: lower bounds of the minimized sums, as many as are known.
    Bound(Vec<i64>),
    /// The last line of the process: a job failed, and the state of the process is unknown.
    Failed(String),
}

/// Runs the solver if this process was started as one; in that case it never returns.
///
/// Call it first in `main`, before arguments are parsed, files are opened or threads are started.
pub fn run_child_if_asked() {
    let Some(asked) = std::env::args_os().nth(1) else { return };
    let served = if asked == ARGUMENT {
        serve()
    } else if asked == worker::ARGUMENT {
        worker::serve()
    } else {
        return;
    };
    match served {
        Ok(()) => exit(0),
        Err(problem) => {
            eprintln!("{problem}");
            exit(1);
        }
    }
}

fn serve() -> Result<(), ChildError> {
    let mut lines = io::stdin().lock().lines();
    let terms: Terms = match lines.next() {
        Some(line) => serde_json::from_str(&line.map_err(ChildError::Ask)?)?,
        None => return Err(ChildError::Orphan),
    };
    begin(terms.parent, &terms.limits)?;
    while let Some(line) = lines.next() {
        let job: Job = serde_json::from_str(&line.map_err(ChildError::Ask)?)?;
        if job.aim == Aim::Bound {
            drop(lines);
            return Ok(write_line(&bound(&job).map_or_else(Line::Failed, Line::Bound))?);
        }
        match solve(&job) {
            Ok(outcome) => write_line(&Line::End(outcome))?,
            Err(problem) => return Ok(write_line(&Line::Failed(problem))?),
        }
    }
    Ok(())
}

/// Improves lower bounds until standard input is closed, which is the parent's signal to stop.
fn bound(job: &Job) -> Result<Vec<i64>, String> {
    let is_enough = Arc::new(AtomicBool::new(false));
    let stop_signal = Arc::clone(&is_enough);
    // Not joined: it ends with the process if the search ends first.
    thread::spawn(move || {
        // An unreadable input counts as closed.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stop_signal.store(true, Ordering::Relaxed);
    });
    let program = program::program(WORKLOAD, &job.facts);
    engine::bound(&task(job, &program), &|| is_enough.load(Ordering::Relaxed)).map_err(|e| e.to_string())
}

fn task<'a>(job: &'a Job, program: &'a [&'a str]) -> EngineTask<'a> {
    EngineTask { program, seed: job.seed, conflicts: job.conflicts, aim: job.aim, at_most: &job.at_most }
}

/// Searches, and writes every model as it is found.
fn solve(job: &Job) -> Result<Outcome, String> {
    let reader = Reader::new(job)?;
    let facts = job.facts.as_str();
    let program = if job.judged { program::judge(facts) } else { program::program(WORKLOAD, facts) };
    let task = task(job, &program);
    let (mut reported, mut problem) = (0, None);
    let outcome = engine::run(&task, |model| {
        reported += 1;
        let line = reader.read(&model);
        match line.and_then(|line| write_line(&line).map_err(|e| e.to_string())) {
            Ok(()) if reported < job.models => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(e) => {
                problem = Some(e);
                ControlFlow::Break(())
            }
        }
    });
    match problem {
        Some(problem) => Err(problem),
        None => outcome.map_err(|e| e.to_string()),
    }
}

/// Maps symbols back to positions. A hash map that is never iterated.
struct Reader {
    actors: HashMap<Symbol, usize>,
    units: HashMap<Symbol, usize>,
}

impl Reader {
    fn new(job: &Job) -> Result<Self, String> {
        Ok(Self { actors: positions(&job.actors)?, units: positions(&job.units)? })
    }

    fn read(&self, model: &Model) -> Result<Line, String> {
        let mut places = vec![None; self.actors.len()];
        for atom in &model.atoms {
            let arguments = atom.arguments().map_err(|e| e.to_string())?;
            let [actor, unit] = arguments.as_slice() else { continue };
            // Fixed actors are shown too, but are not part of the answer.
            if let (Some(&actor), Some(&unit)) = (self.actors.get(actor), self.units.get(unit)) {
                places[actor] = Some(unit);
            }
        }
        Ok(Line::Model { places, sums: model.cost.clone() })
    }
}
