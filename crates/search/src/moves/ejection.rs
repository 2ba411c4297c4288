//! Ejection chains: an unplaced item evicts others, which look for a place in turn (Nagata and Bräysy 2009).

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use crate::evaluation::solution::Solution;

/// Units that are tried for one item.
const MAX_CANDIDATES: usize = 48;

/// Insertions before it gives up: per item, and at least and at most.
const INSERTIONS_PER_ITEM: usize = 20;
const INSERTIONS: (usize, usize) = (400, 8_000);

/// Insertions between two checks of the clock.
const CHECK_INTERVAL: usize = 8;

/// Places unplaced items by ejecting others. Either fewer items are unplaced afterwards or nothing has changed. `None`
/// where `stop` ended it.
///
/// Items that often failed to find a place are seldom ejected: hard items settle, and easy ones fill the gaps.
pub(crate) fn eject(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    solution.in_bulk(|solution| eject_from_pool(solution, rng, stop))
}

fn eject_from_pool(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    let model = solution.model;
    let mut pool: Vec<ItemIx> = ItemIx::first(model.free)
        .filter(|item| solution.place[*item] == NOWHERE && !model.candidates(*item).is_empty())
        .collect();
    if pool.is_empty() {
        return Some(());
    }
    let sizes = sizes(solution);
    let mut failures: IxVec<ItemIx, u64> = IxVec::of(1, model.free);
    let (least, most) = INSERTIONS;
    let before = (solution.unplaced, solution.place.clone());
    let mut best = before.clone();
    for insertions in 0..(INSERTIONS_PER_ITEM * model.free).clamp(least, most) {
        let Some(item) = pool.pop() else { break };
        if insertions.is_multiple_of(CHECK_INTERVAL) && stop() {
            return None;
        }
        if let Some(unit) = room_for(solution, item, rng) {
            solution.put(item, unit);
            if solution.unplaced < best.0 {
                best = (solution.unplaced, solution.place.clone());
            }
            continue;
        }
        failures[item] += 1;
        // No ejection makes room for it, whatever the others do.
        let Some((unit, mut ejected)) = cheapest_ejection(solution, item, &failures, &sizes, rng) else {
            continue;
        };
        for item in &ejected {
            solution.remove(*item);
        }
        solution.put(item, unit);
        ejected.sort_by_key(|item| sizes[*item]);
        pool.extend(ejected);
    }
    if solution.unplaced > best.0 || best.0 == before.0 {
        let overload_allowance = solution.overload_allowance;
        *solution = Solution::new(model);
        solution.set_overload_allowance(overload_allowance);
        solution.adopt(&best.1);
    }
    Some(())
}

/// By item: the largest share that it needs of any total demand, in millionths. Slots count as a resource.
fn sizes(solution: &Solution) -> IxVec<ItemIx, i64> {
    let model = solution.model;
    let needs = |item: ItemIx| {
        let unit = model.candidates(item).first();
        unit.map_or(&[][..], |unit| &model.needs(item, *unit)[1..])
    };
    let mut all = vec![0i64; model.dims - 1];
    for item in ItemIx::first(model.free) {
        all.iter_mut().zip(needs(item)).for_each(|(sum, need)| *sum = sum.saturating_add(*need));
    }
    let part = |(need, all): (&i64, &i64)| i128::from(*need) * 1_000_000 / i128::from(*all).max(1);
    let size = |item| needs(item).iter().zip(&all).map(part).max().unwrap_or(0);
    ItemIx::first(model.free).map(|item| i64::try_from(size(item)).unwrap_or(i64::MAX)).collect()
}

/// Some of the item's candidates, from a random one on.
fn some_candidates(
    solution: &Solution,
    item: ItemIx,
    rng: &mut fastrand::Rng,
) -> impl Iterator<Item = UnitIx> {
    let candidates = solution.model.candidates(item);
    let first = rng.usize(..candidates.len());
    candidates[first..].iter().chain(&candidates[..first]).copied().take(MAX_CANDIDATES)
}

/// Of some units that admit the item now, the one with the least overload, then the cheapest.
fn room_for(solution: &mut Solution, item: ItemIx, rng: &mut fastrand::Rng) -> Option<UnitIx> {
    let model = solution.model;
    let mut free: Vec<UnitIx> = some_candidates(solution, item, rng).collect();
    free.retain(|unit| {
        solution.admits_ignoring_load(item, *unit) && solution.adds_no_violation(&[(item, NOWHERE, *unit)])
    });
    free.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - solution.left[unit.at() * model.dims];
        (over.max(0), solution.delta(item, *unit), *unit)
    })
}

/// Of some units, the one whose ejected items have failed least often, and those items.
fn cheapest_ejection(
    solution: &mut Solution,
    item: ItemIx,
    failures: &IxVec<ItemIx, u64>,
    sizes: &IxVec<ItemIx, i64>,
    rng: &mut fastrand::Rng,
) -> Option<(UnitIx, Vec<ItemIx>)> {
    let mut best: Option<(u64, UnitIx, Vec<ItemIx>)> = None;
    let units: Vec<UnitIx> = some_candidates(solution, item, rng).collect();
    for unit in units {
        let most = best.as_ref().map_or(u64::MAX, |(price, ..)| *price);
        let Some(ejected) = ejected_items(solution, item, unit, most, failures, sizes) else { continue };
        let price = ejected.iter().map(|item| failures[*item]).sum();
        if price < most {
            best = Some((price, unit, ejected));
        }
    }
    best.map(|(_, unit, ejected)| (unit, ejected))
}

/// The items that must leave the unit to admit `item`, at a price below `most`. The solution is unchanged afterwards.
fn ejected_items(
    solution: &mut Solution,
    item: ItemIx,
    unit: UnitIx,
    most: u64,
    failures: &IxVec<ItemIx, u64>,
    sizes: &IxVec<ItemIx, i64>,
) -> Option<Vec<ItemIx>> {
    let model = solution.model;
    let mut occupants = solution.occupants[unit].clone();
    occupants.sort_by_key(|other| (failures[*other], -sizes[*other], *other));
    let admits = |solution: &mut Solution| {
        solution.admits_ignoring_load(item, unit) && solution.adds_no_violation(&[(item, NOWHERE, unit)])
    };
    let (mut out, mut price) = (Vec::new(), 0);
    let mut fits = false;
    for other in occupants.into_iter().filter(|other| model.candidates(*other).len() > 1) {
        price += failures[other];
        if price >= most {
            break;
        }
        solution.remove(other);
        out.push(other);
        fits = admits(solution);
        if fits {
            break;
        }
    }
    // Items that need not leave stay.
    let mut ejected = Vec::new();
    for (position, other) in out.iter().enumerate() {
        solution.put(*other, unit);
        let is_needed = !fits || position + 1 == out.len() || !admits(solution);
        if is_needed && fits {
            solution.remove(*other);
            ejected.push(*other);
        }
    }
    for other in &ejected {
        solution.put(*other, unit);
    }
    fits.then_some(ejected)
}
