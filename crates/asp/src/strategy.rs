//! The strategy `asp`: an answer at once, then clingo, which improves it and proves it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use placement::{
    Answer, Assignment, Budget, Greedy, Objectives, Snapshot, SnapshotError, SolveError, Stage, StoppedBy,
    Strategy,
};

use crate::child::{Job, Limits};
use crate::engine::Outcome;
use crate::facts::{Encoded, vector};
use crate::process::{self, Ended};
use crate::room::Rooms;
use crate::scale::{Rounding, Scale};

/// Conflicts of one search, where nothing else is said: a few seconds on small worlds, minutes on large ones.
const CONFLICTS: u64 = 200_000;

/// Pairs of an actor and a candidate above which a program would not fit the solver's memory.
const MOST_CHOICES: usize = 1_000_000;

/// Answer Set Programming: the better of what runs and what [`Greedy`] finds, improved and proven by clingo.
///
/// clingo runs in a process of its own: this executable started again, which must call
/// [`run_child_if_asked`](crate::run_child_if_asked) first in `main`. Whatever happens to that process, there is an
/// answer: the best that was found before.
///
/// A piece of effort is one actor that greedy looked at, one improving model, or the proof that there is no more. The
/// search is also cut after a number of conflicts, the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asp {
    executable: PathBuf,
    limits: Limits,
    conflicts: u64,
}

impl Asp {
    /// Solves in this executable started again, within `limits`.
    pub fn new(limits: Limits) -> Self {
        // The running image itself: an executable that was replaced meanwhile is not started.
        Self::with_executable("/proc/self/exe", limits)
    }

    /// Solves in another executable that calls [`run_child_if_asked`](crate::run_child_if_asked).
    pub fn with_executable(executable: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { executable: executable.into(), limits, conflicts: CONFLICTS }
    }

    /// Cuts each search after so many conflicts instead of 200,000.
    #[must_use]
    pub fn with_conflicts(self, conflicts: u64) -> Self {
        Self { conflicts, ..self }
    }
}

impl Default for Asp {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Strategy for Asp {
    fn name(&self) -> &'static str {
        "asp"
    }

    fn summary(&self) -> &'static str {
        "starts from greedy, then Answer Set Programming improves and proves; exact for small applications"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let greedy = Greedy.solve(snapshot, budget)?;
        let mut search = Search {
            asp: self,
            snapshot,
            budget,
            spent: greedy.effort,
            best: Best::of(snapshot, greedy.assignment, greedy.effort, greedy.stage),
        };
        if snapshot.violations(&snapshot.incumbent()).is_empty() {
            search.offer(snapshot.incumbent(), 0, Stage::Incumbent);
        }
        if greedy.stopped_by == StoppedBy::Deadline || (budget.stop)() {
            return Ok(search.answer(StoppedBy::Deadline, BTreeMap::new()));
        }
        if search.best.vector.iter().all(|value| *value == 0) {
            // Nothing is below 0.
            return Ok(search.proven());
        }
        let choices = (0..snapshot.actors()).map(|actor| snapshot.candidates(actor).len()).sum::<usize>();
        if choices > MOST_CHOICES {
            tracing::debug!(choices, "too large for the solver; the answer is greedy's");
            return Ok(search.answer(StoppedBy::Effort, BTreeMap::new()));
        }
        search.run()
    }
}

/// The best answer so far.
struct Best {
    assignment: Assignment,
    vector: Vec<i64>,
    /// Pieces of effort after which it was known.
    effort: u64,
    stage: Stage,
}

impl Best {
    fn of(snapshot: &Snapshot, assignment: Assignment, effort: u64, stage: Stage) -> Self {
        Self { vector: vector(snapshot, &assignment), assignment, effort, stage }
    }
}

struct Search<'a> {
    asp: &'a Asp,
    snapshot: &'a Snapshot,
    budget: &'a Budget<'a>,
    /// Pieces of effort finished.
    spent: u64,
    best: Best,
}

