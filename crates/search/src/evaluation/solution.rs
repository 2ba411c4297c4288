//! Where every item is, with the sums that make a step cheap to judge and cheap to take.

use placement::ix::{ItemIx, IxVec, NodeIx, UnitIx};

use crate::evaluation::group_costs::GroupTies;
use crate::evaluation::incremental_terms::Figures;
use crate::evaluation::scratch::Notes;
use crate::model::{Change, Model};
use placement::weighted::NOWHERE;

/// Slack where overload is no limit.
pub(crate) const NO_LIMIT: i64 = i64::MAX / 4;

/// Where every item is. Hard limits hold at every moment; the load of a unit is kept to as a limit too.
#[derive(Clone)]
pub(crate) struct Solution<'m> {
    pub model: &'m Model<'m>,
    /// By item.
    pub place: IxVec<ItemIx, UnitIx>,
    /// By unit: the free items there, in no order.
    pub on: IxVec<UnitIx, Vec<ItemIx>>,
    /// By free item: its position in `on`.
    slot: IxVec<ItemIx, u32>,
    /// By unit, `dims` each: what is left. Work is counted up to capacity plus `slack`.
    pub left: Vec<i64>,
    pub node_left: Vec<i64>,
    /// Overload that each unit may have.
    pub slack: i64,
    /// What every item costs where it is: its unary costs and its ties, those of pairs counted at both ends.
    pub here: IxVec<ItemIx, i64>,
    /// By free item and unit: what it would cost there; only in worlds where that is not too much.
    costs: Option<Vec<i64>>,
    /// What is no sum over items and pairs, where the snapshot asks for such.
    pub(super) figures: Option<Box<Figures<'m>>>,
    /// What channels between groups cost, where the snapshot has such.
    groups: Option<Box<GroupTies<'m>>>,
    pub notes: Notes,
    /// Everything that is weighed.
    pub objective: i64,
    /// Free actors without a place.
    pub unplaced: usize,
}

impl<'m> Solution<'m> {
    /// The fixed actors at home, nobody else anywhere.
    pub fn new(model: &'m Model<'m>) -> Self {
        let mut place = IxVec::of(NOWHERE, model.free);
        place.extend(model.fixed_places.iter().copied());
        let figures = Figures::new(model).map(Box::new);
        let start: i64 = model.base.iter().map(|(_, without)| without).sum();
        Self {
            model,
            place,
            on: IxVec::of(Vec::new(), model.units),
            slot: IxVec::of(0, model.free),
            left: model.unit_left.clone(),
            node_left: model.node_left.clone(),
            slack: 0,
            here: model.base.iter().map(|(_, without)| *without).collect(),
            costs: model.has_cost_table().then(|| model.first_costs()),
            objective: start + figures.as_ref().map_or(0, |figures| figures.value()),
            unplaced: model.members.raw()[..model.free].iter().map(Vec::len).sum(),
            figures,
            groups: GroupTies::new(model).map(Box::new),
            notes: Notes::new(model.free, model.units),
        }
    }

    /// Whether anything that is no sum over items and pairs depends on these changes.
    #[inline]
    pub fn has_figures_of(&self, changes: &[Change]) -> bool {
        self.figures.as_ref().is_some_and(|figures| changes.iter().any(|(item, ..)| figures.concerns(*item)))
    }

