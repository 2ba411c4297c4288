//! The relaxations that are tried to refute a snapshot, and the classes of interchangeable actors that they share.

use std::collections::{BTreeMap, BTreeSet};

use crate::kept_rules::{KeptRules, PartialAssignment};
use crate::relaxation::{Relaxation, UNLIMITED};
use placement::constraints::violation_trackers;
use placement::file::Scope;
use placement::ix::{ActorIx, IxVec, NodeIx, RelationIx, ResourceIx, SetIx, UnitIx};
use placement::{Assignment, Implementation, Snapshot};

/// The number of thresholds that are tried for one resource.
const MOST_THRESHOLDS: usize = 6;

/// What actors of one class share, as far as feasibility is concerned.
type ActorClassKey<'a> = (
    SetIx,
    Vec<Option<&'a [(ResourceIx, i64)]>>,
    Vec<Option<&'a [(ResourceIx, i64)]>>,
    Vec<i64>,
    &'a [RelationIx],
    usize,
);

/// A snapshot with unplaced actors, and the capacities left by fixed actors.
pub(crate) struct Relaxations<'a> {
    pub world: &'a Snapshot,
    pub kept: &'a KeptRules<'a>,
    /// The unplaced actors in question.
    pub unplaced: &'a [ActorIx],
    /// A feasible assignment of all others.
    pub base: &'a Assignment,
    /// By actor; the class of a fixed actor is its own and has no meaning.
    pub class: IxVec<ActorIx, usize>,
    /// By class: the units that accept one of its actors beside the fixed actors.
    pub domain: Vec<Vec<UnitIx>>,
    /// By unit, beside the fixed actors.
    pub slots_left: IxVec<UnitIx, i64>,
    pub unit_left: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    /// By node, beside the fixed actors.
    pub node_left: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
    /// By class: the number of movable actors.
    count: Vec<usize>,
    /// By unit: the classes that have it as a candidate.
    classes_on: IxVec<UnitIx, Vec<usize>>,
}

/// A resource of units, or of nodes.
#[derive(Clone, Copy)]
enum Resource {
    OfUnit(ResourceIx),
    OfNode(ResourceIx),
}

impl<'a> Relaxations<'a> {
    pub fn new(
        world: &'a Snapshot,
        kept: &'a KeptRules<'a>,
        unplaced: &'a [ActorIx],
        base: &'a Assignment,
    ) -> Self {
        let mut free = PartialAssignment::new(world, kept);
        let (class, first) = classes(world, kept);
        let domain: Vec<Vec<UnitIx>> = first
            .iter()
            .map(|&actor| {
                let admitted = |unit: &UnitIx| world.is_fixed(actor) || free.admits(actor, *unit);
                world.candidates(actor).iter().copied().filter(admitted).collect()
            })
            .collect();
        let mut relaxations = Self {
            world,
            kept,
            unplaced,
            base,
            class,
            slots_left: UnitIx::first(world.units()).map(|unit| slots(world, unit)).collect(),
            unit_left: UnitIx::first(world.units()).map(|unit| world.unit_provides(unit).clone()).collect(),
            node_left: world.nodes().positions().map(|node| world.node_provides(node).clone()).collect(),
            count: vec![0; domain.len()],
            classes_on: IxVec::of(Vec::new(), world.units()),
            domain,
        };
        for actor in ActorIx::first(world.actors()) {
            if world.is_fixed(actor) {
                relaxations.take_off(actor);
            } else {
                relaxations.count[relaxations.class[actor]] += 1;
            }
        }
        for (class, units) in
            relaxations.domain.iter().enumerate().filter(|(class, _)| relaxations.count[*class] > 0)
        {
            for &unit in units {
                relaxations.classes_on[unit].push(class);
            }
        }
        relaxations
    }

    fn take_off(&mut self, actor: ActorIx) {
        let Some(unit) = self.world.current(actor) else { return };
        if self.slots_left[unit] < UNLIMITED {
            self.slots_left[unit] -= 1;
        }
        let Some(needs) = self.world.implementation(actor, unit) else { return };
        for &(resource, quantity) in &needs.requires {
            self.unit_left[unit][resource] -= quantity;
        }
        for &(resource, quantity) in &needs.node_requires {
            self.node_left[self.world.node_of(unit)][resource] -= quantity;
        }
    }

    /// The candidates of an actor beside the fixed ones.
    pub fn domain_of(&self, actor: ActorIx) -> &[UnitIx] {
        &self.domain[self.class[actor]]
    }

