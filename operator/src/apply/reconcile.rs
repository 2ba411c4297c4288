//! Reconciles an application: observes it, applies its Placement and reports its status.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{Action, BlockedOn, Refusal, StopMode};
use crds::{ActorApplication, Instance, Placement};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::ObjectRef;
use world::{
    ActorName, ApplicationKey, GroupMember, Index, OwnedObjects, SnapshotWarning, Unit, actors_of_instance,
};

use crate::api::writes::each;
use crate::apply::moves::history::outcome_to_record;
use crate::apply::moves::record::record_history;
use crate::apply::moves::revert::revert_failed_moves;
use crate::apply::observed::{ObservedApplication, is_newest, plan_actions};
use crate::apply::pods::device_claims::{create_claim, delete_unused};
use crate::apply::pods::eviction::{Deferred, evict};
use crate::apply::pods::lifecycle::{adopt, create_instance, create_pod, delete};
use crate::apply::recheck_places;
use crate::apply::refusals::{block_actors, by_node, record_refusals};
use crate::apply::report::report;
use crate::apply::rollout::Rollout;
use crate::error::{Error, Failures, catch_panic};
use crate::plan::load::restore_report;
use crate::plan::planning::enqueue_if_due;
use crate::queue::triggers::Waiting;
use crate::runtime::clock::{micro_time, moment};
use crate::runtime::context::Context;
use crate::status::failures::report_failures;
use crate::status::instances::root_of;
use crate::status::report::{Outcome, event};

/// Reconciles an application, if it exists; returns when to requeue it.
///
/// Errors are reported and retried with backoff.
pub async fn reconcile(reference: ObjectRef<ActorApplication>, ctx: Arc<Context>) -> Option<Duration> {
    let application = ctx.caches.applications.get(&reference)?;
    match reconcile_application(&application, &ctx).await {
        Ok(again) => again,
        Err(errors) => {
            let key = ApplicationKey::of(application.as_ref());
            for error in &errors {
                tracing::warn!(application = %key, error = error.chain(), "reconcile failed");
            }
            let delay = ctx.reconcile_backoff.next_delay(&key, errors.first()?, moment());
            ctx.reconcile_backoff.describe(&key, &errors);
            if ctx.reconcile_backoff.is_lasting(&key) {
                ctx.report_failed_work(application.as_ref(), "Apply", &errors).await;
            }
            Some(delay)
        }
    }
}

/// Brings an application closer to its Placement. Planning has its own queue, so repairs do not wait for it.
///
/// # Errors
/// When writes fail, the lease is lost, or a step panics; it is retried.
#[tracing::instrument(skip_all, fields(application = %ApplicationKey::of(application)))]
async fn reconcile_application(
    application: &ActorApplication,
    ctx: &Arc<Context>,
) -> Result<Option<Duration>, Vec<Error>> {
    let working = ctx.writer.liveness.begin();
    let mut failures = Failures::default();
    let done =
        catch_panic(Box::pin(run_phases(application, ctx, &mut failures)), Error::Panicked("the reconcile"))
            .await;
    let result = failures.or(done);
    drop(working);
    if result.is_ok() {
        ctx.reconcile_backoff.reset(&ApplicationKey::of(application));
    }
    let failed = result.as_ref().err().and_then(|errors| errors.first());
    ctx.metrics.reconciles.with_label_values(&[failed.map_or("ok", Error::reason)]).inc();
    result
}

