//! The solver process: the caller's own executable started again, jobs on standard input, one JSON line each, one JSON
//! line per model on standard output.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clingo::Symbol;
use serde::{Deserialize, Serialize};

use crate::engine::{self, Aim, Model, Outcome, Task};
use crate::program::{self, WORKLOAD};
use crate::sandbox::{ChildError, Limits, begin, positions, tell};
use crate::worker;

/// The argument that makes an executable the solver; no part of any command line that people use.
pub(crate) const ARGUMENT: &str = "--cairn-internal-solver";

/// The first line that the solver process reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// The process that waits for the answers; without it nobody would.
    pub parent: u32,
    /// For all jobs together.
    pub limits: Limits,
}

/// What the solver process is asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Job {
    pub seed: u64,
    pub conflicts: u64,
    #[serde(default)]
    pub aim: Aim,
    /// So many models are wanted.
    pub models: u64,
    /// Only models whose minimized sums are no more than these are wanted; none: all are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_most: Vec<i64>,
    /// Whether a finished placement is judged, and nothing searched for.
    #[serde(default)]
    pub judged: bool,
    pub facts: String,
    /// Symbols of the actors that are placed, in the order of the answer.
    pub actors: Vec<String>,
    /// Symbols of the units, in the order that the answer speaks of.
    pub units: Vec<String>,
}

/// What the solver process says, one on each line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A model: for each actor of the job the position of its unit, and the minimized sums.
    Model { places: Vec<Option<usize>>, sums: Vec<i64> },
    /// The last line about a job that ended by itself.
    End(Outcome),
    /// The only line about a job whose aim is a bound, and the last of all: lower bounds of the minimized sums, as many as are known.
    Bound(Vec<i64>),
    /// The last line of all: a job could not be done, and what that did to the process is not known.
    Failed(String),
}

/// Turns the process into a solver if that is what it was started for, and then never returns.
///
/// Call it first in `main`, before anything reads arguments, opens files or starts threads.
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
            return Ok(tell(&bound(&job).map_or_else(Line::Failed, Line::Bound))?);
        }
        match solve(&job) {
            Ok(outcome) => tell(&Line::End(outcome))?,
            Err(problem) => return Ok(tell(&Line::Failed(problem))?),
        }
    }
    Ok(())
}

/// Looks for lower bounds until standard input ends: who asked has waited long enough then.
fn bound(job: &Job) -> Result<Vec<i64>, String> {
    let is_enough = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_enough);
    // Not joined: it ends with the process where the search ends first.
    thread::spawn(move || {
        // An input that cannot be read says no more than one that ended.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        told.store(true, Ordering::Relaxed);
    });
    let program = program::program(WORKLOAD, &job.facts);
    engine::bound(&task(job, &program), &|| is_enough.load(Ordering::Relaxed)).map_err(|e| e.to_string())
}

fn task<'a>(job: &'a Job, program: &'a [&'a str]) -> Task<'a> {
    Task { program, seed: job.seed, conflicts: job.conflicts, aim: job.aim, at_most: &job.at_most }
}

/// Searches, and tells every model as it comes.
fn solve(job: &Job) -> Result<Outcome, String> {
    let reader = Reader::new(job)?;
    let facts = job.facts.as_str();
    let program = if job.judged { program::judge(facts) } else { program::program(WORKLOAD, facts) };
    let task = task(job, &program);
    let (mut reported, mut problem) = (0, None);
    let outcome = engine::run(&task, |model| {
        reported += 1;
        let line = reader.read(&model);
        match line.and_then(|line| tell(&line).map_err(|e| e.to_string())) {
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

/// From symbols back to positions; only looked up in, never walked.
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
            // Fixed actors are shown too, and are not asked for.
            if let (Some(&actor), Some(&unit)) = (self.actors.get(actor), self.units.get(unit)) {
                places[actor] = Some(unit);
            }
        }
        Ok(Line::Model { places, sums: model.cost.clone() })
    }
}
