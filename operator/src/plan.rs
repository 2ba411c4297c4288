//! Deciding: when a plan is due, searching for it off the executor, committing it one at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Decision, Due, Moment, SecondLook, Verdict};
use crds::{ActorApplication, Placement};
use explain::REASONS_EFFORT;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::events::EventType;
use placement::{Budget, Judge, JudgeError, Plan, PlanError, Snapshot, StoppedBy, Strategy};
use portfolio::{ClingoJudge, Limits, Use};
use world::{ApplicationKey, Objects, Policy, World};

use crate::decision::{says_the_same, spec};
use crate::error::Error;
use crate::metrics::OVERTAKEN;
use crate::pods::owner;
use crate::reconcile::{Considered, Context};
use crate::report::{Outcome, decision_events, event};

/// After so many plans that others overtook, what still holds of the next one is kept.
const PLANS_SIDE_BY_SIDE: u32 = 3;
/// After so many rounds the application is queued again.
const MOST_ROUNDS: u32 = 6;
/// CPU seconds that a solver may burn beyond its wall clock.
const CPU_GRACE: u64 = 5;

/// Decides for an application if anything changed that its plan depends on.
///
/// # Errors
/// When it cannot be planned, or the decision cannot be written.
pub async fn decide(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let name = application.spec.policy.as_deref().unwrap_or(&ctx.planning.default_policy);
    loop {
        let (policy, problem) = ctx.policies.in_force(name)?;
        outcome.policy_problem = problem.map(|problem| problem.to_string());
        match decide_under(&policy, application, key, ctx, outcome).await {
            Err(Error::Plan(PlanError::Judge(JudgeError::Policy(problem)))) => {
                // An earlier version that could be planned with is in force again: plan with that.
                let Some(refused) = ctx.policies.withdraw(&policy, &problem) else {
                    return Err(Error::Policy(problem));
                };
                let note = format!("{refused}; the last good version stays in force");
                ctx.tell(application, &event(EventType::Warning, "PolicyRefused", "Plan", note)).await;
            }
            other => return other,
        }
    }
}

/// Decides under one version of the policy.
async fn decide_under(
    policy: &Policy,
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let before = ctx.considered(key).unwrap_or_default();
    let generation = application.metadata.generation;
    let again = before.facts.second_look.filter(|look| look.is_due(moment()));
    if before.generation == generation
        && before.changes == ctx.caches.changes()
        && outcome.decision.is_some()
        && again.is_none()
    {
        outcome.notes = before.notes;
        outcome.proposed = before.proposed;
        outcome.infeasible = Some(before.infeasible);
        return Ok(());
    }
    let wanted = world::wanted(application, &policy.name);
    for round in 0..MOST_ROUNDS {
        let (changes, releases) = (ctx.caches.changes(), ctx.caches.releases(key));
        let objects = ctx.caches.objects();
        let world = Arc::new(observe(objects.clone(), key, policy).await?);
        let decision = outcome.decision.as_ref().map(world::decision);
        let infeasible = infeasible(&objects, application, &world, decision.as_ref());
        outcome.notes.clone_from(&world.notes);
        let facts = control::Considered {
            releases,
            demand: world.demand(),
            digest: world.digest(),
            openings: control::openings(&world.snapshot),
            second_look: before.facts.second_look,
        };
        let why = control::due(&before.facts, &facts, &wanted, decision.as_ref(), &infeasible, moment());
        let mut now = Considered {
            changes,
            generation,
            facts,
            infeasible,
            notes: world.notes.clone(),
            proposed: before.proposed.clone(),
        };
        let Some(why) = why else {
            outcome.proposed.clone_from(&now.proposed);
            outcome.infeasible = Some(now.infeasible.clone());
            ctx.consider(key, now);
            return Ok(());
        };
        let again = again.filter(|_| before.facts.digest == now.facts.digest);
        let plan = search(&world, policy, again.map_or(0, |look| look.number), why, ctx).await?;
        now.facts.second_look =
            (plan.stopped_by == StoppedBy::Deadline).then(|| SecondLook::after(again, moment())).flatten();
        if application.spec.paused {
            now.proposed = Some(proposal(&world.snapshot, &plan));
            outcome.proposed.clone_from(&now.proposed);
            ctx.consider(key, now);
            return Ok(());
        }
        let one_at_a_time = ctx.commit.lock().await;
        let settle = round >= PLANS_SIDE_BY_SIDE;
        let (newest, verdict) = still_stands(&world, plan, settle, key, policy, application, ctx).await?;
        match verdict {
            Verdict::Stands(plan) => {
                commit(application, key, policy, &newest, &plan, ctx, outcome).await?;
                // What was searched is the world that was planned from; room that came meanwhile is looked at next.
                now.infeasible.clear();
                outcome.infeasible = Some(BTreeSet::new());
                ctx.consider(key, now);
                return Ok(());
            }
            Verdict::Partly(plan) => commit(application, key, policy, &newest, &plan, ctx, outcome).await?,
            Verdict::Overtaken => {}
        }
        drop(one_at_a_time);
        ctx.metrics.replans.with_label_values(&[OVERTAKEN]).inc();
    }
    Err(Error::Overtaken)
}

