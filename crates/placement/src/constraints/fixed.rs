//! Fixed actors stay where they are.

use super::ConstraintKind;
use crate::checker::checked::{Checked, Rule, Violation};

/// An actor of another application is not moved.
pub(super) struct Fixed;

impl ConstraintKind for Fixed {
    fn check(&self, checked: &Checked, found: &mut Vec<Violation>) {
        for (actor, &place) in checked.assignment.enumerate().filter(|(actor, _)| checked.is_fixed(*actor)) {
            if let Some(home) = checked.index.running[actor].filter(|home| Some(*home) != place) {
                let (id, home) = (&checked.actor(actor).id, &checked.unit(home).id);
                found.push(Violation {
                    rule: Rule::Fixed,
                    says: format!("{id} belongs to another application and stays on {home}"),
                });
            }
        }
    }

    fn program(&self) -> &'static str {
        include_str!("../../../../policies/choose.lp")
    }
}
