//! Observed state of an application, and the actions that follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use control::{Action, Backoff, Refusal, RefusalScope, StopMode};
use crds::{ActorApplication, DevicePool, Placement, StartPolicy};
use kube::ResourceExt;
use world::{ApplicationKey, OwnedObjects, Policy, Unit, object_name};

use crate::apply::recheck_places;
use crate::apply::rollout::Rollout;
use crate::error::Error;
use crate::plan::observe::infeasible;
use crate::runtime::clock::{from_wall_clock, moment};
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// Whether a Placement was made for this generation.
pub fn is_newest(decision: &Placement, application: &ActorApplication) -> bool {
    Some(decision.spec.application_generation) == application.metadata.generation
}

/// The observed state of an application.
pub struct ObservedApplication {
    pub units: BTreeMap<String, Unit>,
    pub state: control::ObservedState,
    pub instances: OwnedObjects,
    pub pools: BTreeMap<String, Arc<DevicePool>>,
}

/// Reads the observed state from the caches.
fn observe(
    application: &ActorApplication,
    ctx: &Context,
    (wanted, decided): (&control::DesiredState, &control::Decision),
    rollout: &Rollout,
    refusals: &[Refusal],
) -> ObservedApplication {
    // The set of units does not depend on the policy, and capacities are not read here.
    let plain = Policy::builtin("units");
    let key = ApplicationKey::of(application);
    let index = ctx.caches.index();
    let own = world::owned_objects(&index, application);
    // Actions concern only nodes with assignments or pods.
    let pods = own.values().filter_map(|(_, pod)| pod.as_deref());
    let units_of = decided.places.values().map(String::as_str).chain(pods.clone().filter_map(world::unit_of));
    let bound = pods.filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let nodes: BTreeSet<&str> =
        units_of.filter_map(|unit| Some(unit.rsplit_once('/')?.0)).chain(bound).collect();
    let units = world::units_on(&index, nodes, &plain);
    let mut state = world::observed_state(&index, application, &units);
    measure_steadily(&mut state);
    let backoffs = ctx.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
    for actor in &wanted.actors {
        if let Some(held) = backoffs.active(&(key.clone(), actor.name.clone()), state.now) {
            state.backoff.insert(actor.name.clone(), held.clone());
        }
    }
    let own = world::owned_objects(&index, application);
    let now = state.now;
    for name in world::desired_actors(&index, application).names {
        let Some(found) = state.instances.get_mut(&name.short()).and_then(|it| it.pod.as_mut()) else {
            continue;
        };
        let Some((_, Some(pod))) = own.get(&object_name(&name)) else { continue };
        let kind = found.unit.as_ref().and_then(|unit| units.get(unit)).map_or("", |unit| &unit.kind);
        found.outdated = rollout.is_outdated(&name, pod, kind);
        let (actor, node) = (name.short(), found.node.as_deref().unwrap_or_default());
        let keeps_out = |it: &Refusal| it.prevents_restart((&actor, &name.group), (node, kind), now);
        found.restart_blocked |= refusals.iter().any(keeps_out);
    }
    ObservedApplication {
        state,
        instances: own,
        pools: index.pools().map(|pool| (pool.name_any(), pool.clone())).collect(),
        units,
    }
}

/// Sets the time of the observation, and puts times that others wrote on the same scale.
fn measure_steadily(observed: &mut control::ObservedState) {
    observed.now = moment();
    let outages = observed.unreachable.values_mut().filter_map(|outage| outage.since.as_mut());
    let pods = observed.instances.values_mut().filter_map(|instance| instance.pod.as_mut());
    for written in outages.chain(pods.filter_map(|pod| pod.refused_since.as_mut())) {
        *written = from_wall_clock(*written);
    }
}

