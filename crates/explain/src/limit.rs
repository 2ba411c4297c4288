//! Single limits that can keep an actor off a unit, and their grouping for readers.

use std::collections::{BTreeMap, BTreeSet};

use placement::file::{Constraint, Places};
use placement::ix::{ActorIx, IxVec, NodeIx, ResourceIx, UnitIx};
use placement::{GroundConstraint, Rules, Snapshot, SuspendedLimit};

/// A limit or rule of a snapshot that can be dropped by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// An actor runs only on kinds that it has an implementation for.
    Kinds {
        /// Position of the actor.
        actor: ActorIx,
    },
    /// A constraint of the snapshot.
    Constraint {
        /// Its position in the file.
        position: usize,
    },
    /// One case of a policy's rule over placements.
    Case {
        /// Position among the cases of the snapshot's rules.
        demand: usize,
    },
    /// The number of slots of a unit.
    Slots {
        /// Position of the unit.
        unit: UnitIx,
    },
    /// The quantity of a resource on a unit.
    OfUnit {
        /// Position of the unit.
        unit: UnitIx,
        /// Position of the resource.
        resource: ResourceIx,
    },
    /// The quantity of a resource on a node.
    OfNode {
        /// Position of the node.
        node: NodeIx,
        /// Position of the resource.
        resource: ResourceIx,
    },
}

/// Limits that are one thing to a reader: the slots of all units of a pool, or rules with the same reason.
///
/// An explanation names a few of these, and drops each as a whole to test whether it is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitGroup {
    /// Its limits, ascending; never empty.
    pub limits: Vec<Limit>,
}

/// The key by which limits are grouped, after its rank: limits of the actor itself come first, then those it shares, then those
/// of other actors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Kinds(ActorIx),
    /// Type, scope, whether current placements are exempt, and the reason without names of places.
    Reason(&'static str, String, bool, String),
    Constraint(usize),
    Slots(String),
    OfUnit(ResourceIx, String),
    OfNode(ResourceIx, BTreeSet<String>),
    /// A rule of the policy, identified by its first case.
    Rule(usize),
}

/// Every limit that can leave one of `unplaced` (at least one) no place in a snapshot in which those of `placed` have one,
/// grouped, in the order for the first actor.
pub(crate) fn elements(
    snapshot: &Snapshot,
    unplaced: &[ActorIx],
    placed: &IxVec<ActorIx, bool>,
) -> Vec<LimitGroup> {
    let names = Naming::new(snapshot);
    let takes_part = |other: &ActorIx| unplaced.contains(other) || placed[*other];
    let mut found: BTreeMap<(u8, Key), Vec<Limit>> = BTreeMap::new();
    let mut add = |limit: Limit| found.entry(names.key(limit, unplaced[0])).or_default().push(limit);
    for &actor in unplaced {
        add(Limit::Kinds { actor });
    }
    for (position, constraint) in snapshot.file().constraints.iter().enumerate() {
        let concerned = actors_of(snapshot, constraint);
        let matters = match constraint {
            Constraint::Prefer { .. } | Constraint::Avoid { .. } => false,
            Constraint::Apart { .. } | Constraint::Together { .. } => {
                concerned.iter().filter(|a| takes_part(a)).count() > 1
            }
            Constraint::Reserve { .. } => true,
            _ => concerned.is_empty() || concerned.iter().any(takes_part),
        };
        if matters {
            add(Limit::Constraint { position });
        }
    }
    if let Some(rules) = snapshot.rules() {
        let of_policy = (0..rules.cases().len()).filter(|demand| rules.cases()[*demand].limit.is_none());
        of_policy.for_each(|demand| add(Limit::Case { demand }));
    }
    let (of_units, of_nodes) = wanted(snapshot, ActorIx::first(snapshot.actors()).filter(takes_part));
    for unit in UnitIx::first(snapshot.units()) {
        if snapshot.file().units[unit.at()].slots.is_some() {
            add(Limit::Slots { unit });
        }
        for &resource in &of_units {
            add(Limit::OfUnit { unit, resource });
        }
    }
    for node in snapshot.nodes().positions() {
        for &resource in &of_nodes {
            add(Limit::OfNode { node, resource });
        }
    }
    found.into_values().map(|limits| LimitGroup { limits }).collect()
}

/// The limits that a case stands for: a limit of the file, with reservations of the same resource, or the case itself.
pub(crate) fn of_case(snapshot: &Snapshot, demand: usize) -> Vec<Limit> {
    let limit = snapshot.rules().and_then(|rules| rules.cases()[demand].limit);
    match limit {
        None => vec![Limit::Case { demand }],
        Some(SuspendedLimit::Slots(unit)) => vec![Limit::Slots { unit }],
        Some(SuspendedLimit::OfNode(node, resource)) => vec![Limit::OfNode { node, resource }],
        Some(SuspendedLimit::Constraint(position) | SuspendedLimit::Breach(position, _)) => {
            vec![Limit::Constraint { position }]
        }
        Some(SuspendedLimit::OfUnit(unit, resource)) => {
            let reserves = reserves(snapshot, unit, resource).into_iter();
            let reserves = reserves.map(|(position, _)| Limit::Constraint { position });
            std::iter::once(Limit::OfUnit { unit, resource }).chain(reserves).collect()
        }
    }
}