    /// Whether some relaxation proves that not all actors can be placed.
    pub fn refute(&self) -> bool {
        if self.unplaced.iter().any(|&actor| self.domain_of(actor).is_empty()) {
            return true;
        }
        let mut resources = BTreeSet::new();
        let problem = self.world.problem();
        for needs in self.unplaced.iter().flat_map(|&actor| problem.implementations[actor].iter().flatten()) {
            resources.extend(needs.requires.iter().map(|(resource, _)| (false, *resource)));
            resources.extend(needs.node_requires.iter().map(|(resource, _)| (true, *resource)));
        }
        let resources: Vec<Resource> = resources
            .into_iter()
            .map(|(of_node, r)| if of_node { Resource::OfNode(r) } else { Resource::OfUnit(r) })
            .collect();
        let relations: BTreeSet<RelationIx> =
            self.unplaced.iter().flat_map(|&actor| problem.relations_of[actor].iter().copied()).collect();
        self.refutes(&self.counting(&|_| true))
            || resources.iter().any(|&resource| self.refutes(&self.summing(resource)))
            || resources.iter().any(|&resource| self.refuted_by_size(resource))
            || relations
                .into_iter()
                .any(|relation| problem.relations[relation].apart && self.refutes(&self.apart(relation)))
    }

    /// Whether a relaxation refutes the question.
    pub fn refutes(&self, relaxation: &Relaxation) -> bool {
        relaxation.refutes(self.unplaced, self.base, &|actor| self.domain_of(actor), &self.class)
    }

    /// The smallest requirement of the resource over the candidates of a class.
    fn least(&self, class: usize, resource: Resource, first: ActorIx) -> i64 {
        let needs = |unit: &UnitIx| self.needs(first, *unit, resource);
        self.domain[class].iter().map(needs).min().unwrap_or(0)
    }

    fn needs(&self, actor: ActorIx, unit: UnitIx, resource: Resource) -> i64 {
        let Some(needs) = self.world.implementation(actor, unit) else { return 0 };
        let (list, wanted) = match resource {
            Resource::OfUnit(wanted) => (&needs.requires, wanted),
            Resource::OfNode(wanted) => (&needs.node_requires, wanted),
        };
        list.iter().find(|(resource, _)| *resource == wanted).map_or(0, |(_, quantity)| *quantity)
    }

    /// By actor: the smallest requirement of the resource over its candidates; 0 for fixed actors.
    fn least_of_all(&self, resource: Resource) -> IxVec<ActorIx, i64> {
        let mut by_class = vec![None; self.domain.len()];
        ActorIx::first(self.world.actors())
            .map(|actor| {
                let class = self.class[actor];
                if self.world.is_fixed(actor) {
                    return 0;
                }
                *by_class[class].get_or_insert_with(|| self.least(class, resource, actor))
            })
            .collect()
    }

    /// The quantities of one resource, treated as divisible.
    fn summing(&self, resource: Resource) -> Relaxation {
        let units = self.world.units();
        let node_of = |unit: UnitIx| self.world.node_of(unit).at();
        let weight = self.least_of_all(resource);
        let clamp = |left: i64| left.max(0);
        match resource {
            Resource::OfUnit(r) => Relaxation {
                weight,
                unit_room: self.unit_left.iter().map(|left| clamp(left[r])).collect(),
                group_of: UnitIx::first(units).map(node_of).collect(),
                group_room: vec![UNLIMITED; self.node_left.len()],
            },
            Resource::OfNode(r) => Relaxation {
                weight,
                unit_room: IxVec::of(UNLIMITED, units),
                group_of: UnitIx::first(units).map(node_of).collect(),
                group_room: self.node_left.iter().map(|left| clamp(left[r])).collect(),
            },
        }
    }

    /// Counts actors that require at least a threshold of the resource, and how many of them fit on each unit.
    fn refuted_by_size(&self, resource: Resource) -> bool {
        let least = self.least_of_all(resource);
        let own = self.unplaced.iter().map(|&actor| least[actor]).max().unwrap_or(0);
        let thresholds: BTreeSet<i64> =
            least.iter().copied().filter(|need| *need > 0 && *need <= own).collect();
        thresholds
            .into_iter()
            .rev()
            .take(MOST_THRESHOLDS)
            .any(|threshold| self.refutes(&self.counting(&|actor| least[actor] >= threshold)))
    }

    /// The members of an `apart` constraint, one per domain.
    fn apart(&self, relation: RelationIx) -> Relaxation {
        let relation = &self.world.problem().relations[relation];
        let mut relaxation = self.counting(&|actor| relation.actors.contains(&actor));
        if relation.scope == Scope::Unit {
            relaxation.unit_room.iter_mut().for_each(|room| *room = (*room).min(1));
            return relaxation;
        }
        let mut places = BTreeMap::new();
        relaxation.group_of = UnitIx::first(self.world.units())
            .map(|unit| {
                let next = places.len();
                *places.entry(self.world.place(relation.scope, unit)).or_insert(next)
            })
            .collect();
        relaxation.group_room = vec![1; places.len()];
        relaxation
    }

