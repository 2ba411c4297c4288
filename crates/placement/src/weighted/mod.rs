//! A problem with a single objective: items instead of actors, rows of requirements, weighted edges and unary costs.

mod exchange;
mod groups;
mod items;
mod weights;

use std::collections::BTreeMap;

use strum::IntoEnumIterator as _;

use crate::criteria::{Measure, PairSums, UnaryPreference};
use crate::file::format::Scope;
use crate::ix::{ActorIx, ItemIx, IxVec, KindIx, NodeIx, PlaceIx, RelationIx, ResourceIx, SetIx, UnitIx};
use crate::problem::channels::Channel;
use crate::{Assignment, Criterion, Snapshot};

pub use exchange::Exchange;
pub use groups::Groups;
use items::Items;
pub use weights::Weights;

/// A sentinel unit of an unplaced item.
pub const NOWHERE: UnitIx = UnitIx::NONE;

/// No implementation for a kind.
const NO_ROW: u32 = u32::MAX;

/// A weighted edge between two items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tie {
    /// The other item.
    pub peer: ItemIx,
    /// Per unit of exchange cost.
    pub rate: i64,
    /// If the two are on different units.
    pub apart: i64,
    /// If they share a unit.
    pub shared: i64,
}

/// A rule about the relative location of items.
#[derive(Clone, Debug)]
pub struct ItemRelation {
    /// All in different domains, otherwise all in one.
    pub apart: bool,
    /// The topology level.
    pub scope: Scope,
    /// Movable items, ascending.
    pub items: Vec<ItemIx>,
}

/// A problem whose levels are weighted into one objective, laid out for a search that evaluates millions of steps a second.
///
/// Movable items come first, then the fixed actors. The objective is Σ unary costs + Σ weighted edges, counted once
/// per pair, plus non-additive terms: overload unless it is a limit, bottleneck, units in use, power, spread, latency,
/// and a policy's rules.
pub struct Weighted<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// By item: its actors, ascending.
    pub members: IxVec<ItemIx, Vec<ActorIx>>,
    /// The number of movable items; those after are fixed.
    pub free: usize,
    /// The number of units.
    pub units: usize,
    kinds: usize,
    kind_of: IxVec<UnitIx, KindIx>,
    /// By unit: its node.
    pub node_of: IxVec<UnitIx, NodeIx>,
    /// By node: its units.
    pub units_of_node: IxVec<NodeIx, Vec<UnitIx>>,
    /// Exchange costs between units.
    pub exchange: Exchange,
    /// By unit, `dims` each: work first, then slots and resources, minus those of fixed actors.
    pub unit_left: Vec<i64>,
    /// The number of limits of each unit.
    pub dims: usize,
    /// By node, `node_dims` each: remaining resources, minus those of fixed actors.
    pub node_left: Vec<i64>,
    /// The number of limits of each node.
    pub node_dims: usize,
    /// By item and kind: row in `needs`.
    rows: Vec<u32>,
    needs: Vec<i64>,
    node_needs: Vec<i64>,
    set_of: IxVec<ItemIx, SetIx>,
    sets: IxVec<SetIx, Vec<UnitIx>>,
    set_bits: IxVec<SetIx, Vec<u64>>,
    tie_start: Vec<u32>,
    ties: Vec<Tie>,
    /// Group channels that edges leave out.
    pub groups: Option<Groups>,
    unary_start: Vec<u32>,
    unary: Vec<(UnitIx, i64)>,
    /// By item: its cost with every preference missed, and its cost if unplaced.
    pub base: IxVec<ItemIx, (i64, i64)>,
    /// Rules about the relative location of items.
    pub relations: IxVec<RelationIx, ItemRelation>,
    relation_start: Vec<u32>,
    relations_of: Vec<RelationIx>,
    /// By scope and unit.
    places: [IxVec<UnitIx, PlaceIx>; 4],
    /// The weight of each criterion.
    pub weights: Weights,
    /// Whether overload is a limit of each unit; otherwise it is part of the objective.
    pub has_limit: bool,
    /// The units of the fixed items, in order.
    pub fixed_places: Vec<UnitIx>,
}