async fn run_phases(
    application: &ActorApplication,
    ctx: &Arc<Context>,
    failures: &mut Failures,
) -> Result<Option<Duration>, Error> {
    ctx.writer.leadership.check()?;
    if application.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes everything that it owns.
        return Ok(None);
    }
    let key = ApplicationKey::of(application);
    ctx.forget_if_recreated(&key, application);
    enqueue_if_due(&key, ctx);
    let not_adopted = adopt(application, &key, ctx, failures).await?;
    let (planned, again) = ctx.planner.last(&key);
    let is_planned = planned.is_some();
    let mut outcome = Outcome { requeue_at: again, ..planned.unwrap_or_default() };
    restore_report(&key, application, ctx);
    if let Some(load) = ctx.load_reports.get(&key) {
        (outcome.load, outcome.counters) = (load.findings(), Some(load.coverage.get()));
        outcome.judged = load.outcome;
    }
    for (until, message) in not_adopted {
        outcome.requeue_at = Some(outcome.requeue_at.map_or(until, |at| at.min(until)));
        outcome.notes.push(SnapshotWarning { condition: "Refused", message });
    }
    // Planning reports a foreign Placement of its name.
    outcome.decision = ctx.caches.decision(&key).ok().flatten().map(|decision| decision.as_ref().clone());
    if let Some(decision) = &outcome.decision {
        let now = micro_time(Timestamp::now());
        outcome.judged = outcome_to_record(decision, outcome.judged.take(), now);
    }
    let is_pending = ctx.planner.is_pending(&key);
    if outcome.decision.is_none() && is_pending {
        // Nothing to apply before the first plan, which requeues it.
        report_failures(application, &key, ctx).await?;
        return Ok(Some(requeue_after(&outcome, control::RESYNC_PERIOD)));
    }
    if !is_pending && outcome.failure.is_none() {
        outcome.infeasible = ctx.planner.infeasible(&key, application.metadata.generation);
    }
    let is_known = outcome.infeasible.is_some();
    let mut refusals = ctx.active_refusals(&key, outcome.decision.as_ref());
    let mut is_created = false;
    if let Some(mut decision) = outcome.decision.clone() {
        let done = apply(application, &mut decision, ctx, &mut outcome, &mut refusals, failures);
        is_created = Box::pin(done).await?;
        outcome.decision = Some(decision);
    }
    if is_created {
        return Ok(Some(requeue_after(&outcome, WATCH_DELAY)));
    }
    let waits = waiting_for(&ctx.caches.index(), application, &outcome);
    if ctx.caches.set_waiting(&key, waits) && ctx.has_room_grown(&key) {
        // Capacity was freed before the demand was known.
        ctx.enqueue_replan(&key);
    }
    // While it is being planned, or cannot be, its assignments are checked each time.
    let again = if is_known { recheck_places::next_recheck(&key, &outcome, ctx) } else { None };
    outcome.requeue_at = again.into_iter().chain(outcome.requeue_at).min();
    let is_old = outcome.decision.as_ref().is_some_and(|decision| !is_newest(decision, application));
    if is_pending && (is_old || !is_planned) {
        // Running actors are kept up; the status waits for a plan of the latest generation.
        report_failures(application, &key, ctx).await?;
        return Ok(Some(requeue_after(&outcome, control::RESYNC_PERIOD)));
    }
    let later = ctx.status_throttle.next_report(&key, moment()).filter(|_| outcome.failure.is_none());
    if later.is_some() {
        outcome.requeue_at = later.into_iter().chain(outcome.requeue_at).min();
    } else {
        let reported = report(application, &key, ctx, &outcome, &refusals, !failures.is_empty()).await?;
        outcome.requeue_at = reported.requeue_at.into_iter().chain(outcome.requeue_at).min();
        ctx.planner.set_moved(&key, false);
        ctx.status_throttle.reported(&key, moment(), reported.written);
    }
    let resume = ctx.planner.resume_search(&key);
    let longest = control::requeue_after(moment(), &refusals, resume, outcome.failure.is_some());
    Ok(Some(requeue_after(&outcome, longest)))
}

/// Requeues when there may be more to do, at the latest after `longest`.
fn requeue_after(outcome: &Outcome, longest: Duration) -> Duration {
    let sooner = outcome.requeue_at.map(|at| at.saturating_sub(moment()).max(MIN_REQUEUE));
    sooner.map_or(longest, |sooner| sooner.min(longest))
}

/// What an application waits for, with the requests of unplaced actors once per group.
fn waiting_for(index: &Index, application: &ActorApplication, outcome: &Outcome) -> Waiting {
    let pools = outcome.waiting.values().filter_map(|wait| match wait {
        BlockedOn::PoolLimit(pool) => Some(pool.clone()),
        _ => None,
    });
    let mut waits =
        Waiting { any: !outcome.waiting.is_empty(), pools: pools.collect(), unplaced: Vec::new() };
    let unplaced = outcome.decision.iter().flat_map(|decision| &decision.spec.unplaced);
    let without: BTreeSet<&str> = unplaced.map(|unplaced| unplaced.actor.as_str()).collect();
    if !without.is_empty() {
        let wanted = world::desired_state(index, application, "");
        let of_waiting = wanted.actors.iter().filter(|actor| without.contains(actor.name.as_str()));
        let groups: BTreeSet<usize> = of_waiting.map(|actor| actor.group).collect();
        waits.unplaced = groups.into_iter().flat_map(|group| wanted.requests[group].clone()).collect();
    }
    waits
}

/// Requeue delay after creations, in case the watch does not deliver them earlier.
const WATCH_DELAY: Duration = Duration::from_secs(1);

