//! Shared code of `pin`, `only` and `never`, each of which concerns single actors.

use crate::checker::checked::{Checked, Rule, Violation};
use crate::file::format::Constraint;

/// Finds violations of `obeys`, given the constraint, whether it names the unit of one of its actors, and whether that
/// is where the actor runs.
pub(super) fn check(
    checked: &Checked,
    found: &mut Vec<Violation>,
    obeys: impl Fn(&Constraint, bool, bool) -> bool,
) {
    for (actor, at) in checked.placed().filter(|(actor, _)| !checked.is_fixed(*actor)) {
        for &position in &checked.index.about[actor] {
            let is_named = checked.index.named[&position].contains(&at);
            let is_home = checked.index.running[actor] == Some(at);
            if !obeys(&checked.file.constraints[position], is_named, is_home) {
                let (actor, unit) = (&checked.actor(actor).id, &checked.unit(at).id);
                let says = format!("{actor} not on {unit}: {}", super::says(checked.file, position));
                found.push(Violation { rule: Rule::Constraint, says });
            }
        }
    }
}
