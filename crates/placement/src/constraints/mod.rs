//! Constraints: what placements must keep to. One file each.
//!
//! A new constraint is a file here that implements [`Limit`], its `mod` line in this one, its entry with its fields in the
//! list of [`Constraint`], and its program in `policies/` (docs/ARCHITECTURE.md goes through an example). Reading and
//! checking of files, the checker, [`State`](crate::State), explanations, `search` and `asp` go by the list and name none.

mod apart;
mod fixed;
mod kinds;
mod never;
mod only;
mod pin;
mod places;
mod power_cap;
mod prefer;
mod quota;
pub(crate) mod relations;
mod reserve;
pub(crate) mod resources;
pub(crate) mod slots;
mod together;
mod watts;

use crate::Snapshot;
use crate::checked::{Checked, Violation};
use crate::constraint::each_constraint;
use crate::criteria::{Encoding, Facts, Step};
use crate::error::SnapshotError;
use crate::file::{Constraint, SnapshotFile};
use crate::ix::{ActorIx, UnitIx};
use crate::lifted::Lifted;
use crate::names::Names;
use crate::problem::Problem;
use crate::room::Rooms;
use crate::written::{Now, Writer, Written};

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident { $($fields:tt)+ })+) => {
        /// Every constraint there is: those of the world, and those that a file lists.
        const LIMITS: &[&dyn Limit] =
            &[&fixed::Fixed, &kinds::Kinds, &slots::Slots, &resources::Resources, $(&$module::$name,)+];

        /// What is known of a constraint of the file.
        fn limit(given: &Constraint) -> &'static dyn Limit {
            match given {
                $(Constraint::$name { .. } => &$module::$name,)+
            }
        }
    };
}

each_constraint!(limits);

/// What is known of one constraint.
pub(crate) trait Limit: Sync {
    /// Refuses what contradicts a constraint before it.
    fn agrees<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        let _ = (position, given, names);
        Ok(())
    }

    /// Its number, by the name of the field.
    fn number(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let _ = given;
        None
    }

    /// What it could add up to in a file whose numbers are too large, and what is to blame, as in `units`, `power`.
    fn largest(&self, file: &SnapshotFile) -> Option<(&'static str, &'static str, u128)> {
        let _ = file;
        None
    }

    /// What it takes of a resource for itself.
    fn takes<'a>(&self, given: &'a Constraint) -> Option<(&'a String, u64)> {
        let _ = given;
        None
    }

    /// Divides what it says of a resource, and rounds it down, where all that is required of that one is divided.
    fn divide(&self, given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
        let _ = (given, factor);
    }

    /// Enters one of the file into the problem that searches read.
    fn enter(&self, position: usize, given: &Constraint, file: &SnapshotFile, problem: &mut Problem) {
        let _ = (position, given, file, problem);
    }

    /// Names those that what runs breaks already, somebody who can move in it.
    fn broken(&self, now: &Now, found: &mut Lifted) {
        let _ = (now, found);
    }

    /// Takes those of them that are its own off the problem, whose candidates are not known yet.
    fn lift(&self, lifted: &Lifted, file: &SnapshotFile, problem: &mut Problem) {
        let _ = (lifted, file, problem);
    }

    /// Writes out what was taken off.
    fn write_out(&self, writer: &mut Writer) {
        let _ = writer;
    }

    /// By how much those of a world are broken while actors come and go, each with its position in the file. Not for
    /// those that [`Problem`] itself has lists of: units' and nodes' resources, places, relations.
    fn excesses(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn Excess>)> {
        let _ = snapshot;
        Vec::new()
    }

    /// What one of the file demands, in plain words.
    fn demands(&self, position: usize, given: &Constraint) -> String {
        let _ = given;
        format!("constraints[{position}]")
    }

    /// What an assignment breaks, by the file alone.
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let _ = (checked, found);
    }

    /// What those of a world count of a unit beside who comes there, its kind and its place, told unit by unit: units are
    /// symmetric only where that is equal.
    fn tell_apart(&self, snapshot: &Snapshot, rooms: &Rooms, tell: &mut dyn FnMut(UnitIx, Vec<Option<i64>>)) {
        let _ = (snapshot, rooms, tell);
    }

    /// Says what its program has to know of a world.
    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let _ = (world, facts);
    }

    /// The largest sum that its program can form of numbers that nothing divides, and what is to blame, as in `units`, `watts`.
    fn most_sum(&self, world: &Encoding) -> Option<(&'static str, &'static str, i64)> {
        let _ = world;
        None
    }

    /// The largest sum of numbers of work that its program can form.
    fn most_work(&self, world: &Encoding) -> i64 {
        let _ = world;
        0
    }

    /// What it means to clingo.
    fn program(&self) -> &'static str;
}

