//! One reconcile of one application: observe, validate, plan, apply, report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crds::{ActorApplication, Instance, Placement, PlacementStatus, Refusal, Time};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use world::{ApplicationKey, Note, Objects, Policy, actors_of};

use crate::caches::Caches;
use crate::carry::{Refused, Step, instance_status, instances_of, pods_of, todo};
use crate::config::Planning;
use crate::devices;
use crate::error::Error;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::plan::decide;
use crate::pods;
use crate::policies::Policies;
use crate::report::{Outcome, application_status, event, placement_status};
use crate::writes::Writer;

/// How many writes of one application are under way at the same time.
const WRITES_AT_ONCE: usize = 16;
/// When an application is looked at again though nothing seems to have changed.
const LOOK_AGAIN: Duration = Duration::from_mins(5);
/// How long after one another an unfinished search is taken up again.
const SECOND_LOOKS: [Duration; 3] =
    [Duration::from_secs(30), Duration::from_mins(2), Duration::from_mins(10)];
/// Whatever is due already is done no sooner, should it have failed.
const NO_SOONER: Duration = Duration::from_secs(1);

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
    pub releases: u64,
    pub generation: Option<i64>,
    pub demand: String,
    pub digest: String,
    pub notes: Vec<Note>,
    pub proposed: Option<String>,
    /// Set when the clock ended the search before it was through.
    pub second_look: Option<SecondLook>,
}

/// A search that the clock ended is taken up again, a few times and with another seed each time: the machine may have
/// been busy, and what runs is only moved for a gain that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondLook {
    /// Not before.
    pub at: Instant,
    /// Which one it is, from 1.
    pub number: u32,
}

impl SecondLook {
    /// The look after `before`, where there is another.
    pub fn after(before: Option<Self>) -> Option<Self> {
        let done = before.map_or(0, |look| look.number);
        let wait = SECOND_LOOKS.get(usize::try_from(done).ok()?)?;
        Some(Self { at: Instant::now() + *wait, number: done + 1 })
    }

    pub fn is_due(self) -> bool {
        Instant::now() >= self.at
    }
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
    let mut outcome =
        Outcome { decision: ctx.caches.decision(&key).map(|p| p.as_ref().clone()), ..Outcome::default() };
    match decide(application, &key, ctx, &mut outcome).await {
        Ok(()) => {}
        Err(e @ (Error::World(_) | Error::Policy(_) | Error::Plan(_) | Error::Search(_))) => {
            tell_failure(application, ctx, &e).await;
            outcome.failure = Some((e.reason(), e.chain()));
        }
        Err(e) => return Err(e),
    }
    let mut refusals = remembered(outcome.decision.as_ref());
    if !application.spec.paused
        && let Some(decision) = outcome.decision.clone()
        && Some(decision.spec.application_generation) == application.metadata.generation
    {
        carry_out(application, &decision, ctx, &mut outcome, &mut refusals).await?;
    }
    report(application, &key, ctx, &outcome, refusals.clone()).await?;
    let retry = outcome.failure.is_some().then_some(LOOK_AGAIN);
    let forgotten = refusals.iter().map(|refusal| until_seconds(&refusal.until)).min();
    let second_look = ctx.considered(&key).and_then(|considered| considered.second_look);
    let second_look =
        second_look.map(|look| look.at.saturating_duration_since(Instant::now()).max(NO_SOONER));
    Ok(Action::requeue(forgotten.into_iter().chain(retry).chain(second_look).min().unwrap_or(LOOK_AGAIN)))
}

/// How long until a refusal is forgotten.
fn until_seconds(until: &Time) -> Duration {
    let left = until.0.as_second() - Timestamp::now().as_second() + 1;
    Duration::from_secs(u64::try_from(left).unwrap_or(0).max(1))
}

