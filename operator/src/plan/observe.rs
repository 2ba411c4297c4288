//! Snapshots of one application, taken off the executor.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::{ActorApplication, Placement};
use jiff::Timestamp;
use placement::{Plan, Snapshot};
use portfolio::{ClingoJudge, Limits};
use tokio::sync::Semaphore;
use world::{ApplicationKey, AssembledSnapshot, Policy};

use crate::apply::rollout::Rollout;
use crate::error::Error;
use crate::runtime::context::Context;

/// The kinds that an application's actors can run on.
pub fn kinds(application: &ActorApplication) -> BTreeSet<&str> {
    let implementations = application.spec.actors.iter().flat_map(|group| &group.implementations);
    implementations.map(|implementation| implementation.kind.as_str()).collect()
}

/// Facts about a snapshot that decide whether a plan is due.
pub struct PlanFacts {
    pub facts: control::PlanInputs,
    pub infeasible: BTreeSet<String>,
}

/// The latest snapshot of an application.
pub async fn latest_snapshot(
    ctx: &Context,
    key: &ApplicationKey,
    policy: &Policy,
) -> Result<Arc<AssembledSnapshot>, Error> {
    run_blocking(&ctx.snapshot_permits, snapshot_of(ctx, key, policy)).await
}

/// The same for the holder of the commit lock, which must not queue for a permit.
pub async fn latest_snapshot_unqueued(
    ctx: &Context,
    key: &ApplicationKey,
    policy: &Policy,
) -> Result<Arc<AssembledSnapshot>, Error> {
    run_blocking(&Semaphore::new(1), snapshot_of(ctx, key, policy)).await
}

fn snapshot_of(
    ctx: &Context,
    key: &ApplicationKey,
    policy: &Policy,
) -> impl FnOnce() -> Result<Arc<AssembledSnapshot>, Error> + Send + 'static {
    let (caches, key, policy) = (ctx.caches.clone(), key.clone(), policy.clone());
    move || {
        let world = world::assemble(&caches.index(), &key, &policy, Timestamp::now())?;
        // Computes the digest here, off the executor.
        world.digest();
        Ok(Arc::new(world))
    }
}

/// Actors whose assigned unit is infeasible, judged without a policy; without a plan where the manifest cannot be planned. Uses
/// the reconciles' permits.
pub async fn infeasible(
    ctx: &Context,
    application: &ActorApplication,
    decided: &control::Decision,
) -> Result<BTreeSet<String>, Error> {
    let rollout = Rollout::of(application, ctx);
    let (caches, application, decided) = (ctx.caches.clone(), application.clone(), decided.clone());
    let compute = move || {
        let (plain, key) = (Policy::builtin("units"), ApplicationKey::of(&application));
        let (index, now) = (caches.index(), Timestamp::now());
        Ok(match world::assemble(&index, &key, &plain, now) {
            Ok(world) => world::infeasible(&index, &application, &world, Some(&decided)),
            Err(_) => world::infeasible_without_plan(&index, &rollout.last_good(&application), &decided, now),
        })
    };
    run_blocking(&ctx.reconcile_permits, compute).await
}

/// Runs a computation on a blocking thread once a permit is available.
pub async fn run_blocking<T: Send + 'static>(
    cores: &Semaphore,
    compute: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::Span::current();
    let one = cores.acquire().await.map_err(|e| Error::Search(e.to_string()))?;
    let task = tokio::task::spawn_blocking(move || span.in_scope(compute));
    let result = task.await.map_err(|e| Error::Search(e.to_string()))?;
    drop(one);
    result
}

/// The snapshot of an application, with the facts for planning.
pub async fn observe(
    ctx: &Context,
    application: &ActorApplication,
    policy: &Policy,
    decision: Option<&Placement>,
) -> Result<(Arc<AssembledSnapshot>, PlanFacts), Error> {
    let (caches, application) = (ctx.caches.clone(), application.clone());
    let (policy, decision) = (policy.clone(), decision.map(world::decision));
    let compute = move || {
        let observation =
            world::observe(caches.index(), &application, &policy, decision.as_ref(), Timestamp::now())?;
        let world::Observation { assembled: world, inputs: facts, infeasible } = observation;
        Ok((Arc::new(world), PlanFacts { facts, infeasible }))
    };
    run_blocking(&ctx.snapshot_permits, compute).await
}

/// CPU seconds a solver may use beyond its wall clock.
const CPU_GRACE: u64 = 5;

/// The judge for the policy's program.
pub fn judge(policy: &Policy) -> ClingoJudge {
    ClingoJudge::new(limits(policy), policy.wall_milliseconds).required(policy.requires_judge())
}

/// The plan as clingo judges it in this snapshot, whose derived facts are `known`; waits for a permit.
///
/// # Errors
/// When clingo disagrees.
pub async fn judge_plan(
    key: &ApplicationKey,
    (world, known): (&AssembledSnapshot, &Arc<Snapshot>),
    plan: Plan,
    (judge, cores): (ClingoJudge, &Semaphore),
    ctx: &Context,
) -> Result<Plan, Error> {
    let known = known.clone();
    let judged = run_blocking(cores, move || Ok(plan.judged_again(&known, &judge))).await?;
    ctx.writer.liveness.progress();
    ctx.mismatches.judged(key, &world.snapshot, judged, &ctx.metrics)
}

/// Resource limits of a solver.
pub fn limits(policy: &Policy) -> Limits {
    Limits { memory_mib: policy.memory_mib, cpu_seconds: policy.wall_milliseconds.div_ceil(1000) + CPU_GRACE }
}
