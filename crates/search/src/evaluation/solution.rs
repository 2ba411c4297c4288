//! Where every item is placed, with the sums that make a move cheap to evaluate and to make.

use placement::ix::{ItemIx, IxVec, UnitIx};

use crate::evaluation::group_costs::GroupCostTable;
use crate::evaluation::incremental_terms::IncrementalTerms;
use crate::evaluation::relation_counts::RelationCounts;
use crate::evaluation::scratch::Scratch;
use crate::model::{Change, Model};
use crate::stop_clock::StopClock;
use placement::weighted::NOWHERE;

/// The allowance where overload is not limited.
pub(crate) const NO_LIMIT: i64 = i64::MAX / 4;

/// Where every item is placed. Hard limits hold at every moment; so does the load limit of each unit, within the
/// allowance.
#[derive(Clone)]
pub(crate) struct Solution<'m> {
    pub model: &'m Model<'m>,
    /// Unit by item.
    pub place: IxVec<ItemIx, UnitIx>,
    /// By unit: the free items on it, in no order.
    pub occupants: IxVec<UnitIx, Vec<ItemIx>>,
    /// By free item: its position in `occupants`.
    position_on_unit: IxVec<ItemIx, u32>,
    /// By unit, `dims` each: what is left. Work is counted up to capacity plus `overload_allowance`.
    pub left: Vec<i64>,
    pub node_left: Vec<i64>,
    /// Overload that each unit may have.
    pub overload_allowance: i64,
    /// What every item costs where it is: its unary costs and its ties. Ties count at both ends.
    pub current_cost: IxVec<ItemIx, i64>,
    /// By free item and unit: what it would cost there. Only for small snapshots.
    cost_table: Option<Vec<i64>>,
    /// Criteria and limits that are no sum over items and pairs, where the snapshot has any.
    pub(super) terms: Option<Box<IncrementalTerms<'m>>>,
    /// The cost of channels between groups, where the snapshot has any.
    group_costs: Option<Box<GroupCostTable<'m>>>,
    /// The domains of large relations, where the snapshot has any.
    pub(super) relation_counts: Option<Box<RelationCounts>>,
    pub scratch: Scratch,
    /// The weighted objective.
    pub objective: i64,
    /// Free actors without a place.
    pub unplaced: usize,
}

impl<'m> Solution<'m> {
    /// Fixed actors at home, all others unplaced.
    pub fn new(model: &'m Model<'m>) -> Self {
        let mut place = IxVec::of(NOWHERE, model.free);
        place.extend(model.fixed_places.iter().copied());
        let terms = IncrementalTerms::new(model).map(Box::new);
        let start: i64 = model.base.iter().map(|(_, without)| without).sum();
        Self {
            model,
            place,
            occupants: IxVec::of(Vec::new(), model.units),
            position_on_unit: IxVec::of(0, model.free),
            left: model.unit_left.clone(),
            node_left: model.node_left.clone(),
            overload_allowance: 0,
            current_cost: model.base.iter().map(|(_, without)| *without).collect(),
            cost_table: model.has_cost_table().then(|| model.first_costs()),
            objective: start + terms.as_ref().map_or(0, |terms| terms.value()),
            unplaced: model.members.raw()[..model.free].iter().map(Vec::len).sum(),
            terms,
            group_costs: GroupCostTable::new(model).map(Box::new),
            relation_counts: RelationCounts::new(model).map(Box::new),
            scratch: Scratch::new(model.free, model.units),
        }
    }

    /// Whether a non-additive criterion or limit depends on these changes.
    #[inline]
    pub fn has_terms_on(&self, changes: &[Change]) -> bool {
        self.terms.as_ref().is_some_and(|terms| changes.iter().any(|(item, ..)| terms.concerns(*item)))
    }

