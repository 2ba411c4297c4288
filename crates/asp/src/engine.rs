//! clingo in this process: one program, one search, every model reported.

use std::ops::ControlFlow;
use std::time::Duration;

use clingo::{
    Control, Part, ShowType, SolveHandle, SolveMode, SolveResult, Statistics, StatisticsType, Symbol,
};

use crate::program::{APPROXIMATED, WORKLOAD, program};

/// A program and how to search it.
#[derive(Clone, Debug)]
pub(crate) struct EngineTask<'a> {
    /// The program, in parts.
    pub program: &'a [&'a str],
    /// Breaks ties.
    pub seed: u64,
    /// The search gives up after this many conflicts.
    pub conflicts: u64,
    /// The purpose of the search, which selects clasp's options.
    pub aim: Aim,
    /// Only models whose minimized sums are lexicographically at most these; empty: any model.
    pub at_most: &'a [i64],
}

/// The purpose of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Aim {
    /// A better model soon.
    #[default]
    Improve,
    /// A proof of optimality, starting from a model that is optimal or close to it.
    Proof,
    /// A lower bound, by unsatisfiable cores.
    Bound,
}

impl Aim {
    /// clasp's options. Those for proofs were selected on instances of 20 to 24 actors, where they halve the time
    /// (docs/results/history/placement.md).
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Improve => &["--heuristic=Domain"],
            Self::Proof => &["--configuration=crafty", "--heuristic=Vmtf", "--strengthen=recursive,all"],
            Self::Bound => &["--opt-strategy=usc", "--stats"],
        }
    }
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// The shown atoms.
    pub atoms: Vec<Symbol>,
    /// The minimized sums, highest priority first.
    pub cost: Vec<i64>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Outcome {
    /// The last model is optimal.
    Proven,
    /// The conflicts were spent, or the callback stopped the search.
    Stopped,
    /// There is no model, or none within `at_most`.
    Unsatisfiable,
}

/// Why a program could not be run; clingo writes details to standard error.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// clingo rejected the program, or ran out of memory.
    #[error("clingo: {0}")]
    Clingo(#[from] clingo::ClingoError),
    /// A model is no better than its predecessor: clingo's bound is inconsistent, and a later proof would be invalid.
    #[error("clingo went from a model of {before:?} to one of {after:?}, which is no better")]
    NoBetter {
        /// The minimized sums of the model before.
        before: Vec<i64>,
        /// The minimized sums of the model that violates the order.
        after: Vec<i64>,
    },
}

/// Runs a program; `found` gets each improving model, and returns whether to continue.
///
/// # Errors
/// When clingo rejects the program, or runs out of memory.
pub(crate) fn run(
    task: &EngineTask,
    mut found: impl FnMut(Model) -> ControlFlow<()>,
) -> Result<Outcome, EngineError> {
    let mut search = grounded(task)?.solve(SolveMode::YIELD, &[])?;
    let outcome = search_on(&mut search, &mut found);
    // The handle has no `Drop`: it is closed on every path.
    search.close()?;
    outcome
}

/// How often a search for a bound polls whether to stop.
const POLL: Duration = Duration::from_millis(5);

/// Lower bounds of the minimized sums, highest priority first, as far as the search got: each bound holds if all before it
/// are reached. It ends when all are optimal, the conflicts are spent, or `enough` returns true.
///
/// # Errors
/// As [`run`].
pub(crate) fn bound(task: &EngineTask, enough: &dyn Fn() -> bool) -> Result<Vec<i64>, EngineError> {
    let mut search = grounded(task)?.solve(SolveMode::ASYNC, &[])?;
    while !search.wait(POLL) && !enough() {}
    search.cancel()?;
    let control = search.close()?;
    Ok(lower(control.statistics()?)?)
}

