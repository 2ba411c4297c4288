//! Plans for measured load: which moves would pay. Nothing is moved; the result is reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{
    GateRule, GateVerdict, LastLoadSearch, LoadJudgement, LoadSignal, LoadTerms, PlanReason, due_load_rule,
};
use counters::{MIN_SCRAPES, MeasuredLoad, WindowChoice, Windows};
use crds::{ActorApplication, CounterCoverage, RebalanceMode};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use jiff::Timestamp;
use world::{
    ApplicationKey, AssembledSnapshot, LoadFacts, LoadMove, LoadOutcome, LoadRule, MeasuredDemand, Policy,
    assemble_measured,
};

use crate::counters::{LoadMetrics, LoadStore, PlanCosts};
use crate::error::Error;
use crate::plan::decide::search;
use crate::plan::load_report::{LoadVerdict, ProposedMove, percent};
use crate::plan::observe::run_blocking;
use crate::queue::solver_slots::Rank;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;

/// Windows without settled data after which counters count as unavailable.
const STALE_WINDOWS: usize = 4;
/// Pause of an actor that moves, before any is measured.
const PAUSE_SECONDS: f64 = 10.0;

/// The load that applications were last planned for.
pub struct LoadPlanner {
    last: Mutex<BTreeMap<ApplicationKey, LastSearch>>,
    metrics: LoadMetrics,
}

/// A search for measured load, and the facts that the load is compared with.
#[derive(Clone, Debug)]
struct LastSearch {
    facts: MeasuredLoad,
    search: LastLoadSearch,
}

/// What a search is made from.
struct LoadSearch<'a> {
    key: &'a ApplicationKey,
    application: &'a ActorApplication,
    policy: &'a Policy,
    windows: Windows,
    rule: GateRule,
}

/// Considers each application after each of its windows, one after the other: these searches have time.
pub async fn run(
    ctx: Arc<Context>,
    (store, metrics): (Arc<LoadStore>, LoadMetrics),
    mut ticked: UnboundedReceiver<ApplicationKey>,
) {
    let planner = LoadPlanner { last: Mutex::default(), metrics };
    let (mut queue, mut queued) = (VecDeque::new(), BTreeSet::new());
    loop {
        // An application that waits through several of its windows is considered once.
        while let Some(key) = if queue.is_empty() { ticked.next().await } else { ticked.try_recv().ok() } {
            if queued.insert(key.clone()) {
                queue.push_back(key);
            }
        }
        let Some(key) = queue.pop_front() else { return };
        queued.remove(&key);
        if let Err(error) = planner.consider(&key, &ctx, &store).await {
            tracing::warn!(application = %key, error = error.chain(), "no plan for measured load");
        }
    }
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
            self.forget(key, ctx);
            return Ok(());
        };
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
        measure((key, &application), &policy, &windows, ctx)?;
        let Some(rule) = self.due_rule(key, &windows) else { return Ok(()) };
        // Moves of an application that is being changed are not judged.
        let is_at_rest = ctx.caches.decision(key).ok().flatten().is_some() && !ctx.searches.has(key);
        if !is_at_rest || application.spec.paused {
            return Ok(());
        }
        let (facts, settled) = (windows.load(LoadRule::from(rule).windows()), windows.usable_windows());
        let request = LoadSearch { key, application: application.as_ref(), policy: &policy, windows, rule };
        let Some((judgement, outcome, costs)) = request.verdict(ctx, store).await? else { return Ok(()) };
        self.searched(key, facts, settled, &judgement);
        self.metrics.count(&judgement);
        self.metrics.show_costs(key, &costs);
        let verdict = verdict(&judgement, &outcome);
        if ctx.load_reports.change(key, |report| report.set_verdict(verdict)) {
            ctx.caches.enqueue(key);
        }
        Ok(())
    }

    fn last(&self) -> std::sync::MutexGuard<'_, BTreeMap<ApplicationKey, LastSearch>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans by the manifest again; returns whether something was reported.
    fn forget(&self, key: &ApplicationKey, ctx: &Context) -> bool {
        self.last().remove(key);
        self.metrics.forget(key);
        ctx.caches.change(|index| index.set_measured(key, None));
        ctx.load_reports.remove(key)
    }

    /// Remembers a search.
    fn searched(&self, key: &ApplicationKey, facts: MeasuredLoad, windows: usize, judgement: &LoadJudgement) {
        let mut all = self.last();
        let last = all.remove(key);
        let before = last.as_ref().map(|last| last.search);
        let search = LastLoadSearch::after(before, moment(), windows, judgement.verdict());
        let facts = last.filter(|_| search.is_repeated()).map_or(facts, |last| last.facts);
        all.insert(key.clone(), LastSearch { facts, search });
    }

    /// The rule by which a plan is due.
    fn due_rule(&self, key: &ApplicationKey, windows: &Windows) -> Option<GateRule> {
        let last = self.last().get(key).cloned();
        let mut signal = LoadSignal { windows: windows.usable_windows(), ..LoadSignal::default() };
        if let Some(last) = &last {
            let difference = last.facts.difference(&windows.load(WindowChoice::All));
            signal.has_changed = windows.has_changed(&last.facts);
            signal.mean_difference = difference.messages.max(difference.work);
        }
        due_load_rule(last.map(|last| last.search), signal, moment())
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
    let measured = MeasuredDemand { window: policy.window, numbers };
    ctx.caches.change(|index| index.set_measured(key, (covered > 0).then(|| Arc::new(measured))));
    let newest = windows.summaries().into_iter().next();
    let is_short = newest.and_then(|newest| newest.min_scrapes).is_some_and(|scrapes| scrapes < MIN_SCRAPES);
    let changed = ctx.load_reports.change(key, |report| {
        report.coverage.observe(coverage);
        report.unavailable.observe(windows.is_stale(STALE_WINDOWS));
        report.too_short.observe(is_short);
    });
    if changed {
        ctx.caches.enqueue(key);
    }
    Ok(())
}

