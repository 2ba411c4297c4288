//! `round-robin`: each actor on the next unit that may take it.

use std::collections::BTreeMap;

use crate::strategies::repair::repair_violations;
use placement::ix::{ActorIx, UnitIx};
use placement::{Answer, Budget, FoundBy, Snapshot, SolveError, Stage, State, StoppedBy, Strategy};

/// Goes round the units: each actor lands on the next one that may take it. Looks at no cost.
///
/// A piece of effort is one actor; it always finishes, whatever the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Strategy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn summary(&self) -> &'static str {
        "goes round the units and looks at no cost; for comparison"
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

/// Places actors in the order of the file, each on the feasible unit that `choose` picks; never asks without any.
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
