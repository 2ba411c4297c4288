//! `exhaustive`: every assignment there is.

use std::collections::BTreeMap;

use placement::ix::ActorIx;
use placement::{
    Answer, Assignment, Budget, Cost, FoundBy, Objectives, ProvenBy, Snapshot, SolveError, Stage, StoppedBy,
    Strategy,
};

/// The most assignments that are looked at.
const MOST: u64 = 10_000_000;

/// Looks at every assignment of actors to candidates, or to nowhere, and keeps the first of the cheapest feasible ones.
///
/// What it says is judged by the checker and priced by [`Snapshot::cost`] alone, so it is what other strategies can be
/// held against. An effort unit is one assignment priced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn summary(&self) -> &'static str {
        "looks at every assignment, ten million at most; to check others by"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let problem = snapshot.problem();
        let choices = problem.movable.iter().map(|&actor| problem.candidates(actor).len() as u64 + 1);
        let many = choices.fold(1u64, u64::saturating_mul);
        if many > MOST {
            return Err(SolveError::TooLarge { most: MOST });
        }
        let home = |actor: ActorIx| problem.fixed_at(actor);
        let alone: Assignment = problem.current.positions().map(home).collect();
        let mut search = Search {
            snapshot,
            budget,
            left: budget.effort.unwrap_or(u64::MAX),
            done: 0,
            best: (vector(snapshot, &alone), alone.clone(), 0),
            places: alone,
            stopped: None,
        };
        search.place(&problem.movable, 0);
        Ok(search.answer())
    }
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    budget: &'a Budget<'a>,
    left: u64,
    done: u64,
    /// The vector, its assignment, and the effort after which it was known. At first nothing is placed, which is feasible.
    best: (Vec<i64>, Assignment, u64),
    places: Assignment,
    stopped: Option<StoppedBy>,
}

impl Search<'_> {
    /// Tries everything for `waiting`, while `unplaced` of the others have no place.
    fn place(&mut self, waiting: &[ActorIx], unplaced: i64) {
        // Who has no place gets none later: what has more of them than the best is no better.
        if self.stopped.is_some() || unplaced > self.best.0[0] {
            return;
        }
        let Some((&actor, rest)) = waiting.split_first() else { return self.look() };
        for &unit in self.snapshot.problem().candidates(actor) {
            self.places[actor] = Some(unit);
            self.place(rest, unplaced);
        }
        self.places[actor] = None;
        self.place(rest, unplaced + 1);
    }

    fn look(&mut self) {
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