impl Search<'_> {
    fn run(mut self) -> Result<Answer, SolveError> {
        let Some(scale) = usable(Scale::of(self.snapshot)) else {
            return Ok(self.answer(StoppedBy::Effort, BTreeMap::new()));
        };
        if scale.is_exact() {
            return Ok(match self.improve(self.snapshot)? {
                (Ended::Told(Outcome::Proven), _) => self.proven(),
                (ended, _) => self.answer(stopped_by(&ended), BTreeMap::new()),
            });
        }
        let mut ended = Ended::Told(Outcome::Stopped);
        for rounding in [Rounding::Cautious, Rounding::Relaxed] {
            let Some(world) = usable(scale.apply(self.snapshot, rounding)) else { break };
            let last;
            (ended, last) = self.improve(&world)?;
            if ended != Ended::Told(Outcome::Proven) {
                break;
            }
            if let Some(optimum) = last.filter(|_| rounding == Rounding::Relaxed) {
                return Ok(self.bounded(&scale, &optimum));
            }
        }
        Ok(self.answer(stopped_by(&ended), BTreeMap::new()))
    }

    /// Has clingo solve a world, which may be a scaled one, and takes every model that is better here.
    ///
    /// Returns how it ended, and the last model's vector there.
    fn improve(&mut self, world: &Snapshot) -> Result<(Ended, Option<Vec<i64>>), SolveError> {
        let left = self.budget.effort.map_or(u64::MAX, |effort| effort.saturating_sub(self.spent));
        if left == 0 {
            return Ok((Ended::Told(Outcome::Stopped), None));
        }
        let encoded = Encoded::new(world, &self.best.assignment);
        let job = Job {
            parent: std::process::id(),
            limits: self.asp.limits,
            seed: self.budget.seed,
            conflicts: self.asp.conflicts,
            models: left,
            facts: encoded.facts.clone(),
            actors: encoded.actors.clone(),
            units: encoded.units.clone(),
        };
        let mut last = None;
        let ended = process::run(&self.asp.executable, &job, self.budget.stop, |places, sums| {
            let assignment = encoded.assignment(&places).ok_or_else(|| strange(&places))?;
            let (reported, exact) = (encoded.vector(sums), vector(world, &assignment));
            if reported != exact {
                return Err(SolveError::Mismatch {
                    reported: format!("{reported:?}"),
                    exact: format!("{exact:?}"),
                });
            }
            self.spent += 1;
            tracing::debug!(vector = ?exact, "model");
            last = Some(exact);
            self.offer(assignment, self.spent, Stage::Whole);
            Ok(())
        })?;
        match &ended {
            Ended::Told(Outcome::Stopped) | Ended::Stopped => {}
            // The proof is a piece of its own.
            Ended::Told(Outcome::Proven) => self.spent += 1,
            Ended::Told(Outcome::Unsatisfiable) => {
                tracing::warn!("the solver found no model where leaving everything unplaced is one");
            }
            Ended::Lost(problem) => {
                tracing::warn!(problem, "the solver process was lost; the best answer so far stands");
            }
        }
        Ok((ended, last))
    }

    /// Takes an assignment if it is better, and lawful.
    fn offer(&mut self, assignment: Assignment, effort: u64, stage: Stage) {
        let offered = Best::of(self.snapshot, assignment, effort.max(self.best.effort), stage);
        if offered.vector < self.best.vector && self.snapshot.violations(&offered.assignment).is_empty() {
            self.best = offered;
        }
    }

    /// What the optimum of the relaxed world says of the answer.
    fn bounded(self, scale: &Scale, optimum: &[i64]) -> Answer {
        // The difference of two overloads does not shrink with both, the largest alone does.
        if scale.work > 1 && Rooms::new(self.snapshot).least_overload() > 0 {
            return self.answer(StoppedBy::Effort, BTreeMap::new());
        }
        let levels = self.snapshot.objectives().levels();
        let mut bound = BTreeMap::new();
        let mut tight = self.best.vector[0] == optimum[0];
        for (position, level) in levels.iter().enumerate() {
            if !tight {
                // A bound of a level holds where the levels above are at their bounds.
                break;
            }
            let divisor = i64::try_from(scale.level(self.snapshot, position)).unwrap_or(i64::MAX);
            let least = optimum[position + 1].saturating_mul(divisor);
            bound.insert(Objectives::key(level), least);
            tight = self.best.vector[position + 1] == least;
        }
        if tight { self.proven() } else { self.answer(StoppedBy::Effort, bound) }
    }

    fn proven(self) -> Answer {
        let levels = self.snapshot.objectives().levels();
        let keys = levels.iter().map(|level| Objectives::key(level));
        let bound = keys.zip(self.best.vector[1..].iter().copied()).collect();
        let effort = self.spent;
        Answer { optimal: true, effort, ..self.answer(StoppedBy::Proof, bound) }
    }

    fn answer(self, stopped_by: StoppedBy, bound: BTreeMap<String, i64>) -> Answer {
        Answer {
            assignment: self.best.assignment,
            bound,
            optimal: false,
            effort: self.best.effort,
            stage: self.best.stage,
            stopped_by,
        }
    }
}

fn stopped_by(ended: &Ended) -> StoppedBy {
    if *ended == Ended::Stopped { StoppedBy::Deadline } else { StoppedBy::Effort }
}

/// A scaled world that could not be made costs no more than the solver.
fn usable<T>(scaled: Result<T, SnapshotError>) -> Option<T> {
    if let Err(problem) = &scaled {
        tracing::warn!(%problem, "the numbers cannot be scaled to the solver's; the best answer so far stands");
    }
    scaled.ok()
}

fn strange(places: &[Option<usize>]) -> SolveError {
    SolveError::Mismatch { reported: format!("{places:?}"), exact: "places that exist".into() }
}
