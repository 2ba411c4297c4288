//! Deciding: when a plan is due, searching for it off the executor, committing it one at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use control::{Due, Observed, SecondLook, Verdict};
use crds::{ActorApplication, Placement, StartPolicy};
use explain::REASONS_EFFORT;
use kube::runtime::events::EventType;
use placement::ix::ActorIx;
use placement::{Budget, JudgeError, Plan, PlanError, Snapshot, StoppedBy, Strategy};
use portfolio::Purpose;
use world::{ApplicationKey, Policy, World};

use crate::commit::revalidate::Revalidation;
use crate::commit::write::{commit, record_committed};
use crate::error::Error;
use crate::plan::observe::{Observation, judge, kinds, limits, observe};
use crate::plan::runtime_requests;
use crate::plan::searches::{LastPlanned, Manifest, Search, SearchResult, TimeShare};
use crate::queue::solver_slots::Rank;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;
use crate::runtime::metrics::OVERTAKEN;
use crate::status::report::{Outcome, event};

/// After so many plans that others overtook, what still holds of the next one is kept.
const MAX_OVERTAKEN: u32 = 3;
/// After this time it is asked again whether it is an application's turn to take room that came.
const YIELD_RETRY: Duration = Duration::from_millis(300);
/// What a search gets at least where many wait.
const MIN_SHARE: Duration = Duration::from_millis(10);

/// Decides for an application if anything changed that its plan depends on: it was `touched`, or something else says so.
///
/// # Errors
/// When it cannot be planned, or the decision cannot be written.
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
        outcome.policy_problem = problem.map(|problem| problem.to_string());
        match decide_under(&policy, (application, key), ctx, dirty, outcome).await {
            Err(Error::Plan(PlanError::Judge(JudgeError::Policy(problem)))) => {
                // An earlier version that could be planned with is in force again: plan with that.
                let (name, problem) = policy.at_fault(&problem);
                let Some(refused) = ctx.policies.withdraw(&policy, name, &problem) else {
                    return Err(Error::Policy(problem));
                };
                let note = format!("{refused}; the last good version stays in force");
                ctx.emit_event(application, &event(EventType::Warning, "PolicyRefused", "Plan", note)).await;
            }
            other => return other,
        }
    }
}

