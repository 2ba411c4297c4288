//! What is healed by the last decision while a newer one is not there yet.

use crate::nouns::{Decision, Seen, State};
use crate::steps::{End, Step, Todo};

/// Leaves of what is to be done what heals: whoever was decided for and has no pod is started where it was, and what ended
/// is taken away. Nobody is moved or replaced, and no Instance comes or goes: that is for the newer decision.
pub fn only_heal(todo: &mut Todo) {
    todo.steps.retain(|step| match step {
        Step::Start { .. } | Step::Stop { end: End::Delete | End::AtOnce, .. } => true,
        Step::Stop { end: End::Evict, .. } | Step::Create { .. } | Step::Remove { .. } => false,
    });
}

/// Whether everybody who was decided for is there, is well and of the newest template: then no place has to be looked at.
pub fn is_carried_out(decision: &Decision, seen: &Seen) -> bool {
    decision.places.iter().all(|(actor, unit)| {
        let pod = seen.instances.get(actor).and_then(|instance| instance.pod.as_ref());
        pod.is_some_and(|pod| {
            pod.unit.as_ref() == Some(unit)
                && matches!(pod.state, State::Starting | State::Runs)
                && !pod.outdated
                && pod.refusal.is_none()
        })
    })
}
