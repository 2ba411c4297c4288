//! Writes the statuses of an application, its Placement and its Instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use control::{Moment, Refusal};
use crds::{ActorApplication, Instance, InstanceStatus, NodeTopology, Placement, PlacementStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use world::{ActorName, ApplicationActors, ApplicationKey, DecidedMove, OwnedObjects, Policy, object_name};

use crate::api::writes::all;
use crate::apply::moves::record::record_steps;
use crate::apply::pods::device_claims::add_claimed;
use crate::apply::refusals::to_status;
use crate::apply::rollout::Rollout;
use crate::error::Error;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::failures::failure_notes;
use crate::status::instances::{InstanceContext, defer_report, instance_status, root_of};
use crate::status::moves::{ObservedMove, move_progress, moves_without_finished};
use crate::status::phase::{self, placement_status};
use crate::status::report::{self, Outcome, application_status};
use crate::watch::devices;

/// The status writes of a reconcile.
pub struct StatusReport {
    /// Whether the status of the application or its Placement was written.
    pub written: bool,
    /// When a deferred status is due.
    pub requeue_at: Option<Moment>,
}

/// Writes changed statuses; counts of running actors less often. `has_failed` says whether the reconcile already failed in part.
///
/// # Errors
/// When a write fails, or the lease is lost; it is retried.
pub async fn report(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &Outcome,
    refusals: &[Refusal],
    has_failed: bool,
) -> Result<StatusReport, Error> {
    let (own, actors) = {
        let index = ctx.caches.index();
        (world::owned_objects(&index, application), world::desired_actors(&index, application))
    };
    let others_starting = ctx.recent_starts.others_starting(key, moment());
    // A failed write keeps none of the others from being made.
    let instances = report_instances(&actors, ctx, &own, (outcome, others_starting)).await;
    let (requeue_in, mut failed) = match instances {
        Ok(requeue_in) => (requeue_in, None),
        Err(error) => (None, Some(error)),
    };
    let mut reported = StatusReport { written: false, requeue_at: requeue_in.map(|next| moment() + next) };
    let next_count_report = ctx.status_throttle.next_count_report(key, moment());
    let mut is_due = |only_counts: bool| {
        let later = next_count_report.filter(|_| only_counts);
        reported.requeue_at = later.into_iter().chain(reported.requeue_at).min();
        reported.written |= later.is_none();
        later.is_none()
    };
    let plain = Policy::builtin("units");
    let now = Timestamp::now();
    let rollout = Rollout::of(application, ctx);
    let progress = {
        let index = ctx.caches.index();
        let unit = |id: &str| world::units_at(&index, id.rsplit_once('/')?.0, &plain).remove(id);
        rollout.progress(&actors.names, &own, outcome.decision.as_ref(), &unit)
    };
    let mut outcome = Outcome { progress, ..outcome.clone() };
    let instances = own.iter().map(|(name, (instance, _))| (name.clone(), instance.as_ref())).collect();
    let mut relisted_at = None;
    if let Some(decision) = &outcome.decision {
        let names: BTreeMap<String, String> =
            actors.names.iter().map(|actor| (actor.short(), object_name(actor))).collect();
        let observed = |it: &DecidedMove| {
            let pod = names.get(it.actor).and_then(|name| own.get(name)).and_then(|(_, pod)| pod.as_deref());
            ObservedMove::of(it.to, pod)
        };
        let moves = move_progress(decision, &observed, outcome.judged.as_ref(), now);
        let placement =
            placement_status(decision, (&instances, &outcome.waiting), (to_status(refusals), moves), now);
        let is_due = |before: &PlacementStatus| is_due(phase::only_counts(before, &placement));
        match report_placement(application, decision, &placement, is_due, ctx).await {
            // The status has room for others now.
            Ok(is_relisted) => relisted_at = is_relisted.then(moment),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    outcome.notes.extend(failure_notes(key, has_failed || failed.is_some(), ctx));
    let status = application_status(application, &actors.names, &outcome, &instances, now);
    // The cached status is newer, so a status just written is not written again.
    let newest = ctx.caches.applications.get(&crate::watch::caches::object_ref(key));
    if let Some(newest) = newest.filter(|newest| newest.uid() == application.uid()) {
        let before = newest.status.clone().unwrap_or_default();
        if before != status && is_due(report::only_counts(&before, &status)) {
            ctx.writer.apply_status(newest.as_ref(), &status).await?;
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    reported.requeue_at = relisted_at.into_iter().chain(reported.requeue_at).min();
    Ok(reported)
}

/// Writes a changed status of the Placement, and drops moves that were finished; returns whether there were any.
async fn report_placement(
    application: &ActorApplication,
    decision: &Placement,
    status: &PlacementStatus,
    is_due: impl FnOnce(&PlacementStatus) -> bool,
    ctx: &Context,
) -> Result<bool, Error> {
    let before = decision.status.clone().unwrap_or_default();
    let mut newest = None;
    if before != *status && is_due(&before) {
        let written = ctx.writer.apply_status(decision, status).await?;
        ctx.caches.record_written(written.clone());
        record_steps(application, (&before.moves, status), ctx).await;
        newest = Some(written);
    }
    let newest = newest.as_ref().unwrap_or(decision);
    let Some(moves) = moves_without_finished(newest) else { return Ok(false) };
    ctx.caches.record_written(ctx.writer.patch_placement_moves(newest, &moves).await?);
    Ok(true)
}

/// Writes changed statuses of Instances; returns when deferred ones are due.
async fn report_instances(
    actors: &ApplicationActors,
    ctx: &Context,
    own: &OwnedObjects,
    (outcome, others_starting): (&Outcome, bool),
) -> Result<Option<Duration>, Error> {
    let topologies: BTreeMap<String, Arc<NodeTopology>> = {
        let index = ctx.caches.index();
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let nodes: BTreeSet<String> = own.values().filter_map(|(_, pod)| node(pod.as_deref()?)).collect();
        let found = nodes.into_iter().filter_map(|node| Some((node.clone(), index.topology(&node)?.clone())));
        found.collect()
    };
    let topologies = topologies.iter().map(|(name, topology)| (name.clone(), topology.as_ref())).collect();
    let root = root_of(&actors.names, own);
    let spec = outcome.decision.as_ref().map(|decision| &decision.spec);
    let places: BTreeMap<&str, &str> = spec
        .iter()
        .flat_map(|spec| &spec.assignments)
        .map(|it| (it.actor.as_str(), it.unit.as_str()))
        .collect();
    let reasons: BTreeMap<&str, &[String]> = spec
        .iter()
        .flat_map(|spec| &spec.unplaced)
        .map(|it| (it.actor.as_str(), it.reasons.as_slice()))
        .collect();
    let now = Timestamp::now();
    let plain = Policy::builtin("units");
    let mut requeue_in = None;
    let changed = own.iter().filter_map(|(name, (instance, pod))| {
        let pod = pod.as_deref();
        let mut devices = pod.map(|pod| devices::held_by(pod, &topologies)).unwrap_or_default();
        if let Some(pod) = pod {
            add_claimed(&mut devices, &ctx.caches.index(), instance, pod);
        }
        let wrong_device = pod.and_then(|pod| {
            let index = ctx.caches.index();
            index.claims_of(instance).next()?;
            let id = world::unit_of(pod)?;
            let unit = world::units_at(&index, id.rsplit_once('/')?.0, &plain).remove(id)?;
            index.misallocated(instance, &unit)
        });
        let hosted: Vec<String> = world::actors_of_instance(instance).iter().map(ActorName::short).collect();
        let context = InstanceContext {
            place: hosted.iter().find_map(|actor| places.get(actor.as_str()).copied()),
            reasons: hosted.iter().find_map(|actor| reasons.get(actor.as_str()).copied()),
            wait: hosted.iter().find_map(|actor| outcome.waiting.get(actor)),
            unfit: actors.rejected.get(name),
            wrong_device: wrong_device.as_deref(),
            others_starting,
            now,
        };
        let status = instance_status(instance, pod, devices, root.as_ref() == Some(name), &context);
        let deferred = defer_report(instance, pod, &context, &status);
        requeue_in = requeue_in.into_iter().chain(deferred).min();
        (deferred.is_none() && instance.status.as_ref() != Some(&status))
            .then_some((instance.as_ref(), status))
    });
    let changed: Vec<(&Instance, InstanceStatus)> = changed.collect();
    let work = changed.into_iter().map(|(instance, status)| async move {
        match ctx.writer.apply_status(instance, &status).await {
            // It was deleted meanwhile, and perhaps recreated.
            Err(Error::Apply { source: kube::Error::Api(answer), .. }) if answer.code == 404 => Ok(()),
            // The newer version enqueues the application.
            Err(Error::Overtaken) => Ok(()),
            other => other.map(|_| ()),
        }
    });
    all(work).await?;
    Ok(requeue_in)
}
