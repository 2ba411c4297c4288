//! What is there of an application, and what is to be done now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use control::{HeldBack, Refusal, Scope};
use crds::{ActorApplication, DevicePool, Placement, StartPolicy};
use kube::ResourceExt;
use world::{ApplicationKey, Own, Policy, Unit, object_name};

use crate::apply::recheck_places;
use crate::apply::rollout::Rollout;
use crate::error::Error;
use crate::plan::observe::infeasible;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// Whether a decision was made for this manifest.
pub fn is_newest(decision: &Placement, application: &ActorApplication) -> bool {
    Some(decision.spec.application_generation) == application.metadata.generation
}

/// What is there of an application, at one moment.
pub struct ObservedApplication {
    pub units: BTreeMap<String, Unit>,
    pub seen: control::Seen,
    pub instances: Own,
    pub pools: BTreeMap<String, Arc<DevicePool>>,
}

/// Looks at what is there.
fn observe(
    application: &ActorApplication,
    ctx: &Context,
    (wanted, decided): (&control::Wanted, &control::Decision),
    rollout: &Rollout,
    refusals: &[Refusal],
) -> ObservedApplication {
    // Which units there are does not depend on the policy; capacities, which do, are not read here.
    let plain = Policy::builtin("units");
    let key = ApplicationKey::of(application);
    let index = ctx.caches.index();
    let own = world::own(&index, application);
    // Where something was decided, and where its pods are: no step reads of other nodes.
    let pods = own.values().filter_map(|(_, pod)| pod.as_deref());
    let units_of = decided.places.values().map(String::as_str).chain(pods.clone().filter_map(world::unit_of));
    let bound = pods.filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let nodes: BTreeSet<&str> =
        units_of.filter_map(|unit| Some(unit.rsplit_once('/')?.0)).chain(bound).collect();
    let units = world::units_on(&index, nodes, &plain);
    let mut seen = world::seen(&index, application, &units);
    seen.now = moment();
    let back_offs = ctx.back_offs.lock().unwrap_or_else(PoisonError::into_inner);
    for actor in &wanted.actors {
        if let Some(held) = back_offs.held(&(key.clone(), actor.name.clone()), seen.now) {
            seen.held_back.insert(actor.name.clone(), held.clone());
        }
    }
    let own = world::own(&index, application);
    let now = seen.now;
    for name in world::actors(&index, application).names {
        let Some(found) = seen.instances.get_mut(&name.short()).and_then(|it| it.pod.as_mut()) else {
            continue;
        };
        let Some((_, Some(pod))) = own.get(&object_name(&name)) else { continue };
        let kind = found.unit.as_ref().and_then(|unit| units.get(unit)).map_or("", |unit| &unit.kind);
        found.outdated = rollout.is_outdated(&name, pod, kind);
        let (actor, node) = (name.short(), found.node.as_deref().unwrap_or_default());
        let keeps_out = |it: &Refusal| it.keeps_out((&actor, &name.group), (node, kind), now);
        found.no_return |= refusals.iter().any(keeps_out);
    }
    ObservedApplication {
        seen,
        instances: own,
        pools: index.pools().map(|pool| (pool.name_any(), pool.clone())).collect(),
        units,
    }
}

/// What is to be done now; what is waited for is told.
///
/// # Errors
/// When decided places cannot be looked at.
pub async fn plan_actions(
    application: &ActorApplication,
    decision: &Placement,
    ctx: &Context,
    rollout: &Rollout,
    outcome: &mut Outcome,
    refusals: &[Refusal],
) -> Result<(ObservedApplication, control::Todo), Error> {
    let mut wanted = world::wanted(&ctx.caches.index(), application, &decision.spec.policy);
    let decided = world::decision(decision);
    // Until there is a decision for the newest manifest, what runs is healed by the last one.
    let is_newest = is_newest(decision, application);
    if !application.spec.paused && !is_newest || !rollout.is_accepted() {
        wanted.max_unavailable = 0;
        // Who comes again is made from the last templates that served, and asks for what they ask for.
        let served = rollout.last_good(application);
        wanted.asks = world::wanted(&ctx.caches.index(), &served, &decision.spec.policy).asks;
    }
    let mut observed = observe(application, ctx, (&wanted, &decided), rollout, refusals);
    let known = outcome.infeasible.take();
    let mut infeasible = match &known {
        Some(known) => known.clone(),
        None if control::is_carried_out(&decided, &observed.seen) => BTreeSet::new(),
        None => infeasible(ctx, application, &decided).await?,
    };
    let closed = refusals.iter().find(|refusal| refusal.about.scope == Scope::Namespace);
    observed.seen.closed = closed.map(|it| HeldBack { until: it.until, why: it.reason.clone() });
    let mut todo = control::steps(&wanted, &decided, &observed.seen, &infeasible);
    let rechecked = match &known {
        Some(known) => {
            recheck_places::recheck((application, decision), known, (&todo, &observed.seen), ctx).await?
        }
        None => None,
    };
    if let Some(rechecked) = rechecked {
        todo = control::steps(&wanted, &decided, &observed.seen, &rechecked);
        infeasible = rechecked;
    }
    if application.spec.start == StartPolicy::AllOrNothing {
        control::hold_start(&mut todo, &observed.seen, &infeasible);
    }
    if application.spec.paused {
        control::only_finish(&mut todo, &observed.seen);
    } else if !is_newest {
        control::only_heal(&mut todo);
    }
    outcome.waiting = std::mem::take(&mut todo.waiting);
    outcome.requeue_at = todo.next.into_iter().chain(outcome.requeue_at).min();
    Ok((observed, todo))
}