/// By how much a constraint is broken, actor by actor.
pub trait Excess: Send + Sync {
    /// An actor comes to a unit, or leaves one.
    fn count(&mut self, snapshot: &Snapshot, step: &Step);

    /// By how much it is broken; 0 where it is kept.
    fn value(&self) -> i64;

    /// Whether it would be broken where an actor comes to.
    fn refuses(&self, snapshot: &Snapshot, step: &Step) -> bool;

    /// Whether it depends on where an actor is.
    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        let _ = (snapshot, actor);
        true
    }

    /// The same again.
    fn boxed(&self) -> Box<dyn Excess>;
}

impl Clone for Box<dyn Excess> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// The constraints of a world that are followed step by step, nobody placed, each with its position in the file.
pub fn excesses(snapshot: &Snapshot) -> Vec<(usize, Box<dyn Excess>)> {
    LIMITS.iter().flat_map(|limit| limit.excesses(snapshot)).collect()
}

/// The programs of all constraints, each once.
pub fn programs() -> Vec<&'static str> {
    let mut programs = Vec::new();
    for program in LIMITS.iter().map(|limit| limit.program()) {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    programs
}

/// Says what the programs of all constraints have to know of a world.
pub fn facts(world: &Encoding, facts: &mut Facts) {
    for limit in LIMITS {
        limit.facts(world, facts);
    }
}

/// The largest sums that the programs can form of numbers that nothing divides: what is to blame, and what it is.
pub fn most_sums(world: &Encoding) -> impl Iterator<Item = (&'static str, &'static str, i64)> {
    LIMITS.iter().filter_map(|limit| limit.most_sum(world))
}

/// The largest sum of numbers of work that a program can form.
pub fn most_work(world: &Encoding) -> i64 {
    LIMITS.iter().map(|limit| limit.most_work(world)).max().unwrap_or(0)
}

/// What constraints count of units beside who comes there, told unit by unit.
pub(crate) fn tell_apart(snapshot: &Snapshot, rooms: &Rooms, tell: &mut dyn FnMut(UnitIx, Vec<Option<i64>>)) {
    for limit in LIMITS {
        limit.tell_apart(snapshot, rooms, tell);
    }
}

/// Refuses names that do not exist, and contradictions.
pub(crate) fn check_names<'a>(file: &'a SnapshotFile, names: &mut Names<'a>) -> Result<(), SnapshotError> {
    file.constraints.iter().enumerate().try_for_each(|(position, given)| {
        names.of_constraint(position, given)?;
        limit(given).agrees(position, given, names)
    })
}

/// The number of a constraint, by the name of its field.
pub(crate) fn number(given: &Constraint) -> Option<(&'static str, u64)> {
    limit(given).number(given)
}

/// What the constraints of a file could add up to.
pub(crate) fn largest(file: &SnapshotFile) -> impl Iterator<Item = (&'static str, &'static str, u128)> {
    LIMITS.iter().filter_map(|limit| limit.largest(file))
}

/// What a constraint takes of a resource for itself.
pub(crate) fn takes(given: &Constraint) -> Option<(&String, u64)> {
    limit(given).takes(given)
}

/// Divides what a constraint says of a resource.
pub(crate) fn divide(given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
    limit(given).divide(given, factor);
}

/// Enters the constraints of a file into the problem.
pub(crate) fn enter(file: &SnapshotFile, problem: &mut Problem) {
    for (position, given) in file.constraints.iter().enumerate() {
        limit(given).enter(position, given, file, problem);
    }
}

/// Takes what runs breaks already off the problem, and says what that is; or else what is known to be, of a world that this
/// one is a part of, or is in other numbers.
pub(crate) fn lift(known: Option<Lifted>, file: &SnapshotFile, problem: &mut Problem) {
    let lifted = known.unwrap_or_else(|| {
        let (now, mut found) = (Now::new(file, problem), Lifted::default());
        for limit in LIMITS {
            limit.broken(&now, &mut found);
        }
        found
    });
    if !lifted.is_empty() {
        for limit in LIMITS {
            limit.lift(&lifted, file, problem);
        }
        problem.lifted = lifted;
    }
}

/// What was taken off, as rules about where actors can be, or about everywhere.
pub(crate) fn write_out(file: &SnapshotFile, problem: &Problem, everywhere: bool) -> Written {
    let mut writer = Writer::new(file, problem, everywhere);
    for limit in LIMITS {
        limit.write_out(&mut writer);
    }
    writer.finish()
}

/// What an assignment breaks.
pub(crate) fn check(checked: &Checked) -> Vec<Violation> {
    let mut found = Vec::new();
    for limit in LIMITS {
        limit.check(checked, &mut found);
    }
    found
}

/// A constraint in plain words: its own reason, else what it demands.
pub(crate) fn says(file: &SnapshotFile, position: usize) -> String {
    let given = &file.constraints[position];
    given.reason().map_or_else(|| limit(given).demands(position, given), str::to_owned)
}
