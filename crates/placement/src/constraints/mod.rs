//! Constraints that placements must satisfy. One file each.
//!
//! A new constraint is a file here that implements [`ConstraintKind`], its `mod` line in this one, its entry with its fields in the
//! list of [`Constraint`], and its program in `policies/` (docs/ARCHITECTURE.md goes through an example). Reading and
//! checking of files, the checker, [`State`](crate::State), explanations, `search` and `asp` go by the list and name none.

mod apart;
pub(crate) mod avoid;
mod fixed;
mod kinds;
mod never;
mod only;
mod peers;
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
use crate::checker::checked::{Checked, Violation};
use crate::criteria::{Encoding, Facts, Step};
use crate::error::SnapshotError;
use crate::file::constraint::each_constraint;
use crate::file::format::{Constraint, SnapshotFile};
use crate::file::names::Names;
use crate::ix::{ActorIx, UnitIx};
use crate::problem::dense::Problem;
use crate::problem::room::Rooms;
use crate::rules::circuit::{CurrentPlacement, RuleCircuit, Writer};
use crate::rules::suspended_limits::SuspendedLimits;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident in $module:ident { $($fields:tt)+ })+) => {
        /// All constraints: those of the snapshot's units and nodes, and those that a file lists.
        const CONSTRAINT_KINDS: &[&dyn ConstraintKind] =
            &[&fixed::Fixed, &kinds::Kinds, &slots::Slots, &resources::Resources, $(&$module::$name,)+];

        /// The implementation of a constraint of the file.
        fn kind_of(given: &Constraint) -> &'static dyn ConstraintKind {
            match given {
                $(Constraint::$name { .. } => &$module::$name,)+
            }
        }
    };
}

each_constraint!(limits);

/// The implementation of one constraint.
pub(crate) trait ConstraintKind: Sync {
    /// Refuses contradictions with an earlier constraint.
    fn refuse_contradiction<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        let _ = (position, given, names);
        Ok(())
    }

    /// Its number, by the name of the field.
    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let _ = given;
        None
    }

    /// An upper bound of its sums in an unchecked file, and the field that it is due to, such as `units`, `power`.
    fn largest(&self, file: &SnapshotFile) -> Option<(&'static str, &'static str, u128)> {
        let _ = file;
        None
    }

    /// The quantity of a resource that it reserves.
    fn reserved_quantity<'a>(&self, given: &'a Constraint) -> Option<(&'a String, u64)> {
        let _ = given;
        None
    }

    /// Divides its quantity of a resource, rounding down, if all requirements of that resource are divided.
    fn divide(&self, given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
        let _ = (given, factor);
    }

    /// Adds a constraint of the file to the dense problem.
    fn add_to_problem(
        &self,
        position: usize,
        given: &Constraint,
        file: &SnapshotFile,
        problem: &mut Problem,
    ) {
        let _ = (position, given, file, problem);
    }

    /// Names the limits that the current placement violates with a movable actor.
    fn find_violated(&self, now: &CurrentPlacement, found: &mut SuspendedLimits) {
        let _ = (now, found);
    }

    /// Suspends those of them that are its own, before candidates are computed.
    fn suspend(&self, suspended: &SuspendedLimits, file: &SnapshotFile, problem: &mut Problem) {
        let _ = (suspended, file, problem);
    }

    /// Grounds its suspended limits.
    fn ground(&self, writer: &mut Writer) {
        let _ = writer;
    }

    /// The incremental violation terms of a snapshot's constraints, each with its position in the file. Not for
    /// those that [`Problem`] itself has lists of: resources of units and nodes, candidates, relations.
    fn violation_trackers(&self, snapshot: &Snapshot) -> Vec<(usize, Box<dyn ViolationTracker>)> {
        let _ = snapshot;
        Vec::new()
    }

    /// Its demand as a sentence.
    fn describe(&self, position: usize, given: &Constraint) -> String {
        let _ = given;
        format!("constraints[{position}]")
    }

    /// The violations of an assignment, by the file alone.
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        let _ = (checked, found);
    }

    /// What the snapshot's constraints count of a unit besides its actors, its kind and its domains, unit by unit: units are
    /// symmetric only if that is equal.
    fn symmetry_counts(
        &self,
        snapshot: &Snapshot,
        rooms: &Rooms,
        report: &mut dyn FnMut(UnitIx, Vec<Option<i64>>),
    ) {
        let _ = (snapshot, rooms, report);
    }

    /// Writes the facts that its program needs.
    fn facts(&self, world: &Encoding, facts: &mut Facts) {
        let _ = (world, facts);
    }

    /// The largest sum of indivisible numbers in its program, and the field that it is due to, such as `units`, `watts`.
    fn most_sum(&self, world: &Encoding) -> Option<(&'static str, &'static str, i64)> {
        let _ = world;
        None
    }

    /// The largest sum of work in its program.
    fn most_work(&self, world: &Encoding) -> i64 {
        let _ = world;
        0
    }

    /// Its program for clingo.
    fn program(&self) -> &'static str;
}

/// The violation of a constraint, updated actor by actor.
pub trait ViolationTracker: Send + Sync {
    /// Applies the addition or removal of an actor.
    fn count(&mut self, snapshot: &Snapshot, step: &Step);

