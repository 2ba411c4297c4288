//! One world, checked and indexed; immutable.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::file::{Scope, SnapshotFile};
use crate::ix::{ActorIx, GroupIx, IxVec, NodeIx, PlaceIx, ResourceIx, SetIx, UnitIx};
use crate::objectives::Objectives;
use crate::problem::{Edge, Implementation, PowerCap, Problem, kind_cost};
use crate::reading::Reading;
use crate::written::Written;
use crate::{Assignment, Lifted, Rules, others};

/// One world, checked and indexed: units, actors, messages, limits, and what runs where now.
///
/// Actors and units are named by their position in the file throughout; ids are for people.
#[derive(Clone)]
pub struct Snapshot {
    file: SnapshotFile,
    objectives: Objectives,
    rules: Option<Arc<Rules>>,
    /// Limits of the file that what runs breaks already, as rules; none in a world that was made of another.
    pub(crate) written: Option<Arc<Written>>,
    pub(crate) problem: Problem,
    /// What the checker reads off the file, once it is asked.
    reading: OnceLock<Arc<Reading>>,
    /// How many of the file's constraints, the last ones, a policy derived.
    pub(crate) derived: usize,
}

impl Snapshot {
    /// A file that was checked, with what was made of it.
    pub(crate) fn of(
        file: SnapshotFile,
        objectives: Objectives,
        problem: Problem,
        written: Option<Written>,
    ) -> Self {
        let world = Self {
            file,
            objectives,
            rules: None,
            written: written.map(Arc::new),
            reading: OnceLock::new(),
            problem,
            derived: 0,
        };
        world.with_rules(None)
    }

    /// The same world under a policy's rules, or without any. What runs breaks some of them already, or limits of the file: who
    /// is in such a breach is excused, and how many are is a level above all others.
    #[must_use]
    pub fn with_rules(mut self, rules: Option<Rules>) -> Self {
        const FEW: &str = "what is excused takes a few atoms for each that there is";
        let written = self.written.as_ref().filter(|written| !written.is_empty());
        let of_limits = || written.map(|_| Rules::none(self.actors()));
        let Some(mut rules) = rules.or_else(of_limits) else { return Self { rules: None, ..self } };
        if let Some(written) = written.filter(|_| rules.excuses.is_none()) {
            rules = written.beside(rules).expect(FEW);
        }
        self.rules = Some(Arc::new(rules.excusing(&self.problem.fixed, &self.problem.current).expect(FEW)));
        if self.rules().is_some_and(|rules| !rules.excuses().is_empty()) {
            self.objectives = self.objectives.with_excused();
        }
        self
    }

    /// A policy's rules about where actors are, if there are any.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// The file's text: one line of JSON that [`Snapshot::read`] takes back unchanged.
    pub fn write(&self) -> String {
        let written = if self.file.summed_up.is_empty() {
            serde_json::to_string(&self.file)
        } else {
            serde_json::to_string(&others::summed(&self.file))
        };
        written.expect("plain data with text keys always serializes")
    }

    /// The plain data.
    pub fn file(&self) -> &SnapshotFile {
        &self.file
    }

    /// How many of the file's constraints, the last ones, a policy derived.
    pub fn derived_constraints(&self) -> usize {
        self.derived
    }

    /// Limits that what runs breaks already are what the rules say of them, in a world that was made of another.
    pub(crate) fn inherited(&self) -> Option<&Lifted> {
        self.written.is_none().then_some(&self.problem.lifted)
    }

    /// What the checker reads off the file.
    pub(crate) fn reading(&self) -> &Reading {
        self.reading.get_or_init(|| Arc::new(Reading::new(&self.file)))
    }

    /// The dense form that searches read.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The levels that placements are compared by.
    pub fn objectives(&self) -> &Objectives {
        &self.objectives
    }

    /// How many actors there are.
    pub fn actors(&self) -> usize {
        self.file.actors.len()
    }

    /// How many units there are.
    pub fn units(&self) -> usize {
        self.file.units.len()
    }

    /// The id of an actor.
    pub fn actor_id(&self, actor: ActorIx) -> &str {
        &self.file.actors[actor.at()].id
    }

    /// The name of an actor, without the application that is planned.
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

    /// Whether the actor belongs to another application and stays where it is.
    pub fn is_fixed(&self, actor: ActorIx) -> bool {
        self.problem.fixed[actor]
    }

