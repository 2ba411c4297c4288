//! Items, the objects that a search moves: an actor, or actors that must share a unit.

use std::collections::{BTreeMap, BTreeSet};

use crate::Snapshot;
use crate::file::format::Scope;
use crate::ix::{ActorIx, ItemIx, IxVec, RelationIx, ResourceIx, SetIx, UnitIx};
use crate::problem::room::Rooms;

/// The movable actors by item, and the candidates of each item.
pub(super) struct Items {
    /// By item: its actors, ascending.
    pub members: IxVec<ItemIx, Vec<ActorIx>>,
    /// By item: position in `sets`.
    pub set_of: IxVec<ItemIx, SetIx>,
    /// Candidates with regard to fixed actors, ascending.
    pub sets: IxVec<SetIx, Vec<UnitIx>>,
}

impl Items {
    /// Joins actors that must share a unit, if some unit could host them all beside the fixed actors.
    pub fn new(snapshot: &Snapshot) -> Self {
        let free: Vec<ActorIx> =
            ActorIx::first(snapshot.actors()).filter(|actor| !snapshot.is_fixed(*actor)).collect();
        let mut sets = Sets::new(snapshot);
        let mut items = Self { members: IxVec::new(), set_of: IxVec::new(), sets: IxVec::new() };
        for bundle in bundles(snapshot, &free) {
            let shared = if bundle.len() > 1 { sets.shared(&bundle) } else { None };
            if let Some(set) = shared {
                items.members.push(bundle);
                items.set_of.push(set);
                continue;
            }
            for actor in bundle {
                items.set_of.push(sets.of(actor));
                items.members.push(vec![actor]);
            }
        }
        items.sets = sets.list;
        items
    }
}

/// The movable actors that `together` joins on one unit, transitively; the others alone.
fn bundles(snapshot: &Snapshot, free: &[ActorIx]) -> Vec<Vec<ActorIx>> {
    let mut head: IxVec<ActorIx, ActorIx> = ActorIx::first(snapshot.actors()).collect();
    let tied = snapshot.problem().relations.iter().filter(|given| !given.apart && given.scope == Scope::Unit);
    for relation in tied {
        let mut members = relation.actors.iter().copied().filter(|actor| !snapshot.is_fixed(*actor));
        let Some(first) = members.next() else { continue };
        for other in members {
            let (a, b) = (find(&mut head, first), find(&mut head, other));
            head[a.max(b)] = a.min(b);
        }
    }
    let mut bundles: BTreeMap<ActorIx, Vec<ActorIx>> = BTreeMap::new();
    for &actor in free {
        let first = find(&mut head, actor);
        bundles.entry(first).or_default().push(actor);
    }
    bundles.into_values().collect()
}

/// The representative of an actor's item.
fn find(head: &mut IxVec<ActorIx, ActorIx>, mut actor: ActorIx) -> ActorIx {
    while head[actor] != actor {
        head[actor] = head[head[actor]];
        actor = head[actor];
    }
    actor
}

/// Deduplicated sets of units.
struct Sets<'a> {
    snapshot: &'a Snapshot,
    /// What fixed actors leave of units and nodes.
    rooms: Rooms,
    list: IxVec<SetIx, Vec<UnitIx>>,
    /// Those that are not an actor's plain candidates.
    known: BTreeMap<Vec<UnitIx>, SetIx>,
    /// By candidate set of the snapshot.
    plain: BTreeMap<SetIx, SetIx>,
    /// By relation: the units of its fixed actors.
    homes: IxVec<RelationIx, Vec<UnitIx>>,
}

