//! One search for moves that measured load would justify.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{GateRule, GateVerdict, LoadJudgement, LoadTerms, PlanReason};
use counters::{WindowChoice, Windows};
use crds::ActorApplication;
use jiff::Timestamp;
use placement::{Plan, Snapshot};
use world::{ApplicationKey, AssembledSnapshot, LoadFacts, LoadMove, LoadOutcome, Policy, assemble_measured};

use crate::commit::elective::percent;
use crate::counters::{LoadStore, PlanCosts};
use crate::error::Error;
use crate::plan::decide::search;
use crate::plan::load::report::{LoadVerdict, ProposedMove};
use crate::plan::observe::run_blocking;
use crate::queue::solver_slots::Rank;
use crate::runtime::context::Context;

/// Pause of an actor that moves, before any is measured.
const PAUSE_SECONDS: f64 = 10.0;

/// Microseconds per message of actors, by short name.
pub type MoverService = BTreeMap<String, f64>;

/// What a search is made from.
pub struct LoadSearch<'a> {
    pub key: &'a ApplicationKey,
    pub application: &'a ActorApplication,
    pub policy: &'a Policy,
    pub windows: Windows,
    pub rule: GateRule,
}

/// The result of a search.
pub struct SearchedLoad {
    /// The snapshot that it was made in,
    pub world: Arc<AssembledSnapshot>,
    /// with what the policy derives of it.
    pub derived: Snapshot,
    /// The plan before weak moves were taken back.
    pub plan: Plan,
    /// Its moves, and whether they pay.
    pub judgement: LoadJudgement,
    /// The same in names.
    pub outcome: LoadOutcome,
    /// Costs of the placement and of the plan.
    pub costs: PlanCosts,
    /// The same once the moves that pay are decided.
    pub decided_costs: PlanCosts,
    /// Groups whose actors move only when they must.
    pub stays_put: BTreeSet<String>,
}

impl SearchedLoad {
    /// Service times of the movers before they move.
    pub fn services(&self, windows: &Windows) -> MoverService {
        let of = |moved: &LoadMove| {
            let newest = WindowChoice::Newest(control::CHANGE_WINDOWS);
            Some((moved.actor.clone(), windows.service_microseconds(&moved.actor, newest)?))
        };
        self.outcome.moves.iter().filter_map(of).collect()
    }

    /// What is reported of it.
    pub fn verdict(&self) -> LoadVerdict {
        match &self.judgement {
            LoadJudgement::NoGain => LoadVerdict::NoGain { stays_put: self.stays_put.clone() },
            LoadJudgement::Judged { verdict: GateVerdict::Pays { rule, gain }, .. } => {
                LoadVerdict::WouldMove {
                    rule: *rule,
                    gain_percent: percent(*gain),
                    moves: self.outcome.moves.iter().map(proposed).collect(),
                }
            }
            LoadJudgement::Judged { verdict, .. } => LoadVerdict::Stays(*verdict),
        }
    }
}

fn proposed(moved: &LoadMove) -> ProposedMove {
    let LoadMove { actor, from, to, gain } = moved.clone();
    ProposedMove { actor, from, to, gain_percent: percent(gain) }
}

impl LoadSearch<'_> {
    /// Searches, takes back what carries little of the gain, and judges the rest; `None` if a search for another reason took over.
    ///
    /// # Errors
    /// When no snapshot can be taken, or the search fails.
    pub async fn verdict(
        &self,
        ctx: &Arc<Context>,
        store: &LoadStore,
    ) -> Result<Option<SearchedLoad>, Error> {
        let rank = Rank::of(self.application, &ctx.caches.index()).background(true);
        let _slot = ctx.solver_slots.acquire(rank).await;
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
        let others = Arc::new(ctx.planner.time_share(PlanReason::Load));
        let found =
            search((self.key, &world), self.policy, (0, &others), PlanReason::Load, (stop, &yielded), ctx);
        let plan = found.await?;
        if yielded.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (planned, goes) = (world.clone(), plan.clone());
        let judged = run_blocking(&ctx.snapshot_permits, move || {
            let derived = goes.world(&planned.snapshot);
            let judgement = facts.judge(&base.snapshot, &derived, &goes.assignment);
            let judgement = judgement.map_err(world::AssembleError::Snapshot)?;
            let record = Arc::unwrap_or_clone(facts).record(&derived, &goes, &judgement);
            let incumbent = derived.incumbent();
            let decided = judgement.pays().map_or(&incumbent, |(moves, _)| &moves.goes);
            let costs = [&incumbent, decided].map(|runs| PlanCosts::of(&derived, [runs, &goes.assignment]));
            Ok((derived.into_owned(), judgement, record, costs))
        });
        let (derived, judgement, record, [costs, decided_costs]) = judged.await?;
        let (outcome, stays_put) = (record.outcome.clone(), record.facts.stays_put.clone());
        store.record(self.key, record);
        Ok(Some(SearchedLoad { world, derived, plan, judgement, outcome, costs, decided_costs, stays_put }))
    }

    /// The snapshot with the numbers of these windows.
    ///
    /// # Errors
    /// When the manifest is invalid or too large.
    pub async fn snapshot(
        &self,
        ctx: &Context,
        choice: WindowChoice,
    ) -> Result<Arc<AssembledSnapshot>, Error> {
        let (caches, key, policy) = (ctx.caches.clone(), self.key.clone(), self.policy.clone());
        let (application, windows) = (self.application.clone(), self.windows.clone());
        run_blocking(&ctx.snapshot_permits, move || {
            let index = caches.index();
            let profiles = world::group_profiles(&index, &application, &policy);
            let profiles = profiles.map_err(world::AssembleError::Invalid)?;
            let measured = windows.measure(&profiles, choice);
            Ok(Arc::new(assemble_measured(&index, &key, &policy, Timestamp::now(), Some(&measured))?))
        })
        .await
    }

    /// The snapshot with the manifest's numbers, and the measured facts.
    async fn facts(&self, ctx: &Context) -> Result<(Arc<AssembledSnapshot>, Arc<LoadFacts>), Error> {
        let (caches, key, policy) = (ctx.caches.clone(), self.key.clone(), self.policy.clone());
        let (application, windows, rule) = (self.application.clone(), self.windows.clone(), self.rule);
        let terms = terms(&policy, ctx.owned_resources.history(&application).median_pauses());
        run_blocking(&ctx.snapshot_permits, move || {
            let index = caches.index();
            let groups = world::group_profiles(&index, &application, &policy);
            let groups = groups.map_err(world::AssembleError::Invalid)?;
            let base = assemble_measured(&index, &key, &policy, Timestamp::now(), None)?;
            drop(index);
            let stays_put = world::groups_that_stay(&application);
            let facts = LoadFacts::new(rule, &base.snapshot, &windows, groups, stays_put, terms);
            Ok((Arc::new(base), Arc::new(facts)))
        })
        .await
    }
}

/// The policy's terms for moves, and how long groups were down for their last ones.
fn terms(policy: &Policy, pauses: BTreeMap<String, f64>) -> LoadTerms {
    let rebalance = policy.rebalance;
    let windows = u32::try_from(rebalance.horizon_windows).unwrap_or(u32::MAX);
    let window = Duration::from_micros(world::floor(policy.window));
    LoadTerms {
        least: rebalance.min_gain(),
        max_moves: rebalance.max_moves,
        pause_seconds: PAUSE_SECONDS,
        pauses,
        horizon_seconds: window.as_secs_f64() * f64::from(windows),
    }
}
