//! What `pin`, `only` and `never` have in common: each is about single actors, whatever others do.

use crate::checked::{Checked, Rule, Violation};
use crate::file::Constraint;

/// Finds those that `obeys` says no of: told the constraint, whether it names the unit that one of its actors is on, and
/// whether that actor runs there now.
pub(super) fn check(
    checked: &Checked,
    found: &mut Vec<Violation>,
    obeys: impl Fn(&Constraint, bool, bool) -> bool,
) {
    for (actor, at) in checked.placed().filter(|(actor, _)| !checked.is_fixed(*actor)) {
        for &position in &checked.reading.about[actor] {
            let is_named = checked.reading.named[&position].contains(&at);
            let is_home = checked.reading.home[actor] == Some(at);
            if !obeys(&checked.file.constraints[position], is_named, is_home) {
                let (actor, unit) = (&checked.actor(actor).id, &checked.unit(at).id);
                let says = format!("{actor} not on {unit}: {}", super::says(checked.file, position));
                found.push(Violation { rule: Rule::Constraint, says });
            }
        }
    }
}
