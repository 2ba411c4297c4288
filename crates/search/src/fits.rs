//! Whether nobody has to be excused or to have too little: then overload is a limit, also where it comes after who is excused.

use placement::ix::ItemIx;
use placement::weighted::NOWHERE;

use crate::balance::even_out;
use crate::construct::place_the_rest;
use crate::model::Model;
use crate::solution::Solution;

/// Whether a placement of everybody is found at once in which no limit that what runs breaks is broken any more and no unit has more
/// work than its capacity. Then no best placement breaks or overloads anything, and a search that keeps to capacities misses none.
///
/// Where one is not found there may be one all the same: overload is then weighed, not kept to.
pub(crate) fn everybody_fits(model: &Model<'_>) -> bool {
    let mut solution = Solution::new(model);
    solution.adopt_with_care(&model.places(&model.snapshot.incumbent()));
    for item in ItemIx::first(model.free) {
        if solution.place[item] != NOWHERE && solution.is_excused(item) {
            solution.take_out(item);
        }
    }
    place_the_rest(&mut solution);
    // The same for every seed: what is right does not depend on one.
    let is_even = even_out(&mut solution, &mut fastrand::Rng::with_seed(0), &|| false).is_some();
    is_even && solution.unplaced == 0 && solution.overloads().0 == 0 && solution.excused() == 0
}
