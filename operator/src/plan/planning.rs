//! Planning runs, taken from the [planning queue](crate::plan::planner).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::RESYNC_PERIOD;
use crds::ActorApplication;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use world::ApplicationKey;

use crate::error::{Error, catch_panic};
use crate::plan::decide::decide;
use crate::plan::observe::kinds;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::{Outcome, decision_events, event};

/// Interval of granting background slots.
const GRANT_INTERVAL: Duration = Duration::from_secs(10);

/// Enqueues an application for planning if that is due.
pub fn enqueue_if_due(key: &ApplicationKey, ctx: &Context) {
    let now = moment();
    // Improvements wait until no foreground search waits.
    let may_improve =
        || ctx.caches.triggers().has_background_slot(key) && !ctx.solver_slots.is_full_for_background();
    if ctx.caches.triggers().is_dirty(key) || ctx.planner.is_due(key, now) || may_improve() {
        ctx.planner.enqueue(key);
    }
}

/// Plans an application, or commits the result of its search, and requeues its reconcile.
#[tracing::instrument(skip_all, fields(application = %key))]
pub async fn plan(key: ApplicationKey, ctx: Arc<Context>) {
    let _alone = ctx.plan_locks.lock(&key).await;
    let Some(application) = ctx.caches.application(&key) else {
        ctx.planner.retain(|other| *other != key);
        return;
    };
    ctx.forget_if_recreated(&key, &application);
    if ctx.planner.begin(&key) {
        // A retry that is due counts as a change.
        ctx.caches.mark_dirty(&key);
    }
    if application.metadata.deletion_timestamp.is_some() || ctx.writer.leadership.check().is_err() {
        ctx.planner.record_failure(&key, None);
        return;
    }
    let working = ctx.writer.liveness.begin();
    // Events from here on trigger the next run, even if this one fails.
    let dirty = ctx.caches.take_dirty(&key);
    let mut outcome = Outcome::default();
    let version = |outcome: &Outcome| outcome.decision.as_ref().and_then(ResourceExt::resource_version);
    let (before, decided) = match ctx.caches.decision(&key) {
        Ok(decision) => {
            outcome.decision = decision.map(|decision| decision.as_ref().clone());
            let before = version(&outcome);
            let decided = Box::pin(decide(&application, &key, &ctx, dirty, &mut outcome));
            (before, catch_panic(decided, Error::Panicked("planning")).await)
        }
        Err(e) => (None, Err(e)),
    };
    drop(working);
    ctx.caches.triggers().planning_done(&key);
    // A started search is not a success yet.
    if !outcome.searching && decided.as_ref().err().is_none_or(|e| e.is_reported() && !e.may_pass()) {
        ctx.plan_backoff.reset(&key);
    }
    let spec = outcome.decision.as_ref().filter(|_| std::mem::take(&mut outcome.placement_written));
    let events = spec.map(|decision| decision_events(&decision.spec)).unwrap_or_default();
    let is_searched = decided.is_ok() && outcome.searching && version(&outcome) == before;
    match decided {
        Ok(()) => ctx.planner.record(&key, outcome),
        Err(e) if e.is_reported() => {
            ctx.metrics.reconciles.with_label_values(&[e.reason()]).inc();
            // An earlier search result is obsolete.
            ctx.planner.discard_result(&key);
            report_failure(&application, &ctx, &e).await;
            outcome.failure = Some((e.condition_reason(), e.chain()));
            let wait =
                if e.may_pass() { ctx.plan_backoff.next_delay(&key, &e, moment()) } else { RESYNC_PERIOD };
            outcome.requeue_at = Some(moment() + wait);
            ctx.planner.record(&key, outcome);
        }
        Err(e) => {
            ctx.metrics.reconciles.with_label_values(&[e.reason()]).inc();
            tracing::warn!(error = e.chain(), "planning failed");
            ctx.planner
                .record_failure(&key, Some(moment() + ctx.plan_backoff.next_delay(&key, &e, moment())));
            let failed = [e];
            ctx.plan_backoff.describe(&key, &failed);
            if ctx.plan_backoff.is_lasting(&key) {
                ctx.report_failed_work(application.as_ref(), "Plan", &failed).await;
            }
        }
    }
    // A started search changes nothing that a reconcile would apply or report.
    if !is_searched {
        ctx.planner.requeue(&key);
    }
    // Events are emitted last so that starts do not wait for them.
    for event in events {
        ctx.emit_event(application.as_ref(), &event).await;
    }
}

/// Commits a search result before the slot is handed on, however many applications wait for planning.
pub async fn commit_finished(key: ApplicationKey, ctx: Arc<Context>) {
    plan(key.clone(), ctx.clone()).await;
    ctx.planner.release_slot(&key);
}

/// Emits an event once per message if the application cannot be planned.
async fn report_failure(application: &ActorApplication, ctx: &Context, error: &Error) {
    let message = error.chain();
    let conditions = application.status.iter().flat_map(|status| &status.conditions);
    let is_reported =
        conditions.into_iter().any(|c| c.type_ == "Accepted" && c.status == "False" && c.message == message);
    if !is_reported {
        tracing::info!(reason = error.reason(), message, "not accepted");
        ctx.emit_event(application, &event(EventType::Warning, error.reason(), "Plan", message)).await;
    }
}

/// Grants background slots to applications that may be improved; ends only with the process.
pub async fn background(ctx: Arc<Context>) {
    loop {
        tokio::time::sleep(GRANT_INTERVAL).await;
        let existing = ctx.caches.forget_deleted();
        ctx.planner.retain(|key| existing.contains(key));
        for key in ctx.uids.remove_gone(|key| existing.contains(key)) {
            ctx.forget(&key);
        }
        if ctx.solver_slots.is_full_for_background() || ctx.solver_slots.has_foreground_demand() {
            // Foreground searches need the time.
            continue;
        }
        let known = ctx.planner.freed_counters().into_iter();
        let present = known
            .filter_map(|(key, freed_counter)| Some((ctx.caches.application(&key)?, key, freed_counter)))
            .collect::<Vec<_>>();
        let mut waiting = BTreeMap::new();
        for (application, key, freed_counter) in &present {
            let kinds = kinds(application);
            if ctx.caches.freed_counter(key, kinds.iter().copied()) != *freed_counter {
                waiting.insert(key.clone(), kinds);
            }
        }
        ctx.caches.grant_background_slots(waiting, moment(), ctx.planning.slots());
    }
}