    /// Whether rules or caps may keep an item out of a unit that has room for it.
    #[inline]
    pub fn has_limits_of(&self, item: ItemIx) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.has_limits() && figures.concerns(item))
    }

    /// By how much caps of places and rules of the policy are broken.
    pub fn broken(&self) -> i64 {
        self.figures.as_ref().map_or(0, |figures| figures.broken())
    }

    /// What figures come to.
    #[inline]
    pub fn value_of_figures(&self) -> i64 {
        self.figures.as_ref().map_or(0, |figures| figures.value())
    }

    /// Has the figures follow changes of place: item, from, to. Says how the objective and what is broken change.
    #[inline]
    pub fn try_figures(&mut self, changes: &[Change]) -> (i64, i64) {
        let model = self.model;
        self.figures.as_mut().map_or((0, 0), |figures| figures.take(model, changes))
    }

    /// Takes that back, before anything else is tried.
    #[inline]
    pub fn undo_figures(&mut self, changes: &[Change]) {
        if let Some(figures) = &mut self.figures {
            figures.take_back(self.model, changes);
        }
    }

    /// How many are in a breach that is excused.
    pub fn excused(&self) -> i64 {
        self.figures.as_ref().map_or(0, |figures| figures.excused())
    }

    /// Whether fewer would be excused without an item.
    pub fn is_excused(&mut self, item: ItemIx) -> bool {
        let (model, before) = (self.model, self.excused());
        let changes = [(item, self.place[item], NOWHERE)];
        self.figures.as_mut().is_some_and(|figures| figures.excused_after(model, &changes) < before)
    }

    /// Whether no more rules and caps would be broken after a change.
    pub fn keeps_rules(&mut self, changes: &[Change]) -> bool {
        let model = self.model;
        self.figures.as_mut().is_none_or(|figures| figures.keeps_rules(model, changes))
    }

    /// Does what has many items go somewhere and reads no objective meanwhile: what figures come to is said once, at the end.
    pub fn in_bulk<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let is_outermost = self.figures.as_mut().is_some_and(|figures| figures.leave_open());
        let done = act(self);
        if is_outermost {
            self.objective += self.figures.as_mut().map_or(0, |figures| figures.settle());
        }
        done
    }

    /// Moves an item whatever that costs.
    pub fn move_to(&mut self, item: ItemIx, unit: UnitIx) {
        let delta = self.delta(item, unit) + self.try_figures(&[(item, self.place[item], unit)]).0;
        self.shift(item, unit, delta);
    }

    /// Has two items change places whatever that costs.
    pub fn swap_regardless(&mut self, a: ItemIx, b: ItemIx) {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let delta = self.delta_of_swap(a, b) + self.try_figures(&[(a, at_a, at_b), (b, at_b, at_a)]).0;
        self.swap(a, b, delta);
    }

    /// Takes over places, one item after the other, as far as hard limits let it; loads may pass capacities.
    pub fn adopt(&mut self, places: &IxVec<ItemIx, UnitIx>) {
        self.take_over(places, false);
    }

    /// The same, leaving out whoever would break a rule or a cap where it is.
    pub fn adopt_with_care(&mut self, places: &IxVec<ItemIx, UnitIx>) {
        self.take_over(places, true);
    }

    fn take_over(&mut self, places: &IxVec<ItemIx, UnitIx>, with_care: bool) {
        self.in_bulk(|solution| {
            for item in ItemIx::first(solution.model.free) {
                let unit = places[item];
                if unit != NOWHERE
                    && solution.admits_overloaded(item, unit)
                    && (!with_care || solution.keeps_rules(&[(item, NOWHERE, unit)]))
                {
                    solution.put(item, unit);
                }
            }
        });
    }

    /// Sets how much overload each unit may have.
    pub fn set_slack(&mut self, slack: i64) {
        let more = slack - self.slack;
        self.left.iter_mut().step_by(self.model.dims).for_each(|left| *left += more);
        self.slack = slack;
    }

    /// Takes away what fixed actors leave of the unit's capacity, or gives it back: what is there then is too much.
    pub fn close(&mut self, unit: UnitIx, is_closed: bool) {
        let first = unit.at() * self.model.dims;
        let capacity = self.most_work(unit);
        self.left[first] += if is_closed { -capacity } else { capacity };
    }

    /// Work that items may bring to the unit: what fixed actors leave of its capacity and slack.
    pub fn most_work(&self, unit: UnitIx) -> i64 {
        (self.model.unit_left[unit.at() * self.model.dims] + self.slack).max(0)
    }

    /// Work on the unit above its capacity plus slack.
    pub fn excess(&self, unit: UnitIx) -> i64 {
        (-self.left[unit.at() * self.model.dims]).max(0)
    }

    /// Σ work above capacity plus slack, units that fixed actors alone fill left out.
    pub fn total_excess(&self) -> i64 {
        UnitIx::first(self.model.units)
            .filter(|unit| !self.on[*unit].is_empty())
            .map(|unit| self.excess(unit))
            .sum()
    }

    /// Largest and smallest overload of any unit.
    pub fn overloads(&self) -> (i64, i64) {
        let overloads = self.left.iter().step_by(self.model.dims).map(|left| (self.slack - left).max(0));
        overloads.fold((0, i64::MAX), |(most, least), o| (most.max(o), least.min(o)))
    }

    /// Whether an item without a place, or one that is elsewhere, may come to the unit.
    #[inline]
    pub fn admits(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.allows(item, unit) && self.has_room(item, unit, 0) && self.relates(item, unit)
    }

    /// Whether the item may be there as far as everything but the unit's load is concerned.
    pub fn admits_overloaded(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.allows(item, unit) && self.has_room(item, unit, 1) && self.relates(item, unit)
    }

    /// Whether slots, resources or relations keep the item, which is elsewhere, out of the unit as things are.
    #[inline]
    pub fn is_refused(&self, item: ItemIx, unit: UnitIx) -> bool {
        !(self.has_room(item, unit, 1) && self.relates(item, unit))
    }

    /// Whether the unit and its node have what the item needs, dimensions from `first` on.
    #[inline]
    fn has_room(&self, item: ItemIx, unit: UnitIx, first: usize) -> bool {
        let model = self.model;
        let left = &self.left[unit.at() * model.dims..][..model.dims];
        let needs = model.needs(item, unit);
        if !(first..model.dims).all(|dim| needs[dim] <= left[dim] || needs[dim] == 0) {
            return false;
        }
        if model.node_dims == 0 {
            return true;
        }
        let node = model.node_of[unit];
        let left = &self.node_left[node.at() * model.node_dims..][..model.node_dims];
        let needs = model.node_needs(item, unit);
        let from = self.place[item];
        if from != NOWHERE && model.node_of[from] == node {
            let freed = model.node_needs(item, from);
            return (0..model.node_dims).all(|dim| needs[dim] <= left[dim] + freed[dim] || needs[dim] == 0);
        }
        (0..model.node_dims).all(|dim| needs[dim] <= left[dim] || needs[dim] == 0)
    }

    /// Whether all relations of the item hold with it on the unit.
    #[inline]
    pub fn relates(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.relations_of(item).is_empty() || self.relates_with(item, unit, ItemIx::NONE, NOWHERE)
    }

    /// The same with another item at another place.
    fn relates_with(&self, item: ItemIx, unit: UnitIx, other: ItemIx, other_at: UnitIx) -> bool {
        let model = self.model;
        model.relations_of(item).iter().all(|relation| {
            let given = &model.relations[*relation];
            let here = model.place(given.scope, unit);
            given.items.iter().all(|peer| {
                let at = if *peer == other { other_at } else { self.place[*peer] };
                *peer == item || at == NOWHERE || (model.place(given.scope, at) == here) != given.apart
            })
        })
    }

    /// Whether two items may change places; either may be nowhere.
    #[inline]
    pub fn admits_swap(&self, a: ItemIx, b: ItemIx) -> bool {
        self.may_swap(a, b, 0)
    }

    /// The same as far as everything but the units' loads is concerned.
    pub fn admits_swap_overloaded(&self, a: ItemIx, b: ItemIx) -> bool {
        self.may_swap(a, b, 1)
    }

    #[inline]
    fn may_swap(&self, a: ItemIx, b: ItemIx, first: usize) -> bool {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let model = self.model;
        (at_b == NOWHERE || model.allows(a, at_b))
            && (at_a == NOWHERE || model.allows(b, at_a))
            && (at_b == NOWHERE || self.has_room_instead(a, at_b, b, first))
            && (at_a == NOWHERE || self.has_room_instead(b, at_a, a, first))
            && self.nodes_have_room(a, at_a, b, at_b)
            && (at_b == NOWHERE || self.relates_with(a, at_b, b, at_a))
            && (at_a == NOWHERE || self.relates_with(b, at_a, a, at_b))
    }

    #[inline]
    fn has_room_instead(&self, item: ItemIx, unit: UnitIx, gone: ItemIx, first: usize) -> bool {
        let model = self.model;
        let left = &self.left[unit.at() * model.dims..][..model.dims];
        let (needs, freed) = (model.needs(item, unit), model.needs(gone, unit));
        (first..model.dims).all(|dim| needs[dim] <= left[dim] + freed[dim] || needs[dim] == 0)
    }

    fn nodes_have_room(&self, a: ItemIx, at_a: UnitIx, b: ItemIx, at_b: UnitIx) -> bool {
        let model = self.model;
        if model.node_dims == 0 {
            return true;
        }
        let need = |item: ItemIx, at: UnitIx, dim: usize| {
            if at == NOWHERE { 0 } else { model.node_needs(item, at)[dim] }
        };
        let node = |at: UnitIx| if at == NOWHERE { NodeIx::NONE } else { model.node_of[at] };
        let same = node(at_a) == node(at_b);
        (0..model.node_dims).all(|dim| {
            // What each node takes in and gives back.
            let (to_b, from_b) = (need(a, at_b, dim), need(b, at_b, dim));
            let (to_a, from_a) = (need(b, at_a, dim), need(a, at_a, dim));
            let fits = |node: NodeIx, comes: i64, goes: i64| {
                node == NodeIx::NONE
                    || comes == 0
                    || comes <= self.node_left[node.at() * model.node_dims + dim] + goes
            };
            if same {
                fits(node(at_a), to_a + to_b, from_a + from_b)
            } else {
                fits(node(at_b), to_b, from_b) && fits(node(at_a), to_a, from_a)
            }
        })
    }

    /// What the item would cost on the unit, the tie to `except` left out, and what that tie costs now.
    #[inline]
    fn cost_at(&self, item: ItemIx, unit: UnitIx, except: ItemIx) -> (i64, i64) {
        let model = self.model;
        if unit == NOWHERE {
            return (model.base[item].1, 0);
        }
        if let Some(costs) = &self.costs {
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

    /// How the objective changes when the item goes to the unit.
    #[inline]
    pub fn delta(&self, item: ItemIx, unit: UnitIx) -> i64 {
        let of_ties = self.cost_at(item, unit, ItemIx::NONE).0 - self.here[item];
        match &self.groups {
            Some(groups) => of_ties + groups.delta(self.model, item, self.place[item], unit),
            None => of_ties,
        }
    }

    /// How the objective changes when two items that are not on one unit change places.
    #[inline]
    pub fn delta_of_swap(&self, a: ItemIx, b: ItemIx) -> i64 {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let (of_a, between) = self.cost_at(a, at_b, b);
        let (of_b, _) = self.cost_at(b, at_a, a);
        // The pair is as far apart after the change as before; both ends count it.
        let of_ties = of_a + of_b + 2 * between - self.here[a] - self.here[b];
        match &self.groups {
            Some(groups) => of_ties + groups.delta_of_swap(self.model, (a, at_a), (b, at_b)),
            None => of_ties,
        }
    }

    /// How what channels between groups cost changes when items with a place go elsewhere all at once.
    pub fn delta_of_groups(&self, changes: &[Change]) -> i64 {
        self.groups.as_ref().map_or(0, |groups| groups.delta_of_all(self.model, changes))
    }

    /// Puts an item without a place on a unit.
    pub fn put(&mut self, item: ItemIx, unit: UnitIx) {
        self.objective += self.delta(item, unit) + self.try_figures(&[(item, NOWHERE, unit)]).0;
        self.unplaced -= self.model.members[item].len();
        self.occupy(item, unit);
        self.follow(item, NOWHERE, unit);
    }

    /// Takes an item from where it is.
    pub fn take_out(&mut self, item: ItemIx) {
        let from = self.place[item];
        self.objective += self.delta(item, NOWHERE) + self.try_figures(&[(item, from, NOWHERE)]).0;
        self.unplaced += self.model.members[item].len();
        self.vacate(item, from);
        self.follow(item, from, NOWHERE);
    }

    /// Moves an item to another unit, at a delta that has been worked out; figures have followed.
    pub fn shift(&mut self, item: ItemIx, unit: UnitIx, delta: i64) {
        let from = self.place[item];
        self.objective += delta;
        self.vacate(item, from);
        self.occupy(item, unit);
        self.follow(item, from, unit);
    }

    /// Has two items change places, at a delta that has been worked out; figures have followed.
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
        self.follow(a, at_a, at_b);
        self.follow(b, at_b, at_a);
    }

    #[inline]
    fn occupy(&mut self, item: ItemIx, unit: UnitIx) {
        self.slot[item] = u32::try_from(self.on[unit].len()).expect("there are fewer items than 2^32");
        self.on[unit].push(item);
        self.change_left(item, unit, -1);
    }

    #[inline]
    fn vacate(&mut self, item: ItemIx, unit: UnitIx) {
        let slot = self.slot[item];
        let on = &mut self.on[unit];
        on.swap_remove(slot as usize);
        if let Some(moved) = on.get(slot as usize) {
            self.slot[*moved] = slot;
        }
        self.change_left(item, unit, 1);
    }

    #[inline]
    pub fn change_left(&mut self, item: ItemIx, unit: UnitIx, sign: i64) {
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

    /// Brings what items cost up to date after one has gone from a place to another.
    #[inline]
    fn follow(&mut self, item: ItemIx, from: UnitIx, to: UnitIx) {
        let model = self.model;
        for tie in model.ties(item) {
            let peer = tie.peer;
            if peer.at() >= model.free {
                continue;
            }
            let at = self.place[peer];
            if let Some(costs) = &mut self.costs {
                let costs = &mut costs[peer.at() * model.units..][..model.units];
                model.follow(tie, from, to, costs);
                if at != NOWHERE {
                    self.here[peer] = costs[at.at()];
                }
            } else if at != NOWHERE {
                self.here[peer] += model.tie_cost(tie, at, to) - model.tie_cost(tie, at, from);
            }
        }
        if let Some(groups) = &mut self.groups {
            groups.follow(model, item, from, to);
        }
        self.place[item] = to;
        self.here[item] = self.cost_at(item, to, ItemIx::NONE).0;
    }
}
