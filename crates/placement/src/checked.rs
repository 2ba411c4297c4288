//! One assignment beside the file, and what it breaks.

use std::fmt;

use crate::file::{Actor, SnapshotFile, Unit};
use crate::ix::{ActorIx, UnitIx};
use crate::reading::Reading;
use crate::{Assignment, Lifted};

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
    /// A rule of the policy, or a limit that what runs breaks already, which is treated as one.
    Policy,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// What constraints are checked by: the file, and the assignment.
pub(crate) struct Checked<'a> {
    pub file: &'a SnapshotFile,
    pub reading: &'a Reading,
    /// Of as many actors, and of units that there are.
    pub assignment: &'a Assignment,
    /// What runs, which excuses what it breaks already.
    pub now: &'a Assignment,
    /// What this world's rules say instead, because of a world that it is made of.
    pub lifted: Option<&'a Lifted>,
    /// What the world's rules say as well, who are followed by searches that know rules.
    pub ruled: &'a Lifted,
}

/// What is used of one limit at one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    /// By everybody.
    pub sum: i64,
    /// By whom who is not fixed, ascending.
    ours: Vec<ActorIx>,
}

impl Used {
    /// Adds what an actor uses, actors ascending.
    pub fn add(&mut self, checked: &Checked, actor: ActorIx, amount: i64) {
        self.sum += amount;
        if !checked.is_fixed(actor) && self.ours.last() != Some(&actor) {
            self.ours.push(actor);
        }
    }

    /// Whether it is more than the limit, and not by fixed actors alone.
    pub fn passes(&self, limit: i64) -> bool {
        !self.ours.is_empty() && self.sum > limit
    }

    /// Whether what runs passes the limit by as much or more, with everybody of ours who passes it.
    pub fn is_excused_by(&self, now: &Self) -> bool {
        now.sum >= self.sum && self.ours.iter().all(|actor| now.ours.binary_search(actor).is_ok())
    }
}

impl<'a> Checked<'a> {
    /// Who is placed where, by position of the actor.
    pub fn placed(&self) -> impl Iterator<Item = (ActorIx, UnitIx)> + use<'a> {
        Self::at(self.assignment)
    }

    /// Who is where in an assignment, by position of the actor.
    pub fn at(places: &Assignment) -> impl Iterator<Item = (ActorIx, UnitIx)> {
        places.enumerate().filter_map(|(actor, place)| Some((actor, (*place)?)))
    }

    /// What kind of rule a limit is: one of the policy's where the world's rules say it too.
    pub fn kind(&self, (what, place, of): (&'static str, &str, &str), own: Rule) -> Rule {
        if self.ruled.has(what, place, of) { Rule::Policy } else { own }
    }

    /// Whether the world's rules say instead what a limit demands.
    pub fn is_lifted(&self, what: &'static str, place: &str, of: &str) -> bool {
        self.lifted.is_some_and(|lifted| lifted.has(what, place, of))
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
