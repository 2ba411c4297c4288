//! Whether limits and relations admit an item to a unit, or a swap.

use placement::ix::{ItemIx, NodeIx, UnitIx};
use placement::weighted::NOWHERE;

use crate::evaluation::solution::Solution;

impl Solution<'_> {
    /// Whether an item that is not on the unit may be placed there.
    #[inline]
    pub fn admits(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.allows(item, unit) && self.has_room(item, unit, 0) && self.keeps_relations(item, unit)
    }

    /// Whether the item may be placed there if the unit's load is ignored.
    pub fn admits_ignoring_load(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.allows(item, unit) && self.has_room(item, unit, 1) && self.keeps_relations(item, unit)
    }

    /// Whether slots, resources or relations currently keep the item off the unit.
    #[inline]
    pub fn is_rejected(&self, item: ItemIx, unit: UnitIx) -> bool {
        !(self.has_room(item, unit, 1) && self.keeps_relations(item, unit))
    }

    /// Whether the unit and its node have room for the item, in dimensions from `first` on.
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
    pub fn keeps_relations(&self, item: ItemIx, unit: UnitIx) -> bool {
        self.model.relations_of(item).is_empty() || self.keeps_relations_if(item, unit, ItemIx::NONE, NOWHERE)
    }

    /// The same with another item at another place.
    pub(super) fn keeps_relations_if(
        &self,
        item: ItemIx,
        unit: UnitIx,
        other: ItemIx,
        other_at: UnitIx,
    ) -> bool {
        let model = self.model;
        model.relations_of(item).iter().all(|relation| {
            let of_counts = self.relation_counts.as_ref().and_then(|counts| {
                counts.holds(model, *relation, &self.place, (item, unit), (other, other_at))
            });
            if let Some(holds) = of_counts {
                return holds;
            }
            let given = &model.relations[*relation];
            let here = model.place(given.scope, unit);
            given.items.iter().all(|peer| {
                let at = if *peer == other { other_at } else { self.place[*peer] };
                *peer == item || at == NOWHERE || (model.place(given.scope, at) == here) != given.apart
            })
        })
    }

    /// Whether two items may swap; either may be unplaced.
    #[inline]
    pub fn admits_swap(&self, a: ItemIx, b: ItemIx) -> bool {
        self.swap_is_feasible(a, b, 0)
    }

    /// The same if the units' loads are ignored.
    pub fn admits_swap_ignoring_load(&self, a: ItemIx, b: ItemIx) -> bool {
        self.swap_is_feasible(a, b, 1)
    }

    #[inline]
    fn swap_is_feasible(&self, a: ItemIx, b: ItemIx, first: usize) -> bool {
        let (at_a, at_b) = (self.place[a], self.place[b]);
        let model = self.model;
        (at_b == NOWHERE || model.allows(a, at_b))
            && (at_a == NOWHERE || model.allows(b, at_a))
            && (at_b == NOWHERE || self.has_room_without(a, at_b, b, first))
            && (at_a == NOWHERE || self.has_room_without(b, at_a, a, first))
            && self.nodes_admit_swap(a, at_a, b, at_b)
            && (at_b == NOWHERE || self.keeps_relations_if(a, at_b, b, at_a))
            && (at_a == NOWHERE || self.keeps_relations_if(b, at_a, a, at_b))
    }

    #[inline]
    fn has_room_without(&self, item: ItemIx, unit: UnitIx, gone: ItemIx, first: usize) -> bool {
        let model = self.model;
        let left = &self.left[unit.at() * model.dims..][..model.dims];
        let (needs, freed) = (model.needs(item, unit), model.needs(gone, unit));
        (first..model.dims).all(|dim| needs[dim] <= left[dim] + freed[dim] || needs[dim] == 0)
    }

    fn nodes_admit_swap(&self, a: ItemIx, at_a: UnitIx, b: ItemIx, at_b: UnitIx) -> bool {
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
            let fits = |node: NodeIx, added: i64, freed: i64| {
                node == NodeIx::NONE
                    || added == 0
                    || added <= self.node_left[node.at() * model.node_dims + dim] + freed
            };
            if same {
                fits(node(at_a), to_a + to_b, from_a + from_b)
            } else {
                fits(node(at_b), to_b, from_b) && fits(node(at_a), to_a, from_a)
            }
        })
    }
}