/// Computes the actions that are due, and records what blocks the others.
///
/// # Errors
/// When infeasible assignments cannot be determined.
pub async fn plan_actions(
    application: &ActorApplication,
    decision: &Placement,
    ctx: &Context,
    rollout: &Rollout,
    outcome: &mut Outcome,
    refusals: &[Refusal],
) -> Result<(ObservedApplication, control::Actions), Error> {
    let mut wanted = world::desired_state(&ctx.caches.index(), application, &decision.spec.policy);
    let mut decided = world::decision(decision);
    for since in decided.elective.values_mut().filter_map(|elective| elective.starting_since.as_mut()) {
        *since = from_wall_clock(*since);
    }
    // Until the latest generation has a Placement, the previous one is repaired.
    let is_newest = is_newest(decision, application);
    if !application.spec.paused && !is_newest || !rollout.is_accepted() {
        wanted.max_unavailable = 0;
        // Actors restart with the last good templates and their requests.
        let served = rollout.last_good(application);
        wanted.requests = world::desired_state(&ctx.caches.index(), &served, &decision.spec.policy).requests;
    }
    let mut observed = observe(application, ctx, (&wanted, &decided), rollout, refusals);
    let known = outcome.infeasible.take();
    let mut infeasible = match &known {
        Some(known) => known.clone(),
        None if control::is_fully_applied(&decided, &observed.state) => BTreeSet::new(),
        None => infeasible(ctx, application, &decided).await?,
    };
    limit_moves(application, &decided, &mut observed.state, ctx);
    let closed = refusals.iter().find(|refusal| refusal.key.scope == RefusalScope::Namespace);
    observed.state.namespace_backoff =
        closed.map(|it| Backoff { until: it.until, reason: it.reason.clone() });
    let mut next = control::next_actions(&wanted, &decided, &observed.state, &infeasible);
    let rechecked = match &known {
        Some(known) => {
            recheck_places::recheck((application, decision), known, (&next, &observed.state), ctx).await?
        }
        None => None,
    };
    if let Some(rechecked) = rechecked {
        next = control::next_actions(&wanted, &decided, &observed.state, &rechecked);
        infeasible = rechecked;
    }
    if application.spec.start == StartPolicy::AllOrNothing {
        control::hold_start(&mut next, &observed.state, &infeasible);
    }
    if application.spec.paused {
        control::finish_in_flight(&mut next, &decided, &observed.state);
    } else if !is_newest {
        control::repair_only(&mut next, &decided);
    }
    let is_begun = |action: &&Action| match action {
        Action::StopPod { actor, mode: StopMode::Evict, .. } => decided.elective.contains_key(actor),
        _ => false,
    };
    let begun = next.actions.iter().filter(is_begun).count();
    ctx.moves
        .set(&ApplicationKey::of(application), control::stopped_for_gain(&decided, &observed.state) + begun);
    outcome.waiting = std::mem::take(&mut next.blocked);
    outcome.requeue_at = next.requeue_at.into_iter().chain(outcome.requeue_at).min();
    Ok((observed, next))
}

/// Sets how many actors may be stopped for a gain, by the policy and the moves of other applications.
fn limit_moves(
    application: &ActorApplication,
    decided: &control::Decision,
    observed: &mut control::ObservedState,
    ctx: &Context,
) {
    let key = ApplicationKey::of(application);
    let goal = |actor: &str| {
        let (actor, _) = decided.elective.get_key_value(actor)?;
        decided.places.get(actor).map(String::as_str)
    };
    observed.not_evicted = ctx.moves.not_evicted(&key, goal);
    if decided.elective.is_empty() {
        return;
    }
    let name = application.spec.policy.as_deref().unwrap_or(&ctx.planning.default_policy);
    let policy = ctx.policies.in_force(name, &key.namespace).map(|(policy, _)| policy);
    let rebalance = policy.map_or_else(|_| Policy::builtin("moves").rebalance, |policy| policy.rebalance);
    let stopped = control::stopped_for_gain(decided, observed);
    observed.move_limits = ctx.moves.reserve(&key, stopped, &rebalance, &ctx.caches.index());
}
