//! Plans for measured load: which moves would pay. Nothing is moved; the result is reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{ElectiveMoves, GateRule, GateVerdict, PlanReason, least_with_pauses, necessary_part};
use counters::{MIN_SCRAPES, MeasuredLoad, WindowChoice, Windows};
use crds::{ActorApplication, CounterCoverage, RebalanceMode};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use jiff::Timestamp;
use placement::Snapshot;
use placement::file::{Constraint, Places};
use world::{ApplicationKey, AssembledSnapshot, MeasuredDemand, Policy, assemble_measured};

use crate::counters::LoadStore;
use crate::error::Error;
use crate::plan::decide::search;
use crate::plan::load_report::{LoadVerdict, ProposedMove, percent};
use crate::plan::observe::run_blocking;
use crate::queue::solver_slots::Rank;
use crate::runtime::clock::moment;
use crate::runtime::context::Context;

/// Windows without settled data after which counters count as unavailable.
const STALE_WINDOWS: usize = 4;
/// Change of the mean load from which a steady gain is looked for again.
const MEAN_CHANGE: f64 = 0.05;
/// Pause of an actor that moves, before any is measured.
const PAUSE_SECONDS: f64 = 10.0;

/// The load that applications were last planned for.
#[derive(Debug, Default)]
pub struct LoadPlanner {
    last: Mutex<BTreeMap<ApplicationKey, LastSearch>>,
}

/// A search for measured load.
#[derive(Clone, Debug)]
struct LastSearch {
    facts: MeasuredLoad,
    at: control::Moment,
    /// Settled windows at that time.
    windows: usize,
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
pub async fn run(ctx: Arc<Context>, store: Arc<LoadStore>, mut ticked: UnboundedReceiver<ApplicationKey>) {
    let planner = LoadPlanner::default();
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
        let searched =
            LastSearch { facts: windows.load(choice(rule)), at: moment(), windows: windows.usable_windows() };
        let request = LoadSearch { key, application: application.as_ref(), policy: &policy, windows, rule };
        let Some(verdict) = request.verdict(ctx).await? else { return Ok(()) };
        self.last().insert(key.clone(), searched);
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
        ctx.caches.change(|index| index.set_measured(key, None));
        ctx.load_reports.remove(key)
    }

