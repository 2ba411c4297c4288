//! One reconcile of one application: observe, validate, plan, apply, report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{Refusal, Refused, Step, active, look_again};
use crds::{ActorApplication, Instance, Placement, PlacementStatus, Time};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use world::{ActorName, ApplicationKey, Note, Objects, Policy, actors_of, object_name};

use crate::caches::Caches;
use crate::config::Planning;
use crate::devices;
use crate::error::Error;
use crate::events::Events;
use crate::instances::instance_status;
use crate::metrics::Metrics;
use crate::plan::{decide, infeasible, moment};
use crate::pods;
use crate::policies::Policies;
use crate::report::{Outcome, application_status, event, placement_status};
use crate::writes::Writer;

/// How many writes of one application are under way at the same time.
const WRITES_AT_ONCE: usize = 16;

/// What every reconcile shares.
pub struct Context {
    pub caches: Arc<Caches>,
    pub policies: Arc<Policies>,
    pub writer: Writer,
    pub events: Events,
    pub metrics: Metrics,
    pub planning: Planning,
    /// Searches at the same time.
    pub solver_slots: Semaphore,
    /// Plans are made side by side and committed one at a time.
    pub commit: AsyncMutex<()>,
    /// What was considered for each application when it was last planned.
    pub considered: Mutex<HashMap<ApplicationKey, Considered>>,
}

/// The state of the world that an application was last planned for.
#[derive(Clone, Debug, Default)]
pub struct Considered {
    pub changes: u64,
    pub generation: Option<i64>,
    pub facts: control::Considered,
    /// Actors whose decided place may not be taken.
    pub infeasible: BTreeSet<String>,
    pub notes: Vec<Note>,
    pub proposed: Option<String>,
}

impl Context {
    /// What was considered when the application was last planned.
    pub fn considered(&self, key: &ApplicationKey) -> Option<Considered> {
        self.considered.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub fn consider(&self, key: &ApplicationKey, considered: Considered) {
        self.considered.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), considered);
    }

    /// Tells people; an event that cannot be written is logged and nothing else.
    pub async fn tell<K: Resource<DynamicType = ()>>(&self, object: &K, event: &Event) {
        if self.writer.leadership.check().is_err() {
            return;
        }
        if let Err(e) = self.events.tell(object, event).await {
            tracing::warn!(error = e.chain(), reason = event.reason, "an event could not be written");
        }
    }
}

/// Brings one application a step closer to what was decided, and decides anew where that is due.
///
/// # Errors
/// When something could not be written, or the lease is lost; it is tried again.
#[tracing::instrument(skip_all, fields(application = %ApplicationKey::of(&application)))]
pub async fn reconcile(application: Arc<ActorApplication>, ctx: Arc<Context>) -> Result<Action, Error> {
    let result = step(&application, &ctx).await;
    ctx.metrics.reconciles.with_label_values(&[result.as_ref().map_or_else(Error::reason, |_| "ok")]).inc();
    result
}

async fn step(application: &ActorApplication, ctx: &Context) -> Result<Action, Error> {
    ctx.writer.leadership.check()?;
    if application.metadata.deletion_timestamp.is_some() {
        // Everything of it is owned by it: the garbage collector takes it away.
        return Ok(Action::await_change());
    }
    let key = ApplicationKey::of(application);
    let mut outcome = Outcome::default();
    let decided = match ctx.caches.decision(&key) {
        Ok(decision) => {
            outcome.decision = decision.map(|decision| decision.as_ref().clone());
            decide(application, &key, ctx, &mut outcome).await
        }
        Err(e) => Err(e),
    };
    match decided {
        Ok(()) => {}
        Err(
            e
            @ (Error::World(_) | Error::Policy(_) | Error::Plan(_) | Error::Search(_) | Error::NameTaken(_)),
        ) => {
            tell_failure(application, ctx, &e).await;
            outcome.failure = Some((e.reason(), e.chain()));
        }
        Err(e) => return Err(e),
    }
    let refusals = outcome.decision.as_ref().map(world::refusals).unwrap_or_default();
    let mut refusals = active(refusals, moment());
    if !application.spec.paused
        && let Some(decision) = outcome.decision.clone()
        && Some(decision.spec.application_generation) == application.metadata.generation
    {
        carry_out(application, &decision, ctx, &mut outcome, &mut refusals).await?;
    }
    ctx.caches.waits(&key, !outcome.waiting.is_empty());
    report(application, &key, ctx, &outcome, &refusals).await?;
    let second_look = ctx.considered(&key).and_then(|considered| considered.facts.second_look);
    Ok(Action::requeue(look_again(moment(), &refusals, second_look, outcome.failure.is_some())))
}