/// Minimum delay of a requeue.
const MIN_REQUEUE: Duration = Duration::from_millis(200);

/// Applies the actions that are due; refusals are written before the pods that met them are deleted. A failed action does not
/// prevent others. Returns whether Instances were created: pods are then started and stopped in the next reconcile.
async fn apply(
    application: &ActorApplication,
    decision: &mut Placement,
    ctx: &Context,
    outcome: &mut Outcome,
    refusals: &mut Vec<Refusal>,
    failures: &mut Failures,
) -> Result<bool, Error> {
    let key = ApplicationKey::of(application);
    let actors = world::desired_actors(&ctx.caches.index(), application).names;
    let rollout = Rollout::of(application, ctx);
    let (ObservedApplication { units, instances, pools, state: observed }, mut next) =
        plan_actions(application, decision, ctx, &rollout, outcome, refusals).await?;
    keep_pods_on_unseen_nodes(&mut next.actions, &observed, ctx, failures).await?;
    ctx.expectations.observe_instances(&application.uid().unwrap_or_default(), observed.instances.keys());
    let awaited = ctx.expectations.drop_expected(&mut next.actions, &observed, moment());
    outcome.requeue_at = awaited.into_iter().chain(outcome.requeue_at).min();
    let version = (decision.uid(), decision.metadata.generation);
    let starts = |action: &Action| matches!(action, Action::CreateInstance { .. } | Action::StartPod { .. });
    if next.actions.iter().any(starts) {
        ctx.recent_starts.record(&key, moment());
    }
    let names: BTreeMap<String, &ActorName> = actors.iter().map(|actor| (actor.short(), actor)).collect();
    let is_create = |action: &mut Action| matches!(action, Action::CreateInstance { .. });
    let missing = next.actions.extract_if(.., is_create).collect();
    let creating = create_instances(application, &names, (&key, &version), missing, ctx);
    let is_applied = !application.spec.paused && is_newest(decision, application);
    let listed = listed_actors(decision, &actors, &instances, is_applied);
    let keeping = async {
        let of_it = (application, &*listed, is_applied);
        if ctx.owned_resources.ensure(of_it, &key, ctx, outcome, failures).await? {
            next.actions.retain(|action| !matches!(action, Action::StartPod { .. }));
        }
        if !is_applied {
            return Ok(None);
        }
        // Starts use the revision accepted earlier and do not wait for the newest.
        failures.keep(rollout.sync_revisions((application, &actors), &key, ctx, outcome).await)
    };
    let ((created, is_created), kept) = futures::join!(creating, keeping);
    kept?;
    let mut deferred: Vec<Deferred> = Vec::new();
    let state = (&observed, &units, actors.as_slice());
    for done in created {
        deferred.extend(failures.keep(done)?.flatten());
    }
    if is_created {
        // Pods of new Instances are created before evictions and status updates: in the next reconcile, once the watch delivers
        // the Instances.
        record_deferred(application, deferred, decision, ctx, outcome, refusals, state).await?;
        return Ok(true);
    }
    // Before evictions, so that moves are in the history when they begin; a failed write is retried and does not delay them.
    let judged = outcome.judged.clone();
    failures.keep(record_history((application, &key), decision, judged.as_ref(), ctx, outcome).await)?;
    let last_good = std::cell::LazyCell::new(|| rollout.last_good(application));
    back_off_ended(next.ended, &observed, &key, ctx);
    let not_evicted = by_node((next.not_evicted, true), &units, &actors, refusals);
    for (refused, message) in [by_node((next.refused_pods, false), &units, &actors, &[]), not_evicted] {
        if !message.is_empty() {
            record_refusals(&key, decision, ctx, refusals, refused).await?;
            ctx.emit_event(application, &event(EventType::Warning, "Refused", "Place", message)).await;
        }
    }
    let root = root_of(&actors, &instances);
    let has_peers = ctx.owned_resources.owns_peers_file(application);
    tracing::debug!(actions = next.actions.len(), waiting = outcome.waiting.len(), "executing actions");
    let work = next.actions.into_iter().map(|action| {
        let (names, instances, units, pools) = (&names, &instances, &units, &pools);
        let (root, last_good, key, version) = (&root, &last_good, &key, &version);
        async move {
            // A newer Placement is for the next reconcile.
            if !ctx.is_in_force(key, version) {
                return Ok(None);
            }
            match action {
                // Created above, before all others.
                Action::CreateInstance { .. } => Ok(None),
                Action::DeleteInstance { instance } => {
                    delete::<Instance>(ctx, key, instance.name.clone(), &instance, false).await
                }
                Action::StopPod { actor, pod, mode: StopMode::Evict } => evict(ctx, key, actor, &pod).await,
                Action::StopPod { actor, pod, mode: end } => {
                    delete::<Pod>(ctx, key, actor, &pod, end == StopMode::Force).await
                }
                Action::StartPod { actor, instance, unit, newest_template: newest } => {
                    let application = if newest { application } else { last_good };
                    let (Some(name), Some(unit)) = (names.get(&actor), units.get(&unit)) else {
                        return Ok(None);
                    };
                    let Some((instance, _)) = instances.get(&instance.name) else { return Ok(None) };
                    let has = (*root == Some(instance.name_any()), has_peers);
                    let pool = pools.get(&unit.pool).map(AsRef::as_ref);
                    if let Some(deferred) = create_claim(name, instance, unit, ctx).await? {
                        return Ok(Some(deferred));
                    }
                    create_pod(application, name, instance, (unit, pool), has, ctx).await
                }
            }
        }
    });
    for done in each(work).await {
        deferred.extend(failures.keep(done)?.flatten());
    }
    deferred.extend(delete_unused(&key, decision, (&units, &instances), ctx, failures).await?);
    record_deferred(application, deferred, decision, ctx, outcome, refusals, state).await?;
    Ok(false)
}

