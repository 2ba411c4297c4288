//! Actors run on the kinds of units that they have an implementation for.

use super::ConstraintKind;
use crate::checker::checked::{Checked, Rule, Violation};

/// An actor needs an implementation for its unit's kind.
pub(super) struct Kinds;

impl ConstraintKind for Kinds {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        for (actor, at) in checked.placed().filter(|(actor, _)| !checked.is_fixed(*actor)) {
            let (given, unit) = (checked.actor(actor), checked.unit(at));
            if !given.runs_on.contains_key(&unit.kind) {
                let says =
                    format!("{} cannot run on {}: no implementation for {}", given.id, unit.id, unit.kind);
                found.push(Violation { rule: Rule::Kind, says });
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}