/// Refusals that still count.
fn remembered(decision: Option<&Placement>) -> Vec<Refusal> {
    let now = Timestamp::now();
    let status = decision.and_then(|decision| decision.status.as_ref());
    status
        .into_iter()
        .flat_map(|status| status.refusals.clone())
        .filter(|refusal| refusal.until.0 > now)
        .collect()
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
    let units = world::units(&objects, &Policy::builtin("units"));
    let todo = todo(application, decision, &objects, &units);
    outcome.waiting = todo.waiting;
    if !todo.refused.is_empty() {
        remember(application, decision, ctx, refusals, todo.refused).await?;
    }
    let namespace = application.namespace().unwrap_or_default();
    let instances = instances_of(&namespace, &objects);
    tracing::debug!(steps = todo.steps.len(), waiting = outcome.waiting.len(), "carrying out");
    let work = todo.steps.into_iter().map(|step| {
        let (namespace, instances, units, objects) = (&namespace, &instances, &units, &objects);
        async move {
            match step {
                Step::CreateInstance(actor) => {
                    ctx.writer.create_instance(&pods::instance(application, &actor)).await?;
                }
                Step::DeleteInstance { name, uid } => {
                    ctx.writer.delete::<Instance>(namespace, &name, uid, false).await?;
                }
                Step::DeletePod { name, uid, at_once } => {
                    ctx.writer.delete::<Pod>(namespace, &name, uid, at_once).await?;
                }
                Step::CreatePod { actor, unit } => {
                    let unit = &units[&unit];
                    let pool = objects.pools.iter().find(|pool| pool.name_any() == unit.pool);
                    let instance = instances[&pods::object_name(&actor)];
                    let pod = pods::pod(application, &actor, instance, unit, pool.map(AsRef::as_ref));
                    let Some(pod) = pod else { return Ok(None) };
                    if let Err(reason) = ctx.writer.create_pod(&pod).await? {
                        return Ok(Some(Refused { actor: actor.short(), node: unit.node.clone(), reason }));
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
    let seconds = i64::from(ctx.planning.refusal_seconds);
    let until = Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap_or(Timestamp::MAX);
    let mut told = Vec::new();
    for Refused { actor, node, reason } in refused {
        let reason: String = reason.chars().take(1000).collect();
        told.push(format!("{actor} on {node}: {reason}"));
        refusals.retain(|old| !(old.actor == actor && old.node == node));
        refusals.push(Refusal { actor, node, reason, until: Time(until) });
    }
    refusals.sort();
    let before = decision.status.clone().unwrap_or_default();
    let status = PlacementStatus { refusals: refusals.clone(), ..before };
    ctx.writer.apply_status(decision, &status).await?;
    ctx.tell(application, &event(EventType::Warning, "Refused", "Place", told.join("; "))).await;
    Ok(())
}

/// Writes what has changed of the statuses.
async fn report(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &Outcome,
    refusals: Vec<Refusal>,
) -> Result<(), Error> {
    let objects = ctx.caches.objects();
    report_instances(application, ctx, &objects).await?;
    let now = Timestamp::now();
    let instances = instances_of(&key.namespace, &objects);
    let status = application_status(application, outcome, &instances, now);
    if let Some(decision) = &outcome.decision {
        let placement = placement_status(decision, &status, refusals, now);
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

async fn report_instances(
    application: &ActorApplication,
    ctx: &Context,
    objects: &Objects,
) -> Result<(), Error> {
    let namespace = application.namespace().unwrap_or_default();
    let (instances, pods) = (instances_of(&namespace, objects), pods_of(&namespace, objects));
    let topologies =
        objects.topologies.iter().map(|topology| (topology.name_any(), topology.as_ref())).collect();
    let root = actors_of(application).first().map(pods::object_name);
    let changed = instances
        .iter()
        .filter(|(_, i)| i.spec.application_name == application.name_any())
        .filter_map(|(name, instance)| {
            let pod = pods.get(name).copied();
            let devices = pod.map(|pod| devices::held_by(pod, &topologies)).unwrap_or_default();
            let status = instance_status(instance, pod, devices, root.as_ref() == Some(name));
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
