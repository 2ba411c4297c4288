//! Single changes of a snapshot that can make room.

use std::collections::BTreeSet;

use placement::file::{Actor, Constraint, Node, RunsOn, SnapshotFile, Unit};
use placement::ix::{ActorIx, NodeIx, ResourceIx, UnitIx};
use placement::{LARGEST, Snapshot};

use crate::limit::{pool_of, resource_name};

/// A change that an administrator or a user can make. Quantities are in the units of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Exempts one of the actors that a constraint names.
    LeaveOut {
        /// Its position in the file.
        position: usize,
        /// Position of the actor.
        actor: ActorIx,
    },
    /// Removes a constraint.
    Without {
        /// Its position in the file.
        position: usize,
    },
    /// Raises a quota or a power cap.
    Bound {
        /// Position of the constraint in the file.
        position: usize,
        /// By how much.
        more: u64,
    },
    /// Lowers a reservation of a resource.
    Free {
        /// Position of the constraint in the file.
        position: usize,
        /// How much less.
        more: u64,
    },
    /// Adds slots to a unit.
    Slots {
        /// Position of the unit.
        unit: UnitIx,
        /// How many more.
        more: u64,
    },
    /// Adds a quantity of a resource to a unit.
    OfUnit {
        /// Position of the unit.
        unit: UnitIx,
        /// Position of the resource.
        resource: ResourceIx,
        /// How much more.
        more: u64,
    },
    /// Adds a quantity of a resource to a node.
    OfNode {
        /// Position of the node.
        node: NodeIx,
        /// Position of the resource.
        resource: ResourceIx,
        /// How much more.
        more: u64,
    },
    /// Adds an implementation for one more kind, which requires only what the actor requires on every kind.
    Implementation {
        /// Position of the actor.
        actor: ActorIx,
        /// The kind.
        kind: String,
    },
    /// Adds nodes like an existing one, with the same units.
    Nodes {
        /// Position of the node.
        like: NodeIx,
        /// How many more.
        more: u64,
    },
    /// Adds a unit of a kind that has none, with what the actor requires there.
    Kind {
        /// Position of the actor.
        actor: ActorIx,
        /// The kind.
        kind: String,
    },
}

impl Change {
    /// Its quantity, if it has one that could be smaller.
    pub fn more(&self) -> Option<u64> {
        match *self {
            Self::Bound { more, .. }
            | Self::Free { more, .. }
            | Self::Slots { more, .. }
            | Self::OfUnit { more, .. }
            | Self::OfNode { more, .. }
            | Self::Nodes { more, .. } => Some(more),
            _ => None,
        }
    }

    /// The same change with another quantity; itself if it has none.
    #[must_use]
    pub fn with(&self, number: u64) -> Self {
        let mut change = self.clone();
        match &mut change {
            Self::Bound { more, .. }
            | Self::Free { more, .. }
            | Self::Slots { more, .. }
            | Self::OfUnit { more, .. }
            | Self::OfNode { more, .. }
            | Self::Nodes { more, .. } => *more = number,
            _ => {}
        }
        change
    }

    /// Position of the constraint that it changes.
    pub(crate) fn constraint(&self) -> Option<usize> {
        match *self {
            Self::LeaveOut { position, .. }
            | Self::Without { position }
            | Self::Bound { position, .. }
            | Self::Free { position, .. } => Some(position),
            _ => None,
        }
    }

    /// The same change of a constraint at another position.
    pub(crate) fn at(&self, other: usize) -> Self {
        let mut change = self.clone();
        match &mut change {
            Self::LeaveOut { position, .. }
            | Self::Without { position }
            | Self::Bound { position, .. }
            | Self::Free { position, .. } => *position = other,
            _ => {}
        }
        change
    }

