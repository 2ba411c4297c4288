//! The dense form of a snapshot: positions instead of names, summed pairs, computed candidates.

use std::collections::BTreeMap;

use crate::error::number;
use crate::file::format::{Constraint, ExchangeCost, Places, Scope, SnapshotFile};
use crate::ix::{
    ActorIx, GroupIx, Ix, IxVec, KindIx, NodeIx, PlaceIx, RelationIx, ResourceIx, RuleIx, SetIx, UnitIx,
};
use crate::problem::channels::{self, Channels, Pairs};
use crate::problem::paths::Paths;
use crate::problem::shared_links::SharedLinks;
use crate::{Criterion, Objectives, SuspendedLimits};

/// The requirements of an actor on one kind, summed over the actor's and the kind's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Implementation {
    /// Work per window.
    pub work: i64,
    /// Resources of the unit and quantities; none is zero.
    pub requires: Vec<(ResourceIx, i64)>,
    /// Resources of the node and quantities; none is zero.
    pub node_requires: Vec<(ResourceIx, i64)>,
}

/// The edge between an actor and another one, both directions summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// The other actor.
    pub peer: ActorIx,
    /// Messages per window.
    pub rate: i64,
    /// The share of them that is sent to the other actor.
    pub sent: i64,
    /// Drag if they are separated.
    pub annoyance: i64,
    /// Drag if they share a unit.
    pub interference: i64,
}

/// Surcharges of a message between two units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedCosts {
    /// Different NUMA domains of one node.
    pub numa: i64,
    /// Different nodes.
    pub node: i64,
    /// Different zones, in addition to nodes.
    pub zone: i64,
}

/// A rule about the units of single actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRule {
    /// Position of the constraint in the snapshot.
    pub constraint: usize,
    /// For each unit, whether the rule permits it.
    pub allows: IxVec<UnitIx, bool>,
    /// Whether current placements there are exempt.
    pub except_current: bool,
}

/// An `apart` or `together` over positions of actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityRule {
    /// Position of the constraint in the snapshot.
    pub constraint: usize,
    /// `apart`, else `together`.
    pub apart: bool,
    /// The topology level.
    pub scope: Scope,
    /// Its actors, ascending.
    pub actors: Vec<ActorIx>,
}

/// A `powerCap` over numbered domains.
#[derive(Clone, Debug, Default)]
pub struct PowerDomains {
    /// Position of the constraint in the snapshot.
    pub constraint: usize,
    /// By unit: its domain.
    pub place: IxVec<UnitIx, PlaceIx>,
    /// By domain: the permitted power. If fixed actors alone exceed the cap, their power.
    pub limit: IxVec<PlaceIx, i64>,
    /// By domain: its name.
    pub name: IxVec<PlaceIx, String>,
}