/// Delays the next start of actors whose pod ended by itself; it counts once per pod, until it is deleted.
fn back_off_ended(
    ended: Vec<String>,
    observed: &control::ObservedState,
    key: &ApplicationKey,
    ctx: &Context,
) {
    for actor in ended {
        let pod = observed.instances.get(&actor).and_then(|instance| instance.pod.as_ref());
        let Some(uid) = pod.map(|pod| pod.id.uid.as_str()) else { continue };
        ctx.back_off((key.clone(), actor), "the pod ended", Some(uid));
    }
}

/// The actors of the peers file. While the manifest is not applied, those that the decision places: the manifest may have others.
fn listed_actors<'a>(
    decision: &Placement,
    actors: &'a [ActorName],
    instances: &OwnedObjects,
    is_applied: bool,
) -> Cow<'a, [ActorName]> {
    if is_applied {
        return Cow::Borrowed(actors);
    }
    let placed: BTreeSet<&str> = decision.spec.assignments.iter().map(|it| it.actor.as_str()).collect();
    let known: BTreeSet<String> = actors.iter().map(ActorName::short).collect();
    let running = instances.values().flat_map(|(instance, _)| actors_of_instance(instance));
    let mut removed: Vec<ActorName> = running.filter(|actor| !known.contains(&actor.short())).collect();
    removed.sort_by(|a, b| a.member.cmp(&b.member));
    let all = actors.iter().cloned().chain(removed);
    all.filter(|actor| placed.contains(actor.short().as_str())).collect()
}

/// Creates the Instances of actors that have none; returns refusals, and whether one was created.
async fn create_instances(
    application: &ActorApplication,
    names: &BTreeMap<String, &ActorName>,
    (key, version): (&ApplicationKey, &(Option<String>, Option<i64>)),
    actions: Vec<Action>,
    ctx: &Context,
) -> (Vec<Result<Option<Deferred>, Error>>, bool) {
    let is_created = AtomicBool::new(false);
    let work = actions.into_iter().filter_map(|action| match action {
        // Requested Instances that were deleted are not recreated; new actors are for the next reconcile.
        Action::CreateInstance { actor } => {
            names.get(&actor).filter(|name| matches!(name.member, GroupMember::Index(_)))
        }
        _ => None,
    });
    let work = work.map(async |name| {
        // A newer Placement is for the next reconcile.
        if ctx.is_in_force(key, version) {
            create_instance(application, key, name, &is_created, ctx).await
        } else {
            Ok(None)
        }
    });
    (each(work).await, is_created.load(Ordering::Acquire))
}

