//! A checked and indexed snapshot; immutable.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::checker::index::CheckerIndex;
use crate::evaluation::objectives::Objectives;
use crate::file::foreign_actors;
use crate::file::format::{Scope, SnapshotFile};
use crate::file::node_zones;
use crate::ix::{ActorIx, GroupIx, IxVec, NodeIx, PlaceIx, ResourceIx, SetIx, UnitIx};
use crate::problem::dense::{Edge, Implementation, PowerDomains, Problem};
use crate::rules::circuit::RuleCircuit;
use crate::{Assignment, Rules, SuspendedLimits};

/// A checked and indexed snapshot: units, actors, messages, limits, and current placements.
///
/// Actors and units are identified by their position in the file; ids are for display.
#[derive(Clone)]
pub struct Snapshot {
    file: SnapshotFile,
    objectives: Objectives,
    rules: Option<Arc<Rules>>,
    /// Already violated limits of the file, as rules; none in a snapshot that was derived from another.
    pub(crate) written: Option<Arc<RuleCircuit>>,
    pub(crate) problem: Problem,
    /// The checker's index, created on first use.
    checker_index: OnceLock<Arc<CheckerIndex>>,
    /// The number of constraints, the last ones, that a policy derived.
    pub(crate) derived: usize,
}

impl Snapshot {
    /// A checked file with its derived data.
    pub(crate) fn of(
        file: SnapshotFile,
        objectives: Objectives,
        problem: Problem,
        written: Option<RuleCircuit>,
    ) -> Self {
        let world = Self {
            file,
            objectives,
            rules: None,
            written: written.map(Arc::new),
            checker_index: OnceLock::new(),
            problem,
            derived: 0,
        };
        world.with_rules(None)
    }

    /// The same snapshot with a policy's rules, or none. Violations of what runs now, of rules or limits, are grandfathered;
    /// the number of actors in such violations is a level above all others.
    #[must_use]
    pub fn with_rules(mut self, rules: Option<Rules>) -> Self {
        const FEW: &str = "what is excused takes a few atoms for each that there is";
        let written = self.written.as_ref().filter(|written| !written.is_empty());
        let of_limits = || written.map(|_| Rules::none(self.actors()));
        let Some(mut rules) = rules.or_else(of_limits) else { return Self { rules: None, ..self } };
        if let Some(written) = written.filter(|_| rules.excuses.is_none()) {
            rules = written.beside(rules).expect(FEW);
        }
        self.rules = Some(Arc::new(rules.excusing(&self.problem.fixed, &self.problem.running).expect(FEW)));
        if self.rules().is_some_and(|rules| !rules.excuses().is_empty()) {
            self.objectives = self.objectives.with_excused();
        }
        self
    }

    /// A policy's rules over placements, if there are any.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// The file's text: one line of JSON that [`Snapshot::read`] reads back unchanged.
    pub fn write(&self) -> String {
        let mut file = Cow::Borrowed(&self.file);
        if !file.summed_up.is_empty() {
            file = Cow::Owned(foreign_actors::summed(&file));
        }
        if !file.zones_of_nodes.is_empty() {
            node_zones::remove(file.to_mut());
        }
        serde_json::to_string(file.as_ref()).expect("plain data with text keys always serializes")
    }

    /// The plain data.
    pub fn file(&self) -> &SnapshotFile {
        &self.file
    }

    /// The number of constraints, the last ones, that a policy derived.
    pub fn derived_constraints(&self) -> usize {
        self.derived
    }

    /// The limits that rules represent in a snapshot that was derived from another.
    pub(crate) fn inherited(&self) -> Option<&SuspendedLimits> {
        self.written.is_none().then_some(&self.problem.suspended_limits)
    }

    /// The checker's index.
    pub(crate) fn checker_index(&self) -> &CheckerIndex {
        self.checker_index.get_or_init(|| Arc::new(CheckerIndex::new(&self.file)))
    }

    /// The dense form for searches.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The levels by which placements are compared.
    pub fn objectives(&self) -> &Objectives {
        &self.objectives
    }

    /// The number of actors.
    pub fn actors(&self) -> usize {
        self.file.actors.len()
    }

    /// The number of units.
    pub fn units(&self) -> usize {
        self.file.units.len()
    }

    /// The id of an actor.
    pub fn actor_id(&self, actor: ActorIx) -> &str {
        &self.file.actors[actor.at()].id
    }

    /// The name of an actor, without the planned application.
    pub fn short_name(&self, actor: ActorIx) -> &str {
        let id = self.actor_id(actor);
        let application = self.file().application.as_deref();
        application.and_then(|application| id.strip_prefix(application)?.strip_prefix('/')).unwrap_or(id)
    }

    /// The id of a unit.
    pub fn unit_id(&self, unit: UnitIx) -> &str {
        &self.file.units[unit.at()].id
    }

    /// The position of the actor of this id.
    pub fn actor(&self, id: &str) -> Option<ActorIx> {
        self.problem.actor_by_id.get(id).copied()
    }