    /// The rule by which a plan is due: the load changed, or there was time for a steady gain to show.
    fn due_rule(&self, key: &ApplicationKey, windows: &Windows) -> Option<GateRule> {
        let settled = windows.usable_windows();
        let Some(last) = self.last().get(key).cloned() else {
            return (settled >= GateRule::Steady.needed()).then_some(GateRule::Steady);
        };
        if windows.has_changed(&last.facts) {
            return Some(GateRule::Change);
        }
        let difference = last.facts.difference(&windows.load(WindowChoice::All));
        let moved = difference.messages > MEAN_CHANGE || difference.work > MEAN_CHANGE;
        let has_waited = moment() >= last.at + control::BACKGROUND_INTERVAL;
        let is_steady = settled >= GateRule::Steady.needed() && has_waited;
        (is_steady && (moved || last.windows < GateRule::Steady.needed())).then_some(GateRule::Steady)
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

fn choice(rule: GateRule) -> WindowChoice {
    match rule {
        GateRule::Change => WindowChoice::Newest(control::CHANGE_WINDOWS),
        GateRule::Steady => WindowChoice::All,
    }
}

impl LoadSearch<'_> {
    /// Searches, takes back what carries little of the gain, and judges the rest; `None` if a search for another reason took over.
    async fn verdict(self, ctx: &Arc<Context>) -> Result<Option<LoadVerdict>, Error> {
        let _slot = ctx.solver_slots.acquire(Rank::of(self.application).background(true)).await;
        let world = self.snapshot(ctx, choice(self.rule)).await?;
        let (stop, yielded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let others = Arc::new(ctx.searches.time_share(PlanReason::Load));
        let found =
            search((self.key, &world), self.policy, (0, &others), PlanReason::Load, (stop, &yielded), ctx);
        let plan = found.await?;
        if yielded.load(std::sync::atomic::Ordering::Acquire) {
            return Ok(None);
        }
        let (least, most) = (self.policy.rebalance.min_gain(), self.policy.rebalance.max_moves);
        let (planned, snapshot) = (plan.clone(), world.snapshot.clone());
        let derived =
            run_blocking(&ctx.snapshot_permits, move || Ok(planned.world(&snapshot).into_owned())).await?;
        let (goes, planned) = (plan.assignment.clone(), derived.clone());
        let moves = run_blocking(&ctx.snapshot_permits, move || {
            let stays = necessary_part(&planned, &goes);
            Ok(ElectiveMoves::of(&planned, stays, &goes, least, most))
        });
        let Some(moves) = moves.await? else { return Ok(Some(LoadVerdict::NoGain)) };
        let least = self.least_gain(&world, &moves);
        let mut gains = Vec::new();
        for at in (0..self.windows.usable_windows()).rev() {
            let window = self.snapshot(ctx, WindowChoice::One(at)).await?;
            gains.push(moves.gain(&window.snapshot));
        }
        Ok(Some(match self.rule.judge(&gains, least) {
            GateVerdict::Pays { rule, gain } => LoadVerdict::WouldMove {
                rule,
                gain_percent: percent(gain),
                moves: proposed(&derived, &moves),
            },
            other => LoadVerdict::Stays(other),
        }))
    }

    /// The snapshot with the numbers of these windows, in which actors that never move for a gain are fixed.
    async fn snapshot(&self, ctx: &Context, choice: WindowChoice) -> Result<Arc<AssembledSnapshot>, Error> {
        let (caches, key, policy) = (ctx.caches.clone(), self.key.clone(), self.policy.clone());
        let (application, windows) = (self.application.clone(), self.windows.clone());
        run_blocking(&ctx.snapshot_permits, move || {
            let index = caches.index();
            let profiles = world::group_profiles(&index, &application, &policy);
            let profiles = profiles.map_err(world::AssembleError::Invalid)?;
            let measured = windows.measure(&profiles, choice);
            let mut world = assemble_measured(&index, &key, &policy, Timestamp::now(), Some(&measured))?;
            drop(index);
            let stays_put = world::groups_that_stay(&application);
            if !stays_put.is_empty() {
                world.snapshot = Arc::new(with_fixed(&world.snapshot, &stays_put)?);
            }
            Ok(Arc::new(world))
        })
        .await
    }

    /// The policy's least gain, and what the pauses of the movers cost.
    fn least_gain(&self, world: &AssembledSnapshot, moves: &ElectiveMoves) -> f64 {
        let snapshot = &world.snapshot;
        let work = |actor| {
            moves.stays[actor].and_then(|unit| snapshot.implementation(actor, unit)).map_or(0, |it| it.work)
        };
        let all: i64 = placement::ix::ActorIx::first(snapshot.actors())
            .filter(|actor| !snapshot.is_fixed(*actor))
            .map(work)
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "work is at most 2^53")]
        let pauses = moves.gains.keys().map(|actor| (PAUSE_SECONDS, work(*actor) as f64 / all.max(1) as f64));
        let windows = u32::try_from(self.policy.rebalance.horizon_windows).unwrap_or(u32::MAX);
        let window = Duration::from_micros(world::floor(self.policy.window));
        least_with_pauses(self.policy.rebalance.min_gain(), pauses, window.as_secs_f64() * f64::from(windows))
    }
}

/// The snapshot with the actors of these groups on their units.
fn with_fixed(snapshot: &Snapshot, groups: &BTreeSet<String>) -> Result<Snapshot, Error> {
    let mut file = snapshot.file().clone();
    for actor in file.actors.iter().filter(|actor| !actor.fixed) {
        let is_put = actor.group.as_ref().is_some_and(|group| groups.contains(group));
        if let Some(unit) = actor.current.clone().filter(|_| is_put) {
            file.constraints.push(Constraint::Only {
                actors: vec![actor.id.clone()],
                places: Places::Units(vec![unit]),
                reason: Some("never moves for a gain".to_owned()),
            });
        }
    }
    Ok(Snapshot::new(file).map_err(world::AssembleError::Snapshot)?)
}

fn proposed(snapshot: &Snapshot, moves: &ElectiveMoves) -> Vec<ProposedMove> {
    let unit = |unit: Option<placement::ix::UnitIx>| {
        unit.map_or_else(String::new, |unit| snapshot.unit_id(unit).to_owned())
    };
    let proposed = moves.gains.iter().map(|(actor, gain)| ProposedMove {
        actor: snapshot.short_name(*actor).to_owned(),
        from: unit(moves.stays[*actor]),
        to: unit(moves.goes[*actor]),
        gain_percent: percent(*gain),
    });
    proposed.collect()
}
