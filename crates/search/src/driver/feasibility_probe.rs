//! Whether nobody has to be excused or to have too little: then overload is a limit, also where it comes after who is excused.

use std::cell::Cell;

use placement::Snapshot;
use placement::ix::ItemIx;
use placement::weighted::NOWHERE;

use crate::construction::initial_placement::place_the_rest;
use crate::evaluation::solution::Solution;
use crate::model::Model;
use crate::moves::load_balancing::even_out;

/// Times that the clock could have been asked before it is: a few hundredths of a second.
const PATIENCE: usize = 1 << 10;
/// Places that are looked at in the time of what else is counted once.
const PLACES: usize = 16;

/// A snapshot laid out, with capacities as limits where that is right; and whether that is not known because `stop` ended it.
pub(crate) fn laid_out<'a>(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> (Model<'a>, bool) {
    let Some(model) = Model::with_nobody_excused(snapshot) else { return (Model::new(snapshot), false) };
    match feasibility_probe(&model, stop) {
        Some(true) => (model, false),
        Some(false) => (Model::new(snapshot), false),
        None => (model, true),
    }
}

/// Whether a placement of everybody is found at once in which no limit that what runs breaks is broken any more and no unit has more
/// work than its capacity. Then no best placement breaks or overloads anything, and a search that keeps to capacities misses none.
///
/// Where one is not found there may be one all the same: overload is then weighed, not kept to. `None` where `stop` ended it: what is
/// right does not depend on a clock.
fn feasibility_probe(model: &Model<'_>, stop: &dyn Fn() -> bool) -> Option<bool> {
    // In small worlds it is over before it is worth while to ask.
    let asked = Cell::new(0usize);
    let after = |work: usize| {
        let before = asked.get();
        asked.set(before + work);
        before / PATIENCE != asked.get() / PATIENCE && stop()
    };
    let rarely = || after(1);
    Solution::new(model).in_bulk(|solution| {
        solution.adopt_with_care(&model.places(&model.snapshot.incumbent()));
        for item in ItemIx::first(model.free) {
            if solution.place[item] != NOWHERE && solution.is_excused(item) {
                solution.take_out(item);
                // Each place is looked at.
                if after(1 + solution.model.candidates(item).len() / PLACES) {
                    return None;
                }
                put_right(solution, item);
            }
        }
        if !place_the_rest(solution, stop) {
            return None;
        }
        // The same for every seed: what is right does not depend on one.
        even_out(solution, &mut fastrand::Rng::with_seed(0), &rarely)?;
        Some(solution.unplaced == 0 && solution.overloads().0 == 0 && solution.excused() == 0)
    })
}

/// Puts an item where it costs least of those places that take it and for which it needs no excuse, if there is one.
fn put_right(solution: &mut Solution<'_>, item: ItemIx) {
    let mut places = solution.model.candidates(item).to_vec();
    places.retain(|unit| solution.admits(item, *unit) && solution.keeps_rules(&[(item, NOWHERE, *unit)]));
    places.sort_by_cached_key(|unit| (solution.delta(item, *unit), *unit));
    for unit in places {
        solution.put(item, unit);
        if !solution.is_excused(item) {
            return;
        }
        solution.take_out(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether capacities are limits, where three actors with work 4 and memory 2 run on a unit without memory, and the other two
    /// units have this capacity and memory.
    fn is_limit(capacity: u32, memory: u32, runs: bool) -> bool {
        let current = if runs { r#","current":"n0/a""# } else { "" };
        let actor =
            |n: u32| format!(r#"{{"id":"a{n}","runsOn":{{"cpu":4}},"requires":{{"memory":2}}{current}}}"#);
        let unit = |node: &str, capacity: u32, memory: u32| {
            format!(
                r#"{{"id":"{node}/a","kind":"cpu","node":"{node}","capacity":{capacity},"provides":{{"memory":{memory}}}}}"#
            )
        };
        let units = [unit("n0", 20, 0), unit("n1", capacity, memory), unit("n2", capacity, memory)].join(",");
        let actors = (0..3).map(actor).collect::<Vec<_>>().join(",");
        let json = format!(
            r#"{{"version":1,"units":[{units}],"actors":[{actors}],"exchangeCost":{{"kinds":{{"cpu":{{"cpu":1}}}}}}}}"#
        );
        laid_out(&Snapshot::read(&json).unwrap(), &|| false).0.has_limit
    }

    #[test]
    fn capacities_are_limits_where_nobody_has_to_be_excused_for_it() {
        // Nothing that runs breaks a limit.
        assert!(is_limit(8, 8, false));
        // All three find room elsewhere.
        assert!(is_limit(8, 8, true));
        // They do, but at the price of an overload: that is less than who stays where there is no memory, and is weighed.
        assert!(!is_limit(5, 8, true));
        // There is no memory for them anywhere else.
        assert!(!is_limit(8, 2, true));
    }
}