impl<'a> Weighted<'a> {
    /// Lays out a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self::with(snapshot, overload_is_a_limit(snapshot, &[]))
    }

    /// The same with overload as a limit although grandfathered violations precede it, which is valid if both can be 0 at once. `None`
    /// if overload does not follow, or cannot be 0.
    pub fn without_grandfathered(snapshot: &'a Snapshot) -> Option<Self> {
        overload_is_a_limit(snapshot, &[Criterion::Excused]).then(|| Self::with(snapshot, true))
    }

    fn with(snapshot: &'a Snapshot, has_limit: bool) -> Self {
        let Items { mut members, mut set_of, mut sets } = Items::new(snapshot);
        let free = members.len();
        let problem = snapshot.problem();
        let mut fixed_places = Vec::new();
        let no_choice = SetIx::new(sets.len());
        for actor in ActorIx::first(snapshot.actors()).filter(|actor| snapshot.is_fixed(*actor)) {
            let home = problem.current[actor].expect("a fixed actor without a place is refused on input");
            members.push(vec![actor]);
            fixed_places.push(home);
            set_of.push(no_choice);
        }
        sets.push(Vec::new());
        let mut nodes: IxVec<NodeIx, Vec<UnitIx>> = IxVec::of(Vec::new(), problem.nodes.len());
        for (unit, node) in problem.unit_node.enumerate() {
            nodes[*node].push(unit);
        }
        let places = [Scope::Unit, Scope::Numa, Scope::Node, Scope::Zone]
            .map(|scope| problem.capacity.positions().map(|unit| problem.place(scope, unit)).collect());
        let mut model = Self {
            snapshot,
            free,
            units: snapshot.units(),
            kinds: problem.kinds.len(),
            kind_of: problem.unit_kind.clone(),
            node_of: problem.unit_node.clone(),
            units_of_node: nodes,
            exchange: Exchange::new(snapshot),
            unit_left: Vec::new(),
            dims: 0,
            node_left: Vec::new(),
            node_dims: 0,
            rows: Vec::new(),
            needs: Vec::new(),
            node_needs: Vec::new(),
            set_bits: sets.iter().map(|set| bits(set, snapshot.units())).collect(),
            set_of,
            sets,
            tie_start: Vec::new(),
            ties: Vec::new(),
            groups: None,
            unary_start: Vec::new(),
            unary: Vec::new(),
            base: IxVec::new(),
            relations: IxVec::new(),
            relation_start: Vec::new(),
            relations_of: Vec::new(),
            places,
            weights: Weights::new(snapshot, |criterion| has_limit && criterion == Criterion::Overload),
            has_limit,
            fixed_places,
            members,
        };
        model.read_needs();
        model.read_ties();
        model.read_relations();
        model
    }

    fn read_needs(&mut self) {
        let snapshot = self.snapshot;
        let problem = snapshot.problem();
        let free_actors = || self.members.raw()[..self.free].iter().flatten();
        let ways = || free_actors().flat_map(|actor| problem.implementations[*actor].iter().flatten());
        let asked = |resource: &ResourceIx| ways().any(|way| way.requires.iter().any(|(r, _)| r == resource));
        let asked_of_node =
            |resource: &ResourceIx| ways().any(|way| way.node_requires.iter().any(|(r, _)| r == resource));
        let all = || problem.resources.positions();
        let (of_unit, of_node): (Vec<ResourceIx>, Vec<ResourceIx>) =
            (all().filter(asked).collect(), all().filter(asked_of_node).collect());
        let has_slots = problem.slots.iter().any(Option::is_some);
        let counted = usize::from(has_slots);
        (self.dims, self.node_dims) = (1 + counted + of_unit.len(), of_node.len());
        for members in &self.members {
            for kind in problem.kinds.positions() {
                let ways: Option<Vec<_>> =
                    members.iter().map(|a| problem.implementations[*a][kind].as_ref()).collect();
                let Some(ways) = ways else {
                    self.rows.push(NO_ROW);
                    continue;
                };
                self.rows.push(small(self.needs.len() / self.dims));
                self.needs.push(ways.iter().map(|way| way.work).sum());
                if has_slots {
                    self.needs.push(i64::from(small(ways.len())));
                }
                let sum = |of: &[(ResourceIx, i64)], resource: ResourceIx| -> i64 {
                    of.iter().filter(|(r, _)| *r == resource).map(|(_, quantity)| quantity).sum()
                };
                for &resource in &of_unit {
                    self.needs.push(ways.iter().map(|way| sum(&way.requires, resource)).sum());
                }
                for &resource in &of_node {
                    self.node_needs.push(ways.iter().map(|way| sum(&way.node_requires, resource)).sum());
                }
            }
        }
        for unit in problem.capacity.positions() {
            self.unit_left.push(problem.capacity[unit]);
            if has_slots {
                let most = i64::from(small(snapshot.actors()));
                self.unit_left.push(problem.slots[unit].map_or(most, |slots| slots.min(most)));
            }
            self.unit_left.extend(of_unit.iter().map(|resource| problem.unit_provides[unit][*resource]));
        }
        for node in problem.nodes.positions() {
            self.node_left.extend(of_node.iter().map(|resource| problem.node_provides[node][*resource]));
        }
        for (position, &unit) in self.fixed_places.iter().enumerate() {
            let item = ItemIx::new(self.free + position);
            let (dims, node_dims) = (self.dims, self.node_dims);
            let Some(row) = self.row(item, unit) else {
                // It causes no load on a kind that it does not support, but takes a slot.
                if has_slots {
                    self.unit_left[unit.at() * dims + 1] -= 1;
                }
                continue;
            };
            let needs = &self.needs[row * dims..(row + 1) * dims];
            let left = &mut self.unit_left[unit.at() * dims..(unit.at() + 1) * dims];
            left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need);
            let node = self.node_of[unit].at();
            let needs = &self.node_needs[row * node_dims..(row + 1) * node_dims];
            let left = &mut self.node_left[node * node_dims..(node + 1) * node_dims];
            left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need);
        }
        // An overcommitted limit accepts nothing more; items that need nothing of it may still be added.
        for (position, left) in self.unit_left.iter_mut().enumerate() {
            if position % self.dims > 0 {
                *left = (*left).max(0);
            }
        }
        self.node_left.iter_mut().for_each(|left| *left = (*left).max(0));
    }

    fn read_ties(&mut self) {
        let snapshot = self.snapshot;
        let problem = snapshot.problem();
        let mut item_of: IxVec<ActorIx, ItemIx> = IxVec::of(ItemIx::NONE, snapshot.actors());
        for (item, members) in self.members.enumerate() {
            for actor in members {
                item_of[*actor] = item;
            }
        }
        let weighed: Vec<(&dyn Measure, i64)> = Criterion::iter()
            .map(|criterion| (criterion.measure(), self.weights.of(criterion)))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        let of_pairs = |pairs: PairSums| -> i64 {
            weighed.iter().map(|(measure, weight)| weight * measure.of_pairs(&pairs)).sum()
        };
        let rate = of_pairs(PairSums { exchanged: 1, ..PairSums::default() });
        let apart = of_pairs(PairSums { apart: 1, ..PairSums::default() });
        let shared = of_pairs(PairSums { together: 1, ..PairSums::default() });
        let channels = &problem.channels;
        self.groups = Groups::are_worth_while(channels, self.units)
            .then(|| Groups::new(channels, &self.members, (rate, apart)));
        let has_pairs = self.groups.is_some() && channels.is_written_out;
        let leaving = problem.current.enumerate().filter_map(|(actor, unit)| {
            Some(UnaryPreference { actor, unit: (*unit)?, price: self.weights.leaving, without_place: true })
        });
        let mut homes: IxVec<ActorIx, Vec<UnaryPreference>> = IxVec::of(Vec::new(), snapshot.actors());
        leaving.for_each(|home| homes[home.actor].push(home));
        for (measure, weight) in &weighed {
            for home in measure.preferred_units(snapshot) {
                homes[home.actor].push(UnaryPreference { price: weight * home.price, ..home });
            }
        }
        self.tie_start.push(0);
        self.unary_start.push(0);
        for item in ItemIx::first(self.free) {
            let mut ties: BTreeMap<ItemIx, Tie> = BTreeMap::new();
            let (mut placed, mut without) = (0, 0);
            let mut unary: BTreeMap<UnitIx, i64> = BTreeMap::new();
            for &actor in &self.members[item] {
                for edge in &problem.edges[actor] {
                    let peer = item_of[edge.peer];
                    if peer == item {
                        placed += if edge.peer > actor { shared * edge.interference } else { 0 };
                        continue;
                    }
                    let tie = ties.entry(peer).or_insert(Tie { peer, ..Tie::default() });
                    let weighed =
                        if has_pairs { channels.between(actor, edge.peer) } else { Channel::default() };
                    tie.rate += rate * (edge.rate - weighed.rate);
                    tie.apart += apart * (edge.annoyance - weighed.apart);
                    tie.shared += shared * edge.interference;
                }
                for home in &homes[actor] {
                    placed += home.price;
                    without += if home.without_place { home.price } else { 0 };
                    *unary.entry(home.unit).or_default() += home.price;
                }
            }
            self.ties.extend(ties.into_values().filter(|tie| tie.rate + tie.apart + tie.shared > 0));
            self.unary.extend(unary.into_iter().filter(|(_, price)| *price > 0));
            self.base.push((placed, without));
            self.tie_start.push(small(self.ties.len()));
            self.unary_start.push(small(self.unary.len()));
        }
    }

    fn read_relations(&mut self) {
        let problem = self.snapshot.problem();
        let mut item_of: IxVec<ActorIx, ItemIx> = IxVec::of(ItemIx::NONE, self.snapshot.actors());
        for (item, members) in self.members.enumerate().take(self.free) {
            for actor in members {
                item_of[*actor] = item;
            }
        }
        let mut of: IxVec<ItemIx, Vec<RelationIx>> = IxVec::of(Vec::new(), self.free);
        for given in &problem.relations {
            let mut items: Vec<ItemIx> = given
                .actors
                .iter()
                .map(|actor| item_of[*actor])
                .filter(|item| *item != ItemIx::NONE)
                .collect();
            items.sort_unstable();
            items.dedup();
            if items.len() > 1 {
                let relation = RelationIx::new(self.relations.len());
                for item in &items {
                    of[*item].push(relation);
                }
                self.relations.push(ItemRelation { apart: given.apart, scope: given.scope, items });
            }
        }
        self.relation_start.push(0);
        for relations in &of {
            self.relations_of.extend(relations);
            self.relation_start.push(small(self.relations_of.len()));
        }
    }

    /// The row of an item's requirements on a unit.
    #[inline]
    fn row(&self, item: ItemIx, unit: UnitIx) -> Option<usize> {
        let row = self.rows[item.at() * self.kinds + self.kind_of[unit].at()];
        (row != NO_ROW).then_some(row as usize)
    }

    /// The kinds of an item, and its requirements on a unit of each, in the order of [`Weighted::needs`].
    pub fn ways(&self, item: ItemIx) -> impl Iterator<Item = (KindIx, &[i64])> {
        let rows = &self.rows[item.at() * self.kinds..][..self.kinds];
        let known = KindIx::first(self.kinds).zip(rows).filter(|(_, row)| **row != NO_ROW);
        known.map(|(kind, row)| (kind, &self.needs[*row as usize * self.dims..][..self.dims]))
    }

    /// The requirements of an item on a unit of a supported kind: work first, then slots and resources.
    #[inline]
    pub fn needs(&self, item: ItemIx, unit: UnitIx) -> &[i64] {
        let row = self.rows[item.at() * self.kinds + self.kind_of[unit].at()] as usize;
        &self.needs[row * self.dims..(row + 1) * self.dims]
    }

    /// The requirements of an item on a unit's node.
    #[inline]
    pub fn node_needs(&self, item: ItemIx, unit: UnitIx) -> &[i64] {
        let row = self.rows[item.at() * self.kinds + self.kind_of[unit].at()] as usize;
        &self.node_needs[row * self.node_dims..(row + 1) * self.node_dims]
    }

    /// Whether constraints on the item alone permit the unit.
    #[inline]
    pub fn allows(&self, item: ItemIx, unit: UnitIx) -> bool {
        let bits = &self.set_bits[self.set_of[item]];
        bits[unit.at() / 64] >> (unit.at() % 64) & 1 == 1
    }

    /// The candidates of the item.
    #[inline]
    pub fn candidates(&self, item: ItemIx) -> &[UnitIx] {
        &self.sets[self.set_of[item]]
    }

    /// The edges of a movable item.
    #[inline]
    pub fn ties(&self, item: ItemIx) -> &[Tie] {
        &self.ties[self.tie_start[item.at()] as usize..self.tie_start[item.at() + 1] as usize]
    }

    /// The units on which a movable item is cheaper, with the difference.
    #[inline]
    pub fn unary(&self, item: ItemIx) -> &[(UnitIx, i64)] {
        &self.unary[self.unary_start[item.at()] as usize..self.unary_start[item.at() + 1] as usize]
    }

    /// The relations of a movable item.
    #[inline]
    pub fn relations_of(&self, item: ItemIx) -> &[RelationIx] {
        let (from, to) = (self.relation_start[item.at()], self.relation_start[item.at() + 1]);
        &self.relations_of[from as usize..to as usize]
    }

    /// The domain of a unit within a scope.
    #[inline]
    pub fn place(&self, scope: Scope, unit: UnitIx) -> PlaceIx {
        self.places[scope as usize][unit]
    }

    /// The unary cost of a movable item on a unit.
    #[inline]
    pub fn cost_alone(&self, item: ItemIx, unit: UnitIx) -> i64 {
        let mut cost = self.base[item].0;
        for (preferred, saved) in self.unary(item) {
            cost -= if *preferred == unit { *saved } else { 0 };
        }
        cost
    }

    /// The cost of an edge, given both units.
    #[inline]
    pub fn tie_cost(&self, tie: &Tie, at: UnitIx, peer_at: UnitIx) -> i64 {
        if at == peer_at {
            tie.shared
        } else if peer_at == NOWHERE {
            0
        } else {
            tie.rate * self.exchange.cost(at, peer_at) + tie.apart
        }
    }

    /// The assignment of actors, given the units of items.
    pub fn assignment(&self, places: &IxVec<ItemIx, UnitIx>) -> Assignment {
        let mut assignment: Assignment = IxVec::of(None, self.snapshot.actors());
        for (members, place) in self.members.iter().zip(places) {
            for &actor in members {
                assignment[actor] = (*place != NOWHERE).then_some(*place);
            }
        }
        assignment
    }

    /// The units of items in an assignment; an item whose actors are on several units is unplaced.
    pub fn places(&self, assignment: &Assignment) -> IxVec<ItemIx, UnitIx> {
        let mut places = IxVec::new();
        for members in &self.members.raw()[..self.free] {
            let first = assignment[members[0]];
            let one = members.iter().all(|actor| assignment[*actor] == first);
            places.push(first.filter(|_| one).unwrap_or(NOWHERE));
        }
        places.extend(self.fixed_places.iter().copied());
        places
    }
}