impl<'a> Sets<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let problem = snapshot.problem();
        let fixed_at = |actor: &ActorIx| problem.fixed_at(*actor);
        Self {
            homes: problem
                .relations
                .iter()
                .map(|given| given.actors.iter().filter_map(fixed_at).collect())
                .collect(),
            snapshot,
            rooms: Rooms::beside_fixed(snapshot.problem()),
            list: IxVec::new(),
            known: BTreeMap::new(),
            plain: BTreeMap::new(),
        }
    }

    /// The candidates of an actor beside the fixed actors.
    fn of(&mut self, actor: ActorIx) -> SetIx {
        let problem = self.snapshot.problem();
        if self.beside_fixed(actor).next().is_some() {
            let units = self.units(actor);
            return self.numbered(units);
        }
        let next = SetIx::new(self.list.len());
        let set = *self.plain.entry(problem.candidate_set[actor]).or_insert(next);
        if set == next {
            self.list.push(problem.candidates(actor).to_vec());
        }
        set
    }

    /// The units that could host all of these at once; `None` if there is none.
    fn shared(&mut self, bundle: &[ActorIx]) -> Option<SetIx> {
        let relations = &self.snapshot.problem().relations;
        let clash = bundle
            .iter()
            .flat_map(|actor| &self.snapshot.problem().relations_of[*actor])
            .filter(|relation| relations[**relation].apart)
            .any(|relation| {
                bundle.iter().filter(|actor| relations[*relation].actors.contains(actor)).count() > 1
            });
        if clash {
            return None;
        }
        let mut units = self.units(bundle[0]);
        for actor in &bundle[1..] {
            let of_actor: BTreeSet<UnitIx> = self.units(*actor).into_iter().collect();
            units.retain(|unit| of_actor.contains(unit));
        }
        units.retain(|unit| self.has_room(bundle, *unit));
        if units.is_empty() { None } else { Some(self.numbered(units)) }
    }

    fn numbered(&mut self, units: Vec<UnitIx>) -> SetIx {
        let next = SetIx::new(self.list.len());
        if let Some(set) = self.known.get(&units) {
            return *set;
        }
        self.known.insert(units.clone(), next);
        self.list.push(units);
        next
    }

    fn units(&self, actor: ActorIx) -> Vec<UnitIx> {
        let problem = self.snapshot.problem();
        let allowed = |unit: &UnitIx| {
            self.beside_fixed(actor).all(|(relation, home)| {
                let given = &problem.relations[relation];
                (problem.place(given.scope, *unit) == problem.place(given.scope, home)) != given.apart
            })
        };
        problem.candidates(actor).iter().copied().filter(allowed).collect()
    }

    /// The actor's relations with fixed actors, and the domains of those.
    fn beside_fixed(&self, actor: ActorIx) -> impl Iterator<Item = (RelationIx, UnitIx)> {
        let relations = self.snapshot.problem().relations_of[actor].iter();
        relations.flat_map(|&relation| self.homes[relation].iter().map(move |home| (relation, *home)))
    }

    /// Whether the unit could host all of these beside the fixed actors.
    fn has_room(&self, bundle: &[ActorIx], unit: UnitIx) -> bool {
        let problem = self.snapshot.problem();
        let slots = self.rooms.slots[unit].map_or(i64::MAX, |slots| slots.left);
        let mut of_unit: BTreeMap<ResourceIx, i64> = BTreeMap::new();
        let mut of_node: BTreeMap<ResourceIx, i64> = BTreeMap::new();
        for &actor in bundle {
            let Some(needs) = problem.implementation(actor, unit) else { return false };
            needs.requires.iter().for_each(|(r, quantity)| *of_unit.entry(*r).or_default() += quantity);
            needs.node_requires.iter().for_each(|(r, quantity)| *of_node.entry(*r).or_default() += quantity);
        }
        let node = &self.rooms.nodes[problem.unit_node[unit]];
        i64::try_from(bundle.len()).is_ok_and(|many| many <= slots)
            && of_unit.iter().all(|(r, needed)| *needed <= self.rooms.units[unit][*r].left)
            && of_node.iter().all(|(r, needed)| *needed <= node[*r].left)
    }
}