/// The reservations of a unit's resource: constraint and quantity.
pub(crate) fn reserves(snapshot: &Snapshot, unit: UnitIx, resource: ResourceIx) -> Vec<(usize, i64)> {
    let (unit, resource) = (snapshot.unit_id(unit), &snapshot.resources()[resource]);
    let constraints = snapshot.file().constraints.iter().enumerate();
    let reserved = constraints.filter_map(|(position, constraint)| match constraint {
        Constraint::Reserve { unit: of, resource: what, quantity } if of == unit && what == resource => {
            Some((position, i64::try_from(*quantity).expect("numbers above 2^53 are refused on input")))
        }
        _ => None,
    });
    reserved.collect()
}

/// Groups limits, in the order for `actor`.
pub(crate) fn grouped(snapshot: &Snapshot, actor: ActorIx, limits: &BTreeSet<Limit>) -> Vec<LimitGroup> {
    let names = Naming::new(snapshot);
    let mut found: BTreeMap<(u8, Key), Vec<Limit>> = BTreeMap::new();
    for &limit in limits {
        found.entry(names.key(limit, actor)).or_default().push(limit);
    }
    found.into_values().map(|limits| LimitGroup { limits }).collect()
}

/// Maps each limit to the position of its group.
pub(crate) fn numbered(elements: &[LimitGroup]) -> BTreeMap<Limit, usize> {
    let numbers = elements.iter().enumerate();
    numbers.flat_map(|(number, element)| element.limits.iter().map(move |limit| (*limit, number))).collect()
}

/// The resources of units and of nodes that these actors require.
fn wanted(
    snapshot: &Snapshot,
    actors: impl Iterator<Item = ActorIx>,
) -> (BTreeSet<ResourceIx>, BTreeSet<ResourceIx>) {
    let (mut of_units, mut of_nodes) = (BTreeSet::new(), BTreeSet::new());
    for actor in actors {
        for needs in snapshot.problem().implementations[actor].iter().flatten() {
            of_units.extend(needs.requires.iter().map(|(resource, _)| *resource));
            of_nodes.extend(needs.node_requires.iter().map(|(resource, _)| *resource));
        }
        let own = snapshot.file().actors[actor.at()].requires.iter().filter(|(_, quantity)| **quantity > 0);
        of_units.extend(own.map(|(name, _)| snapshot.problem().resource(name)));
    }
    (of_units, of_nodes)
}

/// The actors that a constraint names, by position.
pub(crate) fn actors_of(snapshot: &Snapshot, constraint: &Constraint) -> Vec<ActorIx> {
    let ids = constraint.actors();
    ids.iter().map(|id| snapshot.problem().actor_by_id[id]).collect()
}

/// The keys of a snapshot's limits.
struct Naming<'a> {
    snapshot: &'a Snapshot,
    /// By node: the pools of its units, or their kinds.
    node_pools: IxVec<NodeIx, BTreeSet<String>>,
    /// By rule of the policy: its first case.
    first_case: BTreeMap<&'a str, usize>,
}

