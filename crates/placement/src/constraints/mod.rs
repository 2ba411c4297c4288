//! Constraints: what placements must keep to. One file each.
//!
//! A new constraint is its fields in the file format ([`Constraint`]), a file here that implements [`Limit`], its two lines
//! in this one, and its program in `policies/` (docs/ARCHITECTURE.md goes through an example). Reading and checking of
//! files, the checker, [`State`](crate::State), explanations and `search` go by the list and name none.

mod apart;
mod fixed;
mod kinds;
mod never;
mod only;
mod pin;
mod places;
mod power_cap;
mod prefer;
pub(crate) mod relations;
mod reserve;
pub(crate) mod resources;
pub(crate) mod slots;
mod together;

use crate::Snapshot;
use crate::checked::{Checked, Violation};
use crate::criteria::Step;
use crate::error::SnapshotError;
use crate::file::{Constraint, SnapshotFile};
use crate::ix::ActorIx;
use crate::names::Names;
use crate::problem::Problem;

macro_rules! limits {
    (of_the_world { $($own:ident in $own_module:ident;)* } of_the_file { $($name:ident in $module:ident;)* }) => {
        /// Every constraint there is.
        const LIMITS: &[&dyn Limit] = &[$(&$own_module::$own,)* $(&$module::$name,)*];

        /// What is known of a constraint of the file.
        fn limit(given: &Constraint) -> &'static dyn Limit {
            match given {
                $(Constraint::$name { .. } => &$module::$name,)*
            }
        }
    };
}

limits! {
    of_the_world {
        Fixed in fixed;
        Kinds in kinds;
        Slots in slots;
        Resources in resources;
    }
    of_the_file {
        Pin in pin;
        Only in only;
        Never in never;
        Reserve in reserve;
        Apart in apart;
        Together in together;
        PowerCap in power_cap;
        Prefer in prefer;
    }
}

/// What is known of one constraint.
pub(crate) trait Limit: Sync {
    /// Refuses names that do not exist, and contradictions.
    fn check_names<'a>(
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

    /// Enters one of the file into the problem that searches read.
    fn enter(&self, position: usize, given: &Constraint, file: &SnapshotFile, problem: &mut Problem) {
        let _ = (position, given, file, problem);
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

/// Refuses names that do not exist, and contradictions.
pub(crate) fn check_names<'a>(file: &'a SnapshotFile, names: &mut Names<'a>) -> Result<(), SnapshotError> {
    let mut constraints = file.constraints.iter().enumerate();
    constraints.try_for_each(|(position, given)| limit(given).check_names(position, given, names))
}

/// The number of a constraint, by the name of its field.
pub(crate) fn number(given: &Constraint) -> Option<(&'static str, u64)> {
    limit(given).number(given)
}

/// What the constraints of a file could add up to.
pub(crate) fn largest(file: &SnapshotFile) -> impl Iterator<Item = (&'static str, &'static str, u128)> {
    LIMITS.iter().filter_map(|limit| limit.largest(file))
}

/// Enters the constraints of a file into the problem.
pub(crate) fn enter(file: &SnapshotFile, problem: &mut Problem) {
    for (position, given) in file.constraints.iter().enumerate() {
        limit(given).enter(position, given, file, problem);
    }
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
