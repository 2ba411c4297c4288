//! Deciding: whether a plan is due, and the search for it off the executor.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::{KeepRunning, PlanReason, ResumeSearch, Verdict};
use crds::{ActorApplication, Placement, StartPolicy};
use explain::REASONS_EFFORT;
use placement::ix::ActorIx;
use placement::{Budget, JudgeError, Plan, PlanError, Snapshot, StoppedBy, Strategy};
use portfolio::Purpose;
use world::{ApplicationKey, AssembledSnapshot, Policy};

use crate::commit::elective::{DecisionReason, ElectiveGate};
use crate::commit::revalidate::Revalidation;
use crate::commit::write::{commit, record_committed, update_record};
use crate::error::Error;
use crate::plan::observe::{PlanFacts, judge, kinds, limits, observe};
use crate::plan::policies::rollback::roll_back;
use crate::plan::runtime_requests;
use crate::plan::searches::{
    FinishedSearch, LastPlanned, Manifest, SearchState, TimeShare, catch_search_panic,
};
use crate::plan::share::share;
use crate::queue::solver_slots::Rank;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::runtime::metrics::OVERTAKEN;
use crate::status::report::Outcome;

/// After this many overtaken plans the feasible part of the next one is committed.
const MAX_OVERTAKEN: u32 = 3;
/// How long an application that yields capacity waits before it checks again.
const YIELD_RETRY: Duration = Duration::from_millis(300);

/// Plans an application if an input of its plan changed: it is `dirty`, or the snapshot differs.
///
/// # Errors
/// When it cannot be planned, or the Placement cannot be written.
pub async fn decide(
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Arc<Context>,
    dirty: bool,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let name = application.spec.policy.as_deref().unwrap_or(&ctx.planning.default_policy);
    loop {
        let (policy, problem) = ctx.policies.in_force(name, &key.namespace)?;
        outcome.policy_problem = problem.map(|problem| ctx.policies.instead_of_refused(&problem));
        let problem = match decide_under(&policy, (application, key), ctx, dirty, outcome).await {
            Err(Error::Plan(PlanError::Judge(JudgeError::Policy(problem)))) => problem,
            Err(Error::Plan(PlanError::Derived(problem))) => problem.to_string(),
            other => return other,
        };
        roll_back(&policy, &problem, application, ctx).await?;
    }
}

