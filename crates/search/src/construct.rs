//! A first place for everything: the choosy before the easy, then whoever is tied most to what has a place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::layout::Layout;
use crate::model::Model;
use placement::weighted::NOWHERE;

/// Places away from all ties that are looked at for each item.
const LOOKED_AT: usize = 48;

/// Gives a place to every item that has none, as far as hard limits let it. Stays within capacities where it can.
pub(crate) fn place_the_rest(layout: &mut Layout) {
    let mut order = Order::new(layout);
    let mut turn = 0usize;
    while let Some(item) = order.next(layout) {
        if let Some(unit) = place_for(layout, item, &mut turn) {
            layout.put(item, unit);
        }
    }
}

/// The cheapest of the places near the item's ties and some others; if those are full, any that takes it.
fn place_for(layout: &mut Layout, item: ItemIx, turn: &mut usize) -> Option<UnitIx> {
    let model = layout.model;
    let candidates = model.candidates(item);
    let mut seen: Vec<UnitIx> = model.wishes(item).iter().map(|(unit, _)| *unit).collect();
    for tie in model.ties(item) {
        let at = layout.place[tie.peer];
        if at != NOWHERE {
            seen.extend(&model.units_of_node[model.node_of[at]]);
        }
    }
    for _ in 0..candidates.len().min(LOOKED_AT) {
        *turn += 1;
        seen.push(candidates[*turn % candidates.len()]);
    }
    seen.retain(|unit| layout.admits(item, *unit) && layout.keeps_rules(&[(item, NOWHERE, *unit)]));
    let best = seen
        .into_iter()
        .min_by_key(|unit| (layout.gain(item, *unit), -layout.left[unit.at() * model.dims], *unit));
    if best.is_some() {
        return best;
    }
    // Nothing seen has room: anywhere, with as little overload as can be.
    let mut lawful = candidates.to_vec();
    lawful.retain(|unit| {
        layout.admits_overloaded(item, *unit) && layout.keeps_rules(&[(item, NOWHERE, *unit)])
    });
    lawful.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - layout.left[unit.at() * model.dims];
        (over.max(0), layout.gain(item, *unit), *unit)
    })
}

/// Who is placed next.
struct Order {
    /// Entries that were overtaken by a stronger pull are skipped.
    waiting: BinaryHeap<(bool, bool, i64, i64, Reverse<ItemIx>)>,
    pull: IxVec<ItemIx, i64>,
}

impl Order {
    fn new(layout: &Layout) -> Self {
        let model = layout.model;
        let pull = |item: ItemIx| {
            let placed = model.ties(item).iter().filter(|tie| layout.place[tie.peer] != NOWHERE);
            placed.map(|tie| tie.rate + tie.apart).sum()
        };
        let mut order =
            Self { waiting: BinaryHeap::new(), pull: ItemIx::first(model.free).map(pull).collect() };
        let without = ItemIx::first(model.free).filter(|item| layout.place[*item] == NOWHERE);
        without.for_each(|item| order.queue(model, item));
        order
    }

    fn queue(&mut self, model: &Model, item: ItemIx) {
        let candidates = model.candidates(item);
        let heaviest = candidates.first().map_or(0, |unit| model.needs(item, *unit)[0]);
        let bound = !model.relations_of(item).is_empty();
        self.waiting.push((candidates.len() <= 1, bound, self.pull[item], heaviest, Reverse(item)));
    }

    fn next(&mut self, layout: &Layout) -> Option<ItemIx> {
        let model = layout.model;
        loop {
            let (_, _, pull, _, Reverse(item)) = self.waiting.pop()?;
            if layout.place[item] != NOWHERE || pull != self.pull[item] {
                continue;
            }
            // Not to be taken again, also where it found no place.
            self.pull[item] = -1;
            for tie in model.ties(item) {
                let peer = tie.peer;
                if peer.at() < model.free && layout.place[peer] == NOWHERE && self.pull[peer] >= 0 {
                    self.pull[peer] += tie.rate + tie.apart;
                    self.queue(model, tie.peer);
                }
            }
            return Some(item);
        }
    }
}
