//! Planning one application after the other, as the [queue of planning](crate::plan::plans) has them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use control::LOOK_AGAIN;
use crds::ActorApplication;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use world::ApplicationKey;

use crate::error::Error;
use crate::plan::decide::decide;
use crate::plan::observe::kinds;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::{Outcome, decision_events, event};

/// How often it is asked whose turn it is to look whether it could be better.
const TURNS: Duration = Duration::from_secs(10);

/// Puts an application into the queue of planning where it is due to be looked at there.
pub fn ask_if_due(key: &ApplicationKey, ctx: &Context) {
    let now = moment();
    // What could merely be better waits until nobody waits for a search.
    let may_look = || ctx.caches.touched().may_look(key) && !ctx.solver_slots.is_full_at_leisure();
    let is_second_look = || ctx.second_look(key).is_some_and(|look| look.is_due(now));
    if ctx.caches.touched().is_touched(key) || ctx.plans.is_due(key, now) || may_look() || is_second_look() {
        ctx.plans.ask(key);
    }
}

/// Plans an application where that is due, or settles what was searched for it, and lets it be looked after.
#[tracing::instrument(skip_all, fields(application = %key))]
pub async fn plan(key: ApplicationKey, ctx: Arc<Context>) {
    let _alone = ctx.one_at_a_time.alone(&key).await;
    let Some(application) = ctx.caches.application(&key) else {
        ctx.searches.forget(&key);
        ctx.plans.keep(|other| *other != key);
        return;
    };
    ctx.meet(&key, &application);
    if ctx.plans.begin(&key) {
        // Whatever it could not be planned for before is looked at again.
        ctx.caches.touch(&key);
    }
    if application.metadata.deletion_timestamp.is_some() || ctx.writer.leadership.check().is_err() {
        ctx.plans.failed(&key, None);
        return;
    }
    let working = ctx.writer.pulse.begin();
    // What touches it after this is looked at the next time, also where it cannot be planned now.
    let touched = ctx.caches.take_touch(&key);
    let mut outcome = Outcome::default();
    let version = |outcome: &Outcome| outcome.decision.as_ref().and_then(ResourceExt::resource_version);
    let (before, decided) = match ctx.caches.decision(&key) {
        Ok(decision) => {
            outcome.decision = decision.map(|decision| decision.as_ref().clone());
            (version(&outcome), Box::pin(decide(&application, &key, &ctx, touched, &mut outcome)).await)
        }
        Err(e) => (None, Err(e)),
    };
    drop(working);
    ctx.caches.touched().looked(&key);
    // A search that begins is no success yet.
    if !outcome.searching && decided.as_ref().err().is_none_or(|e| e.is_told() && !e.is_refused()) {
        ctx.plan_retries.went_well(&key);
    }
    let spec = outcome.decision.as_ref().filter(|_| std::mem::take(&mut outcome.is_decided));
    let events = spec.map(|decision| decision_events(&decision.spec)).unwrap_or_default();
    let is_searched = decided.is_ok() && outcome.searching && version(&outcome) == before;
    match decided {
        Ok(()) => ctx.plans.said(&key, outcome),
        Err(e) if e.is_told() => {
            ctx.metrics.reconciles.with_label_values(&[e.reason()]).inc();
            // What was found before it was so is not waited for.
            ctx.searches.forget_found(&key);
            tell_failure(&application, &ctx, &e).await;
            outcome.failure = Some((e.told(), e.chain()));
            let wait = if e.is_refused() { ctx.plan_retries.after(&key, &e, moment()) } else { LOOK_AGAIN };
            outcome.next = Some(moment() + wait);
            ctx.plans.said(&key, outcome);
        }
        Err(e) => {
            ctx.metrics.reconciles.with_label_values(&[e.reason()]).inc();
            tracing::warn!(error = e.chain(), "planning failed");
            ctx.plans.failed(&key, Some(moment() + ctx.plan_retries.after(&key, &e, moment())));
        }
    }
    // Until a search is through there is nothing to carry out or to tell that was not there before.
    if !is_searched {
        ctx.plans.through(&key);
    }
    // Nobody who starts waits for what is told.
    for event in events {
        ctx.tell(application.as_ref(), &event).await;
    }
}

/// Settles what was searched for an application: it is committed before its slot is another's, however many wait to be
/// planned.
pub async fn settle(key: ApplicationKey, ctx: Arc<Context>) {
    plan(key.clone(), ctx.clone()).await;
    ctx.searches.give_back(&key);
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

/// Looks in the background whether applications could be better; ends only with the process.
pub async fn background(ctx: Arc<Context>) {
    loop {
        tokio::time::sleep(TURNS).await;
        let there = ctx.caches.forget_gone();
        ctx.plans.keep(|key| there.contains(key));
        for key in ctx.met.gone(|key| there.contains(key)) {
            ctx.forget(&key);
            ctx.searches.forget(&key);
        }
        if ctx.solver_slots.is_full_at_leisure() || ctx.solver_slots.is_needed() {
            // Others need the time.
            continue;
        }
        let known: Vec<(ApplicationKey, u64)> = {
            let considered = ctx.considered.lock().unwrap_or_else(PoisonError::into_inner);
            considered.iter().map(|(key, considered)| (key.clone(), considered.facts.chances)).collect()
        };
        let present = known
            .into_iter()
            .filter_map(|(key, chances)| Some((ctx.caches.application(&key)?, key, chances)))
            .collect::<Vec<_>>();
        let mut waiting = BTreeMap::new();
        for (application, key, chances) in &present {
            let kinds = kinds(application);
            if ctx.caches.chances(key, kinds.iter().copied()) != *chances {
                waiting.insert(key.clone(), kinds);
            }
        }
        ctx.caches.give_turns(waiting, moment(), ctx.planning.slots());
    }
}
