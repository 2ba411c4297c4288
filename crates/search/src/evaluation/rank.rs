//! What placements are compared by during a search.

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::evaluation::solution::Solution;

/// Actors without a place, overload allowance, objective. Less is better.
pub(crate) type Rank = (usize, i64, i64);

/// A rank and its placement.
pub(crate) type Ranked = (Rank, IxVec<ItemIx, UnitIx>);

/// The fraction of the objective that counts as noise: 1 in so many.
const NOISE: i64 = 100;

/// The rank of a solution.
pub(crate) fn rank(solution: &Solution) -> Rank {
    (solution.unplaced, solution.overload_allowance, solution.objective)
}

/// Whether `one` is better than the other rank by more than noise.
pub(crate) fn is_significantly_better(one: Rank, (unplaced, overload_allowance, objective): Rank) -> bool {
    one < (unplaced, overload_allowance, objective - objective / NOISE)
}
