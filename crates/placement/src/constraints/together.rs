//! `together`: actors share one place.

use super::{Limit, relations};
use crate::checked::{Checked, Violation};
use crate::error::SnapshotError;
use crate::file::{Constraint, SnapshotFile};
use crate::names::Names;
use crate::problem::Problem;

/// All on the same unit, NUMA domain, node or zone.
pub(super) struct Together;

impl Limit for Together {
    fn check_names<'a>(
        &self,
        position: usize,
        given: &'a Constraint,
        names: &mut Names<'a>,
    ) -> Result<(), SnapshotError> {
        names.all_actors(position, given.actors())
    }

    fn enter(&self, position: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Together { on, actors, .. } = given else { return };
        problem.add_relation(position, false, *on, actors);
    }

    fn demands(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Together { on, .. } = given else { return format!("constraints[{position}]") };
        format!("all on one {}", relations::in_words(*on))
    }

    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        relations::check(checked, found, false, |given| match given {
            Constraint::Together { on, .. } => Some(*on),
            _ => None,
        });
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/relations.lp")
    }
}