impl LoadSearch<'_> {
    /// Searches, takes back what carries little of the gain, and judges the rest; `None` if a search for another reason took over.
    async fn verdict(
        self,
        ctx: &Arc<Context>,
        store: &LoadStore,
    ) -> Result<Option<(LoadJudgement, LoadOutcome, PlanCosts)>, Error> {
        let _slot = ctx.solver_slots.acquire(Rank::of(self.application).background(true)).await;
        let (base, facts) = self.facts(ctx).await?;
        let (world, facts) = {
            let (base, facts) = (base.clone(), facts.clone());
            run_blocking(&ctx.snapshot_permits, move || {
                let planned = facts.planned(&base.snapshot).map_err(world::AssembleError::Snapshot)?;
                let mut world = AssembledSnapshot::clone(&base);
                world.snapshot = Arc::new(planned);
                Ok((Arc::new(world), facts))
            })
            .await?
        };
        let (stop, yielded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let others = Arc::new(ctx.searches.time_share(PlanReason::Load));
        let found =
            search((self.key, &world), self.policy, (0, &others), PlanReason::Load, (stop, &yielded), ctx);
        let plan = found.await?;
        if yielded.load(std::sync::atomic::Ordering::Acquire) {
            return Ok(None);
        }
        let judged = run_blocking(&ctx.snapshot_permits, move || {
            let derived = plan.world(&world.snapshot);
            let judgement = facts.judge(&base.snapshot, &derived, &plan.assignment);
            let judgement = judgement.map_err(world::AssembleError::Snapshot)?;
            let record = Arc::unwrap_or_clone(facts).record(&derived, &plan, &judgement);
            let costs = PlanCosts::of(&derived, &plan.assignment);
            Ok((judgement, record, costs))
        });
        let (judgement, record, costs) = judged.await?;
        let outcome = record.outcome.clone();
        store.record(self.key, record);
        Ok(Some((judgement, outcome, costs)))
    }

    /// The snapshot with the manifest's numbers, and the measured facts.
    async fn facts(&self, ctx: &Context) -> Result<(Arc<AssembledSnapshot>, Arc<LoadFacts>), Error> {
        let (caches, key, policy) = (ctx.caches.clone(), self.key.clone(), self.policy.clone());
        let (application, windows, rule) = (self.application.clone(), self.windows.clone(), self.rule);
        run_blocking(&ctx.snapshot_permits, move || {
            let index = caches.index();
            let groups = world::group_profiles(&index, &application, &policy);
            let groups = groups.map_err(world::AssembleError::Invalid)?;
            let base = assemble_measured(&index, &key, &policy, Timestamp::now(), None)?;
            drop(index);
            let stays_put = world::groups_that_stay(&application);
            let facts = LoadFacts::new(rule, &base.snapshot, &windows, groups, stays_put, terms(&policy));
            Ok((Arc::new(base), Arc::new(facts)))
        })
        .await
    }
}

/// The policy's terms for moves.
fn terms(policy: &Policy) -> LoadTerms {
    let rebalance = policy.rebalance;
    let windows = u32::try_from(rebalance.horizon_windows).unwrap_or(u32::MAX);
    let window = Duration::from_micros(world::floor(policy.window));
    LoadTerms {
        least: rebalance.min_gain(),
        max_moves: rebalance.max_moves,
        pause_seconds: PAUSE_SECONDS,
        horizon_seconds: window.as_secs_f64() * f64::from(windows),
    }
}

/// What is reported of a search.
fn verdict(judgement: &LoadJudgement, outcome: &LoadOutcome) -> LoadVerdict {
    match judgement {
        LoadJudgement::NoGain => LoadVerdict::NoGain,
        LoadJudgement::Judged { verdict: GateVerdict::Pays { rule, gain }, .. } => LoadVerdict::WouldMove {
            rule: *rule,
            gain_percent: percent(*gain),
            moves: outcome.moves.iter().map(proposed).collect(),
        },
        LoadJudgement::Judged { verdict, .. } => LoadVerdict::Stays(*verdict),
    }
}

fn proposed(moved: &LoadMove) -> ProposedMove {
    let LoadMove { actor, from, to, gain } = moved.clone();
    ProposedMove { actor, from, to, gain_percent: percent(gain) }
}
