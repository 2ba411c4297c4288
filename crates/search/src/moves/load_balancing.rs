//! Load balancing: moves work off overloaded units.

use placement::ix::{ItemIx, UnitIx};

use crate::ablation::Ablation;
use crate::evaluation::solution::Solution;
use crate::model::Change;
use crate::moves::compound::CompoundMove;
use placement::weighted::NOWHERE;

/// Tries per item to bring every load within its limit.
const TRIES_PER_ITEM: usize = 400;

/// Tries between two checks of the clock.
const CHECK_INTERVAL: usize = 256;

/// Moves and swaps items until no unit has more work than its capacity and the allowance; false when that was not
/// reached. `None` where `stop` ended it.
///
/// A step is made when the total excess does not grow, as walking along plateaus is what solves the packing. An item that
/// exceeds the limit of its unit by itself moves regardless.
fn try_balance(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<bool> {
    let model = solution.model;
    let mut over: Vec<UnitIx> =
        UnitIx::first(model.units).filter(|unit| solution.excess(*unit) > 0).collect();
    let mut compound = CompoundMove::new(model.free);
    for tries in 0..TRIES_PER_ITEM * model.free {
        if over.is_empty() {
            return Some(true);
        }
        if tries.is_multiple_of(CHECK_INTERVAL) && stop() {
            return None;
        }
        let position = rng.usize(..over.len());
        let from = over[position];
        if solution.excess(from) == 0 {
            over.swap_remove(position);
            continue;
        }
        let on = &solution.occupants[from];
        if on.is_empty() {
            // Fixed actors alone overload it.
            over.swap_remove(position);
            continue;
        }
        let item = on[rng.usize(..on.len())];
        let candidates = model.candidates(item);
        let to = candidates[rng.usize(..candidates.len())];
        if to == from {
            continue;
        }
        let before = solution.excess(from) + solution.excess(to);
        let (room_from, room_to) = (left(solution, from), left(solution, to));
        let (leaves, added) = (model.needs(item, from)[0], model.needs(item, to)[0]);
        let over_by = |room: i64| (-room).max(0);
        // Nothing else can bring the unit within its limit.
        let must_move = leaves > solution.work_limit(from) && added <= solution.work_limit(to);
        if (must_move || over_by(room_from + leaves) + over_by(room_to - added) <= before)
            && solution.admits_ignoring_load(item, to)
            && solution.adds_no_violation(&[(item, from, to)])
        {
            solution.force_move(item, to);
        } else {
            let occupants = &solution.occupants[to];
            if occupants.is_empty() {
                continue;
            }
            let other = occupants[rng.usize(..occupants.len())];
            if !model.allows(other, from) {
                if rotate(solution, &mut compound, ((item, from, to), other), rng) {
                    let now_over = compound.changes.iter().map(|(.., to)| *to);
                    over.extend(now_over.filter(|unit| solution.excess(*unit) > 0));
                    over.sort_unstable();
                    over.dedup();
                }
                continue;
            }
            let (back, gone) = (model.needs(other, from)[0], model.needs(other, to)[0]);
            let after = over_by(room_from + leaves - back) + over_by(room_to - added + gone);
            if after > before
                || !solution.admits_swap_ignoring_load(item, other)
                || !solution.adds_no_violation(&[(item, from, to), (other, to, from)])
            {
                continue;
            }
            solution.force_swap(item, other);
        }
        if solution.excess(to) > 0 && !over.contains(&to) {
            over.push(to);
        }
    }
    Some(false)
}

/// Rotates three or four items on exclusive devices where two may not swap, if the total excess does not grow. Returns
/// whether it did.
fn rotate(
    solution: &mut Solution,
    compound: &mut CompoundMove,
    (first, other): (Change, ItemIx),
    rng: &mut fastrand::Rng,
) -> bool {
    let model = solution.model;
    if model.snapshot.problem().slots[first.2] != Some(1) || model.without == Some(Ablation::Rotations) {
        return false;
    }
    let may = compound.rotate(solution, first, other, rng)
        && solution.batch_delta(&compound.changes).is_some_and(|(_, more)| more <= 0)
        && solution.adds_no_violation(&compound.changes);
    if may {
        solution.objective += solution.apply_terms(&compound.changes).0;
        solution.apply_batch(&compound.changes);
    }
    may
}

/// Moves and swaps items until the largest overload is within 1/256 of the least that this reaches: where a kind is
/// short, its units are loaded evenly. Resets the allowance to 0. `None` where `stop` ended it.
pub(crate) fn balance_loads(
    solution: &mut Solution,
    rng: &mut fastrand::Rng,
    stop: &dyn Fn() -> bool,
) -> Option<()> {
    solution.in_bulk(|solution| bisect_allowance(solution, rng, stop))
}

/// Bisects the allowance between too small and sufficient.
fn bisect_allowance(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    if try_balance(solution, rng, stop)? {
        return Some(());
    }
    let (mut too_little, mut enough) = (0, solution.overload_range().0);
    while enough - too_little > (enough / 256).max(1) {
        let between = too_little + (enough - too_little) / 2;
        let mut tried = solution.clone();
        tried.set_overload_allowance(between);
        if try_balance(&mut tried, rng, stop)? {
            tried.set_overload_allowance(0);
            (*solution, enough) = (tried, between);
        } else {
            too_little = between;
        }
    }
    Some(())
}

fn left(solution: &Solution, unit: UnitIx) -> i64 {
    debug_assert_ne!(unit, NOWHERE);
    solution.left[unit.at() * solution.model.dims]
}

#[cfg(test)]
mod tests {
    use placement::Snapshot;

    use super::*;
    use crate::model::Model;

    /// Three exclusive devices of three kinds, each held by the actor that the next would serve better: no two may swap.
    #[test]
    fn rotations_balance_exclusive_devices() {
        let unit =
            |name: &str| format!(r#"{{"id":"n/{name}","kind":"{name}","node":"n","capacity":3,"slots":1}}"#);
        let actor = |id: &str, on: &str| format!(r#"{{"id":"{id}","runsOn":{on}}}"#);
        let text = format!(
            r#"{{"version":1,"units":[{},{},{}],"actors":[{},{},{}],"exchangeCost":{{"otherKind":1}}}}"#,
            unit("u"),
            unit("v"),
            unit("w"),
            actor("a", r#"{"u":5,"v":1}"#),
            actor("b", r#"{"v":1,"w":1}"#),
            actor("c", r#"{"w":1,"u":1}"#),
        );
        let snapshot = Snapshot::read(&text).unwrap();
        let model = Model::new(&snapshot);
        let mut solution = Solution::new(&model);
        for (item, unit) in ItemIx::first(3).zip(UnitIx::first(3)) {
            solution.put(item, unit);
        }
        assert_eq!(solution.overload_range().0, 2);
        balance_loads(&mut solution, &mut fastrand::Rng::with_seed(1), &|| false).unwrap();
        assert_eq!((solution.overload_range().0, solution.unplaced), (0, 0));
        assert_eq!(solution.objective, {
            let mut anew = Solution::new(&model);
            anew.adopt(&solution.place);
            anew.objective
        });
    }

    /// An item above the limit of its unit by itself moves to where its work is less; others make room.
    #[test]
    fn an_item_above_the_limit_by_itself_moves() {
        let light: Vec<String> = (0..8).map(|at| format!("l{at}:v=1,w=1")).collect();
        let actors = format!("heavy:u=9,v=12 {}", light.join(" "));
        let snapshot = testkit::line::world("u:u:2 v:v:10 w:w:10", &actors, "");
        let model = Model::new(&snapshot);
        let mut solution = Solution::new(&model);
        solution.put(ItemIx::new(0), UnitIx::new(0));
        for item in ItemIx::first(9).skip(1) {
            solution.put(item, UnitIx::new(1));
        }
        assert_eq!(solution.overload_range().0, 7);
        balance_loads(&mut solution, &mut fastrand::Rng::with_seed(1), &|| false).unwrap();
        assert_eq!((solution.overload_range().0, solution.unplaced), (2, 0));
    }
}