/// Now, as `control` counts time.
pub fn moment() -> Moment {
    Timestamp::now().as_duration().try_into().unwrap_or_default()
}

/// The actors whose decided place may not be taken now, whoever wrote the decision.
pub fn infeasible(
    objects: &Objects,
    application: &ActorApplication,
    world: &World,
    decision: Option<&Decision>,
) -> BTreeSet<String> {
    let Some(decision) = decision else { return BTreeSet::new() };
    control::infeasible(&world.snapshot, decision, &world::seen(objects, application, &world.units))
}

async fn observe(objects: Objects, key: &ApplicationKey, policy: &Policy) -> Result<World, Error> {
    let (key, policy, span) = (key.clone(), policy.clone(), tracing::Span::current());
    let task = tokio::task::spawn_blocking(move || {
        span.in_scope(|| world::snapshot(&objects, &key, &policy, Timestamp::now()))
    });
    Ok(task.await.map_err(|e| Error::Search(e.to_string()))??)
}

/// Searches on a blocking thread: it is CPU-bound for up to the policy's wall clock.
///
/// A second look at the same world has the number `look`, from 1, and a seed of its own.
async fn search(
    world: &Arc<World>,
    policy: &Policy,
    look: u32,
    why: Due,
    ctx: &Context,
) -> Result<Plan, Error> {
    let strategy = strategy(policy)?;
    let _slot = ctx.solver_slots.acquire().await.expect("the semaphore is never closed");
    let timer = ctx.metrics.plan_seconds.start_timer();
    let (world, wall) = (world.clone(), Duration::from_millis(policy.wall_milliseconds));
    let seed = ctx.planning.seed.wrapping_add(u64::from(look));
    let judge = judge(policy);
    let span = tracing::Span::current();
    let task = tokio::task::spawn_blocking(move || {
        span.in_scope(|| {
            let deadline = Instant::now() + wall;
            let stop = || Instant::now() >= deadline;
            let budget = Budget { effort: None, seed, stop: &stop };
            let mut plan = placement::plan(&world.snapshot, strategy.as_ref(), &judge, &budget)?;
            explain::tell(&mut plan, &world.snapshot, &judge, REASONS_EFFORT);
            Ok::<_, PlanError>(plan)
        })
    });
    let plan = task.await.map_err(|e| Error::Search(e.to_string()))??;
    ctx.policies.prove(policy);
    timer.observe_duration();
    ctx.metrics.plans.with_label_values(&[plan.strategy, plan.stopped_by.into()]).inc();
    tracing::info!(%why, strategy = plan.strategy, stopped_by = %plan.stopped_by, unplaced = plan.cost.unplaced, "planned");
    Ok(plan)
}

