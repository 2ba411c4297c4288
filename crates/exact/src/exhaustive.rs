//! `exhaustive`: enumerates every assignment.

use std::collections::BTreeMap;

use placement::ix::ActorIx;
use placement::{
    Answer, Assignment, Budget, Cost, FoundBy, Objectives, ProvenBy, Snapshot, SolveError, Stage, StoppedBy,
    Strategy,
};

/// The most assignments that are enumerated.
const MAX_ASSIGNMENTS: u64 = 10_000_000;

/// Enumerates all assignments of actors to candidates or to no unit, and keeps the first of the best feasible ones.
///
/// It uses only the checker and [`Snapshot::cost`], so it serves as a reference for other strategies. A unit of effort is
/// one assignment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn summary(&self) -> &'static str {
        "enumerates all assignments, ten million at most; a reference for other strategies"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let problem = snapshot.problem();
        let choices = problem.movable.iter().map(|&actor| problem.candidates(actor).len() as u64 + 1);
        let many = choices.fold(1u64, u64::saturating_mul);
        if many > MAX_ASSIGNMENTS {
            return Err(SolveError::TooLarge { most: MAX_ASSIGNMENTS });
        }
        let home = |actor: ActorIx| problem.fixed_at(actor);
        let fixed_only: Assignment = problem.current.positions().map(home).collect();
        let mut search = Enumeration {
            snapshot,
            budget,
            left: budget.effort.unwrap_or(u64::MAX),
            done: 0,
            best: (vector(snapshot, &fixed_only), fixed_only.clone(), 0),
            places: fixed_only,
            stopped: None,
        };
        search.enumerate(&problem.movable, 0);
        Ok(search.answer())
    }
}

struct Enumeration<'a> {
    snapshot: &'a Snapshot,
    budget: &'a Budget<'a>,
    left: u64,
    done: u64,
    /// The best cost vector, its assignment, and the effort spent until then. Initially nothing is placed, which is
    /// feasible.
    best: (Vec<i64>, Assignment, u64),
    places: Assignment,
    stopped: Option<StoppedBy>,
}

impl Enumeration<'_> {
    /// Enumerates places of `waiting`, while `unplaced` of the others have none.
    fn enumerate(&mut self, waiting: &[ActorIx], unplaced: i64) {
        // The number of unplaced actors never decreases in a branch.
        if self.stopped.is_some() || unplaced > self.best.0[0] {
            return;
        }
        let Some((&actor, rest)) = waiting.split_first() else { return self.evaluate() };
        for &unit in self.snapshot.problem().candidates(actor) {
            self.places[actor] = Some(unit);
            self.enumerate(rest, unplaced);
        }
        self.places[actor] = None;
        self.enumerate(rest, unplaced + 1);
    }

    fn evaluate(&mut self) {
        if self.left == 0 {
            self.stopped = Some(StoppedBy::Effort);
            return;
        }
        if self.done.is_multiple_of(256) && (self.budget.stop)() {
            self.stopped = Some(StoppedBy::Deadline);
            return;
        }
        self.left -= 1;
        self.done += 1;
        let vector = vector(self.snapshot, &self.places);
        if vector < self.best.0 && self.snapshot.violations(&self.places).is_empty() {
            self.best = (vector, self.places.clone(), self.done);
        }
    }

    fn answer(self) -> Answer {
        let (vector, assignment, effort) = self.best;
        let optimal = self.stopped.is_none();
        let keys = self.snapshot.objectives().levels().iter().map(|level| Objectives::key(level));
        let bound = keys.zip(vector[1..].iter().copied());
        Answer {
            assignment,
            bound: if optimal { bound.collect() } else { BTreeMap::new() },
            optimal,
            effort: if self.stopped.is_none() { self.done } else { effort },
            stopped_by: self.stopped.unwrap_or(StoppedBy::Proof),
            stage: Stage::Whole,
            found_by: FoundBy::Exact,
            proven_by: optimal.then_some(ProvenBy::Enumeration),
        }
    }
}

fn vector(snapshot: &Snapshot, assignment: &Assignment) -> Vec<i64> {
    let policy = snapshot.penalty(assignment);
    Cost { policy, ..snapshot.cost(assignment) }.vector(snapshot)
}
