//! What becomes of a plan in the newest world, in which it is committed: while others wait to commit nothing is searched or
//! mended, no program is written out and nobody is asked to judge.

use std::sync::Arc;

use control::Verdict;
use crds::ActorApplication;
use placement::{Assignment, Derived, Judge, Judged, Plan, PlanError, Snapshot};
use portfolio::Use;
use tokio::sync::MutexGuard;
use world::{ApplicationKey, Policy, World};

use crate::context::Context;
use crate::error::Error;
use crate::look::{judge, limits, newest, newest_at_once};

/// The strategy that places again what collided.
const QUICK: &str = "greedy";
/// So often a plan is looked at in the newest world before it is made again.
const LOOKS: u32 = 6;
/// So often it is worked out before the lock what a program derives of the newest world; where the world changes faster, under
/// it.
const AHEAD: u32 = 2;
/// So often what was changed to fit a newer world is judged; where the world changes faster, it is committed without.
const JUDGEMENTS: u32 = 2;

/// A plan, and the world that it was made for.
pub struct Standing<'a> {
    pub planned: &'a Arc<World>,
    pub plan: Plan,
    /// Whether so much of it is kept as holds.
    pub settle: bool,
    pub key: &'a ApplicationKey,
    pub policy: &'a Policy,
    pub application: &'a ActorApplication,
    pub ctx: &'a Context,
}

/// What the policy derives of the world of this digest.
struct Ahead {
    digest: String,
    derived: Derived,
}

/// A plan in the world that it was last made or mended for.
struct At {
    world: Arc<World>,
    plan: Plan,
    /// Of one that was mended: the world with what the policy derives of it.
    mended: Option<Arc<Snapshot>>,
}

/// What becomes of the plan in a newer world.
struct Looked {
    world: Arc<World>,
    /// With what the policy derives of it.
    snapshot: Arc<Snapshot>,
    verdict: Verdict,
    /// Whether it is another plan than was judged, or may mean another thing to the policy.
    is_changed: bool,
}

/// What clingo made of a plan that was changed to fit a newer world.
#[derive(Default)]
struct Confirmed {
    /// In the world of which digest, who was where.
    known: Option<(String, Assignment)>,
    judged: Judged,
    judgements: u32,
}

impl Confirmed {
    /// Whether the plan is to be judged first; else it is told what is known of it.
    fn is_asked_first(&self, digest: &str, plan: &mut Plan) -> bool {
        let is_known = |(of, places): &(String, Assignment)| of == digest && *places == plan.assignment;
        if self.known.as_ref().is_some_and(is_known) {
            plan.judged = self.judged;
            return false;
        }
        self.judgements < JUDGEMENTS
    }

    fn is_told(&mut self, digest: String, plan: &Plan) {
        *self = Self {
            known: Some((digest, plan.assignment.clone())),
            judged: plan.judged,
            judgements: self.judgements + 1,
        };
    }
}