    /// The amount of the violation; 0 if satisfied.
    fn value(&self) -> i64;

    /// Whether it would be violated after an addition.
    fn refuses(&self, snapshot: &Snapshot, step: &Step) -> bool;

    /// Whether it depends on an actor's unit.
    fn concerns(&self, snapshot: &Snapshot, actor: ActorIx) -> bool {
        let _ = (snapshot, actor);
        true
    }

    /// A boxed copy.
    fn boxed(&self) -> Box<dyn ViolationTracker>;
}

impl Clone for Box<dyn ViolationTracker> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// The violation terms of a snapshot with no actor placed, each with its position in the file.
pub fn violation_trackers(snapshot: &Snapshot) -> Vec<(usize, Box<dyn ViolationTracker>)> {
    CONSTRAINT_KINDS.iter().flat_map(|kind| kind.violation_trackers(snapshot)).collect()
}

/// The programs of all constraints, each once.
pub fn programs() -> Vec<&'static str> {
    let mut programs = Vec::new();
    for program in CONSTRAINT_KINDS.iter().map(|kind| kind.program()) {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    programs
}

/// Writes the facts that the programs of all constraints need.
pub fn facts(world: &Encoding, facts: &mut Facts) {
    for kind in CONSTRAINT_KINDS {
        kind.facts(world, facts);
    }
}

/// The largest sums of indivisible numbers in the programs: the field that each is due to, and its value.
pub fn most_sums(world: &Encoding) -> impl Iterator<Item = (&'static str, &'static str, i64)> {
    CONSTRAINT_KINDS.iter().filter_map(|kind| kind.most_sum(world))
}

/// The largest sum of work in a program.
pub fn most_work(world: &Encoding) -> i64 {
    CONSTRAINT_KINDS.iter().map(|kind| kind.most_work(world)).max().unwrap_or(0)
}

/// What constraints count of units besides their actors, unit by unit.
pub(crate) fn symmetry_counts(
    snapshot: &Snapshot,
    rooms: &Rooms,
    report: &mut dyn FnMut(UnitIx, Vec<Option<i64>>),
) {
    for kind in CONSTRAINT_KINDS {
        kind.symmetry_counts(snapshot, rooms, report);
    }
}

/// Refuses unknown names, and contradictions.
pub(crate) fn check_names<'a>(file: &'a SnapshotFile, names: &mut Names<'a>) -> Result<(), SnapshotError> {
    file.constraints.iter().enumerate().try_for_each(|(position, given)| {
        names.of_constraint(position, given)?;
        kind_of(given).refuse_contradiction(position, given, names)
    })
}

/// The number of a constraint, by the name of its field.
pub(crate) fn numeric_field(given: &Constraint) -> Option<(&'static str, u64)> {
    kind_of(given).numeric_field(given)
}

/// Upper bounds of the sums of a file's constraints.
pub(crate) fn largest(file: &SnapshotFile) -> impl Iterator<Item = (&'static str, &'static str, u128)> {
    CONSTRAINT_KINDS.iter().filter_map(|kind| kind.largest(file))
}

/// The quantity of a resource that a constraint reserves.
pub(crate) fn reserved_quantity(given: &Constraint) -> Option<(&String, u64)> {
    kind_of(given).reserved_quantity(given)
}

/// Divides a constraint's quantity of a resource.
pub(crate) fn divide(given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
    kind_of(given).divide(given, factor);
}

/// Adds the constraints of a file to the dense problem.
pub(crate) fn add_to_problem(file: &SnapshotFile, problem: &mut Problem) {
    for (position, given) in file.constraints.iter().enumerate() {
        kind_of(given).add_to_problem(position, given, file, problem);
    }
}

/// Suspends the limits that the current placement violates, and returns them; or suspends known ones, of a snapshot that this one
/// is a part or a scaling of.
pub(crate) fn suspend(known: Option<SuspendedLimits>, file: &SnapshotFile, problem: &mut Problem) {
    let suspended = known.unwrap_or_else(|| {
        let (now, mut found) = (CurrentPlacement::new(file, problem), SuspendedLimits::default());
        for kind in CONSTRAINT_KINDS {
            kind.find_violated(&now, &mut found);
        }
        found
    });
    if !suspended.is_empty() {
        for kind in CONSTRAINT_KINDS {
            kind.suspend(&suspended, file, problem);
        }
        problem.suspended_limits = suspended;
    }
}

/// The suspended limits as rules over candidates, or over all units.
pub(crate) fn suspended_rules(file: &SnapshotFile, problem: &Problem, everywhere: bool) -> RuleCircuit {
    let mut writer = Writer::new(file, problem, everywhere);
    for kind in CONSTRAINT_KINDS {
        kind.ground(&mut writer);
    }
    writer.finish()
}

/// The violations of an assignment.
pub(crate) fn check(checked: &Checked) -> Vec<Violation> {
    let mut found = Vec::new();
    for kind in CONSTRAINT_KINDS {
        kind.check(checked, &mut found);
    }
    found
}

/// A constraint as a sentence: its own reason, otherwise its demand.
pub(crate) fn says(file: &SnapshotFile, position: usize) -> String {
    let given = &file.constraints[position];
    given.reason().map_or_else(|| kind_of(given).describe(position, given), str::to_owned)
}