    /// Applies the change to a file: that of the snapshot, or one with fewer actors and the same constraints.
    pub fn apply(&self, snapshot: &Snapshot, file: &mut SnapshotFile) {
        let id_of = |actor: ActorIx| snapshot.actor_id(actor).to_owned();
        match self {
            Self::LeaveOut { position, actor } => {
                let id = id_of(*actor);
                leave_out(&mut file.constraints[*position], |other| *other == id);
            }
            Self::Without { position } => leave_out(&mut file.constraints[*position], |_| true),
            Self::Bound { position, more } => match &mut file.constraints[*position] {
                Constraint::Quota { max, .. } | Constraint::PowerCap { max, .. } => add(max, *more),
                _ => {}
            },
            Self::Free { position, more } => {
                if let Constraint::Reserve { quantity, .. } = &mut file.constraints[*position] {
                    *quantity = quantity.saturating_sub(*more);
                }
            }
            Self::Slots { unit, more } => {
                if let Some(slots) = &mut file.units[unit.at()].slots {
                    add(slots, *more);
                }
            }
            Self::OfUnit { unit, resource, more } => {
                let name = snapshot.resources()[*resource].clone();
                add(file.units[unit.at()].provides.entry(name).or_default(), *more);
            }
            Self::OfNode { node, resource, more } => {
                let name = snapshot.resources()[*resource].clone();
                add(node_of(file, &snapshot.nodes()[*node]).provides.entry(name).or_default(), *more);
            }
            Self::Implementation { actor, kind } => {
                if let Some(actor) = actor_of(file, &id_of(*actor)) {
                    actor.runs_on.entry(kind.clone()).or_default();
                }
            }
            Self::Nodes { like, more } => more_nodes(snapshot, *like, *more, file),
            Self::Kind { actor, kind } => a_unit_of(file, &id_of(*actor), kind),
        }
    }

    /// The change as a sentence.
    pub fn describe(&self, snapshot: &Snapshot) -> String {
        let name = |actor: ActorIx| snapshot.short_name(actor);
        match self {
            Self::LeaveOut { position, actor } => {
                format!("exempt {} from: {}", name(*actor), snapshot.says(*position))
            }
            Self::Without { position } => format!("without: {}", snapshot.says(*position)),
            Self::Bound { position, more } => {
                format!("raise the limit by {more}: {}", snapshot.says(*position))
            }
            Self::Free { position, more } => match &snapshot.file().constraints[*position] {
                Constraint::Reserve { unit, resource, .. } => {
                    format!("reserve {more} less {resource} on {unit}")
                }
                _ => String::new(),
            },
            Self::Slots { unit, more } => {
                let slots = if *more == 1 { "slot" } else { "slots" };
                format!("{more} more {slots} on {}", snapshot.unit_id(*unit))
            }
            Self::OfUnit { unit, resource, more } => {
                let resource = resource_name(&snapshot.resources()[*resource]);
                format!("{more} more {resource} on {}", snapshot.unit_id(*unit))
            }
            Self::OfNode { node, resource, more } => {
                let resource = resource_name(&snapshot.resources()[*resource]);
                format!("{more} more {resource} on {}", snapshot.nodes()[*node])
            }
            Self::Implementation { actor, kind } => {
                format!("an implementation of {} for {kind}", name(*actor))
            }
            Self::Nodes { like, more: 1 } => format!("one more node like {}", snapshot.nodes()[*like]),
            Self::Nodes { like, more } => format!("{more} more nodes like {}", snapshot.nodes()[*like]),
            Self::Kind { kind, .. } => format!("a unit of kind {kind}"),
        }
    }

    /// Groups changes that differ only in the place within a pool; one of each group is reported.
    pub(crate) fn shape(&self, snapshot: &Snapshot) -> (u8, String) {
        let pools = |node: NodeIx| {
            let units = UnitIx::first(snapshot.units()).filter(|&unit| snapshot.node_of(unit) == node);
            let mut pools: Vec<String> = units.map(|unit| pool_of(snapshot, unit)).collect();
            pools.sort_unstable();
            pools.dedup();
            pools.join(" ")
        };
        match self {
            Self::Slots { unit, .. } => (0, pool_of(snapshot, *unit)),
            Self::OfUnit { unit, resource, .. } => {
                (1, format!("{} {}", snapshot.resources()[*resource], pool_of(snapshot, *unit)))
            }
            Self::OfNode { node, resource, .. } => {
                (2, format!("{} {}", snapshot.resources()[*resource], pools(*node)))
            }
            Self::Bound { position, .. } => (3, position.to_string()),
            Self::Free { position, .. } => match &snapshot.file().constraints[*position] {
                Constraint::Reserve { resource, .. } => (4, resource.clone()),
                _ => (4, position.to_string()),
            },
            Self::LeaveOut { position, actor } => match snapshot.file().constraints[*position].reason() {
                Some(_) => (5, format!("{} {}", name_of(snapshot, *position), actor.at())),
                None => (5, format!("{position} {}", actor.at())),
            },
            Self::Without { position } => (6, position.to_string()),
            Self::Implementation { actor, kind } => (7, format!("{kind} {}", actor.at())),
            Self::Nodes { like, .. } => (8, pools(*like)),
            Self::Kind { kind, .. } => (9, kind.clone()),
        }
    }
}

