//! `round-robin`: each actor on the next feasible unit.

use std::collections::BTreeMap;

use crate::strategies::repair::repair_violations;
use placement::ix::{ActorIx, UnitIx};
use placement::{Answer, Budget, FoundBy, Snapshot, SolveError, Stage, State, StoppedBy, Strategy};

/// Cycles through the units: each actor is placed on the next feasible one, regardless of cost.
///
/// A unit of effort is one actor; it always finishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Strategy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn summary(&self) -> &'static str {
        "cycles through the units regardless of cost; for comparison"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let mut next = UnitIx::new(0);
        let answer = one_by_one(snapshot, |feasible| {
            let unit = *feasible.iter().find(|unit| **unit >= next).unwrap_or(&feasible[0]);
            next = UnitIx::new(unit.at() + 1);
            unit
        });
        Ok(repair_violations(snapshot, answer, budget))
    }
}

/// Places actors in file order, each on the feasible unit that `choose` picks from a non-empty list.
pub(crate) fn one_by_one(snapshot: &Snapshot, mut choose: impl FnMut(&[UnitIx]) -> UnitIx) -> Answer {
    let mut state = State::new(snapshot);
    for actor in ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)) {
        let candidates = snapshot.problem().candidates(actor).iter().copied();
        let feasible: Vec<UnitIx> = candidates.filter(|&unit| state.admits(actor, unit)).collect();
        if !feasible.is_empty() {
            state.put(actor, choose(&feasible));
        }
    }
    Answer {
        effort: snapshot.actors() as u64,
        assignment: state.assignment,
        bound: BTreeMap::new(),
        optimal: false,
        stage: Stage::Construction,
        found_by: FoundBy::Construction,
        proven_by: None,
        stopped_by: StoppedBy::Effort,
    }
}