/// A snapshot in dense form: positions instead of names, summed pairs, computed limits and candidates.
///
/// It is created with a [`Snapshot`](crate::Snapshot), and immutable.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// Positions of actors by id.
    pub actor_by_id: BTreeMap<String, ActorIx>,
    /// Positions of units by id.
    pub unit_by_id: BTreeMap<String, UnitIx>,
    /// Names of kinds, ascending.
    pub kinds: IxVec<KindIx, String>,
    /// Names of resources, ascending.
    pub resources: IxVec<ResourceIx, String>,
    /// Names of nodes, ascending.
    pub nodes: IxVec<NodeIx, String>,
    /// Named zones.
    pub zones: BTreeMap<String, PlaceIx>,
    /// By unit: its kind.
    pub unit_kind: IxVec<UnitIx, KindIx>,
    /// By unit: its node.
    pub unit_node: IxVec<UnitIx, NodeIx>,
    /// By unit: its NUMA domain; an unknown one is unique.
    pub unit_numa: IxVec<UnitIx, PlaceIx>,
    /// By unit: its zone; an unknown one is unique.
    pub unit_zone: IxVec<UnitIx, PlaceIx>,
    /// By unit: work per window.
    pub capacity: IxVec<UnitIx, i64>,
    /// By unit: the number of slots, if limited.
    pub slots: IxVec<UnitIx, Option<i64>>,
    /// By unit: idle power, and additional power at full load, in watts.
    pub watts: IxVec<UnitIx, (i64, i64)>,
    /// By unit and resource: provided minus reserved; unlimited for a suspended limit.
    pub unit_provides: IxVec<UnitIx, IxVec<ResourceIx, i64>>,
    /// By node and resource.
    pub node_provides: IxVec<NodeIx, IxVec<ResourceIx, i64>>,
    /// By node: its price while it hosts anything.
    pub licence_cost: IxVec<NodeIx, i64>,
    /// By node: its units, ascending.
    pub units_of_node: IxVec<NodeIx, Vec<UnitIx>>,
    /// By actor and kind.
    pub implementations: IxVec<ActorIx, IxVec<KindIx, Option<Implementation>>>,
    /// By actor: its current unit, which it is priced for leaving.
    pub current: IxVec<ActorIx, Option<UnitIx>>,
    /// By actor: the unit where it runs, for exemptions and excuses: its current one, unless it arrives there.
    pub running: IxVec<ActorIx, Option<UnitIx>>,
    /// By actor: whether it belongs to another application and stays.
    pub fixed: IxVec<ActorIx, bool>,
    /// Movable actors, ascending.
    pub movable: Vec<ActorIx>,
    /// By actor: the cost of moving it once.
    pub move_cost: IxVec<ActorIx, i64>,
    /// By actor: its group; group names are local to an application.
    pub group: IxVec<ActorIx, Option<GroupIx>>,
    /// The number of groups.
    pub groups: usize,
    /// Caps on power.
    pub caps: Vec<PowerDomains>,
    /// Limits that the current placement already violates: they do not bind here, and are rules of the snapshot.
    pub suspended_limits: SuspendedLimits,
    /// The quantities of suspended resources of units.
    pub suspended_of_units: BTreeMap<(UnitIx, ResourceIx), i64>,
    /// The quantities of suspended resources of nodes.
    pub suspended_of_nodes: BTreeMap<(NodeIx, ResourceIx), i64>,
    /// The message graph; empty unless a level names `latency`.
    pub(crate) paths: Paths,
    /// Channels between groups.
    pub channels: Channels,
    /// Links that units share.
    pub shared_links: SharedLinks,
    /// By actor, peers ascending; includes pairs of group channels if those are expanded.
    pub edges: IxVec<ActorIx, Vec<Edge>>,
    /// Rules about single actors, by actor: positions in `rules`.
    pub rules_of: IxVec<ActorIx, Vec<RuleIx>>,
    /// Rules about single actors.
    pub rules: IxVec<RuleIx, UnitRule>,
    /// Rules about the relative location of actors.
    pub relations: IxVec<RelationIx, AffinityRule>,
    /// By actor: positions in `relations`.
    pub relations_of: IxVec<ActorIx, Vec<RelationIx>>,
    /// By actor: position in `candidate_sets`.
    pub candidate_set: IxVec<ActorIx, SetIx>,
    /// Units permitted by constraints on the actor alone, ascending; each set once.
    pub candidate_sets: IxVec<SetIx, Vec<UnitIx>>,
    /// By pair of kinds.
    pub(super) kind_cost: IxVec<KindIx, IxVec<KindIx, i64>>,
    pub(super) other_numa: i64,
    pub(super) other_node: i64,
    pub(super) other_zone: i64,
    /// By unit: other units at a cost of their own, ascending; empty if there are none at all.
    pub(super) pair_cost: IxVec<UnitIx, Vec<(UnitIx, i64)>>,
}

impl Problem {
    /// Indexes a checked file; constraints add themselves.
    pub(crate) fn new(
        file: &SnapshotFile,
        objectives: &Objectives,
        channels: Channels,
        enter_constraints: impl FnOnce(&SnapshotFile, &mut Self),
    ) -> Self {
        let mut problem = Self {
            actor_by_id: positions(file.actors.iter().map(|actor| &actor.id)),
            unit_by_id: positions(file.units.iter().map(|unit| &unit.id)),
            kinds: sorted(
                file.units
                    .iter()
                    .map(|unit| &unit.kind)
                    .chain(file.actors.iter().flat_map(|a| a.runs_on.keys())),
            ),
            nodes: sorted(
                file.units.iter().map(|unit| &unit.node).chain(file.nodes.iter().map(|node| &node.id)),
            ),
            resources: sorted(resource_names(file)),
            channels,
            ..Self::default()
        };
        problem.read_units(file);
        problem.read_actors(file);
        problem.read_edges(file);
        problem.read_exchange_cost(&file.exchange_cost);
        problem.shared_links = SharedLinks::new(file, &problem.unit_by_id);
        problem.rules_of = IxVec::of(Vec::new(), file.actors.len());
        problem.relations_of = IxVec::of(Vec::new(), file.actors.len());
        enter_constraints(file, &mut problem);
        problem.find_candidates(file);
        if objectives.names(Criterion::Latency) {
            let pairs = problem.channels.enough_pairs();
            problem.paths = Paths::of(file, pairs).expect("cycles of messages are refused on input");
        }
        problem
    }