/// Refusals as a Placement's status has them.
fn as_told(refusals: &[Refusal]) -> Vec<crds::Refusal> {
    let time = |refusal: &Refusal| {
        let seconds = i64::try_from(refusal.until.as_secs()).unwrap_or(i64::MAX);
        Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
    };
    let told = |refusal: &Refusal| crds::Refusal {
        actor: refusal.actor.clone(),
        node: refusal.node.clone(),
        reason: refusal.reason.clone(),
        until: time(refusal),
    };
    refusals.iter().map(told).collect()
}

/// Says once per message why nothing can be decided.
async fn tell_failure(application: &ActorApplication, ctx: &Context, error: &Error) {
    let message = error.chain();
    let conditions = application.status.iter().flat_map(|status| &status.conditions);
    let told =
        conditions.into_iter().any(|c| c.type_ == "Accepted" && c.status == "False" && c.message == message);
    if !told {
        tracing::info!(reason = error.reason(), message, "not accepted");
        ctx.tell(application, &event(EventType::Warning, error.reason(), "Plan", message)).await;
    }
}

/// Does what is to be done now; refusals are written before the pods that met them go.
async fn carry_out(
    application: &ActorApplication,
    decision: &Placement,
    ctx: &Context,
    outcome: &mut Outcome,
    refusals: &mut Vec<Refusal>,
) -> Result<(), Error> {
    let objects = ctx.caches.objects();
    // Which units there are does not depend on the policy; capacities, which do, are not read here.
    let plain = Policy::builtin("units");
    let units = world::units(&objects, &plain);
    let seen = world::seen(&objects, application, &units);
    let (wanted, decided) = (world::wanted(application, &decision.spec.policy), world::decision(decision));
    let infeasible = match outcome.infeasible.take() {
        Some(known) => known,
        // Nothing could be decided: what is feasible without a policy goes on, and where not even that is known, nothing.
        None => match world::snapshot(&objects, &ApplicationKey::of(application), &plain, Timestamp::now()) {
            Ok(world) => infeasible(&objects, application, &world, Some(&decided)),
            Err(_) => decided.places.keys().cloned().collect(),
        },
    };
    let todo = control::steps(&wanted, &decided, &seen, &infeasible);
    outcome.waiting = todo.waiting;
    if !todo.refused.is_empty() {
        remember(application, decision, ctx, refusals, todo.refused).await?;
    }
    let namespace = application.namespace().unwrap_or_default();
    let instances = world::own(&objects, application);
    let names: BTreeMap<String, ActorName> =
        actors_of(application).into_iter().map(|actor| (actor.short(), actor)).collect();
    tracing::debug!(steps = todo.steps.len(), waiting = outcome.waiting.len(), "carrying out");
    let work = todo.steps.into_iter().map(|step| {
        let (namespace, names, instances, units, objects) =
            (&namespace, &names, &instances, &units, &objects);
        async move {
            match step {
                Step::Create { actor } => {
                    ctx.writer.create_instance(&pods::instance(application, &names[&actor])).await?;
                }
                Step::Remove { instance } => {
                    ctx.writer.delete::<Instance>(namespace, &instance.name, &instance.uid, false).await?;
                }
                Step::Stop { pod, at_once } => {
                    ctx.writer.delete::<Pod>(namespace, &pod.name, &pod.uid, at_once).await?;
                }
                Step::Start { actor, instance, unit } => {
                    let unit = &units[&unit];
                    let pool = objects.pools.iter().find(|pool| pool.name_any() == unit.pool);
                    let (instance, _) = instances[&instance.name];
                    let pod = pods::pod(application, &names[&actor], instance, unit, pool.map(AsRef::as_ref));
                    let Some(pod) = pod else { return Ok(None) };
                    if let Err(reason) = ctx.writer.create_pod(&pod).await? {
                        return Ok(Some(Refused { actor, node: unit.node.clone(), reason }));
                    }
                }
            }
            Ok::<_, Error>(None)
        }
    });
    let not_admitted: Vec<Option<Refused>> =
        futures::stream::iter(work).buffer_unordered(WRITES_AT_ONCE).try_collect().await?;
    let not_admitted: Vec<Refused> = not_admitted.into_iter().flatten().collect();
    if !not_admitted.is_empty() {
        remember(application, decision, ctx, refusals, not_admitted).await?;
    }
    Ok(())
}