/// Skips forced deletions on nodes that exist but are not in the cache yet. Each such node is read once from the API server; if
/// that fails, the deletions are skipped, too.
async fn keep_pods_on_unseen_nodes(
    actions: &mut Vec<Action>,
    observed: &control::ObservedState,
    ctx: &Context,
    failures: &mut Failures,
) -> Result<(), Error> {
    let pods =
        observed.instances.values().chain(&observed.surplus).filter_map(|instance| instance.pod.as_ref());
    let of = |pod: &control::Pod| Some((pod.id.uid.clone(), pod.node.clone()?));
    let unknown: BTreeMap<String, String> =
        pods.filter_map(of).filter(|(_, node)| !observed.free.nodes.contains_key(node)).collect();
    let node_of = |action: &Action| match action {
        Action::StopPod { pod, mode: StopMode::Force, .. } => unknown.get(&pod.uid),
        _ => None,
    };
    let asked: BTreeSet<String> = actions.iter().filter_map(node_of).cloned().collect();
    for node in asked {
        if failures.keep(ctx.writer.node_exists(&node).await)? != Some(false) {
            tracing::info!(
                node,
                "skipping the forced deletion: the node exists but is not in the cache yet, or cannot be read"
            );
            actions.retain(|action| node_of(action) != Some(&node));
        }
    }
    Ok(())
}

/// Records operations that were refused, and refusals of units. While paused, actors that cannot start where they moved go back.
async fn record_deferred(
    application: &ActorApplication,
    deferred: Vec<Deferred>,
    decision: &mut Placement,
    ctx: &Context,
    outcome: &mut Outcome,
    refusals: &mut Vec<Refusal>,
    (observed, units, actors): (&control::ObservedState, &BTreeMap<String, Unit>, &[ActorName]),
) -> Result<(), Error> {
    let key = ApplicationKey::of(application);
    if !application.spec.paused {
        let stuck = stuck(&deferred, decision, observed, outcome);
        let (refused, message) = by_node((stuck, true), units, actors, refusals);
        if !message.is_empty() {
            record_refusals(&key, decision, ctx, refusals, refused).await?;
            ctx.emit_event(application, &event(EventType::Warning, "Refused", "Place", message)).await;
        }
    }
    let (messages, not_admitted) = block_actors(deferred.into_iter(), &key, ctx, outcome);
    if !not_admitted.is_empty() {
        record_refusals(&key, decision, ctx, refusals, not_admitted).await?;
    }
    if !messages.is_empty() {
        ctx.emit_event(application, &event(EventType::Warning, "Refused", "Start", messages.join("; ")))
            .await;
    }
    if application.spec.paused {
        revert_failed_moves(&key, decision, (observed, units), refusals, ctx).await?;
    }
    Ok(())
}

/// Actors whose unit is held by a pod that may not be evicted.
fn stuck(
    deferred: &[Deferred],
    decision: &Placement,
    observed: &control::ObservedState,
    outcome: &Outcome,
) -> Vec<control::RefusedPod> {
    let kept = deferred.iter().filter_map(|it| match it {
        Deferred::Evict(actor, _, why) => Some((actor.clone(), why.clone())),
        Deferred::Create { .. } | Deferred::Start(..) | Deferred::Remove { .. } => None,
    });
    control::stuck_moves(&world::decision(decision), observed, &outcome.waiting, &kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_file_lists_actors_with_a_place_while_the_manifest_is_not_applied() {
        let spec = serde_json::json!({"actors": [{"name": "a", "replicas": 3, "implementations": []}]});
        let mut application = ActorApplication::new("app", serde_json::from_value(spec).unwrap());
        application.metadata.namespace = Some("shop".to_owned());
        let instance = |actor: &str| -> Instance {
            let (group, _) = actor.rsplit_once('-').unwrap();
            let spec = serde_json::json!({"applicationName": "app", "actorGroup": group, "actor": actor});
            let mut instance = Instance::new(&format!("app-{actor}"), serde_json::from_value(spec).unwrap());
            instance.metadata.namespace = Some("shop".to_owned());
            instance
        };
        let instances = ["a-0", "old-10", "old-2", "old-3"].map(|actor| {
            let instance = instance(actor);
            (instance.name_any(), (Arc::new(instance), None))
        });
        let mut decision = Placement::new("app", crds::PlacementSpec::default());
        let assignment = |actor: &str| {
            serde_json::from_value(
                serde_json::json!({"actor": actor, "unit": "n/cpus-0", "node": "n", "pool": "cpus"}),
            )
            .unwrap()
        };
        decision.spec.assignments = ["a-0", "a-1", "old-10", "old-2"].map(assignment).into();
        let actors = world::manifest_actors(&application);
        let instances = instances.into();
        let listed = |is_applied| {
            let listed = listed_actors(&decision, &actors, &instances, is_applied);
            listed.iter().map(ActorName::short).collect::<Vec<_>>()
        };
        assert_eq!(listed(true), ["a-0", "a-1", "a-2"]);
        assert_eq!(listed(false), ["a-0", "a-1", "old-2", "old-10"]);
    }
}