    fn read_units(&mut self, file: &SnapshotFile) {
        let units = file.units.len();
        let mut numa_domains = BTreeMap::new();
        for (position, unit) in file.units.iter().enumerate() {
            let node = self.node(&unit.node);
            self.unit_kind.push(self.kind(&unit.kind));
            self.unit_node.push(node);
            // Named domains are numbered after the units; an unknown one has its unit's number.
            self.unit_numa.push(unit.numa.as_deref().map_or(PlaceIx::new(position), |name| {
                let next = PlaceIx::new(units + numa_domains.len());
                *numa_domains.entry((node, name)).or_insert(next)
            }));
            self.unit_zone.push(unit.zone.as_ref().map_or(PlaceIx::new(position), |name| {
                let next = PlaceIx::new(units + self.zones.len());
                *self.zones.entry(name.clone()).or_insert(next)
            }));
            self.capacity.push(number(unit.capacity));
            self.slots.push(unit.slots.map(number));
            self.watts.push((number(unit.idle_watts.unwrap_or(0)), number(unit.power_watts.unwrap_or(0))));
            self.unit_provides.push(self.quantities(&unit.provides));
        }
        self.licence_cost = IxVec::of(0, self.nodes.len());
        self.units_of_node = IxVec::of(Vec::new(), self.nodes.len());
        for (unit, node) in self.unit_node.enumerate() {
            self.units_of_node[*node].push(unit);
        }
        self.node_provides = IxVec::of(IxVec::of(0, self.resources.len()), self.nodes.len());
        for node in &file.nodes {
            let position = self.node(&node.id);
            self.node_provides[position] = self.quantities(&node.provides);
            self.licence_cost[position] = number(node.licence_cost.unwrap_or(0));
        }
    }

    fn read_actors(&mut self, file: &SnapshotFile) {
        let mut groups = BTreeMap::new();
        for actor in &file.actors {
            self.group.push(actor.group.as_deref().map(|group| {
                let application = actor.id.rsplit_once('/').map(|(application, _)| application);
                let next = GroupIx::new(groups.len());
                *groups.entry((application, group)).or_insert(next)
            }));
            let mut by_kind = IxVec::of(None, self.kinds.len());
            for (kind, runs_on) in &actor.runs_on {
                let mut requires = actor.requires.clone();
                for (resource, quantity) in &runs_on.requires {
                    *requires.entry(resource.clone()).or_default() += quantity;
                }
                by_kind[self.kind(kind)] = Some(Implementation {
                    work: number(runs_on.work),
                    requires: self.needs(&requires),
                    node_requires: self.needs(&runs_on.node_requires),
                });
            }
            self.implementations.push(by_kind);
            self.current.push(actor.current.as_ref().map(|unit| self.unit_by_id[unit]));
            self.running.push(actor.running().map(|unit| self.unit_by_id[unit]));
            self.move_cost.push(number(actor.move_cost));
            let position = self.fixed.push(actor.fixed);
            if !actor.fixed {
                self.movable.push(position);
            }
        }
        self.groups = groups.len();
    }

