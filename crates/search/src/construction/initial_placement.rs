//! A first placement: items with the fewest candidates first, then those tied most to placed items.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::evaluation::solution::Solution;
use crate::model::Model;
use placement::weighted::NOWHERE;

/// Candidates away from all ties that are tried for each item.
const SAMPLED_CANDIDATES: usize = 48;

/// Candidates away from ties that are priced between two checks of the clock: some hundredths of a second.
const CHECK_INTERVAL: usize = 1 << 15;

/// Places every unplaced item as far as hard limits allow, within capacities where possible. False where `stop` ended it:
/// the remaining items are then placed wherever there is room.
pub(crate) fn place_remaining(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    solution.in_bulk(|solution| place_each(solution, stop))
}

fn place_each(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    let mut order = Order::new(solution);
    let (mut turn, mut anywhere, mut next_check) = (0usize, 0usize, CHECK_INTERVAL);
    while let Some(item) = order.next(solution) {
        if let Some(unit) = place_for(solution, item, (&mut turn, &mut anywhere)) {
            solution.put(item, unit);
        }
        if turn + anywhere >= next_check {
            next_check = turn + anywhere + CHECK_INTERVAL;
            if stop() {
                place_without_pricing(solution, order, turn);
                return false;
            }
        }
    }
    true
}

/// Places each waiting item on the first unit that admits it, starting at another candidate each turn, above its capacity
/// if need be. Far candidates are limited in number, as the time is over.
fn place_without_pricing(solution: &mut Solution, order: Order, mut turn: usize) {
    let mut far = 0..CHECK_INTERVAL;
    for (.., Reverse(item)) in order.waiting.into_sorted_vec().into_iter().rev() {
        let candidates = solution.model.candidates(item);
        if solution.place[item] != NOWHERE || candidates.is_empty() {
            continue;
        }
        turn += 1;
        let (before, from) = candidates.split_at(turn % candidates.len());
        let mut all = from.iter().chain(before).copied().enumerate();
        let unit =
            all.clone().take(SAMPLED_CANDIDATES).find(|(_, unit)| is_admitted(solution, item, *unit, false));
        let mut may_try = |at: usize| at < SAMPLED_CANDIDATES || far.next().is_some();
        let mut overloaded =
            || all.find(|(at, unit)| may_try(*at) && is_admitted(solution, item, *unit, true));
        if let Some((_, unit)) = unit.or_else(&mut overloaded) {
            solution.put(item, unit);
        }
    }
}

/// Whether an unplaced item may be placed on a unit, with or without exceeding its capacity.
fn is_admitted(solution: &mut Solution, item: ItemIx, unit: UnitIx, may_overload: bool) -> bool {
    let has_room =
        if may_overload { solution.admits_ignoring_load(item, unit) } else { solution.admits(item, unit) };
    has_room && solution.adds_no_violation(&[(item, NOWHERE, unit)])
}

/// The cheapest of the units near the item's ties and some others; if those are full, any unit that admits it.
fn place_for(
    solution: &mut Solution,
    item: ItemIx,
    (turn, anywhere): (&mut usize, &mut usize),
) -> Option<UnitIx> {
    let model = solution.model;
    let candidates = model.candidates(item);
    let mut seen: Vec<UnitIx> = model.unary(item).iter().map(|(unit, _)| *unit).collect();
    for tie in model.ties(item) {
        let at = solution.place[tie.peer];
        if at != NOWHERE {
            seen.extend(&model.units_of_node[model.node_of[at]]);
        }
    }
    // Channels between groups tie it to units everywhere, and each is cheap to price.
    let sampled = if model.has_groups(item) { candidates.len() } else { SAMPLED_CANDIDATES };
    for _ in 0..candidates.len().min(sampled) {
        *turn += 1;
        seen.push(candidates[*turn % candidates.len()]);
    }
    seen.sort_unstable();
    seen.dedup();
    seen.retain(|unit| is_admitted(solution, item, *unit, false));
    let best = seen
        .into_iter()
        .min_by_key(|unit| (solution.delta(item, *unit), -solution.left[unit.at() * model.dims], *unit));
    if best.is_some() {
        return best;
    }
    // None of those has room: take any, with the least overload.
    *anywhere += candidates.len();
    let mut feasible = candidates.to_vec();
    feasible.retain(|unit| is_admitted(solution, item, *unit, true));
    feasible.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - solution.left[unit.at() * model.dims];
        (over.max(0), solution.delta(item, *unit), *unit)
    })
}

/// The order in which items are placed.
struct Order {
    /// Entries that a stronger pull has superseded are skipped.
    waiting: BinaryHeap<(bool, bool, i64, i64, Reverse<ItemIx>)>,
    pull: IxVec<ItemIx, i64>,
}

impl Order {
    fn new(solution: &Solution) -> Self {
        let model = solution.model;
        let pull = |item: ItemIx| {
            let placed = model.ties(item).iter().filter(|tie| solution.place[tie.peer] != NOWHERE);
            placed.map(|tie| tie.rate + tie.apart).sum()
        };
        let mut order =
            Self { waiting: BinaryHeap::new(), pull: ItemIx::first(model.free).map(pull).collect() };
        let without = ItemIx::first(model.free).filter(|item| solution.place[*item] == NOWHERE);
        without.for_each(|item| order.queue(model, item));
        order
    }

    fn queue(&mut self, model: &Model, item: ItemIx) {
        let candidates = model.candidates(item);
        let heaviest = candidates.first().map_or(0, |unit| model.needs(item, *unit)[0]);
        let bound = !model.relations_of(item).is_empty();
        self.waiting.push((candidates.len() <= 1, bound, self.pull[item], heaviest, Reverse(item)));
    }

    fn next(&mut self, solution: &Solution) -> Option<ItemIx> {
        let model = solution.model;
        loop {
            let (_, _, pull, _, Reverse(item)) = self.waiting.pop()?;
            if solution.place[item] != NOWHERE || pull != self.pull[item] {
                continue;
            }
            // The item is not taken again, even where it found no place.
            self.pull[item] = -1;
            for tie in model.ties(item) {
                let peer = tie.peer;
                if peer.at() < model.free && solution.place[peer] == NOWHERE && self.pull[peer] >= 0 {
                    self.pull[peer] += tie.rate + tie.apart;
                    self.queue(model, tie.peer);
                }
            }
            return Some(item);
        }
    }
}