/// Whether the first level, except one `above` it, is overload alone, and can be 0 as far as the sum of capacities shows: then the
/// smallest maximum found is a limit of every unit.
fn overload_is_a_limit(snapshot: &Snapshot, above: &[Criterion]) -> bool {
    let levels = snapshot.objectives().levels();
    let (first, is_there) = match above {
        [] => (levels.first(), true),
        above => (levels.get(1), levels.first().is_some_and(|level| *level == above)),
    };
    let is_first = is_there && first.is_some_and(|level| *level == [Criterion::Overload]);
    let capacity: i128 =
        UnitIx::first(snapshot.units()).map(|unit| i128::from(snapshot.capacity(unit))).sum();
    let lightest = |actor: ActorIx| {
        let ways = snapshot.problem().implementations[actor].iter().flatten();
        i128::from(ways.map(|needs| needs.work).min().unwrap_or(0))
    };
    is_first && ActorIx::first(snapshot.actors()).map(lightest).sum::<i128>() <= capacity
}

fn bits(set: &[UnitIx], units: usize) -> Vec<u64> {
    let mut bits = vec![0; units.div_ceil(64)];
    for unit in set {
        bits[unit.at() / 64] |= 1 << (unit.at() % 64);
    }
    bits
}

/// A position in its stored type.
pub(crate) fn small(position: usize) -> u32 {
    u32::try_from(position).expect("positions of units and actors are far below 2^32")
}