/// Decides under one version of the policy: begins a search where one is due, commits what one has found.
async fn decide_under(
    policy: &Policy,
    (application, key): (&ActorApplication, &ApplicationKey),
    ctx: &Arc<Context>,
    dirty: bool,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let known = ctx.last_planned(key);
    let before = known.clone().unwrap_or_default();
    let generation = application.metadata.generation;
    outcome.notes.clone_from(&before.notes);
    outcome.proposed.clone_from(&before.proposed);
    let wanted = world::wanted(&ctx.caches.index(), application, &policy.name);
    let only_requests =
        runtime_requests::only_requests_changed(application, policy, &wanted, outcome.decision.as_ref());
    // What is not looked at now is looked at another time.
    let put_off = || {
        if dirty {
            ctx.caches.mark_dirty(key);
        }
    };
    let mut attempt = 0;
    match ctx.searches.take(key, &Manifest::of(application)) {
        // Who is asked for is not kept waiting until it is through.
        Search::Running { .. } if only_requests => outcome.searching = true,
        Search::Running { .. } => {
            outcome.searching = true;
            put_off();
            return Ok(());
        }
        Search::Done(found) if found.is_for(application) && found.policy == *policy => {
            attempt = found.attempt + 1;
            if Box::pin(commit_or_keep(found, policy, application, (key, dirty), ctx, outcome)).await? {
                return Ok(());
            }
            ctx.metrics.replans.with_label_values(&[OVERTAKEN]).inc();
        }
        Search::Done(_) | Search::None => {}
    }
    // What could merely be better is looked at when nobody waits for a search.
    let (is_busy, has_time) = (ctx.solver_slots.is_full(), !ctx.solver_slots.is_full_for_background());
    let again = before.facts.second_look.filter(|look| has_time && look.is_due(moment()));
    let chances = ctx.caches.freed_counter(key, kinds(application).into_iter());
    let turn = has_time && ctx.caches.take_background_turn(key);
    let needs_check = dirty || attempt > 0 || before.generation != generation;
    if !needs_check && outcome.decision.is_some() && again.is_none() && !turn {
        before.put_off(key, ctx);
        return Ok(());
    }
    let request = |world, look, again| {
        let (policy, application) = (policy.clone(), application.clone());
        SearchRequest { policy, application, world, look, again, attempt }
    };
    // For whom nothing is decided it is known why without a look, and who has to wait is looked at when its turn comes.
    if !only_requests && outcome.decision.is_none() && !application.spec.paused && is_busy {
        let look = before.before_search(generation, (chances, turn));
        outcome.searching = true;
        start_search(ctx, key, Due::Undecided, request(None, look, again));
        return Ok(());
    }
    let growth_counter = ctx.caches.growth_counter();
    let (world, mut look) = observe(ctx, application, policy, outcome.decision.as_ref()).await?;
    outcome.notes.clone_from(&world.notes);
    (look.facts.chances, look.facts.turn) = (chances, turn);
    (look.facts.generation, look.facts.second_look) = (generation.unwrap_or(0), before.facts.second_look);
    let last_facts = known.as_ref().map(|known| &known.facts);
    let decision = outcome.decision.as_ref().map(world::decision);
    let why = control::due(last_facts, &look.facts, &wanted, decision.as_ref(), &look.infeasible, moment());
    let why = why.or_else(|| room_for_all_or_nothing(application, last_facts, &look.facts, outcome));
    let mut now = LastPlanned {
        generation,
        facts: look.facts,
        infeasible: look.infeasible,
        growth_counter,
        notes: world.notes.clone(),
        proposed: before.proposed,
    };
    let Some(why) = why else {
        if let Some(before) = last_facts {
            now.facts = now.facts.kept(before);
        }
        // In a world that changed meanwhile a second look is another time.
        now.facts.second_look = again.map(|look| look.later(moment())).or(now.facts.second_look);
        ctx.guard(key, policy, &world.snapshot, &world.snapshot.incumbent(), &now.facts.strain);
        ctx.set_last_planned(key, now);
        return Ok(());
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
        // Who was asked for and is not placed at once is looked at again when the search is through.
        ctx.caches.mark_dirty(key);
        return Ok(());
    }
    if why == Due::Opening && yields_to_priority(application, key, ctx) {
        outcome.requeue_at = Some(moment() + YIELD_RETRY);
        return Ok(());
    }
    if why.can_wait() {
        ctx.caches.triggers().background_started(key, moment());
    }
    let again = again.filter(|_| before.facts.digest == now.facts.digest);
    outcome.searching = true;
    start_search(ctx, key, why, request(Some(world), now, again));
    Ok(())
}

/// Who starts all at once, and waits for that, may need more than one opening: any room that came is worth a look.
fn room_for_all_or_nothing(
    application: &ActorApplication,
    before: Option<&control::Considered>,
    now: &control::Considered,
    outcome: &Outcome,
) -> Option<Due> {
    let has_none =
        |decision: &Placement| decision.spec.assignments.is_empty() && !decision.spec.unplaced.is_empty();
    let waits = application.spec.start == StartPolicy::AllOrNothing
        && outcome.decision.as_ref().is_some_and(has_none);
    (waits && before.is_some_and(|before| before.digest != now.digest)).then_some(Due::Opening)
}

/// Whether an application leaves room that came to others: those who wait for room on its kinds, and are served first.
fn yields_to_priority(application: &ActorApplication, key: &ApplicationKey, ctx: &Context) -> bool {
    let index = ctx.caches.index();
    let (rank, own) = (Rank::of(application), kinds(application));
    let mut triggers = ctx.caches.triggers();
    let is_ahead = |key: &ApplicationKey| {
        let other = index.application(key);
        other.is_some_and(|other| Rank::of(other) < rank && !kinds(other).is_disjoint(&own))
    };
    let ahead: Vec<ApplicationKey> = triggers.with_unplaced_actors().into_iter().filter(is_ahead).collect();
    let now = moment();
    let is_about = |key: &ApplicationKey| ctx.searches.has(key) || ctx.plans.is_imminent(key, now);
    triggers.yields_to_priority(key, ahead.into_iter(), is_about, now)
}

