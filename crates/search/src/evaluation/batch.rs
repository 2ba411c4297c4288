//! Moves of many items at once: their evaluation, and making them.

use crate::evaluation::solution::Solution;
use crate::model::Change;
use placement::ix::UnitIx;
use placement::weighted::NOWHERE;

impl Solution<'_> {
    /// Change of the objective and of excess if placed items move all at once, without the terms; `None` where a limit or a
    /// relation forbids it. Each item must be allowed on its target.
    pub fn batch_delta(&mut self, changes: &[Change]) -> Option<(i64, i64)> {
        let more = self.excess_delta(changes)?;
        for (item, from, to) in changes {
            self.scratch.was[*item] = *from;
            self.set_place(*item, *to);
        }
        let delta = changes.iter().try_fold(0, |sum, change| Some(sum + self.delta_share(change)?));
        for (item, from, _) in changes {
            self.scratch.was[*item] = NOWHERE;
            self.set_place(*item, *from);
        }
        Some((delta? + self.group_delta(changes), more))
    }

    /// Whether less than a tenth of some unit resource, or of slots, is left.
    pub fn is_resource_tight(&self) -> bool {
        const USED_PER_LEFT: i128 = 9;
        let model = self.model;
        (1..model.dims).any(|dim| {
            let (mut taken, mut left) = (0, 0);
            for unit in UnitIx::first(model.units) {
                let there = self.occupants[unit].iter().map(|item| i128::from(model.needs(*item, unit)[dim]));
                taken += there.sum::<i128>();
                left += i128::from(self.left[unit.at() * model.dims + dim].max(0));
            }
            left * USED_PER_LEFT < taken
        })
    }

    /// The first resource that the unit would be short of after changes, and by how much. Slots count as a resource.
    pub fn shortage(&self, changes: &[Change], unit: UnitIx) -> Option<(usize, i64)> {
        let model = self.model;
        (1..model.dims).find_map(|dim| {
            let change = |(item, from, to): &Change| {
                let added = if *to == unit { model.needs(*item, unit)[dim] } else { 0 };
                let freed = if *from == unit { model.needs(*item, unit)[dim] } else { 0 };
                added - freed
            };
            let lacking = changes.iter().map(change).sum::<i64>() - self.left[unit.at() * model.dims + dim];
            (lacking > 0).then_some((dim, lacking))
        })
    }

    /// Makes changes that have been evaluated; terms have been applied.
    pub fn apply_batch(&mut self, changes: &[Change]) {
        for (item, _, to) in changes {
            let delta = self.delta(*item, *to);
            self.shift(*item, *to, delta);
        }
    }

    /// Change of the excess; `None` where anything but work would be short.
    fn excess_delta(&mut self, changes: &[Change]) -> Option<i64> {
        let model = self.model;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut before = 0;
        for unit in changes.iter().flat_map(|(_, from, to)| [*from, *to]) {
            if !std::mem::replace(&mut scratch.is_touched[unit], true) {
                scratch.touched.push(unit);
                before += self.excess(unit);
            }
        }
        for (item, from, to) in changes {
            self.adjust_left(*item, *from, 1);
            self.adjust_left(*item, *to, -1);
        }
        let (mut after, mut suffices) = (0, true);
        for unit in scratch.touched.drain(..) {
            scratch.is_touched[unit] = false;
            after += self.excess(unit);
            let node = model.node_of[unit].at();
            let left = &self.left[unit.at() * model.dims..][1..model.dims];
            let on_node = &self.node_left[node * model.node_dims..][..model.node_dims];
            suffices &= left.iter().chain(on_node).all(|left| *left >= 0);
        }
        for (item, from, to) in changes {
            self.adjust_left(*item, *from, -1);
            self.adjust_left(*item, *to, 1);
        }
        self.scratch = scratch;
        suffices.then_some(after - before)
    }

    /// The share of one change in the delta, with all changes made. Pairs that change at both ends count at the first.
    /// `None` where a relation forbids it.
    #[inline]
    fn delta_share(&self, (item, from, to): &Change) -> Option<i64> {
        let model = self.model;
        if !self.keeps_relations(*item, *to) {
            return None;
        }
        let mut delta = model.cost_alone(*item, *to) - self.current_cost[*item];
        for tie in model.ties(*item) {
            let cost = model.tie_cost(tie, *to, self.place[tie.peer]);
            delta += cost;
            let was = self.scratch.was.get(tie.peer).copied().unwrap_or(NOWHERE);
            if was != NOWHERE && *item < tie.peer {
                delta -= cost - model.tie_cost(tie, *from, was);
            }
        }
        Some(delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construction::initial_placement::place_remaining;
    use crate::model::Model;
    use crate::tests::world;
    use placement::ix::ItemIx;

    #[test]
    fn batch_delta_equals_the_cost_difference() {
        let (mut feasible, mut infeasible) = (0, 0);
        for seed in 0..400 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let snapshot = world(&mut rng, r#""overload","communication","annoyance","policy""#);
            let model = Model::new(&snapshot);
            let mut solution = Solution::new(&model);
            place_remaining(&mut solution, &|| false);
            for _ in 0..20 {
                let mut changes: Vec<Change> = Vec::new();
                for item in ItemIx::first(model.free) {
                    let candidates = model.candidates(item);
                    let to = candidates[rng.usize(..candidates.len())];
                    if solution.place[item] != NOWHERE && rng.u32(..4) == 0 {
                        changes.push((item, solution.place[item], to));
                    }
                }
                let mut places = solution.place.clone();
                for (item, _, to) in &changes {
                    places[*item] = *to;
                }
                let mut after = Solution::new(&model);
                after.adopt(&places);
                let expected = (after.place == places).then(|| {
                    (after.objective - solution.objective, after.total_excess() - solution.total_excess())
                });
                assert_eq!(solution.batch_delta(&changes), expected, "seed {seed}");
                if let Some((delta, _)) = expected {
                    let objective = solution.objective;
                    solution.apply_batch(&changes);
                    assert_eq!(
                        (&solution.place, solution.objective),
                        (&places, objective + delta),
                        "seed {seed}"
                    );
                    feasible += 1;
                } else {
                    infeasible += 1;
                }
            }
        }
        assert!(feasible > 500 && infeasible > 500, "{feasible} feasible, {infeasible} not");
    }
}
