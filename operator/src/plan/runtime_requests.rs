//! Places actors that the application requests or releases at runtime at once, without a search. The plan is improved in the
//! background later.

use std::sync::Arc;

use control::{Decision, DesiredState, PlanReason, Verdict};
use crds::{ActorApplication, Placement};
use kube::runtime::events::EventType;
use placement::Plan;
use world::{ApplicationKey, AssembledSnapshot, Policy};

use crate::commit::elective::DecisionReason;
use crate::commit::revalidate::Revalidation;
use crate::commit::write::{commit, record_committed};
use crate::error::Error;
use crate::plan::observe::{judge, judge_plan};
use crate::plan::searches::LastPlanned;
use crate::runtime::context::Context;
use crate::status::report::{Outcome, event};

/// Name prefix of requested actors; no group may have it.
const REQUEST_PREFIX: &str = "inst-";

/// Whether only requested actors were added or removed since the Placement, under a policy that needs no search.
pub fn only_requests_changed(
    application: &ActorApplication,
    policy: &Policy,
    wanted: &DesiredState,
    decision: Option<&Placement>,
) -> bool {
    let is_requested = |name: &str| name.starts_with(REQUEST_PREFIX);
    let all = |decision: &Placement| {
        control::only_requests_changed(wanted, &world::decision(decision), is_requested)
    };
    policy.rules().is_none() && !application.spec.paused && decision.is_some_and(all)
}

/// Places the requested actors if that needs no search; returns whether it did.
///
/// # Errors
/// When the Placement cannot be written, or the snapshot is stale.
pub async fn decide(
    (application, key): (&ActorApplication, &ApplicationKey),
    policy: &Policy,
    world: &Arc<AssembledSnapshot>,
    (decision, why): (&Decision, PlanReason),
    now: &LastPlanned,
    ctx: &Arc<Context>,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    if !matches!(why, PlanReason::Incomplete | PlanReason::Demand) {
        return Ok(false);
    }
    let Some(plan) = place(world, policy, decision).await? else { return Ok(false) };
    ctx.metrics.plans.with_label_values(&[plan.strategy, plan.stopped_by.into()]).inc();
    tracing::info!(%why, strategy = plan.strategy, unplaced = plan.cost.unplaced, "planned");
    // Many requests may arrive at once.
    let by = (judge(policy).at_once(), &ctx.snapshot_permits);
    let plan = match judge_plan(key, (world, &world.snapshot), plan, by, ctx).await {
        Ok(plan) => plan,
        Err(problem @ Error::Mismatch(_)) => {
            // The plan is discarded; a search makes another one.
            let warning = event(EventType::Warning, problem.reason(), "Plan", problem.chain());
            ctx.emit_event(application, &warning).await;
            return Ok(false);
        }
        Err(problem) => return Err(problem),
    };
    let revalidation =
        Revalidation { planned: world, plan, keep_partial: true, why, key, policy, application, ctx };
    let Some((lock, newest, Verdict::Valid(plan) | Verdict::Repaired(plan))) =
        revalidation.revalidate().await?
    else {
        return Ok(false);
    };
    let reason = DecisionReason { why, load: None, least: policy.min_gain() };
    commit(application, (key, &reason), policy, (lock, None, &newest), &plan, ctx, outcome).await?;
    ctx.caches.recheck().add([key.clone()]);
    let mut now = now.clone();
    // A plan made without a search is improved in the background.
    now.facts.freed_counter = u64::MAX;
    now.facts.resume_search = None;
    record_committed((key, ctx), policy, &newest.world, &plan, now);
    Ok(true)
}

/// A plan that keeps all actors and gives requested ones the cheapest feasible unit; nothing if that needs a search.
///
/// # Errors
/// When the snapshot cannot be planned.
async fn place(
    world: &Arc<AssembledSnapshot>,
    policy: &Policy,
    decision: &Decision,
) -> Result<Option<Plan>, Error> {
    let (world, waited, judge) = (world.clone(), decision.unplaced.clone(), judge(policy));
    let task = tokio::task::spawn_blocking(move || {
        let mut plan = control::place_one(&world.snapshot, &waited)?;
        if plan.cost.unplaced > 0 {
            explain::explain_plan(&mut plan, &world.snapshot, &judge, explain::REASONS_EFFORT);
        }
        Some(plan)
    });
    task.await.map_err(|e| Error::Search(e.to_string()))
}
