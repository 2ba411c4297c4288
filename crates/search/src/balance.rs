//! Takes load off units that have too much of it.

use placement::ix::UnitIx;

use crate::layout::Layout;
use placement::weighted::NOWHERE;

/// Tries per item that it may take to bring every load within its limit.
const TRIES_PER_ITEM: usize = 400;

/// Moves and swaps items until no unit has more work than its capacity and the slack; false when that was not reached.
///
/// A step is taken when the sum of all excesses does not grow: walking along plateaus is what solves the packing.
pub(crate) fn balance(layout: &mut Layout, dice: &mut fastrand::Rng) -> bool {
    let model = layout.model;
    let mut over: Vec<UnitIx> = UnitIx::first(model.units).filter(|unit| layout.excess(*unit) > 0).collect();
    for _ in 0..TRIES_PER_ITEM * model.free {
        if over.is_empty() {
            return true;
        }
        let position = dice.usize(..over.len());
        let from = over[position];
        if layout.excess(from) == 0 {
            over.swap_remove(position);
            continue;
        }
        let on = &layout.on[from];
        if on.is_empty() {
            // Fixed actors alone overload it.
            over.swap_remove(position);
            continue;
        }
        let item = on[dice.usize(..on.len())];
        let candidates = model.candidates(item);
        let to = candidates[dice.usize(..candidates.len())];
        if to == from {
            continue;
        }
        let before = layout.excess(from) + layout.excess(to);
        let (room_from, room_to) = (left(layout, from), left(layout, to));
        let (leaves, comes) = (model.needs(item, from)[0], model.needs(item, to)[0]);
        let over_by = |room: i64| (-room).max(0);
        if over_by(room_from + leaves) + over_by(room_to - comes) <= before
            && layout.admits_overloaded(item, to)
            && layout.keeps_rules(&[(item, from, to)])
        {
            layout.move_to(item, to);
        } else {
            let there = &layout.on[to];
            if there.is_empty() {
                continue;
            }
            let other = there[dice.usize(..there.len())];
            if !model.allows(other, from) {
                continue;
            }
            let (back, gone) = (model.needs(other, from)[0], model.needs(other, to)[0]);
            let after = over_by(room_from + leaves - back) + over_by(room_to - comes + gone);
            if after > before
                || !layout.admits_swap_overloaded(item, other)
                || !layout.keeps_rules(&[(item, from, to), (other, to, from)])
            {
                continue;
            }
            layout.exchange(item, other);
        }
        if layout.excess(to) > 0 && !over.contains(&to) {
            over.push(to);
        }
    }
    false
}

fn left(layout: &Layout, unit: UnitIx) -> i64 {
    debug_assert_ne!(unit, NOWHERE);
    layout.left[unit.at() * layout.model.dims]
}
