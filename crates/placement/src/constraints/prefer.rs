//! `prefer`: not a limit, but a penalty of the criterion `policy`; here for its syntax and sentences.

use super::ConstraintKind;
use crate::file::format::Constraint;

/// Costs its weight if the actor is placed elsewhere.
pub(super) struct Prefer;

impl ConstraintKind for Prefer {
    fn numeric_field(&self, given: &Constraint) -> Option<(&'static str, u64)> {
        let Constraint::Prefer { weight, .. } = given else { return None };
        Some(("weight", *weight))
    }

    fn describe(&self, position: usize, given: &Constraint) -> String {
        let Constraint::Prefer { unit, .. } = given else { return format!("constraints[{position}]") };
        format!("prefers {unit}")
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/prefer.lp")
    }
}
