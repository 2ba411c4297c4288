//! The checker: what an assignment breaks, whoever proposed it.
//!
//! It reads the snapshot afresh and shares no bookkeeping with any strategy. Rules bind placed actors only, and
//! nothing is held against actors that are `fixed`: at least one that is not must take part.

use std::collections::BTreeMap;
use std::fmt;

use crate::file::{CapScope, Constraint, Scope};
use crate::{Assignment, Snapshot};

/// One thing that an assignment breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What kind of rule it is.
    pub rule: Rule,
    /// What is wrong, in plain words.
    pub says: String,
}

/// The kinds of rules that an assignment can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Rule {
    /// The assignment is not about this snapshot.
    Malformed,
    /// The actor has no implementation for the unit's kind.
    Kind,
    /// A fixed actor is not where it stays.
    Fixed,
    /// More actors than slots.
    Slots,
    /// A unit or node gives more of a resource than it has left.
    Resource,
    /// A place draws more power than a cap allows.
    Power,
    /// A constraint of the snapshot.
    Constraint,
    /// A rule of the policy.
    Policy,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// Whether an actor is fixed, and what it needs of each resource.
type Needs<'a> = (bool, &'a [(usize, i64)]);

impl Snapshot {
    /// Everything that the assignment breaks; empty when it is lawful.
    pub fn violations(&self, assignment: &Assignment) -> Vec<Violation> {
        if let Some(problem) = self.malformed(assignment) {
            return vec![Violation { rule: Rule::Malformed, says: problem }];
        }
        let mut found = Vec::new();
        self.check_actors(assignment, &mut found);
        self.check_units(assignment, &mut found);
        self.check_nodes(assignment, &mut found);
        self.check_relations(assignment, &mut found);
        for (constraint, place, drawn, limit) in self.overdrawn(assignment) {
            let says = format!("{place}: {drawn} W drawn, {limit} W allowed: {}", self.says(constraint));
            found.push(Violation { rule: Rule::Power, says });
        }
        let of_policy = self.rules().map(|rules| rules.violations(assignment)).unwrap_or_default();
        found.extend(of_policy.into_iter().map(|says| Violation { rule: Rule::Policy, says }));
        found
    }

    fn malformed(&self, assignment: &Assignment) -> Option<String> {
        if assignment.len() != self.actors() {
            return Some(format!("{} places for {} actors", assignment.len(), self.actors()));
        }
        let unknown = assignment.iter().flatten().find(|unit| **unit >= self.units())?;
        Some(format!("there is no unit at position {unknown}"))
    }

    fn check_actors(&self, assignment: &Assignment, found: &mut Vec<Violation>) {
        for (actor, place) in assignment.iter().enumerate() {
            let id = self.actor_id(actor);
            if self.is_fixed(actor) {
                if let Some(home) = self.current(actor).filter(|home| Some(*home) != *place) {
                    let says =
                        format!("{id} belongs to another application and stays on {}", self.unit_id(home));
                    found.push(Violation { rule: Rule::Fixed, says });
                }
                continue;
            }
            let Some(unit) = *place else { continue };
            if self.implementation(actor, unit).is_none() {
                let unit = &self.file().units[unit];
                let says = format!("{id} cannot run on {}: no implementation for {}", unit.id, unit.kind);
                found.push(Violation { rule: Rule::Kind, says });
            }
            for &rule in &self.problem.rules_of[actor] {
                let rule = &self.problem.rules[rule];
                if !self.problem.obeys(actor, unit, rule) {
                    let says = format!("{id} not on {}: {}", self.unit_id(unit), self.says(rule.constraint));
                    found.push(Violation { rule: Rule::Constraint, says });
                }
            }
        }
    }

    fn check_units(&self, assignment: &Assignment, found: &mut Vec<Violation>) {
        let mut hosted: Vec<Vec<usize>> = vec![Vec::new(); self.units()];
        for (actor, place) in assignment.iter().enumerate() {
            if let Some(unit) = *place {
                hosted[unit].push(actor);
            }
        }
        for (unit, actors) in hosted.iter().enumerate() {
            let given = &self.file().units[unit];
            if let Some(slots) = given.slots
                && actors.len() as u64 > slots
                && actors.iter().any(|actor| !self.is_fixed(*actor))
            {
                let says = format!("{} hosts {} actors and has {slots} slots", given.id, actors.len());
                found.push(Violation { rule: Rule::Slots, says });
            }
            let needs = actors.iter().filter_map(|&actor| {
                let implementation = self.implementation(actor, unit)?;
                Some((self.is_fixed(actor), implementation.requires.as_slice()))
            });
            self.check_resources(&given.id, &self.problem.unit_provides[unit], needs, found);
        }
    }

