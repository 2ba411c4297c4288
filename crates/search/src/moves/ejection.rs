//! Ejection: who finds no place takes that of others, who look for one in turn (Nagata and Bräysy 2009).

use placement::ix::{ItemIx, IxVec, UnitIx};
use placement::weighted::NOWHERE;

use crate::evaluation::solution::Solution;

/// Units that are looked at for one item.
const LOOKED_AT: usize = 48;

/// Items that are put somewhere before it is given up, for each item there is: at least and at most.
const PUTS_PER_ITEM: usize = 20;
const PUTS: (usize, usize) = (400, 8_000);

/// Puts between two looks at the clock.
const PATIENCE: usize = 8;

/// Gives a place to items that have none, where others have to go elsewhere for it. What comes of it has fewer without a place, or
/// nothing has changed. `None` where `stop` ended it.
///
/// Who has often found no place is seldom ejected: so the choosy come to rest, and the easy ones fill the gaps.
pub(crate) fn eject(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    solution.in_bulk(|solution| eject_some(solution, rng, stop))
}

fn eject_some(solution: &mut Solution, rng: &mut fastrand::Rng, stop: &dyn Fn() -> bool) -> Option<()> {
    let model = solution.model;
    let mut pool: Vec<ItemIx> = ItemIx::first(model.free)
        .filter(|item| solution.place[*item] == NOWHERE && !model.candidates(*item).is_empty())
        .collect();
    if pool.is_empty() {
        return Some(());
    }
    let sizes = sizes(solution);
    let mut refused: IxVec<ItemIx, u64> = IxVec::of(1, model.free);
    let (least, most) = PUTS;
    let before = (solution.unplaced, solution.place.clone());
    let mut best = before.clone();
    for puts in 0..(PUTS_PER_ITEM * model.free).clamp(least, most) {
        let Some(item) = pool.pop() else { break };
        if puts.is_multiple_of(PATIENCE) && stop() {
            return None;
        }
        if let Some(unit) = room_for(solution, item, rng) {
            solution.put(item, unit);
            if solution.unplaced < best.0 {
                best = (solution.unplaced, solution.place.clone());
            }
            continue;
        }
        refused[item] += 1;
        // Nobody can make room for it: it is without a place whatever others do.
        let Some((unit, mut leaving)) = cheapest(solution, item, &refused, &sizes, rng) else { continue };
        for item in &leaving {
            solution.take_out(*item);
        }
        solution.put(item, unit);
        leaving.sort_by_key(|item| sizes[*item]);
        pool.extend(leaving);
    }
    if solution.unplaced > best.0 || best.0 == before.0 {
        let slack = solution.slack;
        *solution = Solution::new(model);
        solution.set_slack(slack);
        solution.adopt(&best.1);
    }
    Some(())
}

/// By item: the largest part that it needs of anything that is needed, in millionths; a place among slots is one, too.
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
    candidates[first..].iter().chain(&candidates[..first]).copied().take(LOOKED_AT)
}

/// The place with the least overload, then the cheapest, among some that take the item as things are.
fn room_for(solution: &mut Solution, item: ItemIx, rng: &mut fastrand::Rng) -> Option<UnitIx> {
    let model = solution.model;
    let mut free: Vec<UnitIx> = some_candidates(solution, item, rng).collect();
    free.retain(|unit| {
        solution.admits_overloaded(item, *unit) && solution.keeps_rules(&[(item, NOWHERE, *unit)])
    });
    free.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - solution.left[unit.at() * model.dims];
        (over.max(0), solution.delta(item, *unit), *unit)
    })
}

/// The unit, among some, whose occupants that would have to go have found no place most seldom; and who they are.
fn cheapest(
    solution: &mut Solution,
    item: ItemIx,
    refused: &IxVec<ItemIx, u64>,
    sizes: &IxVec<ItemIx, i64>,
    rng: &mut fastrand::Rng,
) -> Option<(UnitIx, Vec<ItemIx>)> {
    let mut best: Option<(u64, UnitIx, Vec<ItemIx>)> = None;
    let units: Vec<UnitIx> = some_candidates(solution, item, rng).collect();
    for unit in units {
        let most = best.as_ref().map_or(u64::MAX, |(price, ..)| *price);
        let Some(leaving) = who_leaves(solution, item, unit, most, refused, sizes) else { continue };
        let price = leaving.iter().map(|item| refused[*item]).sum();
        if price < most {
            best = Some((price, unit, leaving));
        }
    }
    best.map(|(_, unit, leaving)| (unit, leaving))
}

/// Who has to leave the unit so that it takes the item, at a price below `most`; everything stands as before.
fn who_leaves(
    solution: &mut Solution,
    item: ItemIx,
    unit: UnitIx,
    most: u64,
    refused: &IxVec<ItemIx, u64>,
    sizes: &IxVec<ItemIx, i64>,
) -> Option<Vec<ItemIx>> {
    let model = solution.model;
    let mut there = solution.on[unit].clone();
    there.sort_by_key(|other| (refused[*other], -sizes[*other], *other));
    let admits = |solution: &mut Solution| {
        solution.admits_overloaded(item, unit) && solution.keeps_rules(&[(item, NOWHERE, unit)])
    };
    let (mut out, mut price) = (Vec::new(), 0);
    let mut fits = false;
    for other in there.into_iter().filter(|other| model.candidates(*other).len() > 1) {
        price += refused[other];
        if price >= most {
            break;
        }
        solution.take_out(other);
        out.push(other);
        fits = admits(solution);
        if fits {
            break;
        }
    }
    // Who went for nothing stays.
    let mut leaving = Vec::new();
    for (position, other) in out.iter().enumerate() {
        solution.put(*other, unit);
        let is_needed = !fits || position + 1 == out.len() || !admits(solution);
        if is_needed && fits {
            solution.take_out(*other);
            leaving.push(*other);
        }
    }
    for other in &leaving {
        solution.put(*other, unit);
    }
    fits.then_some(leaving)
}
