//! `random`: each actor on a random feasible unit.

use crate::strategies::repair::repair_violations;
use crate::strategies::round_robin::one_by_one;
use placement::{Answer, Budget, Snapshot, SolveError, Strategy};

/// Places each actor on a random feasible unit, regardless of cost.
///
/// The seed of the budget decides. A unit of effort is one actor; it always finishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn summary(&self) -> &'static str {
        "places each actor on a random unit, by the seed; for comparison"
    }

    fn solve(&self, snapshot: &Snapshot, budget: &Budget) -> Result<Answer, SolveError> {
        let mut rng = fastrand::Rng::with_seed(budget.seed);
        let answer = one_by_one(snapshot, |feasible| feasible[rng.usize(..feasible.len())]);
        Ok(repair_violations(snapshot, answer, budget))
    }
}
