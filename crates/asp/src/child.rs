//! The solver process: the caller's own executable started again, jobs on standard input, one JSON line each, one JSON
//! line per model on standard output.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;
use std::process::exit;

use clingo::Symbol;
use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit};
use serde::{Deserialize, Serialize};

use crate::engine::{self, Aim, Model, Outcome, Task};
use crate::program::RULES;
use crate::worker;

/// The argument that makes an executable the solver; no part of any command line that people use.
pub(crate) const ARGUMENT: &str = "--cairn-internal-solver";

/// What a solver process may use at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Address space, in MiB.
    pub memory_mib: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_mib: 1024, cpu_seconds: 60 }
    }
}

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

/// Why the solver process ends early; its parent reads it from standard error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("cannot limit the solver process: {0}")]
    Limit(#[from] rustix::io::Errno),
    #[error("the process that asked is gone")]
    Orphan,
    #[error("cannot read what is asked: {0}")]
    Ask(#[source] io::Error),
    #[error("cannot understand what is asked: {0}")]
    Job(#[from] serde_json::Error),
    #[error("cannot tell the answer: {0}")]
    Tell(#[from] io::Error),
}

fn serve() -> Result<(), ChildError> {
    let mut lines = io::stdin().lock().lines();
    let terms: Terms = match lines.next() {
        Some(line) => serde_json::from_str(&line.map_err(ChildError::Ask)?)?,
        None => return Err(ChildError::Orphan),
    };
    begin(terms.parent, &terms.limits)?;
    for line in lines {
        let job: Job = serde_json::from_str(&line.map_err(ChildError::Ask)?)?;
        match solve(&job) {
            Ok(outcome) => tell(&Line::End(outcome))?,
            Err(problem) => return Ok(tell(&Line::Failed(problem))?),
        }
    }
    Ok(())
}

/// Ties this process to the one that asked, and limits it.
pub(crate) fn begin(parent: u32, limits: &Limits) -> Result<(), ChildError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the signal was set.
    let alive = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    if alive != Some(parent) {
        return Err(ChildError::Orphan);
    }
    Ok(limit(limits)?)
}

fn limit(limits: &Limits) -> Result<(), rustix::io::Errno> {
    let at_most = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::As, at_most(limits.memory_mib.saturating_mul(1 << 20)))?;
    setrlimit(Resource::Cpu, at_most(limits.cpu_seconds))
}

/// Writes one line of JSON.
pub(crate) fn tell(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}

/// Searches, and tells every model as it comes.
fn solve(job: &Job) -> Result<Outcome, String> {
    let reader = Reader::new(job)?;
    let program: Vec<&str> = RULES.iter().copied().chain([job.facts.as_str()]).collect();
    let task = Task {
        program: &program,
        seed: job.seed,
        conflicts: job.conflicts,
        aim: job.aim,
        at_most: &job.at_most,
    };
    let (mut told, mut problem) = (0, None);
    let outcome = engine::run(&task, |model| {
        told += 1;
        let line = reader.read(&model);
        match line.and_then(|line| tell(&line).map_err(|e| e.to_string())) {
            Ok(()) if told < job.models => ControlFlow::Continue(()),
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

/// From symbols to their positions.
pub(crate) fn positions(names: &[String]) -> Result<HashMap<Symbol, usize>, String> {
    let symbol = |(position, name): (usize, &String)| {
        let symbol = clingo::parse_term(name).map_err(|e| format!("{name} is no symbol: {e}"))?;
        Ok((symbol, position))
    };
    names.iter().enumerate().map(symbol).collect()
}
