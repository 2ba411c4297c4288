//! Revalidates a plan against the latest snapshot before it is committed. The commit lock is held only for the check itself,
//! not for searches, repairs, grounding or judging.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{PlanReason, Verdict};
use crds::ActorApplication;
use placement::{Budget, Derived, Judge, Plan, PlanError, Snapshot, Strategy};
use portfolio::Purpose;
use tokio::sync::Semaphore;
use world::{ApplicationKey, AssembledSnapshot, Policy};

use crate::commit::attempts::{CommitAttempts, CommitStep, Recheck};
use crate::commit::elective::ElectiveGate;
use crate::commit::locks::CommitGuard;
use crate::error::Error;
use crate::plan::observe::{judge, judge_plan, latest_snapshot, latest_snapshot_unqueued, limits};
use crate::plan::searches::Manifest;
use crate::runtime::context::Context;

/// The strategy that places conflicting actors again.
const REPAIR_STRATEGY: &str = "greedy";
/// How long a conflicting plan waits for others in repair, which take some tenths of a second each. Afterwards it may be
/// overtaken once more.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest that deriving a policy's facts may have taken for them to be derived again under the lock, where all other
/// commits wait.
const QUICK_DERIVATION: Duration = Duration::from_millis(500);

/// A plan that clingo judged, with its snapshot.
pub struct Revalidation<'a> {
    pub planned: &'a Arc<AssembledSnapshot>,
    pub plan: Plan,
    /// Whether the feasible part is kept.
    pub keep_partial: bool,
    /// Why it was planned.
    pub why: PlanReason,
    pub key: &'a ApplicationKey,
    pub policy: &'a Policy,
    pub application: &'a ActorApplication,
    pub ctx: &'a Context,
}

/// Facts that the policy derives of the snapshot with this digest.
struct Ahead {
    digest: String,
    derived: Derived,
    /// How long it took to derive them.
    took: Duration,
}

/// What changed in a plan before its commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Repaired,
    Partial,
}

impl Change {
    fn verdict(self, plan: Plan) -> Verdict {
        let of = match self {
            Self::None => Verdict::Valid,
            Self::Repaired => Verdict::Repaired,
            Self::Partial => Verdict::Partial,
        };
        of(Box::new(plan))
    }
}

/// A snapshot with the facts that the policy derives of it.
struct DerivedWorld {
    world: Arc<AssembledSnapshot>,
    snapshot: Arc<Snapshot>,
    derived: Derived,
}

impl DerivedWorld {
    fn has_policy_facts_of(&self, other: &Self) -> bool {
        same_policy_facts((&self.derived, &self.snapshot), (&other.derived, &other.snapshot))
    }
}

/// Whether a policy derives the same facts of two snapshots with the same actors and units.
fn same_policy_facts(
    (derived, snapshot): (&Derived, &Snapshot),
    (before, of): (&Derived, &Snapshot),
) -> bool {
    let (here, there) = (snapshot.file(), of.file());
    let are_same_units =
        || here.units.iter().map(|unit| &unit.id).eq(there.units.iter().map(|unit| &unit.id));
    let are_same_actors =
        || here.actors.iter().map(|actor| &actor.id).eq(there.actors.iter().map(|actor| &actor.id));
    // Rules that depend on assignments refer to positions.
    derived == before && (derived.rules.is_none() || are_same_units() && are_same_actors())
}

/// The plan, with the snapshot for which clingo last judged it.
struct Candidate {
    known: DerivedWorld,
    plan: Plan,
    change: Change,
}

/// The latest snapshot, in which a plan was revalidated.
pub struct LatestSnapshot {
    pub world: Arc<AssembledSnapshot>,
    /// Digest of the snapshot in which clingo judged the plan, if it is another one.
    pub judged_digest: Option<String>,
}

/// The plan checked against a newer snapshot.
struct Rechecked {
    known: DerivedWorld,
    verdict: Verdict,
    recheck: Recheck,
}

