//! Actors that an application asked for, or took back, while it runs: decided at once, and looked at again when there is
//! time, as everything is.

use std::sync::Arc;

use control::{Decision, Due, Wanted};
use crds::{ActorApplication, Placement};
use placement::Plan;
use world::{Policy, World};

use crate::context::Context;
use crate::error::Error;
use crate::look::judge;

/// The names of actors that were asked for begin so; no group has such a name.
const ASKED: &str = "inst-";

/// Whether nothing but such actors came or went since the decision, under a policy that a quick look understands.
pub fn is_all(
    application: &ActorApplication,
    policy: &Policy,
    wanted: &Wanted,
    decision: Option<&Placement>,
) -> bool {
    let is_asked = |name: &str| name.starts_with(ASKED);
    let all = |decision: &Placement| control::only_asked(wanted, &world::decision(decision), is_asked);
    policy.rules().is_none() && !application.spec.paused && decision.is_some_and(all)
}

/// A plan in which everybody stays and who was asked for has the cheapest place that is feasible; nothing where it needs
/// a search.
///
/// # Errors
/// When the world cannot be planned.
pub async fn placed(
    world: &Arc<World>,
    policy: &Policy,
    decision: &Decision,
    why: Due,
    ctx: &Context,
) -> Result<Option<Plan>, Error> {
    if !matches!(why, Due::Incomplete | Due::Demand) {
        return Ok(None);
    }
    let (world, waited, judge) = (world.clone(), decision.unplaced.clone(), judge(policy));
    let task = tokio::task::spawn_blocking(move || {
        let mut plan = control::place_one(&world.snapshot, &waited)?;
        if plan.cost.unplaced > 0 {
            explain::tell(&mut plan, &world.snapshot, &judge, explain::REASONS_EFFORT);
        }
        Some(plan)
    });
    let plan = task.await.map_err(|e| Error::Search(e.to_string()))?;
    if let Some(plan) = &plan {
        ctx.metrics.plans.with_label_values(&[plan.strategy, plan.stopped_by.into()]).inc();
        tracing::info!(%why, strategy = plan.strategy, unplaced = plan.cost.unplaced, "planned");
    }
    Ok(plan)
}