    fn check_nodes(&self, assignment: &Assignment, found: &mut Vec<Violation>) {
        let mut needs: Vec<Vec<Needs>> = vec![Vec::new(); self.problem.nodes.len()];
        for (actor, place) in assignment.iter().enumerate() {
            if let Some(unit) = *place
                && let Some(implementation) = self.implementation(actor, unit)
            {
                let node = self.problem.unit_node[unit];
                needs[node].push((self.is_fixed(actor), implementation.node_requires.as_slice()));
            }
        }
        for (node, needs) in needs.into_iter().enumerate() {
            let (id, provides) = (&self.problem.nodes[node], &self.problem.node_provides[node]);
            self.check_resources(id, provides, needs.into_iter(), found);
        }
    }

    /// Sums what is wanted of each resource at one place; what only fixed actors want is not held against anybody.
    fn check_resources<'a>(
        &self,
        place: &str,
        provides: &[i64],
        needs: impl Iterator<Item = Needs<'a>>,
        found: &mut Vec<Violation>,
    ) {
        let mut wanted: BTreeMap<usize, (i64, bool)> = BTreeMap::new();
        for (fixed, needs) in needs {
            for &(resource, quantity) in needs {
                let entry = wanted.entry(resource).or_default();
                entry.0 += quantity;
                entry.1 |= !fixed;
            }
        }
        for (resource, (sum, takes_part)) in wanted {
            if takes_part && sum > provides[resource] {
                let (name, left) = (&self.problem.resources[resource], provides[resource]);
                let says = format!("{place}: {sum} of {name} wanted, {left} left");
                found.push(Violation { rule: Rule::Resource, says });
            }
        }
    }

    fn check_relations(&self, assignment: &Assignment, found: &mut Vec<Violation>) {
        for relation in &self.problem.relations {
            let place = |actor: usize| assignment[actor].map(|unit| self.problem.place(relation.scope, unit));
            let placed: Vec<(usize, usize)> =
                relation.actors.iter().filter_map(|&actor| Some((actor, place(actor)?))).collect();
            let broken = placed.iter().enumerate().find_map(|(i, &(a, at_a))| {
                let clash = |&&(b, at_b): &&(usize, usize)| {
                    (at_a == at_b) == relation.apart && !(self.is_fixed(a) && self.is_fixed(b))
                };
                placed[i + 1..].iter().find(clash).map(|&(b, _)| (a, b))
            });
            if let Some((a, b)) = broken {
                let says =
                    format!("{}, {}: {}", self.actor_id(a), self.actor_id(b), self.says(relation.constraint));
                found.push(Violation { rule: Rule::Constraint, says });
            }
        }
    }

    /// A constraint in plain words: its own reason, else what it demands.
    pub fn says(&self, constraint: usize) -> String {
        let scope = |scope: &Scope| match scope {
            Scope::Numa => "NUMA domain".to_owned(),
            other => other.to_string(),
        };
        let (reason, demands) = match &self.file().constraints[constraint] {
            Constraint::Apart { on, reason, .. } => (reason, format!("each on a {} of its own", scope(on))),
            Constraint::Together { on, reason, .. } => (reason, format!("all on one {}", scope(on))),
            Constraint::Pin { unit, reason, .. } => (reason, format!("pinned to {unit}")),
            Constraint::Only { reason, .. } => {
                (reason, format!("kept to other places by constraints[{constraint}]"))
            }
            Constraint::Never { reason, .. } => (reason, format!("kept away by constraints[{constraint}]")),
            Constraint::Prefer { unit, .. } => (&None, format!("prefers {unit}")),
            Constraint::Reserve { unit, resource, .. } => {
                (&None, format!("{resource} of {unit} is reserved"))
            }
            Constraint::PowerCap { on: CapScope::All, max, reason } => {
                (reason, format!("at most {max} W in all"))
            }
            Constraint::PowerCap { on, max, reason } => (reason, format!("at most {max} W on each {on}")),
        };
        reason.clone().unwrap_or(demands)
    }
}
