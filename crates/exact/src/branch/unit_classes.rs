//! Symmetry classes of units, and their room.

use std::collections::BTreeSet;

use placement::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};
use placement::room::{Room, Rooms};
use placement::{Implementation, Problem, Snapshot, symmetry_classes};

/// Classes are bits of a word, and so are the items of a class.
pub(crate) const MAX_CLASSES: usize = 64;

/// Interchangeable units: swapping any two of them changes nothing.
pub(crate) struct Class {
    /// Ascending, never empty.
    pub units: Vec<UnitIx>,
    /// By dimension: the room of one unit.
    pub room: Vec<i64>,
}

impl Class {
    /// The representative.
    pub fn first(&self) -> UnitIx {
        self.units[0]
    }
}

/// A limited resource of a node with several classes.
pub(crate) struct NodePool {
    /// The amount available.
    pub room: i64,
    /// By item and class: what it takes.
    pub needs: Vec<Vec<i64>>,
}

/// Classes, and what items need in them.
pub(crate) struct ClassRooms {
    pub classes: Vec<Class>,
    pub pools: Vec<NodePool>,
    /// By item, class and dimension.
    pub needs: Vec<Vec<Vec<i64>>>,
}

/// A limited quantity of units.
#[derive(Clone, Copy)]
enum RoomDimension {
    Work,
    Slots,
    /// Of the unit.
    Resource(ResourceIx),
    /// Of a node with a single target.
    NodeResource(ResourceIx),
}

fn quantity(of: &[(ResourceIx, i64)], resource: ResourceIx) -> i64 {
    of.iter().find(|(of, _)| *of == resource).map_or(0, |(_, quantity)| *quantity)
}

impl RoomDimension {
    fn need(self, needs: &Implementation) -> i64 {
        match self {
            RoomDimension::Work => needs.work,
            RoomDimension::Slots => 1,
            RoomDimension::Resource(resource) => quantity(&needs.requires, resource),
            RoomDimension::NodeResource(resource) => quantity(&needs.node_requires, resource),
        }
    }

    fn need_of(self, problem: &Problem, actor: ActorIx, unit: UnitIx) -> i64 {
        problem.implementation(actor, unit).map_or(0, |needs| self.need(needs))
    }

    /// What fixed actors leave of it on a unit; unlimited where there is no limit.
    fn left(self, problem: &Problem, rooms: &Rooms, unit: UnitIx) -> i64 {
        let left = |room: &Room| room.left.max(0);
        match self {
            RoomDimension::Work => left(&rooms.work[unit]),
            RoomDimension::Slots => rooms.slots[unit].as_ref().map_or(i64::MAX, left),
            RoomDimension::Resource(resource) => left(&rooms.units[unit][resource]),
            RoomDimension::NodeResource(resource) => left(&rooms.nodes[problem.unit_node[unit]][resource]),
        }
    }
}

/// Partitions `targets` into classes; `None` where there are too many. `limits_load` limits load by capacity.
pub(crate) fn classes(
    snapshot: &Snapshot,
    rooms: &Rooms,
    targets: &BTreeSet<UnitIx>,
    limits_load: bool,
) -> Option<ClassRooms> {
    let problem = snapshot.problem();
    let shared = shared_nodes(problem, targets);
    let mut dimensions: Vec<RoomDimension> = limits_load.then_some(RoomDimension::Work).into_iter().collect();
    dimensions.push(RoomDimension::Slots);
    dimensions.extend(problem.resources.positions().map(RoomDimension::Resource));
    dimensions.extend(problem.resources.positions().map(RoomDimension::NodeResource));
    let is_needed = |dimension: &RoomDimension| {
        problem.movable.iter().any(|&actor| {
            let units = problem.candidates(actor).iter();
            units.into_iter().any(|&unit| dimension.need_of(problem, actor, unit) > 0)
        })
    };
    dimensions.retain(is_needed);
    let room = |units: &[UnitIx], dimension: RoomDimension| {
        let node = problem.unit_node[units[0]];
        if matches!(dimension, RoomDimension::NodeResource(_)) && shared.contains(&node) {
            return i64::MAX;
        }
        // Quantities that cannot bind may differ between interchangeable units.
        units.iter().map(|&unit| dimension.left(problem, rooms, unit)).min().unwrap_or(i64::MAX)
    };
    // The units of a class have the same candidates.
    let found = symmetry_classes(snapshot, rooms).into_iter().filter(|class| targets.contains(&class[0]));
    let classes: Vec<Class> = found
        .map(|units| Class { room: dimensions.iter().map(|&of| room(&units, of)).collect(), units })
        .collect();
    if classes.len() > MAX_CLASSES {
        return None;
    }
    let needs = problem.movable.iter().map(|&actor| {
        let of = |class: &Class| {
            dimensions.iter().map(|of| of.need_of(problem, actor, class.first())).collect::<Vec<i64>>()
        };
        classes.iter().map(of).collect()
    });
    Some(ClassRooms { needs: needs.collect(), pools: pools(problem, rooms, &shared, &classes), classes })
}

/// Nodes of several targets.
fn shared_nodes(problem: &Problem, targets: &BTreeSet<UnitIx>) -> BTreeSet<NodeIx> {
    let mut seen = BTreeSet::new();
    targets.iter().map(|unit| problem.unit_node[*unit]).filter(|node| !seen.insert(*node)).collect()
}

/// The resources of shared nodes that items could exceed.
fn pools(problem: &Problem, rooms: &Rooms, shared: &BTreeSet<NodeIx>, classes: &[Class]) -> Vec<NodePool> {
    let mut pools = Vec::new();
    for &node in shared {
        for resource in problem.resources.positions() {
            let taken = |actor: &ActorIx| {
                let of = |class: &Class| {
                    let is_here = problem.unit_node[class.first()] == node;
                    let need =
                        || RoomDimension::NodeResource(resource).need_of(problem, *actor, class.first());
                    if is_here { need() } else { 0 }
                };
                classes.iter().map(of).collect::<Vec<i64>>()
            };
            let needs: Vec<Vec<i64>> = problem.movable.iter().map(taken).collect();
            let room = rooms.nodes[node][resource].left;
            let needed: i64 = needs.iter().filter_map(|needs| needs.iter().max()).sum();
            if needed > room {
                pools.push(NodePool { room, needs });
            }
        }
    }
    pools
}