/// clasp's current lower bounds of the minimized sums.
#[expect(clippy::cast_possible_truncation, reason = "sums are below 2^31, and whole")]
fn lower(statistics: &Statistics) -> Result<Vec<i64>, clingo::ClingoError> {
    let summary = statistics.map_at(statistics.root()?, "summary")?;
    if !statistics.map_has_subkey(summary, "lower")? {
        return Ok(Vec::new());
    }
    let lower = statistics.map_at(summary, "lower")?;
    if !matches!(statistics.statistics_type(lower)?, StatisticsType::Array) {
        return Ok(Vec::new());
    }
    let at = |position| statistics.value_get(statistics.array_at(lower, position)?);
    (0..statistics.array_size(lower)?).map(|position| Ok(at(position)?.floor() as i64)).collect()
}

/// The program, parsed and grounded.
fn grounded(task: &EngineTask) -> Result<Control, EngineError> {
    let seed = task.seed % (1 << 31);
    let bounds: Vec<String> =
        std::iter::once("opt".to_owned()).chain(task.at_most.iter().map(i64::to_string)).collect();
    let mut arguments = vec![
        format!("--seed={seed}"),
        format!("--solve-limit={}", task.conflicts),
        format!("--opt-mode={}", bounds.join(",")),
        "--warn=none".to_owned(),
        "0".to_owned(),
    ];
    arguments.extend(task.aim.options().iter().map(ToString::to_string));
    let mut control = clingo::control(arguments)?;
    for part in task.program {
        control.add("base", &[], part)?;
    }
    control.ground(&[Part::new("base", Vec::new())?])?;
    Ok(control)
}

/// The optimum of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// The shown atoms as sorted text: `run_on/2`, and what the facts' own `#show` names.
    pub atoms: Vec<String>,
    /// By level, the most important first: `unplaced`, then the objectives.
    pub vector: Vec<i64>,
}

/// Solves the built-in rules over facts in this process without limits: for tests of the rules, and to inspect what they
/// derive from a snapshot.
///
/// # Errors
/// When clingo rejects the facts.
pub fn optimum(facts: &str) -> Result<Option<Optimum>, EngineError> {
    best(&program(WORKLOAD, facts))
}

/// The same with the workload of units approximated as by the authors of the APO paper, for comparison.
///
/// # Errors
/// When clingo rejects the facts.
pub fn optimum_approximated(facts: &str) -> Result<Option<Optimum>, EngineError> {
    best(&program(APPROXIMATED, facts))
}

fn best(program: &[&str]) -> Result<Option<Optimum>, EngineError> {
    let mut best = None;
    run(
        &EngineTask { program, seed: 0, conflicts: u64::from(u32::MAX), aim: Aim::Improve, at_most: &[] },
        |model| {
            let mut atoms: Vec<String> = model.atoms.iter().map(ToString::to_string).collect();
            atoms.sort_unstable();
            best = Some(Optimum { atoms, vector: model.cost.iter().map(|sum| sum - 1).collect() });
            ControlFlow::Continue(())
        },
    )?;
    Ok(best)
}

fn search_on(
    search: &mut SolveHandle,
    found: &mut dyn FnMut(Model) -> ControlFlow<()>,
) -> Result<Outcome, EngineError> {
    let mut before: Option<Vec<i64>> = None;
    loop {
        search.resume()?;
        let Some(model) = search.model()? else { break };
        let model = Model { atoms: model.symbols(ShowType::SHOWN)?, cost: model.cost()? };
        if let Some(before) = before.replace(model.cost.clone())
            && before <= model.cost
        {
            return Err(EngineError::NoBetter { before, after: model.cost });
        }
        if found(model).is_break() {
            return Ok(Outcome::Stopped);
        }
    }
    let result = search.get()?;
    Ok(if result.contains(SolveResult::UNSATISFIABLE) {
        Outcome::Unsatisfiable
    } else if result.contains(SolveResult::EXHAUSTED) {
        Outcome::Proven
    } else {
        Outcome::Stopped
    })
}