    /// The position of the unit of this id.
    pub fn unit(&self, id: &str) -> Option<UnitIx> {
        self.problem.unit_by_id.get(id).copied()
    }

    /// Whether the actor belongs to another application and stays.
    pub fn is_fixed(&self, actor: ActorIx) -> bool {
        self.problem.fixed[actor]
    }

    /// The actor's current unit.
    pub fn current(&self, actor: ActorIx) -> Option<UnitIx> {
        self.problem.current[actor]
    }

    /// The unit where the actor runs: its current one, unless it arrives there.
    pub fn running(&self, actor: ActorIx) -> Option<UnitIx> {
        self.problem.running[actor]
    }

    /// The cost of moving the actor once.
    pub fn move_cost(&self, actor: ActorIx) -> i64 {
        i64::try_from(self.file.actors[actor.at()].move_cost)
            .expect("numbers above 2^53 are refused on input")
    }

    /// Units permitted by constraints on the actor alone, ascending.
    pub fn candidates(&self, actor: ActorIx) -> &[UnitIx] {
        &self.problem.candidate_sets[self.problem.candidate_set[actor]]
    }

    /// The actor's candidate set: equal numbers mean equal [`Snapshot::candidates`].
    pub fn candidate_set(&self, actor: ActorIx) -> SetIx {
        self.problem.candidate_set[actor]
    }

    /// The actor's requirements on the unit's kind, `None` if it cannot run there.
    pub fn implementation(&self, actor: ActorIx, unit: UnitIx) -> Option<&Implementation> {
        self.problem.implementation(actor, unit)
    }

    /// The actor's edges, peers ascending.
    pub fn edges(&self, actor: ActorIx) -> &[Edge] {
        &self.problem.edges[actor]
    }

    /// The work per window of a unit.
    pub fn capacity(&self, unit: UnitIx) -> i64 {
        self.problem.capacity[unit]
    }

    /// The number of the actor's group, if any. Actors of different applications share no group.
    pub fn group(&self, actor: ActorIx) -> Option<GroupIx> {
        self.problem.group[actor]
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.problem.groups
    }

    /// The names of resources; [`Implementation`] refers to them by position.
    pub fn resources(&self) -> &IxVec<ResourceIx, String> {
        &self.problem.resources
    }

    /// What a unit provides of each resource, minus reservations: negative if more is reserved than provided.
    pub fn unit_provides(&self, unit: UnitIx) -> &IxVec<ResourceIx, i64> {
        &self.problem.unit_provides[unit]
    }

    /// What a unit provides of a resource, minus reservations, even if the limit is suspended.
    pub fn provided_on(&self, unit: UnitIx, resource: ResourceIx) -> i64 {
        let suspended = self.problem.suspended_of_units.get(&(unit, resource));
        suspended.copied().unwrap_or(self.problem.unit_provides[unit][resource])
    }

    /// What a node provides of a resource, even if the limit is suspended.
    pub fn provided_at(&self, node: NodeIx, resource: ResourceIx) -> i64 {
        let suspended = self.problem.suspended_of_nodes.get(&(node, resource));
        suspended.copied().unwrap_or(self.problem.node_provides[node][resource])
    }

    /// The names of nodes, including those that only units mention.
    pub fn nodes(&self) -> &IxVec<NodeIx, String> {
        &self.problem.nodes
    }

    /// The position of a unit's node.
    pub fn node_of(&self, unit: UnitIx) -> NodeIx {
        self.problem.unit_node[unit]
    }

    /// What a node provides of each resource.
    pub fn node_provides(&self, node: NodeIx) -> &IxVec<ResourceIx, i64> {
        &self.problem.node_provides[node]
    }

    /// The number of a unit's domain within a scope: equal numbers mean the same domain.
    pub fn place(&self, scope: Scope, unit: UnitIx) -> PlaceIx {
        self.problem.place(scope, unit)
    }

    /// Cost of one message between two units; 0 on the same one.
    pub fn exchange_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        self.problem.exchange_cost(a, b)
    }

    /// Cost of one message between two different units by kinds and domains, ignoring costs of single pairs.
    pub fn class_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        self.problem.class_cost(a, b)
    }

    /// The cost of a pair of kinds, in either order.
    pub fn kind_cost(&self, a: &str, b: &str) -> i64 {
        let cost = self.file.exchange_cost.of_kinds(a, b).unwrap_or(0);
        i64::try_from(cost).expect("numbers above 2^53 are refused on input")
    }

    /// The power of a unit in watts: `idleWatts` while it hosts anything, and its share of `powerWatts` for the load,
    /// rounded up. An overloaded unit draws more than `powerWatts`.
    pub fn draw(&self, unit: UnitIx, load: i64, in_use: bool) -> i64 {
        self.problem.draw(unit, load, in_use)
    }

    /// The caps on power.
    pub fn power_caps(&self) -> &[PowerDomains] {
        &self.problem.caps
    }

    /// The current placement: fixed actors and running ones; all others are unplaced.
    pub fn incumbent(&self) -> Assignment {
        self.problem.current.clone()
    }
}

/// Prints the file, so that a failed test or a panic can be replayed.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write())
    }
}
