//! `only`: actors are in some places or unplaced.

use super::{ConstraintKind, places};
use crate::checker::checked::{Checked, Violation};
use crate::file::format::{Constraint, SnapshotFile};
use crate::problem::dense::Problem;

/// Actors may be in these places only.
pub(super) struct Only;

impl ConstraintKind for Only {
    fn add_to_problem(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Only { actors, places, .. } = given else { return };
        let allows = problem.inside(places);
        problem.add_rule(position, allows, false, actors);
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let _ = given;
        format!("kept to other places by constraints[{position}]")
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        places::check(checked, found, |given, is_named, _| match given {
            Constraint::Only { .. } => is_named,
            _ => true,
        });
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}
