//! `reserve`: a quantity of a unit's resource stays free. The remainder is checked with the other [resources](super::resources).

use super::ConstraintKind;
use crate::checker::index::number;
use crate::file::format::{Constraint, SnapshotFile};
use crate::problem::dense::Problem;

/// Reserves a quantity of a unit's resource.
pub(super) struct Reserve;

impl ConstraintKind for Reserve {
    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::Reserve { quantity, .. } = given else { return None };
        Some(("quantity", *quantity))
    }

    fn reserved_quantity<'a>(&self, given: &'a Constraint) -> Option<(&'a String, u64)> {
        let Constraint::Reserve { resource, quantity, .. } = given else { return None };
        Some((resource, *quantity))
    }

    fn divide(&self, given: &mut Constraint, factor: &dyn Fn(&str) -> u64) {
        if let Constraint::Reserve { resource, quantity, .. } = given {
            *quantity /= factor(resource);
        }
    }

    fn add_to_problem(&self, _: usize, given: &Constraint, _: &SnapshotFile, problem: &mut Problem) {
        let Constraint::Reserve { unit, resource, quantity } = given else { return };
        let (unit, resource) = (problem.unit_by_id[unit], problem.resource(resource));
        problem.unit_provides[unit][resource] -= number(*quantity);
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Reserve { unit, resource, .. } = given else {
            return format!("constraints[{position}]");
        };
        format!("{resource} of {unit} is reserved")
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/limits.lp")
    }
}