/// Plans under one version of the policy: starts a search if one is due, and commits the result of a finished one.
async fn decide_under(
    policy: &Policy,
    (application, key): (&ActorApplication, &ApplicationKey),
    ctx: &Arc<Context>,
    dirty: bool,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let known = ctx.planner.last_planned(key);
    let before = known.clone().unwrap_or_default();
    let generation = application.metadata.generation;
    outcome.notes.clone_from(&before.notes);
    outcome.proposed.clone_from(&before.proposed);
    let wanted = world::desired_state(&ctx.caches.index(), application, &policy.name);
    let only_requests =
        runtime_requests::only_requests_changed(application, policy, &wanted, outcome.decision.as_ref());
    // Keeps the mark for a later run.
    let keep_mark = || dirty.then(|| ctx.caches.mark_dirty(key));
    let mut attempt = 0;
    match ctx.planner.take_search(key, &Manifest::of(application)) {
        // Runtime requests do not wait for a running search.
        SearchState::Running { .. } if only_requests => outcome.searching = true,
        SearchState::Running { .. } => {
            outcome.searching = true;
            keep_mark();
            return Ok(());
        }
        SearchState::Done(found) if found.is_for(application) && found.policy == *policy => {
            attempt = found.attempt + 1;
            if Box::pin(commit_or_keep(found, policy, application, (key, dirty), ctx, outcome)).await? {
                return Ok(());
            }
            ctx.metrics.replans.with_label_values(&[OVERTAKEN]).inc();
        }
        SearchState::Done(_) | SearchState::None => {}
    }
    // Improvements are searched only while no foreground search waits.
    let (is_busy, has_time) = (ctx.solver_slots.is_full(), !ctx.solver_slots.is_full_for_background());
    let resume = before.facts.resume_search.filter(|resume| has_time && resume.is_due(moment()));
    let freed_counter = ctx.caches.freed_counter(key, kinds(application).into_iter());
    let background_slot = has_time && ctx.caches.take_background_slot(key);
    let needs_check = dirty || attempt > 0 || before.generation != generation;
    if !needs_check && outcome.decision.is_some() && resume.is_none() && !background_slot {
        before.put_off(key, ctx);
        return Ok(());
    }
    let request = |world, basis, resume| {
        let (policy, application) = (policy.clone(), application.clone());
        SearchRequest { policy, application, world, basis, resume, attempt }
    };
    // Without a Placement the cause is known, and a waiting search takes its snapshot when it gets a slot.
    if !only_requests && outcome.decision.is_none() && !application.spec.paused && is_busy {
        let basis = before.before_search(generation, (freed_counter, background_slot));
        outcome.searching = true;
        start_search(ctx, key, PlanReason::Undecided, request(None, basis, resume));
        return Ok(());
    }
    let growth_counter = ctx.caches.growth_counter();
    let (world, PlanFacts { mut facts, infeasible }) =
        observe(ctx, application, policy, outcome.decision.as_ref()).await?;
    outcome.notes.clone_from(&world.warnings);
    (facts.freed_counter, facts.background_slot) = (freed_counter, background_slot);
    (facts.generation, facts.resume_search) = (generation.unwrap_or(0), before.facts.resume_search);
    let last_facts = known.as_ref().map(|known| &known.facts);
    let decision = outcome.decision.as_ref().map(world::decision);
    let why = control::plan_reason(last_facts, &facts, &wanted, decision.as_ref(), &infeasible, moment());
    let why = why.or_else(|| room_for_all_or_nothing(application, last_facts, &facts, outcome));
    let now = LastPlanned {
        generation,
        facts,
        infeasible,
        growth_counter,
        notes: world.warnings.clone(),
        proposed: before.proposed,
    };
    let Some(why) = why else {
        let of = (policy, key, ctx.as_ref());
        return keep_decision(
            of,
            (decision.as_ref(), &wanted),
            known.as_ref(),
            (&world, resume),
            now,
            outcome,
        )
        .await;
    };
    if only_requests
        && now.infeasible.is_empty()
        && let Some(decision) = &decision
        && runtime_requests::decide((application, key), policy, &world, (decision, why), &now, ctx, outcome)
            .await?
    {
        return Ok(());
    }
    if outcome.searching {
        // Requests that could not be placed at once are planned when the running search ends.
        ctx.caches.mark_dirty(key);
        return Ok(());
    }
    if why == PlanReason::Opening && yields_to_priority(application, key, ctx) {
        outcome.requeue_at = Some(moment() + YIELD_RETRY);
        return Ok(());
    }
    if why.is_background() {
        ctx.caches.triggers().background_started(key, moment());
    }
    let resume = resume.filter(|_| before.facts.digest == now.facts.digest);
    outcome.searching = true;
    start_search(ctx, key, why, request(Some(world), now, resume));
    Ok(())
}

/// Nothing is to be planned: records what was observed, and for which manifest the decision holds.
async fn keep_decision(
    (policy, key, ctx): (&Policy, &ApplicationKey, &Context),
    (decision, wanted): (Option<&control::Decision>, &control::DesiredState),
    before: Option<&LastPlanned>,
    (world, resume): (&AssembledSnapshot, Option<ResumeSearch>),
    mut now: LastPlanned,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    if let Some(decision) = decision {
        if decision.demand.as_ref() == Some(&now.facts.demand) {
            // It was made with this version of the policy, though perhaps by an earlier process.
            ctx.policies.prove(policy);
        }
        if control::is_record_outdated(decision, wanted, &now.facts.demand) {
            update_record((key, ctx), wanted.generation, &now.facts.demand, outcome).await?;
        }
    }
    if before.and_then(|before| before.generation) != now.generation {
        // A proposal for an earlier manifest; this one changes no place.
        (now.proposed, outcome.proposed) = (None, None);
    }
    if let Some(before) = before {
        now.facts = now.facts.merge_pressure(&before.facts);
    }
    // The search resumes postponed if the snapshot has changed.
    now.facts.resume_search = resume.map(|resume| resume.postponed(moment())).or(now.facts.resume_search);
    ctx.guard(key, policy, &world.snapshot, &world.snapshot.incumbent(), &now.facts.pressure);
    ctx.planner.set_last_planned(key, Some(now));
    Ok(())
}

