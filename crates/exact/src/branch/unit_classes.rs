//! Symmetry classes of the units that somebody can be on, and what their places hold.

use std::collections::BTreeSet;

use placement::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};
use placement::room::{Room, Rooms};
use placement::{Implementation, Problem, Snapshot, symmetry_classes};

/// Classes are bits of a word, and so are the items of a class.
pub(crate) const MOST: usize = 64;

/// Symmetric units: any two of them can be swapped without anybody noticing.
pub(crate) struct Class {
    /// Ascending, never empty.
    pub units: Vec<UnitIx>,
    /// By dimension: what one unit has room for.
    pub room: Vec<i64>,
}

impl Class {
    /// The one that speaks for all.
    pub fn first(&self) -> UnitIx {
        self.units[0]
    }
}

/// A quantity that a node of several classes has a limit of.
pub(crate) struct Pool {
    /// How much there is.
    pub room: i64,
    /// By item and class: what it takes.
    pub needs: Vec<Vec<i64>>,
}

/// Classes, and what items need in them.
pub(crate) struct Places {
    pub classes: Vec<Class>,
    pub pools: Vec<Pool>,
    /// By item, class and dimension.
    pub needs: Vec<Vec<Vec<i64>>>,
}

/// Something that units have a limit of.
#[derive(Clone, Copy)]
enum Dimension {
    Work,
    Slots,
    /// Of the unit.
    Resource(ResourceIx),
    /// Of a node on which there is one target only.
    NodeResource(ResourceIx),
}

fn quantity(of: &[(ResourceIx, i64)], resource: ResourceIx) -> i64 {
    of.iter().find(|(of, _)| *of == resource).map_or(0, |(_, quantity)| *quantity)
}

impl Dimension {
    fn need(self, needs: &Implementation) -> i64 {
        match self {
            Dimension::Work => needs.work,
            Dimension::Slots => 1,
            Dimension::Resource(resource) => quantity(&needs.requires, resource),
            Dimension::NodeResource(resource) => quantity(&needs.node_requires, resource),
        }
    }

    fn need_of(self, problem: &Problem, actor: ActorIx, unit: UnitIx) -> i64 {
        problem.implementation(actor, unit).map_or(0, |needs| self.need(needs))
    }

    /// What fixed actors leave of it on a unit; without end where there is no limit.
    fn left(self, problem: &Problem, rooms: &Rooms, unit: UnitIx) -> i64 {
        let left = |room: &Room| room.left.max(0);
        match self {
            Dimension::Work => left(&rooms.work[unit]),
            Dimension::Slots => rooms.slots[unit].as_ref().map_or(i64::MAX, left),
            Dimension::Resource(resource) => left(&rooms.units[unit][resource]),
            Dimension::NodeResource(resource) => left(&rooms.nodes[problem.unit_node[unit]][resource]),
        }
    }
}

/// Sorts `targets`, on which somebody can be, into classes; `None` where there are too many. Load is limited by capacity
/// where `is_full`.
pub(crate) fn classes(
    snapshot: &Snapshot,
    rooms: &Rooms,
    targets: &BTreeSet<UnitIx>,
    is_full: bool,
) -> Option<Places> {
    let problem = snapshot.problem();
    let shared = shared_nodes(problem, targets);
    let mut dimensions: Vec<Dimension> = is_full.then_some(Dimension::Work).into_iter().collect();
    dimensions.push(Dimension::Slots);
    dimensions.extend(problem.resources.positions().map(Dimension::Resource));
    dimensions.extend(problem.resources.positions().map(Dimension::NodeResource));
    let is_asked_for = |dimension: &Dimension| {
        problem.movable.iter().any(|&actor| {
            let units = problem.candidates(actor).iter();
            units.into_iter().any(|&unit| dimension.need_of(problem, actor, unit) > 0)
        })
    };
    dimensions.retain(is_asked_for);
    let room = |units: &[UnitIx], dimension: Dimension| {
        let node = problem.unit_node[units[0]];
        if matches!(dimension, Dimension::NodeResource(_)) && shared.contains(&node) {
            return i64::MAX;
        }
        // Of what cannot bind, symmetric units may have different amounts.
        units.iter().map(|&unit| dimension.left(problem, rooms, unit)).min().unwrap_or(i64::MAX)
    };
    // Whoever can be on a unit can be on every other one of its class.
    let found = symmetry_classes(snapshot, rooms).into_iter().filter(|class| targets.contains(&class[0]));
    let classes: Vec<Class> = found
        .map(|units| Class { room: dimensions.iter().map(|&of| room(&units, of)).collect(), units })
        .collect();
    if classes.len() > MOST {
        return None;
    }
    let needs = problem.movable.iter().map(|&actor| {
        let of = |class: &Class| {
            dimensions.iter().map(|of| of.need_of(problem, actor, class.first())).collect::<Vec<i64>>()
        };
        classes.iter().map(of).collect()
    });
    Some(Places { needs: needs.collect(), pools: pools(problem, rooms, &shared, &classes), classes })
}

/// Nodes of several targets.
fn shared_nodes(problem: &Problem, targets: &BTreeSet<UnitIx>) -> BTreeSet<NodeIx> {
    let mut seen = BTreeSet::new();
    targets.iter().map(|unit| problem.unit_node[*unit]).filter(|node| !seen.insert(*node)).collect()
}

/// The resources of shared nodes that those who can be there could ask too much of.
fn pools(problem: &Problem, rooms: &Rooms, shared: &BTreeSet<NodeIx>, classes: &[Class]) -> Vec<Pool> {
    let mut pools = Vec::new();
    for &node in shared {
        for resource in problem.resources.positions() {
            let taken = |actor: &ActorIx| {
                let of = |class: &Class| {
                    let is_here = problem.unit_node[class.first()] == node;
                    let need = || Dimension::NodeResource(resource).need_of(problem, *actor, class.first());
                    if is_here { need() } else { 0 }
                };
                classes.iter().map(of).collect::<Vec<i64>>()
            };
            let needs: Vec<Vec<i64>> = problem.movable.iter().map(taken).collect();
            let room = rooms.nodes[node][resource].left;
            let wanted: i64 = needs.iter().filter_map(|needs| needs.iter().max()).sum();
            if wanted > room {
                pools.push(Pool { room, needs });
            }
        }
    }
    pools
}