/// Who judges by the policy's program.
fn judge(policy: &Policy) -> ClingoJudge {
    ClingoJudge::new(limits(policy), policy.wall_milliseconds)
}

/// What a solver may use.
fn limits(policy: &Policy) -> Limits {
    Limits { memory_mib: policy.memory_mib, cpu_seconds: policy.wall_milliseconds.div_ceil(1000) + CPU_GRACE }
}

/// The strategy that the policy names, which may be one for production alone.
fn strategy(policy: &Policy) -> Result<Box<dyn Strategy>, Error> {
    let refused =
        |problem| Error::Policy(format!("policy {}: policy.yaml, strategy: {problem}", policy.name));
    let entry = portfolio::strategy(&policy.strategy, Use::Production).map_err(refused)?;
    Ok(entry.make(limits(policy)))
}

/// What becomes of the plan in the newest world; the commit lock must be held.
async fn still_stands(
    planned: &Arc<World>,
    plan: Plan,
    settle: bool,
    key: &ApplicationKey,
    policy: &Policy,
    application: &ActorApplication,
    ctx: &Context,
) -> Result<(Arc<World>, Verdict), Error> {
    let newest = ctx.caches.applications.get(&crate::caches::object_ref(key));
    if newest.is_none_or(|newest| newest.metadata.generation != application.metadata.generation) {
        return Err(Error::Overtaken);
    }
    let world = Arc::new(observe(ctx.caches.objects(), key, policy).await?);
    if world.digest() == planned.digest() {
        return Ok((world, Verdict::Stands(Box::new(plan))));
    }
    let (before, newest, of_policy) = (planned.clone(), world.clone(), judge(policy));
    let task = tokio::task::spawn_blocking(move || -> Result<_, PlanError> {
        // What the policy derives may be another thing in the newest world.
        let snapshot = newest.snapshot.with_derived(of_policy.derive(&newest.snapshot)?)?;
        Ok(control::still_stands(&before.snapshot, &plan, &snapshot, settle))
    });
use placement::{Budget, Judge, JudgeError, Plan, PlanError, Snapshot, StoppedBy, Strategy};
use portfolio::{ClingoJudge, Limits, Use};
}

/// Writes the decision, if it says anything new, and tells people.
async fn commit(
    application: &ActorApplication,
    key: &ApplicationKey,
    policy: &Policy,
    world: &World,
    plan: &Plan,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let before = ctx.caches.decision(key)?;
    let spec = spec(application, world, policy, plan, before.as_deref(), &ctx.caches.objects());
    if before.as_ref().is_some_and(|before| says_the_same(&before.spec, &spec)) {
        return Ok(());
    }
    let mut placement = Placement::new(&application.name_any(), spec);
    placement.metadata.namespace = Some(key.namespace.clone());
    placement.metadata.uid = before.and_then(|before| before.uid());
    placement.metadata.owner_references = owner(application);
    placement.metadata.labels = Some([(crds::labels::APPLICATION.to_owned(), key.name.clone())].into());
    let written = ctx.writer.write_placement(&placement).await?;
    ctx.caches.wrote(written.clone());
    outcome.moved = !written.spec.moves.is_empty();
    for event in decision_events(&written.spec) {
        ctx.tell(application, &event).await;
    }
    outcome.decision = Some(written);
    Ok(())
}

/// What a paused application would do.
fn proposal(snapshot: &Snapshot, plan: &Plan) -> String {
    let starts = (0..snapshot.actors())
        .filter(|&a| snapshot.current(a).is_none() && plan.assignment[a].is_some())
        .count();
    match (starts, plan.moves.len()) {
        (0, 0) => "nothing would change".to_owned(),
        (starts, moves) => {
            format!("{starts} actors would start and {moves} would move; set paused to false to let them")
        }
    }
}