    fn read_edges(&mut self, file: &SnapshotFile) {
        let mut pairs: BTreeMap<(ActorIx, ActorIx), Edge> = BTreeMap::new();
        let mut add = |a: &str, b: &str, change: &dyn Fn(&mut Edge)| {
            let (a, b) = (self.actor_by_id[a], self.actor_by_id[b]);
            if a != b {
                change(pairs.entry((a.min(b), a.max(b))).or_default());
            }
        };
        for message in &file.messages {
            let is_up = self.actor_by_id[&message.from] < self.actor_by_id[&message.to];
            add(&message.from, &message.to, &|edge| {
                edge.rate += number(message.count);
                edge.sent += if is_up { number(message.count) } else { 0 };
            });
        }
        for pair in &file.annoyance {
            add(&pair.a, &pair.b, &|edge| edge.annoyance += number(pair.drag));
        }
        for pair in &file.interference {
            add(&pair.a, &pair.b, &|edge| edge.interference += number(pair.drag));
        }
        if self.channels.is_written_out {
            channels::for_each_pair(file, Pairs::All, |from, to, channel| {
                let edge = pairs.entry((from.min(to), from.max(to))).or_default();
                edge.rate += number(channel.count);
                edge.sent += if from < to { number(channel.count) } else { 0 };
                // Within a group the pair occurs twice.
                let is_first = channel.from != channel.to || from < to;
                edge.annoyance += if is_first { number(channel.drag) } else { 0 };
            });
        }
        self.edges = IxVec::of(Vec::new(), file.actors.len());
        for ((a, b), edge) in pairs {
            self.edges[a].push(Edge { peer: b, ..edge });
            self.edges[b].push(Edge { peer: a, sent: edge.rate - edge.sent, ..edge });
        }
        for edges in &mut self.edges {
            edges.sort_unstable_by_key(|edge| edge.peer);
        }
    }

    fn read_exchange_cost(&mut self, cost: &ExchangeCost) {
        let kinds = &self.kinds;
        self.kind_cost = kinds
            .iter()
            .map(|a| kinds.iter().map(|b| number(cost.of_kinds(a, b).unwrap_or(0))).collect())
            .collect();
        self.other_numa = number(cost.other_numa);
        self.other_node = number(cost.other_node);
        self.other_zone = number(cost.other_zone);
        if !cost.pairs.is_empty() {
            self.pair_cost = IxVec::of(Vec::new(), self.capacity.len());
        }
        for pair in &cost.pairs {
            let (a, b) = (self.unit_by_id[&pair.a], self.unit_by_id[&pair.b]);
            self.pair_cost[a].push((b, number(pair.cost)));
            self.pair_cost[b].push((a, number(pair.cost)));
        }
        for costs in &mut self.pair_cost {
            costs.sort_unstable();
            costs.dedup();
        }
    }

    /// An `apart` or `together`.
    pub(crate) fn add_relation(&mut self, constraint: usize, apart: bool, scope: Scope, actors: &[String]) {
        let mut actors: Vec<ActorIx> = actors.iter().map(|actor| self.actor_by_id[actor]).collect();
        actors.sort_unstable();
        actors.dedup();
        for &actor in &actors {
            self.relations_of[actor].push(RelationIx::new(self.relations.len()));
        }
        self.relations.push(AffinityRule { constraint, apart, scope, actors });
    }

    /// A rule that permits some units only.
    pub(crate) fn add_rule(
        &mut self,
        constraint: usize,
        allows: IxVec<UnitIx, bool>,
        except_current: bool,
        actors: &[String],
    ) {
        for actor in actors {
            self.rules_of[self.actor_by_id[actor]].push(RuleIx::new(self.rules.len()));
        }
        self.rules.push(UnitRule { constraint, allows, except_current });
    }

    /// For each unit, whether it is in `places`.
    pub(crate) fn inside(&self, places: &Places) -> IxVec<UnitIx, bool> {
        let mut inside = IxVec::of(false, self.capacity.len());
        match places {
            Places::Units(units) => units.iter().for_each(|unit| inside[self.unit_by_id[unit]] = true),
            Places::Nodes(nodes) => {
                let nodes: Vec<NodeIx> = nodes.iter().map(|node| self.node(node)).collect();
                for (unit, node) in self.unit_node.enumerate() {
                    inside[unit] = nodes.contains(node);
                }
            }
            Places::Zones(zones) => {
                let known: Vec<PlaceIx> =
                    zones.iter().filter_map(|zone| self.zones.get(zone).copied()).collect();
                for (unit, zone) in self.unit_zone.enumerate() {
                    inside[unit] = known.contains(zone);
                }
            }
        }
        inside
    }

