//! Takes load off units that have too much of it.

use placement::ix::UnitIx;

use crate::solution::Solution;
use placement::weighted::NOWHERE;

/// Tries per item that it may take to bring every load within its limit.
const TRIES_PER_ITEM: usize = 400;

/// Tries between two looks at the clock.
const PATIENCE: usize = 256;

/// Moves and swaps items until no unit has more work than its capacity and the slack; false when that was not reached. `None` where
/// `stop` ended it.
///
/// A step is taken when the sum of all excesses does not grow: walking along plateaus is what solves the packing.
fn balance(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<bool> {
    let model = solution.model;
    let mut over: Vec<UnitIx> =
        UnitIx::first(model.units).filter(|unit| solution.excess(*unit) > 0).collect();
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
        if over_by(room_from + leaves) + over_by(room_to - comes) <= before
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