    /// Counts actors, and how many of them a unit and a node can host at most.
    pub fn counting(&self, counts: &dyn Fn(ActorIx) -> bool) -> Relaxation {
        let world = self.world;
        let mut weight = IxVec::of(0, world.actors());
        let mut members = vec![0i64; self.domain.len()];
        let mut first = vec![ActorIx::NONE; self.domain.len()];
        for actor in
            ActorIx::first(world.actors()).rev().filter(|&actor| !world.is_fixed(actor) && counts(actor))
        {
            weight[actor] = 1;
            members[self.class[actor]] += 1;
            first[self.class[actor]] = actor;
        }
        let mut on_node: IxVec<NodeIx, BTreeMap<usize, BTreeMap<ResourceIx, i64>>> =
            IxVec::of(BTreeMap::new(), self.node_left.len());
        let mut unit_room = IxVec::new();
        for unit in UnitIx::first(world.units()) {
            let node = &mut on_node[world.node_of(unit)];
            let mut needs: BTreeMap<ResourceIx, Vec<(i64, i64)>> = BTreeMap::new();
            let mut all = 0;
            for &class in self.classes_on[unit].iter().filter(|class| members[**class] > 0) {
                all += members[class];
                let Some(Implementation { requires, node_requires, .. }) =
                    world.implementation(first[class], unit)
                else {
                    continue;
                };
                for &(resource, quantity) in requires {
                    needs.entry(resource).or_default().push((quantity, members[class]));
                }
                let least = node.entry(class).or_insert_with(|| {
                    node_requires.iter().map(|(resource, quantity)| (*resource, *quantity)).collect()
                });
                // On another unit of the node it may require less.
                least.retain(|resource, _| node_requires.iter().any(|(wanted, _)| wanted == resource));
                for (resource, quantity) in node_requires {
                    least.entry(*resource).and_modify(|least| *least = (*least).min(*quantity));
                }
            }
            let by_resource =
                needs.into_iter().map(|(resource, needs)| fits(needs, all, self.unit_left[unit][resource]));
            unit_room.push(by_resource.fold(self.slots_left[unit].max(0).min(all), i64::min));
        }
        let group_room = on_node.enumerate().map(|(node, classes)| {
            let all = classes.keys().map(|class| members[*class]).sum();
            let mut needs: BTreeMap<ResourceIx, Vec<(i64, i64)>> = BTreeMap::new();
            for (class, least) in classes {
                for (resource, quantity) in least {
                    needs.entry(*resource).or_default().push((*quantity, members[*class]));
                }
            }
            let left = &self.node_left[node];
            needs.into_iter().map(|(resource, needs)| fits(needs, all, left[resource])).fold(all, i64::min)
        });
        Relaxation {
            weight,
            group_of: UnitIx::first(world.units()).map(|unit| world.node_of(unit).at()).collect(),
            group_room: group_room.collect(),
            unit_room,
        }
    }
}

/// How many of `all` fit into `left`, the smallest requirements first; `needs` lists quantity and number.
fn fits(mut needs: Vec<(i64, i64)>, all: i64, left: i64) -> i64 {
    needs.sort_unstable();
    let needing: i64 = needs.iter().map(|(_, count)| count).sum();
    let (mut fitting, mut left) = (all - needing, left.max(0));
    for (quantity, count) in needs {
        let more = count.min(left / quantity.max(1));
        fitting += more;
        left -= more * quantity;
        if more < count {
            break;
        }
    }
    fitting
}

fn slots(world: &Snapshot, unit: UnitIx) -> i64 {
    world.problem().slots[unit].unwrap_or(UNLIMITED)
}

/// The class of each actor, and the first actor of each class.
fn classes(world: &Snapshot, kept: &KeptRules) -> (IxVec<ActorIx, usize>, Vec<ActorIx>) {
    let problem = world.problem();
    let ruled = kept.classes(world.actors());
    // An actor's work, and the constraints with running totals that name it, matter only if there are such
    // constraints.
    let followed: Vec<BTreeSet<&String>> = violation_trackers(world)
        .into_iter()
        .map(|(position, _)| world.file().constraints[position].actors().iter().collect())
        .collect();
    let mut known: BTreeMap<ActorClassKey, usize> = BTreeMap::new();
    let mut first = Vec::new();
    let class = ActorIx::first(world.actors()).map(|actor| {
        let kinds = &problem.implementations[actor];
        let alike: ActorClassKey = (
            world.candidate_set(actor),
            kinds.iter().map(|needs| needs.as_ref().map(|needs| needs.requires.as_slice())).collect(),
            kinds.iter().map(|needs| needs.as_ref().map(|needs| needs.node_requires.as_slice())).collect(),
            if followed.is_empty() {
                Vec::new()
            } else {
                let id = &world.file().actors[actor.at()].id;
                let work = kinds.iter().map(|n| n.as_ref().map_or(-1, |n| n.work));
                work.chain(followed.iter().map(|named| i64::from(named.contains(id)))).collect()
            },
            problem.relations_of[actor].as_slice(),
            ruled[actor],
        );
        // A fixed actor has a class of its own: its candidates are not a domain.
        let next = first.len();
        if world.is_fixed(actor) {
            first.push(actor);
            return next;
        }
        *known.entry(alike).or_insert_with(|| {
            first.push(actor);
            next
        })
    });
    (class.collect(), first)
}

/// Whether there are constraints with running totals, such as power caps.
pub(crate) fn has_running_totals(world: &Snapshot) -> bool {
    !violation_trackers(world).is_empty()
}