impl<'a> Revalidation<'a> {
    /// Revalidates the plan against the latest snapshot. Returns the snapshot, the verdict and the lock under which it may be
    /// committed; nothing if the cluster changes too fast.
    ///
    /// The lock covers only the check. If other commits arrive faster than grounding, quick facts are derived under the lock;
    /// otherwise the plan is given up. Repairs and judgements run without it. Their result is the plan that is checked next. A
    /// feasible plan is judged once more if the policy's facts changed. What is left of the elective moves after a repair must
    /// gain enough again. All judgements together have the policy's wall budget.
    ///
    /// # Errors
    /// When the manifest changed, no snapshot can be taken, or clingo disagrees.
    pub async fn revalidate(&self) -> Result<Option<(CommitGuard<'a>, LatestSnapshot, Verdict)>, Error> {
        let known = self.planned_world().await?;
        let mut candidate = Candidate { known, plan: self.plan.clone(), change: Change::None };
        let (mut attempts, mut repair_lock) = (CommitAttempts::new(), None);
        let mut time_to_judge = Duration::from_millis(self.policy.wall_milliseconds);
        let mut took: Option<Duration> = None;
        loop {
            let is_quick = took.is_some_and(|took| took <= QUICK_DERIVATION);
            let derive_under_lock = attempts.derive_under_lock(is_quick);
            let ahead = if derive_under_lock { None } else { self.derive_ahead(&candidate).await? };
            took = ahead.as_ref().map(|ahead| ahead.took).or(took);
            let lock = self.ctx.commit_locks.commit.lock().await;
            let Some(Rechecked { known, verdict, recheck }) =
                self.under_lock(&candidate, ahead, derive_under_lock).await?
            else {
                drop(lock);
                if attempts.record_stale_derivation() {
                    continue;
                }
                return Ok(None);
            };
            let next = attempts.next(recheck);
            if next == CommitStep::Commit {
                let judged = candidate.known.world.digest();
                let judged_digest = (judged != known.world.digest()).then_some(judged);
                return Ok(Some((
                    (lock, repair_lock),
                    LatestSnapshot { world: known.world, judged_digest },
                    verdict,
                )));
            }
            drop(lock);
            let (plan, change) = match (next, verdict) {
                (CommitStep::Wait, _) => {
                    repair_lock =
                        tokio::time::timeout(REPAIR_TIMEOUT, self.ctx.commit_locks.repair.lock()).await.ok();
                    continue;
                }
                (CommitStep::Repair, _) => {
                    let Some(plan) = self.repair(&candidate, &known.snapshot).await? else {
                        // It is kept in part, or planned again.
                        attempts.cannot_repair();
                        continue;
                    };
                    (plan, Change::Repaired)
                }
                (CommitStep::Judge, Verdict::Valid(plan)) => (*plan, Change::None),
                (CommitStep::Judge, Verdict::Repaired(plan)) => (*plan, Change::Repaired),
                (CommitStep::Judge, Verdict::Partial(plan)) => {
                    (self.gated(*plan, &known.snapshot).await?, Change::Partial)
                }
                (CommitStep::GiveUp | CommitStep::Commit, _) | (CommitStep::Judge, Verdict::Stale) => {
                    return Ok(None);
                }
            };
            if time_to_judge.is_zero() && self.policy.requires_judge() {
                // It is planned again, with the whole budget.
                return Ok(None);
            }
            let plan = self.judged(&known, plan, &mut time_to_judge).await?;
            candidate = Candidate { known, plan, change };
        }
    }