/// Writes refusals into the decision's status: facts for the next plan.
async fn remember(
    application: &ActorApplication,
    decision: &Placement,
    ctx: &Context,
    refusals: &mut Vec<Refusal>,
    refused: Vec<Refused>,
) -> Result<(), Error> {
    let until = moment() + Duration::from_secs(ctx.planning.refusal_seconds.into());
    let said = |r: &Refused| format!("{} on {}: {}", r.actor, r.node, r.reason);
    let said: Vec<String> = refused.iter().map(said).collect();
    *refusals = control::remember(std::mem::take(refusals), refused, until);
    let before = decision.status.clone().unwrap_or_default();
    let status = PlacementStatus { refusals: as_told(refusals), ..before };
    ctx.writer.apply_status(decision, &status).await?;
    ctx.tell(application, &event(EventType::Warning, "Refused", "Place", said.join("; "))).await;
    Ok(())
}

/// Writes what has changed of the statuses.
async fn report(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &Outcome,
    refusals: &[Refusal],
) -> Result<(), Error> {
    let objects = ctx.caches.objects();
    let own = world::own(&objects, application);
    report_instances(application, ctx, &objects, &own).await?;
    let now = Timestamp::now();
    let instances = own.iter().map(|(name, (instance, _))| (name.clone(), *instance)).collect();
    let status = application_status(application, outcome, &instances, now);
    if let Some(decision) = &outcome.decision {
        let placement = placement_status(decision, &status, as_told(refusals), now);
        if decision.status.as_ref() != Some(&placement) {
            ctx.writer.apply_status(decision, &placement).await?;
        }
    }
    // The newest state, so that what was just written is not written again from an older one.
    let newest = ctx.caches.applications.get(&crate::caches::object_ref(key));
    if newest.as_deref().and_then(|newest| newest.status.as_ref()) != Some(&status) {
        ctx.writer.apply_status(application, &status).await?;
    }
    Ok(())
}

/// An application's own Instances by name, each with its pod.
type Own<'a> = BTreeMap<String, (&'a Instance, Option<&'a Pod>)>;

async fn report_instances(
    application: &ActorApplication,
    ctx: &Context,
    objects: &Objects,
    own: &Own<'_>,
) -> Result<(), Error> {
    let topologies =
        objects.topologies.iter().map(|topology| (topology.name_any(), topology.as_ref())).collect();
    let root = actors_of(application).first().map(object_name);
    let changed = own.iter().filter_map(|(name, (instance, pod))| {
        let devices = pod.map(|pod| devices::held_by(pod, &topologies)).unwrap_or_default();
        let status = instance_status(instance, *pod, devices, root.as_ref() == Some(name));
        (instance.status.as_ref() != Some(&status)).then_some((*instance, status))
    });
    let work = changed.map(|(instance, status)| async move {
        match ctx.writer.apply_status(instance, &status).await {
            // It went while its status was written.
            Err(Error::Apply { source: kube::Error::Api(answer), .. }) if answer.code == 404 => Ok(()),
            other => other.map(|_| ()),
        }
    });
    futures::stream::iter(work).buffer_unordered(WRITES_AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// What to do after a failed reconcile.
pub fn after_error(application: &ActorApplication, error: &Error) -> Action {
    tracing::warn!(application = %ApplicationKey::of(application), error = error.chain(), "reconcile failed");
    match error {
        Error::Overtaken => Action::requeue(Duration::from_millis(50)),
        _ => Action::requeue(Duration::from_secs(2)),
    }
}