/// All-or-nothing applications that wait may need more than one unit, so any change of capacity is a trigger.
fn room_for_all_or_nothing(
    application: &ActorApplication,
    before: Option<&control::PlanInputs>,
    now: &control::PlanInputs,
    outcome: &Outcome,
) -> Option<PlanReason> {
    let has_none =
        |decision: &Placement| decision.spec.assignments.is_empty() && !decision.spec.unplaced.is_empty();
    let waits = application.spec.start == StartPolicy::AllOrNothing
        && outcome.decision.as_ref().is_some_and(has_none);
    (waits && before.is_some_and(|before| before.digest != now.digest)).then_some(PlanReason::Opening)
}

/// Whether an application leaves capacity to others that wait for its kinds and rank before it.
fn yields_to_priority(application: &ActorApplication, key: &ApplicationKey, ctx: &Context) -> bool {
    let index = ctx.caches.index();
    let (rank, own) = (Rank::of(application, &index), kinds(application));
    let mut triggers = ctx.caches.triggers();
    let is_ahead = |key: &ApplicationKey| {
        let other = index.application(key);
        other.is_some_and(|other| Rank::of(other, &index) < rank && !kinds(other).is_disjoint(&own))
    };
    let ahead: Vec<ApplicationKey> = triggers.with_unplaced_actors().into_iter().filter(is_ahead).collect();
    let now = moment();
    let is_about = |key: &ApplicationKey| ctx.planner.is_imminent(key, now);
    triggers.yields_to_priority(key, ahead.into_iter(), is_about, now)
}

impl LastPlanned {
    /// Postpones a resumed search whose time is needed by others.
    fn put_off(mut self, key: &ApplicationKey, ctx: &Context) {
        if let Some(resume) = self.facts.resume_search.as_mut().filter(|resume| resume.is_due(moment())) {
            *resume = resume.postponed(moment());
            ctx.planner.set_last_planned(key, Some(self));
        }
    }
}

/// Input of a search.
struct SearchRequest {
    policy: Policy,
    application: ActorApplication,
    /// The snapshot, unless the search waits for a slot first.
    world: Option<Arc<AssembledSnapshot>>,
    basis: LastPlanned,
    resume: Option<ResumeSearch>,
    /// How many of its plans were overtaken.
    attempt: u32,
}

/// Starts a search in its own task, so reconciles continue. The application is planned again when it ends.
fn start_search(ctx: &Arc<Context>, key: &ApplicationKey, why: PlanReason, request: SearchRequest) {
    let stop = Arc::new(AtomicBool::new(false));
    let manifest = Manifest::of(&request.application);
    ctx.planner.set_search(key, SearchState::Running { manifest: manifest.clone(), stop: stop.clone() });
    let (ctx, key, span) = (ctx.clone(), key.clone(), tracing::Span::current());
    let task = async move {
        let SearchRequest { policy, application, world, mut basis, resume, attempt } = request;
        let rank = Rank::of(&application, &ctx.caches.index()).background(why.is_background());
        let resumed = resume.map_or(0, |resume| resume.attempt);
        let others = Arc::new(ctx.planner.time_share(why));
        let (slot, world) = if let Some(slot) = ctx.solver_slots.try_acquire(&rank) {
            (slot, world)
        } else {
            // A waiting search holds no snapshot, which would be stale by then.
            drop(world);
            (ctx.solver_slots.acquire(rank).await, None)
        };
        let yielded = Arc::new(AtomicBool::new(false));
        let plan = async {
            let world = match world {
                Some(world) => world,
                None => refresh_snapshot((&application, &key), &policy, &mut basis, &ctx).await?,
            };
            let found =
                search((&key, &world), &policy, (resumed, &others), why, (stop, &yielded), &ctx).await?;
            Ok((world, found))
        };
        let plan = catch_search_panic(plan).await;
        let (slot, yielded) = (Some(slot), yielded.load(Ordering::Acquire));
        ctx.planner.finish_search(
            key,
            FinishedSearch { manifest, why, policy, basis, resume, attempt, yielded, plan, slot },
        );
    };
    tokio::spawn(tracing::Instrument::instrument(task, span));
}

