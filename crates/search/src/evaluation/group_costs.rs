//! Channels between whole groups: the cost of an item is read from its groups and the unit, not from every peer.

use std::collections::BTreeMap;

use placement::group_costs::GroupCosts;
use placement::ix::{EndIx, ItemIx, UnitIx};
use placement::weighted::{Groups, NOWHERE};

use crate::model::first_group_costs::follow;
use crate::model::{Change, Model};

/// What the channels of each group cost on each unit.
#[derive(Clone)]
pub(crate) struct GroupCostTable<'m> {
    groups: &'m Groups,
    costs: GroupCosts,
}

impl<'m> GroupCostTable<'m> {
    /// With the fixed items at home and all others unplaced; `None` where ties represent all channels.
    pub fn new(model: &'m Model<'m>) -> Option<Self> {
        let costs = model.first_group_costs.clone()?;
        Some(Self { groups: model.groups.as_ref()?, costs })
    }

    /// Updates costs after an item has moved.
    #[inline]
    pub fn update(&mut self, model: &Model, item: ItemIx, from: UnitIx, to: UnitIx) {
        for (end, count) in self.groups.shares(item) {
            follow(&mut self.costs, model, *end, *count, (from, to));
        }
    }

    /// What the channels of one more actor of a group would cost on the unit.
    #[inline]
    fn at(&self, model: &Model, end: EndIx, unit: UnitIx) -> i64 {
        let channels = self.groups.of[end].as_slice();
        self.costs.at((end, channels), unit, |a, b| model.exchange.cost(a, b))
    }

    /// What an item's channels would cost on the unit with the item itself unplaced.
    #[inline]
    fn cost_on(&self, model: &Model, item: ItemIx, from: UnitIx, unit: UnitIx) -> i64 {
        if unit == NOWHERE {
            return 0;
        }
        let shares = self.groups.shares(item).iter();
        let cost: i64 = shares.map(|(end, count)| count * self.at(model, *end, unit)).sum();
        if from == NOWHERE || from == unit {
            return cost;
        }
        let own = self.groups.own(item);
        cost - own.rate * model.exchange.cost(unit, from) - own.apart
    }

    /// Change of the cost of channels when an item moves to the unit.
    #[inline]
    pub fn delta(&self, model: &Model, item: ItemIx, from: UnitIx, unit: UnitIx) -> i64 {
        self.cost_on(model, item, from, unit) - self.cost_on(model, item, from, from)
    }

    /// The same when two items on different units swap.
    #[inline]
    pub fn swap_delta(&self, model: &Model, (a, at_a): (ItemIx, UnitIx), (b, at_b): (ItemIx, UnitIx)) -> i64 {
        let delta = self.delta(model, a, at_a, at_b) + self.delta(model, b, at_b, at_a);
        if at_a == NOWHERE || at_b == NOWHERE {
            // With one of them unplaced, the two pay nothing to each other.
            return delta;
        }
        // The two are as far apart after the swap as before; each delta assumes that they end up together.
        let between = self.groups.between(a, b);
        delta + 2 * (between.rate * model.exchange.cost(at_a, at_b) + between.apart)
    }

    /// The same when placed items move all at once. Items of one group with the same move are aggregated.
    pub fn batch_delta(&self, model: &Model, changes: &[Change]) -> i64 {
        let mut moves: BTreeMap<(EndIx, UnitIx, UnitIx), i64> = BTreeMap::new();
        for (item, from, to) in changes {
            for (end, count) in self.groups.shares(*item) {
                *moves.entry((*end, *from, *to)).or_default() += count;
            }
        }
        let moves: Vec<_> = moves.into_iter().collect();
        let mut delta = 0;
        for (position, ((end, from, to), count)) in moves.iter().enumerate() {
            delta += count * (self.at(model, *end, *to) - self.at(model, *end, *from));
            for ((other, other_from, other_to), other_count) in &moves[..=position] {
                let Some(channel) = self.groups.channel(*end, *other) else { continue };
                let cost = |a: UnitIx, b: UnitIx| {
                    if a == b { 0 } else { channel.rate * model.exchange.cost(a, b) + channel.apart }
                };
                let both = cost(*to, *other_to) - cost(*to, *other_from) - cost(*from, *other_to)
                    + cost(*from, *other_from);
                // Each pair of moves counts once, a move with itself half, which is a whole number.
                let is_itself = (end, from, to) == (other, other_from, other_to);
                delta += count * other_count * if is_itself { both / 2 } else { both };
            }
        }
        delta
    }
}

