//! One assignment beside the file, and what it breaks.

use std::fmt;

use crate::Assignment;
use crate::file::{Actor, SnapshotFile, Unit};
use crate::ix::{ActorIx, UnitIx};
use crate::reading::Reading;

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

/// What constraints are checked by: the file, and the assignment.
pub(crate) struct Checked<'a> {
    pub file: &'a SnapshotFile,
    pub reading: &'a Reading,
    /// Of as many actors, and of units that there are.
    pub assignment: &'a Assignment,
}

impl<'a> Checked<'a> {
    /// Who is placed where, by position of the actor.
    pub fn placed(&self) -> impl Iterator<Item = (ActorIx, UnitIx)> + use<'a> {
        self.assignment.enumerate().filter_map(|(actor, place)| Some((actor, (*place)?)))
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
