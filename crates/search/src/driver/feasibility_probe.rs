//! Probes whether all actors fit without overload and without grandfathered violations. If so, capacities are hard
//! limits.

use std::cell::Cell;

use placement::Snapshot;
use placement::ix::ItemIx;
use placement::weighted::NOWHERE;

use crate::construction::initial_placement::place_remaining;
use crate::evaluation::solution::Solution;
use crate::model::Model;
use crate::moves::load_balancing::balance_loads;

/// Units of work between two checks of the clock: a few hundredths of a second.
const CHECK_INTERVAL: usize = 1 << 10;
/// Units that are checked in the time of one unit of work.
const UNITS_PER_STEP: usize = 16;

/// The model, with capacities as limits where that is right. The flag says that `stop` ended the probe.
pub(crate) fn build_model<'a>(snapshot: &'a Snapshot, stop: &dyn Fn() -> bool) -> (Model<'a>, bool) {
    let Some((model, is_cut)) = Model::without_grandfathering(snapshot, stop) else {
        return Model::until(snapshot, stop);
    };
    match if is_cut { None } else { feasibility_probe(&model, stop) } {
        Some(true) => (model, false),
        Some(false) => Model::until(snapshot, stop),
        None => (model, true),
    }
}

/// Whether a quick construction places all actors without overload and without grandfathered violations. Then no best
/// placement has any, and a search that keeps to capacities misses none.
///
/// If none is found, there may still be one: overload is then weighed, not limited. `None` where `stop` ended it, as the
/// model must not depend on a clock.
fn feasibility_probe(model: &Model<'_>, stop: &dyn Fn() -> bool) -> Option<bool> {
    // Small snapshots finish before the first check.
    let work_done = Cell::new(0usize);
    let after = |work: usize| {
        let before = work_done.get();
        work_done.set(before + work);
        before / CHECK_INTERVAL != work_done.get() / CHECK_INTERVAL && stop()
    };
    let rarely = || after(1);
    Solution::new(model).in_bulk(|solution| {
        if !solution.adopt_without_violations(&model.places(&model.snapshot.incumbent()), stop) {
            return None;
        }
        for item in ItemIx::first(model.free) {
            if solution.place[item] != NOWHERE && solution.is_grandfathered(item) {
                solution.remove(item);
                // Each candidate is checked.
                if after(1 + solution.model.candidates(item).len() / UNITS_PER_STEP) {
                    return None;
                }
                place_without_grandfathering(solution, item);
            }
        }
        if !place_remaining(solution, stop) {
            return None;
        }
        // The same seed for every search: the model must not depend on it.
        balance_loads(solution, &mut fastrand::Rng::with_seed(0), &rarely)?;
        Some(solution.unplaced == 0 && solution.overload_range().0 == 0 && solution.grandfathered() == 0)
    })
}

/// Places an item on the cheapest unit where it is not grandfathered, if there is one.
fn place_without_grandfathering(solution: &mut Solution<'_>, item: ItemIx) {
    let mut places = solution.model.candidates(item).to_vec();
    places
        .retain(|unit| solution.admits(item, *unit) && solution.adds_no_violation(&[(item, NOWHERE, *unit)]));
    places.sort_by_cached_key(|unit| (solution.delta(item, *unit), *unit));
    for unit in places {
        solution.put(item, unit);
        if !solution.is_grandfathered(item) {
            return;
        }
        solution.remove(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether capacities are limits, where three actors with work 4 and memory 2 run on a unit without memory, and the
    /// other two units have this capacity and memory.
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
        build_model(&Snapshot::read(&json).unwrap(), &|| false).0.has_limit
    }

    #[test]
    fn capacities_are_limits_where_all_actors_fit() {
        // Nothing that runs violates a limit.
        assert!(is_limit(8, 8, false));
        // All three fit elsewhere.
        assert!(is_limit(8, 8, true));
        // They fit only with overload, which costs less than a grandfathered violation and is weighed.
        assert!(!is_limit(5, 8, true));
        // No other unit has memory for them.
        assert!(!is_limit(8, 2, true));
    }
}