    fn find_candidates(&mut self, file: &SnapshotFile) {
        let mut known: BTreeMap<Vec<UnitIx>, SetIx> = BTreeMap::new();
        // Actors with equal requirements and rules share a candidate set.
        let mut alike: BTreeMap<_, SetIx> = BTreeMap::new();
        let mut set_of = IxVec::new();
        for (actor, given) in self.current.positions().zip(&file.actors) {
            let home = self.running[actor];
            let is_own = |rule: &RuleIx| self.rules[*rule].except_current;
            let told_apart = home.filter(|_| given.fixed || self.rules_of[actor].iter().any(is_own));
            let key = (&self.implementations[actor], &self.rules_of[actor], told_apart, given.fixed);
            let set = *alike.entry(key).or_insert_with(|| {
                let units = match (given.fixed, home) {
                    (true, Some(unit)) => vec![unit],
                    _ => self.capacity.positions().filter(|&unit| self.may_host(actor, unit)).collect(),
                };
                let next = SetIx::new(known.len());
                *known.entry(units).or_insert(next)
            });
            set_of.push(set);
        }
        self.candidate_set = set_of;
        self.candidate_sets = IxVec::of(Vec::new(), known.len());
        for (units, set) in known {
            self.candidate_sets[set] = units;
        }
    }

    /// Whether kind, rules and capacity permit the actor on the unit, regardless of others.
    fn may_host(&self, actor: ActorIx, unit: UnitIx) -> bool {
        let Some(needs) = &self.implementations[actor][self.unit_kind[unit]] else { return false };
        needs.requires.iter().all(|&(resource, quantity)| quantity <= self.unit_provides[unit][resource])
            && needs
                .node_requires
                .iter()
                .all(|&(resource, quantity)| quantity <= self.node_provides[self.unit_node[unit]][resource])
            && self.rules_of[actor].iter().all(|&rule| self.obeys(actor, unit, &self.rules[rule]))
            && self.caps.iter().all(|cap| self.draw(unit, needs.work, true) <= cap.limit[cap.place[unit]])
    }

    fn kind(&self, name: &String) -> KindIx {
        let found = self.kinds.raw().binary_search(name);
        KindIx::new(found.expect("every kind of the file is in the sorted list"))
    }

    fn node(&self, name: &String) -> NodeIx {
        let found = self.nodes.raw().binary_search(name);
        NodeIx::new(found.expect("every node of the file is in the sorted list"))
    }

    /// The position of a resource named in the file.
    pub fn resource(&self, name: &String) -> ResourceIx {
        let found = self.resources.raw().binary_search(name);
        ResourceIx::new(found.expect("every resource of the file is in the sorted list"))
    }

    /// Quantities by resource; unlisted ones are 0.
    fn quantities(&self, given: &BTreeMap<String, u64>) -> IxVec<ResourceIx, i64> {
        let mut quantities = IxVec::of(0, self.resources.len());
        for (resource, quantity) in given {
            quantities[self.resource(resource)] = number(*quantity);
        }
        quantities
    }

    /// The resources with a positive requirement.
    fn needs(&self, given: &BTreeMap<String, u64>) -> Vec<(ResourceIx, i64)> {
        given.iter().filter(|(_, q)| **q > 0).map(|(r, q)| (self.resource(r), number(*q))).collect()
    }
}

fn resource_names(file: &SnapshotFile) -> impl Iterator<Item = &String> {
    let of_actors = file.actors.iter().flat_map(|actor| {
        let of_kinds = actor.runs_on.values().flat_map(|r| r.requires.keys().chain(r.node_requires.keys()));
        actor.requires.keys().chain(of_kinds)
    });
    let reserved = file.constraints.iter().filter_map(|constraint| match constraint {
        Constraint::Reserve { resource, .. } => Some(resource),
        _ => None,
    });
    (file.units.iter().flat_map(|unit| unit.provides.keys()))
        .chain(file.nodes.iter().flat_map(|node| node.provides.keys()))
        .chain(of_actors)
        .chain(reserved)
}

fn positions<'a, I: Ix>(ids: impl Iterator<Item = &'a String>) -> BTreeMap<String, I> {
    ids.enumerate().map(|(position, id)| (id.clone(), I::new(position))).collect()
}

fn sorted<'a, I>(names: impl Iterator<Item = &'a String>) -> IxVec<I, String> {
    // Equal sets often follow each other.
    let mut names: Vec<&String> = names.collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names.into_iter().cloned().collect()
}
