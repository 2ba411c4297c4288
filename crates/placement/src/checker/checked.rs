//! An assignment together with its file, and its violations.

use std::fmt;

use crate::checker::index::CheckerIndex;
use crate::file::format::{Actor, SnapshotFile, Unit};
use crate::ix::{ActorIx, UnitIx};
use crate::{Assignment, SuspendedLimits};

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the violated rule.
    pub rule: Rule,
    /// The violation as a sentence.
    pub says: String,
}

/// The kinds of rules that an assignment can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Rule {
    /// The assignment does not belong to this snapshot.
    Malformed,
    /// The actor has no implementation for the unit's kind.
    Kind,
    /// A fixed actor was moved.
    Fixed,
    /// More actors than slots.
    Slots,
    /// A resource of a unit or node is overcommitted.
    Resource,
    /// A power cap is exceeded.
    Power,
    /// A constraint of the snapshot.
    Constraint,
    /// A rule of the policy, or an already violated limit, which is treated as one.
    Policy,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// The input of constraint checks: the file, and the assignment.
pub(crate) struct Checked<'a> {
    pub file: &'a SnapshotFile,
    pub index: &'a CheckerIndex,
    /// The numbers of actors and units match.
    pub assignment: &'a Assignment,
    /// The current placement, whose violations are grandfathered.
    pub now: &'a Assignment,
    /// Limits that rules represent, inherited from the original snapshot.
    pub suspended: Option<&'a SuspendedLimits>,
    /// Limits that rules represent in addition, for searches that follow rules.
    pub ruled: &'a SuspendedLimits,
}

/// The use of one limit in one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    /// By all actors.
    pub sum: i64,
    /// The movable actors that use it, ascending.
    ours: Vec<ActorIx>,
}

impl Used {
    /// Adds an actor's use; actors in ascending order.
    pub fn add(&mut self, checked: &Checked, actor: ActorIx, amount: i64) {
        self.sum += amount;
        if !checked.is_fixed(actor) && self.ours.last() != Some(&actor) {
            self.ours.push(actor);
        }
    }

    /// Whether the limit is exceeded, and not by fixed actors alone.
    pub fn passes(&self, limit: i64) -> bool {
        !self.ours.is_empty() && self.sum > limit
    }

    /// Whether the current placement exceeds the limit by at least as much, with the same movable actors.
    pub fn is_excused_by(&self, now: &Self) -> bool {
        now.sum >= self.sum && self.ours.iter().all(|actor| now.ours.binary_search(actor).is_ok())
    }
}

impl<'a> Checked<'a> {
    /// The placed actors with their units.
    pub fn placed(&self) -> impl Iterator<Item = (ActorIx, UnitIx)> + use<'a> {
        Self::at(self.assignment)
    }

    /// The placements of an assignment, by actor.
    pub fn at(places: &Assignment) -> impl Iterator<Item = (ActorIx, UnitIx)> {
        places.enumerate().filter_map(|(actor, place)| Some((actor, (*place)?)))
    }

    /// The kind of a limit: a policy rule if the snapshot's rules represent it too.
    pub fn kind(&self, (what, place, of): (&'static str, &str, &str), own: Rule) -> Rule {
        if self.ruled.has(what, place, of) { Rule::Policy } else { own }
    }

    /// Whether the snapshot was made with rules for a limit that the current placement violates: only then is the violation
    /// grandfathered.
    pub fn is_grounded(&self, (what, place, of): (&'static str, &str, &str)) -> bool {
        self.ruled.has(what, place, of)
    }

    /// Whether the snapshot's rules represent a limit.
    pub fn is_suspended(&self, what: &'static str, place: &str, of: &str) -> bool {
        self.suspended.is_some_and(|suspended| suspended.has(what, place, of))
    }

    /// What the file says of an actor.
    pub fn actor(&self, actor: ActorIx) -> &'a Actor {
        &self.file.actors[actor.at()]
    }

    /// What the file says of a unit.
    pub fn unit(&self, unit: UnitIx) -> &'a Unit {
        &self.file.units[unit.at()]
    }

    pub fn is_fixed(&self, actor: ActorIx) -> bool {
        self.actor(actor).fixed
    }
}
