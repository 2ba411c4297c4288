//! `only`: actors are in some places or nowhere.

use super::{Limit, places};
use crate::checked::{Checked, Violation};
use crate::error::SnapshotError;
use crate::file::{Constraint, SnapshotFile};
use crate::names::Names;
use crate::problem::Problem;

/// Actors may be in these places only.
pub(super) struct Only;

impl Limit for Only {
    fn check_names<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        names.all_actors(position, given.actors())?;
        let Constraint::Only { places, .. } = given else { return Ok(()) };
        names.places(position, places)
    }

    fn enter(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Only { actors, places, .. } = given else { return };
        let allows = problem.inside(places);
        problem.add_rule(position, allows, false, actors);
    }

    fn demands(&self, position: usize, given: &Constraint) -> String {
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