    /// The snapshot of the plan, with its derived facts.
    async fn planned_world(&self) -> Result<DerivedWorld, Error> {
        let (world, plan) = (self.planned.clone(), self.plan.clone());
        let task = tokio::task::spawn_blocking(move || {
            let snapshot = match plan.world(&world.snapshot) {
                Cow::Borrowed(_) => world.snapshot.clone(),
                Cow::Owned(snapshot) => Arc::new(snapshot),
            };
            DerivedWorld { world, snapshot, derived: plan.derived }
        });
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    /// The plan as clingo judges it in this snapshot, in the time that is left.
    async fn judged(&self, known: &DerivedWorld, plan: Plan, left: &mut Duration) -> Result<Plan, Error> {
        let (begun, most) = (Instant::now(), *left);
        let judge = judge(self.policy).until(Arc::new(move || most.saturating_sub(begun.elapsed())));
        // The holder of the repair lock does not queue for a permit.
        let by = (judge, &Semaphore::new(1));
        let judged = judge_plan(self.key, (&known.world, &known.snapshot), plan, by, self.ctx).await;
        *left = most.saturating_sub(begun.elapsed());
        judged
    }

    /// The plan with conflicting actors placed again in the latest snapshot; nothing if that needs a search. It ends before
    /// others stop waiting for it.
    async fn repair(&self, candidate: &Candidate, newest: &Arc<Snapshot>) -> Result<Option<Plan>, Error> {
        let quick = portfolio::strategy(REPAIR_STRATEGY, Purpose::Production).ok();
        let Some(quick) = quick.map(|entry| entry.make(limits(self.policy))) else { return Ok(None) };
        let (before, plan, newest) = (candidate.known.world.clone(), candidate.plan.clone(), newest.clone());
        let gate = self.gate();
        let task = tokio::task::spawn_blocking(move || {
            repaired((&before.snapshot, &plan), &newest, quick.as_ref(), &gate)
        });
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    fn gate(&self) -> ElectiveGate {
        ElectiveGate::of(self.why, self.planned, self.policy, Some(self.application))
    }

    /// What is left of a plan, without elective moves that no longer gain enough.
    async fn gated(&self, plan: Plan, newest: &Arc<Snapshot>) -> Result<Plan, Error> {
        let (gate, newest) = (self.gate(), newest.clone());
        let task = tokio::task::spawn_blocking(move || pass(&gate, &newest, plan));
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    fn is_ruled(&self) -> bool {
        self.policy.rules().is_some()
    }

    /// Derives the policy's facts of the latest snapshot before the lock is taken.
    async fn derive_ahead(&self, candidate: &Candidate) -> Result<Option<Ahead>, Error> {
        if !self.is_ruled() {
            return Ok(None);
        }
        let world = latest_snapshot(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        if digest == candidate.known.world.digest() {
            return Ok(None);
        }
        let begun = Instant::now();
        let derived = self.derived(world).await?;
        Ok(Some(Ahead { digest, derived, took: begun.elapsed() }))
    }

    /// Facts that the policy derives of a snapshot.
    async fn derived(&self, world: Arc<AssembledSnapshot>) -> Result<Derived, Error> {
        let of_policy = judge(self.policy);
        let derived = tokio::task::spawn_blocking(move || of_policy.derive(&world.snapshot)).await;
        Ok(derived.map_err(|e| Error::Search(e.to_string()))?.map_err(PlanError::from)?)
    }

    /// Checks the plan under the lock; nothing if the snapshot differs from the one derived ahead, unless facts are derived
    /// `here`.
    async fn under_lock(
        &self,
        candidate: &Candidate,
        ahead: Option<Ahead>,
        here: bool,
    ) -> Result<Option<Rechecked>, Error> {
        let known = self.ctx.caches.applications.get(&crate::watch::caches::object_ref(self.key));
        if known.is_none_or(|known| Manifest::of(&known) != Manifest::of(self.application)) {
            return Err(Error::Overtaken);
        }
        // Takes no permit, as others wait for the lock.
        let world = latest_snapshot_unqueued(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        let is_ruled = self.is_ruled();
        let Candidate { known: before, plan, change } = candidate;
        if digest == before.world.digest() {
            let known =
                DerivedWorld { world, snapshot: before.snapshot.clone(), derived: before.derived.clone() };
            let verdict = change.verdict(plan.clone());
            return Ok(Some(Rechecked { known, verdict, recheck: Recheck::Judged }));
        }
        let derived = match (is_ruled, ahead) {
            (false, _) => Derived::default(),
            (true, Some(ahead)) if ahead.digest == digest => ahead.derived,
            (true, _) if here => self.derived(world.clone()).await?,
            (true, _) => return Ok(None),
        };
        let (planned, newest) = (before.world.clone(), world.clone());
        let (of_before, keep_partial) = (plan.clone(), self.keep_partial || *change != Change::None);
        let task = tokio::task::spawn_blocking(move || -> Result<_, PlanError> {
            // The latest snapshot may have other derived facts.
            let snapshot = newest.snapshot.with_derived(derived.clone())?;
            let mut verdict =
                control::revalidate_plan(&planned.snapshot, &of_before, &snapshot, keep_partial);
            if let Verdict::Valid(plan) | Verdict::Repaired(plan) | Verdict::Partial(plan) = &mut verdict {
                plan.moves = explain::moves(&snapshot, &plan.assignment);
            }
            Ok((verdict, DerivedWorld { world: newest, snapshot: Arc::new(snapshot), derived }))
        });
        let (verdict, known) = task.await.map_err(|e| Error::Search(e.to_string()))??;
        let recheck = match &verdict {
            Verdict::Stale => Recheck::Infeasible,
            Verdict::Partial(_) | Verdict::Repaired(_) => Recheck::Partial,
            Verdict::Valid(_) if known.has_policy_facts_of(before) => Recheck::Judged,
            Verdict::Valid(_) => Recheck::PolicyChanged,
        };
        let verdict = match verdict {
            Verdict::Valid(mut stands) => {
                // An unchanged plan keeps its judgement.
                stands.judged = plan.judged;
                change.verdict(*stands)
            }
            other => other,
        };
        Ok(Some(Rechecked { known, verdict, recheck }))
    }
}

/// The plan with conflicting actors placed again by `quick` in the latest snapshot, and without elective moves that do not gain
/// enough there.
fn repaired(
    (planned, plan): (&Snapshot, &Plan),
    newest: &Snapshot,
    quick: &dyn Strategy,
    gate: &ElectiveGate,
) -> Option<Plan> {
    let begun = Instant::now();
    let left = || REPAIR_TIMEOUT.saturating_sub(begun.elapsed());
    let stop = || left().is_zero();
    let budget = Budget { effort: None, seed: plan.seed, stop: &stop, left: Some(&left) };
    let repaired = control::repair_plan(planned, plan, newest, quick, &budget)?;
    Some(pass(gate, newest, *repaired))
}

/// The plan with the elective moves that pass the gate.
fn pass(gate: &ElectiveGate, newest: &Snapshot, plan: Plan) -> Plan {
    let mut plan = gate.apply(newest, plan);
    plan.moves = explain::moves(newest, &plan.assignment);
    plan
}

#[cfg(test)]
mod tests {
    use portfolio::{ClingoJudge, Limits};

    use super::*;

    #[test]
    fn policy_facts_are_compared_with_their_actors_and_units() {
        let world = |unit: &str, capacity: u32, program: &str| {
            let text = format!(
                r#"{{"version":1,"units":[{{"id":"{unit}","kind":"cpu","node":"n","capacity":{capacity}}}],"exchangeCost":{{"otherKind":1}},
                "actors":[{{"id":"shop/app/a-0","runsOn":{{"cpu":1}}}}],"policy":{{"name":"p","program":"{program}"}}}}"#
            );
            let snapshot = Snapshot::read(&text).unwrap();
            let derived = ClingoJudge::new(Limits::default(), 2_000).derive(&snapshot).unwrap();
            (derived, snapshot)
        };
        let rule = ":~ run_on(A,_). [1,A]";
        let (derived, snapshot) = world("u", 9, rule);
        let is_same =
            |(others, other): &(Derived, Snapshot)| same_policy_facts((others, other), (&derived, &snapshot));
        assert!(is_same(&world("u", 8, rule)), "a capacity that no rule reads");
        assert!(!is_same(&world("u", 9, ":~ run_on(A,_). [2,A]")));
        assert!(!is_same(&world("v", 9, rule)), "the first unit is another one");
        let (nothing, of_this) = world("u", 9, "");
        let (still_nothing, of_that) = world("v", 9, "");
        assert!(same_policy_facts((&nothing, &of_this), (&still_nothing, &of_that)), "there is no law");
    }

    #[test]
    fn moves_that_remain_of_a_plan_pay_by_themselves() {
        // Two actors that talk run apart; both could run on `n2/u`, beside one that they exchange little with.
        let world = |others: &str| {
            let text = format!(
                r#"{{"version":1,"units":[{{"id":"n0/u","kind":"cpu","node":"n0","capacity":9,"slots":1}},{{"id":"n1/u","kind":"cpu","node":"n1","capacity":9,"slots":1}},
                {{"id":"n2/u","kind":"cpu","node":"n2","capacity":9,"slots":3}}],"exchangeCost":{{"otherKind":1,"otherNode":30}},
                "actors":[{{"id":"shop/app/a-0","runsOn":{{"cpu":1}},"current":"n0/u"}},{{"id":"shop/app/a-1","runsOn":{{"cpu":1}},"current":"n1/u"}},
                {{"id":"shop/app/b-0","runsOn":{{"cpu":1}},"current":"n2/u","fixed":true}}{others}],
                "messages":[{{"from":"shop/app/a-0","to":"shop/app/a-1","count":1000}},{{"from":"shop/app/a-0","to":"shop/app/b-0","count":10}}],
                "policy":{{"name":"p","program":""}}}}"#
            );
            Snapshot::read(&text).unwrap()
        };
        let other = r#",{"id":"shop/other/c-0","runsOn":{"cpu":1},"current":"n2/u","fixed":true}"#;
        let (planned, newest) = (world(""), world(other));
        let greedy =
            portfolio::strategy(REPAIR_STRATEGY, Purpose::Production).unwrap().make(Limits::default());
        let strategy = portfolio::strategy("exhaustive", Purpose::Offline).unwrap().make(Limits::default());
        let judge = ClingoJudge::new(Limits::default(), 2_000);
        let plan =
            placement::plan(&planned, strategy.as_ref(), &judge, &Budget::effort(Some(100_000), 0)).unwrap();
        let places = |plan: &Plan, snapshot: &Snapshot| -> Vec<String> {
            plan.assignment
                .iter()
                .map(|unit| unit.map_or("-".to_owned(), |u| snapshot.unit_id(u).to_owned()))
                .collect()
        };
        assert_eq!(places(&plan, &planned)[..2], ["n2/u", "n2/u"]);
        let at_least = |least| ElectiveGate::with_least(least);
        for (least, expected) in [(0.0, ["n2/u", "n1/u"]), (0.1, ["n0/u", "n1/u"])] {
            let mended = repaired((&planned, &plan), &newest, greedy.as_ref(), &at_least(least)).unwrap();
            assert_eq!(places(&mended, &newest)[..2], expected, "{least}");
            assert_eq!(mended.moves.len(), usize::from(expected[0] == "n2/u"), "{least}");
        }
    }
}
