//! Restricted reconciliation, while a newer decision is pending or the application is paused.

use crate::actions::blocked_on::BlockedOn;
use crate::actions::stuck::is_in_the_way;
use crate::actions::{Action, Actions, StopMode};
use crate::backoff::refusals::RefusedPod;
use crate::model::{Decision, ObservedState, PodPhase};

/// Keeps only actions that repair: create Instances and start pods that are missing of decided actors, and delete pods that
/// ended. Moves, rollouts and other Instances are left to the newer decision.
pub fn repair_only(actions: &mut Actions, decision: &Decision) {
    actions.actions.retain(|step| match step {
        Action::StartPod { .. } | Action::StopPod { mode: StopMode::Delete | StopMode::Force, .. } => true,
        Action::CreateInstance { actor } => decision.places.contains_key(actor),
        Action::StopPod { mode: StopMode::Evict, .. } | Action::DeleteInstance { .. } => false,
    });
}

/// Keeps only actions that repair or finish a move that has begun. A stopped actor whose unit is held by another actor
/// that has to move, as in a swap, also needs that move: otherwise it would be down for as long as the application is
/// paused. The same holds for the refusal of an actor that moves for a gain: it goes back. A deleted Instance of a decided actor is
/// created again.
pub fn finish_in_flight(actions: &mut Actions, decision: &Decision, observed: &ObservedState) {
    let Actions { actions: steps, blocked: waiting, refused_pods: refused, not_evicted, ended, .. } = actions;
    let has_ended = |actor: &String| ended.contains(actor);
    let is_of_move = |it: &RefusedPod| {
        decision.elective.contains_key(&it.actor) && decision.places.get(&it.actor) == Some(&it.unit)
    };
    refused.retain(is_of_move);
    let mut waits: Vec<&BlockedOn> = waiting.values().collect();
    steps.retain(|step| match step {
        Action::StartPod { .. } => true,
        // One eviction for each blocked actor.
        Action::StopPod { actor, mode: StopMode::Evict, .. } => {
            let pod = observed.instances.get(actor).and_then(|instance| instance.pod.as_ref());
            let holder = pod.and_then(|pod| waits.iter().position(|wait| is_in_the_way(pod, wait)));
            holder.map(|at| waits.swap_remove(at)).is_some()
        }
        Action::StopPod { actor, mode: StopMode::Delete, .. } => {
            has_ended(actor) || refused.iter().any(|it| it.actor == *actor)
        }
        Action::CreateInstance { actor } => decision.places.contains_key(actor),
        Action::StopPod { .. } | Action::DeleteInstance { .. } => false,
    });
    not_evicted.clear();
}

/// Whether every decided actor has a healthy pod of the newest template at its unit; then no placement has to be
/// checked.
pub fn is_fully_applied(decision: &Decision, observed: &ObservedState) -> bool {
    decision.places.iter().all(|(actor, unit)| {
        let pod = observed.instances.get(actor).and_then(|instance| instance.pod.as_ref());
        pod.is_some_and(|pod| {
            pod.unit.as_ref() == Some(unit)
                && matches!(pod.phase, PodPhase::Starting | PodPhase::Running)
                && !pod.outdated
                && pod.refusal.is_none()
        })
    })
}