impl<'a> Naming<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut node_pools: IxVec<NodeIx, BTreeSet<String>> =
            IxVec::of(BTreeSet::new(), snapshot.nodes().len());
        for unit in UnitIx::first(snapshot.units()) {
            node_pools[snapshot.node_of(unit)].insert(pool_of(snapshot, unit));
        }
        let cases = snapshot.rules().map(Rules::cases).unwrap_or_default();
        let first_case = cases.iter().enumerate().rev().map(|(at, case)| (case.rule.as_str(), at)).collect();
        Self { snapshot, node_pools, first_case }
    }

    fn key(&self, limit: Limit, actor: ActorIx) -> (u8, Key) {
        match limit {
            Limit::Kinds { actor } => (0, Key::Kinds(actor)),
            Limit::Slots { unit } => (2, Key::Slots(pool_of(self.snapshot, unit))),
            Limit::OfUnit { unit, resource } => (3, Key::OfUnit(resource, pool_of(self.snapshot, unit))),
            Limit::OfNode { node, resource } => (4, Key::OfNode(resource, self.node_pools[node].clone())),
            Limit::Constraint { position } => self.of_constraint(position, actor),
            Limit::Case { demand } => (6, Key::Rule(self.first_case[self.case(demand).rule.as_str()])),
        }
    }

    fn is_lifted(&self, unit: &str, resource: &String) -> bool {
        let problem = self.snapshot.problem();
        problem.suspended_of_units.contains_key(&(problem.unit_by_id[unit], problem.resource(resource)))
    }

    fn case(&self, demand: usize) -> &GroundConstraint {
        &self.snapshot.rules().expect("only a world with rules has cases").cases()[demand]
    }

    fn of_constraint(&self, position: usize, actor: ActorIx) -> (u8, Key) {
        let constraint = &self.snapshot.file().constraints[position];
        let is_own = actors_of(self.snapshot, constraint).contains(&actor);
        let (rank, name, scope, except_current) = match constraint {
            Constraint::Only { .. } => (1, "only", String::new(), false),
            Constraint::Never { except_current, .. } => (1, "never", String::new(), *except_current),
            Constraint::Pin { .. } => (1, "pin", String::new(), false),
            Constraint::Apart { on, .. } => (5, "apart", on.to_string(), false),
            Constraint::Together { on, .. } => (5, "together", on.to_string(), false),
            Constraint::Reserve { unit, resource, .. } if self.is_lifted(unit, resource) => {
                // The unit is over-committed: its resource and what is reserved of it are dropped together.
                let unit = self.snapshot.problem().unit_by_id[unit];
                let resource = self.snapshot.problem().resource(resource);
                return (3, Key::OfUnit(resource, pool_of(self.snapshot, unit)));
            }
            Constraint::Reserve { unit, resource, .. } => {
                // Reservations of one resource in one pool are one thing, like the resource itself.
                let unit = self.snapshot.problem().unit_by_id[unit];
                let what = format!("{resource} of {}", pool_of(self.snapshot, unit));
                return (8, Key::Reason("reserve", what, false, String::new()));
            }
            _ => return (6, Key::Constraint(position)),
        };
        let rank = if is_own { rank } else { 7 };
        match pattern(constraint) {
            Some(reason) => (rank, Key::Reason(name, scope, except_current, reason)),
            None => (rank, Key::Constraint(position)),
        }
    }
}

/// How readers refer to a unit: its pool, or its kind if it belongs to none.
pub(crate) fn pool_of(snapshot: &Snapshot, unit: UnitIx) -> String {
    let given = &snapshot.file().units[unit.at()];
    given.pool.as_ref().map_or_else(|| format!("kind {}", given.kind), |pool| format!("pool {pool}"))
}

/// Whether a claim selects the device of a unit, which no second actor can share: the unit has the name of the device, and others
/// have a number.
pub(crate) fn is_claimed(snapshot: &Snapshot, unit: UnitIx) -> bool {
    let given = &snapshot.file().units[unit.at()];
    let place = given.id.strip_prefix(&given.node).and_then(|rest| rest.strip_prefix('/'));
    let name = place.zip(given.pool.as_ref()).and_then(|(name, pool)| name.strip_prefix(pool.as_str()));
    let name = name.and_then(|name| name.strip_prefix('-'));
    name.is_some_and(|name| name.parse::<u64>().is_err())
}

/// A constraint's reason without names of places, which 500 cordoned nodes share.
fn pattern(constraint: &Constraint) -> Option<String> {
    let (reason, places) = match constraint {
        Constraint::Only { reason, places, .. } | Constraint::Never { reason, places, .. } => {
            let (Places::Units(names) | Places::Nodes(names) | Places::Zones(names)) = places;
            (reason, names.clone())
        }
        Constraint::Pin { reason, unit, .. } => (reason, vec![unit.clone()]),
        Constraint::Apart { reason, .. } | Constraint::Together { reason, .. } => (reason, Vec::new()),
        _ => return None,
    };
    let mut text = reason.clone()?;
    for name in &places {
        // The name of a node is a prefix of the names of its units.
        let node = name.split('/').next().unwrap_or(name);
        text = text.replace(name.as_str(), "…").replace(node, "…");
    }
    Some(text)
}

/// A resource for users: the unit of huge pages stands apart from their size.
pub(crate) fn resource_name(name: &str) -> String {
    let is_huge = name.starts_with("hugepages-");
    let parts = ["MiB", "Bytes"].into_iter().find_map(|unit| Some((unit, name.strip_suffix(unit)?)));
    parts.filter(|_| is_huge).map_or_else(|| name.to_owned(), |(unit, size)| format!("{unit} of {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_huge_pages_stand_apart_from_their_size() {
        for (name, expected) in [
            ("memoryMiB", "memoryMiB"),
            ("hugepages-2MiMiB", "MiB of hugepages-2Mi"),
            ("hugepages-1GiBytes", "Bytes of hugepages-1Gi"),
        ] {
            assert_eq!(resource_name(name), expected);
        }
    }
}
