//! Units that nobody could tell apart: which of them hosts whom makes no difference, so only one way is searched.
//!
//! Without this a proof tries every permutation of identical nodes; with it, only as many of them are looked at as
//! there are actors.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::Constraint;
use placement::{Assignment, Snapshot};

use crate::room::{Room, Rooms};

/// Everything that tells one unit from another, as far as an assignment of actors that can move is concerned.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Likeness<'a> {
    kind: &'a str,
    zone: Option<&'a str>,
    /// A unit that shares its node with others is like those on the same node and in the same domain only.
    shared_node: Option<(&'a str, Option<&'a str>)>,
    /// What limits leave, where they bind: work, slots, resources of the unit, of a node of its own.
    left: Vec<Option<i64>>,
    /// Sets of candidates that it is in.
    sets: Vec<usize>,
}

/// Classes of units that are alike.
pub(crate) struct Twins {
    /// Each of two or more units, ascending.
    classes: Vec<Vec<usize>>,
    /// Actors that can move, in the order in which they open units.
    movable: Vec<usize>,
}

impl Twins {
    pub fn new(snapshot: &Snapshot, rooms: &Rooms, movable: &[usize]) -> Self {
        let mut on_node = vec![0; snapshot.nodes().len()];
        (0..snapshot.units()).for_each(|unit| on_node[snapshot.node_of(unit)] += 1);
        let mut sets = vec![BTreeSet::new(); snapshot.units()];
        for &actor in movable {
            for &unit in snapshot.candidates(actor) {
                sets[unit].insert(snapshot.candidate_set(actor));
            }
        }
        let singled_out = singled_out(snapshot);
        let mut classes: BTreeMap<Likeness, Vec<usize>> = BTreeMap::new();
        for (unit, given) in snapshot.file().units.iter().enumerate() {
            if singled_out.contains(&unit) {
                continue;
            }
            let node = snapshot.node_of(unit);
            let shares = on_node[node] > 1;
            let binding = |room: &Room| Some(room.left).filter(|_| room.binds());
            let mut left = vec![binding(&rooms.work[unit]), rooms.slots[unit].as_ref().and_then(binding)];
            left.extend(rooms.units[unit].iter().map(binding));
            if !shares {
                left.extend(rooms.nodes[node].iter().map(binding));
            }
            let likeness = Likeness {
                kind: &given.kind,
                zone: given.zone.as_deref(),
                shared_node: shares.then_some((given.node.as_str(), given.numa.as_deref())),
                left,
                sets: sets[unit].iter().copied().collect(),
            };
            classes.entry(likeness).or_default().push(unit);
        }
        let classes = classes.into_values().filter(|class| class.len() > 1).collect();
        Self { classes, movable: movable.to_vec() }
    }

    /// Units that are never needed: beyond as many of a class as there are actors.
    pub fn spare(&self) -> BTreeSet<usize> {
        self.classes.iter().flat_map(|class| class.iter().skip(self.movable.len())).copied().collect()
    }

    /// Each unit that is needed, with the one of its class that is opened before it.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, usize)> {
        let needed = |class: &'_ Vec<usize>| class.len().min(self.movable.len());
        self.classes
            .iter()
            .flat_map(move |class| class[..needed(class)].windows(2).map(|two| (two[0], two[1])))
    }

    /// An assignment that is as good, with the units of each class opened in order.
    pub fn ordered(&self, assignment: &Assignment) -> Assignment {
        let mut ordered = assignment.clone();
        for class in &self.classes {
            let mut names = BTreeMap::new();
            for &actor in &self.movable {
                if let Some(unit) = assignment[actor].filter(|unit| class.contains(unit)) {
                    let next = names.len();
                    ordered[actor] = Some(class[*names.entry(unit).or_insert(next)]);
                }
            }
        }
        ordered
    }
}

/// Units that something speaks of: where an actor runs or wants to be, links of their own, fixed actors with ties.
fn singled_out(snapshot: &Snapshot) -> BTreeSet<usize> {
    let file = snapshot.file();
    let mut tied: BTreeSet<&str> = BTreeSet::new();
    let mut units: BTreeSet<usize> = BTreeSet::new();
    let mut single_out = |id: &str| units.extend(snapshot.unit(id));
    for constraint in &file.constraints {
        match constraint {
            Constraint::Apart { actors, .. } | Constraint::Together { actors, .. } => {
                tied.extend(actors.iter().map(String::as_str));
            }
            Constraint::Prefer { unit, .. } => single_out(unit),
            // In the candidates, and in what units provide.
            _ => {}
        }
    }
    for pair in &file.exchange_cost.pairs {
        single_out(&pair.a);
        single_out(&pair.b);
    }
    for (position, actor) in file.actors.iter().enumerate() {
        let is_tied = || tied.contains(actor.id.as_str()) || !snapshot.edges(position).is_empty();
        if !actor.fixed || is_tied() {
            actor.current.iter().for_each(|unit| single_out(unit));
        }
    }
    units
}
