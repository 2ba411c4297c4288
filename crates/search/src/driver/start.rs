//! The placement that annealing chains start from.

use placement::Assignment;

use crate::ablation::Ablation;
use crate::evaluation::solution::{NO_LIMIT, Solution};
use crate::model::Model;
use crate::moves::ejection::eject;
use crate::moves::load_balancing::balance_loads;

/// All actors placed as far as that is easy.
pub(super) struct Start<'t> {
    pub solution: Solution<'t>,
    /// Whether most actors had a place before.
    pub is_warm: bool,
    pub rng: fastrand::Rng,
}

impl<'t> Start<'t> {
    /// The solution after ejection, and the same after load balancing, with the overload allowance that chains keep to.
    /// A less overloaded one of `offered` replaces the latter. `None` where `stop` ended it.
    pub fn balanced(
        self,
        offered: &[Assignment],
        stop: &dyn Fn() -> bool,
    ) -> Option<(Solution<'t>, Solution<'t>, fastrand::Rng)> {
        let Self { mut solution, mut rng, .. } = self;
        let model = solution.model;
        if solution.unplaced > 0 && model.without != Some(Ablation::Ejection) {
            eject(&mut solution, &mut rng.clone(), stop)?;
        }
        let unbalanced = solution.clone();
        balance_loads(&mut solution, &mut rng, stop)?;
        for offered in offered {
            let other = adopted(model, offered, 0);
            let is_better =
                (other.unplaced, other.overload_range().0) < (solution.unplaced, solution.overload_range().0);
            if is_better && other.violation() == 0 {
                solution = other;
            }
        }
        let allowance = if model.has_limit { solution.overload_range().0 } else { NO_LIMIT };
        solution.set_overload_allowance(allowance);
        Some((unbalanced, solution, rng))
    }
}

/// An assignment as a solution with this overload allowance.
pub(super) fn adopted<'t>(model: &'t Model<'t>, assignment: &Assignment, allowance: i64) -> Solution<'t> {
    let mut solution = Solution::new(model);
    solution.set_overload_allowance(allowance);
    solution.adopt(&model.places(assignment));
    solution
}