impl<'a> Standing<'a> {
    /// The newest world and what becomes of the plan in it, with the lock under which that may be committed; nothing
    /// where the world changes too fast.
    ///
    /// Under the lock the plan is checked, and nothing else; but where others commit faster than a policy's program can be written
    /// out, that too. What collided is placed again without it, and so is what was
    /// changed to fit another world judged; both are committed if they stand under it afterwards.
    ///
    /// # Errors
    /// When the manifest is another one by now, the world cannot be read, or who judges does not agree.
    pub async fn in_the_newest_world(
        &self,
    ) -> Result<Option<(MutexGuard<'a, ()>, Arc<World>, Verdict)>, Error> {
        let mut confirmed = Confirmed::default();
        let mut at = At { world: self.planned.clone(), plan: self.plan.clone(), mended: None };
        let (mut may_mend, mut missed) = (true, 0);
        for look in 1..=LOOKS {
            let is_too_fast = missed >= AHEAD;
            let ahead = if is_too_fast { None } else { self.look_ahead(&at).await? };
            let lock = self.ctx.commit.lock().await;
            let Some(looked) = self.under_lock(&at, ahead, is_too_fast).await? else {
                missed += 1;
                continue;
            };
            let Looked { world, snapshot, mut verdict, is_changed } = looked;
            match &mut verdict {
                Verdict::Overtaken | Verdict::Partly(_) if may_mend && look < LOOKS => {
                    drop(lock);
                    match self.mended(&at, &snapshot).await? {
                        Some(plan) => at = At { world, plan, mended: Some(snapshot) },
                        // It is kept in part, or made again.
                        None => may_mend = false,
                    }
                    continue;
                }
                Verdict::Stands(plan) | Verdict::Mended(plan) | Verdict::Partly(plan) if is_changed => {
                    let digest = world.digest();
                    if confirmed.is_asked_first(&digest, plan) {
                        drop(lock);
                        confirmed.is_told(digest, &self.judged(snapshot, (**plan).clone()).await?);
                        continue;
                    }
                    if plan.judged == Judged::None {
                        self.ctx.metrics.judged.with_label_values(&[<&str>::from(plan.judged)]).inc();
                    }
                }
                _ => {}
            }
            return Ok(Some((lock, world, verdict)));
        }
        Ok(None)
    }

    /// The plan with what clingo makes of it in this world.
    async fn judged(&self, snapshot: Arc<Snapshot>, plan: Plan) -> Result<Plan, Error> {
        let (judge, world) = (judge(self.policy), snapshot.clone());
        let task = tokio::task::spawn_blocking(move || plan.judged_again(&world, &judge));
        let judged = task.await.map_err(|e| Error::Search(e.to_string()))?;
        self.ctx.mismatches.judged(self.key, &snapshot, judged, &self.ctx.metrics)
    }

    /// The plan with what collided placed again in this world; nothing where only a search can do that.
    async fn mended(&self, at: &At, newest: &Arc<Snapshot>) -> Result<Option<Plan>, Error> {
        let quick = portfolio::strategy(QUICK, Use::Production).ok();
        let Some(quick) = quick.map(|entry| entry.make(limits(self.policy))) else { return Ok(None) };
        let (before, plan, newest) = (at.world.clone(), at.plan.clone(), newest.clone());
        let task = tokio::task::spawn_blocking(move || {
            let mut mended = control::mend(&before.snapshot, &plan, &newest, quick.as_ref())?;
            mended.moves = explain::moves(&newest, &mended.assignment);
            Some(*mended)
        });
        task.await.map_err(|e| Error::Search(e.to_string()))
    }

    fn is_ruled(&self) -> bool {
        self.policy.rules().is_some()
    }

