//! Writes a plan that was revalidated.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::{ActorApplication, MicroTime, Placement, PlacementSpec, StartPolicy};
use jiff::Timestamp;
use kube::ResourceExt;
use placement::Plan;
use world::{ApplicationKey, AssembledSnapshot, Policy};

use crate::apply::moves::record::record_decisions;
use crate::apply::owned::ownership::owner;
use crate::commit::decision::{is_unchanged, spec};
use crate::commit::elective::{DecisionMoves, DecisionReason};
use crate::commit::locks::CommitGuard;
use crate::commit::revalidate::LatestSnapshot;
use crate::error::Error;
use crate::plan::searches::LastPlanned;
use crate::queue::solver_slots::SolverSlot;
use crate::runtime::clock::micro_time;
use crate::runtime::context::Context;
use crate::status::report::Outcome;

/// How long a commit may hold its lock. A plan whose commit overlaps with a slower one is planned again, as it did not know its
/// result.
const SLOW_COMMIT: Duration = Duration::from_secs(1);

/// Writes the Placement unless it is unchanged. Lock and slot are released as soon as it is written; events follow later.
pub async fn commit(
    application: &ActorApplication,
    (key, reason): (&ApplicationKey, &DecisionReason),
    policy: &Policy,
    (lock, mut slot, newest): (CommitGuard<'_>, Option<SolverSlot>, &LatestSnapshot),
    plan: &Plan,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let (before, world) = (ctx.caches.decision(key)?, &*newest.world);
    let all_or_nothing = application.spec.start == StartPolicy::AllOrNothing && !has_pods(application, ctx);
    let whole = all_or_nothing.then(|| Box::new(control::all_or_nothing(&world.snapshot, plan.clone())));
    let plan = whole.as_deref().unwrap_or(plan);
    let moves = moves_of(world, plan, reason).await?;
    let mut spec = spec(application, (world, policy), (plan, &moves), before.as_deref(), &ctx.caches.index());
    spec.judged_digest.clone_from(&newest.judged_digest);
    if before.as_ref().is_some_and(|before| is_unchanged(&before.spec, &spec)) {
        return Ok(());
    }
    if let Some(before) = &before {
        // Its moves may have had no reconcile yet, and the new Placement does not list all of them.
        let mut other = Outcome::default();
        let recorded = Box::pin(record_decisions((application, key), before, ctx, &mut other)).await;
        if let Err(error) = recorded {
            tracing::warn!(error = error.chain(), "failed to record the replaced decision in the history");
        }
    }
    let mut placement = Placement::new(&application.name_any(), spec);
    placement.metadata.namespace = Some(key.namespace.clone());
    placement.metadata.uid = before.as_ref().and_then(|before| before.uid());
    placement.metadata.resource_version = before.and_then(|before| before.resource_version());
    placement.metadata.owner_references = owner(application);
    placement.metadata.labels = Some([(crds::labels::APPLICATION.to_owned(), key.name.clone())].into());
    let (mut lock, finished) = (Some(lock), ctx.slow_commits.finished());
    let mut write = Box::pin(ctx.writer.write_placement(&placement));
    let written = tokio::select! {
        biased;
        written = &mut write => written,
        () = tokio::time::sleep(SLOW_COMMIT) => {
            ctx.slow_commits.begin();
            drop((lock.take(), slot.take()));
            write.await
        }
    };
    if let Ok(written) = &written {
        ctx.caches.record_written(written.clone());
    }
    let is_slow = lock.is_none();
    if is_slow {
        ctx.slow_commits.finish();
    }
    drop((lock, slot));
    let written = written?;
    if is_slow || ctx.slow_commits.any_since(finished) {
        ctx.caches.mark_dirty(key);
    }
    let moves = moves_decided_at(&written.spec, &moves.at);
    ctx.metrics.moves.with_label_values(&[<&str>::from(reason.why)]).inc_by(moves);
    outcome.moved = moves > 0;
    outcome.placement_written = true;
    outcome.decision = Some(written);
    Ok(())
}

/// The number of moves that a decision adds to those of earlier ones, which are in progress.
fn moves_decided_at(spec: &PlacementSpec, at: &MicroTime) -> u64 {
    spec.moves.iter().map(|it| u64::from(it.decided_at.as_ref() == Some(at))).sum()
}

/// Records that a Placement holds for another manifest of the same demand, which is rolled out then; no place changes.
pub async fn update_record(
    (key, ctx): (&ApplicationKey, &Context),
    generation: i64,
    demand: &str,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Some(decision) = ctx.caches.decision(key)? else { return Ok(()) };
    let written = ctx.writer.patch_placement_record(&decision, generation, demand).await?;
    ctx.caches.record_written(written.clone());
    tracing::info!(generation, "the Placement stays valid for the new generation");
    outcome.decision = Some(written);
    Ok(())
}

/// The moves of a plan, with their gains.
async fn moves_of(
    world: &AssembledSnapshot,
    plan: &Plan,
    reason: &DecisionReason,
) -> Result<DecisionMoves, Error> {
    let at = micro_time(Timestamp::now());
    let incumbent = world.snapshot.incumbent();
    let moves = plan
        .assignment
        .enumerate()
        .any(|(actor, unit)| incumbent[actor].is_some() && unit.is_some() && incumbent[actor] != *unit);
    if !moves {
        return Ok(DecisionMoves { at, gains: BTreeMap::new(), gain: None });
    }
    let (snapshot, plan, reason) = (world.snapshot.clone(), plan.clone(), *reason);
    let task = tokio::task::spawn_blocking(move || DecisionMoves::of(&snapshot, &plan, &reason, at));
    task.await.map_err(|e| Error::Search(e.to_string()))
}

/// Whether the application has a pod.
fn has_pods(application: &ActorApplication, ctx: &Context) -> bool {
    world::owned_objects(&ctx.caches.index(), application).values().any(|(_, pod)| pod.is_some())
}

/// Records from which state a plan was committed.
pub fn record_committed(
    (key, ctx): (&ApplicationKey, &Context),
    policy: &Policy,
    world: &AssembledSnapshot,
    plan: &Plan,
    mut now: LastPlanned,
) {
    now.infeasible.clear();
    if plan.cost.unplaced == 0 {
        // Openings matter only to unplaced actors, and take much memory.
        now.facts.openings.clear();
    }
    now.facts.pressure = control::pressure(&world.snapshot, &plan.assignment);
    ctx.guard(key, policy, &world.snapshot, &plan.assignment, &now.facts.pressure);
    ctx.planner.set_last_planned(key, Some(now));
}

#[cfg(test)]
mod tests {
    use crds::Move;

    use super::*;

    #[test]
    fn moves_of_earlier_decisions_are_not_counted_again() {
        let at = |second| micro_time(Timestamp::from_second(second).unwrap());
        let moved = |second| Move { decided_at: Some(at(second)), ..Move::default() };
        let spec = PlacementSpec { moves: [1, 1, 2].map(moved).into(), ..PlacementSpec::default() };
        assert_eq!([1, 2, 3].map(|second| moves_decided_at(&spec, &at(second))), [2, 1, 0]);
    }
}
