//! A first place for everything: the choosy before the easy, then whoever is tied most to what has a place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::model::Model;
use crate::solution::Solution;
use placement::weighted::NOWHERE;

/// Places away from all ties that are looked at for each item.
const LOOKED_AT: usize = 48;

/// Gives a place to every item that has none, as far as hard limits let it. Stays within capacities where it can.
pub(crate) fn place_the_rest(solution: &mut Solution) {
    let mut order = Order::new(solution);
    let mut turn = 0usize;
    while let Some(item) = order.next(solution) {
        if let Some(unit) = place_for(solution, item, &mut turn) {
            solution.put(item, unit);
        }
    }
}

/// The cheapest of the places near the item's ties and some others; if those are full, any that takes it.
fn place_for(solution: &mut Solution, item: ItemIx, turn: &mut usize) -> Option<UnitIx> {
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
    seen.retain(|unit| solution.admits(item, *unit) && solution.keeps_rules(&[(item, NOWHERE, *unit)]));
    let best = seen
        .into_iter()
        .min_by_key(|unit| (solution.delta(item, *unit), -solution.left[unit.at() * model.dims], *unit));
    if best.is_some() {
        return best;
    }
    // Nothing seen has room: anywhere, with as little overload as can be.
    let mut feasible = candidates.to_vec();
    feasible.retain(|unit| {
        solution.admits_overloaded(item, *unit) && solution.keeps_rules(&[(item, NOWHERE, *unit)])
    });
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
