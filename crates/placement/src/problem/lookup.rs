//! Look-ups in a problem.

use crate::file::format::Scope;
use crate::ix::{ActorIx, KindIx, PlaceIx, UnitIx};
use crate::problem::dense::{AddedCosts, Edge, Implementation, Problem, UnitRule};

impl Problem {
    /// Units permitted by constraints on the actor alone, ascending.
    #[inline]
    pub fn candidates(&self, actor: ActorIx) -> &[UnitIx] {
        &self.candidate_sets[self.candidate_set[actor]]
    }

    /// The actor's requirements on the unit's kind; `None` if it cannot run there.
    #[inline]
    pub fn implementation(&self, actor: ActorIx, unit: UnitIx) -> Option<&Implementation> {
        self.implementations[actor][self.unit_kind[unit]].as_ref()
    }

    /// The unit of a fixed actor; `None` for a movable one.
    pub fn fixed_at(&self, actor: ActorIx) -> Option<UnitIx> {
        self.current[actor].filter(|_| self.fixed[actor])
    }

    /// Every fixed actor with its unit.
    pub fn residents(&self) -> impl Iterator<Item = (ActorIx, UnitIx)> {
        let all = self.current.positions();
        all.filter_map(|actor| Some((actor, self.fixed_at(actor)?)))
    }

    /// The work of the actor on the unit; 0 if it cannot run there.
    #[inline]
    pub fn work(&self, actor: ActorIx, unit: UnitIx) -> i64 {
        self.implementation(actor, unit).map_or(0, |needs| needs.work)
    }

    /// The edge between two actors; zero if there is none.
    pub fn edge(&self, a: ActorIx, b: ActorIx) -> Edge {
        let edges = &self.edges[a];
        let found = edges.binary_search_by_key(&b, |edge| edge.peer);
        found.map_or(Edge { peer: b, ..Edge::default() }, |at| edges[at])
    }

    /// Whether a rule permits the actor on the unit.
    pub fn obeys(&self, actor: ActorIx, unit: UnitIx, rule: &UnitRule) -> bool {
        rule.allows[unit] || (rule.except_current && self.running[actor] == Some(unit))
    }

    /// The domain of a unit within a scope.
    #[inline]
    pub fn place(&self, scope: Scope, unit: UnitIx) -> PlaceIx {
        match scope {
            Scope::Unit => PlaceIx::new(unit.at()),
            Scope::Numa => self.unit_numa[unit],
            Scope::Node => PlaceIx::new(self.unit_node[unit].at()),
            Scope::Zone => self.unit_zone[unit],
        }
    }

    /// The cost of a message between two kinds, without surcharges.
    pub fn kind_cost(&self, a: KindIx, b: KindIx) -> i64 {
        self.kind_cost[a][b]
    }

    /// The surcharges of a message: NUMA domains of one node, nodes, and zones in addition to nodes.
    pub fn added_costs(&self) -> AddedCosts {
        AddedCosts { numa: self.other_numa, node: self.other_node, zone: self.other_zone }
    }

    /// Pairs of units with a cost of their own, the smaller first, ascending.
    pub fn pair_costs(&self) -> impl Iterator<Item = (UnitIx, UnitIx, i64)> {
        let all = self.pair_cost.enumerate();
        all.flat_map(|(a, costs)| {
            costs.iter().filter(move |(b, _)| a < *b).map(move |&(b, cost)| (a, b, cost))
        })
    }

    /// Cost of one message between two units.
    #[inline]
    pub fn exchange_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        if a == b {
            return 0;
        }
        let Some(own) = self.pair_cost.get(a) else { return self.class_cost(a, b) };
        match own.binary_search_by_key(&b, |(other, _)| *other) {
            Ok(at) => own[at].1,
            Err(_) => self.class_cost(a, b),
        }
    }

    /// Cost of one message between two different units by kinds and domains alone.
    #[inline]
    pub fn class_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        let mut cost = self.kind_cost[self.unit_kind[a]][self.unit_kind[b]];
        if self.unit_node[a] == self.unit_node[b] {
            if self.unit_numa[a] != self.unit_numa[b] {
                cost += self.other_numa;
            }
        } else {
            cost += self.other_node;
            if self.unit_zone[a] != self.unit_zone[b] {
                cost += self.other_zone;
            }
        }
        cost
    }
}
