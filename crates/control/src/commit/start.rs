//! Applications that start all their actors together.

use std::collections::BTreeSet;

use placement::ix::ActorIx;
use placement::{Judged, Plan, Snapshot, Unplaced};

use crate::actions::blocked_on::BlockedOn;
use crate::actions::{Action, Actions};
use crate::commit::full_cost;
use crate::model::ObservedState;

/// Unplaces all actors of an `AllOrNothing` application if one is unplaced, so that two such applications never hold each
/// other's capacity.
#[must_use]
pub fn all_or_nothing(snapshot: &Snapshot, mut plan: Plan) -> Plan {
    let own: Vec<ActorIx> =
        ActorIx::first(snapshot.actors()).filter(|&actor| !snapshot.is_fixed(actor)).collect();
    let without = own.iter().filter(|&&actor| plan.assignment[actor].is_none()).count();
    if without == 0 {
        return plan;
    }
    let reason = match without {
        1 => "spec.start is AllOrNothing, and 1 other actor cannot be placed".to_owned(),
        many => format!("spec.start is AllOrNothing, and {many} other actors cannot be placed"),
    };
    for &actor in &own {
        if plan.assignment[actor].take().is_some() {
            plan.unplaced.push(Unplaced { actor, reasons: vec![reason.clone()], holds: None });
        }
    }
    plan.unplaced.sort_by_key(|unplaced| unplaced.actor);
    plan.cost = full_cost(snapshot, &plan.assignment);
    plan.moves.clear();
    plan.excused.clear();
    plan.bound.clear();
    (plan.optimal, plan.proven_by, plan.judged) = (false, None, Judged::None);
    plan
}

/// Whether the application has started: one of its pods exists.
pub fn has_started(observed: &ObservedState) -> bool {
    observed.instances.values().any(|instance| instance.pod.is_some())
}

/// Holds back all starts of an `AllOrNothing` application while one of its actors is blocked, infeasible, or without an
/// Instance.
pub fn hold_start(actions: &mut Actions, observed: &ObservedState, infeasible: &BTreeSet<String>) {
    let is_made = |step: &Action| matches!(step, Action::CreateInstance { .. });
    let is_whole =
        infeasible.is_empty() && actions.blocked.is_empty() && !actions.actions.iter().any(is_made);
    if has_started(observed) || is_whole {
        return;
    }
    let mut held = Vec::new();
    actions.actions.retain(|step| match step {
        Action::StartPod { actor, .. } => {
            held.push(actor.clone());
            false
        }
        _ => true,
    });
    actions.blocked.extend(held.into_iter().map(|actor| (actor, BlockedOn::GangStart)));
}
