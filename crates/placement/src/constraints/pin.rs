//! `pin`: an actor is on one unit or unplaced.

use super::{ConstraintKind, places};
use crate::checker::checked::{Checked, Violation};
use crate::error::SnapshotError;
use crate::file::format::{Constraint, SnapshotFile};
use crate::file::names::Names;
use crate::problem::dense::Problem;

/// An actor may be on this unit only.
pub(super) struct Pin;

impl ConstraintKind for Pin {
    fn refuse_contradiction<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        let Constraint::Pin { actor, unit, .. } = given else { return Ok(()) };
        match names.pin(actor, unit) {
            Some(other) if other != unit => {
                let problem = format!("`{actor}` is pinned to `{other}` and to `{unit}`; keep one");
                Err(SnapshotError::new(format!("constraints[{position}].unit"), problem))
            }
            _ => Ok(()),
        }
    }

    fn add_to_problem(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Pin { actor, unit, .. } = given else { return };
        let unit = problem.unit_by_id[unit];
        let allows = problem.capacity.positions().map(|other| other == unit).collect();
        problem.add_rule(position, allows, false, std::slice::from_ref(actor));
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Pin { unit, .. } = given else { return format!("constraints[{position}]") };
        format!("pinned to {unit}")
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        places::check(checked, found, |given, is_named, _| match given {
            Constraint::Pin { .. } => is_named,
            _ => true,
        });
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}
