//! `never`: actors are excluded from some places, those that run there exempt if it says so.

use super::{ConstraintKind, places};
use crate::checker::checked::{Checked, Violation};
use crate::file::format::{Constraint, SnapshotFile};
use crate::problem::dense::Problem;

/// Actors may not be in these places.
pub(super) struct Never;

impl ConstraintKind for Never {
    fn add_to_problem(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Never { actors, places, except_current, .. } = given else { return };
        let allows = problem.inside(places).iter().map(|inside| !inside).collect();
        problem.add_rule(position, allows, *except_current, actors);
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let _ = given;
        format!("kept away by constraints[{position}]")
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        places::check(checked, found, |given, is_named, is_home| match given {
            Constraint::Never { except_current, .. } => !is_named || (*except_current && is_home),
            _ => true,
        });
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}
