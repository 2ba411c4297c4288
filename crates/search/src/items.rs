//! What a search moves: an actor, or actors that must share a unit, looked at as one.

use std::collections::{BTreeMap, BTreeSet};

use crate::exchange::small;
use placement::Snapshot;
use placement::file::Scope;

/// The free actors by item, and where each item may be.
pub(crate) struct Items {
    /// By item: its actors, ascending.
    pub members: Vec<Vec<usize>>,
    /// By item: position in `sets`.
    pub set_of: Vec<u32>,
    /// Units that items may be on as far as they alone and the fixed actors decide, ascending.
    pub sets: Vec<Vec<u32>>,
}

impl Items {
    /// Joins what must share a unit, where there is a unit that could take it all.
    pub fn new(snapshot: &Snapshot) -> Self {
        let free: Vec<usize> = (0..snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
        let mut sets = Sets::new(snapshot);
        let mut items = Self { members: Vec::new(), set_of: Vec::new(), sets: Vec::new() };
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

/// The free actors that `together` ties to one unit, directly or through others; the others alone.
fn bundles(snapshot: &Snapshot, free: &[usize]) -> Vec<Vec<usize>> {
    let mut head: Vec<usize> = (0..snapshot.actors()).collect();
    let tied = snapshot.problem().relations.iter().filter(|given| !given.apart && given.scope == Scope::Unit);
    for relation in tied {
        let mut members = relation.actors.iter().copied().filter(|&actor| !snapshot.is_fixed(actor));
        let Some(first) = members.next() else { continue };
        for other in members {
            let (a, b) = (find(&mut head, first), find(&mut head, other));
            head[a.max(b)] = a.min(b);
        }
    }
    let mut bundles: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &actor in free {
        let first = find(&mut head, actor);
        bundles.entry(first).or_default().push(actor);
    }
    bundles.into_values().collect()
}

/// The actor that stands for all that are joined with this one.
fn find(head: &mut [usize], mut actor: usize) -> usize {
    while head[actor] != actor {
        head[actor] = head[head[actor]];
        actor = head[actor];
    }
    actor
}

/// Sets of units, each kept once.
struct Sets<'a> {
    snapshot: &'a Snapshot,
    list: Vec<Vec<u32>>,
    /// Those that are not an actor's plain candidates.
    known: BTreeMap<Vec<u32>, u32>,
    /// By candidate set of the snapshot.
    plain: BTreeMap<usize, u32>,
}

impl<'a> Sets<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, list: Vec::new(), known: BTreeMap::new(), plain: BTreeMap::new() }
    }

    /// The units that an actor may be on beside the fixed actors.
    fn of(&mut self, actor: usize) -> u32 {
        let snapshot = self.snapshot;
        if self.beside_fixed(actor).next().is_some() {
            let units = self.units(actor);
            return self.numbered(units);
        }
        let next = small(self.list.len());
        let set = *self.plain.entry(snapshot.candidate_set(actor)).or_insert(next);
        if set == next {
            self.list.push(snapshot.candidates(actor).iter().map(|unit| small(*unit)).collect());
        }
        set
    }

    /// The units that could take all of these at once; `None` where there is none.
    fn shared(&mut self, bundle: &[usize]) -> Option<u32> {
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
            let of_actor: BTreeSet<u32> = self.units(*actor).into_iter().collect();
            units.retain(|unit| of_actor.contains(unit));
        }
        units.retain(|unit| self.has_room(bundle, *unit as usize));
        if units.is_empty() { None } else { Some(self.numbered(units)) }
    }

    fn numbered(&mut self, units: Vec<u32>) -> u32 {
        let next = small(self.list.len());
        if let Some(set) = self.known.get(&units) {
            return *set;
        }
        self.known.insert(units.clone(), next);
        self.list.push(units);
        next
    }

    fn units(&self, actor: usize) -> Vec<u32> {
        let index = self.snapshot.problem();
        let allowed = |unit: &usize| {
            self.beside_fixed(actor).all(|(relation, home)| {
                let given = &index.relations[relation];
                (index.place(given.scope, *unit) == index.place(given.scope, home)) != given.apart
            })
        };
        let candidates = self.snapshot.candidates(actor).iter().copied();
        candidates.filter(allowed).map(small).collect()
    }

    /// The relations that the actor has to fixed actors, and where those are.
    fn beside_fixed(&self, actor: usize) -> impl Iterator<Item = (usize, usize)> {
        let snapshot = self.snapshot;
        snapshot.problem().relations_of[actor].iter().flat_map(move |&relation| {
            let others = snapshot.problem().relations[relation].actors.iter();
            others
                .filter(|other| snapshot.is_fixed(**other))
                .filter_map(move |other| Some((relation, snapshot.current(*other)?)))
        })
    }

    /// Whether the empty unit would take all of these.
    fn has_room(&self, bundle: &[usize], unit: usize) -> bool {
        let snapshot = self.snapshot;
        let slots = snapshot.file().units[unit].slots.unwrap_or(u64::MAX);
        let mut of_unit: BTreeMap<usize, i64> = BTreeMap::new();
        let mut of_node: BTreeMap<usize, i64> = BTreeMap::new();
        for &actor in bundle {
            let Some(needs) = snapshot.implementation(actor, unit) else { return false };
            needs.requires.iter().for_each(|(r, quantity)| *of_unit.entry(*r).or_default() += quantity);
            needs.node_requires.iter().for_each(|(r, quantity)| *of_node.entry(*r).or_default() += quantity);
        }
        let node = snapshot.node_provides(snapshot.node_of(unit));
        bundle.len() as u64 <= slots
            && of_unit.iter().all(|(r, needed)| *needed <= snapshot.unit_provides(unit)[*r])
            && of_node.iter().all(|(r, needed)| *needed <= node[*r])
    }
}