    /// Where the actor runs now.
    pub fn current(&self, actor: ActorIx) -> Option<UnitIx> {
        self.problem.current[actor]
    }

    /// The price of moving the actor once.
    pub fn move_cost(&self, actor: ActorIx) -> i64 {
        i64::try_from(self.file.actors[actor.at()].move_cost)
            .expect("numbers above 2^53 are refused on input")
    }

    /// Units that the actor may be on as far as the actor alone decides, ascending.
    pub fn candidates(&self, actor: ActorIx) -> &[UnitIx] {
        &self.problem.candidate_sets[self.problem.candidate_set[actor]]
    }

    /// Which actors have equal candidates: equal numbers mean equal [`Snapshot::candidates`].
    pub fn candidate_set(&self, actor: ActorIx) -> SetIx {
        self.problem.candidate_set[actor]
    }

    /// What the actor needs on the unit's kind, `None` if it cannot run there.
    pub fn implementation(&self, actor: ActorIx, unit: UnitIx) -> Option<&Implementation> {
        self.problem.implementation(actor, unit)
    }

    /// The actor's ties to others, peers ascending.
    pub fn edges(&self, actor: ActorIx) -> &[Edge] {
        &self.problem.edges[actor]
    }

    /// Work that a unit can do in one window.
    pub fn capacity(&self, unit: UnitIx) -> i64 {
        self.problem.capacity[unit]
    }

    /// The number of the actor's group, if it is in one. Actors of different applications share no group.
    pub fn group(&self, actor: ActorIx) -> Option<GroupIx> {
        self.problem.group[actor]
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.problem.groups
    }

    /// The names of resources; [`Implementation`] speaks of them by position.
    pub fn resources(&self) -> &IxVec<ResourceIx, String> {
        &self.problem.resources
    }

    /// What a unit provides of each resource, what is reserved taken off: below 0 where more is reserved than there is.
    pub fn unit_provides(&self, unit: UnitIx) -> &IxVec<ResourceIx, i64> {
        &self.problem.unit_provides[unit]
    }

    /// What a unit provides of a resource, what is reserved taken off, also where what runs takes more than that.
    pub fn provided_on(&self, unit: UnitIx, resource: ResourceIx) -> i64 {
        let lifted = self.problem.lifted_of_units.get(&(unit, resource));
        lifted.copied().unwrap_or(self.problem.unit_provides[unit][resource])
    }

    /// What a node provides of a resource, also where what runs takes more than that.
    pub fn provided_at(&self, node: NodeIx, resource: ResourceIx) -> i64 {
        let lifted = self.problem.lifted_of_nodes.get(&(node, resource));
        lifted.copied().unwrap_or(self.problem.node_provides[node][resource])
    }

    /// The names of nodes, also of those that only units speak of.
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

    /// The number of a unit's place within a scope: equal numbers mean the same place.
    pub fn place(&self, scope: Scope, unit: UnitIx) -> PlaceIx {
        self.problem.place(scope, unit)
    }

    /// Cost of one message between two units; 0 on the same one.
    pub fn exchange_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        self.problem.exchange_cost(a, b)
    }

    /// Cost of one message between two different units by kinds and places, overrides of pairs left aside.
    pub fn class_cost(&self, a: UnitIx, b: UnitIx) -> i64 {
        self.problem.class_cost(a, b)
    }

    /// The cost of a pair of kinds, in either order.
    pub fn kind_cost(&self, a: &str, b: &str) -> i64 {
        let cost = kind_cost(&self.file.exchange_cost, a, b).unwrap_or(0);
        i64::try_from(cost).expect("numbers above 2^53 are refused on input")
    }

    /// Watts that a unit draws: `idleWatts` while it hosts anything, and its share of `powerWatts` for the load,
    /// rounded up. A unit that is loaded beyond its capacity draws more than `powerWatts`.
    pub fn draw(&self, unit: UnitIx, load: i64, in_use: bool) -> i64 {
        self.problem.draw(unit, load, in_use)
    }

    /// The caps on power.
    pub fn power_caps(&self) -> &[PowerCap] {
        &self.problem.caps
    }

    /// Where everything is now: fixed actors and what runs; the rest has no place.
    pub fn incumbent(&self) -> Assignment {
        self.problem.current.clone()
    }
}

/// The file: what a failed test or a panic prints can be replayed.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.write())
    }
}