    /// What the policy's program derives of the world as it is now, before anybody has to wait for it.
    async fn look_ahead(&self, at: &At) -> Result<Option<Ahead>, Error> {
        if !self.is_ruled() {
            return Ok(None);
        }
        let world = newest(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        if digest == at.world.digest() {
            return Ok(None);
        }
        Ok(Some(Ahead { digest, derived: self.derived(world).await? }))
    }

    /// What the policy's program derives of a world.
    async fn derived(&self, world: Arc<World>) -> Result<Derived, Error> {
        let of_policy = judge(self.policy);
        let derived = tokio::task::spawn_blocking(move || of_policy.derive(&world.snapshot)).await;
        Ok(derived.map_err(|e| Error::Search(e.to_string()))?.map_err(PlanError::from)?)
    }

    /// What becomes of the plan; nothing where the world is another one than was looked at ahead, unless it is written out
    /// `here` what the program derives of it.
    async fn under_lock(&self, at: &At, ahead: Option<Ahead>, here: bool) -> Result<Option<Looked>, Error> {
        let known = self.ctx.caches.applications.get(&crate::caches::object_ref(self.key));
        if known.is_none_or(|known| known.metadata.generation != self.application.metadata.generation) {
            return Err(Error::Overtaken);
        }
        // Whoever commits waits for nobody who looks.
        let world = newest_at_once(self.ctx, self.key, self.policy).await?;
        let digest = world.digest();
        let (was_mended, is_ruled) = (at.mended.is_some(), self.is_ruled());
        if digest == at.world.digest() {
            let plan = Box::new(at.plan.clone());
            let verdict = if was_mended { Verdict::Mended(plan) } else { Verdict::Stands(plan) };
            let snapshot = at.mended.clone().unwrap_or_else(|| Arc::new(world.snapshot.clone()));
            return Ok(Some(Looked { world, snapshot, verdict, is_changed: was_mended }));
        }
        let derived = match (is_ruled, ahead) {
            (false, _) => Derived::default(),
            (true, Some(ahead)) if ahead.digest == digest => ahead.derived,
            (true, _) if here => self.derived(world.clone()).await?,
            (true, _) => return Ok(None),
        };
        let (before, newest) = (at.world.clone(), world.clone());
        let (plan, settle) = (at.plan.clone(), self.settle || was_mended);
        let task = tokio::task::spawn_blocking(move || -> Result<_, PlanError> {
            // What the policy derives may be another thing in the newest world.
            let snapshot = newest.snapshot.with_derived(derived)?;
            let mut verdict = control::still_stands(&before.snapshot, &plan, &snapshot, settle);
            if let Verdict::Stands(plan) | Verdict::Mended(plan) | Verdict::Partly(plan) = &mut verdict {
                plan.moves = explain::moves(&snapshot, &plan.assignment);
            }
            Ok((verdict, snapshot))
        });
        let (verdict, snapshot) = task.await.map_err(|e| Error::Search(e.to_string()))??;
        // Who stands where it was planned to was judged there, and no program says another thing of it here.
        let is_changed = is_ruled || was_mended || !matches!(verdict, Verdict::Stands(_));
        let verdict = match verdict {
            Verdict::Stands(plan) if was_mended => Verdict::Mended(plan),
            other => other,
        };
        Ok(Some(Looked { world, snapshot: Arc::new(snapshot), verdict, is_changed }))
    }
}

#[cfg(test)]
mod tests {
    use placement::{Budget, NoPolicy};
    use portfolio::Limits;

    use super::*;

    #[test]
    fn what_was_judged_is_known_again_and_a_world_that_changes_too_fast_is_not_waited_for() {
        let world = r#"{"version":1,"units":[{"id":"u","kind":"cpu","node":"n","capacity":9}],"exchangeCost":{"otherKind":1},
            "actors":[{"id":"shop/app/a-0","runsOn":{"cpu":1}}]}"#;
        let snapshot = Snapshot::read(world).unwrap();
        let quick = portfolio::strategy(QUICK, Use::Production).unwrap().make(Limits::default());
        let mut plan =
            placement::plan(&snapshot, quick.as_ref(), &NoPolicy, &Budget::effort(None, 1)).unwrap();
        let judged = Plan { judged: Judged::All, ..plan.clone() };
        let mut confirmed = Confirmed::default();
        assert!(confirmed.is_asked_first("one", &mut plan));
        confirmed.is_told("one".to_owned(), &judged);
        assert!(!confirmed.is_asked_first("one", &mut plan));
        assert_eq!(plan.judged, Judged::All);
        // Another place or another world is another plan, and what was said of the last is not said of it.
        let mut other = Plan { judged: Judged::None, assignment: Assignment::of(None, 1), ..plan.clone() };
        assert!(confirmed.is_asked_first("one", &mut other));
        assert!(confirmed.is_asked_first("two", &mut other));
        confirmed.is_told("two".to_owned(), &judged);
        assert!(!confirmed.is_asked_first("three", &mut other));
        assert_eq!(other.judged, Judged::None);
    }
}
