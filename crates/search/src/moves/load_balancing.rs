//! Takes load off units that have too much of it.

use placement::ix::{ItemIx, UnitIx};

use crate::ablation::Ablation;
use crate::evaluation::solution::Solution;
use crate::model::Change;
use crate::moves::compound::CompoundMove;
use placement::weighted::NOWHERE;

/// Tries per item that it may take to bring every load within its limit.
const TRIES_PER_ITEM: usize = 400;

/// Tries between two looks at the clock.
const PATIENCE: usize = 256;

/// Moves and swaps items until no unit has more work than its capacity and the slack; false when that was not reached. `None` where
/// `stop` ended it.
///
/// A step is taken when the sum of all excesses does not grow, as walking along plateaus is what solves the packing, and where an item is
/// more than the unit that it is on may have at all.
fn balance(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<bool> {
    let model = solution.model;
    let mut over: Vec<UnitIx> =
        UnitIx::first(model.units).filter(|unit| solution.excess(*unit) > 0).collect();
    let mut compound = CompoundMove::new(model.free);
    for tries in 0..TRIES_PER_ITEM * model.free {
        if over.is_empty() {
            return Some(true);
        }
        if tries.is_multiple_of(PATIENCE) && stop() {
            return None;
        }
        let position = rng.usize(..over.len());
        let from = over[position];
        if solution.excess(from) == 0 {
            over.swap_remove(position);
            continue;
        }
        let on = &solution.on[from];
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
        let (leaves, comes) = (model.needs(item, from)[0], model.needs(item, to)[0]);
        let over_by = |room: i64| (-room).max(0);
        // Nothing that others do brings it within the limit there; where it can be, they make room afterwards.
        let has_to_go = leaves > solution.most_work(from) && comes <= solution.most_work(to);
        if (has_to_go || over_by(room_from + leaves) + over_by(room_to - comes) <= before)
            && solution.admits_overloaded(item, to)
            && solution.keeps_rules(&[(item, from, to)])
        {
            solution.move_to(item, to);
        } else {
            let there = &solution.on[to];
            if there.is_empty() {
                continue;
            }
            let other = there[rng.usize(..there.len())];
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
            let after = over_by(room_from + leaves - back) + over_by(room_to - comes + gone);
            if after > before
                || !solution.admits_swap_overloaded(item, other)
                || !solution.keeps_rules(&[(item, from, to), (other, to, from)])
            {
                continue;
            }
            solution.swap_regardless(item, other);
        }
        if solution.excess(to) > 0 && !over.contains(&to) {
            over.push(to);
        }
    }
    Some(false)
}

/// Where devices are exclusive and two may not change places, three or four do in turn, where that makes the sum of all excesses no
/// larger; says whether they did.
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
        && solution.delta_of_all(&compound.changes).is_some_and(|(_, more)| more <= 0)
        && solution.keeps_rules(&compound.changes);
    if may {
        solution.objective += solution.try_figures(&compound.changes).0;
        solution.make_all(&compound.changes);
    }
    may
}

/// Moves and swaps items until the largest overload is, within a part of 256, the least that this way reaches: where a kind is short,
/// units of it are to be loaded evenly before anything else counts. Leaves no slack. `None` where `stop` ended it.
pub(crate) fn even_out(
    solution: &mut Solution,
    rng: &mut fastrand::Rng,
    stop: &dyn Fn() -> bool,
) -> Option<()> {
    solution.in_bulk(|solution| halve(solution, rng, stop))
}

/// Halves what lies between too little overload and enough.
fn halve(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    if balance(solution, rng, stop)? {
        return Some(());
    }
    let (mut too_little, mut enough) = (0, solution.overloads().0);
    while enough - too_little > (enough / 256).max(1) {
        let between = too_little + (enough - too_little) / 2;
        let mut tried = solution.clone();
        tried.set_slack(between);
        if balance(&mut tried, rng, stop)? {
            tried.set_slack(0);
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

    /// Three exclusive devices of three kinds, each held by the one who could be better served by the next: no two may change places.
    #[test]
    fn three_who_change_places_in_turn_take_load_off_exclusive_devices() {
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
        assert_eq!(solution.overloads().0, 2);
        even_out(&mut solution, &mut fastrand::Rng::with_seed(1), &|| false).unwrap();
        assert_eq!((solution.overloads().0, solution.unplaced), (0, 0));
        assert_eq!(solution.objective, {
            let mut anew = Solution::new(&model);
            anew.adopt(&solution.place);
            anew.objective
        });
    }

    /// Who has more work where it is than the limit lets anybody have goes where it has less, and who is there makes room.
    #[test]
    fn who_is_too_much_alone_goes_where_it_is_less() {
        let light: Vec<String> = (0..8).map(|at| format!("l{at}:v=1,w=1")).collect();
        let actors = format!("heavy:u=9,v=12 {}", light.join(" "));
        let snapshot = testkit::line::world("u:u:2 v:v:10 w:w:10", &actors, "");
        let model = Model::new(&snapshot);
        let mut solution = Solution::new(&model);
        solution.put(ItemIx::new(0), UnitIx::new(0));
        for item in ItemIx::first(9).skip(1) {
            solution.put(item, UnitIx::new(1));
        }
        assert_eq!(solution.overloads().0, 7);
        even_out(&mut solution, &mut fastrand::Rng::with_seed(1), &|| false).unwrap();
        assert_eq!((solution.overloads().0, solution.unplaced), (2, 0));
    }
}