impl LastPlanned {
    /// A second look whose time came while others need the time is looked at later.
    fn put_off(mut self, key: &ApplicationKey, ctx: &Context) {
        if let Some(look) = self.facts.second_look.as_mut().filter(|look| look.is_due(moment())) {
            *look = look.later(moment());
            ctx.set_last_planned(key, self);
        }
    }
}

/// What a search was begun with.
struct SearchRequest {
    policy: Policy,
    application: ActorApplication,
    /// What it was looked at in, where it was.
    world: Option<Arc<World>>,
    look: LastPlanned,
    again: Option<SecondLook>,
    /// How many of its plans others overtook.
    attempt: u32,
}

/// Searches in a task of its own: what runs is looked after meanwhile. The application is reconciled again when it is through.
fn start_search(ctx: &Arc<Context>, key: &ApplicationKey, why: Due, request: SearchRequest) {
    let stop = Arc::new(AtomicBool::new(false));
    let manifest = Manifest::of(&request.application);
    ctx.searches.put(key, Search::Running { manifest: manifest.clone(), stop: stop.clone() });
    let (ctx, key, span) = (ctx.clone(), key.clone(), tracing::Span::current());
    let task = async move {
        let SearchRequest { policy, application, world, mut look, again, attempt } = request;
        let rank = Rank::of(&application).background(why.can_wait());
        let number = again.map_or(0, |look| look.number);
        let others = Arc::new(ctx.searches.time_share(why));
        let (slot, world) = if let Some(slot) = ctx.solver_slots.try_acquire(&rank) {
            (slot, world)
        } else {
            // Who waits holds no world, which would be an old one when its turn comes.
            drop(world);
            (ctx.solver_slots.acquire(rank).await, None)
        };
        let world = match world {
            Some(world) => Ok(world),
            None => refresh_snapshot((&application, &key), &policy, &mut look, &ctx).await,
        };
        let yielded = Arc::new(AtomicBool::new(false));
        let plan = match world {
            Ok(world) => search((&key, &world), &policy, (number, &others), why, (stop, &yielded), &ctx)
                .await
                .map(|plan| (world, plan)),
            Err(problem) => Err(problem),
        };
        let (slot, yielded) = (Some(slot), yielded.load(Ordering::Acquire));
        ctx.searches.finish(
            key,
            SearchResult { manifest, why, policy, basis: look, resume: again, attempt, yielded, plan, slot },
        );
    };
    tokio::spawn(tracing::Instrument::instrument(task, span));
}

/// The world as it is when the turn of an application has come; what it was looked at in before counts no more.
async fn refresh_snapshot(
    (application, key): (&ActorApplication, &ApplicationKey),
    policy: &Policy,
    last_facts: &mut LastPlanned,
    ctx: &Context,
) -> Result<Arc<World>, Error> {
    let decision = ctx.caches.decision(key)?;
    last_facts.growth_counter = ctx.caches.growth_counter();
    let (world, Observation { facts, infeasible }) =
        observe(ctx, application, policy, decision.as_deref()).await?;
    let control::Considered { generation, chances, turn, second_look, .. } = last_facts.facts;
    last_facts.facts = control::Considered { generation, chances, turn, second_look, ..facts };
    last_facts.infeasible = infeasible;
    last_facts.notes.clone_from(&world.notes);
    Ok(world)
}

/// Commits what a search found, or keeps it where the decision is not the one that is known here: it is looked at again when it is.
///
/// What `touched` the application meanwhile is looked at another time; who is tried again in any case is touched then.
async fn commit_or_keep(
    found: Box<SearchResult>,
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
        ctx.searches.put(key, Search::Done(Box::new(kept)));
    }
    if dirty && committed.as_ref().map_or_else(Error::is_reported, |is_done| *is_done) {
        ctx.caches.mark_dirty(key);
    }
    committed
}

