//! Rechecks assignments without a pod, which may have become infeasible, when an actor waits for its unit; infeasible ones
//! trigger a replan.

use std::collections::BTreeSet;

use control::{Action, Actions, BlockedOn, Moment, ObservedState};
use crds::{ActorApplication, Placement, StartPolicy};
use kube::ResourceExt;
use world::ApplicationKey;

use crate::error::Error;
use crate::plan::observe::infeasible;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// The actors whose assigned unit is infeasible now. Checked only if pending in the recheck queue and relevant: an actor waits
/// for its unit, or all start together. More than `known` trigger a replan.
///
/// The application's own moving actors do not count, nor do pods whose owner is deleted.
///
/// # Errors
/// When it cannot be determined.
pub async fn recheck(
    (application, decision): (&ActorApplication, &Placement),
    known: &BTreeSet<String>,
    (next, observed): (&Actions, &ObservedState),
    ctx: &Context,
) -> Result<Option<BTreeSet<String>>, Error> {
    let key = ApplicationKey::of(application);
    let starts = application.spec.start == StartPolicy::AllOrNothing
        && !control::has_started(observed)
        && next.actions.iter().any(|action| matches!(action, Action::StartPod { .. }));
    let matters = starts || next.blocked.values().any(BlockedOn::is_about_placement);
    if !(matters && ctx.caches.recheck().take(&key, starts, moment())) {
        return Ok(None);
    }
    let recheck = infeasible(ctx, application, &world::decision(decision)).await?;
    if !ctx.is_in_force(&key, &(decision.uid(), decision.metadata.generation)) {
        // A newer Placement is for the next reconcile.
        ctx.caches.recheck().add([key]);
        return Ok(None);
    }
    ctx.planner.set_infeasible(&key, application.metadata.generation, &recheck);
    if !recheck.is_subset(known) {
        ctx.enqueue_replan(&key);
    }
    Ok(Some(recheck))
}

/// When the assignments of a waiting application are checked next, after changes that did not enqueue it. If one is infeasible,
/// a replan is requested with backoff, as capacity may have grown elsewhere.
pub fn next_recheck(key: &ApplicationKey, outcome: &Outcome, ctx: &Context) -> Option<Moment> {
    if !outcome.waiting.values().any(BlockedOn::is_about_placement) {
        return None;
    }
    let recheck = ctx.caches.recheck().next_check(key, moment());
    let is_lost = outcome.waiting.values().any(|wait| matches!(wait, BlockedOn::Infeasible(_)));
    let asked = is_lost.then(|| enqueue_replan_with_backoff(key, ctx));
    asked.into_iter().chain(recheck).min()
}

/// Requests a replan unless that is backed off; returns until when it is.
fn enqueue_replan_with_backoff(key: &ApplicationKey, ctx: &Context) -> Moment {
    let backoff_key = (key.clone(), "its places".to_owned());
    if let Some((until, _)) = ctx.backoff(&backoff_key) {
        return until;
    }
    ctx.enqueue_replan(key);
    ctx.back_off(backoff_key, "the assigned unit is no longer feasible", None)
}
