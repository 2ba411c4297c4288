//! Commits moves that measured load justifies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{PlanReason, Verdict};
use world::{LoadRule, MeasuredDemand};

use crate::commit::elective::DecisionReason;
use crate::commit::revalidate::Revalidation;
use crate::commit::write::{commit, record_committed};
use crate::error::Error;
use crate::plan::load::search::{LoadSearch, SearchedLoad};
use crate::plan::observe::{judge, run_blocking};
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// Writes a Placement with these moves; false if the cluster changed meanwhile, so that they are searched again.
///
/// # Errors
/// When clingo disagrees, or the write fails.
pub async fn commit_moves(
    request: &LoadSearch<'_>,
    found: SearchedLoad,
    ctx: &Context,
) -> Result<bool, Error> {
    let LoadSearch { key, application, policy, windows, rule } = request;
    let SearchedLoad { world, derived, plan, judgement, .. } = found;
    let Some((moves, _)) = judgement.pays() else { return Ok(false) };
    let (moves, choice) = (moves.clone(), LoadRule::from(*rule).windows());
    let (judge, wall) = (judge(policy), Duration::from_millis(policy.wall_milliseconds));
    let planned = run_blocking(&ctx.snapshot_permits, move || {
        let begun = Instant::now();
        let judge = judge.until(Arc::new(move || wall.saturating_sub(begun.elapsed())));
        let plan = moves.only(&derived, plan);
        Ok(plan.judged_again(&derived, &judge))
    });
    let planned = planned.await?;
    let plan = ctx.mismatches.judged(key, &world.snapshot, planned, &ctx.metrics)?;
    // From now on plans use the load that these moves are for.
    let profiles = world::group_profiles(&ctx.caches.index(), application, policy);
    let profiles = profiles.map_err(world::AssembleError::Invalid)?;
    let numbers = windows.measure(&profiles, choice);
    let measured = Arc::new(MeasuredDemand { window: policy.window, numbers });
    ctx.caches.change(|index| index.set_measured(key, Some(measured)));
    let _alone = ctx.plan_locks.lock(key).await;
    if ctx.planner.has_search(key) {
        return Ok(false);
    }
    let (why, keep_partial) = (PlanReason::Load, false);
    let revalidation =
        Revalidation { planned: &world, plan, keep_partial, why, key, policy, application, ctx };
    let Some((lock, newest, Verdict::Valid(plan))) = revalidation.revalidate().await? else {
        return Ok(false);
    };
    let load = windows.messages_per_second(choice);
    let reason = DecisionReason { why, load: Some((*rule, load)), least: policy.rebalance.min_gain() };
    let mut outcome = Outcome::default();
    commit(application, (key, &reason), policy, (lock, None, &newest), &plan, ctx, &mut outcome).await?;
    if outcome.moved {
        ctx.planner.set_moved(key, true);
    }
    ctx.caches.recheck().add([(*key).clone()]);
    if let Some(known) = ctx.planner.last_planned(key) {
        record_committed((key, ctx), policy, &newest.world, &plan, known);
    }
    ctx.caches.enqueue(key);
    Ok(outcome.placement_written)
}
