//! A first placement: items with the fewest candidates first, then those tied most to placed items.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::construction::emptiest::ProbeBudget;
use crate::evaluation::solution::Solution;
use crate::model::Model;
use crate::stop_clock::TIES_PER_PRICE;
use placement::weighted::NOWHERE;

/// Candidates away from all ties that are tried for each item.
const SAMPLED_CANDIDATES: usize = 48;

/// Candidates that are priced between two checks of the clock: some hundredths of a second.
const CHECK_INTERVAL: usize = 1 << 15;

/// Probes in the time of one where rules or caps are evaluated.
const PROBES_WITH_LIMITS: usize = 16;

/// Places every unplaced item as far as hard limits allow, within capacities where possible. False where `stop` ended it:
/// the remaining items are then placed wherever there is room.
pub(crate) fn place_remaining(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    solution.in_bulk(|solution| place_each(solution, stop))
}

fn place_each(solution: &mut Solution, stop: &dyn Fn() -> bool) -> bool {
    let mut order = ItemOrder::new(solution);
    let (mut turn, mut other_work, mut next_check) = (0usize, 0usize, CHECK_INTERVAL);
    while let Some(item) = order.next(solution) {
        if let Some(unit) = place_for(solution, item, (&mut turn, &mut other_work)) {
            solution.put(item, unit);
            other_work += solution.model.placement_work(item);
        }
        if turn + other_work >= next_check {
            next_check = turn + other_work + CHECK_INTERVAL;
            if stop() {
                _ = place_without_pricing(solution, order, turn);
                return false;
            }
        }
    }
    true
}

/// Places each waiting item on the first unit that admits it, starting at another candidate each turn, above its capacity
/// if need be. Probes are limited in number, as the time is over; returns those that are left.
fn place_without_pricing(solution: &mut Solution, order: ItemOrder, mut turn: usize) -> ProbeBudget {
    solution.stop_pricing();
    let mut probes = ProbeBudget::new();
    for (.., Reverse(item)) in order.waiting.into_sorted_vec().into_iter().rev() {
        let candidates = solution.model.candidates(item);
        if solution.place[item] != NOWHERE || candidates.is_empty() {
            continue;
        }
        turn += 1;
        probes.start_actors(1);
        let each = if solution.has_limits_on(item) { PROBES_WITH_LIMITS } else { 1 };
        let (before, from) = candidates.split_at(turn % candidates.len());
        let mut all = from.iter().chain(before).copied();
        let mut near = all.clone().take(SAMPLED_CANDIDATES);
        let unit = near.find(|unit| probes.take(each) && is_admitted(solution, item, *unit, false));
        // Of the last probes some are for units above their capacity.
        probes.start_actors(usize::from(unit.is_none()));
        let unit = unit.or_else(|| {
            all.find_map(|unit| {
                if !probes.take(each) {
                    return Some(None);
                }
                is_admitted(solution, item, unit, true).then_some(Some(unit))
            })?
        });
        if let Some(unit) = unit {
            solution.put(item, unit);
        }
    }
    probes
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
    (turn, other_work): (&mut usize, &mut usize),
) -> Option<UnitIx> {
    let model = solution.model;
    let candidates = model.candidates(item);
    let mut seen: Vec<UnitIx> = model.unary(item).iter().map(|(unit, _)| *unit).collect();
    let places = model.ties(item).iter().map(|tie| solution.place[tie.peer]).filter(|at| *at != NOWHERE);
    // Many ties may lead to one large node.
    let mut nodes: Vec<NodeIx> = places.map(|at| model.node_of[at]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    seen.extend(nodes.iter().flat_map(|node| &model.units_of_node[*node]));
    // Channels between groups tie it to units everywhere, and each is cheap to price.
    let sampled = if model.has_groups(item) { candidates.len() } else { SAMPLED_CANDIDATES };
    for _ in 0..candidates.len().min(sampled) {
        *turn += 1;
        seen.push(candidates[*turn % candidates.len()]);
    }
    seen.sort_unstable();
    seen.dedup();
    *other_work += seen.len() * (1 + model.ties(item).len() / TIES_PER_PRICE);
    seen.retain(|unit| is_admitted(solution, item, *unit, false));
    let best = seen
        .into_iter()
        .min_by_key(|unit| (solution.delta(item, *unit), -solution.left[unit.at() * model.dims], *unit));
    if best.is_some() {
        return best;
    }
    // None of those has room: take any, with the least overload.
    *other_work += candidates.len();
    let mut feasible = candidates.to_vec();
    feasible.retain(|unit| is_admitted(solution, item, *unit, true));
    feasible.into_iter().min_by_key(|unit| {
        let over = model.needs(item, *unit)[0] - solution.left[unit.at() * model.dims];
        (over.max(0), solution.delta(item, *unit), *unit)
    })
}

/// The order in which items are placed.
struct ItemOrder {
    /// Entries that a stronger pull has superseded are skipped.
    waiting: BinaryHeap<(bool, bool, i64, i64, Reverse<ItemIx>)>,
    pull: IxVec<ItemIx, i64>,
}

impl ItemOrder {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Under a cap that admits no actor each probe is slow. The first items have spent the probes of all.
    #[test]
    fn without_time_probes_under_caps_are_limited() {
        let units: Vec<String> =
            (0..150).map(|at| format!("u{at}:cpu:99:node=n{at},idle=50,power=200")).collect();
        let actors: Vec<String> = (0..200).map(|at| format!("a{at}:cpu=1")).collect();
        for (cap, spent) in [("powerCap all 100", true), ("powerCap all 99999", false)] {
            let snapshot = testkit::line::world(&units.join(" "), &actors.join(" "), cap);
            let model = Model::new(&snapshot);
            let mut solution = Solution::new(&model);
            let order = ItemOrder::new(&solution);
            let left = place_without_pricing(&mut solution, order, 0);
            assert_eq!(left.is_spent(), spent, "{cap}");
            assert_eq!(solution.unplaced > 0, spent, "{cap}");
        }
    }
}
