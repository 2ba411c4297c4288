//! Actors that an application asked for, or took back, while it runs: decided at once, and looked at again when there is
//! time, as everything is.

use std::sync::Arc;

use control::{Decision, Due, Verdict, Wanted};
use crds::{ActorApplication, Placement};
use kube::runtime::events::EventType;
use placement::Plan;
use world::{ApplicationKey, Policy, World};

use crate::commit::revalidate::Revalidation;
use crate::commit::write::{commit, record_committed};
use crate::error::Error;
use crate::plan::observe::{judge, judge_plan};
use crate::plan::searches::LastPlanned;
use crate::runtime::context::Context;
use crate::status::report::{Outcome, event};

/// The names of actors that were asked for begin so; no group has such a name.
const REQUEST_PREFIX: &str = "inst-";

/// Whether nothing but such actors came or went since the decision, under a policy that a quick look understands.
pub fn only_requests_changed(
    application: &ActorApplication,
    policy: &Policy,
    wanted: &Wanted,
    decision: Option<&Placement>,
) -> bool {
    let is_requested = |name: &str| name.starts_with(REQUEST_PREFIX);
    let all = |decision: &Placement| control::only_asked(wanted, &world::decision(decision), is_requested);
    policy.rules().is_none() && !application.spec.paused && decision.is_some_and(all)
}

/// Decides at once, where that needs no search; whether it is decided.
///
/// # Errors
/// When the decision cannot be written, or the world is another one by now.
pub async fn decide(
    (application, key): (&ActorApplication, &ApplicationKey),
    policy: &Policy,
    world: &Arc<World>,
    (decision, why): (&Decision, Due),
    now: &LastPlanned,
    ctx: &Arc<Context>,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    if !matches!(why, Due::Incomplete | Due::Demand) {
        return Ok(false);
    }
    let Some(plan) = place(world, policy, decision).await? else { return Ok(false) };
    ctx.metrics.plans.with_label_values(&[plan.strategy, plan.stopped_by.into()]).inc();
    tracing::info!(%why, strategy = plan.strategy, unplaced = plan.cost.unplaced, "planned");
    // Many may ask at the same time.
    let by = (judge(policy).at_once(), &ctx.snapshot_permits);
    let plan = match judge_plan(key, (world, &world.snapshot), plan, by, ctx).await {
        Ok(plan) => plan,
        Err(problem @ Error::Mismatch(_)) => {
            // The plan is lost, and a search makes another one.
            let told = event(EventType::Warning, problem.reason(), "Plan", problem.chain());
            ctx.emit_event(application, &told).await;
            return Ok(false);
        }
        Err(problem) => return Err(problem),
    };
    let revalidation = Revalidation {
        planned: world,
        plan,
        keep_partial: true,
        is_judged: true,
        key,
        policy,
        application,
        ctx,
    };
    let Some((lock, newest, Verdict::Stands(plan) | Verdict::Mended(plan))) =
        revalidation.revalidate().await?
    else {
        return Ok(false);
    };
    commit(application, (key, why), policy, (lock, None, &newest), &plan, ctx, outcome).await?;
    ctx.caches.recheck().add([key.clone()]);
    let mut now = now.clone();
    // What was placed in a hurry is looked at again when there is time.
    now.facts.chances = u64::MAX;
    now.facts.second_look = None;
    record_committed((key, ctx), policy, &newest, &plan, now);
    Ok(true)
}

/// A plan in which everybody stays and who was asked for has the cheapest place that is feasible; nothing where it needs
/// a search.
///
/// # Errors
/// When the world cannot be planned.
async fn place(world: &Arc<World>, policy: &Policy, decision: &Decision) -> Result<Option<Plan>, Error> {
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