    /// Whether rules or caps may keep an item off a unit that has room for it.
    #[inline]
    pub fn has_limits_on(&self, item: ItemIx) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.has_limits() && terms.concerns(item))
    }

    /// By how much caps and policy rules are violated.
    pub fn violation(&self) -> i64 {
        self.terms.as_ref().map_or(0, |terms| terms.violation())
    }

    /// The value of the non-additive criteria.
    #[inline]
    pub fn terms_value(&self) -> i64 {
        self.terms.as_ref().map_or(0, |terms| terms.value())
    }

    /// Applies changes to the non-additive terms. Returns the change of the objective and of the violation.
    #[inline]
    pub fn apply_terms(&mut self, changes: &[Change]) -> (i64, i64) {
        let model = self.model;
        self.terms.as_mut().map_or((0, 0), |terms| terms.apply(model, changes))
    }

    /// Reverts the last changes, before anything else is tried.
    #[inline]
    pub fn revert_terms(&mut self, changes: &[Change]) {
        if let Some(terms) = &mut self.terms {
            terms.revert(self.model, changes);
        }
    }

    /// Number of actors in a grandfathered violation.
    pub fn grandfathered(&self) -> i64 {
        self.terms.as_ref().map_or(0, |terms| terms.grandfathered())
    }

    /// Whether fewer actors would be grandfathered without this item.
    pub fn is_grandfathered(&mut self, item: ItemIx) -> bool {
        let (model, before) = (self.model, self.grandfathered());
        let changes = [(item, self.place[item], NOWHERE)];
        self.terms.as_mut().is_some_and(|terms| terms.grandfathered_after(model, &changes) < before)
    }

    /// Whether the changes add no violation of rules and caps.
    pub fn adds_no_violation(&mut self, changes: &[Change]) -> bool {
        let model = self.model;
        self.terms.as_mut().is_none_or(|terms| terms.adds_no_violation(model, changes))
    }

    /// Runs `act`, which places many items and reads no objective meanwhile. Terms are evaluated once, at the end.
    pub fn in_bulk<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let is_outermost = self.terms.as_mut().is_some_and(|terms| terms.defer_value());
        let done = act(self);
        if is_outermost {
            self.objective += self.terms.as_mut().map_or(0, |terms| terms.evaluate_value());
        }
        done
    }

    /// Moves an item whatever it costs.
    pub fn force_move(&mut self, item: ItemIx, unit: UnitIx) {
        let delta = self.delta(item, unit) + self.apply_terms(&[(item, self.place[item], unit)]).0;
        self.shift(item, unit, delta);
    }

    /// Swaps two items whatever it costs.
    pub fn force_swap(&mut self, a: ItemIx, b: ItemIx) {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let delta = self.swap_delta(a, b) + self.apply_terms(&[(a, at_a, at_b), (b, at_b, at_a)]).0;
        self.swap(a, b, delta);
    }

    /// Adopts places, one item after the other, as far as hard limits allow. Loads may exceed capacities.
    pub fn adopt(&mut self, places: &IxVec<ItemIx, UnitIx>) {
        self.adopt_places(places, false, &|| false);
    }

    /// The same; false where `stop` ended it: then the rest was adopted without prices, as by [`Self::stop_pricing`].
    pub fn adopt_until(&mut self, places: &IxVec<ItemIx, UnitIx>, stop: &dyn Fn() -> bool) -> bool {
        self.adopt_places(places, false, stop)
    }

    /// Like [`Self::adopt_until`], but leaves out items that would violate a rule or a cap.
    pub fn adopt_without_violations(
        &mut self,
        places: &IxVec<ItemIx, UnitIx>,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        self.adopt_places(places, true, stop)
    }

    fn adopt_places(
        &mut self,
        places: &IxVec<ItemIx, UnitIx>,
        without_violations: bool,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        let (mut clock, mut is_whole) = (StopClock::new(stop), true);
        self.in_bulk(|solution| {
            for item in ItemIx::first(solution.model.free) {
                let unit = places[item];
                if unit != NOWHERE
                    && solution.admits_ignoring_load(item, unit)
                    && (!without_violations || solution.adds_no_violation(&[(item, NOWHERE, unit)]))
                {
                    solution.put(item, unit);
                    if is_whole && clock.spend(solution.model.placement_work(item)).is_err() {
                        is_whole = false;
                        solution.stop_pricing();
                    }
                }
            }
        });
        is_whole
    }

    /// Gives up the tables of costs, whose update takes long: from now on only places, limits and violations are exact.
    pub fn stop_pricing(&mut self) {
        (self.group_costs, self.cost_table) = (None, None);
    }

    /// Sets how much overload each unit may have.
    pub fn set_overload_allowance(&mut self, overload_allowance: i64) {
        let more = overload_allowance - self.overload_allowance;
        self.left.iter_mut().step_by(self.model.dims).for_each(|left| *left += more);
        self.overload_allowance = overload_allowance;
    }

    /// Removes the unit's capacity for free items, or restores it. Items on a closed unit count as excess.
    pub fn set_closed(&mut self, unit: UnitIx, is_closed: bool) {
        let first = unit.at() * self.model.dims;
        let capacity = self.work_limit(unit);
        self.left[first] += if is_closed { -capacity } else { capacity };
    }

    /// Work that free items may bring to the unit: capacity plus allowance, less the work of fixed actors.
    pub fn work_limit(&self, unit: UnitIx) -> i64 {
        (self.model.unit_left[unit.at() * self.model.dims] + self.overload_allowance).max(0)
    }

    /// Work on the unit above its capacity plus allowance.
    pub fn excess(&self, unit: UnitIx) -> i64 {
        (-self.left[unit.at() * self.model.dims]).max(0)
    }

    /// Σ excess, without units that fixed actors alone overload.
    pub fn total_excess(&self) -> i64 {
        UnitIx::first(self.model.units)
            .filter(|unit| !self.occupants[*unit].is_empty())
            .map(|unit| self.excess(unit))
            .sum()
    }

    /// Largest and smallest overload of any unit.
    pub fn overload_range(&self) -> (i64, i64) {
        let overload_range =
            self.left.iter().step_by(self.model.dims).map(|left| (self.overload_allowance - left).max(0));
        overload_range.fold((0, i64::MAX), |(most, least), o| (most.max(o), least.min(o)))
    }

    /// What the item would cost on the unit without its tie to `except`, and what that tie costs now.
    #[inline]
    fn cost_at(&self, item: ItemIx, unit: UnitIx, except: ItemIx) -> (i64, i64) {
        let model = self.model;
        if unit == NOWHERE {
            return (model.base[item].1, 0);
        }
        if let Some(costs) = &self.cost_table {
            let cost = costs[item.at() * model.units + unit.at()];
            if except == ItemIx::NONE {
                return (cost, 0);
            }
            let Some(tie) = model.ties(item).iter().find(|tie| tie.peer == except) else { return (cost, 0) };
            let (from, at) = (self.place[item], self.place[except]);
            let there = model.tie_cost(tie, unit, at);
            return (cost - there, if from == NOWHERE { 0 } else { model.tie_cost(tie, from, at) });
        }
        let mut cost = model.cost_alone(item, unit);
        let mut left_out = 0;
        for tie in model.ties(item) {
            let at = self.place[tie.peer];
            if tie.peer == except {
                let from = self.place[item];
                left_out = if from == NOWHERE { 0 } else { model.tie_cost(tie, from, at) };
            } else {
                cost += model.tie_cost(tie, unit, at);
            }
        }
        (cost, left_out)
    }

    /// Change of the objective when the item moves to the unit.
    #[inline]
    pub fn delta(&self, item: ItemIx, unit: UnitIx) -> i64 {
        let of_ties = self.cost_at(item, unit, ItemIx::NONE).0 - self.current_cost[item];
        match &self.group_costs {
            Some(groups) => of_ties + groups.delta(self.model, item, self.place[item], unit),
            None => of_ties,
        }
    }

    /// Change of the objective when two items on different units swap.
    #[inline]
    pub fn swap_delta(&self, a: ItemIx, b: ItemIx) -> i64 {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let (of_a, between) = self.cost_at(a, at_b, b);
        let (of_b, _) = self.cost_at(b, at_a, a);
        // The pair is as far apart after the swap as before; both ends count it.
        let of_ties = of_a + of_b + 2 * between - self.current_cost[a] - self.current_cost[b];
        match &self.group_costs {
            Some(groups) => of_ties + groups.swap_delta(self.model, (a, at_a), (b, at_b)),
            None => of_ties,
        }
    }

    /// Change of the cost of channels between groups when placed items move all at once.
    pub fn group_delta(&self, changes: &[Change]) -> i64 {
        self.group_costs.as_ref().map_or(0, |groups| groups.batch_delta(self.model, changes))
    }

    /// Places an unplaced item.
    pub fn put(&mut self, item: ItemIx, unit: UnitIx) {
        self.objective += self.delta(item, unit) + self.apply_terms(&[(item, NOWHERE, unit)]).0;
        self.unplaced -= self.model.members[item].len();
        self.occupy(item, unit);
        self.update_costs(item, NOWHERE, unit);
    }

    /// Unplaces an item.
    pub fn remove(&mut self, item: ItemIx) {
        let from = self.place[item];
        self.objective += self.delta(item, NOWHERE) + self.apply_terms(&[(item, from, NOWHERE)]).0;
        self.unplaced += self.model.members[item].len();
        self.vacate(item, from);
        self.update_costs(item, from, NOWHERE);
    }

    /// Moves an item at a known delta; terms have been applied.
    pub fn shift(&mut self, item: ItemIx, unit: UnitIx, delta: i64) {
        let from = self.place[item];
        self.objective += delta;
        self.vacate(item, from);
        self.occupy(item, unit);
        self.update_costs(item, from, unit);
    }

    /// Swaps two items at a known delta; terms have been applied.
    pub fn swap(&mut self, a: ItemIx, b: ItemIx, delta: i64) {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        self.objective += delta;
        if at_a != NOWHERE {
            self.vacate(a, at_a);
        }
        if at_b != NOWHERE {
            self.vacate(b, at_b);
            self.occupy(a, at_b);
        }
        if at_a != NOWHERE {
            self.occupy(b, at_a);
        }
        let (of_a, of_b) = (self.model.members[a].len(), self.model.members[b].len());
        if at_a == NOWHERE {
            self.unplaced = self.unplaced + of_b - of_a;
        }
        if at_b == NOWHERE {
            self.unplaced = self.unplaced + of_a - of_b;
        }
        self.update_costs(a, at_a, at_b);
        self.update_costs(b, at_b, at_a);
    }

    #[inline]
    fn occupy(&mut self, item: ItemIx, unit: UnitIx) {
        self.position_on_unit[item] =
            u32::try_from(self.occupants[unit].len()).expect("there are fewer items than 2^32");
        self.occupants[unit].push(item);
        self.adjust_left(item, unit, -1);
    }

    #[inline]
    fn vacate(&mut self, item: ItemIx, unit: UnitIx) {
        let position_on_unit = self.position_on_unit[item];
        let on = &mut self.occupants[unit];
        on.swap_remove(position_on_unit as usize);
        if let Some(moved) = on.get(position_on_unit as usize) {
            self.position_on_unit[*moved] = position_on_unit;
        }
        self.adjust_left(item, unit, 1);
    }

    #[inline]
    pub fn adjust_left(&mut self, item: ItemIx, unit: UnitIx, sign: i64) {
        let model = self.model;
        let left = &mut self.left[unit.at() * model.dims..][..model.dims];
        for (left, need) in left.iter_mut().zip(model.needs(item, unit)) {
            *left += sign * need;
        }
        if model.node_dims > 0 {
            let node = model.node_of[unit].at();
            let left = &mut self.node_left[node * model.node_dims..][..model.node_dims];
            for (left, need) in left.iter_mut().zip(model.node_needs(item, unit)) {
                *left += sign * need;
            }
        }
    }

    /// Sets where an item is, for relations.
    #[inline]
    pub(super) fn set_place(&mut self, item: ItemIx, to: UnitIx) {
        let from = std::mem::replace(&mut self.place[item], to);
        if let Some(counts) = &mut self.relation_counts {
            counts.count(self.model, item, from, to);
        }
    }

    /// Updates item costs after one has moved.
    #[inline]
    fn update_costs(&mut self, item: ItemIx, from: UnitIx, to: UnitIx) {
        let model = self.model;
        for tie in model.ties(item) {
            let peer = tie.peer;
            if peer.at() >= model.free {
                continue;
            }
            let at = self.place[peer];
            if let Some(costs) = &mut self.cost_table {
                let costs = &mut costs[peer.at() * model.units..][..model.units];
                model.update_costs(tie, from, to, costs);
                if at != NOWHERE {
                    self.current_cost[peer] = costs[at.at()];
                }
            } else if at != NOWHERE {
                self.current_cost[peer] += model.tie_cost(tie, at, to) - model.tie_cost(tie, at, from);
            }
        }
        if let Some(groups) = &mut self.group_costs {
            groups.update(model, item, from, to);
        }
        self.set_place(item, to);
        self.current_cost[item] = self.cost_at(item, to, ItemIx::NONE).0;
    }
}
