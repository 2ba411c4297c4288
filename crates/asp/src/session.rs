//! clingo applied to one snapshot after the other, in a process that is started on first use.

use std::mem;
use std::path::{Path, PathBuf};

use placement::{Assignment, Snapshot, SolveError};

use crate::child::Job;
use crate::engine::{Aim, Outcome};
use crate::facts::{Encoded, vector};
use crate::process::{BoundCommand, JobEnd, Solver};
use crate::sandbox::Limits;

/// The parameters of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The search is cut after this many conflicts.
    pub conflicts: u64,
    /// The purpose of the search.
    pub aim: Aim,
    /// Stop after this many models.
    pub models: u64,
    /// Whether only models no worse than the start count, which must be exact and feasible.
    pub no_worse: bool,
}

/// clingo in a process of its own: a snapshot is encoded as facts, and every model is priced again in exact arithmetic. If the
/// process is killed, or its answer is invalid, no other is started.
#[derive(Debug)]
pub struct Session {
    executable: PathBuf,
    limits: Limits,
    seed: u64,
    solver: Option<Solver>,
    is_lost: bool,
}

impl Session {
    /// A session of an executable that calls [`run_child_if_asked`](crate::run_child_if_asked); starts nothing yet.
    ///
    /// `limits` are those of one process, for all its jobs.
    pub fn new(executable: &Path, limits: Limits, seed: u64) -> Self {
        Self { executable: executable.to_owned(), limits, seed, solver: None, is_lost: false }
    }

    /// Whether clingo is available; false once its process was lost.
    pub fn is_usable(&self) -> bool {
        !self.is_lost
    }

    /// Starts the process, unless it runs, which initializes while the caller continues.
    pub fn wake(&mut self) {
        if self.solver.is_some() || !self.is_usable() {
            return;
        }
        match Solver::start(&self.executable, self.limits) {
            Ok(solver) => self.solver = Some(solver),
            Err(problem) => self.lose(&problem),
        }
    }

    fn lose(&mut self, problem: &str) {
        self.is_lost = true;
        tracing::warn!(problem, "the solver process was lost; the best answer so far is kept");
    }

    /// Lets clingo solve a snapshot; `found` gets each model and its exact vector.
    ///
    /// # Errors
    /// When clingo's sums differ from exact arithmetic.
    pub fn ask(
        &mut self,
        world: &Snapshot,
        start: &Assignment,
        task: &Task,
        stop: &dyn Fn() -> bool,
        mut found: impl FnMut(Assignment, Vec<i64>),
    ) -> Result<JobEnd, SolveError> {
        self.wake();
        let Some(mut solver) = self.solver.take() else {
            return Ok(JobEnd::Lost("no solver process could be started".into()));
        };
        let mut encoded = Encoded::new(world, start);
        let job = Job {
            seed: self.seed,
            conflicts: task.conflicts,
            aim: task.aim,
            models: task.models,
            at_most: if task.no_worse { encoded.sums(&vector(world, start)) } else { Vec::new() },
            judged: false,
            facts: mem::take(&mut encoded.facts),
            actors: encoded.actors.clone(),
            units: encoded.units.clone(),
        };
        let ended = solver.run(&job, stop, |places, sums| {
            let assignment = encoded.assignment(&places).ok_or_else(|| strange(&places))?;
            let (reported, exact) = (encoded.vector(sums), vector(world, &assignment));
            if reported != exact {
                return Err(SolveError::Mismatch {
                    reported: format!("{reported:?}"),
                    exact: format!("{exact:?}"),
                });
            }
            tracing::debug!(vector = ?exact, "model");
            found(assignment, exact);
            Ok(())
        })?;
        match &ended {
            JobEnd::Finished(outcome) => {
                if *outcome == Outcome::Unsatisfiable {
                    tracing::warn!(
                        "the solver found no model although one exists; the best answer so far is kept"
                    );
                }
                self.solver = Some(solver);
            }
            JobEnd::Lost(problem) => self.lose(problem),
            JobEnd::Stopped => {}
        }
        Ok(ended)
    }
}

/// clingo's lower bounds of a snapshot's vector, level by level as far as the search got: each bound holds if those before it are
/// reached. In a process of its own; `None` if that is lost.
pub fn bound(
    executable: &Path,
    limits: Limits,
    seed: u64,
    world: &Snapshot,
    conflicts: u64,
    command: &dyn Fn() -> BoundCommand,
) -> Vec<i64> {
    let mut encoded = Encoded::new(world, &world.incumbent());
    let job =
        Job { seed, conflicts, aim: Aim::Bound, facts: mem::take(&mut encoded.facts), ..Job::default() };
    match Solver::start(executable, limits).and_then(|solver| solver.bound(&job, command)) {
        Ok(sums) => encoded.vector(&sums),
        Err(problem) => {
            tracing::warn!(
                problem,
                "the process that computes bounds was lost; the answer has no bound from it"
            );
            Vec::new()
        }
    }
}

fn strange(places: &[Option<usize>]) -> SolveError {
    SolveError::Mismatch { reported: format!("{places:?}"), exact: "places that exist".into() }
}
