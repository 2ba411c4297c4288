//! A first place for everything: the choosy before the easy, then whoever is tied most to what has a place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::evaluation::solution::Solution;
use crate::model::Model;
use placement::weighted::NOWHERE;

/// Places away from all ties that are looked at for each item.
const LOOKED_AT: usize = 48;

/// Places away from ties that are priced between two looks at the clock: some hundredths of a second.
const PATIENCE: usize = 1 << 15;

/// Gives a place to every item that has none, as far as hard limits let it. Stays within capacities where it can. False where `stop`
/// ended it: whoever was left then has gone wherever there was room.
pub(crate) fn place_the_rest(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    solution.in_bulk(|solution| place_each(solution, stop))
}

fn place_each(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    let mut order = Order::new(solution);
    let (mut turn, mut anywhere, mut next_look) = (0usize, 0usize, PATIENCE);
    while let Some(item) = order.next(solution) {
        if let Some(unit) = place_for(solution, item, (&mut turn, &mut anywhere)) {
            solution.put(item, unit);
        }
        if turn + anywhere >= next_look {
            next_look = turn + anywhere + PATIENCE;
            if stop() {
                place_anywhere(solution, order, turn);
                return false;
            }
        }
    }
    true
}

/// Whoever waits goes to the first unit that takes it, from another one on at each turn, if need be above its capacity. Units far from
/// there are looked at as often as between two looks at the clock, which is over.
fn place_anywhere(solution: &mut Solution, order: Order, mut turn: usize) {
    let mut far = 0..PATIENCE;
    for (.., Reverse(item)) in order.waiting.into_sorted_vec().into_iter().rev() {
        let candidates = solution.model.candidates(item);
        if solution.place[item] != NOWHERE || candidates.is_empty() {
            continue;
        }
        turn += 1;
        let (before, from) = candidates.split_at(turn % candidates.len());
        let mut all = from.iter().chain(before).copied().enumerate();
        let unit = all.clone().take(LOOKED_AT).find(|(_, unit)| takes(solution, item, *unit, false));
        let mut may_look = |at: usize| at < LOOKED_AT || far.next().is_some();
        let mut overloaded = || all.find(|(at, unit)| may_look(*at) && takes(solution, item, *unit, true));
        if let Some((_, unit)) = unit.or_else(&mut overloaded) {
            solution.put(item, unit);
        }
    }
}

/// Whether an item without a place may come to a unit, with a load above its capacity or without.
fn takes(solution: &mut Solution, item: ItemIx, unit: UnitIx, may_overload: bool) -> bool {
    let has_room =
        if may_overload { solution.admits_overloaded(item, unit) } else { solution.admits(item, unit) };
    has_room && solution.keeps_rules(&[(item, NOWHERE, unit)])
}

/// The cheapest of the places near the item's ties and some others; if those are full, any that takes it.
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
    // By channels between groups it is tied to places everywhere, and each is priced at a look.
    let looked_at = if model.has_groups(item) { candidates.len() } else { LOOKED_AT };
    for _ in 0..candidates.len().min(looked_at) {
        *turn += 1;
        seen.push(candidates[*turn % candidates.len()]);
    }
    seen.sort_unstable();
    seen.dedup();
    seen.retain(|unit| takes(solution, item, *unit, false));
    let best = seen
        .into_iter()
        .min_by_key(|unit| (solution.delta(item, *unit), -solution.left[unit.at() * model.dims], *unit));
    if best.is_some() {
        return best;
    }
    // Nothing seen has room: anywhere, with as little overload as can be.
    *anywhere += candidates.len();
    let mut feasible = candidates.to_vec();
    feasible.retain(|unit| takes(solution, item, *unit, true));
    feasible.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - solution.left[unit.at() * model.dims];
        (over.max(0), solution.delta(item, *unit), *unit)
    })
}

/// Who is placed next.
struct Order {
    /// Entries that were overtaken by a stronger pull are skipped.
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
            // Not to be taken again, also where it found no place.
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