#[cfg(test)]
mod tests {
    use placement::Snapshot;
    use placement::ix::IxVec;

    use super::*;
    use crate::anneal::annealer::Annealer;
    use crate::construction::initial_placement::place_remaining;
    use crate::evaluation::solution::Solution;

    /// The same snapshot with whole channels, and with every pair listed.
    fn both(seed: u64) -> (Snapshot, Snapshot) {
        let file = testkit::grouped(seed);
        let pairs = Snapshot::new(testkit::written_out(&file)).unwrap();
        (Snapshot::with_most_pairs(file, 0).unwrap(), pairs)
    }

    #[test]
    fn group_channels_cost_as_much_as_their_pairs() {
        let (mut moved, mut swapped, mut at_once) = (0, 0, 0);
        for seed in 0..300 {
            let (whole, pairs) = both(seed);
            let (whole, pairs) = (Model::new(&whole), Model::new(&pairs));
            assert!(pairs.groups.is_none(), "listed pairs need no group costs");
            let (mut one, mut other) = (Solution::new(&whole), Solution::new(&pairs));
            place_remaining(&mut one, &|| false);
            other.adopt(&one.place);
            let mut rng = fastrand::Rng::with_seed(seed);
            for _ in 0..30 {
                assert_eq!((&one.place, one.objective), (&other.place, other.objective), "seed {seed}");
                if whole.free == 0 {
                    break;
                }
                let item = ItemIx::new(rng.usize(..whole.free));
                let (Some(unit), from) = (one_of(&mut rng, whole.candidates(item)), one.place[item]) else {
                    continue;
                };
                let swap = ItemIx::new(rng.usize(..whole.free));
                if from != unit && from != NOWHERE {
                    assert_eq!(one.delta(item, unit), other.delta(item, unit), "seed {seed}");
                    one.force_move(item, unit);
                    other.force_move(item, unit);
                    moved += 1;
                }
                if one.place[swap] != one.place[item] {
                    assert_eq!(one.swap_delta(item, swap), other.swap_delta(item, swap), "seed {seed}");
                    one.force_swap(item, swap);
                    other.force_swap(item, swap);
                    swapped += 1;
                }
                let changes: Vec<Change> = ItemIx::first(whole.free)
                    .filter(|item| one.place[*item] != NOWHERE && !whole.candidates(*item).is_empty())
                    .map(|item| (item, one.place[item], one_of(&mut rng, whole.candidates(item)).unwrap()))
                    .collect();
                assert_eq!(one.batch_delta(&changes), other.batch_delta(&changes), "seed {seed}");
                at_once += 1;
                if one.place[item] != NOWHERE && rng.u8(..4) == 0 {
                    one.remove(item);
                    other.remove(item);
                }
            }
        }
        assert!(moved > 1000 && swapped > 1000 && at_once > 1000, "{moved} {swapped} {at_once}");
    }

    fn one_of(rng: &mut fastrand::Rng, units: &[UnitIx]) -> Option<UnitIx> {
        (!units.is_empty()).then(|| units[rng.usize(..units.len())])
    }

    #[test]
    fn incremental_costs_equal_a_fresh_evaluation() {
        for seed in 0..8 {
            let snapshot = testkit::stages(&[30, 40, 20], 32, seed);
            let model = Model::new(&snapshot);
            assert!(model.groups.is_some() && snapshot.problem().channels.is_written_out);
            let mut solution = Solution::new(&model);
            place_remaining(&mut solution, &|| false);
            let first = solution.objective;
            let mut chain = Annealer::new(solution, seed);
            let (mean, _) = chain.loss_scales();
            for part in 1..10 {
                chain.set_penalties(f64::from(part), f64::from(part));
                chain.run(2000, mean / f64::from(part), mean / f64::from(part + 1));
                let mut same = Solution::new(&model);
                same.set_overload_allowance(chain.solution.overload_allowance);
                same.adopt(&chain.solution.place);
                assert_eq!((&same.place, same.objective), (&chain.solution.place, chain.solution.objective));
            }
            let found: IxVec<ItemIx, UnitIx> = chain.best_places();
            let mut best = Solution::new(&model);
            best.adopt(&found);
            assert!(best.objective <= first, "seed {seed}");
        }
    }
}
