//! Plans for measured load: which moves would pay. With the mode `On` they are decided, otherwise only reported.

pub mod commit;
mod outcome;
pub mod report;
pub mod search;
pub mod surroundings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{Backoffs, GateRule, LastLoadSearch, LoadJudgement, LoadSignal, Moment, due_load_rule};
use counters::{MeasuredLoad, WindowChoice, Windows};
use crds::{ActorApplication, CounterCoverage, MoveStep, Placement, RebalanceMode};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use kube::runtime::events::EventType;
use world::{ApplicationKey, LoadRule, MeasuredDemand, Policy};

use crate::counters::{LoadMetrics, LoadStore};
use crate::error::{Error, catch_panic};
use crate::plan::load::commit::commit_moves;
use crate::plan::load::outcome::{FinishedMoves, judge_moves};
use crate::plan::load::report::{DeferralReason, LoadReport, LoadVerdict, STALE_WINDOWS};
use crate::plan::load::search::LoadSearch;
use crate::plan::load::surroundings::{SearchSurroundings, places_digest};
use crate::queue::uid_tracker::UidTracker;
use crate::queue::workqueue::run_workqueue;
use crate::runtime::clock::{from_wall_clock, moment};
use crate::runtime::context::Context;
use crate::status::report::event;

/// Windows after which moves that could not be judged no longer hold up others.
const LONGEST_JUDGEMENT: u32 = 16;
/// The first and the longest delay after failed searches.
const SEARCH_BACKOFF: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(10));

/// Applications that are considered at once, each with a copy of its windows.
const MAX_CONCURRENT: usize = 64;

/// The load that applications were last planned for.
pub struct LoadPlanner {
    last: Mutex<BTreeMap<ApplicationKey, LastSearch>>,
    /// When the last moves were finished.
    finished: Mutex<FinishedMoves>,
    /// Backoff after failed searches.
    backoffs: Mutex<Backoffs<ApplicationKey>>,
    /// Detects recreated applications, whose load is another one's.
    uids: UidTracker,
    metrics: LoadMetrics,
}

/// A search for measured load, and the facts that the load is compared with.
#[derive(Clone, Debug)]
struct LastSearch {
    facts: MeasuredLoad,
    search: LastLoadSearch,
    /// What the last search for a steady gain depended on beside the load.
    surroundings: SearchSurroundings,
}

impl LastSearch {
    /// How the load of these windows, and the surroundings, differ from those of the search.
    fn signal(&self, windows: &Windows, surroundings: &SearchSurroundings) -> LoadSignal {
        let difference = self.facts.difference(&windows.load(WindowChoice::All));
        LoadSignal {
            windows: windows.usable_windows(),
            has_changed: windows.has_changed(&self.facts),
            mean_difference: difference.messages.max(difference.work),
            has_opportunity: surroundings.is_opportunity(&self.surroundings),
        }
    }
}

/// What a search is made because of.
struct SearchCause {
    signal: LoadSignal,
    surroundings: SearchSurroundings,
}

/// Considers each application after each of its windows; searches wait for solver slots.
pub async fn run(
    ctx: Arc<Context>,
    (store, metrics): (Arc<LoadStore>, LoadMetrics),
    ticked: UnboundedReceiver<ApplicationKey>,
) {
    let (last, finished) = (Mutex::default(), Mutex::default());
    let (backoffs, uids) = (Mutex::default(), UidTracker::default());
    let planner = LoadPlanner { last, finished, backoffs, uids, metrics };
    let (planner, ctx, store) = (&planner, &ctx, &store);
    // An application that waits through several of its windows is considered once.
    let requests = ticked.map(|key| (key, Duration::ZERO));
    run_workqueue(requests, MAX_CONCURRENT, async move |key| {
        let considered = Box::pin(planner.consider(&key, ctx, store));
        if let Err(error) = catch_panic(considered, Error::Panicked("planning for measured load")).await {
            tracing::warn!(application = %key, error = error.chain(), "planning for measured load failed");
            if let Some(application) = ctx.caches.application(&key) {
                ctx.report_failed_work(application.as_ref(), "Rebalance", &[error]).await;
            }
        }
        None
    })
    .await;
}