/// A new snapshot once the search has a slot; the earlier one is obsolete.
async fn refresh_snapshot(
    (application, key): (&ActorApplication, &ApplicationKey),
    policy: &Policy,
    last_facts: &mut LastPlanned,
    ctx: &Context,
) -> Result<Arc<AssembledSnapshot>, Error> {
    let decision = ctx.caches.decision(key)?;
    last_facts.growth_counter = ctx.caches.growth_counter();
    let (world, PlanFacts { facts, infeasible }) =
        observe(ctx, application, policy, decision.as_deref()).await?;
    let control::PlanInputs { generation, freed_counter, background_slot, resume_search, .. } =
        last_facts.facts;
    last_facts.facts =
        control::PlanInputs { generation, freed_counter, background_slot, resume_search, ..facts };
    last_facts.infeasible = infeasible;
    last_facts.notes.clone_from(&world.warnings);
    Ok(world)
}

/// Commits a search result, or keeps it if the cached Placement is stale; planning is retried then.
///
/// Events that marked the application meanwhile are kept for a later run.
async fn commit_or_keep(
    found: Box<FinishedSearch>,
    policy: &Policy,
    application: &ActorApplication,
    (key, dirty): (&ApplicationKey, bool),
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    let kept = found.kept();
    let committed = commit_result(*found, policy, application, key, ctx, outcome).await;
    if matches!(committed, Err(Error::Overtaken))
        && let Some(kept) = kept
    {
        ctx.planner.set_search(key, SearchState::Done(Box::new(kept)));
    }
    if dirty && committed.as_ref().map_or_else(Error::is_reported, |is_done| *is_done) {
        ctx.caches.mark_dirty(key);
    }
    committed
}

/// Commits a search result, or its feasible part in the latest snapshot; returns whether planning is complete.
async fn commit_result(
    found: FinishedSearch,
    policy: &Policy,
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    let FinishedSearch { why, basis: mut now, resume, attempt, yielded, plan, slot, .. } = found;
    let (world, plan) = plan?;
    now.facts.resume_search = match resume {
        // It had no time: the same search resumes postponed.
        Some(resume) if yielded => Some(resume.postponed(moment())),
        _ => {
            (plan.stopped_by == StoppedBy::Deadline).then(|| ResumeSearch::after(resume, moment())).flatten()
        }
    };
    if application.spec.paused {
        now.proposed = Some(proposal(&world.snapshot, &plan));
        outcome.proposed.clone_from(&now.proposed);
        ctx.planner.set_last_planned(key, Some(now));
        return Ok(true);
    }
    let keep_partial = attempt >= MAX_OVERTAKEN;
    let revalidation =
        Revalidation { planned: &world, plan, keep_partial, why, key, policy, application, ctx };
    let Some((lock, newest, verdict)) = revalidation.revalidate().await? else {
        return Ok(false);
    };
    let (plan, is_whole) = match verdict {
        Verdict::Valid(plan) => (plan, true),
        Verdict::Repaired(plan) => {
            // A repaired plan is improved in the background.
            now.facts.freed_counter = u64::MAX;
            (plan, true)
        }
        Verdict::Partial(plan) => (plan, false),
        Verdict::Stale => return Ok(false),
    };
    let reason = DecisionReason { why, load: None, least: policy.min_gain() };
    commit(application, (key, &reason), policy, (lock, slot, &newest), &plan, ctx, outcome).await?;
    // Events during the commit did not concern assignments that did not exist yet.
    ctx.caches.recheck().add([key.clone()]);
    if is_whole {
        // The plan refers to its own snapshot; later growth of capacity is noticed once the unplaced actors are known.
        record_committed((key, ctx), policy, &newest.world, &plan, now);
    }
    Ok(is_whole)
}

