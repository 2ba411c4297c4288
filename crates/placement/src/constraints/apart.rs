//! `apart`: no two actors are at one place.

use super::{Limit, relations};
use crate::checked::{Checked, Violation};
use crate::error::SnapshotError;
use crate::file::{Constraint, SnapshotFile};
use crate::names::Names;
use crate::problem::Problem;

/// All on different units, NUMA domains, nodes or zones.
pub(super) struct Apart;

impl Limit for Apart {
    fn check_names<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        names.all_actors(position, given.actors())
    }

    fn enter(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Apart { on, actors, .. } = given else { return };
        problem.add_relation(position, true, *on, actors);
    }

    fn demands(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Apart { on, .. } = given else { return format!("constraints[{position}]") };
        format!("each on a {} of its own", relations::in_words(*on))
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        relations::check(checked, found, true, |given| match given {
            Constraint::Apart { on, .. } => Some(*on),
            _ => None,
        });
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/relations.lp")
    }
}
