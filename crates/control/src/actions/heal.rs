//! What is done of what was decided while nothing new is to begin: because a newer decision is not there yet, or because the
//! application is paused.

use crate::actions::blocked_on::BlockedOn;
use crate::actions::stuck::is_in_the_way;
use crate::actions::{Action, Actions, StopMode};
use crate::model::{Decision, ObservedState, PodPhase};

/// Leaves of what is to be done what heals: whoever was decided for and has no pod is started where it was, and what ended
/// is taken away. Nobody is moved or replaced, and no Instance comes or goes: that is for the newer decision.
pub fn repair_only(todo: &mut Actions) {
    todo.actions.retain(|step| match step {
        Action::StartPod { .. } | Action::StopPod { mode: StopMode::Delete | StopMode::Force, .. } => true,
        Action::StopPod { mode: StopMode::Evict, .. }
        | Action::CreateInstance { .. }
        | Action::DeleteInstance { .. } => false,
    });
}

/// Leaves of what is to be done what finishes what was begun, and what heals: who was stopped is started, and what ended by itself
/// is taken away, so that it comes again where it was. Where the place of one that was stopped is taken by another actor that is to
/// leave it, as in an exchange of places, that one moves as well; otherwise the first would lie for as long as the application is
/// paused.
pub fn finish_in_flight(todo: &mut Actions, seen: &ObservedState) {
    let Actions { actions: steps, blocked: waiting, refused_pods: refused, ended, .. } = todo;
    let has_ended = |actor: &String| ended.contains(actor);
    let mut waits: Vec<&BlockedOn> = waiting.values().collect();
    steps.retain(|step| match step {
        Action::StartPod { .. } => true,
        // One leaves for each who waits.
        Action::StopPod { actor, mode: StopMode::Evict, .. } => {
            let pod = seen.instances.get(actor).and_then(|instance| instance.pod.as_ref());
            let whose = pod.and_then(|pod| waits.iter().position(|wait| is_in_the_way(pod, wait)));
            whose.map(|at| waits.swap_remove(at)).is_some()
        }
        Action::StopPod { actor, mode: StopMode::Delete, .. } => has_ended(actor),
        Action::StopPod { .. } | Action::CreateInstance { .. } | Action::DeleteInstance { .. } => false,
    });
    refused.clear();
}

/// Whether everybody who was decided for is there, is well and of the newest template: then no place has to be looked at.
pub fn is_fully_applied(decision: &Decision, seen: &ObservedState) -> bool {
    decision.places.iter().all(|(actor, unit)| {
        let pod = seen.instances.get(actor).and_then(|instance| instance.pod.as_ref());
        pod.is_some_and(|pod| {
            pod.unit.as_ref() == Some(unit)
                && matches!(pod.phase, PodPhase::Starting | PodPhase::Running)
                && !pod.outdated
                && pod.refusal.is_none()
        })
    })
}