impl LoadPlanner {
    /// Puts the measured numbers into further snapshots and, if the load changed, searches for moves that would pay.
    async fn consider(
        &self,
        key: &ApplicationKey,
        ctx: &Arc<Context>,
        store: &LoadStore,
    ) -> Result<(), Error> {
        let Some(application) = ctx.caches.applications.get(&crate::watch::caches::object_ref(key)) else {
            self.uids.remove_gone(|other| other != key);
            self.forget(key, ctx);
            return Ok(());
        };
        if self.uids.is_recreated(key, &application) {
            self.forget(key, ctx);
        }
        let name = application.spec.policy.as_deref().unwrap_or(&ctx.planning.default_policy);
        let (policy, _) = ctx.policies.in_force(name, &key.namespace)?;
        let mode = application.spec.rebalance.unwrap_or(policy.rebalance.mode);
        let windows = store.windows(key).filter(|_| mode != RebalanceMode::Off);
        let Some(windows) = windows else {
            if self.forget(key, ctx) {
                ctx.caches.enqueue(key);
            }
            return Ok(());
        };
        restore_report(key, &application, ctx);
        let would_move = ctx.load_reports.would_move(key);
        measure((key, &application), &policy, &windows, ctx)?;
        // Moves of an application that is being changed are not judged.
        let decision = ctx.caches.decision(key).ok().flatten().filter(|_| !ctx.planner.has_search(key));
        let decision = decision.filter(|_| !application.spec.paused);
        let Some(decision) = decision else {
            if application.spec.paused && ctx.load_reports.change(key, LoadReport::forget_would_move) {
                ctx.caches.enqueue(key);
            }
            self.forget_search(key, would_move, ctx);
            return Ok(());
        };
        let deferred = deferred((key, &application), &decision, &policy, ctx);
        let places = places_digest(&decision);
        forget_outdated_verdict(key, (places, deferred), &policy, ctx);
        self.forget_search(key, would_move, ctx);
        let request = |windows: Windows, rule| LoadSearch {
            key,
            application: application.as_ref(),
            policy: &policy,
            windows,
            rule,
        };
        let decided_at = decision.spec.gain.as_ref().map(|gain| &gain.decided_at);
        // Of the history, as another replica may have decided the moves.
        let before = decided_at.and_then(|at| ctx.owned_resources.history(application.as_ref()).services(at));
        let finished = self.finished().since(key, &decision, windows.newest_answered());
        let steady = request(windows.clone(), GateRule::Steady);
        if let Some(finished) = finished
            && let Some(judged) = judge_moves(&steady, (&decision, finished), before.as_ref(), ctx).await?
            && ctx.load_reports.change(key, |report| report.outcome = Some(judged))
        {
            ctx.caches.enqueue(key);
        }
        let surroundings = SearchSurroundings::of((key, &application), places, (&policy, mode), ctx);
        self.last().retain(|other, last| other != key || last.surroundings.has_settings_of(&surroundings));
        let Some((rule, signal)) = self.due_rule(key, &windows, &surroundings) else { return Ok(()) };
        if let Some(deferred) = deferred.filter(|_| mode == RebalanceMode::On) {
            report(key, (LoadVerdict::Deferred(deferred), places), ctx);
            return Ok(());
        }
        if self.backoffs().active(key, moment()).is_some() {
            return Ok(());
        }
        let cause = SearchCause { signal, surroundings };
        let searched = self.search(&request(windows, rule), (mode, places), cause, (ctx, store)).await;
        if let Err(error) = &searched
            && error.is_reported()
        {
            // The next window would repeat it.
            self.backoffs().record_failure(key.clone(), error.reason(), None, SEARCH_BACKOFF, moment());
            let note = format!(
                "the search for measured load failed, and is retried with backoff: {}",
                error.chain()
            );
            let event = event(EventType::Warning, error.reason(), "Rebalance", note);
            ctx.emit_event(application.as_ref(), &event).await;
        }
        searched
    }