/// Runs the search on a blocking thread: it is CPU-bound for up to the policy's wall clock.
///
/// A resumed search on the same snapshot has the number `resumed`, from 1, and another seed. It shares the time with `others`,
/// including those that arrive meanwhile. A background search stops for a foreground one and has then yielded.
pub async fn search(
    (key, world): (&ApplicationKey, &Arc<AssembledSnapshot>),
    policy: &Policy,
    (resumed, others): (u32, &Arc<TimeShare>),
    why: PlanReason,
    (stop, yielded): (Arc<AtomicBool>, &Arc<AtomicBool>),
    ctx: &Context,
) -> Result<Plan, Error> {
    let strategy = strategy(policy)?;
    let timer = ctx.metrics.plan_seconds.start_timer();
    let (whole, slots) = (Duration::from_millis(policy.wall_milliseconds), ctx.planning.slots());
    let (others, post_search, solver_slots) =
        (others.clone(), ctx.planner.post_search.clone(), ctx.solver_slots.clone());
    let (world, silent, yielded) = (world.clone(), ctx.caches.index().is_mass_outage(), yielded.clone());
    let seed = ctx.planning.seed.wrapping_add(u64::from(resumed));
    let judge = judge(policy);
    let span = tracing::Span::current();
    let gate = ElectiveGate::of(why, &world, policy, ctx.caches.application(key).as_deref());
    let planned = world.clone();
    let task = tokio::task::spawn_blocking(move || {
        let world = planned;
        span.in_scope(|| {
            let begun = Instant::now();
            // The budget of the policy is that of search and judgement, whatever share of it the search gets.
            let judge = judge.until(Arc::new(move || whole.saturating_sub(begun.elapsed())));
            let share = || share(whole, others.count(), slots, post_search.last());
            let left = || share().saturating_sub(begun.elapsed());
            let stop = || {
                if why.is_background() && solver_slots.has_foreground_demand() {
                    yielded.store(true, Ordering::Release);
                }
                [&stop, &yielded].iter().any(|flag| flag.load(Ordering::Acquire)) || left().is_zero()
            };
            let budget = Budget { effort: None, seed, stop: &stop, left: Some(&left) };
            // A missing Placement is rebuilt from the observed pods.
            let runs =
                world.snapshot.file().actors.iter().any(|actor| !actor.fixed && actor.current.is_some());
            // No actor moves while many agents are silent.
            let strategy: Box<dyn Strategy> = if (why == PlanReason::Undecided || silent) && runs {
                Box::new(KeepRunning(strategy))
            } else {
                strategy
            };
            let plan = placement::plan(&world.snapshot, strategy.as_ref(), &judge, &budget)?;
            let (derived, found) = (plan.world(&world.snapshot), plan.assignment.clone());
            let mut plan = gate.apply(&derived, plan);
            if plan.assignment != found {
                plan = plan.judged_again(&derived, &judge)?;
            }
            explain::explain_plan(&mut plan, &world.snapshot, &judge, REASONS_EFFORT);
            if left().is_zero() {
                post_search.took(begun.elapsed().saturating_sub(share()));
            }
            Ok::<_, PlanError>(plan)
        })
    });
    let planned = task.await.map_err(|e| Error::Search(e.to_string()))?;
    let plan = ctx.mismatches.judged(key, &world.snapshot, planned, &ctx.metrics)?;
    ctx.policies.prove(policy);
    timer.observe_duration();
    ctx.metrics.searches.with_label_values(&[<&str>::from(why)]).inc();
    ctx.metrics.plans.with_label_values(&[plan.strategy, plan.stopped_by.into()]).inc();
    tracing::info!(%why, strategy = plan.strategy, stopped_by = %plan.stopped_by, unplaced = plan.cost.unplaced, "planned");
    Ok(plan)
}

/// The policy's strategy, which must be allowed in production.
fn strategy(policy: &Policy) -> Result<Box<dyn Strategy>, Error> {
    let refused =
        |problem| Error::Policy(format!("policy {}: policy.yaml, strategy: {problem}", policy.name));
    let entry = portfolio::strategy(&policy.strategy, Purpose::Production).map_err(refused)?;
    Ok(entry.make(limits(policy)))
}

/// The effect of unpausing an application.
fn proposal(snapshot: &Snapshot, plan: &Plan) -> String {
    let starts = ActorIx::first(snapshot.actors())
        .filter(|&a| snapshot.current(a).is_none() && plan.assignment[a].is_some())
        .count();
    match (starts, plan.moves.len()) {
        (0, 0) => "nothing would change".to_owned(),
        (starts, moves) => {
            let actors = if starts == 1 { "actor" } else { "actors" };
            format!("unpausing would start {starts} {actors} and move {moves}; set spec.paused to false")
        }
    }
}