/// A constraint's reason without digits: `node-1 is cordoned` and `node-2 is cordoned` are alike.
pub(crate) fn name_of(snapshot: &Snapshot, position: usize) -> String {
    snapshot.says(position).chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn add(number: &mut u64, more: u64) {
    *number = number.saturating_add(more).min(LARGEST);
}

/// Removes actors from a constraint; a constraint that names no other actor is removed.
fn leave_out(constraint: &mut Constraint, is_one: impl Fn(&String) -> bool) {
    if let Some(actors) = constraint.actors_mut() {
        actors.retain(|id| !is_one(id));
    } else if let Constraint::Pin { actor, unit, .. } = constraint {
        let (actor, unit) = (actor.clone(), unit.clone());
        *constraint = Constraint::Prefer { actor, unit, weight: 0 };
    }
}

fn actor_of<'a>(file: &'a mut SnapshotFile, id: &str) -> Option<&'a mut Actor> {
    file.actors.iter_mut().find(|actor| actor.id == id)
}

fn node_of<'a>(file: &'a mut SnapshotFile, id: &str) -> &'a mut Node {
    let at = file.nodes.iter().position(|node| node.id == id).unwrap_or_else(|| {
        file.nodes.push(Node { id: id.to_owned(), ..Node::default() });
        file.nodes.len() - 1
    });
    &mut file.nodes[at]
}

/// Fresh names for copies of a node.
struct Names {
    like: String,
    given: u64,
}

impl Names {
    fn like(id: &str) -> Self {
        Self { like: id.to_owned(), given: 0 }
    }

    fn next(&mut self, taken: &mut BTreeSet<String>) -> String {
        loop {
            self.given += 1;
            let name = match self.given {
                1 => format!("{}-more", self.like),
                number => format!("{}-more-{number}", self.like),
            };
            if taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Names of existing nodes and units.
fn taken(file: &SnapshotFile) -> (BTreeSet<String>, BTreeSet<String>) {
    let nodes = file.nodes.iter().map(|node| &node.id).chain(file.units.iter().map(|unit| &unit.node));
    (nodes.cloned().collect(), file.units.iter().map(|unit| unit.id.clone()).collect())
}

/// Adds copies of a node with its units.
fn more_nodes(snapshot: &Snapshot, like: NodeIx, more: u64, file: &mut SnapshotFile) {
    let id = &snapshot.nodes()[like];
    let (mut nodes, mut units) = taken(file);
    let node = file.nodes.iter().find(|node| node.id == *id).cloned();
    let of_node = file.units.iter().filter(|unit| unit.node == *id).cloned();
    let mut of_node: Vec<(Names, Unit)> = of_node.map(|unit| (Names::like(&unit.id), unit)).collect();
    let mut names = Names::like(id);
    for _ in 0..more {
        let new = names.next(&mut nodes);
        file.nodes.extend(node.clone().map(|node| Node { id: new.clone(), ..node }));
        for (names, unit) in &mut of_node {
            let id = names.next(&mut units);
            file.units.push(Unit { id, node: new.clone(), others: None, ..unit.clone() });
        }
    }
}

fn a_unit_of(file: &mut SnapshotFile, actor: &str, kind: &str) {
    let Some(actor) = actor_of(file, actor).cloned() else { return };
    let needs: RunsOn = actor.runs_on.get(kind).cloned().unwrap_or_default();
    let mut provides = actor.requires;
    for (resource, quantity) in needs.requires {
        *provides.entry(resource).or_default() += quantity;
    }
    let (mut nodes, mut units) = taken(file);
    let [node, id] = [&mut nodes, &mut units].map(|taken| Names::like(kind).next(taken));
    file.nodes.push(Node { id: node.clone(), provides: needs.node_requires, ..Node::default() });
    file.units.push(Unit {
        id,
        kind: kind.to_owned(),
        node,
        capacity: needs.work.max(1),
        provides,
        ..Unit::default()
    });
}