    /// Searches for moves that would pay, and decides them if the mode is `On`; remembers a search that was finished.
    async fn search(
        &self,
        request: &LoadSearch<'_>,
        (mode, places): (RebalanceMode, u64),
        mut cause: SearchCause,
        (ctx, store): (&Arc<Context>, &LoadStore),
    ) -> Result<(), Error> {
        let LoadSearch { key, windows, rule, .. } = request;
        let facts = windows.load(LoadRule::from(*rule).windows());
        let Some(found) = request.verdict(ctx, store).await? else { return Ok(()) };
        self.metrics.count(&found.judgement);
        self.metrics.show_costs(key, &found.costs);
        let (judgement, verdict) = (found.judgement.clone(), found.verdict());
        if mode == RebalanceMode::On && judgement.pays().is_some() {
            ctx.moves.set_services(key, found.services(windows));
            let costs = found.decided_costs.clone();
            // If the cluster changed meanwhile, the next window tries again.
            if !commit_moves(request, found, ctx).await? {
                return Ok(());
            }
            self.metrics.show_costs(key, &costs);
            cause.surroundings = cause.surroundings.decided();
            if *rule == GateRule::Change {
                // Earlier windows show another load.
                store.keep_newest(key, control::CHANGE_WINDOWS);
            }
            report(key, (verdict.decided(), places), ctx);
        } else {
            if *rule == GateRule::Change
                && let Some(last) = self.last().get(*key)
            {
                // This rule ignores steady gains.
                cause.surroundings = last.surroundings.clone();
            }
            report(key, (verdict, places), ctx);
        }
        self.searched(key, facts, cause, &judgement);
        Ok(())
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, FinishedMoves> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, BTreeMap<ApplicationKey, LastSearch>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoffs(&self) -> std::sync::MutexGuard<'_, Backoffs<ApplicationKey>> {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the search for moves that were known to pay and are no longer: steady counters that are back, the end of a pause, or a unit
    /// that is offered again are no signal.
    fn forget_search(&self, key: &ApplicationKey, would_move: bool, ctx: &Context) {
        if would_move && !ctx.load_reports.would_move(key) {
            self.last().remove(key);
        }
    }

    /// Plans by the manifest again; returns whether something was reported.
    fn forget(&self, key: &ApplicationKey, ctx: &Context) -> bool {
        self.last().remove(key);
        self.finished().forget(key);
        self.backoffs().forget(|failed| failed == key);
        self.metrics.forget(key);
        ctx.caches.change(|index| index.set_measured(key, None));
        ctx.load_reports.remove(key)
    }

    /// Remembers a search.
    fn searched(
        &self,
        key: &ApplicationKey,
        facts: MeasuredLoad,
        cause: SearchCause,
        judgement: &LoadJudgement,
    ) {
        let SearchCause { signal, surroundings } = cause;
        self.backoffs().forget(|failed| failed == key);
        let mut all = self.last();
        let last = all.remove(key);
        let before = last.as_ref().map(|last| last.search);
        let search = LastLoadSearch::after(before, moment(), signal, judgement.verdict());
        let facts = last.filter(|_| search.is_repeated()).map_or(facts, |last| last.facts);
        all.insert(key.clone(), LastSearch { facts, search, surroundings });
    }

    /// The rule by which a plan is due, and why.
    fn due_rule(
        &self,
        key: &ApplicationKey,
        windows: &Windows,
        surroundings: &SearchSurroundings,
    ) -> Option<(GateRule, LoadSignal)> {
        let last = self.last().get(key).cloned();
        let first = LoadSignal { windows: windows.usable_windows(), ..LoadSignal::default() };
        let signal = last.as_ref().map_or(first, |last| last.signal(windows, surroundings));
        let rule = due_load_rule(last.map(|last| last.search), signal, moment())?;
        Some((rule, signal))
    }
}

/// Shows what an earlier leader reported of an application's measured load, until this one has measured it.
pub fn restore_report(key: &ApplicationKey, application: &ActorApplication, ctx: &Context) {
    let status = application.status.as_ref().filter(|status| status.counters.is_some());
    let Some(status) = status.filter(|_| ctx.load_reports.get(key).is_none()) else { return };
    let name = application.spec.policy.as_deref().unwrap_or(&ctx.planning.default_policy);
    if let Ok((policy, _)) = ctx.policies.in_force(name, &key.namespace)
        && ctx.caches.index().is_judged_by_windows((key, application), &policy)
    {
        ctx.load_reports.restore(key, status);
    }
}

/// Sets the measured numbers of further snapshots, and reports their coverage.
fn measure(
    (key, application): (&ApplicationKey, &ActorApplication),
    policy: &Policy,
    windows: &Windows,
    ctx: &Context,
) -> Result<(), Error> {
    let profiles = world::group_profiles(&ctx.caches.index(), application, policy);
    let profiles = profiles.map_err(world::AssembleError::Invalid)?;
    let numbers = windows.measure(&profiles, WindowChoice::All);
    let (covered, wanted) = numbers.coverage();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let coverage = CounterCoverage { covered: count(covered), wanted: count(wanted) };
    if covered > 0 {
        let measured = Arc::new(MeasuredDemand { window: policy.window, numbers });
        ctx.caches.change(|index| index.set_measured(key, Some(measured)));
    } else if windows.is_unmeasured(STALE_WINDOWS) {
        ctx.caches.change(|index| index.set_unmeasured(key));
    }
    // Otherwise counters are unavailable, and the last numbers hold.
    if ctx.load_reports.change(key, |report| report.observe(coverage, windows)) {
        ctx.caches.enqueue(key);
    }
    Ok(())
}

/// Forgets a verdict that no longer holds.
fn forget_outdated_verdict(
    key: &ApplicationKey,
    (places, deferred): (u64, Option<DeferralReason>),
    policy: &Policy,
    ctx: &Context,
) {
    let is_offered = |unit: &str| {
        let node = unit.rsplit_once('/').map_or(unit, |(node, _)| node);
        world::units_at(&ctx.caches.index(), node, policy).contains_key(unit)
    };
    if ctx.load_reports.change(key, |report| report.forget_outdated(deferred, places, is_offered)) {
        ctx.caches.enqueue(key);
    }
}

/// Reports a verdict on moves from these places.
fn report(key: &ApplicationKey, (verdict, places): (LoadVerdict, u64), ctx: &Context) {
    if ctx.load_reports.change(key, |report| report.set_verdict((verdict, places), moment())) {
        ctx.caches.enqueue(key);
    }
}

/// What keeps further moves for load from being decided.
fn deferred(
    (key, application): (&ApplicationKey, &ActorApplication),
    decision: &Placement,
    policy: &Policy,
    ctx: &Context,
) -> Option<DeferralReason> {
    let window = Duration::from_micros(world::floor(policy.window));
    let now = moment();
    if !world::moves_in_progress(decision).is_empty() {
        return Some(DeferralReason::Moving);
    }
    let moves = decision.status.iter().flat_map(|status| &status.moves);
    let running_since = moves.filter(|it| it.step == MoveStep::Running).map(|it| it.since.0).max();
    let running_since: Option<Moment> = running_since.and_then(|since| since.as_duration().try_into().ok());
    // Objects have times of the wall clock.
    let running_since = running_since.map(from_wall_clock);
    if running_since.is_some_and(|since| now < since + window.saturating_mul(LONGEST_JUDGEMENT)) {
        return Some(DeferralReason::Judging);
    }
    let until = from_wall_clock(ctx.owned_resources.history(application).waits_until(window)?);
    tracing::debug!(application = %key, ?until, "waits after moves that did not pay");
    (now < until).then_some(DeferralReason::Waiting)
}