/// Commits what a search found, or what is left of it in the newest world; whether that is done.
async fn commit_result(
    found: SearchResult,
    policy: &Policy,
    application: &ActorApplication,
    key: &ApplicationKey,
    ctx: &Context,
    outcome: &mut Outcome,
) -> Result<bool, Error> {
    let SearchResult { why, basis: mut now, resume: again, attempt, yielded, plan, slot, .. } = found;
    let (world, plan) = plan?;
    now.facts.second_look = match again {
        // It had no time: it is the same look another time.
        Some(look) if yielded => Some(look.later(moment())),
        _ => (plan.stopped_by == StoppedBy::Deadline).then(|| SecondLook::after(again, moment())).flatten(),
    };
    if application.spec.paused {
        now.proposed = Some(proposal(&world.snapshot, &plan));
        outcome.proposed.clone_from(&now.proposed);
        ctx.set_last_planned(key, now);
        return Ok(true);
    }
    let keep_partial = attempt >= MAX_OVERTAKEN;
    let revalidation =
        Revalidation { planned: &world, plan, keep_partial, is_judged: true, key, policy, application, ctx };
    let Some((lock, newest, verdict)) = revalidation.revalidate().await? else {
        return Ok(false);
    };
    let (plan, is_whole) = match verdict {
        Verdict::Stands(plan) => (plan, true),
        Verdict::Mended(plan) => {
            // What was mended in a hurry is looked at again when there is time.
            now.facts.chances = u64::MAX;
            (plan, true)
        }
        Verdict::Partly(plan) => (plan, false),
        Verdict::Overtaken => return Ok(false),
    };
    commit(application, (key, why), policy, (lock, slot, &newest), &plan, ctx, outcome).await?;
    // What happened while it was decided touched nobody who had no place there yet.
    ctx.caches.recheck().add([key.clone()]);
    if is_whole {
        // What was searched is the world that was planned from; room that came meanwhile is looked at as soon as it is known who
        // has no place.
        record_committed((key, ctx), policy, &newest, &plan, now);
    }
    Ok(is_whole)
}

