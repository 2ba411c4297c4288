//! The snapshot laid out flat for a search that looks at millions of steps a second.

use std::collections::BTreeMap;

use crate::exchange::{Exchange, small};
use crate::items::Items;
use crate::regions::Regions;
use crate::weights::Weights;
use placement::file::{Constraint, Scope};
use placement::{Assignment, Criterion, Snapshot};

/// What stands in for a unit where an item has no place.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// No implementation for a kind.
const NO_ROW: u32 = u32::MAX;

/// Pairs of an item and a unit up to which what everything would cost everywhere is kept: it is asked far more often
/// than changed only where walks are cold most of the time.
const MOST_IN_COST_TABLE: usize = 1 << 13;

/// What ties an item to another one, in the energy's weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tie {
    /// The other item.
    pub peer: u32,
    /// For each unit of exchange cost.
    pub rate: i64,
    /// When the two are on different units.
    pub apart: i64,
    /// When they share a unit.
    pub shared: i64,
}

/// A rule on where items are relative to each other.
pub(crate) struct Relation {
    pub apart: bool,
    pub scope: Scope,
    /// Free items, ascending.
    pub items: Vec<u32>,
}

/// A world as the search sees it: items are the free ones first, then the fixed actors.
pub(crate) struct Model<'a> {
    pub snapshot: &'a Snapshot,
    pub members: Vec<Vec<usize>>,
    /// How many items can move; those after are fixed.
    pub free: usize,
    pub units: usize,
    pub kinds: usize,
    pub kind_of: Vec<u32>,
    pub node_of: Vec<u32>,
    /// By node: its units.
    pub units_of_node: Vec<Vec<u32>>,
    pub regions: Regions,
    pub exchange: Exchange,
    /// By unit, `dims` each: work first, then slots and resources. What is left beside the fixed actors.
    pub unit_left: Vec<i64>,
    pub dims: usize,
    /// By node, `node_dims` each.
    pub node_left: Vec<i64>,
    pub node_dims: usize,
    /// By item and kind: row in `needs`.
    rows: Vec<u32>,
    needs: Vec<i64>,
    node_needs: Vec<i64>,
    pub set_of: Vec<u32>,
    pub sets: Vec<Vec<u32>>,
    set_bits: Vec<Vec<u64>>,
    tie_start: Vec<u32>,
    ties: Vec<Tie>,
    wish_start: Vec<u32>,
    wishes: Vec<(u32, i64)>,
    /// By item: what it costs with all wishes missed, and what it costs without a place.
    pub base: Vec<(i64, i64)>,
    pub relations: Vec<Relation>,
    relation_start: Vec<u32>,
    relations_of: Vec<u32>,
    /// By scope and unit.
    places: [Vec<u32>; 4],
    pub weights: Weights,
    /// Whether overload is kept to as a limit of each unit; else it is a figure like others.
    pub has_limit: bool,
    /// Where the fixed items are.
    pub fixed_places: Vec<u32>,
}