/// Searches on a blocking thread: it is CPU-bound for up to the policy's wall clock.
///
/// A second look at the same world has the number `look`, from 1, and a seed of its own; `others` wait or search, too, and who comes
/// while it searches takes its share as well. Who could wait ends when somebody comes who could not, and has given way then.
async fn search(
    (key, world): (&ApplicationKey, &Arc<World>),
    policy: &Policy,
    (look, others): (u32, &Arc<TimeShare>),
    why: Due,
    (stop, yielded): (Arc<AtomicBool>, &Arc<AtomicBool>),
    ctx: &Context,
) -> Result<Plan, Error> {
    let strategy = strategy(policy)?;
    let timer = ctx.metrics.plan_seconds.start_timer();
    let (whole, slots) = (Duration::from_millis(policy.wall_milliseconds), ctx.planning.slots());
    let (others, post_search, solver_slots) =
        (others.clone(), ctx.searches.post_search.clone(), ctx.solver_slots.clone());
    let (world, silent, yielded) = (world.clone(), ctx.caches.index().is_silent(), yielded.clone());
    let seed = ctx.planning.seed.wrapping_add(u64::from(look));
    let judge = judge(policy);
    let span = tracing::Span::current();
    let (planned, least) = (world.clone(), policy.least_gain());
    let task = tokio::task::spawn_blocking(move || {
        let world = planned;
        span.in_scope(|| {
            let begun = Instant::now();
            let share = || share(whole, others.count(), slots, post_search.last());
            let left = || share().saturating_sub(begun.elapsed());
            let ended = OnceLock::new();
            let stop = || {
                if why.can_wait() && solver_slots.has_foreground_demand() {
                    yielded.store(true, Ordering::Release);
                }
                let is_over =
                    [&stop, &yielded].iter().any(|flag| flag.load(Ordering::Acquire)) || left().is_zero();
                if is_over {
                    ended.get_or_init(|| begun.elapsed());
                }
                is_over
            };
            let budget = Budget { effort: None, seed, stop: &stop, left: Some(&left) };
            // A decision that is not there is made from what is observed, where something is.
            let runs =
                world.snapshot.file().actors.iter().any(|actor| !actor.fixed && actor.current.is_some());
            // Nobody is moved on the strength of what is known while many nodes do not answer.
            let strategy: Box<dyn Strategy> = if (why == Due::Undecided || silent) && runs {
                Box::new(Observed(strategy))
            } else {
                strategy
            };
            let plan = placement::plan(&world.snapshot, strategy.as_ref(), &judge, &budget)?;
            // A manifest's rates are the same in every window.
            let (derived, found) = (plan.world(&world.snapshot), plan.assignment.clone());
            let mut plan = control::go_or_stay(&derived, &[], plan, least);
            if plan.assignment != found {
                plan = plan.judged_again(&derived, &judge)?;
            }
            explain::explain_plan(&mut plan, &world.snapshot, &judge, REASONS_EFFORT);
            if let Some(ended) = ended.get() {
                post_search.took(begun.elapsed().saturating_sub(*ended));
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

/// What one of so many who wait gets of a search's time where so many search at once: together they take half of it and 10 ms for
/// each, and never more than all of it, but for the 10 ms that each gets at least. What a plan takes beside its search, judging and
/// explaining, is `aside` of it. What a longer search would find is looked for afterwards, when nobody waits.
fn share(wall: Duration, waiting: usize, slots: usize, post_search: Duration) -> Duration {
    if waiting <= slots {
        return wall;
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let queue = wall.min((wall / 2).saturating_add(MIN_SHARE.saturating_mul(count(waiting))));
    (queue / count(waiting.div_ceil(slots))).saturating_sub(post_search).max(MIN_SHARE.min(wall))
}

/// The strategy that the policy names, which may be one for production alone.
fn strategy(policy: &Policy) -> Result<Box<dyn Strategy>, Error> {
    let refused =
        |problem| Error::Policy(format!("policy {}: policy.yaml, strategy: {problem}", policy.name));
    let entry = portfolio::strategy(&policy.strategy, Purpose::Production).map_err(refused)?;
    Ok(entry.make(limits(policy)))
}

/// What a paused application would do.
fn proposal(snapshot: &Snapshot, plan: &Plan) -> String {
    let starts = ActorIx::first(snapshot.actors())
        .filter(|&a| snapshot.current(a).is_none() && plan.assignment[a].is_some())
        .count();
    match (starts, plan.moves.len()) {
        (0, 0) => "nothing would change".to_owned(),
        (starts, moves) => {
            format!("{starts} actors would start and {moves} would move; set paused to false to let them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_half_the_time_of_a_search_and_10_ms_for_each() {
        // Milliseconds of one search, and beside it; who wait, who search at once; milliseconds of each, of all of them.
        for (wall, post_search, waiting, slots, each, all) in [
            (2000, 0, 1, 2, 2000, 2000),
            (2000, 300, 2, 2, 2000, 2000),
            (2000, 0, 3, 2, 515, 1030),
            (2000, 0, 10, 2, 220, 1100),
            (2000, 70, 10, 2, 150, 1100),
            (2000, 300, 10, 2, 10, 1550),
            (2000, 0, 100, 2, 40, 2000),
            (2000, 0, 1000, 2, 10, 5000),
            (60_000, 0, 10, 1, 3010, 30_100),
            (5, 0, 10, 1, 5, 50),
        ] {
            let [wall, post_search, each] = [wall, post_search, each].map(Duration::from_millis);
            let share = share(wall, waiting, slots, post_search);
            assert_eq!(share, each, "{wall:?}, {waiting} wait, {slots} search");
            let taken = if waiting > slots { share + post_search } else { share };
            assert_eq!(taken.as_millis() * waiting.div_ceil(slots) as u128, all, "{wall:?}, {waiting} wait");
        }
    }
}