impl<'a> Model<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let has_limit = overload_is_a_limit(snapshot);
        let Items { mut members, mut set_of, mut sets } = Items::new(snapshot);
        let free = members.len();
        let index = snapshot.problem();
        let mut fixed_places = Vec::new();
        for actor in (0..snapshot.actors()).filter(|&actor| snapshot.is_fixed(actor)) {
            let home = snapshot.current(actor).expect("a fixed actor without a place is refused on input");
            members.push(vec![actor]);
            fixed_places.push(small(home));
            set_of.push(small(sets.len()));
        }
        sets.push(Vec::new());
        let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); index.nodes.len()];
        for (unit, node) in index.unit_node.iter().enumerate() {
            nodes[*node].push(small(unit));
        }
        let places = [Scope::Unit, Scope::Numa, Scope::Node, Scope::Zone]
            .map(|scope| (0..snapshot.units()).map(|unit| small(index.place(scope, unit))).collect());
        let mut model = Self {
            snapshot,
            free,
            units: snapshot.units(),
            kinds: index.kinds.len(),
            kind_of: index.unit_kind.iter().map(|kind| small(*kind)).collect(),
            node_of: index.unit_node.iter().map(|node| small(*node)).collect(),
            regions: Regions::new(snapshot, &nodes),
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
            wish_start: Vec::new(),
            wishes: Vec::new(),
            base: Vec::new(),
            relations: Vec::new(),
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
        let index = snapshot.problem();
        let free_actors = || self.members[..self.free].iter().flatten();
        let ways = || free_actors().flat_map(|actor| index.implementations[*actor].iter().flatten());
        let asked = |resource: &usize| ways().any(|way| way.requires.iter().any(|(r, _)| r == resource));
        let asked_of_node =
            |resource: &usize| ways().any(|way| way.node_requires.iter().any(|(r, _)| r == resource));
        let all = || 0..index.resources.len();
        let (of_unit, of_node): (Vec<usize>, Vec<usize>) =
            (all().filter(asked).collect(), all().filter(asked_of_node).collect());
        let has_slots = snapshot.file().units.iter().any(|unit| unit.slots.is_some());
        let counted = usize::from(has_slots);
        (self.dims, self.node_dims) = (1 + counted + of_unit.len(), of_node.len());
        for item in 0..self.members.len() {
            for kind in 0..self.kinds {
                let ways: Option<Vec<_>> =
                    self.members[item].iter().map(|a| index.implementations[*a][kind].as_ref()).collect();
                let Some(ways) = ways else {
                    self.rows.push(NO_ROW);
                    continue;
                };
                self.rows.push(small(self.needs.len() / self.dims));
                self.needs.push(ways.iter().map(|way| way.work).sum());
                if has_slots {
                    self.needs.push(i64::from(small(ways.len())));
                }
                let sum = |of: &[(usize, i64)], resource: usize| -> i64 {
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
        for (unit, given) in snapshot.file().units.iter().enumerate() {
            self.unit_left.push(snapshot.capacity(unit));
            if has_slots {
                let most = i64::from(small(snapshot.actors()));
                self.unit_left
                    .push(given.slots.map_or(most, |slots| i64::try_from(slots).unwrap_or(most).min(most)));
            }
            self.unit_left.extend(of_unit.iter().map(|resource| snapshot.unit_provides(unit)[*resource]));
        }
        for node in 0..index.nodes.len() {
            self.node_left.extend(of_node.iter().map(|resource| snapshot.node_provides(node)[*resource]));
        }
        for (position, &unit) in self.fixed_places.iter().enumerate() {
            let item = small(self.free + position);
            let (dims, node_dims) = (self.dims, self.node_dims);
            let Some(row) = self.row(item, unit) else {
                // It loads nothing where it cannot run, and takes a slot all the same.
                if has_slots {
                    self.unit_left[unit as usize * dims + 1] -= 1;
                }
                continue;
            };
            let needs = &self.needs[row * dims..(row + 1) * dims];
            let left = &mut self.unit_left[unit as usize * dims..(unit as usize + 1) * dims];
            left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need);
            let node = self.node_of[unit as usize] as usize;
            let needs = &self.node_needs[row * node_dims..(row + 1) * node_dims];
            let left = &mut self.node_left[node * node_dims..(node + 1) * node_dims];
            left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need);
        }
        // What fixed actors overfill takes nothing more; who needs nothing of it may come all the same.
        for (position, left) in self.unit_left.iter_mut().enumerate() {
            if position % self.dims > 0 {
                *left = (*left).max(0);
            }
        }
        self.node_left.iter_mut().for_each(|left| *left = (*left).max(0));
    }

    fn read_ties(&mut self) {
        let snapshot = self.snapshot;
        let mut item_of = vec![0u32; snapshot.actors()];
        for (item, members) in self.members.iter().enumerate() {
            for actor in members {
                item_of[*actor] = small(item);
            }
        }
        let of = |criterion| self.weights.of(criterion);
        let (rate, apart) = (of(Criterion::Communication), of(Criterion::Annoyance));
        let (shared, moving, missing) =
            (of(Criterion::Interference), of(Criterion::Migration), of(Criterion::Policy));
        let mut preferred: BTreeMap<usize, Vec<(u32, i64)>> = BTreeMap::new();
        for (actor, unit, weight) in preferences(snapshot) {
            preferred.entry(actor).or_default().push((small(unit), weight));
        }
        self.tie_start.push(0);
        self.wish_start.push(0);
        for item in 0..self.free {
            let mut ties: BTreeMap<u32, Tie> = BTreeMap::new();
            let (mut placed, mut without) = (0, 0);
            let mut wishes: BTreeMap<u32, i64> = BTreeMap::new();
            for &actor in &self.members[item] {
                for edge in snapshot.edges(actor) {
                    let peer = item_of[edge.peer];
                    if peer as usize == item {
                        placed += if edge.peer > actor { shared * edge.interference } else { 0 };
                        continue;
                    }
                    let tie = ties.entry(peer).or_insert(Tie { peer, ..Tie::default() });
                    tie.rate += rate * edge.rate;
                    tie.apart += apart * edge.annoyance;
                    tie.shared += shared * edge.interference;
                }
                if let Some(home) = snapshot.current(actor) {
                    let price = moving * snapshot.move_cost(actor) + self.weights.leaving;
                    placed += price;
                    without += price;
                    *wishes.entry(small(home)).or_default() += price;
                }
                for (unit, weight) in preferred.get(&actor).into_iter().flatten() {
                    placed += missing * weight;
                    *wishes.entry(*unit).or_default() += missing * weight;
                }
            }
            self.ties.extend(ties.into_values().filter(|tie| tie.rate + tie.apart + tie.shared > 0));
            self.wishes.extend(wishes.into_iter().filter(|(_, price)| *price > 0));
            self.base.push((placed, without));
            self.tie_start.push(small(self.ties.len()));
            self.wish_start.push(small(self.wishes.len()));
        }
    }

    fn read_relations(&mut self) {
        let index = self.snapshot.problem();
        let mut item_of = vec![NOWHERE; self.snapshot.actors()];
        for (item, members) in self.members[..self.free].iter().enumerate() {
            for actor in members {
                item_of[*actor] = small(item);
            }
        }
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); self.free];
        for given in &index.relations {
            let mut items: Vec<u32> =
                given.actors.iter().map(|actor| item_of[*actor]).filter(|item| *item != NOWHERE).collect();
            items.sort_unstable();
            items.dedup();
            if items.len() > 1 {
                for item in &items {
                    of[*item as usize].push(small(self.relations.len()));
                }
                self.relations.push(Relation { apart: given.apart, scope: given.scope, items });
            }
        }
        self.relation_start.push(0);
        for relations in of {
            self.relations_of.extend(relations);
            self.relation_start.push(small(self.relations_of.len()));
        }
    }

    /// The row of what an item needs on a unit.
    #[inline]
    fn row(&self, item: u32, unit: u32) -> Option<usize> {
        let row = self.rows[item as usize * self.kinds + self.kind_of[unit as usize] as usize];
        (row != NO_ROW).then_some(row as usize)
    }

    /// What an item needs of a unit: work first, then slots and resources. The unit is of a kind that it runs on.
    #[inline]
    pub fn needs(&self, item: u32, unit: u32) -> &[i64] {
        let row = self.rows[item as usize * self.kinds + self.kind_of[unit as usize] as usize] as usize;
        &self.needs[row * self.dims..(row + 1) * self.dims]
    }

    /// What an item needs of a unit's node.
    #[inline]
    pub fn node_needs(&self, item: u32, unit: u32) -> &[i64] {
        let row = self.rows[item as usize * self.kinds + self.kind_of[unit as usize] as usize] as usize;
        &self.node_needs[row * self.node_dims..(row + 1) * self.node_dims]
    }

    /// Whether the item alone may be on the unit.
    #[inline]
    pub fn allows(&self, item: u32, unit: u32) -> bool {
        let bits = &self.set_bits[self.set_of[item as usize] as usize];
        bits[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// The units that the item may be on.
    #[inline]
    pub fn candidates(&self, item: u32) -> &[u32] {
        &self.sets[self.set_of[item as usize] as usize]
    }

    /// The ties of a free item.
    #[inline]
    pub fn ties(&self, item: u32) -> &[Tie] {
        &self.ties[self.tie_start[item as usize] as usize..self.tie_start[item as usize + 1] as usize]
    }

    /// Units that a free item is cheaper on, and by how much.
    #[inline]
    pub fn wishes(&self, item: u32) -> &[(u32, i64)] {
        &self.wishes[self.wish_start[item as usize] as usize..self.wish_start[item as usize + 1] as usize]
    }

    /// The relations of a free item.
    #[inline]
    pub fn relations_of(&self, item: u32) -> &[u32] {
        let (from, to) = (self.relation_start[item as usize], self.relation_start[item as usize + 1]);
        &self.relations_of[from as usize..to as usize]
    }

    /// The place of a unit within a scope.
    #[inline]
    pub fn place(&self, scope: Scope, unit: u32) -> u32 {
        self.places[scope as usize][unit as usize]
    }

    /// What a free item costs on a unit, its ties left out.
    #[inline]
    pub fn cost_alone(&self, item: u32, unit: u32) -> i64 {
        let mut cost = self.base[item as usize].0;
        for (wish, saved) in self.wishes(item) {
            cost -= if *wish == unit { *saved } else { 0 };
        }
        cost
    }

    /// What the pair of a tie costs at two places.
    #[inline]
    pub fn tie_cost(&self, tie: &Tie, at: u32, peer_at: u32) -> i64 {
        if at == peer_at {
            tie.shared
        } else if peer_at == NOWHERE {
            0
        } else {
            tie.rate * self.exchange.cost(at, peer_at) + tie.apart
        }
    }

    /// Whether what every item would cost everywhere is kept up to date: quick to ask, slow to change.
    pub fn has_cost_table(&self) -> bool {
        self.free * self.units <= MOST_IN_COST_TABLE
    }

    /// By free item and unit: what it costs there while nobody but the fixed has a place.
    pub fn first_costs(&self) -> Vec<i64> {
        let mut costs = Vec::with_capacity(self.free * self.units);
        for item in 0..small(self.free) {
            for unit in 0..small(self.units) {
                let fixed = self.ties(item).iter().filter(|tie| tie.peer as usize >= self.free);
                let ties = fixed
                    .map(|tie| self.tie_cost(tie, unit, self.fixed_places[tie.peer as usize - self.free]));
                costs.push(self.cost_alone(item, unit) + ties.sum::<i64>());
            }
        }
        costs
    }

    /// Brings what one end of a tie would cost on each unit up to date after the other has gone from a place to another.
    #[inline]
    pub fn follow(&self, tie: &Tie, from: u32, to: u32, costs: &mut [i64]) {
        if from != NOWHERE
            && to != NOWHERE
            && let Exchange::Table { units, costs: table } = &self.exchange
        {
            let row = |at: u32| &table[at as usize * units..][..*units];
            for ((cost, to), from) in costs.iter_mut().zip(row(to)).zip(row(from)) {
                *cost += tie.rate * (i64::from(*to) - i64::from(*from));
            }
            // On one unit they are not apart, and exchange costs nothing.
            costs[from as usize] += tie.apart - tie.shared;
            costs[to as usize] += tie.shared - tie.apart;
            return;
        }
        for (unit, cost) in costs.iter_mut().enumerate() {
            let at = |place: u32| if place == NOWHERE { 0 } else { self.tie_cost(tie, small(unit), place) };
            *cost += at(to) - at(from);
        }
    }

    /// Where the actors are when the items are at these places.
    pub fn assignment(&self, places: &[u32]) -> Assignment {
        let mut assignment = vec![None; self.snapshot.actors()];
        for (members, place) in self.members.iter().zip(places) {
            for actor in members {
                assignment[*actor] = (*place != NOWHERE).then_some(*place as usize);
            }
        }
        assignment
    }

    /// Where the items are in an assignment; an item whose actors are not on one unit is nowhere.
    pub fn places(&self, assignment: &Assignment) -> Vec<u32> {
        let mut places: Vec<u32> = Vec::with_capacity(self.members.len());
        for members in &self.members[..self.free] {
            let first = assignment[members[0]];
            let one = members.iter().all(|actor| assignment[*actor] == first);
            places.push(first.filter(|_| one).map_or(NOWHERE, small));
        }
        places.extend(&self.fixed_places);
        places
    }
}

/// Whether the most important level is overload alone, and can be 0 for all that the sum of capacities says: then the
/// least that is found for the largest is a limit that every unit keeps to.
fn overload_is_a_limit(snapshot: &Snapshot) -> bool {
    let is_first =
        snapshot.objectives().levels().first().is_some_and(|level| *level == [Criterion::Overload]);
    let capacity: i64 = (0..snapshot.units()).map(|unit| snapshot.capacity(unit)).sum();
    let lightest = |actor: usize| {
        let ways = snapshot.problem().implementations[actor].iter().flatten();
        ways.map(|needs| needs.work).min().unwrap_or(0)
    };
    is_first && (0..snapshot.actors()).map(lightest).sum::<i64>() <= capacity
}

/// Every `prefer`: its actor, its unit, its weight.
pub(crate) fn preferences(snapshot: &Snapshot) -> impl Iterator<Item = (usize, usize, i64)> {
    snapshot.file().constraints.iter().filter_map(|constraint| match constraint {
        Constraint::Prefer { actor, unit, weight } => Some((
            snapshot.actor(actor)?,
            snapshot.unit(unit)?,
            i64::try_from(*weight).expect("numbers above 2^53 are refused on input"),
        )),
        _ => None,
    })
}

fn bits(set: &[u32], units: usize) -> Vec<u64> {
    let mut bits = vec![0; units.div_ceil(64)];
    for unit in set {
        bits[*unit as usize / 64] |= 1 << (unit % 64);
    }
    bits
}
